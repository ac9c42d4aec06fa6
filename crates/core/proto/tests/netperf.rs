//! The server's side of netperf's control conversation, against transcripts of netperf 2.7.1 and its netserver over
//! loopback (`tests/netperf/`: one message per line, `>` from the client; the rest of each message is zero).
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::net::IpAddr;

use fabricmark_proto::netperf::{
    Action, Caller, Ending, MESSAGE_BYTES, Message, Refusal, Request, Response, Results, Server,
    Test, Traffic, Transport, direction, flag,
};
use fabricmark_units::{Instant, Nanos};
use proptest::prelude::*;

const START: Instant = Instant(0);
const HOUR: Nanos = Nanos::from_secs(3600);

fn caller(address: &str) -> Caller {
    let address: IpAddr = address.parse().unwrap();
    Caller { peer: address, local: address, duration_max: HOUR }
}

macro_rules! transcripts {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("netperf/", $name, ".txt")))),*]
    };
}

/// Transcripts by name.
const TRANSCRIPTS: [(&str, &str); 13] = transcripts! {
    "tcp-cc"
    "tcp-crr"
    "tcp-maerts"
    "tcp-maerts-ipv6"
    "tcp-rr"
    "tcp-rr-named-address"
    "tcp-stream"
    "tcp-stream-cpu"
    "tcp-stream-flent"
    "tcp-stream-of-bytes"
    "udp-maerts"
    "udp-rr"
    "udp-stream"
};

/// Request, response and results of a transcript.
fn transcript(name: &str) -> [Message; 3] {
    let (_, text) = TRANSCRIPTS.iter().find(|(its_name, _)| *its_name == name).unwrap();
    let message = |line: &str| {
        let mut bytes = [0; MESSAGE_BYTES];
        for (word, at) in line[1..].split_whitespace().zip(bytes.chunks_exact_mut(4)) {
            at.copy_from_slice(&u32::from_str_radix(word, 16).unwrap().to_be_bytes());
        }
        Message(bytes)
    };
    let lines = text.lines().filter(|line| line.starts_with(['>', '<']));
    lines.map(message).collect::<Vec<_>>().try_into().unwrap()
}

fn test_of(name: &str, address: &str) -> Result<Test, Refusal> {
    Test::of(&Request::of(&transcript(name)[0]), caller(address))
}

#[test]
fn each_test_of_netperf_is_understood() {
    let after = |seconds| Ending::After(Nanos::from_secs(seconds));
    let exchange = Traffic::Exchange { request_bytes: 1, response_bytes: 1 };
    let connects = Traffic::Crr { request_bytes: 1, response_bytes: 1 };
    for (name, address, transport, traffic, ending, within_s) in [
        (
            "tcp-stream",
            "127.0.0.1",
            Transport::Tcp,
            Traffic::Receive { call_bytes: 131_072 },
            after(1),
            5,
        ),
        (
            "tcp-stream-of-bytes",
            "127.0.0.1",
            Transport::Tcp,
            Traffic::Receive { call_bytes: 131_072 },
            Ending::Count(1_000_000),
            3600,
        ),
        (
            "tcp-maerts",
            "127.0.0.1",
            Transport::Tcp,
            Traffic::Send { call_bytes: 16_384 },
            after(1),
            1,
        ),
        (
            "tcp-maerts-ipv6",
            "::1",
            Transport::Tcp,
            Traffic::Send { call_bytes: 16_384 },
            after(1),
            1,
        ),
        (
            "udp-stream",
            "127.0.0.1",
            Transport::Udp,
            Traffic::Receive { call_bytes: 65_507 },
            after(1),
            5,
        ),
        (
            "udp-maerts",
            "127.0.0.1",
            Transport::Udp,
            Traffic::Send { call_bytes: 65_507 },
            after(1),
            1,
        ),
        ("tcp-rr", "127.0.0.1", Transport::Tcp, exchange, Ending::Count(20), 3600),
        ("tcp-rr-named-address", "::1", Transport::Tcp, exchange, Ending::Count(5), 3600),
        ("udp-rr", "127.0.0.1", Transport::Udp, exchange, Ending::Count(20), 3600),
        ("tcp-crr", "127.0.0.1", Transport::Tcp, connects, after(1), 2),
    ] {
        let test = test_of(name, address).unwrap();
        assert_eq!(
            (test.transport, test.traffic, test.ending, test.within),
            (transport, traffic, ending, Nanos::from_secs(within_s)),
            "{name}"
        );
    }
}

