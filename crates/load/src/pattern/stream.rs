//! Stream: one end writes without pause, the other reads.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::Counts;
use fabricmark_units::Nanos;

use crate::clock::now_ns;
use crate::control::Control;
use crate::crowd::{Crowd, Interest};
use crate::transport::{Flow, Moved, is_timeout};

/// Writes that one flow makes before the next one's turn, where several share a thread.
const TURN: u32 = 16;

/// Sends payloads until told to stop.
pub fn send(flow: &mut impl Flow, payload: &mut [u8], control: &Control) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let began = now_ns();
    while !control.stop.load(Relaxed) {
        match flow.send(payload) {
            Ok(moved) => add(&mut counts, moved),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}

/// Sends payloads over many flows, each in turn when it can take some; gives each flow's payloads.
pub fn send_crowd(
    flows: &mut [impl Flow],
    payload: &mut [u8],
    control: &Control,
) -> io::Result<(Counts, Vec<u64>)> {
    let mut counts = Counts::default();
    let mut of_each = vec![0; flows.len()];
    let mut crowd = Crowd::of(flows, Interest::Write)?;
    let began = now_ns();
    while !control.stop.load(Relaxed) {
        for ready in crowd.wait(flows)? {
            for _ in 0..TURN {
                match flows[ready].send(payload) {
                    Ok(moved) => {
                        add(&mut counts, moved);
                        of_each[ready] += moved.payloads;
                    }
                    Err(error) if is_timeout(&error) => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }
    for (flow, sent) in flows.iter_mut().zip(&mut of_each) {
        let moved = flow.settle()?;
        add(&mut counts, moved);
        *sent += moved.payloads;
    }
    counts.elapsed_ns = now_ns() - began;
    Ok((counts, of_each))
}

pub(super) fn add(counts: &mut Counts, moved: Moved) {
    counts.calls += moved.payloads;
    counts.bytes += moved.bytes;
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

    /// The ramp of a run of which at least `omit` does not count.
    pub fn of(Nanos(duration_ns): Nanos, Nanos(omit_ns): Nanos) -> Self {
        let length_ns = omit_ns.max(duration_ns / Self::SHARE);
        let looks_left = (length_ns / Self::LOOK_EVERY_NS).max(Self::LOOKS_MIN);
        Self { length_ns, looks_left, longest_ns: length_ns.max(duration_ns / 2), ends_ns: None }
    }

    /// The ramp of a run that ends with an amount: the first arrival, since nobody knows how long it takes.
    pub fn of_an_amount() -> Self {
        Self { length_ns: 0, looks_left: 0, longest_ns: 0, ends_ns: None }
    }

    /// Whether an arrival is the last that does not count; if so, gives the most bytes that may wait
    /// behind it.
    fn ends(&mut self, now_ns: u64, flow: &mut impl Flow) -> io::Result<Option<u64>> {
        let in_ns = |ns| now_ns.saturating_add(ns);
        let first = (in_ns(self.length_ns), in_ns(self.longest_ns));
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

/// What a receiver knows of the stream so far.
struct Arrivals {
    counts: Counts,
    ramp: Ramp,
    opened_ns: Option<u64>,
    last_ns: u64,
}

impl Arrivals {
    fn new(ramp: Ramp) -> Self {
        Self { counts: Counts::default(), ramp, opened_ns: None, last_ns: 0 }
    }

    fn arrive(&mut self, moved: Moved, flow: &mut impl Flow) -> io::Result<()> {
        self.last_ns = now_ns();
        add(&mut self.counts, moved);
        if self.opened_ns.is_none()
            && let Some(waiting_bytes) = self.ramp.ends(self.last_ns, flow)?
        {
            self.opened_ns = Some(self.last_ns);
            self.counts.ramp_bytes = self.counts.bytes;
            self.counts.ramp_calls = self.counts.calls;
            self.counts.waiting_bytes = waiting_bytes;
        }
        Ok(())
    }

    /// Whether nothing more is to be waited for, although no flow has said so.
    fn is_drained(&self, control: &Control) -> bool {
        control.is_drained(self.counts.bytes, now_ns().saturating_sub(self.last_ns))
    }

    fn end(mut self) -> Counts {
        self.counts.elapsed_ns = self.opened_ns.map_or(0, |opened_ns| self.last_ns - opened_ns);
        self.counts
    }
}

/// Receives until the stream ends: at its end where it has one, else when all that was sent has
/// arrived, or nothing for the time that the coordinator allows.
pub fn receive(
    flow: &mut impl Flow,
    buffer: &mut [u8],
    ramp: Ramp,
    control: &Control,
) -> io::Result<Counts> {
    let mut arrivals = Arrivals::new(ramp);
    loop {
        match flow.receive(buffer) {
            Ok(moved) if moved.bytes == 0 => break,
            Ok(moved) => {
                arrivals.arrive(moved, flow)?;
                if !flow.has_end() && arrivals.counts.bytes == control.expected_bytes.load(Relaxed)
                {
                    break;
                }
            }
            Err(error) if is_timeout(&error) => {
                if !flow.has_end() && arrivals.is_drained(control) && flow.waiting_bytes()? == 0 {
                    break;
                }
                control.check().map_err(io::Error::other)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(arrivals.end())
}

/// Receives many streams until all of them have ended.
pub fn receive_crowd(
    flows: &mut [impl Flow],
    buffer: &mut [u8],
    ramp: Ramp,
    control: &Control,
) -> io::Result<Counts> {
    let mut arrivals = Arrivals::new(ramp);
    let mut crowd = Crowd::of(flows, Interest::Read)?;
    let (mut open, has_end) = (flows.len(), flows.iter().all(Flow::has_end));
    while open > 0 {
        let ready = crowd.wait(flows)?;
        control.check().map_err(io::Error::other)?;
        if ready.is_empty()
            && !has_end
            && arrivals.is_drained(control)
            && is_nothing_waiting(flows)?
        {
            break;
        }
        for ready in ready {
            let flow = &mut flows[ready];
            match flow.receive(buffer) {
                Ok(moved) if moved.bytes == 0 => {
                    crowd.forget(ready, flows)?;
                    open -= 1;
                }
                Ok(moved) => arrivals.arrive(moved, flow)?,
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if !has_end && arrivals.counts.bytes == control.expected_bytes.load(Relaxed) {
            break;
        }
    }
    Ok(arrivals.end())
}

fn is_nothing_waiting(flows: &mut [impl Flow]) -> io::Result<bool> {
    for flow in flows {
        if flow.waiting_bytes()? > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use super::*;
    use crate::pattern::exchange::Asked;
    use crate::transport::Message;

    /// Arrivals of 100 bytes, `waiting` of them behind the first.
    struct Backlog {
        arrivals: u64,
        waiting: u64,
    }

    impl Flow for Backlog {
        fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
            Ok(Moved::one(payload.len()))
        }

        fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
            let was_last = self.arrivals == 0;
            self.arrivals = self.arrivals.saturating_sub(1);
            self.waiting = self.waiting.saturating_sub(1);
            Ok(if was_last { Moved::default() } else { Moved::one(100) })
        }

        fn waiting_bytes(&mut self) -> io::Result<u64> {
            Ok(100 * self.waiting)
        }

        fn send_message(&mut self, _: &mut [u8], _: u64) -> io::Result<()> {
            Ok(())
        }

        fn receive_message(&mut self, _: &mut [u8]) -> io::Result<Message> {
            Ok(Message::End)
        }

        fn has_end(&self) -> bool {
            true
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }

    #[test]
    fn a_ramp_without_end_counts_nothing() {
        let mut ramp = Ramp::of(Nanos(u64::MAX), Nanos(u64::MAX));
        let mut flow = Backlog { arrivals: 2, waiting: 0 };
        assert_eq!(ramp.ends(1_000, &mut flow).unwrap(), None);
        assert_eq!(ramp.ends(u64::MAX - 1, &mut flow).unwrap(), None);
        let mut asked = Asked::since(1_000, Nanos(u64::MAX));
        asked.take(2_000, 1_000);
        let counts = asked.until(2_000, 1, &[0; 9]).counts;
        assert_eq!((counts.calls, counts.ramp_calls, counts.elapsed_ns), (1, 1, 0));
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
