//! Which points can be compared in slices, and how long a slice is.
//!
//! Drift of the machine between runs exceeds the difference between two levels. Therefore the flows of all levels
//! stay open side by side, and the levels take turns in short slices, in random order: a longer disturbance
//! affects all of them.

use fabricmark_link::{LinkOptions, TokenBucket};
use fabricmark_units::Nanos;

use crate::choice::{Direction, Pattern, Wait};
use crate::factor::Point;
use crate::pace::{Pace, Rate};
use crate::plan::{Plan, Testbed};
use crate::transport::Transport;

/// Shortest slice. Between two slices orders and reports pass through both workers, which takes 0.3 ms. What shorter
/// slices gain is measured in docs/notebook/measured.md.
const SLICE_MIN: Nanos = Nanos::from_millis(1);

/// Slices are rounded up to a multiple of this, so that reports can print them.
const SLICE_STEP: Nanos = Nanos(100_000);

/// Shortest whole run in place of slices, an arbitrary choice: in the total time of the slices of a level a new
/// connection may not reach its rate.
const WHOLE_RUN_MIN: Nanos = Nanos::from_secs(1);

/// Longest slice: TCP restarts with a small window after an idle time of one retransmission timeout, at least 200
/// ms (RFC 5681, section 4.1).
const SLICE_MAX: Nanos = Nanos::from_millis(50);

/// Longest time for which a flow of a round is idle, well below that timeout.
const ROUND_MAX: Nanos = Nanos::from_millis(150);

/// Smallest number of RTTs, or of requests with their responses, in a slice.
const ROUND_TRIPS: u64 = 20;

/// Time that an end needs for each of several requests in flight, an assumption: 8 flows of ping-pong over loopback have an
/// RTT of 93 us (`measure ping-pong loopback --vs flows=1 --vs flows=8 --runs 4` on two virtual CPUs, debug build). In a
/// slice of few RTTs, too many of its requests would be in flight when it begins and ends.
const REQUEST_ASSUMED: Nanos = Nanos(12_000);

/// Length of a slice of a stream, in bursts of the token bucket that emulates the link. The bucket is full when the slice
/// begins, and its burst passes in the first quarter, which does not count. With five, TCP over 1 Gbit/s with MTU 9000
/// is 0.14 % above its ceiling (docs/notebook/measured.md).
const BUCKETS: u64 = 9;

/// Smallest number of bytes that a link with a rate passes in a slice of a stream, some 400 segments: [`BUCKETS`] at 1
/// Gbit/s. Slower links, whose buckets are smaller, were not measured with fewer.
const STREAM_BYTES_MIN: u64 = BUCKETS * 65_536;

/// Congestion controls with which a stream resumes at its full rate. BBR estimates its rate anew
/// (docs/notebook/measured.md).
const RESUMES_AT_FULL_RATE: [&str; 2] = ["cubic", "reno"];

/// Rate in bit/s assumed for a link without a rate, an arbitrary choice: the order of UDP over veth.
const RATE_ASSUMED: u64 = 10_000_000_000;

/// Longest RTT of the control paths to both ends over which points take turns between hosts: orders and reports cross
/// them twice in each slice. The path of the flows is taken to be no longer.
pub const CONTROL_RTT_MAX: Nanos = Nanos::from_millis(1);

/// Shortest slice between hosts, whose RTT a plan does not know: [`ROUND_TRIPS`] times [`CONTROL_RTT_MAX`].
const SLICE_MIN_OF_HOSTS: Nanos = Nanos(ROUND_TRIPS * CONTROL_RTT_MAX.0);

/// Largest number of flows of a level, an arbitrary choice: each slice registers all of them with epoll again.
const FLOWS_MAX: u32 = 64;

/// Rounds of an MPI job: P4's ten repetitions, as an arbitrary choice.
const MPI_ROUNDS: u64 = 10;

/// Longest slice of an MPI job: a job ends after the slice in which it is told to, and Open MPI kills ranks a second
/// after SIGTERM (`odls_base_sigkill_timeout`).
const MPI_SLICE_MAX: Nanos = Nanos::from_millis(500);

/// Datagrams in a slice of a stream, or requests of an open loop.
const MESSAGES: u64 = 40;

impl Plan {
    /// Requested duration of the run of one point, which does not take turns.
    pub fn whole_run(&self) -> Nanos {
        if self.slices { self.duration_ns.max(WHOLE_RUN_MIN) } else { self.duration_ns }
    }

    /// Length of the slices in which the points of an MPI job take turns.
    pub fn mpi_slice(&self) -> Nanos {
        Nanos(self.duration_ns.0.div_ceil(MPI_ROUNDS)).clamp(SLICE_MIN, MPI_SLICE_MAX)
    }