#[test]
fn options_of_flent_are_understood() {
    let test = test_of("tcp-stream-flent", "127.0.0.1").unwrap();
    assert_eq!(test.congestion.as_deref(), Some("reno"));
    assert_eq!(test.traffic_class, Some(0x20));
    assert!(test.tells_congestion);
}

#[test]
fn what_netserver_counted_is_read() {
    let results = Results::of(&transcript("tcp-stream-flent")[2]);
    assert_eq!(results.bytes_received, 179_257_344);
    assert_eq!(results.congestion, "reno");
    assert_eq!(results.retransmissions, Some(0));
    assert!((2.0..2.01).contains(&results.elapsed_s), "{}", results.elapsed_s);
    let results = Results::of(&transcript("udp-rr")[2]);
    assert_eq!(
        [results.transactions, results.send_calls, results.receive_calls],
        [20, 20, 20],
        "{results:?}"
    );
}

#[test]
fn the_response_is_netservers() {
    for (name, address) in [
        ("tcp-stream", "127.0.0.1"),
        ("tcp-maerts", "127.0.0.1"),
        ("tcp-maerts-ipv6", "::1"),
        ("tcp-rr", "127.0.0.1"),
        ("udp-rr", "127.0.0.1"),
        ("udp-maerts", "127.0.0.1"),
        ("tcp-crr", "127.0.0.1"),
        ("tcp-stream-flent", "127.0.0.1"),
    ] {
        let [request, response, _] = transcript(name);
        let expected = Response::of(&response);
        let mut server = Server::new(caller(address), START);
        server.on_bytes(START, &request.0);
        server.on_prepared(
            START,
            Ok(Response {
                data_port: expected.data_port,
                receive_buffer_bytes: expected.receive_buffer_bytes,
                send_buffer_bytes: expected.send_buffer_bytes,
                traffic_class: expected.traffic_class,
                ..Response::default()
            }),
        );
        let said = server.poll_output().unwrap();
        assert_eq!(said.kind(), Message::OMNI_RESPONSE);
        assert_eq!(Response::of(&said), expected, "{name}");
    }
}

#[test]
fn that_processors_are_not_measured_is_said() {
    let [request, response, _] = transcript("tcp-stream-cpu");
    assert_ne!(Response::of(&response).flags & flag::MEASURE_CPU, 0);
    let mut server = Server::new(caller("127.0.0.1"), START);
    server.on_bytes(START, &request.0);
    let prepared = Response {
        data_port: 1,
        receive_buffer_bytes: 1,
        send_buffer_bytes: 1,
        ..Response::default()
    };
    server.on_prepared(START, Ok(prepared));
    assert_eq!(Response::of(&server.poll_output().unwrap()).flags, 0);
}

#[test]
fn one_test_follows_the_other_over_one_connection() {
    let [request, ..] = transcript("tcp-rr");
    let mut server = Server::new(caller("127.0.0.1"), START);
    for port in [5000, 5001] {
        let Some(Action::Prepare(test)) = server.on_bytes(START, &request.0) else {
            panic!("no test")
        };
        assert_eq!(test.traffic, Traffic::Exchange { request_bytes: 1, response_bytes: 1 });
        assert_eq!(server.room(), 0);
        assert_eq!(server.deadline(), None);
        let prepared = Response {
            data_port: port,
            receive_buffer_bytes: 1,
            send_buffer_bytes: 2,
            ..Response::default()
        };
        server.on_prepared(START, Ok(prepared));
        assert_eq!(Response::of(&server.poll_output().unwrap()).data_port, port);
        let counted = Results {
            bytes_received: 1 << 33,
            transactions: 20,
            elapsed_s: 1.5,
            ..Results::default()
        };
        server.on_finished(START, Ok(counted));
        let results = server.poll_output().unwrap();
        assert_eq!((results.kind(), results.second()), (Message::OMNI_RESULTS, 0));
        let results = Results::of(&results);
        assert_eq!((results.bytes_received, results.transactions), (1 << 33, 20));
        assert_eq!(results.elapsed_s, 1.5);
        assert_eq!(results.retransmissions, None);
        assert_eq!(server.room(), MESSAGE_BYTES);
    }
}

