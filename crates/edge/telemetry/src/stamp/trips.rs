//! RTTs of one flow, split by packet timestamps. One request is outstanding at a time.

use std::io;
use std::os::fd::BorrowedFd;

use fabricmark_plan::Timestamps;
use fabricmark_record::KernelTimes;

use super::realtime::RealtimeOffset;
use super::{Departure, Place, Stamp, read_tx_stamps};
use crate::clock::now_ns;

/// Records requests and responses as they pass the socket.
#[derive(Debug)]
pub struct Trips {
    source: Timestamps,
    realtime: RealtimeOffset,
    /// Number of the last packet whose transmit timestamp was used.
    last_id: Option<u32>,
    trip: Trip,
    times: KernelTimes,
}

/// The current round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Trip {
    departed_ns: u64,
    queued_ns: Option<u64>,
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
        Self {
            source,
            realtime: RealtimeOffset::read(),
            last_id: None,
            trip: Trip::default(),
            times: KernelTimes::default(),
        }
    }

    /// To be called when the next round trip is over another connection.
    pub fn reconnects(&mut self) {
        self.settle();
        self.last_id = None;
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
            self.trip.queued_ns = self.queued(&stamps);
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
    fn newest(&mut self, stamps: &[Departure]) -> Option<u64> {
        let chosen = |&Departure { id, place, stamp }: &Departure| {
            Some((id, self.chosen(stamp).filter(|_| place == Place::Device)?))
        };
        let (last, _) = stamps.iter().rev().find_map(chosen)?;
        let (_, first_ns) = stamps.iter().filter_map(chosen).find(|&(id, _)| id == last)?;
        // A retransmission of an older packet does not belong to this round trip.
        let is_new = self.last_id.replace(last) != Some(last);
        is_new.then_some(first_ns)
    }

    /// When the packet sent last entered the queueing discipline.
    fn queued(&self, stamps: &[Departure]) -> Option<u64> {
        let is_it =
            |stamp: &&Departure| stamp.place == Place::Queue && Some(stamp.id) == self.last_id;
        stamps.iter().find(is_it)?.stamp.software_ns
    }

    fn settle(&mut self) {
        let trip = std::mem::take(&mut self.trip);
        let Trip { departed_ns, sent_ns, arrived, .. } = trip;
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
                if let Some([access_ns, packetisation_ns, reassembly_ns]) = self.parts(trip) {
                    self.times.access_ns.record(access_ns);
                    self.times.packetisation_ns.record(packetisation_ns);
                    self.times.reassembly_ns.record(reassembly_ns);
                }
            }
            None => self.times.unstamped += 1,
        }
    }
}

impl Trips {
    /// The application's time in three parts: until the request is in the queueing discipline, from there to the device,
    /// and from the arrival of the response to the program.
    fn parts(&self, trip: Trip) -> Option<[u64; 3]> {
        // A device has a clock of its own.
        if self.source == Timestamps::Hardware {
            return None;
        }
        let Arrival { heard_ns, received_ns } = trip.arrived?;
        let (queued_ns, sent_ns) = (trip.queued_ns?, trip.sent_ns?);
        let access_ns = self.realtime.to_monotonic_ns(queued_ns).checked_sub(trip.departed_ns)?;
        let packetisation_ns = sent_ns.checked_sub(queued_ns)?;
        Some([access_ns, packetisation_ns, self.realtime.since(received_ns?, heard_ns)?])
    }
}

/// Times from the arrival of requests to the program that answers them.
#[derive(Debug)]
pub struct Arrivals {
    realtime: RealtimeOffset,
    /// Of what was received last.
    pending_ns: Option<u64>,
    times: KernelTimes,
}

impl Default for Arrivals {
    fn default() -> Self {
        let (pending_ns, times) = (None, KernelTimes::default());
        Self { realtime: RealtimeOffset::read(), pending_ns, times }
    }
}

impl Arrivals {
    /// To be called after a request, or its next part, was received.
    pub fn arrives(&mut self, stamp: Option<Stamp>) {
        let heard_ns = now_ns();
        let received_ns = stamp.and_then(|stamp| stamp.software_ns);
        self.pending_ns = received_ns.and_then(|ns| self.realtime.since(ns, heard_ns));
    }

    /// To be called before a request is answered: it is complete.
    pub fn answers(&mut self) {
        if let Some(ns) = self.pending_ns.take() {
            self.times.reassembly_ns.record(ns);
        }
    }

    /// Returns all times.
    pub fn finish(&mut self) -> KernelTimes {
        std::mem::take(&mut self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn software(ns: u64) -> Stamp {
        Stamp { software_ns: Some(ns), hardware_ns: None }
    }

    fn sent(id: u32, stamp: Stamp) -> Departure {
        Departure { id, place: Place::Device, stamp }
    }

    fn settled(departed_ns: u64, sent_ns: Option<u64>, arrived: Option<(u64, u64)>) -> KernelTimes {
        let mut trips = Trips::by(Timestamps::Software);
        let arrived = arrived
            .map(|(heard_ns, received_ns)| Arrival { heard_ns, received_ns: Some(received_ns) });
        trips.trip = Trip { departed_ns, queued_ns: None, sent_ns, arrived };
        trips.finish()
    }

    #[test]
    fn the_time_between_the_stamps_is_the_kernels_and_the_rest_the_applications() {
        let times = settled(100, Some(7_000), Some((130, 7_020)));
        assert_eq!((times.rtt_ns.max(), times.application_ns.max()), (Some(20), Some(10)));
        assert_eq!((times.rtt_ns.len(), times.unstamped), (1, 0));
    }

    #[test]
    fn the_applications_time_has_three_parts() {
        let mut trips = Trips::by(Timestamps::Software);
        let now_ns = trips.realtime.to_realtime_ns(1_000);
        let arrived = Some(Arrival { heard_ns: 1_090, received_ns: Some(now_ns + 60) });
        let (queued_ns, sent_ns) = (Some(now_ns + 20), Some(now_ns + 25));
        trips.trip = Trip { departed_ns: 1_000, queued_ns, sent_ns, arrived };
        let times = trips.finish();
        assert_eq!((times.access_ns.max(), times.packetisation_ns.max()), (Some(20), Some(5)));
        assert_eq!(times.reassembly_ns.max(), Some(30));
        assert_eq!((times.rtt_ns.max(), times.application_ns.max()), (Some(35), Some(55)));
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
        let of_both = [
            sent(3, software(30)),
            Departure { place: Place::Queue, ..sent(4, software(38)) },
            sent(4, software(40)),
            sent(4, software(45)),
        ];
        assert_eq!(trips.newest(&of_both), Some(40));
        assert_eq!(trips.queued(&of_both), Some(38));
        assert_eq!(trips.newest(&[sent(4, software(50))]), None, "it belongs to the trip before");
        assert_eq!(trips.newest(&[]), None);
    }

    #[test]
    fn a_stamp_of_the_kernel_is_none_of_the_device() {
        let mut trips = Trips::by(Timestamps::Hardware);
        let of_device = Stamp { software_ns: None, hardware_ns: Some(9) };
        let of_both = [sent(1, of_device), sent(1, software(40))];
        assert_eq!(trips.newest(&of_both), Some(9));
        assert_eq!(trips.newest(&[sent(2, software(50))]), None);
    }
}