    /// Whether all points that the plan compares can take turns in slices.
    pub fn takes_turns(&self) -> bool {
        let takes_turns = |group: &Vec<usize>| group.len() > 1 && self.slice(group, true).is_some();
        !self.comparison_groups.is_empty() && self.comparison_groups.iter().all(takes_turns)
    }

    /// Length of the slices in which these points of a comparison group take turns; `None` if they run one after
    /// the other. `fills_link` is false if they are known to stay below the rate of their link.
    pub(crate) fn slice(&self, members: &[usize], fills_link: bool) -> Option<Nanos> {
        if !self.slices || members.len() < 2 {
            return None;
        }
        if !self.groups.is_empty() || self.amount.is_some() || self.interval_ns.is_some() {
            return None;
        }
        if self.topology.as_ref().is_some_and(|topology| !topology.takes_turns) {
            return None;
        }
        let points = || members.iter().map(|&point| &self.points[point]);
        let first = points().next()?;
        let is_reverse = |point: &Point| point.direction == Some(Direction::Reverse);
        if !points().all(|point| point.supports_slices() && is_reverse(point) == is_reverse(first))
        {
            return None;
        }
        let least = match self.testbed {
            Testbed::Lab => SLICE_MIN,
            Testbed::Hosts => SLICE_MIN_OF_HOSTS,
            Testbed::Mpi | Testbed::Tiers => return None,
        };
        let slice = points().map(|point| point.slice_wanted(fills_link)).max()?.max(least);
        let slice = Nanos(slice.0.next_multiple_of(SLICE_STEP.0));
        let round = Nanos(slice.0.saturating_mul(members.len() as u64));
        Some(slice).filter(|&slice| slice <= SLICE_MAX && round <= ROUND_MAX)
    }
}

