//! Clients that ask for too much, vanish, or do not speak the protocol.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fabricmark_interop::Guard;
use fabricmark_proto::netperf::{MESSAGE_BYTES, Message, Refusal, Request};
use fabricmark_units::{BitRate, Nanos};

use crate::client::{Client, PATIENCE, Port, frozen};
use crate::real::skip;

/// A request for a test that lasts until it is ended.
fn endless(name: &str) -> Message {
    Request { length: 3600, ..Request::of(&frozen(name)) }.message()
}

/// Reads until the peer closes or resets.
fn read_to_its_end(mut stream: &TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
}

#[test]
fn a_client_that_vanishes_is_freed_within_5_s() {
    for name in ["tcp-maerts", "tcp-stream", "tcp-rr", "tcp-crr"] {
        let port = Port::open("127.0.0.1", Guard::default());
        let mut client = Client::of(&port);
        let (_, at) = client.ask(&endless(name));
        let data = Client::connect(at);
        data.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // Unread bytes must not hide that the client has gone.
        client.control.write_all(b"more").unwrap();
        drop(client);
        let mut byte = [0; 1 << 16];
        let mut data = &data;
        loop {
            match data.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{name}");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_client_that_only_connects_and_closes_can_be_stopped() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let (_, at) = client.ask(&endless("tcp-crr"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                drop(TcpStream::connect(at));
                // More often than the server looks at its time, and without using up the ports of this host.
                thread::park_timeout(Duration::from_millis(1));
            }
        });
        // Waits for all of its threads.
        drop(port);
        is_over.store(true, Relaxed);
    });
}

#[test]
fn a_client_beyond_the_places_is_turned_away_until_one_is_free() {
    let port = Port::open("127.0.0.1", Guard { clients_max: 1, ..Guard::default() });
    let mut first = Client::of(&port);
    first.ask_for_any(&Message::new(Message::DEBUG_ON, -1));
    read_to_its_end(&Client::of(&port).control);
    // The server frees the place before it closes.
    first.control.shutdown(Shutdown::Write).unwrap();
    read_to_its_end(&first.control);
    Client::of(&port).ask(&frozen("tcp-rr"));
}

#[test]
fn bytes_that_are_no_request_do_not_stop_the_server() {
    let port = Port::open("127.0.0.1", Guard::default());
    for fill in [0u8, 0x55, 0xff] {
        let mut client = Client::of(&port);
        let refused = client.ask_for_any(&Message([fill; MESSAGE_BYTES]));
        assert_eq!(refused.second(), Refusal::Kind.errno());
        // An omni request of nonsense.
        let mut bytes = [fill; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&Message::OMNI_REQUEST.to_be_bytes());
        assert_ne!(client.ask_for_any(&Message(bytes)).second(), 0);
        // Half a message, then the client closes.
        client.control.write_all(&[fill; MESSAGE_BYTES / 2]).unwrap();
    }
    let mut client = Client::of(&port);
    client.ask(&frozen("tcp-rr"));
}

#[test]
fn a_test_longer_than_allowed_is_refused() {
    let guard = Guard { duration_max: Nanos::from_secs(10), ..Guard::default() };
    let port = Port::open("127.0.0.1", guard);
    let mut client = Client::of(&port);
    let request = Request { length: 11, ..Request::of(&frozen("tcp-stream")) };
    assert_eq!(client.ask_for_any(&request.message()).second(), Refusal::Length.errno());
    client.ask(&frozen("tcp-stream"));
}

#[test]
fn data_ports_are_those_that_the_owner_allows() {
    // Two free ports, one after the other.
    let free = |port: u16| UdpSocket::bind(("127.0.0.1", port)).is_ok();
    let first = (20_000..30_000).step_by(2).find(|&port| free(port) && free(port + 1)).unwrap();
    let guard = Guard { ports: Some((first, first + 1)), ..Guard::default() };
    let port = Port::open("127.0.0.1", guard);
    let asking = |server_port: u16| {
        Request { server_port: server_port.into(), ..Request::of(&frozen("udp-rr")) }.message()
    };
    let [mut one, mut two, mut three] = [(); 3].map(|()| Client::of(&port));
    assert_eq!(one.ask(&asking(0)).1.port(), first);
    assert_eq!(two.ask(&asking(0)).1.port(), first + 1);
    assert_eq!(three.ask_for_any(&asking(0)).second(), 98, "EADDRINUSE (errno(3))");
    assert_eq!(three.ask_for_any(&asking(first + 2)).second(), Refusal::Port.errno());
}

