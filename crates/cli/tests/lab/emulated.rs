//! Plans over links that the emulator carries.

use std::fs;
use std::os::unix::fs::chown;

use fabricmark_plan::Offload;
use fabricmark_record::{Outcome, Provenance, Record, Warning};

use crate::support::{bench, expect};
use crate::users::{USER, users_may_have_namespaces};

/// A plan of these factors over TCP's and UDP's own settings.
fn plan(factors: &str, duration: &str) -> String {
    format!(
        "title = 'emulated'\n[factors]\n{factors}\n[settings]\ncongestion = 'cubic'\n\
         [run]\nduration = '{duration}'\nwarm_up = '1ms'\n[stop]\nruns = 2\n"
    )
}

fn counted(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| !record.place.warm_up)
}

#[test]
fn what_an_emulated_link_did_is_in_the_record() {
    let Some(bench) = bench("emulated link") else { return };
    let factors = "pattern = ['stream', 'ping-pong']\ntransport = ['udp', 'tcp']\nfamily = [4, 6]\n\
                   payload = 512\nlink = 'ethernet:100M'\nrtt = '4ms'";
    bench.plan(&plan(factors, "100ms"));
    expect(&bench.run(&["run", "plan.toml"]), 0, &["report.html"]);
    let records = bench.records();
    assert_eq!(counted(&records).count(), 16);
    for record in counted(&records) {
        let key = record.point.key();
        let emulation = record.emulation.as_ref().unwrap();
        assert_eq!(emulation.words, "rtt=4ms link=ethernet:100M", "{key}");
        assert!(emulation.offloaded && record.point.offload == Some(Offload::On), "{key}");
        let (there, back) = (emulation.there, emulation.back);
        assert!(there.arrived > 0 && back.arrived > 0 || key.contains("udp"), "{key}");
        // A sender that no wire holds back may be faster than the emulator, which is said then.
        let is_flood = key.contains("pattern=stream transport=udp");
        let is_said =
            record.warnings.iter().any(|warning| matches!(warning, Warning::MissedPackets { .. }));
        assert!(there.missed + back.missed == 0 || is_flood && is_said, "{key}");
        assert!(there.departed + there.dropped <= there.arrived, "{key}");
        assert!(there.late_p99_ns.is_some(), "{key}");
        if let Some(rtt) = record.figures.rtt_mean_ns {
            let floor = record.limits.rtt_floor.as_ref().unwrap().time_ns.as_f64();
            assert!(floor > 4e6 && rtt.value >= floor, "{key}: {} under {floor}", rtt.value);
            assert_eq!(rtt.provenance, Provenance::Emulated);
        }
        for flow in &record.flows {
            assert_eq!(flow.drops.unexplained, 0, "{key}");
        }
    }
}

#[test]
fn packets_that_a_link_was_asked_to_lose_are_counted_as_its_own() {
    let Some(bench) = bench("lossy link") else { return };
    let factors = "pattern = 'stream'\ntransport = 'udp'\nfamily = 4\npayload = 512\nlink = 'veth'\n\
                   emulate = 'loss=10%'\npace = 'fixed:5000/s'";
    bench.plan(&plan(factors, "200ms"));
    expect(&bench.run(&["run", "plan.toml"]), 0, &["report.html"]);
    for record in counted(&bench.records()) {
        let (emulation, drops) = (record.emulation.as_ref().unwrap(), record.flows[0].drops);
        assert!(!emulation.offloaded);
        assert!(emulation.there.dropped > 0 && drops.lost > 0, "{drops:?}");
        assert_eq!(drops.unexplained, 0, "{drops:?}");
    }
}

