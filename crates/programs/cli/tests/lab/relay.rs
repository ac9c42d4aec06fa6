//! Measurements with a relay between client and server.

use fabricmark_record::Record;
use serde_json::Value;

use crate::support::{Bench, assert_unless_slowed, bench, counted_run};

const HUB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/labs/hub.toml");

/// The record of a run that counts, and its figures; `None` as of [`counted_run`].
fn measured(bench: &Bench, line: &str) -> Option<(Value, impl Fn(&str) -> f64 + use<>)> {
    let record = counted_run(&bench.measure(line))?.clone();
    let figures = record["figures"].clone();
    Some((record, move |key: &str| figures[key]["value"].as_f64().unwrap()))
}

#[test]
fn a_stream_passes_through_a_relay_beside_the_server_or_at_its_own_node() {
    let Some(bench) = bench("a relay in a lab") else { return };
    for target in ["loopback", "lab:veth", &format!("lab:{HUB}:client,server")] {
        for relay in ["copy", "splice", "io-uring"] {
            let line = format!("stream {target} --congestion cubic --duration 1s --relay {relay}");
            let Some((record, figure)) = measured(&bench, &line) else { continue };
            // All bytes of the run, in a time that includes its ramp and its end.
            let sent = record["flows"][0]["sent"]["bytes"].as_f64().unwrap();
            let bits = figure("switching_mean_ns") / 1e9 * figure("switching_bps");
            assert!((bits / (8.0 * sent) - 1.0).abs() < 1e-6, "{line}: {bits} of {sent}");
            // The receiver does not count the first part of the run, in which a late relay may start.
            let switching_ns = figure("switching_mean_ns");
            let counted_ns = record["flows"][0]["received"]["elapsed_ns"].as_f64().unwrap();
            assert!(switching_ns >= counted_ns, "{line}: {switching_ns} of {counted_ns}");
            assert!(figure("relay_receiving_mean_ns") <= switching_ns, "{line}");
        }
    }
}

#[test]
fn each_connection_of_crr_is_one_file_of_p5s_tables() {
    let Some(bench) = bench("P5's file through a relay") else { return };
    for (buffer, to) in [("375", "server"), ("8192", "client")] {
        let line = format!(
            "crr lab:{HUB}:client,{to} --payload 240118 --response 1 --congestion cubic --duration 500ms --relay copy \
             --relay-buffer {buffer}"
        );
        let Some((_, figure)) = measured(&bench, &line) else { continue };
        let bits = figure("switching_mean_ns") / 1e9 * figure("switching_bps");
        assert!((bits / (8.0 * 240_118.0) - 1.0).abs() < 1e-6, "{line}: {bits}");
        // Twice over a hub of 100 Mbit/s: half of 1460 of 1538 bytes.
        let least_ns = 2.0 * 8.0 * 240_118.0 * 1_538.0 / 1_460.0 * 10.0;
        assert!((figure("transmission_delay_ns") / least_ns - 1.0).abs() < 1e-9, "{line}");
        assert!(figure("rtt_mean_ns") > least_ns, "{line}");
    }
}

#[test]
fn the_seven_delays_of_p5_are_parts_of_a_transaction() {
    let Some(bench) = bench("P5's seven delays") else { return };
    let line = format!(
        "crr lab:{HUB}:client,client --payload 14000 --response 1 --congestion cubic --duration 1s --relay copy \
         --timestamps software"
    );
    let Some((record, figure)) = measured(&bench, &line) else { return };
    let [access, packetisation, transmission, propagation, switching, queueing, reassembly] = [
        "access",
        "packetisation",
        "transmission",
        "propagation",
        "switching",
        "queueing",
        "reassembly",
    ]
    .map(|delay| figure(&format!("{delay}_delay_ns")));
    for (delay, ns) in [
        ("access", access),
        ("packetisation", packetisation),
        ("transmission", transmission),
        ("switching", switching),
        ("queueing", queueing),
        ("reassembly", reassembly),
    ] {
        assert!(ns > 0.0, "{delay}: {record}");
    }
    assert_eq!(propagation, 0.0, "a hub in a lab has no length");
    // What the hypervisor takes away waits like a queue.
    let run: Record = serde_json::from_value(record.clone()).unwrap();
    let told = format!("{queueing} ns in queues, {transmission} ns of transmission");
    assert_unless_slowed(queueing < transmission / 2.0, [&run], &told);
    let sum = access + packetisation + transmission + switching + queueing + reassembly;
    // The rest is the opening of the connection and the server's turn.
    assert!(sum < figure("rtt_mean_ns"), "{record}");
    for (delay, provenance) in [
        ("access", "emulated"),
        ("transmission", "modelled"),
        ("queueing", "modelled"),
        ("reassembly", "emulated"),
    ] {
        assert_eq!(record["figures"][format!("{delay}_delay_ns")]["provenance"], provenance);
    }
    let long = line.replace("14000", "240118");
    let Some((record, _)) = measured(&bench, &long) else { return };
    assert_eq!(record["figures"]["queueing_delay_ns"], Value::Null, "it does not leave at once");
}

#[test]
fn each_flow_and_both_directions_of_an_exchange_pass_through_the_relay() {
    let Some(bench) = bench("a relay of many flows") else { return };
    for line in [
        "stream lab:veth --flows 8 --duration 100ms --reverse",
        "stream loopback --duration 100ms --bidir",
        "rr lab:veth --flows 4 --duration 100ms --family 6",
        "crr loopback --duration 100ms",
        "crr loopback --flows 200 --duration 100ms",
    ] {
        let _ = measured(&bench, &format!("{line} --relay copy"));
    }
}
