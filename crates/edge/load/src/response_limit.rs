//! Limit on the rate of responses. It holds however fast requests arrive: a client may send them faster than the run
//! states.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_plan::Pace;
use fabricmark_proto::{BURST_OVER_MAX, Prepare};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_units::{BitRate, Nanos};

use crate::control::Control;

/// A client or sender that was late may catch up: it may send at once as much as the limit allows in this time. An
/// arbitrary choice, ten times as long as the pauses of about 0.1 s that virtual machines make.
pub const LATE_MAX: Nanos = Nanos::from_secs(1);

/// Responses that may always leave at once, besides bursts of the pace; an arbitrary choice.
const AT_ONCE: u64 = 4;

/// Bytes of a flow that the kernel sends before it paces: ten segments (tcp_update_skb_after_send), each as long as the
/// MTU of loopback allows.
const UNPACED_BYTES: u64 = 10 << 16;

/// Largest send buffer of a flow that states none (tcp(7), tcp_wmem).
const SEND_BUFFER_BYTES: u64 = 4 << 20;

/// Part of the duration by which the clock of a client may be fast: ten times the 100 ppm of docs/agent.md.
const CLOCK_SHARE: u64 = 1000;

/// The limit of all threads and slices of a run.
#[derive(Debug)]
pub struct ResponseLimit<'a> {
    rate: BitRate,
    /// Interval between responses at the limit.
    each_ns: u64,
    /// How far responses may be ahead of the limit.
    ahead_max_ns: u64,
    control: &'a Control,
}

