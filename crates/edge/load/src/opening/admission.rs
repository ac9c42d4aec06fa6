//! Server side of flows over connections. Anyone may be able to connect to it: a connection that sends anything other
//! than the expected opening is closed, and one that sends nothing does not delay the others.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use fabricmark_proto::{Failure, Opening, Prepare};
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;

use super::streams::{Connection, Hearing, Listener, OPENED_AT_ONCE, opening, set_stream};
use crate::control::Control;
use crate::failure::system;
use crate::flow_set::poll_briefly;
use crate::sockets::{peer_within, set_wait};
use crate::transport::is_timeout;
use fabricmark_telemetry::clock::now_ns;

/// Most connections whose opening is pending at once; beyond that the oldest is closed. At most a quarter are the
/// client's own.
pub(crate) const CANDIDATES_MAX: usize = 4 * OPENED_AT_ONCE;

/// A connection that may open a flow. Its calls do not block.
struct Candidate<C> {
    connection: C,
    has_keys: bool,
    hearing: Hearing,
    /// Deadline of its opening.
    ends_ns: u64,
}

impl<C: Connection> Candidate<C> {
    fn new(connection: C, prepare: &Prepare) -> Result<Self, Failure> {
        set_stream(&connection, &prepare.point)?;
        let socket = SockRef::from(&connection);
        socket.set_nonblocking(true).map_err(system("set O_NONBLOCK"))?;
        let ends_ns = now_ns() + peer_within(prepare).as_nanos() as u64;
        Ok(Self { connection, has_keys: false, hearing: Hearing::default(), ends_ns })
    }

    /// Continues the handshake and reads; returns the opening once it is complete.
    fn advance(&mut self, prepare: &Prepare) -> io::Result<Option<Opening>> {
        if !self.has_keys {
            self.connection.shake_hands(&prepare.point)?;
            self.has_keys = true;
        }
        self.hearing.hear(&mut self.connection)
    }

    /// Accepts the flow that the connection opened.
    fn admit(mut self, opening: Opening, prepare: &Prepare) -> io::Result<Result<C, Failure>> {
        // So few bytes always fit into the send buffer.
        self.connection.write_all(&opening.acceptance().emit())?;
        let socket = SockRef::from(&self.connection);
        socket.set_nonblocking(false)?;
        let is_set = set_wait(&socket, &prepare.point);
        Ok(is_set.map(|()| self.connection))
    }
}

/// Accepts all flows of a run.
pub(crate) fn accept_all<C: Connection>(
    listener: &Listener<'_>,
    control: &Control,
) -> Result<Vec<C>, Failure> {
    let prepare = listener.prepare;
    let mut candidates: VecDeque<Candidate<C>> = VecDeque::new();
    // Openings may arrive in any order.
    let mut flows: Vec<Option<C>> = (0..prepare.point.flows).map(|_| None).collect();
    let mut left = flows.len();
    loop {
        control.check()?;
        for _ in 0..candidates.len() {
            let Some(mut candidate) = candidates.pop_front() else { break };
            match candidate.advance(prepare) {
                Ok(Some(heard)) if heard == opening(prepare, heard.flow) => {
                    let Some(flow @ None) = flows.get_mut(heard.flow as usize) else { continue };
                    // A client that has left meanwhile opens no flow.
                    if let Ok(admitted) = candidate.admit(heard, prepare) {
                        *flow = Some(admitted?);
                        left -= 1;
                    }
                }
                Err(error) if is_timeout(&error) && now_ns() < candidate.ends_ns => {
                    candidates.push_back(candidate);
                }
                _ => {}
            }
        }
        if left == 0 {
            return Ok(flows.into_iter().flatten().collect());
        }
        let fds = candidates.iter().map(|candidate| candidate.connection.as_fd());
        if !is_ready(listener, fds).map_err(system("wait for a connection"))? {
            continue;
        }
        match listener.accept() {
            Ok(connection) => {
                if candidates.len() == CANDIDATES_MAX {
                    candidates.pop_front();
                }
                // Setting options may fail on a socket whose other end has closed: it is dropped.
                candidates.extend(Candidate::new(connection, prepare));
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(system("accept a connection")(error)),
        }
    }
}

/// Waits a short time for a connection, or for data on one of these; returns whether a connection is waiting.
fn is_ready<'fd>(
    listener: &'fd Listener<'_>,
    candidates: impl Iterator<Item = BorrowedFd<'fd>>,
) -> io::Result<bool> {
    let asked = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut asked: Vec<PollFd<'_>> = std::iter::once(PollFd::new(&listener.socket, PollFlags::IN))
        .chain(candidates.map(asked))
        .collect();
    poll_briefly(&mut asked)?;
    Ok(!asked[0].revents().is_empty())
}
