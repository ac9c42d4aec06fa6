//! Samples a run outside its hot loop: the flows of each load thread count into a [`Gauge`], and a thread of its own ends
//! the intervals. A run without intervals has neither.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc;
use std::thread;

use fabricmark_plan::Pattern;
use fabricmark_proto::Prepare;
use fabricmark_record::Series;
use fabricmark_units::Nanos;
use rustix::process::getpid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::control::{Control, Event};
use crate::descriptors::own_descriptors;
use crate::transport::{Flow, Message, Moved, passes_on};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::{Gauge, Reception};
use fabricmark_telemetry::sampler::Sampler;

/// Runs `carry`, which counts into the gauges of its threads, and reports each interval meanwhile; `planned` is the length
/// of the run from the opening of its flows, and `tcp` the socket whose TCP_INFO the intervals contain.
pub(crate) fn watched<R>(
    interval: Nanos,
    planned: Option<Nanos>,
    tcp: Option<BorrowedFd<'_>>,
    control: &Control,
    gauges: &[Gauge],
    carry: impl FnOnce() -> R,
) -> (R, Option<Series>) {
    let (end, ended) = mpsc::channel();
    thread::scope(|scope| {
        let sampler =
            Sampler::begin(now_ns(), interval.0, planned.map(|Nanos(ns)| ns), gauges, tcp);
        let watcher = scope.spawn(move || {
            own_descriptors();
            leave_the_processor_of_the_load();
            sampler.run(&ended, &mut |interval| control.tell(Event::Interval(interval)))
        });
        let result = carry();
        drop(end);
        // The thread cannot panic; without it there is no series.
        (result, watcher.join().ok())
    })
}

/// A new thread inherits the CPU affinity of its creator; the main thread of the process is never pinned. If this is
/// refused, the sampler takes its microseconds from the load.
pub(crate) fn leave_the_processor_of_the_load() {
    if let Ok(everywhere) = sched_getaffinity(Some(getpid())) {
        let _ = sched_setaffinity(None, &everywhere);
    }
}

/// A flow that counts into a gauge: payloads sent or received, and transactions, at the client when the response has
/// arrived, at the server when it is sent.
///
/// Not generic over the flow: otherwise each pattern would be compiled once more for each kind of flow.
pub(crate) struct Gauged<'a> {
    flow: &'a mut dyn Flow,
    gauge: &'a Gauge,
    does_ask: bool,
    /// Payloads per request.
    payloads: u64,
    /// Length of the last payload that was sent.
    payload_bytes: u64,
    /// What was published last.
    reception: Option<Reception>,
}

impl<'a> Gauged<'a> {
    pub(crate) fn new(flow: &'a mut dyn Flow, gauge: &'a Gauge, prepare: &Prepare) -> Self {
        let payloads = prepare.point.payloads_per_request().into();
        // In ping-ping, the end that stops receives one payload more than it sends, and the other end sends it.
        let does_ask = prepare.is_active() != (prepare.point.pattern == Pattern::PingPing);
        Self { flow, gauge, does_ask, payloads, payload_bytes: 0, reception: None }
    }
}

impl Flow for Gauged<'_> {
    passes_on!();

    fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
        self.send_most(payload, u64::MAX)
    }

    fn send_most(&mut self, payload: &mut [u8], most: u64) -> io::Result<Moved> {
        let moved = self.flow.send_most(payload, most)?;
        self.gauge.add(moved.bytes, moved.payloads);
        Ok(moved)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        let moved = self.flow.receive(buffer)?;
        self.gauge.add(moved.bytes, moved.payloads);
        if let Some(now) = self.flow.reception() {
            self.gauge.replace_reception(self.reception.replace(now), now);
        }
        Ok(moved)
    }

    fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
        // In ping-ping, the other end's payload may arrive before this one has left.
        self.payload_bytes = message.len() as u64;
        self.flow.send_message(message, number)?;
        if !self.does_ask {
            self.gauge.add(message.len() as u64, 1);
        }
        Ok(())
    }

    fn answered(&mut self) {
        if self.does_ask {
            self.gauge.add(self.payloads * self.payload_bytes, 1);
        }
    }

    fn settle(&mut self) -> io::Result<Moved> {
        let moved = self.flow.settle()?;
        self.gauge.add(moved.bytes, moved.payloads);
        Ok(moved)
    }
}
