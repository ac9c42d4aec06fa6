//! The clock of the data plane: CLOCK_MONOTONIC through the vDSO, 21 ns a reading on the machine
//! of `docs/measured.md`.

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the first reading in this process.
pub(crate) fn now_ns() -> u64 {
    START.elapsed().as_nanos() as u64
}
