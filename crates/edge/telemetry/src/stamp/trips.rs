//! RTTs of one flow, split by packet timestamps. One request is outstanding at a time.

use std::io;
use std::os::fd::BorrowedFd;

use fabricmark_plan::Timestamps;
use fabricmark_record::KernelTimes;

use super::{Stamp, read_tx_stamps};
use crate::clock::now_ns;

/// Records requests and responses as they pass the socket.
#[derive(Debug)]
pub struct Trips {
    source: Timestamps,
    /// Number of the last packet whose transmit timestamp was used.
    last_id: Option<u32>,
    trip: Trip,
    times: KernelTimes,
}

/// The current round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Trip {
    departed_ns: u64,
    sent_ns: Option<u64>,
    arrived: Option<Arrival>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    heard_ns: u64,
    received_ns: Option<u64>,
}

impl Trips {
    /// Uses these timestamps, which must be enabled on the socket.
    pub fn by(source: Timestamps) -> Self {
        Self { source, last_id: None, trip: Trip::default(), times: KernelTimes::default() }
    }

    /// To be called before a request, or its next part, is sent: the previous round trip is complete.
    pub fn departs(&mut self) {
        self.settle();
        self.trip.departed_ns = now_ns();
    }

    /// To be called after the response, or its next part, was received.
    pub fn arrives(&mut self, fd: BorrowedFd<'_>, stamp: Option<Stamp>) -> io::Result<()> {
        let heard_ns = now_ns();
        if self.trip.sent_ns.is_none() {
            let stamps = read_tx_stamps(fd)?;
            self.trip.sent_ns = self.newest(&stamps);
        }
        let received_ns = stamp.and_then(|stamp| self.chosen(stamp));
        self.trip.arrived = Some(Arrival { heard_ns, received_ns });
        Ok(())
    }

    /// Completes the last round trip, and returns all.
    pub fn finish(&mut self) -> KernelTimes {
        self.settle();
        std::mem::take(&mut self.times)
    }

    fn chosen(&self, stamp: Stamp) -> Option<u64> {
        match self.source {
            Timestamps::Software => stamp.software_ns,
            Timestamps::Hardware => stamp.hardware_ns,
        }
    }

    /// Timestamp of the packet sent last. A retransmitted TCP segment has another timestamp with the same number: the
    /// first one counts, so that the RTT includes the wait for the retransmission.
    fn newest(&mut self, stamps: &[(u32, Stamp)]) -> Option<u64> {
        let chosen = |&(id, stamp): &(u32, Stamp)| Some((id, self.chosen(stamp)?));
        let (last, _) = stamps.iter().rev().find_map(chosen)?;
        let (_, first_ns) = stamps.iter().filter_map(chosen).find(|&(id, _)| id == last)?;
        // A retransmission of an older packet does not belong to this round trip.
        let is_new = self.last_id.replace(last) != Some(last);
        is_new.then_some(first_ns)
    }

    fn settle(&mut self) {
        let Trip { departed_ns, sent_ns, arrived } = std::mem::take(&mut self.trip);
        // Without a response the request was lost; the pattern counts that.
        let Some(Arrival { heard_ns, received_ns }) = arrived else { return };
        let parted = || {
            let rtt_ns = received_ns?.checked_sub(sent_ns?)?;
            Some((rtt_ns, heard_ns.checked_sub(departed_ns)?.checked_sub(rtt_ns)?))
        };
        match parted() {
            Some((rtt_ns, application_ns)) => {
                self.times.rtt_ns.record(rtt_ns);
                self.times.application_ns.record(application_ns);
            }
            None => self.times.unstamped += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn software(ns: u64) -> Stamp {
        Stamp { software_ns: Some(ns), hardware_ns: None }
    }

    fn settled(departed_ns: u64, sent_ns: Option<u64>, arrived: Option<(u64, u64)>) -> KernelTimes {
        let mut trips = Trips::by(Timestamps::Software);
        let arrived = arrived
            .map(|(heard_ns, received_ns)| Arrival { heard_ns, received_ns: Some(received_ns) });
        trips.trip = Trip { departed_ns, sent_ns, arrived };
        trips.finish()
    }

    #[test]
    fn the_time_between_the_stamps_is_the_kernels_and_the_rest_the_applications() {
        let times = settled(100, Some(7_000), Some((130, 7_020)));
        assert_eq!((times.rtt_ns.max(), times.application_ns.max()), (Some(20), Some(10)));
        assert_eq!((times.rtt_ns.len(), times.unstamped), (1, 0));
    }

    #[test]
    fn a_trip_without_a_stamp_or_with_contradicting_ones_is_only_counted() {
        for (sent_ns, received_ns) in [
            (None, 7_020),
            // The clock of the machine was set back, or forward.
            (Some(7_000), 6_000),
            (Some(7_000), 9_000),
        ] {
            let times = settled(100, sent_ns, Some((130, received_ns)));
            assert_eq!((times.rtt_ns.len(), times.unstamped), (0, 1), "{sent_ns:?} {received_ns}");
        }
    }

    #[test]
    fn a_request_without_a_response_is_no_trip() {
        assert_eq!(settled(100, Some(7_000), None), KernelTimes::default());
    }

    #[test]
    fn the_stamp_of_the_packet_sent_last_counts_and_of_its_repetitions_the_first() {
        let mut trips = Trips::by(Timestamps::Software);
        let of_both = [(3, software(30)), (4, software(40)), (4, software(45))];
        assert_eq!(trips.newest(&of_both), Some(40));
        assert_eq!(trips.newest(&[(4, software(50))]), None, "it belongs to the trip before");
        assert_eq!(trips.newest(&[]), None);
    }

    #[test]
    fn a_stamp_of_the_kernel_is_none_of_the_device() {
        let mut trips = Trips::by(Timestamps::Hardware);
        let of_device = Stamp { software_ns: None, hardware_ns: Some(9) };
        assert_eq!(trips.newest(&[(1, of_device), (1, software(40))]), Some(9));
        assert_eq!(trips.newest(&[(2, software(50))]), None);
    }
}
