//! One connection of a client and the relay's connection to the target.

use std::io;
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use fabricmark_proto::{PROXY_BYTES_MAX, ProxyHeader};
use fabricmark_telemetry::clock::now_ns;
use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, recv};

use crate::direction::{Direction, End, Mover, Step};
use crate::settings::{Settings, keep_alive, reset};
use crate::transfer::Ended;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both ends closed it, or a UDP flow became idle.
    Ended,
    /// An end reset it; so was the other one.
    Reset,
    /// The target refused it or did not answer in time; the client was reset.
    Refused,
    /// No byte arrived for the idle timeout; both ends were reset.
    Idle,
    /// The client sent no valid PROXY header, or is none of [`Settings::clients`].
    Rejected,
    /// It was still open at the end of the drain; both ends were reset.
    Aborted,
}

impl Outcome {
    /// Key in JSON and in text.
    pub fn key(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Reset => "reset",
            Self::Refused => "refused",
            Self::Idle => "idle",
            Self::Rejected => "rejected",
            Self::Aborted => "aborted",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The PROXY header of the client has not arrived yet.
    Header,
    /// The connection to the target is not open yet.
    Connecting,
    Open,
}

/// The end of the client, and that of the target.
pub(crate) const CLIENT: usize = 0;
pub(crate) const TARGET: usize = 1;

/// A client's connection, the relay's to the target, and what is between.
#[derive(Debug)]
pub(crate) struct Session {
    ends: [End; 2],
    directions: [Direction; 2],
    stage: Stage,
    is_connected: bool,
    client: SocketAddr,
    /// Address that the client connected to, if its PROXY header has named it.
    local: Option<SocketAddr>,
    began_ns: u64,
    /// When it last had an event.
    pub(crate) active_ns: u64,
    /// Whether keepalive was set: short connections end before, and save eight system calls.
    is_kept_alive: bool,
    /// Last time at which its schedule lets it go on; 0: none.
    pub(crate) due_ns: u64,
    /// Whether it is in the queue of its thread.
    pub(crate) is_queued: bool,
}

/// What a session needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Wait,
    Again,
    /// Its schedule lets it go on at this time.
    At(u64),
    End(Outcome),
}

impl Next {
    /// An end of the connection is broken.
    pub(crate) const RESET: Self = Self::End(Outcome::Reset);
}

impl Session {
    /// A session that began at `began_ns`, before the connection to the target.
    pub(crate) fn new(
        client: TcpStream,
        address: SocketAddr,
        target: TcpStream,
        began_ns: u64,
        settings: &Settings,
    ) -> Self {
        Self {
            ends: [End::new(client), End::new(target)],
            directions: [CLIENT, TARGET].map(|_| Direction::new(settings.untimed_bytes)),
            stage: if settings.accepts_proxy { Stage::Header } else { Stage::Connecting },
            is_connected: false,
            client: canonical(address),
            local: None,
            began_ns,
            active_ns: began_ns,
            is_kept_alive: false,
            due_ns: 0,
            is_queued: false,
        }
    }

    /// Sets keepalive, once.
    pub(crate) fn keep_alive(&mut self) {
        if !mem::replace(&mut self.is_kept_alive, true) {
            // If it fails, the connection is broken already.
            let _ = self.ends.iter().try_for_each(|end| keep_alive(&end.stream));
        }
    }

