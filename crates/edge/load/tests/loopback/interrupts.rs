//! A blocked load thread handles orders although its peer is silent.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::Role;
use fabricmark_proto::{Failure, OPENING_BYTES, Opening, Prepare};
use fabricmark_units::Nanos;

use crate::support::{accept_datagrams, open_datagrams, prepare};

/// One end of a run that lasts a minute.
fn endless(role: Role, levels: &str) -> Prepare {
    Prepare { duration_ns: Nanos::from_millis(60_000), ..prepare(role, levels) }
}

fn opening(of: &Prepare) -> Opening {
    Opening::new(of.run, 0, of.token)
}

#[test]
fn an_abort_ends_a_blocked_starting_end_though_its_peer_says_nothing() {
    for levels in ["pattern=stream", "pattern=stream,direction=reverse", "pattern=ping-pong"] {
        for wait in ["block", "busy-poll"] {
            let start = endless(Role::Client, &format!("{levels},transport=tcp,wait={wait}"));
            let opening = opening(&start);
            let peer = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = peer.local_addr().unwrap();
            let control = Control::default();
            thread::scope(|scope| {
                let start = Endpoint::prepare(start).unwrap();
                let started = scope.spawn(|| start.run(Some(at), &control));
                let (mut flow, _) = peer.accept().unwrap();
                flow.read_exact(&mut [0; OPENING_BYTES]).unwrap();
                flow.write_all(&opening.acceptance().emit()).unwrap();
                control.give_up();
                let ended = started.join().unwrap().unwrap_err().to_string();
                assert!(ended.ends_with(&Failure::Aborted.to_string()), "{levels} {wait}: {ended}");
            });
        }
    }
}

/// The error of a server that is aborted after its flow has been opened. The client then does what `peer` says.
fn aborted(levels: &str, peer: impl FnOnce(&mut TcpStream)) -> String {
    let answer = endless(Role::Server, &format!("transport=tcp,{levels}"));
    let (opening, address) = (opening(&answer), answer.address);
    let control = Control::default();
    let answer = Endpoint::prepare(answer).unwrap();
    let at = SocketAddr::new(address, answer.port());
    thread::scope(|scope| {
        let answered = scope.spawn(|| answer.run(None, &control));
        let mut flow = TcpStream::connect(at).unwrap();
        flow.write_all(&opening.emit()).unwrap();
        flow.read_exact(&mut [0; OPENING_BYTES]).unwrap();
        control.give_up();
        peer(&mut flow);
        answered.join().unwrap().unwrap_err().to_string()
    })
}

#[test]
fn an_abort_ends_a_blocked_answering_end_though_its_peer_says_nothing() {
    for levels in ["pattern=stream", "pattern=stream,receive_lowat=128KiB", "pattern=ping-pong"] {
        let ended = aborted(levels, |_| {});
        assert!(ended.ends_with(&Failure::Aborted.to_string()), "{levels}: {ended}");
    }
}

#[test]
fn an_abort_ends_a_receiver_that_waits_for_more_bytes_although_some_arrive() {
    // Until the receiver has closed the connection.
    let trickle = |flow: &mut TcpStream| while flow.write_all(&[0]).is_ok() {};
    let ended = aborted("pattern=stream,receive_lowat=128KiB", trickle);
    assert!(ended.ends_with(&Failure::Aborted.to_string()), "{ended}");
}

#[test]
fn a_request_that_comes_long_after_its_connection_is_answered() {
    let answer = endless(Role::Server, "pattern=crr,transport=tcp,response=9");
    let (opening, address) = (opening(&answer), answer.address);
    let control = Control::default();
    let answer = Endpoint::prepare(answer).unwrap();
    let at = SocketAddr::new(address, answer.port());
    let report = thread::scope(|scope| {
        let answered = scope.spawn(|| answer.run(None, &control));
        let mut first = TcpStream::connect(at).unwrap();
        first.write_all(&opening.emit()).unwrap();
        first.read_exact(&mut [0; OPENING_BYTES]).unwrap();
        let mut late = TcpStream::connect(at).unwrap();
        late.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let early = late.read(&mut [0; 9]).unwrap_err().kind();
        assert_eq!(early, ErrorKind::WouldBlock, "the other end waits");
        late.set_read_timeout(None).unwrap();
        late.write_all(&[0; 512]).unwrap();
        late.read_exact(&mut [0; 9]).unwrap();
        control.drain(512, 0);
        answered.join().unwrap().unwrap()
    });
    assert_eq!(report.counts.calls, 1);
}

#[test]
fn a_blocked_receiver_of_datagrams_ends_when_nothing_more_comes() {
    for path in ["copy", "trunc", "mmsg", "gso"] {
        let levels = format!("pattern=stream,transport=udp,path={path}");
        let answer = endless(Role::Server, &levels);
        let (opening, address) = (opening(&answer), answer.address);
        let control = Control::default();
        let answer = Endpoint::prepare(answer).unwrap();
        let at = SocketAddr::new(address, answer.port());
        let report = thread::scope(|scope| {
            let answered = scope.spawn(|| answer.run(None, &control));
            let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
            peer.connect(at).unwrap();
            open_datagrams(&peer, opening);
            peer.send(&[0; 512]).unwrap();
            // Three were sent, and two of them are lost.
            control.drain(3 * 512, 1_000_000);
            answered.join().unwrap().unwrap()
        });
        assert_eq!((report.counts.bytes, report.counts.calls), (512, 1), "{path}");
    }
}

#[test]
fn a_blocked_requester_gives_a_lost_answer_up_and_asks_again() {
    // One second more to answer the second request, in case this thread has to wait for its CPU.
    let patience_ns = Nanos::from_secs(1);
    let start = endless(Role::Client, "pattern=ping-pong,transport=udp");
    let start = Prepare { patience_ns, ..start };
    let opening = opening(&start);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = peer.local_addr().unwrap();
    let control = Control::default();
    let report = thread::scope(|scope| {
        let start = Endpoint::prepare(start).unwrap();
        let started = scope.spawn(|| start.run(Some(at), &control));
        accept_datagrams(&peer, opening);
        let mut message = [0; 512];
        assert_eq!(peer.recv(&mut message).unwrap(), 512, "the first request has no answer");
        assert_eq!(peer.recv(&mut message).unwrap(), 512, "and so there is a second");
        control.end();
        peer.send(&message).unwrap();
        started.join().unwrap().unwrap()
    });
    assert_eq!((report.lost_round_trips, report.counts.calls), (1, 1));
}

#[test]
fn large_requests_and_answers_under_way_at_once_do_not_block_each_other() {
    for transport in ["tcp", "tls", "unix"] {
        let levels = format!(
            "pattern=rr,transport={transport},payload=1000000,outstanding=4,\
             send_buffer=65536,receive_buffer=65536"
        );
        let (start, answer) = crate::support::run(&levels);
        assert!(start.counts.calls > 0, "{levels}");
        assert_eq!(start.counts.calls, answer.counts.calls, "{levels}");
    }
}
