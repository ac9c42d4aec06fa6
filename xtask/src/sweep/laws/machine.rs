//! Laws of the emulator's packets and of CPU time.

use serde_json::Value;

use super::{CLOCKS, Found, Law};
use crate::sweep::record::Record;

pub const LAWS: &[Law] = &[
    ("emulator-balances", emulator_balances),
    ("emulator-carried-what-arrived", emulator_carried),
    ("emulator-within-wire", emulator_within_wire),
    ("cpu-within-machine", cpu_within_machine),
    ("demand-within-machine", demand_within_machine),
];

/// Resolution of `/proc/stat`, a tick, in ns.
const TICK_NS: f64 = 10e6;

/// Packets that leave the emulator arrived or are duplicates; missed packets cause a warning.
fn emulator_balances(record: &Record, found: &mut Found) {
    for way in ["forward", "reverse"] {
        let number = |name: &str| record.number(&format!("/emulation/{way}/{name}"));
        let (Some(arrived), Some(departed)) = (number("arrived"), number("departed")) else {
            continue;
        };
        let (dropped, missed) = (number("dropped").unwrap_or(0.0), number("missed").unwrap_or(0.0));
        let has_copies = record.word("duplicate").is_some();
        // Packets in flight when the run began leave during it.
        let before = 16.0 + 0.02 * arrived;
        found.unless(departed + dropped <= arrived + before || has_copies, || {
            format!("{way}: {arrived} packets came, {departed} left and {dropped} were dropped")
        });
        let is_explained = record.warns("missed-packets") || is_flood(record);
        found.unless(missed == 0.0 || is_explained, || {
            format!("{way}: {missed} packets were missed, and no warning of it")
        });
    }
}

/// Whether datagrams fill their wire, or have none: what their sender loses before it is not the emulator's fault.
fn is_flood(record: &Record) -> bool {
    let is_full = record.wire().map_or(record.is_closed(), |wire| {
        let ways = if record.text("/point/direction") == "both" { 2.0 } else { 1.0 };
        let bound = ways * wire.goodput_bps(record.transport(), record.payload());
        record.figure("goodput_bps").is_some_and(|bps| bps > 0.97 * bound)
    });
    record.is_stream() && record.transport() == "udp" && is_full
}

/// Received payload left the emulator, in packets of at most the MTU.
fn emulator_carried(record: &Record, found: &mut Found) {
    let Some(wire) = record.wire().filter(|_| record.is_emulated()) else { return };
    for flow in record.loads() {
        let (out, home) = match flow.text("/from") {
            "client" => ("forward", "reverse"),
            _ => ("reverse", "forward"),
        };
        let moved = match record.pattern() {
            "stream" => vec![(out, flow.count("received", "bytes"), record.payload())],
            // Answered requests, and their responses except for bursts.
            "burst" => vec![(out, flow.count("sent", "bytes"), record.payload())],
            _ => {
                let answered = flow.count("sent", "calls");
                vec![
                    (out, answered * record.payload(), record.payload()),
                    (home, answered * record.response(), record.response()),
                ]
            }
        };
        for (way, bytes, message) in moved {
            let Some(departed) = record.number(&format!("/emulation/{way}/departed")) else {
                continue;
            };
            let room = match record.transport() {
                "udp" => departed / wire.fragments(message) * message,
                transport => departed * wire.segment(transport),
            };
            found.unless(bytes <= room, || {
                format!("{way}: {bytes} bytes arrived in {departed} packets that hold {room:.0}")
            });
            if let Some(left) = record.number(&format!("/emulation/{way}/departed_bytes")) {
                found.unless(bytes <= left, || {
                    format!("{way}: {bytes} bytes arrived, and {left} left the emulator")
                });
            }
        }
    }
}

/// The packets that leave would, at minimum size, fit the line rate over the whole observed time.
fn emulator_within_wire(record: &Record, found: &mut Found) {
    let (Some(wire), Some(watched_ns)) = (record.wire(), record.watched_ns()) else {
        return;
    };
    // Even if the load ends early, the probe runs for the whole duration, both before the load and from its begin on.
    let probed_ns = |group| record.flows(group).map(|flow| 1e9 * flow.seconds("sent")).sum::<f64>();
    let watched_ns = watched_ns.max(probed_ns("probe")) + probed_ns("probe-idle");
    for way in ["forward", "reverse"] {
        let Some(departed) = record.number(&format!("/emulation/{way}/departed")) else { continue };
        let least = wire.frame(0.0);
        let (taken, room) = (8.0 * least * departed, wire.rate_bps * watched_ns / 1e9);
        // Some packets of the control connection and of neighbour discovery are as small.
        found.unless(taken <= room * (1.0 + CLOCKS) + 8.0 * 100.0 * least, || {
            format!(
                "{way}: {departed} packets take {taken:.0} bits of a wire that carried {room:.0}"
            )
        });
    }
}

/// A process cannot use more than all CPUs; shares of time add up to 1.
fn cpu_within_machine(record: &Record, found: &mut Found) {
    for node in record.nodes() {
        let number = |path: &str| node.pointer(path).and_then(Value::as_f64);
        let (Some(elapsed), Some(cpu)) =
            (number("/usage/elapsed_ns"), number("/usage/process/cpu_ns"))
        else {
            continue;
        };
        let cpus = number("/host/cpus").unwrap_or(1.0);
        found.unless(cpu <= cpus * elapsed * (1.0 + CLOCKS) + 1e6, || {
            format!("{cpu:.0} ns of processor time in {elapsed:.0} ns on {cpus} processors")
        });
        if let Some(shares) = node.pointer("/usage/machine/all").and_then(Value::as_object) {
            let values: Vec<f64> = shares.values().filter_map(Value::as_f64).collect();
            let sum: f64 = values.iter().sum();
            let is_share = values.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share));
            found.unless(is_share && (sum - 1.0).abs() < 1e-6, || {
                format!("shares of the processors: {values:?}")
            });
        }
        let stolen = number("/usage/machine/all/steal").unwrap_or(0.0);
        found.unless(stolen <= 1.0, || format!("{stolen} of the time was stolen"));
    }
}

/// Service demand times its units is at most the time of all CPUs for the whole run.
fn demand_within_machine(record: &Record, found: &mut Found) {
    let Some(flow) = record.loads().next() else { return };
    let number = |node: &Value, path: &str| node.pointer(path).and_then(Value::as_f64);
    let room_us = record
        .nodes()
        .filter_map(|node| {
            Some(number(node, "/host/cpus")? * (number(node, "/usage/elapsed_ns")? + 2.0 * TICK_NS))
        })
        .fold(0.0, f64::max)
        / 1e3;
    let kib = |end: &str| flow.count(end, "bytes") / 1024.0;
    let calls = |end: &str| flow.count(end, "calls");
    let demands = [
        ("sender_demand_us_per_kib", kib("sent")),
        ("receiver_demand_us_per_kib", kib("received")),
        ("client_demand_us_per_transaction", calls("sent")),
        ("server_demand_us_per_transaction", calls("received")),
    ];
    for (name, amount) in demands {
        let Some(demand) = record.figure(name) else { continue };
        found.unless(demand * amount <= room_us * 1.01, || {
            format!("{name} {demand:.3} x {amount:.1} is {:.0} us of {room_us:.0}", demand * amount)
        });
    }
}
