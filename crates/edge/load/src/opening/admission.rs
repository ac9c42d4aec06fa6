//! Server side of flows over connections. Anyone may be able to connect to it: a connection that sends anything other
//! than the expected opening is closed, and one that sends nothing does not delay the others.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::mem;
use std::os::fd::BorrowedFd;

use fabricmark_proto::{Failure, Opening, Prepare};
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;

use super::streams::{
    Connection, Hearing, Listener, OPENED_AT_ONCE, flows_to_open, opening, set_stream,
};
use crate::control::Control;
use crate::failure::system;
use crate::flow_set::poll_briefly;
use crate::sockets::{peer_within, set_wait};
use crate::transport::{if_ready, is_timeout};
use fabricmark_telemetry::clock::now_ns;

/// Most connections whose opening is pending at once; beyond that the oldest is closed. At most a quarter are the
/// client's own.
const CANDIDATES_MAX: usize = 4 * OPENED_AT_ONCE;

/// A connection that may open a flow.
struct Candidate<C> {
    connection: C,
    has_begun: bool,
    hearing: Hearing,
    /// Deadline of its opening.
    ends_ns: u64,
}

/// Connections whose opening is pending. Their calls do not block.
pub(crate) struct Candidates<C>(VecDeque<Candidate<C>>);

impl<C: Read> Candidates<C> {
    pub(crate) fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(crate) fn add(&mut self, connection: C, prepare: &Prepare) {
        if self.0.len() == CANDIDATES_MAX {
            self.0.pop_front();
        }
        let ends_ns = now_ns() + peer_within(prepare).as_nanos() as u64;
        let (has_begun, hearing) = (false, Hearing::default());
        self.0.push_back(Candidate { connection, has_begun, hearing, ends_ns });
    }

    /// Takes out those whose opening is complete, and drops those that failed or are late. `begin` makes a connection
    /// ready to be read.
    pub(crate) fn heard(
        &mut self,
        begin: impl Fn(&mut C) -> io::Result<()>,
    ) -> Vec<(C, Option<Opening>)> {
        let mut heard = Vec::new();
        for mut candidate in mem::take(&mut self.0) {
            let Candidate { connection, has_begun, hearing, ends_ns } = &mut candidate;
            let begun = if *has_begun { Ok(()) } else { begin(connection) };
            *has_begun = begun.is_ok();
            match begun.and_then(|()| hearing.hear(connection)) {
                Ok(opening) => heard.push((candidate.connection, opening)),
                Err(error) if is_timeout(&error) && now_ns() < *ends_ns => {
                    self.0.push_back(candidate);
                }
                Err(_) => {}
            }
        }
        heard
    }
}

/// Accepts the flow that a connection opened.
fn admit<C: Connection>(
    mut connection: C,
    opening: Opening,
    prepare: &Prepare,
) -> io::Result<Result<C, Failure>> {
    // So few bytes always fit into the send buffer.
    connection.write_all(&opening.acceptance().emit())?;
    let socket = SockRef::from(&connection);
    socket.set_nonblocking(false)?;
    let is_set = set_wait(&socket, &prepare.point);
    Ok(is_set.map(|()| connection))
}

/// Accepts all flows of a run.
pub(crate) fn accept_all<C: Connection>(
    listener: &Listener<'_>,
    control: &Control,
) -> Result<Vec<C>, Failure> {
    let prepare = listener.prepare;
    let mut candidates: Candidates<C> = Candidates::new();
    // Openings may arrive in any order.
    let mut flows: Vec<Option<C>> = (0..flows_to_open(&prepare.point)).map(|_| None).collect();
    let mut left = flows.len();
    loop {
        control.check()?;
        for (connection, heard) in candidates.heard(|c| c.shake_hands(&prepare.point)) {
            if let Some(heard) = heard.filter(|heard| *heard == opening(prepare, heard.flow))
                && let Some(flow @ None) = flows.get_mut(heard.flow as usize)
                // A client that has left meanwhile opens no flow.
                && let Ok(admitted) = admit(connection, heard, prepare)
            {
                *flow = Some(admitted?);
                left -= 1;
            }
        }
        if left == 0 {
            return Ok(flows.into_iter().flatten().collect());
        }
        let fds = candidates.0.iter().map(|candidate| candidate.connection.as_fd());
        if !is_ready(listener, fds).map_err(system("wait for a connection"))? {
            continue;
        }
        let accepted = if_ready(listener.accept()).map_err(system("accept a connection"))?;
        // Setting options may fail on a socket whose other end has closed: it is dropped.
        if let Some(connection) = accepted
            && set_stream(&connection, &prepare.point).is_ok()
            && SockRef::from(&connection).set_nonblocking(true).is_ok()
        {
            candidates.add(connection, prepare);
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
