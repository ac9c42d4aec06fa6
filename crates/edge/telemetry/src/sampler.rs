//! Counters through time: what each interval of a run moved, and what TCP said at its end.

use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use fabricmark_record::{Interval, Series};

use crate::clock::{now_ns, process_cpu_ns};
use crate::gauge::Gauge;
use crate::tcp_info;

/// What to look at: one end of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// Its counters, at 0 when the series begins.
    pub gauge: &'a Gauge,
    /// Its socket, where it is TCP.
    pub tcp: Option<BorrowedFd<'a>>,
}

/// Makes a series of each probe. It waits for nothing itself: whoever keeps the time of the run
/// calls [`Self::observe`] when [`Self::deadline_ns`] has come; [`Self::run`] does both.
#[derive(Debug)]
pub struct Sampler<'a> {
    probes: Vec<Probe<'a>>,
    began_ns: u64,
    interval_ns: u64,
    last_ns: u64,
    /// Processor time of the process up to `last_ns`.
    last_cpu_ns: u64,
    series: Vec<Series>,
    /// Bytes and calls of each probe that stand in intervals.
    counted: Vec<(u64, u64)>,
}

impl<'a> Sampler<'a> {
    /// Begins; times are readings of [`now_ns`]. An interval of 0 is one of 1 ns.
    pub fn begin(now_ns: u64, interval_ns: u64, probes: Vec<Probe<'a>>) -> Self {
        let interval_ns = interval_ns.max(1);
        let series = Series { interval_ns, intervals: Vec::new() };
        Self {
            began_ns: now_ns,
            interval_ns,
            last_ns: now_ns,
            last_cpu_ns: process_cpu_ns(),
            series: vec![series; probes.len()],
            counted: vec![(0, 0); probes.len()],
            probes,
        }
    }

    /// When the interval under way should end: a whole number of intervals after the beginning, so
    /// that lateness does not add up. An end that was missed altogether is left out.
    pub fn deadline_ns(&self) -> u64 {
        let whole = (self.last_ns - self.began_ns) / self.interval_ns;
        self.began_ns.saturating_add((whole + 1).saturating_mul(self.interval_ns))
    }

    /// Ends an interval of each probe, and calls `each` with the place of the probe and the
    /// interval.
    pub fn observe(&mut self, now_ns: u64, each: &mut dyn FnMut(usize, &Interval)) {
        let now_ns = now_ns.max(self.last_ns);
        // The counters first: TCP_INFO takes a microsecond, in which they go on.
        let read: Vec<_> = self.probes.iter().map(|probe| probe.gauge.read()).collect();
        let cpu_ns = process_cpu_ns();
        for (place, (bytes, calls)) in read.into_iter().enumerate() {
            let (bytes_before, calls_before) = self.counted[place];
            let interval = Interval {
                start_ns: self.last_ns - self.began_ns,
                end_ns: now_ns - self.began_ns,
                bytes: bytes.saturating_sub(bytes_before),
                calls: calls.saturating_sub(calls_before),
                cpu_ns: Some(cpu_ns.saturating_sub(self.last_cpu_ns)),
                tcp: self.probes[place].tcp.and_then(|fd| tcp_info::sample(fd).ok()),
            };
            self.counted[place] = (bytes, calls);
            each(place, &interval);
            self.series[place].intervals.push(interval);
        }
        self.last_ns = now_ns;
        self.last_cpu_ns = cpu_ns;
    }

    /// Ends the last interval, and gives a series for each probe. What the load threads published
    /// before this is in it.
    pub fn finish(mut self, now_ns: u64, each: &mut dyn FnMut(usize, &Interval)) -> Vec<Series> {
        let is_new = |(probe, counted): (&Probe<'_>, &(u64, u64))| probe.gauge.read() != *counted;
        if now_ns > self.last_ns || self.probes.iter().zip(&self.counted).any(is_new) {
            self.observe(now_ns, each);
        }
        self.series
    }

    /// Observes at every deadline until `ended` brings something or its sender is dropped, which is
    /// to be after the load threads have published their last counts.
    pub fn run(
        mut self,
        ended: &Receiver<()>,
        each: &mut dyn FnMut(usize, &Interval),
    ) -> Vec<Series> {
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
    use std::sync::mpsc;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn ignore(_: usize, _: &Interval) {}

    fn probe(gauge: &Gauge) -> Vec<Probe<'_>> {
        vec![Probe { gauge, tcp: None }]
    }

    #[test]
    fn intervals_keep_their_true_boundaries() {
        let gauge = Gauge::default();
        let mut sampler = Sampler::begin(1_000, 100, probe(&gauge));
        assert_eq!(sampler.deadline_ns(), 1_100);
        gauge.publish(50, 5);
        sampler.observe(1_103, &mut ignore);
        assert_eq!(sampler.deadline_ns(), 1_200, "lateness does not add up");
        gauge.publish(70, 7);
        sampler.observe(1_420, &mut ignore);
        assert_eq!(sampler.deadline_ns(), 1_500, "missed ends are left out");
        gauge.publish(71, 8);
        let series = sampler.finish(1_430, &mut ignore);
        let seen: Vec<_> = series[0]
            .intervals
            .iter()
            .map(|interval| (interval.start_ns, interval.end_ns, interval.bytes, interval.calls))
            .collect();
        assert_eq!(seen, [(0, 103, 50, 5), (103, 420, 20, 2), (420, 430, 1, 1)]);
        assert!(series[0].intervals.iter().all(|interval| interval.cpu_ns.is_some()));
    }

    #[test]
    fn each_interval_is_told_of_once_and_in_order() {
        let (one, two) = (Gauge::default(), Gauge::default());
        let probes = vec![Probe { gauge: &one, tcp: None }, Probe { gauge: &two, tcp: None }];
        let mut told = vec![Vec::new(); 2];
        let mut each = |place: usize, interval: &Interval| told[place].push(interval.clone());
        let mut sampler = Sampler::begin(0, 10, probes);
        one.publish(1, 1);
        sampler.observe(10, &mut each);
        two.publish(2, 1);
        let series = sampler.finish(20, &mut each);
        for (series, told) in series.iter().zip(told) {
            assert_eq!(series.intervals, told);
            assert_eq!(series.intervals.len(), 2);
        }
        assert_eq!((series[0].bytes(), series[1].bytes()), (1, 2));
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
            let probes = vec![Probe { gauge, tcp: Some(watched.as_fd()) }];
            let sampler = Sampler::begin(now_ns(), 100_000, probes);
            sampler.run(&ended, &mut |_, _| told += 1)
        });
        let [series] = series.as_slice() else { panic!("one probe has one series") };
        assert_eq!((series.bytes(), series.calls()), (BYTES, BYTES / 1024));
        assert_eq!(series.intervals.len(), told);
        assert!(series.intervals.iter().all(|interval| interval.tcp.is_some()));
    }

    #[test]
    fn an_interval_longer_than_all_time_ends_with_the_run() {
        let gauge = Gauge::default();
        let mut sampler = Sampler::begin(1_000, u64::MAX, probe(&gauge));
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
        ) {
            let gauge = Gauge::default();
            let (mut now, mut bytes, mut calls) = (77, 0, 0);
            let mut sampler = Sampler::begin(now, interval_ns, probe(&gauge));
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
            let series = &series[0];
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
