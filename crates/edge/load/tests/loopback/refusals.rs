//! A run that cannot be carried out fails with an error of one line.

use std::net::UdpSocket;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::{Role, Transport};
use fabricmark_proto::{EndReport, Failure, Prepare};
use fabricmark_units::{BitRate, Bytes, Nanos};

use crate::support::{both, prepare};

#[test]
fn a_quic_handshake_that_nobody_answers_is_named() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let start = prepare(Role::Client, "pattern=stream,transport=quic");
    let ended = Endpoint::prepare(start).unwrap().run(Some(nobody), &Control::default());
    let Err(Failure::Peer(said)) = ended else { panic!("{ended:?}") };
    assert!(said.starts_with(&format!("cannot connect to {nobody}: ")), "{said}");
    assert!(said.ends_with("the QUIC connection failed: connection refused"), "{said}");
}

#[test]
fn a_transport_that_the_kernel_lacks_is_named() {
    let start = prepare(Role::Client, "pattern=stream,transport=sctp");
    // If the kernel has SCTP, the endpoint is ready.
    if let Err(error) = Endpoint::prepare(start) {
        assert!(matches!(error, Failure::Missing(_)), "{error:?}");
        assert!(error.to_string().contains("does not support sctp"), "{error}");
    }
}

#[test]
fn a_flow_with_a_wrong_token_does_not_open() {
    for transport in ["tcp", "tls", "quic"] {
        let levels = format!("pattern=stream,transport={transport}");
        let start = prepare(Role::Client, &levels);
        let answer = Prepare { token: [8; 16], ..prepare(Role::Server, &levels) };
        let (start, answer) = both(start, answer);
        assert!(matches!(start, Err(Failure::Peer(_))), "{start:?}");
        assert_eq!(answer, Err(Failure::Aborted), "it waits on for the right one");
    }
}

#[test]
fn more_responses_than_are_allowed_fail_the_run_of_each_server_of_requests() {
    for levels in [
        "pattern=rr",
        "pattern=rr,wait=epoll,flows=3",
        "pattern=crr",
        "pattern=crr,flows=3",
        "pattern=crr,flows=2,threads=2",
    ] {
        let levels = format!("{levels},transport=tcp");
        // One of 512 bytes every 0.5 s.
        let limit = Some(BitRate(8_192));
        let answer = Prepare { response_rate_max: limit, ..prepare(Role::Server, &levels) };
        let (start, answer) = both(prepare(Role::Client, &levels), answer);
        assert!(start.is_err(), "{levels}: {start:?}");
        let failure = answer.unwrap_err().to_string();
        assert!(failure.contains("faster than the rate of 8192"), "{levels}: {failure}");
    }
}

#[test]
fn a_tls_handshake_with_an_end_that_speaks_no_tls_is_named() {
    let message = |end: Result<EndReport, Failure>| match end {
        Err(Failure::Peer(message)) => message,
        end => panic!("{end:?}"),
    };
    let tls = prepare(Role::Client, "pattern=stream,transport=tls");
    let (start, _) = both(tls, prepare(Role::Server, "pattern=stream,transport=tcp"));
    let said = message(start);
    assert!(said.starts_with("the flow did not open: the TLS handshake failed: "), "{said}");
    // The server ignores the connection as foreign, and continues to wait.
    let tls = prepare(Role::Server, "pattern=stream,transport=tls");
    let (start, answer) = both(prepare(Role::Client, "pattern=stream,transport=tcp"), tls);
    assert!(message(start).starts_with("the flow did not open: "));
    assert_eq!(answer, Err(Failure::Aborted));
}

#[test]
fn an_end_that_leaves_during_a_run_is_named_by_the_other() {
    for transport in ["tcp", "tls", "quic"] {
        let levels = format!("pattern=rr,transport={transport},payload=1,response=9999");
        let start =
            Prepare { duration_ns: Nanos::from_millis(60_000), ..prepare(Role::Client, &levels) };
        // The server sends for 50 ms, receives nothing, and leaves.
        let leaving = format!("pattern=stream,direction=reverse,transport={transport}");
        let answer = Prepare { token: start.token, ..prepare(Role::Server, &leaving) };
        let (start, _) = both(start, answer);
        let Err(Failure::Peer(said)) = start else { panic!("{transport}: {start:?}") };
        assert!(said.starts_with("the other end stopped answering: "), "{said}");
    }
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut answer = prepare(Role::Server, "pattern=stream,transport=udp");
    answer.port = port;
    let error = Endpoint::prepare(answer).unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(error.contains("[run]"), "{error}");
}

#[test]
fn an_unknown_congestion_control_is_refused_with_the_known_ones() {
    let mut start = prepare(Role::Client, "pattern=stream,transport=tcp");
    start.point.congestion = Some("nonesuch".to_owned());
    let error = Endpoint::prepare(start).unwrap_err();
    assert!(matches!(error, Failure::Missing(_)), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("nonesuch") && error.contains("reno"), "{error}");
}

#[test]
fn a_run_that_is_given_up_ends_at_once_at_both_ends() {
    for transport in ["tcp", "udp", "tls", "quic", "unix"] {
        let levels = format!("pattern=stream,label=given-up,transport={transport}");
        let answering = Endpoint::prepare(prepare(Role::Server, &levels)).unwrap();
        let control = Control::default();
        control.give_up();
        assert_eq!(answering.run(None, &control), Err(Failure::Aborted), "{transport}");
    }
}

#[test]
fn a_payload_beyond_the_cap_is_refused_before_anything_is_allocated() {
    let mut start = prepare(Role::Client, "pattern=stream,transport=tcp");
    let Bytes(most) = Transport::Tcp.traits().payload_max;
    start.point.payload = Bytes(most + 1);
    let error = Endpoint::prepare(start).unwrap_err();
    assert!(matches!(error, Failure::Protocol(_)), "{error}");
    let mut start = prepare(Role::Client, "pattern=stream,transport=tcp");
    start.point.payload = Bytes(most);
    assert!(Endpoint::prepare(start).is_ok());
}

#[test]
fn a_load_thread_that_cannot_be_bound_says_why() {
    // None of our machines has the first CPU, and no machine the second.
    for cpu in [1_000, u32::MAX] {
        let mut start = prepare(Role::Client, "pattern=ping-pong,transport=udp");
        start.cpu = Some(cpu);
        let answer = prepare(Role::Server, "pattern=ping-pong,transport=udp");
        let (start, answer) = both(start, answer);
        let (start, answer) = (start.unwrap(), answer.unwrap());
        assert_eq!(start.not_pinned.as_deref(), Some("Invalid argument (os error 22)"));
        assert_eq!(start.side.cpu, None);
        assert_eq!(answer.not_pinned, None);
    }
}
