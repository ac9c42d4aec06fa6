//! What the relay has moved: sums and histograms.

use std::ops::AddAssign;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fabricmark_stats::Histogram;

use crate::session::Outcome;
use crate::transfer::Transfer;

/// Times of one direction over all connections that both ends closed and that moved bytes in it.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// [`Transfer::switching_ns`].
    pub switching_ns: Histogram,
    /// [`Transfer::receiving_ns`].
    pub receiving_ns: Histogram,
    /// [`Transfer::sending_ns`].
    pub sending_ns: Histogram,
}

impl Times {
    fn record(&mut self, transfer: &Transfer) {
        for (histogram, ns) in [
            (&mut self.switching_ns, transfer.switching_ns()),
            (&mut self.receiving_ns, transfer.receiving_ns()),
            (&mut self.sending_ns, transfer.sending_ns()),
        ] {
            if let Some(ns) = ns {
                histogram.record(ns);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.switching_ns.merge(&other.switching_ns);
        self.receiving_ns.merge(&other.receiving_ns);
        self.sending_ns.merge(&other.sending_ns);
    }
}

/// Counts of a relay. A *connection* is one of a client, or a UDP flow, with the relay's own to the target.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Connections accepted from clients.
    pub accepted: u64,
    /// Connections that both ends closed, and UDP flows that became idle.
    pub ended: u64,
    /// Connections that an end reset.
    pub reset: u64,
    /// Connections that the target refused or did not answer.
    pub refused: u64,
    /// Connections that were reset because they were idle.
    pub idle: u64,
    /// Connections without a valid PROXY header, or of others than [`Settings::clients`](crate::Settings::clients).
    pub rejected: u64,
    /// Connections that were reset at the end of the drain.
    pub aborted: u64,
    /// Times at which a descriptor or memory was missing; the relay then accepts nothing for a moment.
    pub exhausted: u64,
    /// Datagrams that could not be sent on.
    pub dropped_datagrams: u64,
    /// Ended connections that were not reported one by one, because their reader was too slow.
    pub unreported: u64,
    /// Bytes from clients to the target.
    pub upstream_bytes: u64,
    /// Bytes from the target to clients.
    pub downstream_bytes: u64,
    /// From the start of a connection to the target until it is open.
    pub connect_ns: Histogram,
    /// Times from clients to the target.
    pub upstream: Times,
    /// Times from the target to clients.
    pub downstream: Times,
}

impl Counters {
    /// Connections that have ended, however.
    pub fn gone(&self) -> u64 {
        self.ended + self.reset + self.refused + self.idle + self.rejected + self.aborted
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.gone())
    }

    pub(crate) fn count(&mut self, outcome: Outcome, upstream: &Transfer, downstream: &Transfer) {
        let count = match outcome {
            Outcome::Ended => &mut self.ended,
            Outcome::Reset => &mut self.reset,
            Outcome::Refused => &mut self.refused,
            Outcome::Idle => &mut self.idle,
            Outcome::Rejected => &mut self.rejected,
            Outcome::Aborted => &mut self.aborted,
        };
        *count += 1;
        // The times of the others end wherever they were cut off.
        if outcome == Outcome::Ended {
            self.upstream.record(upstream);
            self.downstream.record(downstream);
        }
    }
}

impl AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        self.accepted += other.accepted;
        self.ended += other.ended;
        self.reset += other.reset;
        self.refused += other.refused;
        self.idle += other.idle;
        self.rejected += other.rejected;
        self.aborted += other.aborted;
        self.exhausted += other.exhausted;
        self.dropped_datagrams += other.dropped_datagrams;
        self.unreported += other.unreported;
        self.upstream_bytes += other.upstream_bytes;
        self.downstream_bytes += other.downstream_bytes;
        self.connect_ns.merge(&other.connect_ns);
        self.upstream.merge(&other.upstream);
        self.downstream.merge(&other.downstream);
    }
}

/// The counters of one thread.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Counters>);

impl Shared {
    /// Counts stay valid if a thread that held the lock panicked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
