//! Our client against an iperf3 server, and against our server.

use std::net::{IpAddr, SocketAddr};

use fabricmark_interop::Guard;
use fabricmark_interop::iperf3::{ClientEnd, Credentials, Measured, measure};
use fabricmark_load::Control;
use fabricmark_plan::Role;
use fabricmark_proto::{Failure, Prepare};
use fabricmark_units::{Bytes, Nanos};

use super::support::{Ours, Theirs, V4, V6, has, listener};

/// A run of 0.3 s at the address, with these levels.
pub fn prepare(address: IpAddr, levels: &str) -> Prepare {
    let family = if address.is_ipv6() { 6 } else { 4 };
    let levels = format!("pattern=stream,link=loopback,family={family},{levels}");
    let duration_ns = Nanos::from_millis(300);
    Prepare { duration_ns, address, ..fabricmark_testkit::prepare(Role::Client, &levels) }
}

/// Runs of every kind.
const RUNS: &[&str] = &[
    "transport=tcp,payload=10000,congestion=cubic",
    "transport=tcp,payload=10000,congestion=cubic,direction=reverse",
    "transport=tcp,payload=10000,congestion=cubic,flows=8,pace=fixed:80M",
    "transport=tcp,payload=10000,congestion=cubic,flows=8,pace=fixed:80M,direction=reverse",
    "transport=udp,payload=1000,pace=fixed:10M",
    "transport=udp,payload=1000,pace=fixed:10M,direction=reverse",
    "transport=udp,payload=1000,pace=fixed:10M,flows=8",
    "transport=udp,payload=1000,pace=fixed:10M,flows=8,direction=reverse",
];

/// Transports of runs in both directions at once.
const BOTH: [&str; 2] =
    ["transport=tcp,payload=10000,congestion=cubic", "transport=udp,payload=1000"];

/// A run in one direction.
pub fn measure_one(
    prepare: &Prepare,
    server: SocketAddr,
    credentials: Option<&Credentials>,
    control: &Control,
) -> Result<Measured, Failure> {
    measure(&[ClientEnd { prepare, control }], server, credentials)
}

fn measured(prepare: &Prepare, server: SocketAddr) -> Result<Measured, Failure> {
    measure_one(prepare, server, None, &Control::default())
}

/// A run in both directions at once.
fn assert_both(address: IpAddr, server: SocketAddr, transport: &str) {
    let directions = ["forward", "reverse"].map(|direction| {
        let levels = format!("{transport},flows=2,pace=fixed:20M,direction={direction}");
        prepare(address, &levels)
    });
    let controls = [Control::default(), Control::default()];
    let loads: Vec<_> = directions
        .iter()
        .zip(&controls)
        .map(|(prepare, control)| ClientEnd { prepare, control })
        .collect();
    let measured = measure(&loads, server, None).unwrap();
    assert_eq!(measured.server.streams.len(), 4, "{measured:?}");
    for (place, ends) in measured.ends.iter().enumerate() {
        let both = [&ends.client.counts, &ends.server.counts];
        let [sent, received] = if place == 0 { both } else { [both[1], both[0]] };
        // 20 Mbit/s for 0.3 s are 750,000 bytes; the server sends until it is told that the test is over.
        assert!(
            (500_000..1_500_000).contains(&received.bytes),
            "{transport} {place}: {measured:?}"
        );
        assert!(received.bytes <= sent.bytes, "{transport} {place}: {measured:?}");
    }
}

fn assert_measured(address: IpAddr, server: SocketAddr, levels: &str) {
    let prepare = prepare(address, levels);
    let measured = measured(&prepare, server).unwrap_or_else(|error| panic!("{levels}: {error}"));
    let (start, answer) = (&measured.ends[0].client.counts, &measured.ends[0].server.counts);
    let (sent, received) =
        if levels.contains("reverse") { (answer, start) } else { (start, answer) };
    assert!(received.bytes > 0 && received.bytes <= sent.bytes, "{levels}: {measured:?}");
    assert!(received.calls > 0 && start.elapsed_ns > 0 && answer.elapsed_ns > 0, "{levels}");
    assert_eq!(measured.server.streams.len(), prepare.point.flows as usize);
    if levels.contains("udp") && levels.contains("reverse") {
        let sequence = measured.ends[0].client.sequence.unwrap();
        assert_eq!(sequence.unique + sequence.duplicates, received.calls, "{levels}");
    }
}

#[test]
fn our_client_measures_with_their_server() {
    if !has("our_client_measures_with_their_server", &["iperf3"]) {
        return;
    }
    for address in [V4, V6] {
        for levels in RUNS {
            // A fresh server per run: between two tests iperf3 does not listen for a moment.
            let theirs = Theirs::new(address, &["-1"]);
            assert_measured(address, theirs.at, levels);
        }
        for transport in BOTH {
            assert_both(address, Theirs::new(address, &["-1"]).at, transport);
        }
    }
}

#[test]
fn our_client_measures_with_our_server() {
    for address in [V4, V6] {
        let ours = Ours::new(address, Guard::default(), None);
        for levels in RUNS {
            assert_measured(address, ours.at, levels);
        }
        for transport in BOTH {
            assert_both(address, ours.at, transport);
        }
    }
}

