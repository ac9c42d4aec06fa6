//! What is done with the sockets of more than one tool.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use socket2::{SockRef, Socket, TcpKeepalive};

/// Waits until one of the sockets is ready, a signal has come or the time is over.
pub(crate) fn wait(sockets: &mut [PollFd<'_>], within: Duration) -> io::Result<()> {
    let tv_sec = within.as_secs().cast_signed();
    match poll(sockets, Some(&Timespec { tv_sec, tv_nsec: within.subsec_nanos().into() })) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether an error only says that nothing can be moved now, or that a signal came.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Makes a control connection send each word at once, and end when the other host, its kernel included, has
/// been silent for 4 s. The probes also keep the connection alive in what remembers it on the way.
pub(crate) fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    const ASK_AFTER: Duration = Duration::from_secs(2);
    const ASK_EVERY: Duration = Duration::from_secs(1);
    const ASKS: u32 = 2;
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_EVERY);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&probes.with_retries(ASKS))?;
    // Data that nobody acknowledges hold the probes up; they have the same time.
    socket.set_tcp_user_timeout(Some(ASK_AFTER + ASKS * ASK_EVERY))
}

/// Sets the octet of DSCP and ECN.
pub(crate) fn set_traffic_class(socket: &Socket, is_v6: bool, class: u32) -> io::Result<()> {
    if is_v6 { socket.set_tclass_v6(class) } else { socket.set_tos_v4(class) }
}

/// The congestion control in use.
pub(crate) fn congestion(socket: &Socket) -> io::Result<String> {
    let name = socket.tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}