#[test]
fn a_window_beyond_that_of_tcp_is_skipped_once_with_the_reason() {
    let Some(bench) = bench("largest window") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = 6\npayload = 65536\n\
                   link = 'ethernet:100G'\nrtt = ['1ms', '400ms']\nwindow = '1bdp'";
    let text = plan(factors, "50ms");
    bench.plan(&text);
    expect(&bench.run(&["run", "plan.toml"]), 0, &["report.html"]);
    let records = bench.records();
    let reasons: Vec<&String> = records
        .iter()
        .filter_map(|record| match &record.outcome {
            Outcome::Skipped(reason) => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(
        reasons,
        [
            "a window of 5000000000 bytes is beyond TCP's largest, 1073725440 (RFC 7323, section 2.3)"
        ]
    );
    assert_eq!(counted(&records).filter(|r| r.outcome == Outcome::Completed).count(), 2);
}

/// Over 200 ms the 6 MiB that Linux gives a connection by default (tcp_rmem of tcp(7)) carry 252 Mbit/s.
#[test]
fn a_window_beyond_the_defaults_is_had_by_root_and_by_an_ordinary_user() {
    let Some(bench) = bench("wide window") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = 6\npayload = 65536\n\
                   link = 'ethernet:1G,mtu=9000'\nrtt = '200ms'\nwindow = '1bdp'";
    bench.plan(&plan(factors, "500ms"));
    let is_wide = |records: &[Record]| {
        for record in counted(records) {
            let goodput_bps = record.figures.goodput_bps.unwrap().value;
            assert!(goodput_bps > 400e6, "{goodput_bps}");
        }
    };
    expect(&bench.run(&["run", "plan.toml"]), 0, &["report.html"]);
    let records = bench.records();
    is_wide(&records);
    for record in counted(&records) {
        // The kernel says twice what it granted (socket(7)).
        assert_eq!(record.nodes[1].side.receive_buffer_bytes, Some(50_000_000));
    }
    if !users_may_have_namespaces("wide window of an ordinary user") {
        return;
    }
    fs::remove_dir_all(bench.out()).unwrap();
    fs::create_dir(bench.out()).unwrap();
    chown(bench.out(), Some(USER), Some(USER)).unwrap();
    let output = bench.as_user(&["run", "plan.toml", "--out", "out"]).output().unwrap();
    expect(&output, 0, &["report.html"]);
    is_wide(&bench.records());
}

/// A buffer that holds two products by the kernel's first guess holds nearly four of jumbo segments, which
/// would overflow a queue of one and a quarter.
#[test]
fn a_receiver_offers_the_window_that_was_asked_for_and_no_more() {
    let Some(bench) = bench("exact window") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = [4, 6]\npayload = 65536\n\
                   link = 'ethernet:1G,mtu=9000'\nrtt = '20ms'\nemulate = 'queue=350p'\nwindow = '2bdp'";
    bench.plan(&plan(factors, "300ms"));
    expect(&bench.run(&["run", "plan.toml"]), 0, &["report.html"]);
    for record in counted(&bench.records()) {
        let there = record.emulation.as_ref().unwrap().there;
        assert_eq!((there.dropped, there.missed), (0, 0), "{}", record.point.key());
        let goodput_bps = record.figures.goodput_bps.unwrap().value;
        assert!(goodput_bps > 900e6, "{goodput_bps}");
    }
}

#[test]
fn a_bus_of_the_starting_host_bounds_what_its_wire_would_carry() {
    let Some(bench) = bench("host bus in a plan") else { return };
    let factors = "pattern = 'stream'\ntransport = 'tcp'\nfamily = [4, 6]\npayload = 65536\n\
                   link = 'ethernet:1G'\nbus = ['none', '100M']\nrtt = '0ms'";
    bench.plan(&plan(factors, "300ms"));
    expect(&bench.run(&["run", "plan.toml"]), 0, &["report.html"]);
    for record in counted(&bench.records()) {
        let goodput_bps = record.figures.goodput_bps.unwrap().value;
        // Acknowledgements cross the bus, too.
        let (low, high) = if record.point.bus.is_some() { (60e6, 100e6) } else { (500e6, 1000e6) };
        assert!((low..high).contains(&goodput_bps), "{}: {goodput_bps}", record.point.key());
    }
}
