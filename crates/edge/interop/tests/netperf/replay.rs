//! Replays the requests of netperf for each test.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use fabricmark_interop::Guard;
use fabricmark_proto::netperf::{Message, Request};

use crate::client::{Client, Port, frozen, request_for};

const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];

/// Runs `count` one-byte transactions over a connection.
fn exchange(stream: &mut (impl Read + Write), count: u32) {
    for _ in 0..count {
        stream.write_all(b"n").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
}

/// Sends a stream as netperf does, and checks the counts.
fn stream(client: &mut Client, request: &Message) {
    let (response, at) = client.ask(request);
    assert_eq!((response.receive_bytes, response.send_bytes), (Some(131_072), None));
    let mut data = Client::connect(at);
    data.write_all(&[0; 1_000_000]).unwrap();
    data.shutdown(Shutdown::Write).unwrap();
    assert_eq!(data.read(&mut [0]).unwrap(), 0);
    let results = client.results();
    assert_eq!((results.bytes_received, results.bytes_sent), (1_000_000, 0));
    assert!(results.receive_calls > 0 && results.receive_buffer_bytes > 0);
}

#[test]
fn tcp_stream_counts_what_arrived() {
    for address in ADDRESSES {
        let port = Port::open(address, Guard::default());
        stream(&mut Client::of(&port), &request_for("tcp-stream", port.address));
    }
}

#[test]
fn the_bytes_of_netperf_itself_are_served() {
    let port = Port::open("127.0.0.1", Guard::default());
    stream(&mut Client::of(&port), &frozen("tcp-stream"));
}

#[test]
fn tcp_maerts_sends_until_the_time_is_up() {
    for address in ADDRESSES {
        let port = Port::open(address, Guard::default());
        let mut client = Client::of(&port);
        let (response, at) = client.ask(&request_for("tcp-maerts", port.address));
        assert_eq!((response.receive_bytes, response.send_bytes), (None, Some(16_384)));
        let mut data = Client::connect(at);
        let mut received = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match data.read(&mut buffer).unwrap() {
                0 => break,
                length => received += length as u64,
            }
        }
        let results = client.results();
        assert_eq!((results.bytes_sent, results.bytes_received), (received, 0));
        assert!(results.elapsed_s > 0.0, "{results:?}");
    }
}

#[test]
fn tcp_maerts_sends_so_many_bytes() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let request = Request { length: -100_000, ..Request::of(&frozen("tcp-maerts")) };
    let (_, at) = client.ask(&request.message());
    let mut received = Vec::new();
    Client::connect(at).read_to_end(&mut received).unwrap();
    // Whole calls.
    assert_eq!(received.len(), 7 * 16_384);
    assert_eq!(client.results().send_calls, 7);
}

#[test]
fn udp_stream_counts_what_arrived_until_an_empty_datagram() {
    for address in ADDRESSES {
        let port = Port::open(address, Guard::default());
        let mut client = Client::of(&port);
        let (_, at) = client.ask(&request_for("udp-stream", port.address));
        let data = client.datagrams();
        for _ in 0..10 {
            data.send_to(&[0; 1024], at).unwrap();
        }
        for _ in 0..3 {
            data.send_to(&[], at).unwrap();
        }
        let results = client.results();
        assert_eq!((results.bytes_received, results.receive_calls), (10_240, 10));
    }
}

#[test]
fn tcp_rr_answers_each_request() {
    for address in ADDRESSES {
        let port = Port::open(address, Guard::default());
        let mut client = Client::of(&port);
        // The same control connection serves one test after the other.
        for _ in 0..2 {
            let (_, at) = client.ask(&request_for("tcp-rr", port.address));
            let mut data = Client::connect(at);
            exchange(&mut data, 20);
            data.shutdown(Shutdown::Write).unwrap();
            assert_eq!(data.read(&mut [0]).unwrap(), 0);
            let results = client.results();
            assert_eq!(
                [results.transactions, results.receive_calls, results.send_calls],
                [20, 20, 20]
            );
        }
    }
}

