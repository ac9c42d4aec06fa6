//! Pairing over TCP: one host waits, the other connects.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use thiserror::Error;

use crate::pairing::{Greeting, HELLO_LEN, Introduction, Keyed, PROOF_LEN, REFUSAL, Role};
use crate::{Code, HostName, Identity, TrustError, Trusted};

/// Lifetime of a code.
pub const WAIT_MAX: Duration = Duration::from_secs(600);

/// How long an end may be silent, and how long a whole conversation may take at the waiting end. No typing is
/// included: it takes some round trips and a few milliseconds of computation.
const PATIENCE: Duration = Duration::from_secs(10);

/// Wrong codes after which the waiting end gives up: with 40 bits, guessing succeeds 3 times in 10^12.
const WRONG_MAX: u32 = 3;

/// Most concurrent connections at the waiting end; others wait in the listen backlog.
const GUESTS_MAX: usize = 16;

/// Longest delay until a request to stop is noticed.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Why pairing failed. Nothing was stored here.
#[derive(Debug, Error)]
pub enum PairError {
    /// The two ends have different codes.
    #[error("wrong code, or the connection was tampered with: check the code and try again")]
    WrongCode,
    /// The waiting end received too many wrong codes.
    #[error("{WRONG_MAX} wrong codes were tried: start again for a new code")]
    TooManyWrongCodes,
    /// The code has expired.
    #[error("no host connected within {} minutes: start again for a new code", WAIT_MAX.as_secs() / 60)]
    Expired,
    /// This end was told to stop.
    #[error("interrupted")]
    Stopped,
    /// What the other end sent is not this protocol, or not this version of it.
    #[error("the other end is not fabricmark pair, or another version of it")]
    Garbage,
    /// The other end sends nothing.
    #[error("no data from the other end for {} seconds", PATIENCE.as_secs())]
    Silent,
    /// The other end closed the connection.
    #[error("the other end closed the connection: check that fabricmark pair still waits there")]
    HungUp,
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other host's key cannot be stored.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Waits until a host connects that has the code, and trusts it; gives up after three wrong codes and after
/// [`WAIT_MAX`]. A connection that is silent or sends garbage is dropped and is not an attempt; others are served
/// concurrently.
pub fn pair_wait(
    listener: &TcpListener,
    code: &Code,
    identity: &Identity,
    trusted: &Trusted,
    stop: &AtomicBool,
) -> Result<Introduction, PairError> {
    let own = introduction(identity);
    let other = met(listener, code, &own, Instant::now() + WAIT_MAX, stop)?;
    trust(trusted, other)
}

/// The host that connected with the code.
fn met(
    listener: &TcpListener,
    code: &Code,
    own: &Introduction,
    until: Instant,
    stop: &AtomicBool,
) -> Result<Introduction, PairError> {
    listener.set_nonblocking(true)?;
    let mut guests: Vec<Guest> = Vec::new();
    let mut wrong = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(PairError::Stopped);
        }
        if Instant::now() >= until {
            return Err(PairError::Expired);
        }
        wait(listener, &guests)?;
        guests.extend(accept(listener, GUESTS_MAX - guests.len())?);
        let mut staying = Vec::new();
        for mut guest in guests {
            match guest.turn(code, own) {
                Ok(Some(other)) => return Ok(other),
                Ok(None) => staying.push(guest),
                Err(PairError::WrongCode) => wrong += 1,
                // Other connections are not affected.
                Err(_) => {}
            }
            if wrong == WRONG_MAX {
                return Err(PairError::TooManyWrongCodes);
            }
        }
        guests = staying;
    }
}

/// Pairs with a waiting host over `stream`, and trusts it if it has the code, too.
pub fn pair_with(
    stream: TcpStream,
    code: &Code,
    identity: &Identity,
    trusted: &Trusted,
) -> Result<Introduction, PairError> {
    let mut line = Line::new(stream)?;
    let greeting = Greeting::new(Role::Calling, code);
    line.write(&greeting.hello())?;
    let keyed = greeting.on_hello(&line.await_message::<HELLO_LEN>()?)?;
    line.write(&keyed.proof(&introduction(identity))?)?;
    let other = keyed.on_proof(&line.await_message::<PROOF_LEN>()?)?;
    trust(trusted, other)
}

fn introduction(identity: &Identity) -> Introduction {
    Introduction { fingerprint: identity.fingerprint(), name: HostName::own() }
}

fn trust(trusted: &Trusted, other: Introduction) -> Result<Introduction, PairError> {
    trusted.add(&other.fingerprint, &other.name)?;
    Ok(other)
}

