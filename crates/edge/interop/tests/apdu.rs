//! Both ends of paper P5's round-trip protocol over real sockets on this host.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fabricmark_interop::Guard;
use fabricmark_interop::apdu::{
    MeasureError, Settings, Transport, measure, reflect_connections, reflect_datagrams,
};
use fabricmark_proto::{Apdu, Peer};
use fabricmark_units::Nanos;

const ADDRESSES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn settings(target: SocketAddr, transport: Transport, is_padded: bool) -> Settings {
    Settings {
        target,
        transport,
        is_padded,
        packets: 20,
        interval: Nanos::from_millis(1),
        timeout: Nanos::from_secs(5),
        device: None,
    }
}

/// Runs a test beside the end that answers.
fn answered(transport: Transport, address: &str, test: impl FnOnce(SocketAddr)) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (stop, guard) = (&stop, Guard::default());
        let at = match transport {
            Transport::Udp => {
                let socket = UdpSocket::bind(address).unwrap();
                let at = socket.local_addr().unwrap();
                scope.spawn(move || reflect_datagrams(&socket, &guard, stop).unwrap());
                at
            }
            Transport::Tcp => {
                let listener = TcpListener::bind(address).unwrap();
                let at = listener.local_addr().unwrap();
                scope.spawn(move || reflect_connections(&listener, &guard, stop).unwrap());
                at
            }
        };
        let _stop = StopAtEnd(stop);
        test(at);
    });
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn both_lengths_are_answered_over_udp_and_tcp_and_either_family() {
    for transport in [Transport::Udp, Transport::Tcp] {
        for address in ADDRESSES {
            for is_padded in [false, true] {
                answered(transport, address, |at| {
                    let (stop, mut rtts) = (AtomicBool::new(false), Vec::new());
                    let found =
                        measure(&settings(at, transport, is_padded), &stop, &mut |from, ns| {
                            rtts.push((from, ns));
                        })
                        .unwrap();
                    let counts = found[&at];
                    let what = format!("{transport:?} {address} {is_padded} {counts:?}");
                    assert_eq!((counts.sent, counts.answered), (20, 20), "{what}");
                    assert_eq!((counts.duplicates, counts.unknown, counts.implausible), (0, 0, 0));
                    assert_eq!(rtts.len(), 20, "{what}");
                    let is_plausible = |(from, ns): &_| *from == at && *ns < 1_000_000_000;
                    assert!(rtts.iter().all(is_plausible), "{rtts:?}");
                });
            }
        }
    }
}

#[test]
fn an_answer_is_as_long_as_its_request_and_names_it() {
    answered(Transport::Udp, "127.0.0.1:0", |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut peer = Peer::new();
        let mut buffer = [0; 2000];
        for (padded, length) in [(false, 25), (true, 1024)] {
            let sent = peer.send(1);
            socket.send_to(&sent.emit(padded), at).unwrap();
            assert_eq!(socket.recv(&mut buffer).unwrap(), length);
            let answer = Apdu::parse(&buffer[..length]).unwrap();
            let echo = answer.echo.unwrap();
            assert_eq!((echo.rsn, echo.mhz), (sent.ssn, 1000));
            assert!(0 < echo.received && echo.received <= answer.sent);
        }
        // Of a multicast only its sender hears.
        socket.send_to(&peer.send_multicast(1).emit(false), at).unwrap();
        assert_eq!(socket.recv(&mut buffer).unwrap(), 25);
    });
}

#[test]
fn bytes_that_are_no_apdu_get_no_answer_and_end_a_connection() {
    answered(Transport::Udp, "127.0.0.1:0", |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for length in [0, 24, 26, 1023, 1025, 9000] {
            socket.send_to(&vec![0; length], at).unwrap();
        }
        socket.send_to(&Peer::new().send(1).emit(false), at).unwrap();
        // The answer to the last one is the first.
        let mut buffer = [0; 2000];
        assert_eq!(socket.recv(&mut buffer).unwrap(), 25);
        let answer = Apdu::parse(&buffer[..25]).unwrap();
        assert_eq!(answer.ssn, 0);
    });
    answered(Transport::Tcp, "127.0.0.1:0", |at| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // A multicast of 25 bytes.
        stream.write_all(&[0xff; 25]).unwrap();
        let ended = stream.read(&mut [0; 1]);
        assert!(matches!(ended, Ok(0) | Err(_)) && !is_timeout(&ended), "{ended:?}");
    });
}

fn is_timeout(result: &std::io::Result<usize>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn a_closed_port_is_named() {
    for (transport, name) in [(Transport::Udp, "UDP"), (Transport::Tcp, "TCP")] {
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stop = AtomicBool::new(false);
        let error = measure(&settings(at, transport, false), &stop, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, MeasureError::Closed { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!(
                "nothing answers at {name} port {} of 127.0.0.1: start `fabricmark agent --apdu` there",
                at.port()
            )
        );
    }
}

#[test]
fn a_socket_of_both_families_answers_from_the_address_that_was_asked() {
    answered(Transport::Udp, "[::]:0", |at| {
        for address in ["127.0.0.1", "127.0.0.3", "::1"] {
            let target = SocketAddr::new(address.parse().unwrap(), at.port());
            let stop = AtomicBool::new(false);
            let settings = settings(target, Transport::Udp, false);
            let found = measure(&settings, &stop, &mut |_, _| ()).unwrap();
            assert_eq!(found[&target].answered, 20, "{address}");
        }
    });
}

#[test]
fn the_last_apdu_of_a_slow_connection_has_its_whole_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, _) = listener.accept().unwrap();
            let (mut peer, mut bytes) = (Peer::new(), [0; 25]);
            for _ in 0..2 {
                client.read_exact(&mut bytes).unwrap();
                // The delay of a long path.
                thread::sleep(Duration::from_millis(600));
                peer.on_apdu(&Apdu::parse(&bytes).unwrap(), 1);
                client.write_all(&peer.send(2).emit(false)).unwrap();
            }
            // The connection stays open until the client has ended.
            let _ = client.read(&mut bytes);
        });
        let timeout = Nanos::from_secs(1);
        let settings = Settings { packets: 2, timeout, ..settings(target, Transport::Tcp, false) };
        let found = measure(&settings, &AtomicBool::new(false), &mut |_, _| ()).unwrap();
        assert_eq!(found[&target].answered, 2);
    });
}

#[test]
fn a_server_that_reads_no_more_ends_the_measurement_after_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let (ended, has_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut bytes = [0; 1024];
            client.read_exact(&mut bytes).unwrap();
            let mut peer = Peer::new();
            peer.on_apdu(&Apdu::parse(&bytes).unwrap(), 1);
            client.write_all(&peer.send(2).emit(true)).unwrap();
            has_ended.recv().unwrap_err();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).unwrap();
            rest
        });
        // 100 MiB, more than the buffers of both sockets hold.
        let settings = Settings {
            packets: 100_000,
            interval: Nanos(0),
            timeout: Nanos::from_millis(500),
            ..settings(target, Transport::Tcp, true)
        };
        let found = measure(&settings, &AtomicBool::new(false), &mut |_, _| ()).unwrap();
        drop(ended);
        let counts = found[&target];
        assert!(1 < counts.sent && counts.sent < 100_000, "{counts:?}");
        assert_eq!(counts.answered, 1);
        // What was sent in parts is whole, and in order.
        let rest = server.join().unwrap();
        let numbers = rest.chunks_exact(1024).map(|apdu| Apdu::parse(apdu).unwrap().ssn);
        assert!(numbers.eq((1..counts.sent - 1).map(|number| number as u16)), "{counts:?}");
    });
}
