//! A server to which anyone can connect.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Failure, OPENING_BYTES, Opening, OpeningKind, Prepare};
use fabricmark_units::Nanos;
use socket2::{Domain, Socket, Type};

use crate::support::{open_datagrams, prepare};

const PEER: [u8; 4] = [127, 0, 0, 1];
const STRANGER: [u8; 4] = [127, 0, 0, 2];

/// A socket bound to one of these addresses.
fn from(host: [u8; 4], kind: Type) -> Socket {
    let socket = Socket::new(Domain::IPV4, kind, None).unwrap();
    socket.bind(&SocketAddr::from((host, 0)).into()).unwrap();
    socket
}

fn connection(host: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = from(host, Type::STREAM);
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn datagrams(host: [u8; 4], to: SocketAddr) -> UdpSocket {
    let socket = from(host, Type::DGRAM);
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// Whether the other end has closed a connection, whether or not it read or sent anything.
fn is_closed(mut connection: &TcpStream) -> bool {
    match connection.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Carries out a run whose server is contacted by strangers before the client; checks that both ends have a result.
fn run_among<T>(levels: &str, admits: &[IpAddr], strangers: impl Fn(SocketAddr) -> T) {
    let answer = Prepare { from: admits.to_vec(), ..prepare(Role::Server, levels) };
    let answering = Endpoint::prepare(answer).unwrap();
    let starting = Endpoint::prepare(prepare(Role::Client, levels)).unwrap();
    let peer = SocketAddr::from((PEER, answering.port()));
    let control = Control::default();
    thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, &control));
        let _strangers = strangers(peer);
        let start = starting.run(Some(peer), &Control::default());
        match &start {
            Ok(report) => control.drain(report.counts.bytes, 20_000_000),
            Err(_) => control.give_up(),
        }
        let answer = answering.join().unwrap();
        match (start, answer) {
            (Ok(start), Ok(answer)) => {
                assert!(start.counts.calls > 0, "{levels}");
                assert_eq!(start.counts.calls, answer.counts.calls, "{levels}");
            }
            (start, answer) => panic!("{levels}: {:?} {:?}", start.err(), answer.err()),
        }
    });
}

#[test]
fn silent_and_wrong_connections_do_not_keep_a_run_from_opening() {
    for transport in ["tcp", "mptcp", "tls"] {
        for pattern in ["rr,flows=3", "crr"] {
            if (transport, pattern) == ("mptcp", "crr") {
                // MPTCP may pass connections on in another order than they arrived, so that a silent one may follow
                // the opening. After that, strangers are recognised only by their address.
                continue;
            }
            let levels = format!("pattern={pattern},transport={transport}");
            run_among(&levels, &[], |at| {
                let silent: Vec<TcpStream> = (0..20).map(|_| connection(STRANGER, at)).collect();
                let mut wrong = connection(STRANGER, at);
                let opening = Opening::new(1, 0, [0xff; 16]);
                wrong.write_all(&opening.emit()).unwrap();
                let mut other = connection(PEER, at);
                other
                    .write_all(b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n and more of it")
                    .unwrap();
                assert!(is_closed(&wrong) && is_closed(&other), "{levels}");
                silent
            });
        }
    }
}

#[test]
fn connections_from_an_address_that_is_not_admitted_are_closed_at_once() {
    for transport in ["tcp", "mptcp", "tls"] {
        for pattern in ["rr", "crr", "crr,flows=3"] {
            let levels = format!("pattern={pattern},transport={transport}");
            run_among(&levels, &["::ffff:127.0.0.1".parse().unwrap()], |at| {
                assert!(is_closed(&connection(STRANGER, at)), "{levels}");
            });
        }
    }
}

#[test]
fn datagrams_of_strangers_do_not_keep_a_run_over_quic_from_opening() {
    for pattern in ["rr,flows=2", "crr"] {
        let levels = format!("pattern={pattern},transport=quic");
        run_among(&levels, &[], |at| {
            datagrams(STRANGER, at).send(&[0xc0; 1200]).unwrap();
        });
    }
}

#[test]
fn a_quic_connection_that_says_nothing_waits_beside_the_others() {
    let levels = "pattern=rr,transport=quic";
    let silent = Prepare { token: [1; 16], ..prepare(Role::Client, levels) };
    let answering = Endpoint::prepare(prepare(Role::Server, levels)).unwrap();
    let at = SocketAddr::from((PEER, answering.port()));
    let control = Control::default();
    thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, &control));
        // Its opening has a wrong token and is rejected; that of the next one is right.
        let wrong = Endpoint::prepare(silent).unwrap().run(Some(at), &Control::default());
        assert!(matches!(wrong, Err(Failure::Peer(_))), "{wrong:?}");
        let right = Endpoint::prepare(prepare(Role::Client, levels)).unwrap();
        let start = right.run(Some(at), &Control::default()).unwrap();
        let answer = answering.join().unwrap().unwrap();
        assert_eq!(start.counts.calls, answer.counts.calls);
    });
}

