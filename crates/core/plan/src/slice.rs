//! Which points can be compared in slices, and how long a slice is.
//!
//! Drift of the machine between runs exceeds the difference between two levels. Therefore the flows of all levels
//! stay open side by side, and the levels take turns every few milliseconds, in random order: a longer disturbance
//! affects all of them.

use fabricmark_units::Nanos;

use crate::choice::{Direction, Pattern, Wait};
use crate::factor::Point;
use crate::pace::{Pace, Rate};
use crate::plan::{Plan, Testbed};
use crate::transport::Transport;

/// Shortest slice. With 1 ms instead of 4 ms the interval of a change has 0.7 of the width for UDP ping-pong, and
/// 0.6 for a UDP stream (docs/notebook/measured.md). Between two slices orders and reports pass through both
/// workers, 0.3 ms.
const SLICE_MIN: Nanos = Nanos::from_millis(1);

/// Longest slice: TCP restarts with a small window after an idle time of one retransmission timeout, at least 200
/// ms (RFC 5681, section 4.1).
const SLICE_MAX: Nanos = Nanos::from_millis(50);

/// Longest time for which a flow of a round is idle, well below that timeout.
const ROUND_MAX: Nanos = Nanos::from_millis(150);

/// Smallest number of RTTs in a slice.
const ROUND_TRIPS: u64 = 20;

/// Bits that a link of known rate passes in a slice of a stream: nine times a token bucket of 64 KiB, which is full when
/// the slice begins. Its first quarter does not count. With five times, TCP over 1 Gbit/s with MTU 9000 is 0.14 % above
/// its ceiling.
const STREAM_BITS: u64 = 9 * 8 * 65_536;

/// Congestion controls with which a stream has its full rate at the start of a slice. BBR estimates its rate anew: over 1
/// Gbit/s it reaches 26 % of the ceiling in slices, and 98 % in whole runs.
const AT_FULL_RATE: [&str; 2] = ["cubic", "reno"];

/// Rate assumed for a link without one.
const UNLIMITED: u64 = 10_000_000_000;

/// Largest number of flows of a level, an arbitrary choice: each slice registers all of them with epoll again.
const FLOWS_MAX: u32 = 64;

/// Datagrams in a slice of a stream, or requests of an open loop.
const MESSAGES: u64 = 40;

impl Plan {
    /// Whether all points that the plan compares can take turns in slices.
    pub fn takes_turns(&self) -> bool {
        let takes_turns = |group: &Vec<usize>| group.len() > 1 && self.slice(group).is_some();
        !self.comparison_groups.is_empty() && self.comparison_groups.iter().all(takes_turns)
    }

    /// Length of the slices in which these points of a comparison group take turns; `None` if they run one after
    /// the other.
    pub(crate) fn slice(&self, members: &[usize]) -> Option<Nanos> {
        // Between hosts the RTT is not known in advance, and an iperf3 server opens its flows anew for each run.
        let is_asked = self.slices && self.testbed == Testbed::Lab && members.len() > 1;
        if !is_asked
            || !self.groups.is_empty()
            || self.amount.is_some()
            || self.interval_ns.is_some()
        {
            return None;
        }
        let points = || members.iter().map(|&point| &self.points[point]);
        let first = points().next()?;
        let is_reverse = |point: &Point| point.direction == Some(Direction::Reverse);
        if !points().all(|point| {
            point.keeps_open_between_slices() && is_reverse(point) == is_reverse(first)
        }) {
            return None;
        }
        let slice = points().map(Point::slice_wanted).max()?;
        let round = Nanos(slice.0.saturating_mul(members.len() as u64));
        Some(slice).filter(|&slice| slice <= SLICE_MAX && round <= ROUND_MAX)
    }
}

impl Point {
    /// Whether flows of this point can stay open, at no cost, during the slices of other levels.
    fn keeps_open_between_slices(&self) -> bool {
        let is_stream = self.pattern == Pattern::Stream;
        let leaves_at_once = match self.transport {
            Transport::Tcp
            | Transport::Mptcp
            | Transport::Unix
            | Transport::Seqpacket
            | Transport::Udp => !(is_stream && self.path.is_uring()),
            // TLS may keep accepted bytes in a record until the next call.
            Transport::Tls => !is_stream,
            Transport::Quic | Transport::Sctp | Transport::Smc | Transport::Rsocket => false,
            Transport::Rc | Transport::Uc | Transport::Ud | Transport::Null => false,
        };
        let starts_at_once = match &self.congestion {
            Some(name) if is_stream => AT_FULL_RATE.contains(&name.as_str()),
            _ => true,
        };
        // A spinning thread uses its CPU during the slices of other levels, too.
        let is_quiet = !matches!(self.wait, Wait::Spin | Wait::BusyPoll);
        let is_one_load = self.direction != Some(Direction::Both) && self.probe.is_none();
        // Bursts and traces have periods of their own.
        let is_steady = matches!(self.pace, Pace::Closed | Pace::Fixed(_) | Pace::Poisson(_));
        let keeps_connections = self.pattern != Pattern::Crr && self.flows <= FLOWS_MAX;
        leaves_at_once
            && starts_at_once
            && keeps_connections
            && is_steady
            && is_quiet
            && is_one_load
    }

