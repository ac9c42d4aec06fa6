//! What a queue asks of the wire before it, as whoever reads the device must know it.

use std::cell::Cell;
use std::rc::Rc;

use fabricmark_link::{Counters, Element, Input, Output};
use fabricmark_units::{Instant, Nanos};

/// The pauses that a queue asked for so far; copies are of the same. As the end of a net it is where they go.
///
/// A queue asks again before its request ends and says when it wants packets again, so the times of the
/// requests do not matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses(Rc<Cell<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// When the pause began that has not ended.
    since: Option<Instant>,
    count: u64,
    /// Of those that have ended.
    time: Nanos,
}

impl Pauses {
    /// Whether one has begun and not ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.get().since.is_some()
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.get().count
    }

    /// How long they were until `now`.
    pub(crate) fn time(&self, now: Instant) -> Nanos {
        let State { since, time, .. } = self.0.get();
        Nanos(time.0 + since.map_or(0, |since| now.0.saturating_sub(since.0)))
    }
}

impl<T> Element<T> for Pauses {
    fn step(&mut self, now: Instant, input: Input<T>, _: &mut Counters) -> Output<T> {
        if let Input::Pause { time, .. } = input {
            let mut state = self.0.get();
            if time == Nanos(0) {
                (state.time, state.since) = (self.time(now), None);
            } else if state.since.is_none() {
                (state.since, state.count) = (Some(now), state.count + 1);
            }
            self.0.set(state);
        }
        Output::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_is_asked_for_again_is_one() {
        let pauses = Pauses::default();
        let mut signal = pauses.clone();
        for (at, time) in [(10, 50), (30, 50), (70, 0), (80, 0), (100, 50)] {
            let input = Input::<()>::Pause { port: 0, time: Nanos(time) };
            let _ = signal.step(Instant(at), input, &mut Counters::default());
        }
        assert_eq!((pauses.is_stopped(), pauses.count()), (true, 2));
        assert_eq!(pauses.time(Instant(140)), Nanos(100));
    }
}