#[test]
fn quic_connections_from_an_address_that_is_not_admitted_get_no_answer() {
    let levels = "pattern=rr,transport=quic";
    let answer = Prepare { from: vec![IpAddr::from(STRANGER)], ..prepare(Role::Server, levels) };
    let answering = Endpoint::prepare(answer).unwrap();
    let at = SocketAddr::from((PEER, answering.port()));
    let (control, start_control) = (Control::default(), Control::default());
    thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, &control));
        let start = Endpoint::prepare(prepare(Role::Client, levels)).unwrap();
        let starting = scope.spawn(|| start.run(Some(at), &start_control));
        let source = format!("{levels},source=127.0.0.2");
        let right = Prepare {
            token: prepare(Role::Client, levels).token,
            ..prepare(Role::Client, &source)
        };
        let right = Endpoint::prepare(right).unwrap().run(Some(at), &Control::default()).unwrap();
        let answer = answering.join().unwrap().unwrap();
        assert_eq!(right.counts.calls, answer.counts.calls);
        start_control.give_up();
        let given_up = starting.join().unwrap();
        assert!(given_up.is_err(), "{given_up:?}");
    });
}

#[test]
fn a_flow_of_datagrams_opens_to_nobody_who_does_not_return_the_cookie() {
    let answer = prepare(Role::Server, "pattern=stream,transport=udp,direction=reverse");
    let opening = Opening::new(answer.run, 0, answer.token);
    let answering = Endpoint::prepare(answer).unwrap();
    let at = SocketAddr::from((PEER, answering.port()));
    let control = Control::default();
    thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, &control));
        let victim = datagrams(STRANGER, at);
        let peer = datagrams(PEER, at);
        let mut bytes = [0; 2 * OPENING_BYTES];
        victim.send(&opening.emit()).unwrap();
        assert_eq!(victim.recv(&mut bytes).unwrap(), OPENING_BYTES);
        // The cookie of another address is not accepted.
        peer.send(&opening.emit()).unwrap();
        assert_eq!(peer.recv(&mut bytes).unwrap(), OPENING_BYTES);
        let accepted = Opening::parse(&bytes[..OPENING_BYTES]).unwrap();
        let confirm = Opening { kind: OpeningKind::Confirm, ..accepted };
        victim.send(&confirm.emit()).unwrap();
        open_datagrams(&peer, opening);
        // The stream goes to the peer, and nothing more to the victim.
        assert_eq!(peer.recv(&mut [0; 600]).unwrap(), 512);
        victim.set_nonblocking(true).unwrap();
        assert_eq!(victim.recv(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        control.give_up();
        let _ = answering.join().unwrap();
    });
}

#[test]
fn a_confirmation_that_is_repeated_is_confirmed_again_and_is_no_payload() {
    for path in ["copy", "trunc", "mmsg", "gso", "io-uring"] {
        // As long as an opening, shorter, and longer.
        for payload in [48, 16, 512] {
            let levels = format!("pattern=stream,transport=udp,path={path},payload={payload}");
            let answer = prepare(Role::Server, &levels);
            let opening = Opening::new(answer.run, 0, answer.token);
            let answering = Endpoint::prepare(answer).unwrap();
            let at = SocketAddr::from((PEER, answering.port()));
            let control = Control::default();
            let report = thread::scope(|scope| {
                let answering = scope.spawn(|| answering.run(None, &control));
                let stranger = datagrams(STRANGER, at);
                stranger.send(&vec![0; payload]).unwrap();
                let peer = datagrams(PEER, at);
                let mut bytes = [0; OPENING_BYTES];
                peer.send(&opening.emit()).unwrap();
                peer.recv(&mut bytes).unwrap();
                let accepted = Opening::parse(&bytes).unwrap();
                let confirm = Opening { kind: OpeningKind::Confirm, ..accepted }.emit();
                let confirmed = Opening { kind: OpeningKind::Confirmed, ..accepted };
                for _ in 0..3 {
                    peer.send(&confirm).unwrap();
                    peer.recv(&mut bytes).unwrap();
                    assert_eq!(Opening::parse(&bytes), Some(confirmed), "{levels}");
                }
                peer.send(&opening.emit()).unwrap();
                peer.send(&vec![0; payload]).unwrap();
                control.drain(2 * payload as u64, 20_000_000);
                answering.join().unwrap().unwrap()
            });
            assert_eq!((report.counts.calls, report.counts.bytes), (1, payload as u64), "{levels}");
        }
    }
}

