//! A link that goes down and comes up again, as the circuit to Chicago in P3.

use fabricmark_units::{Instant, Nanos};

use crate::{Counters, Element, Input, Invalid, Output, Reason, some};

/// Drops packets while the link is down: up for a time, down for a time, repeatedly. Input port 0, output port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    up: Nanos,
    period: Nanos,
    phase: Nanos,
}

impl Outage {
    /// Up for `up`, then down for `down`. Instant 0 is `phase` into the first period.
    pub fn new(up: Nanos, down: Nanos, phase: Nanos) -> Result<Self, Invalid> {
        let period = up + down;
        some("the period of up and down", period.0)?;
        Ok(Self { up, period, phase: Nanos(phase.0 % period.0) })
    }

    /// Whether packets pass at `now`.
    pub fn is_up(&self, now: Instant) -> bool {
        (u128::from(now.0) + u128::from(self.phase.0)) % u128::from(self.period.0)
            < u128::from(self.up.0)
    }
}

impl<T> Element<T> for Outage {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        match input {
            Input::Packet { packet, .. } if self.is_up(now) => Output::Packet { port: 0, packet },
            Input::Packet { packet, .. } => {
                counters.drop(Reason::Down, packet.length);
                Output::Idle
            }
            Input::Pause { .. } | Input::Wake => Output::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(up: u64, down: u64, phase: u64) -> String {
        let secs = Nanos::from_secs;
        let outage = Outage::new(secs(up), secs(down), secs(phase)).unwrap();
        let is_up = |at| outage.is_up(Instant(0) + secs(at));
        (0..10).map(|at| if is_up(at) { 'u' } else { 'd' }).collect()
    }

    #[test]
    fn a_link_is_up_and_down_in_turns() {
        assert_eq!(seconds(3, 1, 0), "uuuduuuduu");
        assert_eq!(seconds(3, 1, 2), "uduuuduuud");
        assert_eq!(seconds(1, 0, 0), "uuuuuuuuuu");
        assert_eq!(seconds(0, 1, 7), "dddddddddd");
    }

    #[test]
    fn no_period_is_refused() {
        assert!(Outage::new(Nanos(0), Nanos(0), Nanos(0)).is_err());
    }
}
