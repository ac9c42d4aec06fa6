//! The server side of netperf.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fabricmark_proto::netperf::{
    Action, Caller, MESSAGE_BYTES, Message, Request, Response, Results, Server, Test, Traffic,
    Transport,
};
use fabricmark_units::{Instant, Nanos};

const HOUR: Nanos = Nanos::from_secs(3600);

/// Bytes on a server's control connection. The first byte selects the size of the pieces in which messages arrive, the
/// family of the client, and whether data sockets can be opened. Each message is a byte with its number of words, and
/// these words; the rest of the message is zero.
pub fn netperf_server(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    let address: IpAddr =
        if how & 0x80 == 0 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let caller = Caller { peer: address, local: address, duration_max: HOUR };
    let mut server = Server::new(caller, Instant(0));
    for message in messages(bytes) {
        check_round_trip(&Message(message));
        let mut action = None;
        for piece in message.chunks(usize::from(how & 0x3f) * 8 + 1) {
            assert!(action.is_none() && server.room() >= piece.len());
            action = server.on_bytes(Instant(0), piece);
        }
        let kind = Message(message).kind();
        let mut answers = 0;
        match action {
            Some(Action::Prepare(test)) => {
                check(&test);
                answers += test_answers(&mut server, how & 0x40 == 0);
            }
            Some(Action::Close) => panic!("a message came in time"),
            None => {}
        }
        answers += said(&mut server);
        let due = if kind == Message::PASSPHRASE { 0 } else { 1 };
        assert!(answers == due || (kind == Message::OMNI_REQUEST && answers == 2));
        assert_eq!(server.room(), MESSAGE_BYTES);
    }
    assert_eq!(server.on_timeout(Instant(0) + HOUR), Some(Action::Close));
}

fn messages(bytes: &[u8]) -> Vec<[u8; MESSAGE_BYTES]> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((&words, behind)) = rest.split_first() {
        let held = (4 * usize::from(words)).min(MESSAGE_BYTES).min(behind.len());
        let (content, behind) = behind.split_at(held);
        let mut message = [0; MESSAGE_BYTES];
        message[..held].copy_from_slice(content);
        found.push(message);
        rest = behind;
    }
    found
}

/// Runs a test; returns the number of messages that the server sends about it.
fn test_answers(server: &mut Server, has_socket: bool) -> u32 {
    // The server reads nothing during a test.
    assert_eq!((server.room(), server.deadline()), (0, None));
    assert_eq!(server.on_bytes(Instant(0), &[0; MESSAGE_BYTES]), None);
    let prepared = Response {
        data_port: 5_000,
        receive_buffer_bytes: u32::MAX,
        send_buffer_bytes: 4_096,
        ..Response::default()
    };
    // 98 is EADDRINUSE.
    server.on_prepared(Instant(0), if has_socket { Ok(prepared) } else { Err(98) });
    let answers = said(server);
    let counted = Results { send_calls: u64::MAX, ..Results::default() };
    server.on_finished(Instant(0), Ok(counted));
    answers
}

/// The number of messages that the server sends.
fn said(server: &mut Server) -> u32 {
    std::iter::from_fn(|| server.poll_output()).map(|message| check_round_trip(&message)).count()
        as u32
}

/// Asserts that a test is within its bounds.
fn check(test: &Test) {
    assert!(test.within <= HOUR + Nanos::from_secs(4));
    assert!(test.server_port == 0 || test.server_port >= 1024);
    let most = match test.transport {
        Transport::Udp => 65_507,
        Transport::Tcp => i32::MAX as u32,
    };
    match test.traffic {
        Traffic::Receive { call_bytes } | Traffic::Send { call_bytes } => {
            assert!((1..=most.min(1 << 20)).contains(&call_bytes));
        }
        Traffic::Exchange { request_bytes, response_bytes }
        | Traffic::Crr { request_bytes, response_bytes } => {
            assert!((1..=most).contains(&request_bytes) && (1..=most).contains(&response_bytes));
        }
    }
}

/// Asserts that a message is unchanged by parsing and emitting, as any of the three kinds.
fn check_round_trip(message: &Message) {
    let request = Request::of(message).message();
    assert_eq!(Request::of(&request).message(), request);
    let results = Results::of(message).message();
    assert_eq!(Results::of(&results).message(), results);
    let response = Response::of(message);
    assert_eq!(Response::of(&response.message()), response);
}