/// Maps a socket error to what it means for the conversation.
fn conversation(error: io::Error) -> PairError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => PairError::Silent,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => PairError::HungUp,
        _ => PairError::Io(error),
    }
}

/// Waits for at most [`TICK`] for a new connection, or for input on one.
fn wait(listener: &TcpListener, guests: &[Guest]) -> Result<(), PairError> {
    let full = guests.len() >= GUESTS_MAX;
    let callers = (!full).then(|| PollFd::new(listener, PollFlags::IN));
    let guests = guests.iter().map(|guest| PollFd::new(&guest.line.stream, PollFlags::IN));
    wait_for(callers.into_iter().chain(guests).collect())
}

fn wait_for(mut watched: Vec<PollFd<'_>>) -> Result<(), PairError> {
    match poll(&mut watched, Some(&TICK)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Accepts pending connections, up to `room`.
fn accept(listener: &TcpListener, room: usize) -> Result<Vec<Guest>, PairError> {
    let mut come = Vec::new();
    while come.len() < room {
        match listener.accept() {
            Ok((stream, _)) => come.push(Guest { line: Line::new(stream)?, keyed: None }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Closed before it was accepted (accept(2)).
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(come)
}

/// A connection at the waiting end that is not yet authenticated.
struct Guest {
    line: Line,
    /// Set after the hellos.
    keyed: Option<Keyed>,
}

impl Guest {
    /// Processes input and replies; returns the other host once it has proved the code and our proof is sent.
    fn turn(&mut self, code: &Code, own: &Introduction) -> Result<Option<Introduction>, PairError> {
        if self.keyed.is_none() {
            let Some(hello) = self.line.read::<HELLO_LEN>()? else { return Ok(None) };
            let greeting = Greeting::new(Role::Waiting, code);
            let reply = greeting.hello();
            self.keyed = Some(greeting.on_hello(&hello)?);
            self.line.write(&reply)?;
        }
        let Some(proof) = self.line.read::<PROOF_LEN>()? else { return Ok(None) };
        let Some(keyed) = &self.keyed else { return Ok(None) };
        let other = keyed.on_proof(&proof).inspect_err(|_| {
            // The result is the same if the other end no longer listens.
            let _ = self.line.write(&REFUSAL);
        })?;
        self.line.write(&keyed.proof(own)?)?;
        Ok(Some(other))
    }
}

/// A non-blocking connection with a deadline.
struct Line {
    stream: TcpStream,
    until: Instant,
    /// Buffer for the next message; nothing beyond it is read.
    message: [u8; PROOF_LEN],
    have: usize,
}

impl Line {
    fn new(stream: TcpStream) -> io::Result<Line> {
        stream.set_nonblocking(true)?;
        Ok(Line { stream, until: Instant::now() + PATIENCE, message: [0; PROOF_LEN], have: 0 })
    }

    /// A complete message, once it has arrived.
    fn read<const LEN: usize>(&mut self) -> Result<Option<[u8; LEN]>, PairError> {
        while self.have < LEN {
            match self.stream.read(&mut self.message[self.have..LEN]) {
                Ok(0) => return Err(PairError::HungUp),
                Ok(read) => self.have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let late = Instant::now() >= self.until;
                    return if late { Err(PairError::Silent) } else { Ok(None) };
                }
                Err(error) => return Err(conversation(error)),
            }
        }
        self.have = 0;
        Ok(self.message.first_chunk().copied())
    }

    /// A complete message, within [`PATIENCE`] from now.
    fn await_message<const LEN: usize>(&mut self) -> Result<[u8; LEN], PairError> {
        self.until = Instant::now() + PATIENCE;
        loop {
            if let Some(message) = self.read()? {
                return Ok(message);
            }
            wait_for(vec![PollFd::new(&self.stream, PollFlags::IN)])?;
        }
    }

    /// Sends a short message into an empty buffer: it fits at once, or the other end misbehaves.
    fn write(&mut self, message: &[u8]) -> Result<(), PairError> {
        self.stream.write_all(message).map_err(conversation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(until: Instant, stop: bool) -> PairError {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own = introduction(&Identity::generate().unwrap());
        let code = Code::generate().unwrap();
        met(&listener, &code, &own, until, &AtomicBool::new(stop)).unwrap_err()
    }

    #[test]
    fn a_code_expires() {
        let error = ended(Instant::now(), false);
        assert_eq!(
            error.to_string(),
            "no host connected within 10 minutes: start again for a new \
                                       code"
        );
    }

    #[test]
    fn waiting_ends_when_asked() {
        assert!(matches!(ended(Instant::now() + WAIT_MAX, true), PairError::Stopped));
    }
}
