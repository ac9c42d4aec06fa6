//! Socket functions shared by several protocols.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use fabricmark_load::foreign::poll_for;
use rustix::event::PollFd;
use socket2::{SockRef, Socket, TcpKeepalive};

/// Waits until a socket is ready, a signal arrives, or the time is over.
pub(crate) fn wait(sockets: &mut [PollFd<'_>], within: Duration) -> io::Result<()> {
    poll_for(sockets, within).map(drop)
}

/// Whether an error is EAGAIN or EINTR.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether an error says that the port, host or network of a target cannot be reached at the moment.
pub(crate) fn is_outage(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable)
}

/// The result of sending or receiving a datagram. `None` if an error concerns that datagram alone, which counts as lost:
/// EAGAIN, EINTR, or an outage of a target that has answered before.
pub(crate) fn unless_lost<T>(result: io::Result<T>, has_answered: bool) -> io::Result<Option<T>> {
    match result {
        Err(error) if is_passing(&error) || has_answered && is_outage(&error) => Ok(None),
        result => result.map(Some),
    }
}

/// Disables Nagle's algorithm on a control connection, and closes it when the peer's host has not responded for 4 s.
/// The keepalive probes also refresh the state of NATs and firewalls on the path.
pub(crate) fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    const ASK_AFTER: Duration = Duration::from_secs(2);
    const ASK_EVERY: Duration = Duration::from_secs(1);
    const ASKS: u32 = 2;
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_EVERY);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&probes.with_retries(ASKS))?;
    // Unacknowledged data suppresses keepalive probes; it gets the same time-out.
    socket.set_tcp_user_timeout(Some(ASK_AFTER + ASKS * ASK_EVERY))
}

/// Sets the traffic class octet: DSCP and ECN.
pub(crate) fn set_traffic_class(socket: &Socket, is_v6: bool, class: u32) -> io::Result<()> {
    if is_v6 { socket.set_tclass_v6(class) } else { socket.set_tos_v4(class) }
}

/// Name of the congestion control in use.
pub(crate) fn congestion(socket: &Socket) -> io::Result<String> {
    let name = socket.tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_loses_a_packet_of_a_target_that_has_answered_and_ends_a_measurement_of_others() {
        let found = |number, has_answered| {
            unless_lost::<()>(Err(io::Error::from_raw_os_error(number)), has_answered)
                .map_err(|error| error.raw_os_error())
        };
        for outage in [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::ENETDOWN] {
            assert_eq!(found(outage, true), Ok(None));
            assert_eq!(found(outage, false), Err(Some(outage)));
        }
        assert_eq!(found(libc::EAGAIN, false), Ok(None));
        assert_eq!(found(libc::EPERM, true), Err(Some(libc::EPERM)));
    }
}
