//! Opening of datagram flows: sockets for the two state machines of `proto`.

use std::net::{SocketAddr, UdpSocket};

use fabricmark_plan::{Direction, Pattern};
use fabricmark_proto::{Admission, Failure, Heard, OPENING_BYTES, Opened, Opener, Prepare};
use fabricmark_units::{Instant, Nanos};
use rustix::event::{PollFd, PollFlags};
use rustix::rand::{GetRandomFlags, getrandom};
use socket2::{SockRef, Socket};

use super::streams::{FILTER, NOT_OPEN, opening, rounded};
use crate::control::Control;
use crate::failure::{peer, system};
use crate::flow_set::poll_briefly;
use crate::options::labelled;
use crate::sockets::{bound, bound_beside, peer_within, set_wait};
use crate::transport::if_ready;
use fabricmark_telemetry::clock::now_ns;

/// One byte more than an opening, so that a longer datagram is not mistaken for one.
type Received = [u8; OPENING_BYTES + 1];

/// The socket of a flow, and the state of its opening.
pub(crate) type OpenSocket = (UdpSocket, Opened);

/// Opens all datagram flows of a run. Also returns the time that the first opening took, in nanoseconds.
pub(crate) fn open_all(
    first: Socket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    control: &Control,
) -> Result<(Vec<OpenSocket>, u64), Failure> {
    let mut opening_rtt_ns = 0;
    let mut sockets = Vec::with_capacity(prepare.point.flows as usize);
    let mut first = Some(first);
    let peer_at = labelled(peer_at, &prepare.point);
    for flow in 0..prepare.point.flows {
        control.check()?;
        let socket = match first.take() {
            Some(socket) => socket,
            None => bound(prepare, 0)?,
        };
        let socket = UdpSocket::from(socket);
        let (opened, took) = open(&socket, peer_at, prepare, flow, control)?;
        if flow == 0 {
            opening_rtt_ns = took.0;
        }
        set_wait(&SockRef::from(&socket), &prepare.point)?;
        sockets.push((socket, opened));
    }
    Ok((sockets, opening_rtt_ns))
}

fn open(
    socket: &UdpSocket,
    peer_at: SocketAddr,
    prepare: &Prepare,
    flow: u32,
    control: &Control,
) -> Result<(Opened, Nanos), Failure> {
    socket.connect(peer_at).map_err(peer(format!("cannot connect to {peer_at}")))?;
    socket.set_read_timeout(Some(Control::LOOK_EVERY)).map_err(system("set SO_RCVTIMEO"))?;
    let point = &prepare.point;
    let hears_first =
        point.pattern == Pattern::Stream && point.direction == Some(Direction::Reverse);
    let within = peer_within(prepare);
    let mut opener =
        Opener::new(Instant(now_ns()), opening(prepare, flow), within.into(), hears_first);
    let mut bytes: Received = [0; OPENING_BYTES + 1];
    loop {
        let now = Instant(now_ns());
        opener.on_timeout(now);
        if let Some(message) = opener.poll_output(now) {
            socket.send(&message).map_err(peer("cannot open the flow"))?;
        }
        // Peek, so that a payload stays in the socket.
        match if_ready(socket.peek(&mut bytes)).map_err(peer(NOT_OPEN))? {
            Some(kept) => {
                let heard = opener.on_datagram(Instant(now_ns()), &bytes[..kept]);
                if heard == Heard::Taken {
                    socket.recv(&mut bytes).map_err(peer(NOT_OPEN))?;
                }
            }
            None => control.check()?,
        }
        if let Some(opened) = opener.opened() {
            return Ok((opened, opener.rtt()));
        }
        if opener.is_over(Instant(now_ns())) {
            let within = rounded(within);
            let message = format!("{peer_at} did not accept the flow within {within}; {FILTER}");
            return Err(Failure::Unreachable(message));
        }
    }
}

/// Accepts all datagram flows of a run, and connects a socket to each client.
pub(crate) fn accept_all(
    first: Socket,
    prepare: &Prepare,
    control: &Control,
) -> Result<Vec<OpenSocket>, Failure> {
    let port = first.local_addr().ok().and_then(|at| at.as_socket()).map_or(0, |at| at.port());
    let mut sockets: Vec<OpenSocket> = Vec::with_capacity(prepare.point.flows as usize);
    let mut waiting = UdpSocket::from(first);
    for flow in 0..prepare.point.flows {
        let admitted = admit(&waiting, sockets.last(), prepare, flow, control)?;
        let Admitted { from, confirmed, opened } = admitted;
        waiting.connect(from).map_err(system(format!("connect to {from}")))?;
        // The client opens the next flow as soon as this one is confirmed.
        let next = match flow + 1 < prepare.point.flows {
            true => Some(UdpSocket::from(bound_beside(prepare, port)?)),
            false => None,
        };
        // Datagrams that arrived while the socket was not connected are no payloads of this flow: its client sends
        // none before the confirmation.
        discard_all(&waiting, control)?;
        waiting.send(&confirmed).map_err(peer("cannot confirm the flow"))?;
        sockets.push((waiting, opened));
        match next {
            Some(next) => waiting = next,
            None => break,
        }
    }
    for (socket, _) in &sockets {
        socket.set_nonblocking(false).map_err(system("clear O_NONBLOCK"))?;
        set_wait(&SockRef::from(socket), &prepare.point)?;
    }
    Ok(sockets)
}

/// A flow that is open at the server.
struct Admitted {
    from: SocketAddr,
    /// Confirmation to send to the client.
    confirmed: [u8; OPENING_BYTES],
    opened: Opened,
}

/// Waits for a flow to open. Meanwhile confirms the previous flow again on request, as its confirmation may be lost.
fn admit(
    waiting: &UdpSocket,
    last: Option<&OpenSocket>,
    prepare: &Prepare,
    flow: u32,
    control: &Control,
) -> Result<Admitted, Failure> {
    waiting.set_nonblocking(true).map_err(system("set O_NONBLOCK"))?;
    let mut admission = Admission::new(opening(prepare, flow));
    let mut bytes: Received = [0; OPENING_BYTES + 1];
    loop {
        control.check()?;
        let mut asked = vec![PollFd::new(waiting, PollFlags::IN)];
        asked.extend(last.map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
        poll_briefly(&mut asked).map_err(system("wait for the opening"))?;
        if let Some((socket, opened)) = last
            && let Ok(kept) = socket.recv(&mut bytes)
            && let Some(confirmed) = opened.answer(&bytes[..kept])
        {
            // If it is lost, the client repeats its request.
            let _ = socket.send(&confirmed);
        }
        let received = if_ready(waiting.recv_from(&mut bytes));
        let Some((kept, from)) = received.map_err(system("receive the opening"))? else { continue };
        if !prepare.admits(from.ip()) {
            continue;
        }
        let (answer, opened) = admission.on_datagram(from, &bytes[..kept], random)?;
        match (answer, opened) {
            (Some(confirmed), Some(opened)) => return Ok(Admitted { from, confirmed, opened }),
            (Some(answer), None) => {
                // The claimed source address may be unreachable.
                let _ = waiting.send_to(&answer, from);
            }
            (None, _) => {}
        }
    }
}

/// 64 bits that cannot be guessed.
pub(crate) fn random() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| system("generate a random number")(error.into()))?;
    Ok(u64::from_ne_bytes(bytes))
}

fn discard_all(socket: &UdpSocket, control: &Control) -> Result<(), Failure> {
    loop {
        control.check()?;
        if if_ready(socket.recv(&mut [0])).map_err(peer(NOT_OPEN))?.is_none() {
            return Ok(());
        }
    }
}
