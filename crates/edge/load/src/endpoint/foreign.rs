//! One end of a stream whose flows are opened by the protocol of another tool.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fabricmark_proto::{EndReport, Failure, Prepare};
use socket2::{SockRef, Socket};

use super::{Endpoint, check, pin};
use crate::control::{Control, Event};
use crate::opening::unconnected;
use crate::options::labelled;
use crate::sockets::{bound, peer_within, set_wait};
use crate::sys;
use crate::transport::Flow;
use fabricmark_telemetry::clock;
use fabricmark_telemetry::kernel::Snapshot;

/// A TCP or UDP socket with the options of the run's point, connected to the other tool.
pub fn connect(prepare: &Prepare, peer_at: SocketAddr) -> Result<Socket, Failure> {
    let socket = bound(prepare, 0)?;
    let within = prepare.point.connect_timeout.map_or(peer_within(prepare), Duration::from);
    socket
        .connect_timeout(&labelled(peer_at, &prepare.point).into(), within)
        .map_err(unconnected(peer_at, within))?;
    Ok(socket)
}

/// Makes a socket wait as the run's point says; to be called when the other tool has taken it.
pub fn opened(socket: &SockRef<'_>, prepare: &Prepare) -> Result<(), Failure> {
    set_wait(socket, &prepare.point)
}

/// Carries the run out over open flows on the calling thread, which it binds to its processor; `tcp`
/// gives the TCP socket below a flow. A sending end stops when the time or the amount of the run is
/// over, a receiving one when it is told to drain.
pub fn run<F: Flow>(
    prepare: Prepare,
    flows: Vec<F>,
    opening_rtt_ns: u64,
    control: &Control,
    tcp: impl Fn(&F) -> Option<&TcpStream>,
) -> Result<EndReport, Failure> {
    check(&prepare.point)?;
    let duration: Duration = prepare.duration_ns.into();
    let end = Endpoint { prepare, socket: None, port: 0 };
    thread::scope(|scope| {
        scope.spawn(|| control.interrupter.keep_time(&control.stop));
        let _left = control.interrupter.leaving();
        let begin = || {
            control.tell(Event::Begun);
            control.interrupter.begin(duration);
        };
        if !end.prepare.is_active() {
            control.tell(Event::Begun);
        }
        let pinned = pin(end.prepare.cpu);
        let before = Snapshot::now(&end.prepare.device);
        let mut report = end.flows(flows, opening_rtt_ns, control, &begin, tcp)?;
        let counted = Snapshot::now(&end.prepare.device).since(&before);
        report.device_drops = counted.device_drops;
        report.reassembly_failures = counted.reassembly_failures;
        report.kernel = Some(counted.counters);
        report.side.clock = Some(clock::facts());
        if let Err(reason) = pinned {
            report.side.cpu = None;
            report.not_pinned = Some(reason);
        }
        Ok(report)
    })
}

/// Datagrams that a socket dropped for lack of buffer.
pub fn socket_drops(socket: &impl AsFd) -> io::Result<u64> {
    sys::socket_drops(socket.as_fd())
}

/// Forbids that packets of a socket are fragmented, here or on their way (IP_MTU_DISCOVER, ip(7)).
pub fn forbid_fragments(socket: &impl AsFd, is_v6: bool) -> io::Result<()> {
    let (level, option, value) = match is_v6 {
        false => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    };
    sys::set(socket.as_fd(), level, option, value)
}