#[test]
fn a_failed_socket_and_a_failed_test_are_told_by_their_error_number() {
    let [request, ..] = transcript("tcp-rr");
    let mut server = Server::new(caller("127.0.0.1"), START);
    server.on_bytes(START, &request.0);
    server.on_prepared(START, Err(98));
    let said = server.poll_output().unwrap();
    assert_eq!((said.kind(), said.second()), (Message::OMNI_RESPONSE, 98));
    server.on_bytes(START, &request.0);
    let prepared = Response {
        data_port: 1,
        receive_buffer_bytes: 1,
        send_buffer_bytes: 1,
        ..Response::default()
    };
    server.on_prepared(START, Ok(prepared));
    server.poll_output();
    server.on_finished(START, Err(110));
    let said = server.poll_output().unwrap();
    assert_eq!((said.kind(), said.second()), (Message::OMNI_RESULTS, 110));
}

#[test]
fn messages_beside_tests_are_answered() {
    for (kind, answer) in [
        (Message::DEBUG_ON, Some((Message::DEBUG_OK, 0))),
        (Message::DEBUG_OFF, Some((Message::DEBUG_OK, 0))),
        (Message::CALIBRATE, Some((Message::CALIBRATE, 0))),
        (Message::PASSPHRASE, None),
        (Message::IDENTIFY, Some((5, Refusal::Kind.errno()))),
        // TCP_CC, which is not an omni test.
        (transcript("tcp-cc")[0].kind(), Some((301, Refusal::Kind.errno()))),
    ] {
        let mut server = Server::new(caller("127.0.0.1"), START);
        assert_eq!(server.on_bytes(START, &Message::new(kind, -1).0), None);
        let said = server.poll_output().map(|message| (message.kind(), message.second()));
        assert_eq!(said, answer, "{kind}");
    }
}

#[test]
fn a_client_has_a_minute_for_each_message() {
    let minute = Instant(Nanos::from_secs(60).0);
    let mut server = Server::new(caller("127.0.0.1"), START);
    assert_eq!(server.deadline(), Some(minute));
    assert_eq!(server.on_timeout(Instant(minute.0 - 1)), None);
    // Half a message does not count.
    server.on_bytes(Instant(minute.0 - 1), &[0; MESSAGE_BYTES / 2]);
    assert_eq!(server.on_timeout(minute), Some(Action::Close));
}

/// A valid request.
fn request() -> Request {
    Request {
        request_bytes: 1,
        response_bytes: 1,
        length: 10,
        family: 4,
        socket_type: 1,
        protocol: 6,
        direction: direction::RECEIVE | direction::TRANSMIT,
        ..Request::default()
    }
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let here = caller("127.0.0.1");
    assert!(Test::of(&request(), here).is_ok());
    let udp = || Request { protocol: 17, socket_type: 2, ..request() };
    for (request, refusal) in [
        (Request { protocol: 132, ..request() }, Refusal::Protocol),
        (Request { socket_type: 2, ..request() }, Refusal::Protocol),
        (Request { family: 6, ..request() }, Refusal::Family),
        (Request { server_address: [0x0a00_0001, 0, 0, 0], ..request() }, Refusal::Address),
        (Request { server_port: 53, ..request() }, Refusal::Port),
        (Request { server_port: 65_536, ..request() }, Refusal::Port),
        (Request { direction: 0, ..request() }, Refusal::Direction),
        (Request { direction: 0, flags: flag::CONNECT_TEST, ..request() }, Refusal::Direction),
        (Request { flags: flag::CONNECT_TEST, ..udp() }, Refusal::Direction),
        (Request { request_bytes: 0, ..request() }, Refusal::Size),
        (Request { response_bytes: -1, ..request() }, Refusal::Size),
        (Request { response_bytes: 65_508, ..udp() }, Refusal::Size),
        (
            Request {
                direction: direction::TRANSMIT,
                response_bytes: -1,
                send_bytes: 65_508,
                client_port: 9,
                ..udp()
            },
            Refusal::Size,
        ),
        (
            Request { direction: direction::TRANSMIT, response_bytes: 9, client_port: 0, ..udp() },
            Refusal::Port,
        ),
        (Request { length: 3601, ..request() }, Refusal::Length),
    ] {
        assert_eq!(Test::of(&request, here), Err(refusal), "{request:?}");
    }
}

#[test]
fn a_call_is_no_longer_than_its_bound() {
    let huge = Request {
        direction: direction::TRANSMIT,
        response_bytes: -1,
        send_bytes: i32::MAX,
        ..request()
    };
    let test = Test::of(&huge, caller("127.0.0.1")).unwrap();
    assert_eq!(test.traffic, Traffic::Send { call_bytes: 1 << 20 });
}