#[test]
fn a_test_without_end_ends_after_the_longest_time() {
    let guard = Guard { duration_max: Nanos::from_millis(200), ..Guard::default() };
    let port = Port::open("127.0.0.1", guard);
    for name in ["tcp-stream", "tcp-rr", "tcp-maerts", "tcp-crr"] {
        let mut client = Client::of(&port);
        let request = Request { length: 0, ..Request::of(&frozen(name)) };
        let (_, at) = client.ask(&request.message());
        let data = Client::connect(at);
        read_to_its_end(&data);
        client.results();
    }
}

#[test]
fn no_client_has_more_sent_to_it_than_the_rate_allows() {
    let guard = Guard { rate_max: BitRate(8_000_000), ..Guard::default() };
    let port = Port::open("127.0.0.1", guard);
    let mut client = Client::of(&port);
    let (_, at) = client.ask(&frozen("tcp-maerts"));
    read_to_its_end(&Client::connect(at));
    let results = client.results();
    // A megabyte a second, plus 10 ms to catch up and one call ahead.
    let most = 1_000_000.0 * (f64::from(results.elapsed_s) + 0.01) + 2.0 * 16_384.0;
    assert!(results.bytes_sent > 0 && results.bytes_sent as f64 <= most, "{results:?}");
}

#[test]
fn datagrams_of_another_address_are_not_answered() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let (_, at) = client.ask(&frozen("udp-rr"));
    let other = UdpSocket::bind("127.0.0.2:0").unwrap();
    let data = client.datagrams();
    for from in [&other, &data, &other, &data] {
        from.send_to(b"n", at).unwrap();
    }
    data.recv(&mut [0; 2]).unwrap();
    data.recv(&mut [0; 2]).unwrap();
    data.send_to(&[], at).unwrap();
    client.results();
    other.set_nonblocking(true).unwrap();
    let nothing = other.recv(&mut [0; 2]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn datagrams_go_to_the_address_of_the_control_connection_whatever_the_request_says() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let data = client.datagrams();
    let client_port = data.local_addr().unwrap().port();
    let other = UdpSocket::bind(("127.0.0.2", client_port)).unwrap();
    let request = Request {
        client_port: client_port.into(),
        send_bytes: 100,
        length: -100,
        ..Request::of(&frozen("udp-maerts"))
    };
    let mut bytes = request.message().0;
    // The client's address as it states it: word 28 of the content.
    bytes[8 + 4 * 28..8 + 4 * 29].copy_from_slice(&[127, 0, 0, 2]);
    client.ask(&Message(bytes));
    assert_eq!(data.recv(&mut [0; 200]).unwrap(), 100);
    client.results();
    other.set_nonblocking(true).unwrap();
    assert!(other.recv(&mut [0; 200]).is_err());
}

#[test]
fn data_connections_of_another_address_are_closed() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let (_, at) = client.ask(&frozen("tcp-rr"));
    let other = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    other.bind(&"127.0.0.2:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    other.connect(&at.into()).unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(TcpStream::from(other).read(&mut [0]).unwrap(), 0);
    let mut data = Client::connect(at);
    data.write_all(b"n").unwrap();
    data.read_exact(&mut [0]).unwrap();
}

#[test]
fn an_address_that_is_not_allowed_is_turned_away() {
    // This host's address towards a documentation network (RFC 5737); nothing is sent.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let here = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let Some(here) = here.ok().map(|at| at.ip()).filter(|ip| !ip.is_loopback()) else {
        return skip(
            "an_address_that_is_not_allowed_is_turned_away",
            "this host has loopback alone",
        );
    };
    let turned_away = Port::open(&here.to_string(), Guard::default());
    let mut client = Client::of(&turned_away);
    assert!(!client.control.read(&mut [0]).is_ok_and(|length| length > 0));
    let guard = Guard { allowed: vec![here.to_string().parse().unwrap()], ..Guard::default() };
    let port = Port::open(&here.to_string(), guard);
    Client::of(&port).ask(&frozen("tcp-rr"));
}

#[test]
fn the_server_stops_in_the_middle_of_tests() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut tests = Vec::new();
    for name in ["tcp-maerts", "tcp-stream", "tcp-rr", "tcp-crr", "udp-rr"] {
        let mut client = Client::of(&port);
        let (_, at) = client.ask(&endless(name));
        let data = (name != "udp-rr").then(|| Client::connect(at));
        tests.push((client, data));
    }
    let idle = Client::of(&port);
    // Waits for all of its threads.
    drop(port);
    drop((tests, idle));
}
