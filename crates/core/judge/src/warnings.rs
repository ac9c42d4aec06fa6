//! Warnings of a run.

use fabricmark_plan::{Point, Purpose};
use fabricmark_proto::EndReport;
use fabricmark_record::{Record, Usage, Warning};
use fabricmark_stats::{LAG1_WARNING, lag1};

use crate::Part;
use crate::validity::is_flood;

/// Fewest runs for a meaningful correlation.
const CORRELATION_RUNS: usize = 10;

/// Load threads that share a CPU; the idle probe does not count, since it runs earlier.
pub(crate) fn shared_cpu(parts: &[Part], is_one_machine: bool) -> Option<Warning> {
    let at_once = parts.iter().filter(|part| part.purpose != Purpose::ProbeIdle);
    let of_end = |end: &EndReport| match &end.threads[..] {
        [] => vec![end.side.cpu],
        threads => threads.iter().map(|thread| thread.cpu).collect(),
    };
    // With the number of the machine.
    let cpus = at_once.flat_map(|part| {
        let server = if is_one_machine { 0 } else { 1 };
        [(0, &part.ends.client), (server, &part.ends.server)].map(|(machine, end)| {
            of_end(end).into_iter().flatten().map(move |cpu| (machine, cpu)).collect::<Vec<_>>()
        })
    });
    let mut cpus: Vec<(u32, u32)> = cpus.flatten().collect();
    let all = cpus.len();
    cpus.sort_unstable();
    cpus.dedup();
    let [processors, threads] =
        [cpus.len(), all].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    (cpus.len() < all).then_some(Warning::SharedCpu { threads, processors })
}

/// CPU time stolen by the hypervisor. Two ends on one machine lose the same time, so the larger share is enough.
pub(crate) fn stolen(nodes: [&str; 2], [client, server]: [&EndReport; 2]) -> Option<Warning> {
    let share = |end: &EndReport| end.usage.as_ref().and_then(Usage::stolen_share).unwrap_or(0.0);
    let (node, report) = match share(server) > share(client) {
        true => (nodes[1], server),
        false => (nodes[0], client),
    };
    report.usage.as_ref()?.warning(node)
}

/// Receive buffer that is smaller than requested. The kernel reports twice what it granted (socket(7)).
pub(crate) fn small_buffer(point: &Point, passive: &EndReport) -> Option<Warning> {
    let asked_bytes = point.receive_buffer?.0;
    let granted_bytes = passive.side.receive_buffer_bytes? / 2;
    (granted_bytes < asked_bytes).then_some(Warning::SmallBuffer { asked_bytes, granted_bytes })
}

/// Like [`small_buffer`], for the sender's buffer.
pub(crate) fn small_send_buffer(point: &Point, active: &EndReport) -> Option<Warning> {
    let asked_bytes = point.send_buffer?.0;
    let granted_bytes = active.side.send_buffer_bytes? / 2;
    (granted_bytes < asked_bytes).then_some(Warning::SmallSendBuffer { asked_bytes, granted_bytes })
}

/// Packets that an emulator lost without being told to. What a flood loses before the emulator is no fault of the
/// machine.
pub fn missed(record: &Record) -> Option<Warning> {
    let emulation = record.emulation.as_ref().filter(|_| !is_flood(record))?;
    let packets = emulation.forward.missed + emulation.reverse.missed;
    (packets > 0).then_some(Warning::MissedPackets { packets })
}

/// Whether consecutive values of a point's runs are correlated.
pub fn correlated(values: &[f64]) -> Option<Warning> {
    let lag1 = lag1(values).filter(|_| values.len() >= CORRELATION_RUNS)?;
    (lag1 > LAG1_WARNING).then_some(Warning::Correlated { lag1 })
}