impl<'a> ResponseLimit<'a> {
    /// Limit of a server whose responses have `bytes` bytes; `None`: no limit.
    pub(crate) fn of(prepare: &Prepare, bytes: usize, control: &'a Control) -> Option<Self> {
        let rate = prepare.response_rate_max?;
        let time_ns = |bytes: u64| {
            let ns = 8_000_000_000 * u128::from(bytes) / u128::from(rate.0.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        let each_ns = time_ns(bytes as u64);
        let duration_ns = prepare.duration_ns.0;
        let paced_ns = match prepare.point.pace {
            // Four standard deviations of the number of departures.
            Pace::Poisson(_) => (4.0 * (duration_ns as f64 * each_ns as f64).sqrt()) as u64,
            // A burst is at the rate of its period.
            Pace::Burst { period, .. } => period.min(BURST_OVER_MAX).0.min(duration_ns),
            // The kernel paces what it has buffered, after the first segments of each flow.
            ref pace if !pace.states_rate() && prepare.point.pacing_rate.is_some() => {
                let point = &prepare.point;
                let buffer = point.window_bytes().or(point.send_buffer);
                let buffer_bytes =
                    buffer.map_or(SEND_BUFFER_BYTES, |buffer| buffer.0.saturating_mul(2));
                let bytes = buffer_bytes.saturating_add(UNPACED_BYTES);
                time_ns(bytes.saturating_mul(point.flows.into()))
            }
            _ => 0,
        };
        // At the limit these take at most a quarter of the run, unless a single response takes longer.
        let at_once_ns = AT_ONCE.saturating_mul(each_ns).min(each_ns.max(duration_ns / AT_ONCE));
        let limit = Self {
            rate,
            each_ns,
            ahead_max_ns: paced_ns
                .saturating_add(at_once_ns)
                .saturating_add(duration_ns / CLOCK_SHARE),
            control,
        };
        // The first slice begins the count.
        let _ = control.next_response_ns.compare_exchange(0, now_ns(), Relaxed, Relaxed);
        Some(limit)
    }

    /// Counts a response that is about to leave.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::QuotaExceeded`] if it exceeds the limit.
    pub(crate) fn take(&self) -> io::Result<()> {
        if self.ahead_ns(now_ns()) <= self.ahead_max_ns {
            return Ok(());
        }
        let message = format!(
            "requests arrive faster than the rate of {} that the agent allows: use a lower rate",
            self.rate
        );
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
    }

    /// How far a response at `now_ns` is ahead of the limit.
    fn ahead_ns(&self, now_ns: u64) -> u64 {
        let earliest_ns = now_ns.saturating_sub(LATE_MAX.0);
        let after = |due_ns: u64| due_ns.max(earliest_ns).saturating_add(self.each_ns);
        let due_ns = &self.control.next_response_ns;
        let due_ns = due_ns.fetch_update(Relaxed, Relaxed, |due_ns| Some(after(due_ns)));
        due_ns.unwrap_or_else(|due_ns| due_ns).saturating_sub(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_plan::Role;

    use super::*;

    const MS: u64 = 1_000_000;
    const BEGAN_NS: u64 = 10_000 * MS;
    /// The first, four at once, and ten for the clock in 10 s.
    const AT_THE_START: usize = 15;

    /// How many responses of 1000 bytes pass that are due at these times after the start of a run of 10 s. The limit is 8
    /// Mbit/s: one per millisecond.
    fn passed(pace: &str, times_ns: impl IntoIterator<Item = u64>) -> usize {
        let levels =
            format!("pattern=rr,transport=udp,family=4,payload=1000,link=loopback,pace={pace}");
        let prepare = Prepare {
            response_rate_max: Some(BitRate(8_000_000)),
            duration_ns: Nanos::from_secs(10),
            ..fabricmark_testkit::prepare(Role::Server, &levels)
        };
        let control = Control::default();
        control.next_response_ns.store(BEGAN_NS, Relaxed);
        let limit = ResponseLimit::of(&prepare, 1000, &control).unwrap();
        let passes = |&at_ns: &u64| limit.ahead_ns(BEGAN_NS + at_ns) <= limit.ahead_max_ns;
        times_ns.into_iter().take_while(passes).count()
    }

    #[test]
    fn responses_at_the_limit_pass_and_those_beyond_it_do_not() {
        assert_eq!(passed("fixed:1000", (0..10_000).map(|k| k * MS)), 10_000);
        // 1 % faster: after 1.4 s they are 14 ahead.
        let faster = passed("fixed:1000", (0..10_000).map(|k| k * MS * 99 / 100));
        assert!((1390..=1410).contains(&faster), "{faster}");
        assert_eq!(passed("fixed:1000", [0; 100]), AT_THE_START);
    }

    #[test]
    fn a_client_may_catch_up_after_a_pause_of_a_second() {
        let after_a_pause = |pause_ms: u64| [pause_ms * MS].into_iter().cycle().take(3000);
        assert_eq!(passed("fixed:1000", after_a_pause(900)), 900 + AT_THE_START);
        assert_eq!(passed("fixed:1000", after_a_pause(5000)), 1000 + AT_THE_START);
    }

    #[test]
    fn a_long_period_or_a_pacing_rate_that_is_not_kept_lifts_no_limit() {
        let paced = "pacing_rate=1T,transport=tcp,congestion=cubic";
        // A second's worth, and the first ones.
        assert_eq!(passed("burst:1B/24h", [0; 3000]), 1000 + AT_THE_START);
        assert_eq!(passed(&format!("fixed:1000,{paced}"), [0; 100]), AT_THE_START);
    }

    #[test]
    fn what_the_kernel_paces_may_wait_in_the_send_buffer() {
        let paced = "closed,pacing_rate=8M,transport=tcp,congestion=cubic";
        // 4 MiB and ten segments of 64 KiB.
        assert_eq!(passed(paced, [0; 9000]), 4849 + AT_THE_START);
        assert_eq!(passed(&format!("{paced},window=1MiB"), [0; 9000]), 2752 + AT_THE_START);
    }

    #[test]
    fn bursts_and_random_departures_pass_that_are_at_the_limit_on_average() {
        let bursts = (0..5000).map(|k| k / 500 * 500 * MS);
        assert_eq!(passed("burst:500kB/500ms", bursts.clone()), 5000);
        assert_eq!(passed("fixed:1000", bursts), AT_THE_START);
        // 400 of 10,000 departures are four standard deviations.
        let early = (0..10_000u64).map(|k| k.saturating_sub(390) * MS);
        assert_eq!(passed("poisson:1000", early.clone()), 10_000);
        assert_eq!(passed("fixed:1000", early), AT_THE_START);
    }
}