    /// Wanted length of a slice: enough RTTs, and enough messages at the rate of the link.
    fn slice_wanted(&self) -> Nanos {
        let round_trips = self.rtt.map_or(0, |rtt| rtt.0.saturating_mul(ROUND_TRIPS));
        let bits = 8 * self.payload.0.saturating_mul(u64::from(self.payloads_per_request()));
        let time = |bits: u64, rate: u64| {
            let ns = u128::from(bits) * 1_000_000_000 / u128::from(rate.max(1));
            Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        let messages = |count: u64, rate: u64| time(count.saturating_mul(bits), rate);
        let rate = self.link.rate().map(|rate| rate.0);
        let of_link = match (self.pattern, rate) {
            (Pattern::Stream, _) => {
                let bucket = rate.map_or(Nanos(0), |rate| time(STREAM_BITS, rate));
                let is_lossy = self.transport.is_lossy();
                bucket.max(messages(if is_lossy { MESSAGES } else { 0 }, rate.unwrap_or(UNLIMITED)))
            }
            (_, rate) => messages(2 * ROUND_TRIPS, rate.unwrap_or(UNLIMITED)).min(SLICE_MAX),
        };
        let of_pace = match self.pace {
            Pace::Fixed(Rate::Bits(rate)) | Pace::Poisson(Rate::Bits(rate)) => {
                messages(MESSAGES, rate.0)
            }
            Pace::Fixed(Rate::PerSecond(count)) | Pace::Poisson(Rate::PerSecond(count)) => {
                Nanos(MESSAGES * 1_000_000_000 / count.max(1))
            }
            Pace::Closed | Pace::Burst { .. } | Pace::Trace(_) => Nanos(0),
        };
        SLICE_MIN.max(Nanos(round_trips)).max(of_link).max(of_pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Size, parse};

    /// Length of the slices of a plan with two families, in microseconds.
    fn slice_us(factors: &str) -> Option<u64> {
        let cubic = if factors.contains("congestion") { "" } else { "congestion = [\"cubic\"]" };
        let text = format!(
            r#"title = "t"
            [factors]
            family = [4, 6]
            {factors}
            {cubic}
            [run]
            slices = true
            [[compare]]
            factor = "family"
            baseline = 4
            candidate = 6
            "#
        );
        let plan = parse("plan.toml", &text, Size::Full, &[]).unwrap();
        assert_eq!(plan.comparison_groups.len(), 1);
        plan.slice(&plan.comparison_groups[0]).map(|Nanos(ns)| ns / 1000)
    }

    #[test]
    fn a_slice_has_enough_round_trips_and_messages_and_is_no_longer_than_a_flow_may_be_idle() {
        let of = |pattern: &str, rest: &str| {
            slice_us(&format!(
                "pattern = [\"{pattern}\"]\ntransport = [\"tcp\"]\npayload = [1024]\n{rest}"
            ))
        };
        assert_eq!(of("stream", "link = [\"veth\"]"), Some(1000));
        assert_eq!(of("stream", "link = [\"ethernet:1G\"]"), Some(4718));
        // 20 requests and responses.
        assert_eq!(of("ping-pong", "link = [\"ethernet:100M\"]"), Some(3276));
        assert_eq!(of("ping-ping", "link = [\"veth\"]"), Some(1000));
        assert_eq!(of("rr", "link = [\"veth\"]\npace = [\"fixed:10000/s\"]"), Some(4000));
        let udp = |payload: u32, link: &str| {
            slice_us(&format!(
                "pattern = [\"stream\"]\ntransport = [\"udp\"]\npayload = [{payload}]\nlink = [\"{link}\"]"
            ))
        };
        assert_eq!(udp(1250, "ethernet:100M"), Some(47_185));
        assert_eq!(udp(1250, "ethernet:50M"), None);
        // 40 datagrams, at 10 Gbit/s over a link without a rate.
        assert_eq!(udp(32_768, "ethernet:1G"), Some(10_485));
        assert_eq!(udp(32_768, "veth"), Some(1048));
        assert_eq!(of("ping-pong", "link = [\"ethernet:1G\"]\nrtt = [\"2ms\"]"), Some(40_000));
        assert_eq!(of("ping-pong", "link = [\"ethernet:1G\"]\nrtt = [\"3ms\"]"), None);
        let large = slice_us(
            "pattern = [\"ping-pong\"]\ntransport = [\"tcp\"]\npayload = [\"1MiB\"]\nlink = [\"ethernet:1G\"]",
        );
        assert_eq!(large, Some(50_000));
    }

    #[test]
    fn what_is_not_over_with_its_slice_or_does_not_leave_the_processor_alone_is_run_as_a_whole() {
        for (pattern, transport, rest) in [
            ("crr", "tcp", ""),
            ("ping-pong", "tcp", "wait = [\"spin\"]"),
            ("stream", "tls", ""),
            ("stream", "tcp", "path = [\"io-uring\"]"),
            ("stream", "tcp", "congestion = [\"bbr\"]"),
            ("stream", "quic", ""),
            ("stream", "tcp", "flows = [65]"),
            ("stream", "udp", "pace = [\"fixed:100/s\"]"),
            ("stream", "udp", "pace = [\"burst:64KiB/10ms\"]"),
            ("stream", "tcp", "direction = [\"both\"]"),
            ("stream", "tcp", "probe = [\"udp\"]"),
        ] {
            let text = format!(
                "pattern = [\"{pattern}\"]\ntransport = [\"{transport}\"]\npayload = [1024]\nlink = [\"veth\"]\n{rest}"
            );
            assert_eq!(slice_us(&text), None, "{text}");
        }
    }
}
