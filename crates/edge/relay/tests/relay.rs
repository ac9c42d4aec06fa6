//! The relay between real sockets over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use fabricmark_proto::{PROXY_BYTES_MAX, ProxyHeader};
use fabricmark_relay::{
    Burst, Counters, Ended, Outcome, Path, Protocol, Relay, RelayError, Settings, Stop,
};
use rand_core::Rng;
use rustix::net::{SendFlags, send};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// No test waits longer for a socket.
const PATIENCE: Duration = Duration::from_secs(20);

fn settings(forward: SocketAddr) -> Settings {
    Settings {
        buffer_bytes: 64 << 10,
        connections_max: Some(1000),
        drain_timeout: PATIENCE,
        reports_ended: true,
        ..Settings::new(SocketAddr::new(V4, 0), forward)
    }
}

/// A relay that serves while a test runs.
struct Running<'a> {
    at: SocketAddr,
    stop: &'a Stop,
    latest: &'a Latest,
}

/// The counters, and how often they were read.
#[derive(Default)]
struct Latest {
    read: Mutex<(u64, Counters)>,
    was_read: Condvar,
}

impl Running<'_> {
    fn client(&self) -> TcpStream {
        patient(TcpStream::connect(self.at).unwrap())
    }

    /// Counters that are read from now on: the relay does so ten times a second.
    fn counters(&self) -> Counters {
        let read = self.latest.read.lock().unwrap();
        let next = read.0 + 2;
        let is_old = |read: &mut (u64, Counters)| read.0 < next;
        self.latest.was_read.wait_while(read, is_old).unwrap().1.clone()
    }
}

/// Runs a test beside a relay, then drains it. Returns its counters and the connections that ended.
fn relayed(settings: Settings, test: impl FnOnce(&Running<'_>)) -> (Counters, Vec<Ended>) {
    let relay = Relay::listen(settings).unwrap();
    let at = relay.address().unwrap();
    let (stop, latest) = (Stop::default(), Latest::default());
    let mut ended = Vec::new();
    let counters = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let counters = relay.serve(&stop, &mut |board| {
                ended.extend(board.ended());
                let mut read = latest.read.lock().unwrap();
                *read = (read.0 + 1, board.counters());
                latest.was_read.notify_all();
            });
            counters.unwrap()
        });
        // A failed test must not leave the relay waiting.
        let _stop = StopAtEnd(&stop);
        test(&Running { at, stop: &stop, latest: &latest });
        stop.drains.store(true, Relaxed);
        serving.join().unwrap()
    });
    (counters, ended)
}

struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.drains.store(true, Relaxed);
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn target(address: IpAddr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(SocketAddr::new(address, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

fn accept(listener: &TcpListener) -> TcpStream {
    patient(listener.accept().unwrap().0)
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = rand_pcg::Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let mut payload = vec![0; bytes];
    random.fill_bytes(&mut payload);
    payload
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

fn read_all(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    stream.read_to_end(&mut read).map(|_| read)
}

#[test]
fn bytes_arrive_unchanged_both_ways_over_either_family_with_every_path_and_buffer() {
    for &path in Path::ALL {
        // The buffers of P5's tables 1 and 2, one byte, and the default.
        for buffer_bytes in [375, 750, 1500, 3000, 5000, 8192, 1, 64 << 10] {
            for (listen, forward) in [(V4, V6), (V6, V4)] {
                let bytes = if buffer_bytes == 1 { 7_990 } else { 240_118 };
                let (sent, answer) = (random(bytes, 1), random(3 * bytes, 2));
                let (listener, at) = target(forward);
                let listen = SocketAddr::new(listen, 0);
                let settings = Settings { path, buffer_bytes, listen, ..settings(at) };
                let (counters, ended) = relayed(settings, |relay| {
                    let client = relay.client();
                    thread::scope(|scope| {
                        let server = scope.spawn(|| {
                            let mut server = accept(&listener);
                            let received = read_all(&server).unwrap();
                            server.write_all(&answer).unwrap();
                            received
                        });
                        (&client).write_all(&sent).unwrap();
                        client.shutdown(Shutdown::Write).unwrap();
                        assert!(read_all(&client).unwrap() == answer, "{path:?} {buffer_bytes}");
                        assert!(server.join().unwrap() == sent, "{path:?} {buffer_bytes}");
                    });
                });
                assert_eq!((counters.accepted, counters.ended), (1, 1));
                assert_eq!(counters.upstream_bytes, sent.len() as u64);
                assert_eq!(counters.downstream_bytes, answer.len() as u64);
                let [ended] = &ended[..] else { panic!("{ended:?}") };
                assert_eq!(ended.outcome, Outcome::Ended);
                for (transfer, bytes) in [(ended.upstream, sent), (ended.downstream, answer)] {
                    assert_eq!(transfer.bytes, bytes.len() as u64);
                    assert!(transfer.receives >= transfer.bytes / buffer_bytes.max(1) as u64);
                    assert!(transfer.receive_began_ns <= transfer.send_began_ns);
                    assert!(transfer.receive_began_ns <= transfer.receive_ended_ns);
                    assert!(transfer.receive_ended_ns <= transfer.send_ended_ns, "{transfer:?}");
                    assert!(transfer.switching_ns().unwrap() <= ended.elapsed_ns);
                }
            }
        }
    }
}

#[test]
fn the_first_bytes_may_be_left_out_of_the_times_and_still_pass() {
    for &path in Path::ALL {
        let (listener, at) = target(V4);
        let (counters, ended) =
            relayed(Settings { untimed_bytes: 5, path, ..settings(at) }, |relay| {
                let mut client = relay.client();
                let mut server = accept(&listener);
                client.write_all(b"abc").unwrap();
                server.read_exact(&mut [0; 3]).unwrap();
                client.write_all(b"defgh").unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(read_all(&server).unwrap(), b"defgh");
            });
        assert_eq!(counters.upstream_bytes, 8);
        assert_eq!((ended[0].upstream.bytes, ended[0].upstream.receives), (3, 1), "{path:?}");
    }
}

#[test]
fn a_half_closed_connection_still_carries_the_other_direction() {
    let (listener, at) = target(V4);
    relayed(settings(at), |relay| {
        let mut client = relay.client();
        let mut server = accept(&listener);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
        for byte in 0..10 {
            server.write_all(&[byte]).unwrap();
            let mut read = [0];
            client.read_exact(&mut read).unwrap();
            assert_eq!(read, [byte]);
        }
        drop(server);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn urgent_data_is_left_out_and_what_follows_it_passes() {
    for (&path, ends) in Path::ALL.iter().flat_map(|path| [(path, true), (path, false)]) {
        let (listener, at) = target(V4);
        relayed(Settings { path, ..settings(at) }, |relay| {
            let client = relay.client();
            let mut server = accept(&listener);
            (&client).write_all(b"aaa").unwrap();
            send(&client, b"X", SendFlags::OOB).unwrap();
            (&client).write_all(b"bbb").unwrap();
            if ends {
                client.shutdown(Shutdown::Write).unwrap();
            }
            let mut read = [0; 6];
            server.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"aaabbb", "{path:?}");
        });
    }
}

#[test]
fn a_stalled_target_stops_the_client_and_loses_nothing() {
    for &path in Path::ALL {
        let (listener, at) = target(V4);
        relayed(Settings { path, ..settings(at) }, |relay| {
            let client = relay.client();
            let server = accept(&listener);
            client.set_nonblocking(true).unwrap();
            let chunk = random(1 << 20, 3);
            let (mut sent, mut is_quiet) = (0, false);
            // It has stopped when the relay moves nothing more from one reading of its counters to the next.
            while !is_quiet {
                let before = relay.counters().upstream_bytes;
                while let Ok(count) = (&client).write(&chunk[sent % chunk.len()..]) {
                    sent += count;
                }
                is_quiet = before > 0 && relay.counters().upstream_bytes == before;
            }
            assert!(sent < 64 << 20, "{sent} bytes are in the buffers of four sockets");
            client.shutdown(Shutdown::Write).unwrap();
            let received = read_all(&server).unwrap();
            assert_eq!(received.len(), sent);
            assert!(received.iter().enumerate().all(|(at, byte)| *byte == chunk[at % chunk.len()]));
        });
    }
}

#[test]
fn a_thousand_stalled_connections_take_less_than_100_mib_of_the_process() {
    const CLIENTS: usize = 1000;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let (listener, at) = target(V4);
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        4096 * text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    let settings =
        Settings { buffer_bytes: 256 << 10, connections_max: Some(CLIENTS), ..settings(at) };
    relayed(settings, |relay| {
        let before = resident();
        let chunk = vec![7; 256 << 10];
        // Small buffers of the sockets, so that the kernel's memory does not end the test.
        let mut ends = Vec::new();
        for _ in 0..CLIENTS {
            let client = relay.client();
            SockRef::from(&client).set_send_buffer_size(64 << 10).unwrap();
            client.set_nonblocking(true).unwrap();
            let server = accept(&listener);
            SockRef::from(&server).set_recv_buffer_size(4 << 10).unwrap();
            ends.push((client, server));
        }
        let mut moved = (0, 1);
        while moved.0 != moved.1 {
            for (client, _) in &mut ends {
                while client.write(&chunk).is_ok() {}
            }
            moved = (moved.1, relay.counters().upstream_bytes);
        }
        assert!(moved.1 > 0);
        let more = resident().saturating_sub(before);
        assert!(more < 100 << 20, "{more} bytes");
        ends.into_iter().for_each(|(client, _)| reset(client));
    });
}

#[test]
fn a_client_whose_target_refuses_is_reset() {
    let (listener, at) = target(V4);
    drop(listener);
    let (counters, ended) = relayed(settings(at), |relay| {
        let error = read_all(&relay.client()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
    assert_eq!((counters.accepted, counters.refused, counters.open()), (1, 1, 0));
    assert_eq!(ended[0].outcome, Outcome::Refused);
}

#[test]
fn a_reset_of_either_end_reaches_the_other_one() {
    for &path in Path::ALL {
        for is_client in [true, false] {
            let (listener, at) = target(V4);
            let (counters, _) = relayed(Settings { path, ..settings(at) }, |relay| {
                let mut client = relay.client();
                let mut server = accept(&listener);
                client.write_all(b"before").unwrap();
                server.read_exact(&mut [0; 6]).unwrap();
                let (resets, other) = if is_client { (client, server) } else { (server, client) };
                reset(resets);
                let error = read_all(&other).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{path:?}");
            });
            assert_eq!((counters.reset, counters.ended), (1, 0));
        }
    }
}

#[test]
fn an_idle_connection_is_reset_after_the_timeout() {
    let (listener, at) = target(V4);
    let idle_timeout = Some(Duration::from_millis(500));
    let (counters, _) = relayed(Settings { idle_timeout, ..settings(at) }, |relay| {
        let client = relay.client();
        let server = accept(&listener);
        for end in [client, server] {
            assert_eq!(read_all(&end).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    });
    assert_eq!(counters.idle, 1);
}

#[test]
fn a_connection_whose_bytes_wait_for_a_schedule_is_not_idle() {
    let (listener, at) = target(V4);
    let burst = Some(Burst { bytes: 100, period: Duration::from_millis(50) });
    let idle_timeout = Some(Duration::from_millis(500));
    relayed(Settings { burst, idle_timeout, ..settings(at) }, |relay| {
        let client = relay.client();
        let server = accept(&listener);
        let sent = random(4_000, 4);
        (&client).write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(read_all(&server).unwrap() == sent);
    });
}

#[test]
fn a_connection_above_the_limit_waits_until_another_ends() {
    let (listener, at) = target(V4);
    let (counters, _) = relayed(Settings { connections_max: Some(1), ..settings(at) }, |relay| {
        let (first, second) = (relay.client(), relay.client());
        let server = accept(&listener);
        (&second).write_all(b"second").unwrap();
        (&first).write_all(b"first!").unwrap();
        let mut read = [0; 6];
        (&server).read_exact(&mut read).unwrap();
        assert_eq!(&read, b"first!");
        assert_eq!(relay.counters().open(), 1);
        drop((first, server));
        (&accept(&listener)).read_exact(&mut read).unwrap();
        assert_eq!(&read, b"second");
    });
    assert_eq!(counters.ended, 2);
}

#[test]
fn more_descriptors_than_the_limit_allows_are_refused_with_their_number() {
    let connections = 1 << 40;
    let connections_max = Some(connections);
    let settings =
        Settings { connections_max, path: Path::Splice, ..settings(SocketAddr::new(V4, 1)) };
    let error = Relay::listen(settings).unwrap_err();
    let RelayError::Descriptors { needed, .. } = &error else { panic!("{error}") };
    assert_eq!(*needed, 6 * connections + 67);
}

#[test]
fn the_target_learns_the_client_from_the_proxy_header() {
    for &path in Path::ALL {
        let (listener, at) = target(V6);
        relayed(Settings { sends_proxy: true, path, ..settings(at) }, |relay| {
            let mut client = relay.client();
            client.write_all(b"payload").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let received = read_all(&accept(&listener)).unwrap();
            let expected =
                ProxyHeader { source: client.local_addr().unwrap(), destination: relay.at };
            assert_eq!(received, [&expected.emit()[..], b"payload"].concat());
        });
    }
}

#[test]
fn a_header_that_is_expected_names_the_client_and_is_not_passed_on() {
    let (listener, at) = target(V4);
    let (_, ended) = relayed(Settings { accepts_proxy: true, ..settings(at) }, |relay| {
        let mut client = relay.client();
        let header = ProxyHeader {
            source: "192.0.2.1:1234".parse().unwrap(),
            destination: "192.0.2.2:9000".parse().unwrap(),
        };
        // A header may arrive in pieces.
        for byte in header.emit() {
            client.write_all(&[byte]).unwrap();
        }
        client.write_all(b"payload").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&accept(&listener)).unwrap(), b"payload");
    });
    assert_eq!(ended[0].client, "192.0.2.1:1234".parse().unwrap());
    assert_eq!(ended[0].upstream.bytes, 7);
}

#[test]
fn a_client_without_the_expected_header_is_reset() {
    let (_listener, at) = target(V4);
    let mut endless = ProxyHeader { source: at, destination: at }.emit();
    endless[14] = 0xff;
    for sent in [&b"GET / HTTP/1.1\r\n"[..], &endless, &[0; PROXY_BYTES_MAX]] {
        let (counters, _) = relayed(Settings { accepts_proxy: true, ..settings(at) }, |relay| {
            let mut client = relay.client();
            client.write_all(sent).unwrap();
            assert_eq!(read_all(&client).unwrap_err().kind(), ErrorKind::ConnectionReset);
        });
        assert_eq!(counters.rejected, 1);
    }
}

#[test]
fn a_stopped_relay_serves_its_connections_to_their_end_and_accepts_no_more() {
    let (listener, at) = target(V4);
    let (counters, _) = relayed(settings(at), |relay| {
        let mut client = relay.client();
        let mut server = accept(&listener);
        relay.stop.drains.store(true, Relaxed);
        while let Ok(late) = TcpStream::connect(relay.at) {
            // Accepted just before the relay stopped, or in the backlog of its closed socket.
            reset(late);
        }
        client.write_all(b"after").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        drop(server);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    });
    assert_eq!((counters.ended, counters.aborted), (1, 0));
}

#[test]
fn connections_that_outlast_the_drain_are_reset() {
    let (listener, at) = target(V4);
    let drain_timeout = Duration::from_millis(100);
    let (counters, _) = relayed(Settings { drain_timeout, ..settings(at) }, |relay| {
        let (client, server) = (relay.client(), accept(&listener));
        relay.stop.drains.store(true, Relaxed);
        for end in [client, server] {
            assert_eq!(read_all(&end).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    });
    assert_eq!(counters.aborted, 1);
}

#[test]
fn threads_share_the_connections_of_many_clients() {
    let (listener, at) = target(V4);
    let (counters, _) = relayed(Settings { threads: 4, ..settings(at) }, |relay| {
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut server = accept(&listener);
                    scope.spawn(move || io::copy(&mut server.try_clone().unwrap(), &mut server));
                }
            });
            for seed in 0..200 {
                scope.spawn(move || {
                    let (mut client, sent) = (relay.client(), random(20_000, seed));
                    client.write_all(&sent).unwrap();
                    client.shutdown(Shutdown::Write).unwrap();
                    assert!(read_all(&client).unwrap() == sent);
                });
            }
        });
    });
    assert_eq!((counters.accepted, counters.ended), (200, 200));
    assert_eq!(counters.upstream.switching_ns.len(), 200);
}

#[test]
fn connections_are_reset_at_once_if_the_relay_is_aborted() {
    let (listener, at) = target(V4);
    let (counters, ended) = relayed(settings(at), |relay| {
        let client = relay.client();
        let server = accept(&listener);
        relay.stop.aborts.store(true, Relaxed);
        assert!(read_all(&client).is_err());
        assert!(read_all(&server).is_err());
    });
    assert_eq!((counters.aborted, ended[0].outcome), (1, Outcome::Aborted));
}

#[test]
fn more_connections_than_one_call_has_room_for_lose_nothing() {
    const CLIENTS: u64 = 100;
    for &path in Path::ALL {
        let (listener, at) = target(V4);
        // Of 256 KiB each, parts of the buffer of a call are for two connections.
        let settings = Settings { path, buffer_bytes: 256 << 10, ..settings(at) };
        let (counters, _) = relayed(settings, |relay| {
            thread::scope(|scope| {
                for number in 0..CLIENTS {
                    let (mut client, mut server) = (relay.client(), accept(&listener));
                    scope.spawn(move || {
                        io::copy(&mut server.try_clone().unwrap(), &mut server).unwrap();
                        server.shutdown(Shutdown::Write).unwrap();
                    });
                    scope.spawn(move || {
                        let sent = random(300_000, number);
                        let mut sender = client.try_clone().unwrap();
                        let expected = sent.clone();
                        let sending = thread::spawn(move || {
                            sender.write_all(&sent).unwrap();
                            sender.shutdown(Shutdown::Write).unwrap();
                        });
                        let mut received = Vec::new();
                        client.read_to_end(&mut received).unwrap();
                        sending.join().unwrap();
                        assert!(received == expected, "client {number}");
                    });
                }
            });
        });
        assert_eq!((counters.ended, counters.upstream_bytes), (CLIENTS, CLIENTS * 300_000));
    }
}

#[test]
fn datagrams_of_each_client_are_a_flow_and_its_answers_return_to_it() {
    let server = UdpSocket::bind(SocketAddr::new(V6, 0)).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let settings = Settings { protocol: Protocol::Udp, ..settings(server.local_addr().unwrap()) };
    let (counters, _) = relayed(settings, |relay| {
        let clients = [0, 1, 2].map(|_| {
            let client = UdpSocket::bind(SocketAddr::new(V4, 0)).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.connect(relay.at).unwrap();
            client
        });
        let mut buffer = [0; 65_536];
        for round in 0..5_u8 {
            for (number, client) in clients.iter().enumerate() {
                // Empty datagrams and the longest ones, too.
                let length = [1, 0, 1_472, 40_000, 65_507][usize::from(round)];
                client.send(&vec![number as u8; length]).unwrap();
                let (received, from) = server.recv_from(&mut buffer).unwrap();
                assert_eq!(buffer[..received], vec![number as u8; length]);
                server.send_to(&[number as u8, round], from).unwrap();
                let received = client.recv(&mut buffer).unwrap();
                assert_eq!(buffer[..received], [number as u8, round]);
            }
        }
    });
    assert_eq!((counters.accepted, counters.ended, counters.dropped_datagrams), (3, 3, 0));
    assert_eq!(counters.upstream_bytes, 3 * (1 + 1_472 + 40_000 + 65_507));
    assert_eq!(counters.downstream_bytes, 3 * 5 * 2);
}

#[test]
fn answers_leave_from_the_address_to_which_the_client_sent() {
    let server = UdpSocket::bind(SocketAddr::new(V4, 0)).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let any = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    for listen in any.map(|any: IpAddr| SocketAddr::new(any, 0)) {
        let at = server.local_addr().unwrap();
        let settings = Settings { protocol: Protocol::Udp, listen, ..settings(at) };
        let (counters, _) = relayed(settings, |relay| {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            for address in ["127.0.0.2", "127.0.0.3"] {
                // A connected socket receives from its peer only.
                client.connect((address, relay.at.port())).unwrap();
                client.send(address.as_bytes()).unwrap();
                let mut buffer = [0; 100];
                let (received, from) = server.recv_from(&mut buffer).unwrap();
                server.send_to(&buffer[..received], from).unwrap();
                let received = client.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..received], address.as_bytes());
            }
        });
        assert_eq!((counters.accepted, counters.dropped_datagrams), (2, 0));
    }
}

#[test]
fn clients_that_close_and_reset_at_random_harm_no_other_connection() {
    const CLIENTS: u64 = 8;
    const ROUNDS: u64 = 60;
    for &path in Path::ALL {
        let (listener, at) = target(V4);
        let (counters, _) = relayed(Settings { path, threads: 2, ..settings(at) }, |relay| {
            thread::scope(|scope| {
                // Echoes; a connection that is reset ends its thread only.
                scope.spawn(|| {
                    for _ in 0..CLIENTS * ROUNDS {
                        let mut server = accept(&listener);
                        scope.spawn(move || {
                            let _ = io::copy(&mut server.try_clone().unwrap(), &mut server);
                        });
                    }
                });
                for client in 0..CLIENTS {
                    scope.spawn(move || (0..ROUNDS).for_each(|round| chaos(relay, client, round)));
                }
            });
        });
        assert_eq!(counters.accepted, CLIENTS * ROUNDS);
        assert_eq!(counters.gone(), counters.accepted);
        assert!(counters.reset > 0 && counters.ended > 0, "{counters:?}");
        assert_eq!(counters.exhausted, 0);
    }
}

/// One connection: a third of them send and receive everything, a third close early, a third reset.
fn chaos(relay: &Running<'_>, client: u64, round: u64) {
    let seed = client << 32 | round;
    let mut random_numbers = rand_pcg::Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let sent = random(1 + (random_numbers.next_u32() % 300_000) as usize, seed);
    let stream = relay.client();
    let part = sent.len().min((random_numbers.next_u32() % 300_000) as usize);
    match seed % 3 {
        0 => thread::scope(|scope| {
            scope.spawn(|| {
                (&stream).write_all(&sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            assert!(read_all(&stream).unwrap() == sent);
        }),
        1 => drop((&stream).write(&sent[..part])),
        _ => {
            let _ = (&stream).write(&sent[..part]);
            reset(stream);
        }
    }
}

#[test]
fn a_schedule_passes_its_bytes_in_each_period_and_loses_none() {
    const BYTES: usize = 100_000;
    let burst = Burst { bytes: 10_000, period: Duration::from_millis(20) };
    for &path in Path::ALL {
        let (listener, at) = target(V4);
        let settings = Settings { path, burst: Some(burst), ..settings(at) };
        let (_, ended) = relayed(settings, |relay| {
            let client = relay.client();
            let server = accept(&listener);
            let sent = random(BYTES, 3);
            (&client).write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert!(read_all(&server).unwrap() == sent);
            drop(server);
            assert_eq!(read_all(&client).unwrap(), b"");
        });
        // Ten bursts, so nine periods from the first to the last.
        let switching_ns = ended[0].upstream.switching_ns().unwrap();
        assert!(switching_ns >= 9 * 20_000_000, "{path:?}: {switching_ns} ns");
    }
}
