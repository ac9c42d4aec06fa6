//! Whether the other end of a connection still lives.
//!
//! TCP alone notices a peer that vanished after a quarter of an hour, or never when nothing is sent. A
//! coordinator pings, an agent answers, and who hears nothing for a while gives the other up.

use fabricmark_units::{Instant, Nanos};

/// Silence after which the other end has vanished, over a path without length: four idle pings. What it
/// held is to be free within 5 s of its last word.
const SILENCE_MAX: Nanos = Nanos::from_secs(4);

/// Round trips beyond that: since pings follow, TCP repeats a lost segment after some 1.5 of them
/// (RFC 8985), so that 10 losses of it in a row are borne. Where 20 % of the packets are lost that happens
/// once in ten million.
const ROUND_TRIPS: u64 = 16;

/// A path longer than this is taken for this long, whatever the other end says.
const RTT_MAX: Nanos = Nanos::from_secs(5);

/// Time between pings while nothing else happens: well below what an address translator remembers an
/// idle connection for, two hours at best and 5 minutes often (RFC 5382, section 5, REQ-5).
const PING_EVERY: Nanos = Nanos::from_secs(1);

/// Time between pings while a run is under way, when its own traffic may push them out: later ones
/// tell TCP sooner than a timer that an earlier one was lost (RFC 8985).
const PING_EVERY_IN_A_RUN: Nanos = Nanos::from_millis(250);

/// What waits for an answer waits longer over a longer path.
pub(crate) fn patience(rtt: Nanos) -> Nanos {
    Nanos(rtt.min(RTT_MAX).0 * ROUND_TRIPS)
}

/// Watches one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keepalive {
    /// When something arrived.
    pub(crate) heard: Instant,
    /// When a ping left.
    pub(crate) pinged: Instant,
    /// Round trip of the path as it was told.
    pub(crate) rtt: Nanos,
}

impl Keepalive {
    pub(crate) fn new(now: Instant, rtt: Nanos) -> Self {
        Self { heard: now, pinged: now, rtt }
    }

    /// When the other end counts as vanished.
    pub(crate) fn gives_up(&self) -> Instant {
        self.heard + SILENCE_MAX + patience(self.rtt)
    }

    /// When the next ping is due.
    pub(crate) fn pings(&self, in_a_run: bool) -> Instant {
        self.pinged + if in_a_run { PING_EVERY_IN_A_RUN } else { PING_EVERY }
    }
}
