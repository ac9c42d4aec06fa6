//! Interval samples: what each interval of a run moved, and TCP_INFO at its end.

use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use fabricmark_record::{Interval, Series};

use crate::clock::{now_ns, process_cpu_ns};
use crate::gauge::Gauge;
use crate::tcp_info;

/// Makes the series of one end of a run. It does not wait by itself: its user calls [`Self::observe`] at
/// [`Self::deadline_ns`]. [`Self::run`] does both.
#[derive(Debug)]
pub struct Sampler<'a> {
    gauges: &'a [Gauge],
    tcp: Option<BorrowedFd<'a>>,
    began_ns: u64,
    last_ns: u64,
    /// CPU time of the process up to `last_ns`.
    last_cpu_ns: u64,
    series: Series,
    /// Planned length of the run; `None` if it ends by itself.
    planned_ns: Option<u64>,
    /// Bytes and calls of the intervals so far.
    counted: (u64, u64),
    /// Lost datagrams of the intervals so far.
    lost: i64,
}

impl<'a> Sampler<'a> {
    /// Starts the series; times are readings of [`now_ns`]. An interval of 0 is one of 1 ns. The gauges, one for each
    /// load thread, must be at 0; `tcp` is the flow's socket if it is TCP.
    pub fn begin(
        now_ns: u64,
        interval_ns: u64,
        planned_ns: Option<u64>,
        gauges: &'a [Gauge],
        tcp: Option<BorrowedFd<'a>>,
    ) -> Self {
        Self {
            gauges,
            tcp,
            began_ns: now_ns,
            last_ns: now_ns,
            last_cpu_ns: process_cpu_ns(),
            series: Series { interval_ns: interval_ns.max(1), intervals: Vec::new() },
            planned_ns,
            counted: (0, 0),
            lost: 0,
        }
    }

    /// End of the current interval: a whole number of intervals after the start, so that lateness does not
    /// accumulate. An end that was missed is skipped. One that is near the planned end of the run is a tenth of an
    /// interval later, so that the run ends with an interval of full length, and not with one of microseconds.
    pub fn deadline_ns(&self) -> u64 {
        let interval_ns = self.series.interval_ns;
        let whole = (self.last_ns - self.began_ns) / interval_ns;
        let end_ns = (whole + 1).saturating_mul(interval_ns);
        let grace_ns = interval_ns / 10;
        let is_last = self.planned_ns.is_some_and(|planned| planned.abs_diff(end_ns) < grace_ns);
        let end_ns = if is_last { end_ns.saturating_add(grace_ns) } else { end_ns };
        self.began_ns.saturating_add(end_ns)
    }

    /// Ends an interval, and calls `each` with it.
    pub fn observe(&mut self, now_ns: u64, each: &mut dyn FnMut(&Interval)) {
        let now_ns = now_ns.max(self.last_ns);
        // The counters first: TCP_INFO takes a microsecond, in which they increase.
        let (bytes, calls) = Gauge::read(self.gauges);
        let reception = Gauge::reception(self.gauges);
        let cpu_ns = process_cpu_ns();
        let interval = Interval {
            start_ns: self.last_ns - self.began_ns,
            end_ns: now_ns - self.began_ns,
            bytes: bytes.saturating_sub(self.counted.0),
            calls: calls.saturating_sub(self.counted.1),
            cpu_ns: Some(cpu_ns.saturating_sub(self.last_cpu_ns)),
            lost: reception.map(|reception| reception.lost.saturating_sub(self.lost)),
            jitter_ns: reception.and_then(|reception| reception.jitter_ns),
            tcp: self.tcp.and_then(|fd| tcp_info::sample(fd).ok()),
        };
        self.lost = reception.map_or(0, |reception| reception.lost);
        each(&interval);
        self.series.intervals.push(interval);
        (self.counted, self.last_ns, self.last_cpu_ns) = ((bytes, calls), now_ns, cpu_ns);
    }

    /// Ends the last interval, and returns the series. It includes what the load threads have published before.
    pub fn finish(mut self, now_ns: u64, each: &mut dyn FnMut(&Interval)) -> Series {
        if now_ns > self.last_ns || Gauge::read(self.gauges) != self.counted {
            self.observe(now_ns, each);
        }
        self.series
    }