impl Point {
    /// Whether this point can be measured in slices.
    fn supports_slices(&self) -> bool {
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
            Transport::Rc
            | Transport::Uc
            | Transport::Ud
            | Transport::Mpi
            | Transport::Http
            | Transport::Null => false,
        };
        let resumes_at_full_rate = match &self.congestion {
            Some(name) if is_stream => RESUMES_AT_FULL_RATE.contains(&name.as_str()),
            _ => true,
        };
        // An order about slices goes to one thread.
        let is_one_thread = self.load_threads() == 1;
        // Its settings are those of the hosts for the whole of a run.
        let is_as_found = self.host_settings.is_none();
        // A spinning thread uses its CPU during the slices of other levels, too.
        let is_quiet = !matches!(self.wait, Wait::Spin | Wait::BusyPoll);
        let is_one_load = self.direction != Some(Direction::Both) && self.probe.is_none();
        // A retransmission timeout is longer than a slice, and would delay a few rounds instead of the whole run.
        let options = self.link_options();
        let is_lossless = !options.as_ref().is_some_and(LinkOptions::needs_single_packets);
        // Bursts and traces have periods of their own.
        let is_steady = options.is_none_or(|options| options.files().next().is_none())
            && matches!(self.pace, Pace::Closed | Pace::Fixed(_) | Pace::Poisson(_));
        // The last bytes of a slice would not wake up its receiver.
        let wakes_up = self.receive_lowat.is_none();
        let keeps_connections = self.pattern != Pattern::Crr && self.flows <= FLOWS_MAX;
        leaves_at_once
            && resumes_at_full_rate
            && keeps_connections
            && is_lossless
            && is_steady
            && is_quiet
            && is_one_thread
            && is_as_found
            && is_one_load
            && wakes_up
    }

    /// Wanted length of a slice: enough RTTs, and enough messages at the rate of the link.
    fn slice_wanted(&self, fills_link: bool) -> Nanos {
        let round_trips = self.rtt.map_or(0, |rtt| rtt.0.saturating_mul(ROUND_TRIPS));
        let request = self.payload.0.saturating_mul(u64::from(self.payloads_per_request()));
        let response = self.response.unwrap_or(self.payload).0;
        let rate = self.link.rate().map_or(RATE_ASSUMED, |rate| rate.0).max(1);
        let at_rate = |count: u64, bytes: u64, rate: u64| {
            let bits = 8 * u128::from(count) * u128::from(bytes);
            Nanos(u64::try_from(bits * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX))
        };
        let of_link = match self.pattern {
            Pattern::Stream => {
                let datagrams = if self.transport.is_lossy() { MESSAGES } else { 0 };
                // A flow below the rate never empties the bucket.
                let bytes = match TokenBucket::of(&self.link).filter(|_| fills_link) {
                    Some(bucket) => (BUCKETS * bucket.bucket_bytes()).max(STREAM_BYTES_MIN),
                    None => 0,
                };
                at_rate(1, bytes, rate).max(at_rate(datagrams, request, rate))
            }
            _ => at_rate(ROUND_TRIPS, request.saturating_add(response), rate).min(SLICE_MAX),
        };
        let in_flight = u64::from(self.in_flight());
        let share_the_end =
            self.pattern != Pattern::Stream && self.pace == Pace::Closed && in_flight > 1;
        let of_end = if share_the_end {
            Nanos(ROUND_TRIPS * in_flight * REQUEST_ASSUMED.0).min(SLICE_MAX)
        } else {
            Nanos(0)
        };
        let of_pace = match self.pace {
            Pace::Fixed(Rate::Bits(rate)) | Pace::Poisson(Rate::Bits(rate)) => {
                at_rate(MESSAGES, request, rate.0)
            }
            Pace::Fixed(Rate::PerSecond(count)) | Pace::Poisson(Rate::PerSecond(count)) => {
                Nanos(MESSAGES * 1_000_000_000 / count.max(1))
            }
            Pace::Closed
            | Pace::Burst { .. }
            | Pace::OnOff { .. }
            | Pace::Follow { .. }
            | Pace::Trace(_) => Nanos(0),
        };
        Nanos(round_trips).max(of_link).max(of_end).max(of_pace)
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
        plan.slice(&plan.comparison_groups[0], true).map(|Nanos(ns)| ns / 1000)
    }

    #[test]
    fn a_slice_has_enough_round_trips_and_messages_and_is_no_longer_than_a_flow_may_be_idle() {
        let of = |pattern: &str, rest: &str| {
            slice_us(&format!(
                "pattern = [\"{pattern}\"]\ntransport = [\"tcp\"]\npayload = [1024]\n{rest}"
            ))
        };
        assert_eq!(of("stream", "link = [\"veth\"]"), Some(1000));
        assert_eq!(of("stream", "link = [\"ethernet:1G\"]"), Some(4800));
        // 20 requests and responses.
        assert_eq!(of("ping-pong", "link = [\"ethernet:100M\"]"), Some(3300));
        assert_eq!(of("ping-ping", "link = [\"veth\"]"), Some(1000));
        // 20 times eight and 512 requests of 12 us each.
        assert_eq!(of("ping-pong", "link = [\"veth\"]\nflows = [8]"), Some(2000));
        assert_eq!(of("rr", "link = [\"veth\"]\nflows = [8]\noutstanding = [64]"), Some(50_000));
        assert_eq!(of("rr", "link = [\"veth\"]\npace = [\"fixed:10000/s\"]"), Some(4000));
        let udp = |payload: u32, link: &str| {
            slice_us(&format!(
                "pattern = [\"stream\"]\ntransport = [\"udp\"]\npayload = [{payload}]\nlink = [\"{link}\"]"
            ))
        };
        assert_eq!(udp(1250, "ethernet:100M"), Some(47_200));
        assert_eq!(udp(1250, "ethernet:50M"), None);
        // Nine buckets of 256 KiB.
        assert_eq!(udp(1250, "ethernet:10G"), Some(1900));
        // 40 datagrams, at 10 Gbit/s over a link without a rate.
        assert_eq!(udp(32_768, "ethernet:1G"), Some(10_500));
        assert_eq!(udp(32_768, "veth"), Some(1100));
        assert_eq!(of("ping-pong", "link = [\"ethernet:1G\"]\nrtt = [\"2ms\"]"), Some(40_000));
        assert_eq!(of("ping-pong", "link = [\"ethernet:1G\"]\nrtt = [\"3ms\"]"), None);
        let large = slice_us(
            "pattern = [\"ping-pong\"]\ntransport = [\"tcp\"]\npayload = [\"1MiB\"]\nlink = [\"ethernet:1G\"]",
        );
        assert_eq!(large, Some(50_000));
    }

    #[test]
    fn slices_between_hosts_have_twenty_round_trips_of_the_longest_control_path() {
        let text = "title = 't'\n[factors]\npattern = 'rr'\ntransport = 'tcp'\npayload = 64\nfamily = [4, 6]\n\
                    link = 'ethernet:10G'\n[settings]\ncongestion = 'cubic'\n[run]\nslices = true\n\
                    [[compare]]\nfactor = 'family'\nbaseline = 4\ncandidate = 6\n";
        let plan = parse("plan.toml", text, Size::Full, &[]).unwrap();
        assert_eq!(plan.slice(&[0, 1], true), Some(Nanos::from_millis(1)));
        let plan = plan.to_host("there", None).unwrap();
        assert_eq!(plan.slice(&[0, 1], true), Some(Nanos::from_millis(20)));
    }

    #[test]
    fn what_is_not_over_with_its_slice_or_does_not_leave_the_processor_alone_is_run_as_a_whole() {
        for (pattern, transport, rest) in [
            ("crr", "tcp", ""),
            ("rr", "tcp", "emulate = [\"loss=1%\"]"),
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