#[test]
fn datagrams_from_an_address_that_is_not_admitted_get_no_answer() {
    let answer = prepare(Role::Server, "pattern=stream,transport=udp");
    let opening = Opening::new(answer.run, 0, answer.token);
    let answer = Prepare { from: vec![PEER.into()], ..answer };
    let answering = Endpoint::prepare(answer).unwrap();
    let at = SocketAddr::from((PEER, answering.port()));
    let control = Control::default();
    thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, &control));
        let stranger = datagrams(STRANGER, at);
        stranger.send(&opening.emit()).unwrap();
        open_datagrams(&datagrams(PEER, at), opening);
        stranger.set_nonblocking(true).unwrap();
        let said = stranger.recv(&mut [0; OPENING_BYTES]).unwrap_err();
        // By now the port receives from the peer only.
        assert!([ErrorKind::WouldBlock, ErrorKind::ConnectionRefused].contains(&said.kind()));
        control.drain(0, 0);
        answering.join().unwrap().unwrap();
    });
}

/// Starts a client of crr that may wait for `patience`, and reads the first request of each of its `flows` connections;
/// returns what the client says when `then` has been done to it, while none is answered.
fn unanswered(
    flows: usize,
    patience: Nanos,
    then: impl FnOnce(&Control),
) -> Result<EndReport, Failure> {
    let client = prepare(Role::Client, &format!("pattern=crr,transport=tcp,flows={flows}"));
    let opening = Opening::new(client.run, 0, client.token);
    let duration_ns = Nanos::from_secs(600);
    let client = Prepare { duration_ns, patience_ns: patience, ..client };
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let control = Control::default();
    thread::scope(|scope| {
        let client = Endpoint::prepare(client).unwrap();
        let client = scope.spawn(|| client.run(Some(at), &control));
        let (mut first, _) = server.accept().unwrap();
        first.read_exact(&mut [0; OPENING_BYTES]).unwrap();
        first.write_all(&opening.acceptance().emit()).unwrap();
        let asked = || {
            let (mut connection, _) = server.accept().unwrap();
            connection.read_exact(&mut [0; 512]).unwrap();
            connection
        };
        let _asked: Vec<TcpStream> = (0..flows).map(|_| asked()).collect();
        then(&control);
        client.join().unwrap()
    })
}

#[test]
fn a_server_that_vanishes_in_mid_transaction_does_not_hang_the_client() {
    for flows in [1, 3] {
        let ended = unanswered(flows, Nanos(0), |_| {}).unwrap_err().to_string();
        assert!(ended.contains("no data from the other end for 5.0 s"), "{ended}");
    }
}

#[test]
fn an_abort_ends_a_client_in_mid_transaction() {
    for flows in [1, 3] {
        let ended = unanswered(flows, Nanos::from_secs(100), Control::give_up);
        assert_eq!(ended, Err(Failure::Aborted), "{flows}");
    }
}

/// Runs a server of crr over three flows; `connect` talks to it after the connection that carries the token, and returns
/// the number of transactions that it made. After that connection strangers of an admitted address are not recognised.
fn answers(connect: impl FnOnce(SocketAddr) -> u64) {
    let server = prepare(Role::Server, "pattern=crr,transport=tcp,flows=3,response=9");
    let opening = Opening::new(server.run, 0, server.token);
    let server = Endpoint::prepare(server).unwrap();
    let at = SocketAddr::from((PEER, server.port()));
    let control = Control::default();
    thread::scope(|scope| {
        let server = scope.spawn(|| server.run(None, &control));
        let mut first = connection(PEER, at);
        first.write_all(&opening.emit()).unwrap();
        first.read_exact(&mut [0; OPENING_BYTES]).unwrap();
        let made = connect(at);
        control.drain(512 * made, 0);
        assert_eq!(server.join().unwrap().unwrap().counts.calls, made);
    });
}

#[test]
fn connections_that_send_nothing_do_not_delay_those_that_are_open_at_once() {
    answers(|at| {
        let _silent: Vec<TcpStream> = (0..20).map(|_| connection(PEER, at)).collect();
        let mut late = connection(PEER, at);
        late.write_all(&[0; 500]).unwrap();
        let mut other = connection(PEER, at);
        other.write_all(&[0; 512]).unwrap();
        assert_eq!(other.read_to_end(&mut Vec::new()).unwrap(), 9);
        late.write_all(&[0; 12]).unwrap();
        assert_eq!(late.read_to_end(&mut Vec::new()).unwrap(), 9);
        2
    });
}

#[test]
fn a_server_whose_places_are_all_taken_answers_when_one_is_free() {
    answers(|at| {
        // One place per flow, and 64 more.
        let silent: Vec<TcpStream> = (0..67).map(|_| connection(PEER, at)).collect();
        let mut waiting = connection(PEER, at);
        waiting.write_all(&[0; 512]).unwrap();
        waiting.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let early = waiting.read(&mut [0; 9]).unwrap_err().kind();
        assert_eq!(early, ErrorKind::WouldBlock);
        drop(silent);
        waiting.set_read_timeout(None).unwrap();
        assert_eq!(waiting.read_to_end(&mut Vec::new()).unwrap(), 9);
        1
    });
}

