//! Stream: one end writes without pause, the other reads.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::Counts;
use fabricmark_units::Nanos;

use crate::clock::now_ns;
use crate::endpoint::Control;
use crate::transport::{Flow, is_timeout};

/// Sends payloads until told to stop.
pub fn send(flow: &mut impl Flow, payload: &mut [u8], control: &Control) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let began = now_ns();
    while !control.stop.load(Relaxed) {
        match flow.send(payload) {
            Ok(bytes) => {
                counts.calls += 1;
                counts.bytes += bytes as u64;
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}

/// The part of a stream that does not count: the first twentieth of the run, and then whatever still
/// waits behind an arrival, since a receiver that has just slept through some milliseconds would
/// count their bytes in no time.
#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    length_ns: u64,
    /// A receiver found behind in each of so many looks is the slower end, and stays behind. Not a
    /// time, which one long sleep would use up.
    looks_left: u64,
    /// Beyond the middle of the run there would be little left to count.
    longest_ns: u64,
    /// The next look, and the last one.
    ends_ns: Option<(u64, u64)>,
}

impl Ramp {
    /// A bucket of 64 KiB in front of a 1 Gbit/s link adds 0.5 % to a run of 0.1 s, and 0.03 % to
    /// what follows its twentieth.
    const SHARE: u64 = 20;
    /// A look costs a system call, 0.2 us: 0.2 % of this.
    const LOOK_EVERY_NS: u64 = 100_000;
    const LOOKS_MIN: u64 = 50;

    /// The ramp of a run.
    pub fn of(Nanos(duration_ns): Nanos) -> Self {
        let length_ns = duration_ns / Self::SHARE;
        let looks_left = (length_ns / Self::LOOK_EVERY_NS).max(Self::LOOKS_MIN);
        Self { length_ns, looks_left, longest_ns: duration_ns / 2, ends_ns: None }
    }

    /// Whether an arrival is the last that does not count; if so, gives the most bytes that may wait
    /// behind it.
    fn ends(&mut self, now_ns: u64, flow: &mut impl Flow) -> io::Result<Option<u64>> {
        let first = (now_ns + self.length_ns, now_ns + self.longest_ns);
        let (next_ns, last_ns) = self.ends_ns.get_or_insert(first);
        if now_ns < *next_ns {
            return Ok(None);
        }
        let waiting_bytes = flow.waiting_bytes()?;
        if waiting_bytes == 0 || self.looks_left == 0 || now_ns >= *last_ns {
            return Ok(Some(waiting_bytes));
        }
        self.looks_left -= 1;
        *next_ns = now_ns + Self::LOOK_EVERY_NS;
        Ok(None)
    }
}

/// Receives until the stream ends: at its end where it has one, else when all that was sent has
/// arrived, or nothing for the time that the coordinator allows.
pub fn receive(
    flow: &mut impl Flow,
    buffer: &mut [u8],
    mut ramp: Ramp,
    control: &Control,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let (mut opened_ns, mut last_ns) = (None, 0);
    loop {
        match flow.receive(buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                last_ns = now_ns();
                counts.calls += 1;
                counts.bytes += bytes as u64;
                if opened_ns.is_none()
                    && let Some(waiting_bytes) = ramp.ends(last_ns, flow)?
                {
                    opened_ns = Some(last_ns);
                    counts.ramp_bytes = counts.bytes;
                    counts.waiting_bytes = waiting_bytes;
                }
                if counts.calls == control.expected.load(Relaxed) {
                    break;
                }
            }
            Err(error) if is_timeout(&error) => {
                if control.is_drained(counts.calls, now_ns().saturating_sub(last_ns)) {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    counts.elapsed_ns = opened_ns.map_or(0, |opened_ns| last_ns - opened_ns);
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals of 100 bytes, `waiting` of them behind the first.
    struct Backlog {
        arrivals: u64,
        waiting: u64,
    }

    impl Flow for Backlog {
        fn send(&mut self, payload: &mut [u8]) -> io::Result<usize> {
            Ok(payload.len())
        }

        fn receive(&mut self, _: &mut [u8]) -> io::Result<usize> {
            let was_last = self.arrivals == 0;
            self.arrivals = self.arrivals.saturating_sub(1);
            self.waiting = self.waiting.saturating_sub(1);
            Ok(if was_last { 0 } else { 100 })
        }

        fn waiting_bytes(&mut self) -> io::Result<u64> {
            Ok(100 * self.waiting)
        }

        fn ask(&mut self, _: &mut [u8], _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }

        fn answer(&mut self, _: &mut [u8]) -> io::Result<bool> {
            Ok(false)
        }
    }

    #[test]
    fn what_waits_at_the_end_of_the_ramp_belongs_to_it() {
        let mut ramp = Ramp { length_ns: 10, looks_left: 5, longest_ns: 1 << 20, ends_ns: None };
        let mut flow = Backlog { arrivals: 20, waiting: 2 };
        assert_eq!(ramp.ends(1_000, &mut flow).unwrap(), None, "the ramp begins");
        assert_eq!(ramp.ends(1_010, &mut flow).unwrap(), None, "two wait");
        flow.waiting = 0;
        assert_eq!(ramp.ends(1_020, &mut flow).unwrap(), None, "too early for another look");
        assert_eq!(ramp.ends(101_010, &mut flow).unwrap(), Some(0));
    }

    #[test]
    fn a_receiver_that_never_catches_up_counts_what_waits_and_says_how_much() {
        let ramp = Ramp { length_ns: 0, looks_left: 0, longest_ns: 1 << 20, ends_ns: None };
        let mut flow = Backlog { arrivals: 20, waiting: 8 };
        let counts = receive(&mut flow, &mut [0; 100], ramp, &Control::default()).unwrap();
        assert_eq!(counts.bytes, 2_000);
        assert_eq!((counts.ramp_bytes, counts.waiting_bytes), (100, 700));
    }
}
