//! The processor's time-stamp counter.

/// Whether the counter runs at one rate in every power state: CPUID 0x80000007, EDX bit 8 (Intel
/// SDM 3, "Invariant TSC").
#[cfg(target_arch = "x86_64")]
pub(super) fn has_invariant_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0000;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    __cpuid(EXTENDED).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & (1 << 8) != 0
}

/// Reads the counter, after every instruction before it is done: RDTSC alone may run ahead of them,
/// and two of them may then count backwards (rdtsc_ordered, arch/x86/include/asm/tsc.h).
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has both instructions, and neither touches memory. Where the
    // kernel forbids RDTSC (PR_SET_TSC), the process ends with a signal.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// There is no such counter.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_invariant_counter() -> bool {
    false
}

/// Never read: `has_invariant_counter` says no.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn ticks() -> u64 {
    0
}