#[test]
fn an_amount_ends_a_run_and_arrives_whole() {
    let ours = Ours::new(V4, Guard::default(), None);
    // Rounded up to whole payloads: 34 of 30,000 bytes.
    let of_a_part = "transport=tcp,payload=30000,congestion=cubic";
    for (levels, bytes) in [(RUNS[0], 1_000_000), (RUNS[1], 1_000_000), (of_a_part, 34 * 30_000)] {
        let prepare = Prepare {
            amount: Some(Bytes(1_000_000)),
            duration_ns: Nanos::from_secs(20),
            ..prepare(V4, levels)
        };
        let measured = measured(&prepare, ours.at).unwrap();
        let (start, answer) = (&measured.ends[0].client.counts, &measured.ends[0].server.counts);
        assert_eq!((start.bytes, answer.bytes), (bytes, bytes), "{levels}");
    }
}

/// A run of 0.3 s after an omitted second.
fn omitting(levels: &str) -> Prepare {
    Prepare {
        omit_ns: Nanos::from_secs(1),
        duration_ns: Nanos::from_millis(1_300),
        ..prepare(V4, levels)
    }
}

#[test]
fn the_omitted_part_counts_at_neither_end() {
    let ours = Ours::new(V4, Guard::default(), None);
    let prepare = omitting("transport=udp,payload=1000,pace=fixed:8M");
    let measured = measured(&prepare, ours.at).unwrap();
    // 1300 datagrams in all, 300 of them in the counted part.
    let (start, answer) = (&measured.ends[0].client.counts, &measured.ends[0].server.counts);
    assert!(start.calls < 800 && answer.calls < 800, "{measured:?}");
    assert!(start.elapsed_ns < 800_000_000 && answer.elapsed_ns < 800_000_000, "{measured:?}");
}

/// Otherwise what arrived in the omitted part would hide what was lost later.
#[test]
fn datagrams_of_the_omitted_part_are_not_in_the_sequence_counts() {
    let ours = Ours::new(V4, Guard::default(), None);
    let prepare = omitting("transport=udp,payload=1000,pace=fixed:8M,direction=reverse");
    let client = measured(&prepare, ours.at).unwrap().ends.remove(0).client;
    let sequence = client.sequence.unwrap();
    assert!(sequence.unique < 800, "{sequence:?}");
    // Between the two readings at the end of the omitted part some may arrive.
    assert!(sequence.unique.abs_diff(client.counts.calls) < 20, "{sequence:?} {client:?}");
}

#[test]
fn a_run_tells_of_its_intervals() {
    let ours = Ours::new(V4, Guard::default(), None);
    for levels in [RUNS[0], RUNS[5]] {
        let prepare = Prepare { interval_ns: Some(Nanos::from_millis(50)), ..prepare(V4, levels) };
        let measured = measured(&prepare, ours.at).unwrap();
        assert!(measured.ends[0].client.series.is_some(), "{levels}");
    }
}

#[test]
fn a_run_that_is_ended_early_has_results() {
    let ours = Ours::new(V4, Guard::default(), None);
    for levels in [RUNS[0], RUNS[1], RUNS[4], RUNS[5]] {
        let control = Control::default();
        let prepare = Prepare { duration_ns: Nanos::from_secs(30), ..prepare(V4, levels) };
        std::thread::scope(|scope| {
            let run = scope.spawn(|| measure_one(&prepare, ours.at, None, &control));
            // Whether or not the run has begun, it ends.
            control.end();
            let measured = run.join().unwrap().unwrap();
            assert!(measured.ends[0].client.counts.elapsed_ns < 20_000_000_000, "{levels}");
        });
    }
}

#[test]
fn where_nobody_listens_the_failure_says_what_to_start() {
    let at = listener(V4).local_addr().unwrap();
    let failure = measured(&prepare(V4, RUNS[0]), at).unwrap_err();
    assert!(failure.to_string().contains("start one with `iperf3 -s`"), "{failure}");
}

#[test]
fn a_busy_server_is_told_as_such() {
    let ours = Ours::new(V4, Guard { clients_max: 0, ..Guard::default() }, None);
    let failure = measured(&prepare(V4, RUNS[0]), ours.at).unwrap_err();
    assert!(failure.to_string().contains("busy with another client"), "{failure}");
}

#[test]
fn a_run_that_is_given_up_ends() {
    let ours = Ours::new(V4, Guard::default(), None);
    let control = Control::default();
    control.give_up();
    let failure = measure_one(&prepare(V4, RUNS[0]), ours.at, None, &control).unwrap_err();
    assert_eq!(failure, Failure::Aborted);
}

#[test]
fn factors_that_iperf3_cannot_apply_are_refused() {
    let at = listener(V4).local_addr().unwrap();
    for (factor, level) in [("host_settings", "mtu=9000"), ("threads", "2")] {
        let levels = format!("{},flows=2,{factor}={level}", RUNS[0]);
        let failure = measured(&prepare(V4, &levels), at).unwrap_err();
        assert_eq!(failure.to_string(), format!("iperf3 does not support {factor}: leave it out"));
    }
}
