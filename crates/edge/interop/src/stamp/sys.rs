//! adjtimex(2).

use fabricmark_units::Nanos;

/// What the kernel says of CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockState {
    /// Whether it follows another clock.
    pub is_synchronised: bool,
    /// How far it may be from UTC.
    pub error_max: Nanos,
}

/// Asks adjtimex(2). Who sets the clock tells the kernel how well; a service that sets it without
/// telling (phc2sys of linuxptp does so) leaves it unsynchronised. A kernel that does not answer is taken
/// for one whose clock is not, with the largest error that Linux knows: 16 s (NTP_PHASE_LIMIT).
pub(super) fn clock_state() -> ClockState {
    // SAFETY: a plain structure of integers, for which zero is valid; it asks for no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure that `state` is.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    if result < 0 {
        return ClockState { is_synchronised: false, error_max: Nanos::from_secs(16) };
    }
    let is_synchronised = result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    let error_max = Nanos(u64::try_from(state.maxerror).unwrap_or(u64::MAX).saturating_mul(1_000));
    ClockState { is_synchronised, error_max }
}
