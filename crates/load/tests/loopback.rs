//! Both ends of each transport and pattern over loopback, with the real kernel in between.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::{Factor, Point, Trace, Where, resolve};
use fabricmark_proto::{EndReport, Failure, Prepare, Role};
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::Family;
use proptest::prelude::*;

/// An end of a run of these levels over loopback; what is not named has its default.
fn prepare(role: Role, levels: &str) -> Prepare {
    let mut all = Where::new();
    let defaults = "payload=512 family=4 link=loopback congestion=cubic";
    for level in defaults.split(' ').chain(levels.split(' ')) {
        let (name, text) = level.split_once('=').unwrap();
        let factor = Factor::named(name).unwrap();
        all.insert(factor, factor.level(text).unwrap());
    }
    let point = resolve(&all).unwrap();
    let address: IpAddr = match point.family {
        Family::V4 => "127.0.0.1".parse().unwrap(),
        Family::V6 => "::1".parse().unwrap(),
    };
    Prepare {
        run: 1,
        role,
        point,
        duration_ns: Nanos::from_millis(50),
        token: token(levels),
        address,
        port: 0,
        device: "lo".to_owned(),
        cpu: None,
        interval_ns: None,
        seed: 1,
        trace: None,
    }
}

/// Each run has a token of its own, since it names the run's unix socket.
fn token(levels: &str) -> [u8; 16] {
    let mut token = [9; 16];
    for (place, byte) in levels.bytes().enumerate() {
        token[place % 16] = u8::rotate_left(token[place % 16], 3) ^ byte;
    }
    token
}

/// Runs both ends; the passive one is told to drain when the active one is done.
fn both(
    start: Prepare,
    answer: Prepare,
) -> (Result<EndReport, Failure>, Result<EndReport, Failure>) {
    let address = answer.address;
    let is_reverse = answer.is_active();
    let answering = Endpoint::prepare(answer).unwrap();
    let starting = Endpoint::prepare(start).unwrap();
    let peer = SocketAddr::new(address, answering.port());
    let (start_control, answer_control) = (Control::default(), Control::default());
    let passive = if is_reverse { &start_control } else { &answer_control };
    let tell = |report: &Result<EndReport, Failure>, passive: &Control| match report {
        Ok(report) => passive.drain(report.counts.bytes, 20_000_000),
        Err(_) => passive.give_up(),
    };
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let report = answering.run(None, &answer_control);
            if is_reverse {
                tell(&report, passive);
            }
            report
        });
        let start = starting.run(Some(peer), &start_control);
        if !is_reverse {
            tell(&start, passive);
        }
        (start, answering.join().unwrap())
    })
}

fn run(levels: &str) -> (EndReport, EndReport) {
    let (start, answer) = both(prepare(Role::Start, levels), prepare(Role::Answer, levels));
    match (start, answer) {
        (Ok(start), Ok(answer)) => (start, answer),
        (start, answer) => panic!("{levels}: {:?} {:?}", start.err(), answer.err()),
    }
}

const RELIABLE: [&str; 4] = ["tcp", "mptcp", "tls", "unix"];
/// How QUIC may wait.
const QUIC_WAITS: [&str; 2] = ["block", "spin"];
const WAITS: [&str; 4] = ["block", "epoll", "spin", "busy-poll"];

