//! How a flow of datagrams opens: no end sends a stream to an address that has not shown that it wants
//! one (RFC 8085, section 5; the same problem is QUIC's, RFC 9000, section 8).
//!
//! ```text
//!  client                      server
//!  Open       --------------->               repeated until it is accepted
//!             <---------------  Accept       with a cookie for this address alone
//!  Confirm    --------------->               with the cookie, repeated until it is confirmed
//!             <---------------  Confirmed    the flow is open
//! ```
//!
//! The server repeats nothing: it answers each message that is right, so that it never sends
//! more bytes than it received. A message that is lost is answered again when the other is repeated, and
//! one that comes twice or late changes nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fabricmark_units::{Instant, Nanos};

use crate::{OPENING_BYTES, Opening, OpeningKind};

/// Time until a message without an answer is repeated; each time the double.
const FIRST_PAUSE: Nanos = Nanos::from_millis(50);

/// Longest time between repeated messages: the least that a sender who knows nothing of its path is
/// advised (RFC 8085, section 3.1.1).
const LONGEST_PAUSE: Nanos = Nanos::from_secs(1);

/// Addresses whose confirmation is awaited at once; beyond that the oldest is forgotten, and has to open
/// again.
const CANDIDATES_MAX: usize = 16;

/// What a datagram is to an end whose flow opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message of the opening, or nothing of use.
    Taken,
    /// A payload: the other end takes the flow for open.
    Payload,
}

/// The client of a flow that opens.
#[derive(Clone, Debug)]
pub struct Opener {
    /// The message that is repeated.
    message: Opening,
    hears_first: bool,
    began: Instant,
    accepted: Option<Instant>,
    is_open: bool,
    ends: Instant,
    repeats: Instant,
    pause: Nanos,
    is_due: bool,
}

impl Opener {
    /// Begins to open a flow; gives up after `within`. `hears_first` is a flow whose server sends
    /// the stream: it may not listen then, so that its first payload confirms as well.
    pub fn new(now: Instant, opening: Opening, within: Nanos, hears_first: bool) -> Self {
        Self {
            message: opening,
            hears_first,
            began: now,
            accepted: None,
            is_open: false,
            ends: Instant(now.0.saturating_add(within.0)),
            repeats: now,
            pause: FIRST_PAUSE,
            is_due: true,
        }
    }

    /// Takes a datagram from the other end.
    pub fn on_datagram(&mut self, now: Instant, datagram: &[u8]) -> Heard {
        let heard = Opening::parse(datagram);
        // It leaves the server only after the cookie came back.
        if heard.is_none() && self.hears_first && self.accepted.is_some() {
            self.is_open = true;
            return Heard::Payload;
        }
        let Some(heard) = heard else { return Heard::Taken };
        let accept = Opening { kind: OpeningKind::Accept, cookie: heard.cookie, ..self.message };
        let confirmed = Opening { kind: OpeningKind::Confirmed, ..self.message };
        if self.accepted.is_some() {
            self.is_open |= heard == confirmed;
        } else if heard == accept {
            self.message = Opening { kind: OpeningKind::Confirm, ..heard };
            self.accepted = Some(now);
            self.pause = FIRST_PAUSE;
            self.is_due = true;
        }
        Heard::Taken
    }

    /// Takes note of the time.
    pub fn on_timeout(&mut self, now: Instant) {
        if now >= self.repeats {
            self.is_due = true;
        }
    }

    /// The datagram that is to be sent now.
    pub fn poll_output(&mut self, now: Instant) -> Option<[u8; OPENING_BYTES]> {
        if self.is_open || !std::mem::take(&mut self.is_due) {
            return None;
        }
        self.repeats = Instant(now.0.saturating_add(self.pause.0));
        self.pause = Nanos(2 * self.pause.0).min(LONGEST_PAUSE);
        Some(self.message.emit())
    }

    /// When [`Self::on_timeout`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.is_open).then_some(self.repeats.min(self.ends))
    }

    /// Whether the time is over and the flow is not open.
    pub fn is_over(&self, now: Instant) -> bool {
        !self.is_open && now >= self.ends
    }

    /// The open flow.
    pub fn opened(&self) -> Option<Opened> {
        self.is_open.then_some(Opened { message: self.message })
    }

    /// From the first opening to its acceptance, repeats included: never less than a round trip.
    pub fn rtt(&self) -> Nanos {
        Nanos(self.accepted.map_or(0, |accepted| accepted.0.saturating_sub(self.began.0)))
    }
}

/// The server of a flow that opens.
#[derive(Clone, Debug)]
pub struct Admission {
    opening: Opening,
    /// Addresses that sent the opening, each with its cookie; oldest first.
    candidates: VecDeque<(SocketAddr, u64)>,
}

impl Admission {
    /// Waits for this opening.
    pub fn new(opening: Opening) -> Self {
        Self { opening, candidates: VecDeque::new() }
    }

    /// Takes a datagram from an address; gives the answer that goes back there, and the flow once it is
    /// open. `cookie` gives 64 bits that nobody can guess.
    pub fn on_datagram<E>(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        cookie: impl FnOnce() -> Result<u64, E>,
    ) -> Result<(Option<[u8; OPENING_BYTES]>, Option<Opened>), E> {
        let Some(heard) = Opening::parse(datagram) else { return Ok((None, None)) };
        let known = self.candidates.iter().find(|(address, _)| *address == from);
        let known = known.map(|&(_, cookie)| cookie);
        if heard == self.opening {
            let cookie = match known {
                Some(cookie) => cookie,
                None => {
                    let cookie = cookie()?;
                    if self.candidates.len() == CANDIDATES_MAX {
                        self.candidates.pop_front();
                    }
                    self.candidates.push_back((from, cookie));
                    cookie
                }
            };
            let accept = Opening { cookie, ..self.opening.acceptance() };
            return Ok((Some(accept.emit()), None));
        }
        let Some(cookie) = known else { return Ok((None, None)) };
        let opened =
            Opened { message: Opening { kind: OpeningKind::Confirm, cookie, ..self.opening } };
        Ok((opened.answer(datagram), (heard == opened.message).then_some(opened)))
    }
}

/// A flow of datagrams that is open: what it still needs to know of its opening, of which messages may
/// be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The confirmation.
    message: Opening,
}

impl Opened {
    /// Whether a datagram that begins so is a message of this opening, of whichever kind. A beginning of
    /// 16 bytes names the run, one of 40 the token.
    pub fn is_message(&self, kept: &[u8]) -> bool {
        // The kind stands in these bytes, and the cookie behind the token.
        const KIND: std::ops::Range<usize> = 6..8;
        const COOKIE: usize = 40;
        let message = self.message.emit();
        let same = |(at, (kept, ours)): (usize, (&u8, &u8))| KIND.contains(&at) || kept == ours;
        kept.len() > KIND.end && kept.iter().zip(&message).take(COOKIE).enumerate().all(same)
    }

    /// What the server says to a datagram that begins so: a confirmation that is repeated is
    /// confirmed again, as its answer was lost, or is late.
    pub fn answer(&self, kept: &[u8]) -> Option<[u8; OPENING_BYTES]> {
        let confirmed = Opening { kind: OpeningKind::Confirmed, ..self.message };
        let message = self.message.emit();
        let is_repeated = self.is_message(kept) && kept.iter().zip(&message).all(|(k, m)| k == m);
        is_repeated.then(|| confirmed.emit())
    }
}