#[test]
fn a_test_without_length_ends_with_its_client_or_the_longest_time() {
    let test = Test::of(&Request { length: 0, ..request() }, caller("127.0.0.1")).unwrap();
    assert_eq!((test.ending, test.within), (Ending::Client, HOUR));
    let test = Test::of(&Request { length: i32::MIN, ..request() }, caller("127.0.0.1")).unwrap();
    assert_eq!((test.ending, test.within), (Ending::Count(1 << 31), HOUR));
}

fn requests() -> impl Strategy<Value = Request> {
    let sizes = (any::<[i32; 6]>(), any::<i32>(), any::<i32>());
    let words = (any::<[u32; 7]>(), any::<[u32; 4]>(), "[a-z0-9_]{0,15}");
    (sizes, words).prop_map(
        |((sizes, length, traffic_class), (words, server_address, congestion))| Request {
            send_buffer_bytes: sizes[0],
            send_bytes: sizes[1],
            request_bytes: sizes[2],
            receive_buffer_bytes: sizes[3],
            receive_bytes: sizes[4],
            response_bytes: sizes[5],
            length,
            flags: words[0],
            server_port: words[1],
            family: words[2],
            socket_type: words[3],
            protocol: words[4],
            direction: words[5],
            client_port: words[6],
            server_address,
            traffic_class,
            congestion,
        },
    )
}

/// Clears the sign bit, which would mean `None`.
fn positive(value: Option<u32>) -> Option<u32> {
    value.map(|value| value >> 1)
}

proptest! {
    #[test]
    fn requests_survive_the_wire(request in requests()) {
        prop_assert_eq!(Request::of(&request.message()), request);
    }

    #[test]
    fn responses_survive_the_wire(
        buffers: [u32; 2],
        optional: [Option<u32>; 3],
        flags: u32,
        data_port: u32,
    ) {
        let [receive_buffer_bytes, send_buffer_bytes] = buffers;
        let [receive_bytes, send_bytes, traffic_class] = optional.map(positive);
        let response = Response {
            receive_buffer_bytes,
            receive_bytes,
            send_buffer_bytes,
            send_bytes,
            flags,
            data_port,
            traffic_class,
        };
        prop_assert_eq!(Response::of(&response.message()), response);
    }

    #[test]
    fn results_survive_the_wire(
        bytes: [u64; 2],
        counts: [u32; 7],
        retransmissions: Option<u32>,
        elapsed_s in 0.0f32..1e9,
        congestion in "[a-z]{0,15}",
    ) {
        let results = Results {
            bytes_received: bytes[0],
            bytes_sent: bytes[1],
            receive_calls: counts[0].into(),
            send_calls: counts[1].into(),
            failed_sends: counts[2].into(),
            transactions: counts[3].into(),
            processors: counts[4],
            receive_buffer_bytes: counts[5],
            send_buffer_bytes: counts[6],
            retransmissions: positive(retransmissions),
            elapsed_s,
            congestion,
        };
        prop_assert_eq!(Results::of(&results.message()), results);
    }

    #[test]
    fn no_request_leads_beyond_the_bounds(request in requests(), protocol in 0usize..2) {
        let (protocol, socket_type) = [(6, 1), (17, 2)][protocol];
        let request = Request { protocol, socket_type, family: 4, server_address: [0; 4], ..request };
        if let Ok(test) = Test::of(&request, caller("127.0.0.1")) {
            prop_assert!(test.within.0 <= HOUR.0 + Nanos::from_secs(4).0);
            match test.traffic {
                Traffic::Receive { call_bytes } | Traffic::Send { call_bytes } => {
                    prop_assert!((1..=1 << 20).contains(&call_bytes));
                }
                Traffic::Exchange { request_bytes, response_bytes }
                | Traffic::Crr { request_bytes, response_bytes } => {
                    prop_assert!(request_bytes > 0 && response_bytes > 0);
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_the_server_panic_or_hold_more_than_a_message(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..8),
        kind in prop::sample::select(vec![0, 1, 5, 6, 10, 97, 98, u32::MAX]),
    ) {
        let mut server = Server::new(caller("::1"), START);
        server.on_bytes(START, &kind.to_be_bytes());
        for piece in pieces {
            prop_assert!(server.room() <= MESSAGE_BYTES);
            if let Some(Action::Prepare(_)) = server.on_bytes(START, &piece) {
                server.on_prepared(START, Err(1));
            }
            while server.poll_output().is_some() {}
        }
        let _ = Results::of(&Message([0xff; MESSAGE_BYTES]));
    }
}
