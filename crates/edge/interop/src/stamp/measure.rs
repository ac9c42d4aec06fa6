//! The sender: main loop and results.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use fabricmark_proto::stamp::{
    Counts, OneWay, Return, Sender, Session, Timestamp, TimestampInformation,
};
use fabricmark_telemetry::datagrams::{self, Received};
use fabricmark_units::Nanos;
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;

use super::clock::{self, Clock};
use crate::socket::{set_traffic_class, unless_lost, wait};

/// How often the loop checks whether to stop.
const LOOK: Nanos = Nanos::from_millis(100);

/// Buffer size: one octet more than the longest datagram.
const DATAGRAM_BYTES: usize = 65_536;

/// Maximum number of due packets sent before arrivals are checked again.
const BURST: usize = 64;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of the reflector.
    pub target: SocketAddr,
    /// Number, format and schedule of the packets.
    pub session: Session,
    /// DSCP of the packets; 6 bits.
    pub dscp: u8,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message explains its fields")]
pub enum MeasureError {
    /// The target's host reports that the port is closed.
    #[error("nothing answers at UDP port {} of {}: start a reflector there", .0.port(), .0.ip())]
    Closed(SocketAddr),
    /// The socket cannot be set up, or the packets cannot be sent.
    #[error("cannot send to {target}: {error}")]
    Socket { target: SocketAddr, error: io::Error },
}

/// Results of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Packets sent, answered, lost and so on.
    pub counts: Counts,
    /// One-way differences; `None` if no answer contains them.
    pub one_way: Option<OneWayDifferences>,
    /// IP headers of the packets at their arrival at the reflector. Its TTL is 255 if it cannot tell; the traffic class
    /// is known if [`Wanted::answer_dscp`](super::Wanted::answer_dscp) requests it.
    pub forward: Seen,
    /// IP headers of the answers at their arrival here.
    pub backward: Seen,
    /// How the reflector takes its timestamps, according to its last answer.
    pub timestamp_information: Option<TimestampInformation>,
}

/// Fields seen in IP headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// TTLs or hop limits.
    pub ttl: BTreeSet<u8>,
    /// Traffic class octets: DSCP (upper 6 bits) and ECN (lower 2).
    pub traffic_class: BTreeSet<u8>,
}

/// Differences between the timestamps of both ends, over all answers that contain them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneWayDifferences {
    /// Number of answers.
    pub answers: u64,
    /// Arrival at the reflector minus departure here.
    pub forward: Spread,
    /// Arrival here minus departure at the reflector.
    pub backward: Spread,
    /// Maximum error of all of them, with opposite signs in the two directions: the largest sum of both ends' error
    /// estimates.
    pub uncertainty: Nanos,
    /// Whether this end's clock was synchronised to UTC at every packet.
    pub is_sender_synchronised: bool,
    /// Whether the reflector's clock was synchronised to UTC at every packet.
    pub is_reflector_synchronised: bool,
}

/// Minimum, mean and maximum of times; negative if the clocks differ by more than the one-way delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Minimum, in nanoseconds.
    pub min_ns: i64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Maximum, in nanoseconds.
    pub max_ns: i64,
}

/// Sends the packets of a session to a reflector and collects its answers, until the last one has arrived or timed
/// out. If `stop` is set, packets without an answer count as lost. `each` gets every RTT, without the time at the
/// reflector, in nanoseconds when it is known.
///
/// # Errors
/// If the target's port is closed or its host cannot be reached, and there was no answer before, or if the kernel
/// refuses to send.
pub fn measure(
    settings: &Settings,
    stop: &AtomicBool,
    each: &mut dyn FnMut(u64),
) -> Result<Measured, MeasureError> {
    let target = settings.target;
    run(settings, stop, each).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => MeasureError::Closed(target),
        _ => MeasureError::Socket { target, error },
    })
}

