//! Dead-peer detection on a control connection.
//!
//! TCP alone detects a vanished peer after a quarter of an hour, or never if nothing is sent. A coordinator pings, an
//! agent answers, and either declares the other dead after a period of silence.

use fabricmark_units::{Instant, Nanos};

/// Silence after which the peer is declared dead, over a path of RTT 0: four idle pings. Its resources must be free
/// within 5 s of its last message.
const SILENCE_MAX: Nanos = Nanos::from_secs(4);

/// RTTs added to that: since pings follow, TCP retransmits a lost segment after some 1.5 RTTs (RFC 8985), so 10
/// losses of it in a row are tolerated. At 20 % packet loss these happen once in ten million. With one segment in
/// flight it takes a timeout, of up to 3 RTTs until TCP knows the path, which does not double
/// (TCP_THIN_LINEAR_TIMEOUTS).
const ROUND_TRIPS: u64 = 16;

/// Longest RTT taken into account, whatever the peer reports.
const RTT_MAX: Nanos = Nanos::from_secs(5);

/// Time between idle pings: well below the time-out of idle connections at NATs, two hours at best and often 5
/// minutes (RFC 5382, section 5, REQ-5).
const PING_EVERY: Nanos = Nanos::from_secs(1);

/// Time between pings during a run, whose own traffic may displace them: later pings reveal a loss to TCP sooner
/// than its retransmission timer (RFC 8985).
const PING_EVERY_IN_A_RUN: Nanos = Nanos::from_millis(250);

/// Extra time to wait for an answer over a path of this RTT.
pub(crate) fn patience(rtt: Nanos) -> Nanos {
    Nanos(rtt.min(RTT_MAX).0 * ROUND_TRIPS)
}

/// Keepalive state of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keepalive {
    /// When the last message arrived.
    pub(crate) heard: Instant,
    /// When the last ping was sent.
    pub(crate) pinged: Instant,
    /// RTT of the path, as measured or as reported by the peer.
    pub(crate) rtt: Nanos,
}

impl Keepalive {
    pub(crate) fn new(now: Instant, rtt: Nanos) -> Self {
        Self { heard: now, pinged: now, rtt }
    }

    /// When the peer is declared dead.
    pub(crate) fn gives_up(&self) -> Instant {
        self.heard + SILENCE_MAX + patience(self.rtt)
    }

    /// When the next ping is due.
    pub(crate) fn pings(&self, in_a_run: bool) -> Instant {
        self.pinged + if in_a_run { PING_EVERY_IN_A_RUN } else { PING_EVERY }
    }
}