    /// Observes at every deadline until `ended` receives a message or its sender is dropped. That must happen after
    /// the load thread has published its last counts.
    pub fn run(mut self, ended: &Receiver<()>, each: &mut dyn FnMut(&Interval)) -> Series {
        loop {
            let wait = Duration::from_nanos(self.deadline_ns().saturating_sub(now_ns()));
            match ended.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => self.observe(now_ns(), each),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return self.finish(now_ns(), each),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::slice::from_ref;
    use std::sync::mpsc;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn ignore(_: &Interval) {}

    #[test]
    fn intervals_keep_their_true_boundaries() {
        let gauge = Gauge::default();
        let mut sampler = Sampler::begin(1_000, 100, None, from_ref(&gauge), None);
        assert_eq!(sampler.deadline_ns(), 1_100);
        gauge.publish(50, 5);
        sampler.observe(1_103, &mut ignore);
        assert_eq!(sampler.deadline_ns(), 1_200, "lateness does not add up");
        gauge.publish(70, 7);
        sampler.observe(1_420, &mut ignore);
        assert_eq!(sampler.deadline_ns(), 1_500, "missed ends are left out");
        gauge.publish(71, 8);
        let series = sampler.finish(1_430, &mut ignore);
        let seen: Vec<_> = series
            .intervals
            .iter()
            .map(|interval| (interval.start_ns, interval.end_ns, interval.bytes, interval.calls))
            .collect();
        assert_eq!(seen, [(0, 103, 50, 5), (103, 420, 20, 2), (420, 430, 1, 1)]);
        assert!(series.intervals.iter().all(|interval| interval.cpu_ns.is_some()));
    }

    #[test]
    fn a_run_of_whole_intervals_does_not_end_with_a_tiny_one() {
        let gauge = Gauge::default();
        let mut sampler = Sampler::begin(1_000, 100, Some(200), from_ref(&gauge), None);
        sampler.observe(sampler.deadline_ns(), &mut ignore);
        assert_eq!(sampler.deadline_ns(), 1_210, "the planned end, and a tenth of an interval");
        // The other end goes on: its intervals return to whole numbers.
        sampler.observe(1_210, &mut ignore);
        assert_eq!(sampler.deadline_ns(), 1_300);
    }

    #[test]
    fn lost_datagrams_are_those_of_the_interval() {
        use crate::gauge::Reception;
        let gauge = Gauge::default();
        let mut sampler = Sampler::begin(0, 10, None, from_ref(&gauge), None);
        let mut before = None;
        for (at_ns, lost) in [(10, 3), (20, 1), (30, 4)] {
            let now = Reception { lost, jitter_ns: Some(at_ns as f64) };
            gauge.replace_reception(before.replace(now), now);
            sampler.observe(at_ns, &mut ignore);
        }
        let series = sampler.finish(30, &mut ignore);
        let seen = series.intervals.iter().map(|interval| (interval.lost, interval.jitter_ns));
        let expected = [(3, 10.0), (-2, 20.0), (3, 30.0)];
        assert!(seen.eq(expected.map(|(lost, ns)| (Some(lost), Some(ns)))));
    }

    #[test]
    fn each_interval_is_told_of_once_and_in_order() {
        let gauge = Gauge::default();
        let mut told = Vec::new();
        let mut each = |interval: &Interval| told.push(interval.clone());
        let mut sampler = Sampler::begin(0, 10, None, from_ref(&gauge), None);
        gauge.publish(1, 1);
        sampler.observe(10, &mut each);
        gauge.publish(3, 2);
        let series = sampler.finish(20, &mut each);
        assert_eq!(series.intervals, told);
        assert_eq!((series.intervals.len(), series.bytes()), (2, 3));
    }

    #[test]
    fn a_run_over_tcp_has_every_byte_in_some_interval_and_a_sample_in_each() {
        const BYTES: u64 = 1 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut start = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut answer, _) = listener.accept().unwrap();
        let gauge = Gauge::default();
        let (end, ended) = mpsc::channel();
        let mut told = 0;
        let watched = start.try_clone().unwrap();
        let series = thread::scope(|scope| {
            scope.spawn(|| answer.read_to_end(&mut Vec::new()).unwrap());
            let gauge = &gauge;
            scope.spawn(move || {
                for calls in 1..=BYTES / 1024 {
                    start.write_all(&[0; 1024]).unwrap();
                    gauge.publish(calls * 1024, calls);
                }
                start.shutdown(std::net::Shutdown::Write).unwrap();
                drop(end);
            });
            let sampler =
                Sampler::begin(now_ns(), 100_000, None, from_ref(gauge), Some(watched.as_fd()));
            sampler.run(&ended, &mut |_| told += 1)
        });
        assert_eq!((series.bytes(), series.calls()), (BYTES, BYTES / 1024));
        assert_eq!(series.intervals.len(), told);
        assert!(series.intervals.iter().all(|interval| interval.tcp.is_some()));
    }

    #[test]
    fn an_interval_longer_than_all_time_ends_with_the_run() {
        let gauge = Gauge::default();
        let mut sampler = Sampler::begin(1_000, u64::MAX, None, from_ref(&gauge), None);
        assert_eq!(sampler.deadline_ns(), u64::MAX);
        sampler.observe(1_100, &mut ignore);
        assert_eq!(sampler.deadline_ns(), u64::MAX);
    }

    proptest! {
        /// Conservation: each step moves some bytes, lets some time pass, and may end an interval.
        #[test]
        fn nothing_that_was_moved_is_missing_and_nothing_is_there_twice(
            steps in prop::collection::vec((0u64..5_000, 0u64..300, any::<bool>()), 0..60),
            interval_ns in 0u64..200,
            planned_ns in prop::option::of(0u64..5_000),
        ) {
            let gauge = Gauge::default();
            let (mut now, mut bytes, mut calls) = (77, 0, 0);
            let mut sampler = Sampler::begin(now, interval_ns, planned_ns, from_ref(&gauge), None);
            for (moved, passed, is_observed) in steps {
                bytes += moved;
                calls += 1;
                gauge.publish(bytes, calls);
                now += passed;
                if is_observed {
                    sampler.observe(now, &mut ignore);
                    prop_assert!(sampler.deadline_ns() > now);
                }
            }
            let series = sampler.finish(now, &mut ignore);
            prop_assert_eq!((series.bytes(), series.calls()), (bytes, calls));
            let mut end_ns = 0;
            for interval in &series.intervals {
                prop_assert_eq!(interval.start_ns, end_ns, "no gaps");
                end_ns = interval.end_ns;
            }
            prop_assert_eq!(end_ns, if series.intervals.is_empty() { 0 } else { now - 77 });
        }
    }
}