#[test]
fn every_reliable_stream_delivers_every_byte_that_was_sent() {
    for transport in RELIABLE {
        for wait in WAITS {
            for direction in ["forward", "reverse"] {
                let levels = format!(
                    "pattern=stream transport={transport} wait={wait} direction={direction}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
                let (active, passive) = match direction {
                    "forward" => (start, answer),
                    _ => (answer, start),
                };
                assert_eq!(active.tcp.is_some(), transport != "unix", "{levels}");
                let ramps = (active.counts.ramp_bytes, passive.counts.ramp_bytes);
                assert!(ramps.0 == 0 && ramps.1 > 0, "{levels}: {ramps:?}");
            }
        }
    }
}

#[test]
fn a_quic_stream_delivers_every_byte_under_each_of_its_congestion_controls() {
    for congestion in ["cubic", "reno", "bbr"] {
        for wait in QUIC_WAITS {
            for (direction, family) in [("forward", 4), ("reverse", 6)] {
                let levels = format!(
                    "pattern=stream transport=quic congestion={congestion} wait={wait} \
                     direction={direction} family={family}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
                assert_eq!((start.tcp, answer.tcp), (None, None), "{levels}");
            }
        }
    }
}

#[test]
fn a_quic_handshake_that_nobody_answers_is_named() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let start = prepare(Role::Start, "pattern=stream transport=quic");
    let ended = Endpoint::prepare(start).unwrap().run(Some(nobody), &Control::default());
    let Err(Failure::Peer(said)) = ended else { panic!("{ended:?}") };
    assert!(said.starts_with(&format!("cannot connect to {nobody}: ")), "{said}");
    assert!(said.ends_with("nobody is there (connection refused)"), "{said}");
}

#[test]
fn tcp_counts_its_segments_under_the_congestion_control_that_was_asked_for() {
    for family in [4, 6] {
        let (start, _) = run(&format!("pattern=stream transport=tcp family={family}"));
        let tcp = start.tcp.unwrap();
        assert_eq!(tcp.congestion, "cubic");
        assert!(tcp.data_segments > 0 && tcp.writes_per_segment > 0.0);
    }
}

#[test]
fn every_path_of_tcp_delivers_every_byte_that_was_sent() {
    for path in ["copy", "trunc", "zerocopy", "sendfile", "splice", "io-uring", "io-uring-zc"] {
        for payload in [1, 1000, 100_000] {
            for wait in ["block", "spin"] {
                let levels = format!(
                    "pattern=stream transport=tcp path={path} payload={payload} wait={wait}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn every_reliable_stream_passes_through_a_ring_in_both_directions() {
    for transport in RELIABLE {
        for direction in ["forward", "reverse"] {
            // The send buffer is smaller than what is sent at once.
            for payload in [1, 1000, 300_000] {
                let levels = format!(
                    "pattern=stream transport={transport} path=io-uring payload={payload} \
                     direction={direction} send_buffer=65536"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn socket_options_let_every_byte_pass() {
    for (transport, family, options) in [
        ("tcp", 4, "cork=true"),
        ("mptcp", 4, "cork=true nodelay=false"),
        ("tcp", 4, "quickack=true"),
        ("tcp", 4, "quickack=false wait=epoll flows=3"),
        ("tcp", 6, "dont_fragment=true flow_label=74565"),
        ("udp", 6, "dont_fragment=false flow_label=1"),
        ("tcp", 4, "source=127.0.0.2 connect_timeout=1s"),
        ("udp", 4, "source=127.0.0.3 dont_fragment=true"),
        ("tcp", 4, "device=lo"),
        ("udp", 6, "device=lo"),
    ] {
        for pattern in ["stream", "exchange"] {
            let levels =
                format!("pattern={pattern} transport={transport} family={family} {options}");
            let (start, answer) = run(&levels);
            assert!(start.counts.calls > 0, "{levels}");
            if pattern == "stream" && transport != "udp" {
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn a_flow_is_opened_from_the_port_that_was_asked_for() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let start = prepare(Role::Start, &format!("pattern=stream transport=udp source_port={port}"));
    let error = Endpoint::prepare(start).unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    drop(taken);
    run(&format!("pattern=ping-pong transport=udp source_port={port}"));
}

#[test]
fn round_trips_pass_through_a_ring() {
    for transport in ["tcp", "udp", "mptcp", "unix"] {
        for wait in ["block", "spin"] {
            for (payload, response, outstanding) in [(1, 1, 1), (1000, 30_000, 1), (300, 7, 100)] {
                let levels = format!(
                    "pattern=exchange transport={transport} path=io-uring wait={wait} \
                     payload={payload} response={response} outstanding={outstanding}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.calls > 0, "{levels}");
                assert_eq!(start.rtt_ns.unwrap().len(), start.counts.calls, "{levels}");
                assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
                assert_eq!(start.lost_round_trips, 0, "{levels}");
            }
        }
        let payload = if transport == "udp" { 20_000 } else { 200_000 };
        let (start, answer) = run(&format!(
            "pattern=ping-pong transport={transport} path=io-uring payload={payload}"
        ));
        assert!(start.counts.calls > 0, "{transport}");
        assert_eq!(answer.counts.calls, start.counts.calls, "{transport}");
    }
}

#[test]
fn datagrams_of_a_stream_arrive_or_are_counted_as_dropped() {
    for path in ["copy", "trunc", "mmsg", "gso", "io-uring", "io-uring-zc"] {
        for (family, payload) in [(4, 16), (6, 512), (4, 8000)] {
            for wait in ["block", "spin"] {
                let levels = format!(
                    "pattern=stream transport=udp path={path} family={family} payload={payload} \
                     wait={wait}"
                );
                let (start, answer) = run(&levels);
                let sequence = answer.sequence.unwrap();
                assert!(sequence.unique > 0, "{levels}");
                let lost = start.counts.calls - sequence.unique;
                // A dropped buffer of the path gso is one drop of up to 64 datagrams.
                let most = answer.socket_drops * if path == "gso" { 64 } else { 1 };
                assert!((answer.socket_drops..=most).contains(&lost), "{levels}: {lost} lost");
                assert_eq!(start.counts.bytes, payload * start.counts.calls, "{levels}");
                assert_eq!((sequence.reordered, sequence.duplicates), (0, 0), "{levels}");
            }
        }
    }
}

#[test]
fn each_round_trip_is_recorded_once() {
    for pattern in ["ping-pong", "exchange"] {
        for transport in ["tcp", "udp", "mptcp", "tls", "quic", "unix"] {
            for (payload, wait) in [(1, "block"), (64, "spin"), (512, "epoll"), (3, "busy-poll")] {
                if transport == "quic" && !QUIC_WAITS.contains(&wait) {
                    continue;
                }
                let levels = format!(
                    "pattern={pattern} transport={transport} payload={payload} wait={wait}"
                );
                let (start, answer) = run(&levels);
                let rtt = start.rtt_ns.unwrap();
                assert!(start.counts.calls > 0, "{levels}");
                assert_eq!(rtt.len(), start.counts.calls, "{levels}");
                assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
                // The sum of the round trips cannot exceed the time in which they were made.
                let sum = rtt.mean_ns().unwrap() * rtt.len() as f64;
                assert!(sum <= start.counts.elapsed_ns as f64, "{levels}");
            }
        }
    }
}

#[test]
fn several_requests_may_be_under_way_and_differ_from_their_responses() {
    for transport in ["tcp", "udp", "tls", "quic", "unix"] {
        for wait in ["block", "epoll", "spin"] {
            if transport == "quic" && !QUIC_WAITS.contains(&wait) {
                continue;
            }
            for (payload, response) in [(1, 1000), (1000, 1), (5, 5)] {
                let levels = format!(
                    "pattern=exchange transport={transport} wait={wait} payload={payload} \
                     response={response} outstanding=8"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.calls > 0, "{levels}");
                assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
                assert_eq!(start.lost_round_trips, 0, "{levels}");
            }
        }
    }
}

#[test]
fn many_flows_share_a_thread() {
    for (pattern, transport, flows) in [
        ("stream", "tcp", 20),
        ("stream", "unix", 20),
        ("stream", "udp", 20),
        ("stream", "tls", 20),
        ("exchange", "tcp", 200),
        ("exchange", "udp", 50),
        ("exchange", "tls", 10),
        ("ping-pong", "unix", 50),
    ] {
        for direction in ["forward", "reverse"] {
            let levels = format!(
                "pattern={pattern} transport={transport} flows={flows} direction={direction}"
            );
            let (start, answer) = run(&levels);
            let is_reverse = pattern == "stream" && direction == "reverse";
            let (active, passive) = if is_reverse { (answer, start) } else { (start, answer) };
            let fairness = active.fairness.unwrap();
            assert!(fairness.fewest > 0, "{levels}: a flow had nothing");
            assert!(fairness.jain > 0.0 && fairness.jain <= 1.0, "{levels}");
            if pattern == "stream" && transport != "udp" {
                assert_eq!(active.counts.bytes, passive.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn each_connect_exchange_has_a_connection_of_its_own() {
    for transport in ["tcp", "mptcp", "tls", "quic", "unix"] {
        let levels = format!("pattern=connect-exchange transport={transport} payload=1 response=9");
        let (start, answer) = run(&levels);
        assert!(start.counts.calls > 0, "{levels}");
        assert_eq!(start.counts.calls, answer.counts.calls, "{levels}");
        assert_eq!(start.rtt_ns.unwrap().len(), start.counts.calls, "{levels}");
    }
}

#[test]
fn the_null_transport_carries_streams_and_exchanges() {
    let (start, _) = run("pattern=stream transport=null");
    assert!(start.counts.calls > 0);
    let (start, _) = run("pattern=ping-pong transport=null");
    assert!(!start.rtt_ns.unwrap().is_empty());
}

/// Both ends of a run whose departures are these; it ends with the last of them.
fn run_trace(levels: &str, departures: &[u64]) -> (EndReport, EndReport) {
    let levels = format!("{levels} pace=trace:file");
    let [start, answer] = [Role::Start, Role::Answer].map(|role| Prepare {
        duration_ns: Nanos::from_secs(60),
        trace: Some(Trace::try_from(departures.to_vec()).unwrap()),
        ..prepare(role, &levels)
    });
    let (start, answer) = both(start, answer);
    (start.unwrap(), answer.unwrap())
}

/// A departure every 0.2 ms and three in a burst at 5 ms.
fn departures() -> Vec<u64> {
    (0..25).map(|k| k * 200_000).chain([5_000_000; 3]).collect()
}

#[test]
fn a_stream_sends_one_payload_at_each_departure_of_its_schedule() {
    let count = departures().len() as u64;
    for transport in ["udp", "tcp", "mptcp", "unix"] {
        for (wait, flows) in [("block", 1), ("spin", 1), ("epoll", 1), ("epoll", 5)] {
            for direction in ["forward", "reverse"] {
                let levels = format!(
                    "pattern=stream transport={transport} wait={wait} flows={flows} \
                     direction={direction}"
                );
                let (start, answer) = run_trace(&levels, &departures());
                let (active, passive) =
                    if direction == "forward" { (start, answer) } else { (answer, start) };
                let pacing = active.pacing.unwrap();
                assert_eq!((pacing.departures, pacing.slip_ns.len()), (count, count), "{levels}");
                assert_eq!(active.counts.bytes, 512 * count, "{levels}");
                assert_eq!(passive.counts.bytes, 512 * count, "{levels}");
                assert_eq!(passive.pacing, None, "{levels}");
                // Flows take their turns.
                let fairness = active.fairness.map(|fairness| (fairness.fewest, fairness.most));
                assert_eq!(fairness, (flows > 1).then_some((5, 6)), "{levels}");
            }
        }
    }
}

#[test]
fn every_path_of_tcp_and_the_null_transport_keep_a_pace() {
    let count = departures().len() as u64;
    for levels in [
        "transport=tcp path=trunc",
        "transport=tcp path=zerocopy",
        "transport=tcp path=sendfile",
        "transport=tcp path=splice",
        "transport=udp path=trunc",
        "transport=null",
    ] {
        let (start, _) = run_trace(&format!("pattern=stream {levels}"), &departures());
        assert_eq!(start.pacing.unwrap().departures, count, "{levels}");
        assert_eq!(start.counts.bytes, 512 * count, "{levels}");
    }
}

#[test]
fn no_payload_departs_before_the_pace_allows_it() {
    for pace_wait in ["sleep", "sleep-spin", "spin"] {
        let levels =
            format!("pattern=stream transport=udp pace=fixed:1000/s pace_wait={pace_wait}");
        let (start, answer) = run(&levels);
        let pacing = start.pacing.unwrap();
        assert!(pacing.departures > 0, "{levels}");
        assert_eq!(pacing.departures, start.counts.calls, "{levels}");
        assert!((pacing.departures - 1) * 1_000_000 <= pacing.elapsed_ns, "{levels}");
        assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
    }
}

#[test]
fn each_request_of_an_open_loop_departs_once_and_is_answered() {
    let count = departures().len() as u64;
    for pattern in ["exchange", "ping-pong"] {
        for transport in ["udp", "tcp", "mptcp", "unix"] {
            for (wait, flows) in [("block", 1), ("spin", 1), ("epoll", 5)] {
                for pace_wait in ["sleep", "sleep-spin", "spin"] {
                    let levels = format!(
                        "pattern={pattern} transport={transport} wait={wait} flows={flows} \
                         pace_wait={pace_wait}"
                    );
                    let (start, answer) = run_trace(&levels, &departures());
                    assert_eq!(start.pacing.unwrap().departures, count, "{levels}");
                    assert_eq!(start.rtt_ns.unwrap().len(), count, "{levels}");
                    assert_eq!(start.lost_round_trips, 0, "{levels}");
                    assert_eq!(answer.counts.calls, count, "{levels}");
                }
            }
        }
    }
    for transport in ["tcp", "unix"] {
        let levels = format!("pattern=connect-exchange transport={transport}");
        let (start, answer) = run_trace(&levels, &departures());
        assert_eq!(start.pacing.unwrap().departures, count, "{levels}");
        assert_eq!(start.rtt_ns.unwrap().len(), count, "{levels}");
        assert_eq!(answer.counts.calls, count, "{levels}");
    }
    let (start, _) = run_trace("pattern=exchange transport=null", &departures());
    assert_eq!(start.rtt_ns.unwrap().len(), count);
}

#[test]
fn a_request_that_waits_for_its_departure_has_that_in_its_latency() {
    // All are due at once and one may be under way, so the last one waits for all the others.
    for levels in [
        "pattern=exchange outstanding=1 transport=tcp",
        "pattern=ping-pong transport=udp",
        "pattern=connect-exchange transport=tcp",
    ] {
        let (start, _) = run_trace(levels, &[0; 50]);
        let (rtt, pacing) = (start.rtt_ns.unwrap(), start.pacing.unwrap());
        assert_eq!((rtt.len(), pacing.departures), (50, 50), "{levels}");
        assert!(rtt.max() >= Some(start.counts.elapsed_ns), "{levels}");
        assert!(pacing.slip_ns.max() > pacing.slip_ns.quantile(0.1), "{levels}");
    }
}

#[test]
fn large_requests_that_fill_the_socket_buffers_are_all_answered() {
    let levels = "pattern=exchange transport=tcp payload=1000000 response=1000000";
    for flows in [1, 3] {
        let (start, answer) = run_trace(&format!("{levels} flows={flows}"), &[0; 20]);
        assert_eq!(start.rtt_ns.unwrap().len(), 20);
        assert_eq!(answer.counts.calls, 20);
    }
}

#[test]
fn the_kernels_pacing_is_granted_as_asked_for() {
    let (start, answer) = run("pattern=stream transport=tcp pacing_rate=80M");
    assert_eq!(start.side.pacing_rate_bps, Some(80_000_000));
    assert_eq!(answer.side.pacing_rate_bps, Some(80_000_000));
    for levels in ["pattern=stream transport=tcp", "pattern=stream transport=udp"] {
        assert_eq!(run(levels).0.side.pacing_rate_bps, None, "{levels}");
    }
}

#[test]
fn both_ends_say_which_clock_they_read_and_what_that_costs() {
    let (start, answer) = run("pattern=ping-pong transport=udp");
    for end in [start, answer] {
        let clock = end.side.clock.unwrap();
        assert_eq!((clock.name.as_str(), clock.uncertainty_ppm), ("CLOCK_MONOTONIC", None));
        assert!(clock.read_cost_ns > 0.0);
    }
}

#[test]
fn a_trace_pace_without_its_departures_is_refused() {
    let levels = "pattern=stream transport=null pace=trace:file";
    let start = Endpoint::prepare(prepare(Role::Start, levels)).unwrap();
    let error = start.run(None, &Control::default()).unwrap_err();
    assert!(error.to_string().contains("departures of the trace are missing"), "{error}");
}

#[test]
fn a_transport_that_the_kernel_lacks_is_named() {
    let start = prepare(Role::Start, "pattern=stream transport=sctp");
    // Where the kernel has SCTP, the endpoint is ready.
    if let Err(error) = Endpoint::prepare(start) {
        assert!(matches!(error, Failure::Missing(_)), "{error:?}");
        assert!(error.to_string().contains("no sctp"), "{error}");
    }
}

#[test]
fn a_flow_with_a_wrong_token_does_not_open() {
    for transport in ["tcp", "tls", "quic"] {
        let levels = format!("pattern=stream transport={transport}");
        let start = prepare(Role::Start, &levels);
        let answer = Prepare { token: [8; 16], ..prepare(Role::Answer, &levels) };
        let (start, answer) = both(start, answer);
        assert!(matches!(start, Err(Failure::Peer(_))), "{start:?}");
        assert!(matches!(answer, Err(Failure::Peer(_) | Failure::Aborted)), "{answer:?}");
    }
}

#[test]
fn a_tls_handshake_with_an_end_that_speaks_no_tls_is_named() {
    let message = |end: Result<EndReport, Failure>| match end {
        Err(Failure::Peer(message)) => message,
        end => panic!("{end:?}"),
    };
    let tls = prepare(Role::Start, "pattern=stream transport=tls");
    let (start, _) = both(tls, prepare(Role::Answer, "pattern=stream transport=tcp"));
    let said = message(start);
    assert!(said.starts_with("the flow did not open: the TLS handshake failed: "), "{said}");
    let tls = prepare(Role::Answer, "pattern=stream transport=tls");
    let (_, answer) = both(prepare(Role::Start, "pattern=stream transport=tcp"), tls);
    let said = message(answer);
    assert!(said.starts_with("the flow did not open: the TLS handshake failed: "), "{said}");
}

#[test]
fn an_end_that_leaves_during_a_run_is_named_by_the_other() {
    for transport in ["tcp", "tls", "quic"] {
        let levels = format!("pattern=exchange transport={transport} payload=1 response=9999");
        let start =
            Prepare { duration_ns: Nanos::from_millis(60_000), ..prepare(Role::Start, &levels) };
        // It sends for 50 ms, listens to nothing, and leaves.
        let leaving = format!("pattern=stream direction=reverse transport={transport}");
        let answer = Prepare { token: start.token, ..prepare(Role::Answer, &leaving) };
        let (start, _) = both(start, answer);
        let Err(Failure::Peer(said)) = start else { panic!("{transport}: {start:?}") };
        assert!(said.starts_with("the other end stopped answering: "), "{said}");
    }
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut answer = prepare(Role::Answer, "pattern=stream transport=udp");
    answer.port = port;
    let error = Endpoint::prepare(answer).unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(error.contains("[run]"), "{error}");
}

#[test]
fn an_unknown_congestion_control_is_refused_with_the_known_ones() {
    let mut start = prepare(Role::Start, "pattern=stream transport=tcp");
    start.point.congestion = Some("nonesuch".to_owned());
    let error = Endpoint::prepare(start).unwrap_err().to_string();
    assert!(error.contains("nonesuch") && error.contains("reno"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_reliable_pair_of_transport_and_pattern_loses_no_byte_of_any_payload(
        payload in 1u64..200 << 10,
        wait in prop::sample::select(&WAITS[..]),
    ) {
        for transport in RELIABLE.into_iter().chain(["quic"]) {
            let wait = if transport == "quic" && wait != "spin" { "block" } else { wait };
            for pattern in ["stream", "exchange", "ping-pong"] {
                let levels = format!(
                    "pattern={pattern} transport={transport} wait={wait} payload={payload}"
                );
                let (start, answer) = run(&levels);
                prop_assert!(start.counts.bytes > 0, "{}", levels);
                prop_assert_eq!(start.counts.bytes, answer.counts.bytes, "{}", levels);
            }
        }
    }
}

#[test]
fn a_run_that_is_given_up_ends_at_once_at_both_ends() {
    for transport in ["tcp", "udp", "tls", "quic", "unix"] {
        let levels = format!("pattern=stream label=given-up transport={transport}");
        let answering = Endpoint::prepare(prepare(Role::Answer, &levels)).unwrap();
        let control = Control::default();
        control.give_up();
        assert_eq!(answering.run(None, &control), Err(Failure::Aborted), "{transport}");
    }
}

#[test]
fn a_payload_beyond_the_cap_is_refused_before_anything_is_allocated() {
    let mut start = prepare(Role::Start, "pattern=stream transport=tcp");
    start.point.payload = Bytes(Point::PAYLOAD_MAX.0 + 1);
    let error = Endpoint::prepare(start).unwrap_err();
    assert!(matches!(error, Failure::Protocol(_)), "{error}");
    let mut start = prepare(Role::Start, "pattern=stream transport=tcp");
    start.point.payload = Point::PAYLOAD_MAX;
    assert!(Endpoint::prepare(start).is_ok());
}

#[test]
fn a_load_thread_that_cannot_be_bound_says_why() {
    let mut start = prepare(Role::Start, "pattern=ping-pong transport=udp");
    // No machine of ours has a processor of that number.
    start.cpu = Some(1000);
    let answer = prepare(Role::Answer, "pattern=ping-pong transport=udp");
    let (start, answer) = both(start, answer);
    let (start, answer) = (start.unwrap(), answer.unwrap());
    assert!(start.not_pinned.is_some());
    assert_eq!(start.side.cpu, None);
    assert_eq!(answer.not_pinned, None);
}

/// Runs both ends in intervals of 5 ms.
fn run_in_intervals(levels: &str) -> (EndReport, EndReport) {
    let in_intervals = |role| {
        let interval_ns = Some(Nanos::from_millis(5));
        Prepare { interval_ns, ..prepare(role, levels) }
    };
    let (start, answer) = both(in_intervals(Role::Start), in_intervals(Role::Answer));
    (start.unwrap(), answer.unwrap())
}

#[test]
fn what_the_intervals_of_each_end_moved_adds_up_to_what_the_end_counted() {
    for levels in [
        "pattern=stream transport=tcp label=series",
        "pattern=stream transport=tcp label=series direction=reverse wait=spin",
        "pattern=stream transport=tcp label=series path=splice payload=100000",
        "pattern=stream transport=tcp label=series flows=5",
        "pattern=stream transport=udp label=series",
        "pattern=stream transport=udp label=series path=gso",
        "pattern=ping-pong transport=tcp label=series",
        "pattern=exchange transport=unix label=series outstanding=4 response=9",
        "pattern=exchange transport=tcp label=series flows=5",
        "pattern=connect-exchange transport=tcp label=series response=9",
    ] {
        let (start, answer) = run_in_intervals(levels);
        for end in [start, answer] {
            let series = end.series.unwrap();
            assert_eq!(series.interval_ns, 5_000_000);
            assert!(series.bytes() > 0, "{levels}");
            assert_eq!(series.bytes(), end.counts.bytes, "{levels}");
            assert_eq!(series.calls(), end.counts.calls, "{levels}");
            let has_tcp = levels.contains("tcp") && !levels.contains("connect");
            let sampled = series.intervals.iter().filter(|interval| interval.tcp.is_some()).count();
            assert_eq!(sampled, if has_tcp { series.intervals.len() } else { 0 }, "{levels}");
        }
    }
}

#[test]
fn a_run_without_intervals_has_no_series() {
    for levels in ["pattern=stream transport=tcp label=none", "pattern=ping-pong transport=null"] {
        let (start, answer) = run(levels);
        assert_eq!((start.series, answer.series), (None, None), "{levels}");
    }
}

#[test]
fn each_interval_is_told_of_while_the_run_is_under_way() {
    let mut start = prepare(Role::Start, "pattern=stream transport=null");
    start.interval_ns = Some(Nanos::from_millis(2));
    let (told, heard) = std::sync::mpsc::channel();
    let control = Control::telling(move |interval| told.send(interval.clone()).unwrap());
    let report = Endpoint::prepare(start).unwrap().run(None, &control).unwrap();
    drop(control);
    let heard: Vec<_> = heard.iter().collect();
    assert_eq!(report.series.unwrap().intervals, heard);
    assert!(!heard.is_empty());
}

#[test]
fn an_interval_below_a_millisecond_is_refused() {
    let mut start = prepare(Role::Start, "pattern=stream transport=null");
    start.interval_ns = Some(Nanos(999_999));
    let error = Endpoint::prepare(start).unwrap_err();
    assert!(matches!(error, Failure::Protocol(_)), "{error}");
}

#[test]
fn each_end_says_what_the_kernel_counted_beside_its_sockets() {
    let (start, answer) = run("pattern=ping-pong transport=tcp label=kernel");
    for kernel in [start.kernel.unwrap(), answer.kernel.unwrap()] {
        assert!(kernel.tcp_retransmitted_segments.is_some(), "{kernel:?}");
        assert!(kernel.softnet_dropped.is_some(), "{kernel:?}");
    }
}
