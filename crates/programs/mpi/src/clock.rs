//! The clock of the ranks, and its synchronisation.
//!
//! Each rank reads CLOCK_MONOTONIC. Ranks of one host read the same clock. For other ranks rank 0 measures the offset by
//! round trips, as NTP does, and takes the one with the shortest RTT: the true offset differs by at most half of it
//! (Cristian 1989). The drift between measurements is extrapolated.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::sys::{Elements, MpiError, World};

/// Round trips per measurement: the shortest is not delayed by the scheduler.
const ROUND_TRIPS: usize = 100;

/// Nanoseconds of CLOCK_MONOTONIC, whose start is that of the host.
#[inline]
pub fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Text that is equal for processes that read the same clock: id of the boot, and time namespace.
pub fn identity() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// Measured offset of a rank's clock from that of rank 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Offset {
    /// When it was measured, by the clock of rank 0.
    at_ns: i64,
    /// The rank's clock minus that of rank 0.
    offset_ns: i64,
    /// Maximum error: half the shortest RTT.
    error_ns: i64,
}

/// Offsets of the clocks of all ranks from that of rank 0, known to rank 0.
#[derive(Debug)]
pub struct Clocks {
    /// First and latest measurement of each rank; `None` for ranks with the clock of rank 0.
    ranks: Vec<Option<(Offset, Offset)>>,
    /// Largest measured offset of a rank that has the clock of rank 0, less its maximum error: 0 unless the
    /// measurement is wrong.
    doubt_ns: i64,
    /// Largest error of a time that was extrapolated until the next measurement.
    drift_error_ns: i64,
    /// Largest sum of the errors of two ranks.
    error_ns: i64,
}

impl Clocks {
    /// Clocks of ranks; `is_same` says which have the clock of rank 0.
    pub fn new(is_same: &[bool]) -> Self {
        let unknown = |&same: &bool| (!same).then_some(Default::default());
        let ranks = is_same.iter().map(unknown).collect();
        Self { ranks, doubt_ns: 0, drift_error_ns: 0, error_ns: 0 }
    }

    /// Measures the offsets of all ranks of the group. All of them call it; `clocks` is that of rank 0.
    pub fn synchronise(clocks: Option<&mut Self>, world: &World) -> Result<(), MpiError> {
        let Some(clocks) = clocks else { return answer(world) };
        for rank in 1..world.group() {
            let offset = measure(world, rank)?;
            let own_ns = offset.at_ns + offset.offset_ns;
            let extrapolated_ns = clocks.common_ns(rank as usize, own_ns);
            if clocks.is_measured(rank) {
                let error_ns = (extrapolated_ns - offset.at_ns).abs();
                clocks.drift_error_ns = clocks.drift_error_ns.max(error_ns);
            }
            match &mut clocks.ranks[rank as usize] {
                Some((first, latest)) => {
                    if first.at_ns == 0 {
                        *first = offset;
                    }
                    *latest = offset;
                }
                None => {
                    let doubt_ns = offset.offset_ns.abs() - offset.error_ns;
                    clocks.doubt_ns = clocks.doubt_ns.max(doubt_ns);
                }
            }
        }
        let errors = clocks.ranks.iter().flatten().map(|(_, latest)| latest.error_ns);
        let mut errors: Vec<i64> = errors.collect();
        errors.sort_unstable();
        clocks.error_ns = clocks.error_ns.max(errors.iter().rev().take(2).sum());
        Ok(())
    }

    /// Whether all ranks read the clock of rank 0.
    pub fn are_one(&self) -> bool {
        self.ranks.iter().all(Option::is_none)
    }

    /// Whether the drift of a rank's clock is known.
    fn is_measured(&self, rank: u32) -> bool {
        let offsets = self.ranks.get(rank as usize).copied().flatten();
        offsets.is_some_and(|(first, latest)| first.at_ns != latest.at_ns)
    }

    /// A time of a rank's clock by the clock of rank 0.
    pub fn common_ns(&self, rank: usize, own_ns: i64) -> i64 {
        let Some(Some((first, latest))) = self.ranks.get(rank) else { return own_ns };
        let span_ns = latest.at_ns - first.at_ns;
        let at_ns = own_ns - latest.offset_ns;
        let drift = match span_ns {
            0 => 0.0,
            _ => (latest.offset_ns - first.offset_ns) as f64 / span_ns as f64,
        };
        at_ns - (drift * (at_ns - latest.at_ns) as f64).round() as i64
    }

    /// A time of the clock of rank 0 by a rank's clock: the inverse of [`Self::common_ns`].
    pub fn own_ns(&self, rank: usize, common_ns: i64) -> i64 {
        let guess_ns = common_ns + (common_ns - self.common_ns(rank, common_ns));
        guess_ns + (common_ns - self.common_ns(rank, guess_ns))
    }

    /// Maximum error of the difference of two ranks' times in ns, over all measurements; 0 if all have one clock.
    pub fn error_ns(&self) -> u64 {
        self.error_ns.max(self.drift_error_ns).unsigned_abs()
    }

    /// How far the offset of a rank on the host of rank 0 exceeds its maximum error; 0 unless the measurement is wrong.
    pub fn doubt_ns(&self) -> i64 {
        self.doubt_ns
    }
}

/// Rank 0's side of the measurement.
fn measure(world: &World, rank: u32) -> Result<Offset, MpiError> {
    let mut best: Option<(i64, Offset)> = None;
    for _ in 0..ROUND_TRIPS {
        let mut told = [0; 8];
        let sent_ns = now_ns();
        world.send(&told, Elements::BYTES, rank)?;
        world.receive(&mut told, Elements::BYTES, rank)?;
        let received_ns = now_ns();
        let rtt_ns = received_ns - sent_ns;
        if best.is_none_or(|(least, _)| rtt_ns < least) {
            let at_ns = sent_ns + rtt_ns / 2;
            let offset_ns = i64::from_ne_bytes(told) - at_ns;
            best = Some((rtt_ns, Offset { at_ns, offset_ns, error_ns: (rtt_ns + 1) / 2 }));
        }
    }
    Ok(best.map(|(_, offset)| offset).unwrap_or_default())
}

/// The other ranks' side.
fn answer(world: &World) -> Result<(), MpiError> {
    if !world.is_in_group() {
        return Ok(());
    }
    for _ in 0..ROUND_TRIPS {
        let mut asked = [0; 8];
        world.receive(&mut asked, Elements::BYTES, 0)?;
        world.send(&now_ns().to_ne_bytes(), Elements::BYTES, 0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_clock_that_drifts_are_extrapolated() {
        let mut clocks = Clocks::new(&[true, false]);
        let offset = |at_ns, offset_ns| Offset { at_ns, offset_ns, error_ns: 40 };
        // 100 parts per million faster.
        clocks.ranks[1] = Some((offset(1_000_000, 500), offset(2_000_000, 600)));
        assert_eq!(clocks.common_ns(0, 7), 7);
        for at_ns in [1_000_000, 2_000_000, 3_000_000] {
            let own_ns = at_ns + 500 + (at_ns - 1_000_000) / 10_000;
            assert!((clocks.common_ns(1, own_ns) - at_ns).abs() <= 1, "{at_ns}");
            assert!((clocks.own_ns(1, at_ns) - own_ns).abs() <= 1, "{at_ns}");
        }
        assert!(!clocks.are_one() && Clocks::new(&[true, true]).are_one());
    }
}