    pub(crate) fn fd(&self, end: usize) -> BorrowedFd<'_> {
        self.ends[end].stream.as_fd()
    }

    /// How the session ends if it has been opening or idle for too long.
    pub(crate) fn overdue(
        &self,
        now_ns: u64,
        connect_ns: u64,
        idle_ns: Option<u64>,
    ) -> Option<Outcome> {
        // A session may have begun after the reading of the clock.
        let age_ns = now_ns.saturating_sub(self.began_ns);
        let silent_ns = now_ns.saturating_sub(self.active_ns);
        if age_ns >= connect_ns && !self.is_connected {
            return Some(Outcome::Refused);
        }
        if age_ns >= connect_ns && self.stage == Stage::Header {
            return Some(Outcome::Rejected);
        }
        idle_ns.is_some_and(|idle_ns| silent_ns >= idle_ns).then_some(Outcome::Idle)
    }

    /// Takes what epoll reported of an end.
    pub(crate) fn note(&mut self, end: usize, flags: EventFlags, at_ns: u64) -> Next {
        self.active_ns = at_ns;
        if flags.contains(EventFlags::ERR) {
            let is_refused = end == TARGET && !self.is_connected;
            return Next::End(if is_refused { Outcome::Refused } else { Outcome::Reset });
        }
        self.ends[end].note(flags);
        Next::Wait
    }

    /// Opens the session as far as it can; `None` once bytes may pass. `connect_ns` is set when the connection to the
    /// target has opened.
    pub(crate) fn open(
        &mut self,
        mover: &mut Mover,
        settings: &Settings,
        connect_ns: &mut Option<u64>,
    ) -> Option<Next> {
        if !self.is_connected && self.ends[TARGET].is_writable {
            self.is_connected = true;
            *connect_ns = Some(now_ns() - self.began_ns);
        }
        if self.stage == Stage::Header {
            match self.read_header() {
                Ok(true) => self.stage = Stage::Connecting,
                Ok(false) => return Some(Next::Wait),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Some(Next::End(Outcome::Rejected));
                }
                Err(_) => return Some(Next::RESET),
            }
        }
        if self.stage == Stage::Connecting {
            if !self.is_connected {
                return Some(Next::Wait);
            }
            if settings.sends_proxy {
                let local = || self.ends[CLIENT].stream.local_addr().map(canonical);
                let Ok(destination) = self.local.map_or_else(local, Ok) else {
                    return Some(Next::RESET);
                };
                let header = ProxyHeader { source: self.client, destination };
                self.directions[CLIENT].begin_with(header.emit(), mover);
            }
            self.stage = Stage::Open;
        }
        None
    }

    /// A direction: its state, its source, its sink, and whether the other direction has ended.
    pub(crate) fn way(&mut self, number: usize) -> (&mut Direction, &mut End, &mut End, bool) {
        let ([client, target], [up, down]) = (&mut self.ends, &mut self.directions);
        match number {
            CLIENT => (up, client, target, down.is_shut()),
            _ => (down, target, client, up.is_shut()),
        }
    }

    /// Moves bytes as far as it can.
    pub(crate) fn advance(&mut self, mover: &mut Mover) -> Next {
        let mut step = |number| {
            let (direction, source, sink, is_last) = self.way(number);
            direction.advance(source, sink, mover, number, is_last)
        };
        match step(CLIENT).and_then(|up| Ok([up, step(TARGET)?])) {
            Err(_) => Next::RESET,
            Ok(steps) => self.next(steps),
        }
    }

    /// What the session needs after these steps of its directions.
    pub(crate) fn next(&self, steps: [Step; 2]) -> Next {
        if self.directions.iter().all(Direction::is_shut) {
            return Next::End(Outcome::Ended);
        }
        if steps.contains(&Step::More) {
            return Next::Again;
        }
        let due = steps.iter().filter_map(|step| match step {
            Step::Due(ns) => Some(*ns),
            Step::Waits | Step::More => None,
        });
        due.min().map_or(Next::Wait, Next::At)
    }

    /// Reads the client's PROXY header; whether it is complete.
    fn read_header(&mut self) -> io::Result<bool> {
        let end = &mut self.ends[CLIENT];
        if !end.is_readable {
            return Ok(false);
        }
        let mut bytes = [0; PROXY_BYTES_MAX];
        let (peeked, _) = match recv(&end.stream, &mut bytes, RecvFlags::PEEK) {
            Err(rustix::io::Errno::AGAIN) => {
                end.is_readable = false;
                return Ok(false);
            }
            received => received?,
        };
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        if peeked == 0 {
            return Err(invalid());
        }
        let Some((header, length)) = ProxyHeader::parse(&bytes[..peeked]).map_err(|_| invalid())?
        else {
            // The next bytes are a new event.
            end.is_readable = false;
            return if peeked < bytes.len() { Ok(false) } else { Err(invalid()) };
        };
        recv(&end.stream, &mut bytes[..length], RecvFlags::empty())?;
        if let Some(header) = header {
            (self.client, self.local) = (header.source, Some(header.destination));
        }
        Ok(true)
    }

    /// Closes both ends: in order if both have ended, else by a reset.
    pub(crate) fn end(self, outcome: Outcome, mover: &mut Mover) -> Ended {
        self.directions.iter().for_each(|direction| mover.forget(direction));
        if outcome != Outcome::Ended {
            self.ends.iter().for_each(|end| reset(&end.stream));
        }
        let [upstream, downstream] = self.directions;
        Ended {
            client: self.client,
            outcome,
            elapsed_ns: now_ns() - self.began_ns,
            upstream: upstream.transfer,
            downstream: downstream.transfer,
        }
    }
}

/// An IPv4-mapped IPv6 address as the IPv4 address that it stands for.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn session(accepts_proxy: bool) -> Session {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let settings = Settings { buffer_bytes: 1, accepts_proxy, ..Settings::new(at, at) };
        let [client, target] = [0, 1].map(|_| TcpStream::connect(at).unwrap());
        Session::new(client, at, target, now_ns(), &settings)
    }

    #[test]
    fn a_session_is_overdue_if_the_target_the_header_or_all_bytes_are_late() {
        let after = |session: &Session, ns: u64, idle_ns| {
            session.overdue(session.began_ns + ns, 1_000, idle_ns)
        };
        let mut opening = session(false);
        assert_eq!(after(&opening, 999, None), None);
        assert_eq!(after(&opening, 1_000, None), Some(Outcome::Refused));
        opening.is_connected = true;
        assert_eq!(after(&opening, 5_000, None), None);
        assert_eq!(after(&opening, 5_000, Some(5_000)), Some(Outcome::Idle));
        let mut unnamed = session(true);
        unnamed.is_connected = true;
        assert_eq!(after(&unnamed, 1_000, None), Some(Outcome::Rejected));
    }

    #[test]
    fn a_session_that_began_after_the_reading_of_the_clock_is_not_overdue() {
        let session = session(false);
        assert_eq!(session.overdue(session.began_ns - 1, 1_000, Some(1_000)), None);
    }
}
