//! adjtimex(2).

use fabricmark_units::Nanos;

/// State of CLOCK_REALTIME in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockState {
    /// Whether it is synchronised (STA_UNSYNC is not set).
    pub is_synchronised: bool,
    /// Maximum error against UTC.
    pub error_max: Nanos,
}

/// Calls adjtimex(2). NTP daemons tell the kernel how well they set the clock; a service that does not (phc2sys of
/// linuxptp) leaves it unsynchronised. If the call fails, the clock is taken as unsynchronised with the largest error
/// that Linux knows: 16 s (NTP_PHASE_LIMIT).
pub(super) fn clock_state() -> ClockState {
    // SAFETY: all zeros are a valid value of a plain structure of integers, and request no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a `timex` that outlives the call.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    if result < 0 {
        return ClockState { is_synchronised: false, error_max: Nanos::from_secs(16) };
    }
    let is_synchronised = result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    let error_max = Nanos(u64::try_from(state.maxerror).unwrap_or(u64::MAX).saturating_mul(1_000));
    ClockState { is_synchronised, error_max }
}