#[test]
fn an_abort_ends_a_starting_end_whose_patient_opening_nobody_answers() {
    for transport in ["tcp", "tls", "udp", "quic"] {
        let start = prepare(Role::Client, &format!("pattern=stream,transport={transport}"));
        let start = Prepare { patience_ns: Nanos::from_secs(100), ..start };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let silent = UdpSocket::bind(at).unwrap();
        let control = Control::default();
        thread::scope(|scope| {
            let start = Endpoint::prepare(start).unwrap();
            let started = scope.spawn(|| start.run(Some(at), &control));
            match transport {
                "udp" | "quic" => drop(silent.recv(&mut [0; 2000]).unwrap()),
                _ => listener.accept().unwrap().0.read_exact(&mut [0; 8]).unwrap(),
            }
            control.give_up();
            let ended = started.join().unwrap();
            assert!(ended.is_err(), "{transport}");
        });
    }
}

#[test]
fn an_answering_end_takes_the_first_free_port_of_its_range() {
    for (transport, kind) in [("tcp", Type::STREAM), ("udp,flows=2", Type::DGRAM)] {
        let taken = from(PEER, kind);
        if kind == Type::STREAM {
            taken.listen(1).unwrap();
        }
        let first = taken.local_addr().unwrap().as_socket().unwrap().port();
        let within = |last| Prepare {
            ports: Some((first, last)),
            ..prepare(Role::Server, &format!("pattern=stream,transport={transport}"))
        };
        let Err(Failure::Missing(said)) = Endpoint::prepare(within(first)).map(drop) else {
            panic!("{transport}: port {first} was free")
        };
        assert!(said.contains(&format!("no port from {first} to {first}")), "{said}");
        let last = first.saturating_add(50);
        let one = Endpoint::prepare(within(last)).unwrap();
        let two = Endpoint::prepare(within(last)).unwrap();
        assert!(one.port() > first && two.port() > one.port(), "{transport}");
        assert!(two.port() <= last, "{transport}");
    }
}

#[test]
fn what_is_no_range_of_ports_is_refused() {
    for ports in [(0, 5), (6, 5)] {
        let answer = prepare(Role::Server, "pattern=stream,transport=tcp");
        let refused = Endpoint::prepare(Prepare { ports: Some(ports), ..answer }).unwrap_err();
        assert!(matches!(refused, Failure::Protocol(_)), "{refused:?}");
    }
}

#[test]
fn a_patient_end_waits_longer_than_a_peer_is_late() {
    let levels = "pattern=rr,transport=udp";
    let start = Prepare { patience_ns: Nanos::from_secs(60), ..prepare(Role::Client, levels) };
    let opening = Opening::new(start.run, 0, start.token);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = peer.local_addr().unwrap();
    let control = Control::default();
    let report = thread::scope(|scope| {
        let start = Endpoint::prepare(start).unwrap();
        let started = scope.spawn(|| start.run(Some(at), &control));
        crate::support::accept_datagrams(&peer, opening);
        let mut message = [0; 512];
        assert_eq!(peer.recv(&mut message).unwrap(), 512);
        // Without patience the request would be lost after 0.2 s, and a second one sent.
        peer.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
        assert_eq!(peer.recv(&mut [0; 512]).unwrap_err().kind(), ErrorKind::WouldBlock);
        peer.send(&message).unwrap();
        started.join().unwrap().unwrap()
    });
    assert_eq!((report.counts.calls, report.lost_round_trips), (1, 0));
}

#[test]
fn a_time_limit_of_connects_holds_for_each_of_many_connections() {
    let levels = "pattern=crr,transport=tcp,flows=4,connect_timeout=200ms";
    let client = prepare(Role::Client, levels);
    let opening = Opening::new(client.run, 0, client.token);
    // The queue holds two connections, so that the others are not made.
    let server = from(PEER, Type::STREAM);
    server.listen(1).unwrap();
    let at = server.local_addr().unwrap().as_socket().unwrap();
    thread::scope(|scope| {
        let client = Endpoint::prepare(client).unwrap();
        let client = scope.spawn(|| client.run(Some(at), &Control::default()));
        let (first, _) = server.accept().unwrap();
        let mut first = TcpStream::from(first);
        first.read_exact(&mut [0; OPENING_BYTES]).unwrap();
        first.write_all(&opening.acceptance().emit()).unwrap();
        let ended = client.join().unwrap().unwrap_err().to_string();
        assert!(ended.contains("no connection within 200 ms"), "{ended}");
    });
}