#[test]
fn tcp_rr_answers_a_burst_and_sizes_beyond_its_buffer() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let request = Request {
        request_bytes: 100,
        response_bytes: 100_000,
        length: 60,
        ..Request::of(&frozen("tcp-rr"))
    };
    let (_, at) = client.ask(&request.message());
    let mut data = Client::connect(at);
    data.write_all(&[0; 8 * 100]).unwrap();
    data.read_exact(&mut vec![0; 8 * 100_000]).unwrap();
    data.shutdown(Shutdown::Write).unwrap();
    assert_eq!(data.read(&mut [0]).unwrap(), 0);
    let results = client.results();
    assert_eq!((results.transactions, results.bytes_sent), (8, 800_000));
}

#[test]
fn udp_rr_answers_each_request() {
    for address in ADDRESSES {
        let port = Port::open(address, Guard::default());
        let mut client = Client::of(&port);
        let (_, at) = client.ask(&request_for("udp-rr", port.address));
        let data = client.datagrams();
        for _ in 0..20 {
            data.send_to(b"n", at).unwrap();
            assert_eq!(data.recv_from(&mut [0; 2]).unwrap(), (1, at));
        }
        assert_eq!(client.results().transactions, 20);
    }
}

#[test]
fn tcp_crr_answers_each_connection_and_closes_it_first() {
    for address in ADDRESSES {
        let port = Port::open(address, Guard::default());
        let mut client = Client::of(&port);
        let (_, at) = client.ask(&request_for("tcp-crr", port.address));
        for _ in 0..5 {
            let mut data = Client::connect(at);
            exchange(&mut data, 1);
            assert_eq!(data.read(&mut [0]).unwrap(), 0);
        }
        let results = client.results();
        assert_eq!((results.transactions, results.bytes_sent), (5, 5));
        // From the first connection to the last event, without the idle time after it.
        assert!(results.elapsed_s < 2.0, "{results:?}");
    }
}

#[test]
fn the_server_sends_datagrams_where_it_is_asked_to() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let data = client.datagrams();
    let request = Request {
        client_port: data.local_addr().unwrap().port().into(),
        send_bytes: 1000,
        length: -50_000,
        ..Request::of(&frozen("udp-maerts"))
    };
    let (_, at) = client.ask(&request.message());
    let mut buffer = [0; 2000];
    let mut datagrams = 0;
    loop {
        match data.recv_from(&mut buffer).unwrap() {
            (0, from) => {
                assert_eq!(from, at);
                break;
            }
            (length, _) => {
                assert_eq!(length, 1000);
                datagrams += 1;
            }
        }
    }
    assert_eq!((datagrams, client.results().send_calls), (50, 50));
}

#[test]
fn options_of_flent_are_granted_and_told() {
    let port = Port::open("127.0.0.1", Guard::default());
    let mut client = Client::of(&port);
    let (response, at) = client.ask(&frozen("tcp-stream-flent"));
    assert_eq!(response.traffic_class, Some(0x20));
    let mut data = Client::connect(at);
    data.shutdown(Shutdown::Write).unwrap();
    assert_eq!(data.read(&mut [0]).unwrap(), 0);
    // Every kernel has reno, and unprivileged users may select it.
    assert_eq!(client.results().congestion, "reno");
}

#[test]
fn several_clients_are_served_at_once() {
    let port = Port::open("127.0.0.1", Guard::default());
    let asked: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Client::of(&port);
            let (_, at) = client.ask(&frozen("tcp-rr"));
            (client, Client::connect(at))
        })
        .collect();
    thread::scope(|scope| {
        for (mut client, mut data) in asked {
            scope.spawn(move || {
                exchange(&mut data, 20);
                assert_eq!(client.results().transactions, 20);
            });
        }
    });
}
