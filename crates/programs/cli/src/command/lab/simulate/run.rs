//! A simulated connection and its summary.

use std::collections::BTreeMap;

use fabricmark_tcpsim::{Interval, Outcome};
use fabricmark_units::Nanos;
use fabricmark_wire::Kind;
use fabricmark_wire::lfn::{self, Figure, Value, fibre_rtt};

use super::Stretch;
use super::connection::Connection;
use crate::exit::Failure;
use crate::options::simulate::Simulate;

/// Result of a simulation.
pub struct Run {
    pub connection: Connection,
    pub outcome: Outcome,
    /// Simulated time, and length of the reported intervals.
    pub duration: Nanos,
    pub interval: Nanos,
    /// Goodput of the second half in bit/s.
    pub steady_bps: f64,
    /// Path length in metres and land speed in bit-metres per second; `None` if there is no delay.
    pub land_speed: Option<(u64, f64)>,
}

/// Maximum number of intervals, which limits memory.
const INTERVALS_MAX: u64 = 100_000;

impl Run {
    /// Simulates a connection for the duration in the options.
    pub fn of(connection: Connection, options: &Simulate) -> Result<Self, Failure> {
        let duration = options.duration;
        let interval = options.interval.unwrap_or_else(|| whole_round_trips(connection.rtt()));
        check(duration, interval)?;
        let outcome = connection.simulate(duration, interval)?;
        let steady_bps = steady_bps(&outcome.intervals, duration, interval);
        let metres = options.distance.map_or_else(|| light(connection.rtt()), |metres| metres.0);
        let land_speed = land_speed(steady_bps, metres).filter(|_| metres > 0);
        let land_speed = land_speed.map(|speed| (metres, speed));
        Ok(Self { connection, outcome, duration, interval, steady_bps, land_speed })
    }

    /// Goodput as a share of the wire's; `None` if the link has no rate.
    pub fn share_of_wire(&self) -> Option<f64> {
        self.connection.wire_bps().map(|wire_bps| self.steady_bps / wire_bps)
    }
}

fn check(duration: Nanos, interval: Nanos) -> Result<(), Failure> {
    if duration.0 == 0 || interval.0 == 0 {
        return Err(Failure::input("--duration and --interval must be above 0"));
    }
    if duration.0.div_ceil(interval.0) > INTERVALS_MAX {
        let message = format!(
            "a duration of {duration} has more than {INTERVALS_MAX} intervals of \
                               {interval}"
        );
        return Err(Failure::input(format!("{message}: give a longer --interval")));
    }
    Ok(())
}

/// Shortest whole number of RTTs of at least one second. Otherwise the number of window-sized bursts would vary
/// between intervals.
fn whole_round_trips(rtt: Nanos) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    Nanos(rtt.0.max(1).saturating_mul(SECOND.div_ceil(rtt.0.max(1))))
}

/// Goodput in bit/s of the full-length intervals in the second half; of all intervals if there are none.
fn steady_bps(intervals: &[Interval], duration: Nanos, whole: Nanos) -> f64 {
    let is_later =
        |interval: &&Interval| interval.start.0 >= duration.0 / 2 && interval.length == whole;
    let mut counted: Vec<&Interval> = intervals.iter().filter(is_later).collect();
    if counted.is_empty() {
        counted = intervals.iter().collect();
    }
    let bytes: u64 = counted.iter().map(|interval| interval.delivered_bytes).sum();
    let length: u64 = counted.iter().map(|interval| interval.length.0).sum();
    8.0 * bytes as f64 / Nanos(length).as_secs_f64()
}

/// Delivered bytes over time.
pub fn stretches(outcome: &Outcome) -> Vec<Stretch> {
    let stretch = |interval: &Interval| Stretch {
        start: Nanos(interval.start.0),
        end: Nanos(interval.start.0.saturating_add(interval.length.0)),
        bytes: interval.delivered_bytes,
    };
    outcome.intervals.iter().map(stretch).collect()
}

/// Distance of a fibre with this RTT, in metres one way.
fn light(rtt: Nanos) -> u64 {
    const METRES: u64 = 1_000_000_000;
    (rtt.0 as f64 / fibre_rtt(METRES).value.as_f64() * METRES as f64) as u64
}

fn land_speed(goodput_bps: f64, metres: u64) -> Option<f64> {
    let goodput = Figure {
        kind: Kind::Estimate,
        value: Value::Rounded(goodput_bps),
        formula: "simulated",
        inputs: BTreeMap::new(),
        source: "fabricmark lab simulate",
    };
    lfn::land_speed(&goodput, metres).map(|figure| figure.value.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_units::Instant;

    #[test]
    fn light_needs_400_ms_for_40_843_km_of_fibre_and_back() {
        // 0.2 s of 299,792,458 / 1.468 m/s.
        assert_eq!(light(Nanos::from_millis(400)), 40_843_659);
        assert_eq!(light(Nanos(0)), 0);
    }

    #[test]
    fn an_interval_is_a_whole_number_of_round_trips() {
        for (rtt_ms, interval_ms) in [(0, 1000), (1, 1000), (178, 1068), (400, 1200), (3000, 3000)]
        {
            let interval = whole_round_trips(Nanos::from_millis(rtt_ms));
            assert_eq!(interval, Nanos::from_millis(interval_ms), "{rtt_ms}");
        }
    }

    #[test]
    fn what_is_steady_are_whole_intervals_of_the_second_half() {
        let interval = |start_s: u64, ms, delivered_bytes| Interval {
            start: Instant(start_s * 1_000_000_000),
            length: Nanos::from_millis(ms),
            delivered_bytes,
            retransmitted_segments: 0,
            cwnd_segments: 0.0,
            in_flight_segments: 0,
            rtt: Nanos(0),
        };
        let seconds = |bytes: &[u64]| -> Vec<Interval> {
            (0..).zip(bytes).map(|(start, bytes)| interval(start, 1000, *bytes)).collect()
        };
        let mut intervals = seconds(&[0, 10, 100, 300]);
        intervals.push(interval(4, 500, 7));
        let second = Nanos::from_secs(1);
        // 400 bytes in 2 s, from 2.25 s on only the last of them.
        assert_eq!(steady_bps(&intervals[..4], Nanos::from_secs(4), second), 1600.0);
        assert_eq!(steady_bps(&intervals, Nanos::from_millis(4500), second), 2400.0);
        assert_eq!(steady_bps(&intervals[4..], Nanos::from_millis(500), second), 112.0);
    }

    #[test]
    fn a_land_speed_counts_no_more_than_30_000_km() {
        assert_eq!(land_speed(5.6e9, 40_843_659), Some(168e15));
        assert_eq!(land_speed(5.6e9, 1_000_000), Some(5.6e15));
    }
}
