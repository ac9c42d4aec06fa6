//! Both ends of a run in one process.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Failure, OPENING_BYTES, Opening, OpeningKind, Prepare};

/// One end of a run of these levels over loopback; the others have defaults.
pub fn prepare(role: Role, levels: &str) -> Prepare {
    let defaults = "payload=512,family=4,link=loopback,congestion=cubic";
    let prepare = fabricmark_testkit::prepare(role, &format!("{defaults},{levels}"));
    Prepare { token: token(levels), ..prepare }
}

/// Each run has its own token, which names the unix socket of the run.
pub fn token(levels: &str) -> [u8; 16] {
    let mut token = [9; 16];
    for (place, byte) in levels.bytes().enumerate() {
        token[place % 16] = u8::rotate_left(token[place % 16], 3) ^ byte;
    }
    token
}

/// Runs both ends; when the active one is done, the passive one is told to drain.
pub fn both(
    start: Prepare,
    answer: Prepare,
) -> (Result<EndReport, Failure>, Result<EndReport, Failure>) {
    let address = answer.address;
    let is_reverse = answer.is_active();
    let answering = Endpoint::prepare(answer).unwrap();
    let starting = Endpoint::prepare(start).unwrap();
    let peer = SocketAddr::new(address, answering.port());
    let (start_control, answer_control) = (Control::default(), Control::default());
    let passive = if is_reverse { &start_control } else { &answer_control };
    let tell = |report: &Result<EndReport, Failure>, passive: &Control| match report {
        Ok(report) => passive.drain(report.counts.bytes, 20_000_000),
        Err(_) => passive.give_up(),
    };
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let report = answering.run(None, &answer_control);
            if is_reverse {
                tell(&report, passive);
            }
            report
        });
        let start = starting.run(Some(peer), &start_control);
        if !is_reverse {
            tell(&start, passive);
        }
        (start, answering.join().unwrap())
    })
}

/// Runs both ends; neither times out while the other one waits for a CPU.
pub fn run(levels: &str) -> (EndReport, EndReport) {
    run_with(levels, |prepare| prepare)
}

/// As [`run`], with changed orders.
pub fn run_with(levels: &str, change: impl Fn(Prepare) -> Prepare) -> (EndReport, EndReport) {
    let [start, answer] = [Role::Client, Role::Server].map(|role| {
        change(Prepare { patience_ns: Prepare::PATIENCE_MAX, ..prepare(role, levels) })
    });
    match both(start, answer) {
        (Ok(start), Ok(answer)) => (start, answer),
        (start, answer) => panic!("{levels}: {:?} {:?}", start.err(), answer.err()),
    }
}

pub const RELIABLE: [&str; 4] = ["tcp", "mptcp", "tls", "unix"];
/// Wait modes that QUIC supports.
pub const QUIC_WAITS: [&str; 3] = ["block", "epoll", "spin"];
pub const WAITS: [&str; 4] = ["block", "epoll", "spin", "busy-poll"];

/// Opens a flow from a connected datagram socket of the test.
pub fn open_datagrams(socket: &UdpSocket, opening: Opening) {
    let mut bytes = [0; OPENING_BYTES];
    socket.send(&opening.emit()).unwrap();
    assert_eq!(socket.recv(&mut bytes).unwrap(), OPENING_BYTES);
    let accepted = Opening::parse(&bytes).unwrap();
    assert_eq!(accepted, Opening { cookie: accepted.cookie, ..opening.acceptance() });
    let confirm = Opening { kind: OpeningKind::Confirm, ..accepted };
    socket.send(&confirm.emit()).unwrap();
    assert_eq!(socket.recv(&mut bytes).unwrap(), OPENING_BYTES);
    let confirmed = Opening { kind: OpeningKind::Confirmed, ..accepted };
    assert_eq!(Opening::parse(&bytes), Some(confirmed));
}

/// Accepts a flow at a datagram socket of the test, and connects the socket to its client.
pub fn accept_datagrams(socket: &UdpSocket, opening: Opening) {
    let mut bytes = [0; OPENING_BYTES];
    let (_, from) = socket.recv_from(&mut bytes).unwrap();
    assert_eq!(bytes, opening.emit());
    socket.connect(from).unwrap();
    let accept = Opening { cookie: 0x5eed, ..opening.acceptance() };
    socket.send(&accept.emit()).unwrap();
    let confirm = Opening { kind: OpeningKind::Confirm, ..accept };
    // The opening may be repeated.
    while bytes != confirm.emit() {
        assert_eq!(socket.recv(&mut bytes).unwrap(), OPENING_BYTES);
    }
    socket.send(&Opening { kind: OpeningKind::Confirmed, ..accept }.emit()).unwrap();
}