fn run(settings: &Settings, stop: &AtomicBool, each: &mut dyn FnMut(u64)) -> io::Result<Measured> {
    let socket = socket(settings)?;
    let mut clock = Clock::new();
    let mut sender = Sender::new(settings.session.clone(), clock.now());
    let mut measured = Measured::default();
    let mut buffer = vec![0; DATAGRAM_BYTES];
    while let Some(deadline) = sender.deadline() {
        if stop.load(Ordering::Relaxed) {
            sender.stop();
            break;
        }
        let within = (deadline - clock.now()).min(LOOK);
        wait(&mut [PollFd::new(&socket, PollFlags::IN)], within.into())?;
        while let Some(received) =
            unless_lost(datagrams::receive(&socket, &mut buffer), measured.has_answers())?
        {
            let at = received.at.map_or_else(clock::time, Timestamp::from_unix);
            if let Ok(found) = sender.on_packet(clock.now(), &buffer[..received.bytes], at) {
                measured.note(&found, &received);
                found.rtt.into_iter().for_each(|Nanos(ns)| each(ns));
            }
        }
        sender.on_time(clock.now());
        let error = clock.error();
        for _ in 0..BURST {
            let due = sender.packet(clock.now(), clock::time(), error);
            let Some(octets) = due else { break };
            // A packet for which there is no buffer space is lost, as it would be in the network.
            unless_lost(socket.send(&octets), measured.has_answers())?;
        }
    }
    measured.counts = sender.counts();
    Ok(measured)
}

fn socket(settings: &Settings) -> io::Result<UdpSocket> {
    let any = if settings.target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    let class = u32::from(settings.dscp & 0x3f) << 2;
    set_traffic_class(&SockRef::from(&socket), settings.target.is_ipv6(), class)?;
    socket.connect(settings.target)?;
    socket.set_nonblocking(true)?;
    datagrams::tell_arrivals(&socket)?;
    Ok(socket)
}

impl Measured {
    fn has_answers(&self) -> bool {
        !self.forward.ttl.is_empty()
    }

    fn note(&mut self, found: &Return, received: &Received) {
        if let Some(one_way) = &found.one_way {
            let before = self.one_way.take();
            self.one_way = Some(OneWayDifferences::and(before, one_way));
        }
        self.forward.ttl.insert(found.ttl);
        if let Some(class) = found.extensions.class_of_service {
            self.forward.traffic_class.insert(class.dscp << 2 | class.ecn);
        }
        self.backward.ttl.extend(received.ttl);
        self.backward.traffic_class.extend(received.traffic_class);
        let information = found.extensions.timestamp_information;
        self.timestamp_information = information.or(self.timestamp_information);
    }
}

impl OneWayDifferences {
    fn and(before: Option<Self>, one_way: &OneWay) -> Self {
        let answers = before.map_or(0, |before| before.answers);
        let spread = |before: Option<Spread>, ns| Spread::and(before, answers, ns);
        Self {
            answers: answers + 1,
            forward: spread(before.map(|before| before.forward), one_way.forward_ns),
            backward: spread(before.map(|before| before.backward), one_way.backward_ns),
            uncertainty: before
                .map_or(one_way.uncertainty, |before| before.uncertainty.max(one_way.uncertainty)),
            is_sender_synchronised: one_way.is_sender_synchronised
                && before.is_none_or(|before| before.is_sender_synchronised),
            is_reflector_synchronised: one_way.is_reflector_synchronised
                && before.is_none_or(|before| before.is_reflector_synchronised),
        }
    }
}

impl Spread {
    /// Extends the spread of `count` times by one more.
    fn and(before: Option<Self>, count: u64, ns: i64) -> Self {
        let Some(Self { min_ns, mean_ns, max_ns }) = before else {
            return Self { min_ns: ns, mean_ns: ns as f64, max_ns: ns };
        };
        let mean_ns = mean_ns + (ns as f64 - mean_ns) / (count + 1) as f64;
        Self { min_ns: min_ns.min(ns), mean_ns, max_ns: max_ns.max(ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_way(forward_ns: i64, uncertainty_ns: u64, is_synchronised: bool) -> OneWay {
        OneWay {
            forward_ns,
            backward_ns: -forward_ns,
            uncertainty: Nanos(uncertainty_ns),
            is_sender_synchronised: true,
            is_reflector_synchronised: is_synchronised,
        }
    }

    #[test]
    fn differences_have_their_extremes_their_mean_and_the_largest_uncertainty() {
        let one = OneWayDifferences::and(None, &one_way(-3, 10, true));
        let two = OneWayDifferences::and(Some(one), &one_way(5, 20, false));
        let three = OneWayDifferences::and(Some(two), &one_way(1, 10, true));
        assert_eq!(three.forward, Spread { min_ns: -3, mean_ns: 1.0, max_ns: 5 });
        assert_eq!(three.backward, Spread { min_ns: -5, mean_ns: -1.0, max_ns: 3 });
        assert_eq!((three.answers, three.uncertainty), (3, Nanos(20)));
        assert!(three.is_sender_synchronised && !three.is_reflector_synchronised);
    }
}
