//! Address validation of a datagram flow: neither end sends a stream to an address that has not asked for one (RFC
//! 8085, section 5; QUIC solves the same problem, RFC 9000, section 8).
//!
//! ```text
//!  client                      server
//!  Open       --------------->               repeated until it is accepted
//!             <---------------  Accept       with a cookie for this address alone
//!  Confirm    --------------->               with the cookie, repeated until it is confirmed
//!             <---------------  Confirmed    the flow is open
//! ```
//!
//! The server retransmits nothing. It answers each valid message, so it never sends more bytes than it received. If
//! a message is lost, the client's retransmission is answered again. Duplicates and late messages change nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fabricmark_units::{Instant, Nanos};

use crate::{OPENING_BYTES, Opening, OpeningKind};

/// First retransmission time-out; it doubles with each retransmission.
const FIRST_PAUSE: Nanos = Nanos::from_millis(50);

/// Longest retransmission time-out: the minimum for a sender without RTT estimate (RFC 8085, section 3.1.1).
const LONGEST_PAUSE: Nanos = Nanos::from_secs(1);

/// Most addresses that await confirmation at once; beyond that the oldest is dropped and has to open again.
const CANDIDATES_MAX: usize = 16;

/// How [`Opener`] classified a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A handshake message, or a datagram to ignore.
    Taken,
    /// A payload: the server regards the flow as open.
    Payload,
}

/// The client's side of the handshake.
#[derive(Clone, Debug)]
pub struct Opener {
    /// The message to send and retransmit.
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
    /// Starts the handshake, which fails after `within`. `hears_first`: the server sends the stream and may not
    /// answer a `Confirm` meanwhile, so its first payload confirms the flow, too.
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

    /// Handles a datagram from the server.
    pub fn on_datagram(&mut self, now: Instant, datagram: &[u8]) -> Heard {
        let heard = Opening::parse(datagram);
        // The server sends payloads only after it got the cookie back.
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

    /// Schedules a retransmission if its time-out has expired.
    pub fn on_timeout(&mut self, now: Instant) {
        if now >= self.repeats {
            self.is_due = true;
        }
    }

    /// The datagram to send now, if any.
    pub fn poll_output(&mut self, now: Instant) -> Option<[u8; OPENING_BYTES]> {
        if self.is_open || !std::mem::take(&mut self.is_due) {
            return None;
        }
        self.repeats = Instant(now.0.saturating_add(self.pause.0));
        self.pause = Nanos(2 * self.pause.0).min(LONGEST_PAUSE);
        Some(self.message.emit())
    }

    /// When to call [`Self::on_timeout`]; `None` once the flow is open.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.is_open).then_some(self.repeats.min(self.ends))
    }

    /// Whether the handshake has timed out.
    pub fn is_over(&self, now: Instant) -> bool {
        !self.is_open && now >= self.ends
    }

    /// The flow, once it is open.
    pub fn opened(&self) -> Option<Opened> {
        self.is_open.then_some(Opened { message: self.message })
    }

    /// Time from the first `Open` to its acceptance, retransmissions included: at least an RTT. 0 before.
    pub fn rtt(&self) -> Nanos {
        Nanos(self.accepted.map_or(0, |accepted| accepted.0.saturating_sub(self.began.0)))
    }
}

/// The server's side of the handshake.
#[derive(Clone, Debug)]
pub struct Admission {
    opening: Opening,
    /// Addresses that sent the `Open`, each with its cookie; oldest first.
    candidates: VecDeque<(SocketAddr, u64)>,
}

impl Admission {
    /// Waits for `opening`.
    pub fn new(opening: Opening) -> Self {
        Self { opening, candidates: VecDeque::new() }
    }

    /// Handles a datagram; returns the reply to its source, and the flow once open. `cookie` makes 64 random bits.
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

/// An open datagram flow, which recognizes late messages of its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The `Confirm` message.
    message: Opening,
}

impl Opened {
    /// Whether a datagram that begins with `kept` is a handshake message of this flow, of any type. 16 bytes of it
    /// contain the run, 40 bytes also the token.
    pub fn is_message(&self, kept: &[u8]) -> bool {
        // Message type, which may be any, and offset of the cookie, which is not compared.
        const KIND: std::ops::Range<usize> = 6..8;
        const COOKIE: usize = 40;
        let message = self.message.emit();
        let same = |(at, (kept, ours)): (usize, (&u8, &u8))| KIND.contains(&at) || kept == ours;
        kept.len() > KIND.end && kept.iter().zip(&message).take(COOKIE).enumerate().all(same)
    }

    /// The server's reply to a datagram that begins with `kept`: a repeated `Confirm` is answered again, since the
    /// `Confirmed` was lost or is late.
    pub fn answer(&self, kept: &[u8]) -> Option<[u8; OPENING_BYTES]> {
        let confirmed = Opening { kind: OpeningKind::Confirmed, ..self.message };
        let message = self.message.emit();
        let is_repeated = self.is_message(kept) && kept.iter().zip(&message).all(|(k, m)| k == m);
        is_repeated.then(|| confirmed.emit())
    }
}
