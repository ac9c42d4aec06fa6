//! Both ends of each transport and pattern over loopback, with the real kernel in between.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::{Path, Pattern, Point, Transport};
use fabricmark_proto::{EndReport, Failure, Prepare, Role};
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::Family;

fn prepare(role: Role, pattern: Pattern, transport: Transport, family: Family) -> Prepare {
    let address: IpAddr = match family {
        Family::V4 => "127.0.0.1".parse().unwrap(),
        Family::V6 => "::1".parse().unwrap(),
    };
    let is_tcp = transport == Transport::Tcp;
    Prepare {
        run: 1,
        role,
        point: Point {
            pattern,
            transport,
            family,
            payload: Bytes(512),
            link: "veth".parse().unwrap(),
            path: Path::Copy,
            congestion: is_tcp.then(|| "cubic".to_owned()),
            nodelay: is_tcp.then_some(pattern == Pattern::PingPong),
            receive_buffer: (!is_tcp).then_some(Bytes(4 << 20)),
            label: None,
        },
        duration_ns: Nanos::from_millis(100),
        token: [9; 16],
        address,
        port: 0,
        device: "lo".to_owned(),
        cpu: None,
    }
}

/// Runs both ends; the answering one is told to drain when the starting one is done.
fn both(
    start: Prepare,
    answer: Prepare,
) -> (Result<EndReport, Failure>, Result<EndReport, Failure>) {
    let address = answer.address;
    let answering = Endpoint::prepare(answer).unwrap();
    let starting = Endpoint::prepare(start).unwrap();
    let peer = SocketAddr::new(address, answering.port());
    let (start_control, answer_control) = (Control::default(), Control::default());
    thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, &answer_control));
        let start = starting.run(Some(peer), &start_control);
        match &start {
            Ok(report) => answer_control.drain(report.counts.calls, 20_000_000),
            Err(_) => answer_control.give_up(),
        }
        (start, answering.join().unwrap())
    })
}

fn run(pattern: Pattern, transport: Transport, family: Family) -> (EndReport, EndReport) {
    let (start, answer) = both(
        prepare(Role::Start, pattern, transport, family),
        prepare(Role::Answer, pattern, transport, family),
    );
    (start.unwrap(), answer.unwrap())
}

#[test]
fn a_reliable_stream_delivers_every_byte_that_was_sent() {
    for family in [Family::V4, Family::V6] {
        let (start, answer) = run(Pattern::Stream, Transport::Tcp, family);
        assert!(start.counts.bytes > 0);
        assert_eq!(start.counts.bytes, answer.counts.bytes, "{family}");
        let tcp = start.tcp.unwrap();
        assert_eq!(tcp.congestion, "cubic");
        assert!(tcp.data_segments > 0 && tcp.writes_per_segment > 0.0);
    }
}

#[test]
fn datagrams_of_a_stream_arrive_or_are_counted_as_dropped() {
    for family in [Family::V4, Family::V6] {
        let (start, answer) = run(Pattern::Stream, Transport::Udp, family);
        let sequence = answer.sequence.unwrap();
        assert!(sequence.unique > 0);
        assert_eq!(sequence.unique + answer.socket_drops, start.counts.calls, "{family}");
        assert_eq!((sequence.reordered, sequence.duplicates), (0, 0));
    }
}

#[test]
fn each_round_trip_of_ping_pong_is_recorded_once() {
    for transport in [Transport::Tcp, Transport::Udp] {
        for family in [Family::V4, Family::V6] {
            let (start, answer) = run(Pattern::PingPong, transport, family);
            let rtt = start.rtt_ns.unwrap();
            assert!(start.counts.calls > 0);
            assert_eq!(rtt.len(), start.counts.calls, "{transport} {family}");
            assert_eq!(answer.counts.calls, start.counts.calls, "{transport} {family}");
            // The sum of the round trips cannot exceed the time in which they were made.
            assert!(rtt.mean_ns().unwrap() * rtt.len() as f64 <= start.counts.elapsed_ns as f64);
        }
    }
}

#[test]
fn the_null_transport_carries_both_patterns() {
    let (start, _) = run(Pattern::Stream, Transport::Null, Family::V4);
    assert!(start.counts.calls > 0);
    let (start, _) = run(Pattern::PingPong, Transport::Null, Family::V4);
    assert!(!start.rtt_ns.unwrap().is_empty());
}

#[test]
fn a_flow_with_a_wrong_token_does_not_open() {
    let (pattern, family) = (Pattern::Stream, Family::V4);
    let start = prepare(Role::Start, pattern, Transport::Tcp, family);
    let answer =
        Prepare { token: [8; 16], ..prepare(Role::Answer, pattern, Transport::Tcp, family) };
    let (start, answer) = both(start, answer);
    assert!(matches!(start, Err(Failure::Peer(_))), "{start:?}");
    assert!(matches!(answer, Err(Failure::Peer(_) | Failure::Aborted)), "{answer:?}");
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut answer = prepare(Role::Answer, Pattern::Stream, Transport::Udp, Family::V4);
    answer.port = port;
    let error = Endpoint::prepare(answer).unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(error.contains("[run]"), "{error}");
}

#[test]
fn an_unknown_congestion_control_is_refused_with_the_known_ones() {
    let mut start = prepare(Role::Start, Pattern::Stream, Transport::Tcp, Family::V4);
    start.point.congestion = Some("nonesuch".to_owned());
    let error = Endpoint::prepare(start).unwrap_err().to_string();
    assert!(error.contains("nonesuch") && error.contains("reno"), "{error}");
}

#[test]
fn a_run_that_is_given_up_ends_at_once_at_both_ends() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let answering =
            Endpoint::prepare(prepare(Role::Answer, Pattern::Stream, transport, Family::V4))
                .unwrap();
        let control = Control::default();
        control.give_up();
        assert_eq!(answering.run(None, &control), Err(Failure::Aborted), "{transport}");
    }
}

#[test]
fn a_payload_beyond_the_cap_is_refused_before_anything_is_allocated() {
    let mut start = prepare(Role::Start, Pattern::Stream, Transport::Tcp, Family::V4);
    start.point.payload = Bytes(Point::PAYLOAD_MAX.0 + 1);
    let error = Endpoint::prepare(start).unwrap_err();
    assert!(matches!(error, Failure::Protocol(_)), "{error}");
    let mut start = prepare(Role::Start, Pattern::Stream, Transport::Tcp, Family::V4);
    start.point.payload = Point::PAYLOAD_MAX;
    assert!(Endpoint::prepare(start).is_ok());
}

#[test]
fn a_load_thread_that_cannot_be_bound_says_why() {
    let mut start = prepare(Role::Start, Pattern::PingPong, Transport::Udp, Family::V4);
    // No machine of ours has a processor of that number.
    start.cpu = Some(1000);
    let answer = prepare(Role::Answer, Pattern::PingPong, Transport::Udp, Family::V4);
    let (start, answer) = both(start, answer);
    let (start, answer) = (start.unwrap(), answer.unwrap());
    assert!(start.not_pinned.is_some());
    assert_eq!(start.side.cpu, None);
    assert_eq!(answer.not_pinned, None);
}
