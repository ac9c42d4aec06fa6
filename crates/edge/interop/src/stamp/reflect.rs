//! The reflector's main loop.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabricmark_proto::stamp::{Arrival, Dropped, PacketError, Reflector, Timestamp};
use fabricmark_telemetry::datagrams;
use fabricmark_units::{BitRate, Instant};

use super::clock::{self, Clock};
use crate::Guard;
use crate::socket::is_passing;

/// How often the loop checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Maximum rate of answers to one client, in payload bits per second, even if the guard allows more: a quarter of a
/// million packets without extensions a second. A higher rate is a load test, not an RTT measurement.
const RATE_MAX: BitRate = BitRate(100_000_000);

/// Buffer size: one octet more than the longest datagram.
const DATAGRAM_BYTES: usize = 65_536;

/// Packets that arrived, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Answered.
    pub answered: u64,
    /// Not answered: address or port not admitted.
    pub strangers: u64,
    /// Not answered: authentication failed.
    pub forged: u64,
    /// Not answered: too short for a packet, or for an authenticated one.
    pub short: u64,
    /// Not answered: above the rate limit of the client, or above the number of clients or sessions.
    pub over_limit: u64,
    /// Answers that the kernel refused to send.
    pub not_sent: u64,
}

/// Answers packets of STAMP and TWAMP-Light until `stop` is set, and for up to a tenth of a second more.
///
/// Each answer goes to the source of its packet, from the packet's destination address, and is never longer than the
/// packet, except that the shortest answer has 44 octets. The reflector does not answer packets
///
/// - from addresses that the guard does not admit;
/// - from ports below 1024 and from its own port number, where other services and other reflectors may answer the
///   answer, in an endless loop;
/// - above the guard's rate for one client, or 100 Mbit/s if that is lower, and of clients above its number of
///   clients. The guard's maximum duration does not apply: an idle session costs nothing.
///
/// # Errors
/// If the socket cannot be set up or read. An answer that cannot be sent is only counted.
pub fn reflect(
    socket: &UdpSocket,
    guard: &Guard,
    mut reflector: Reflector,
    stop: &AtomicBool,
) -> io::Result<Served> {
    let own_port = socket.local_addr()?.port();
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(LOOK))?;
    datagrams::tell_arrivals(socket)?;
    let rate = BitRate(guard.rate_max.0.min(RATE_MAX.0));
    let mut allowance = Allowance::new(rate, guard.clients_max);
    let mut clock = Clock::new();
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut served = Served::default();
    while !stop.load(Ordering::Relaxed) {
        let received = match datagrams::receive(socket, &mut buffer) {
            Ok(received) => received,
            Err(error) if is_passing(&error) => continue,
            // A host refused an answer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        let now = clock.now();
        let client = received.source.ip().to_canonical();
        if !is_served(guard, received.source, own_port) {
            served.strangers += 1;
            continue;
        }
        let octets = &buffer[..received.bytes];
        let arrival = Arrival {
            source: received.source,
            received: received.at.map_or_else(clock::time, Timestamp::from_unix),
            now,
            ttl: received.ttl,
            traffic_class: received.traffic_class.unwrap_or_default(),
        };
        let error = clock.error();
        let allows = |octets| allowance.take(client, octets, now);
        let answer = match reflector.answer(octets, &arrival, clock::time(), error, allows) {
            Ok(answer) => answer,
            Err(dropped) => {
                served.count(dropped);
                continue;
            }
        };
        let from = received.destination;
        match datagrams::send(socket, answer.octets, received.source, from, Some(answer.dscp << 2))
        {
            Ok(()) => served.answered += 1,
            Err(_) => served.not_sent += 1,
        }
    }
    Ok(served)
}

impl Served {
    fn count(&mut self, dropped: Dropped) {
        match dropped {
            Dropped::Packet(PacketError::Forged) => self.forged += 1,
            Dropped::Packet(PacketError::Short(_)) => self.short += 1,
            Dropped::Crowded | Dropped::OverLimit => self.over_limit += 1,
        }
    }
}

/// Whether packets from a source are answered at all.
fn is_served(guard: &Guard, source: SocketAddr, own_port: u16) -> bool {
    /// Lower ports are those of services (RFC 6335, section 6).
    const FIRST_USER_PORT: u16 = 1024;
    let port = source.port();
    guard.admits(source.ip()) && port >= FIRST_USER_PORT && port != own_port
}

/// Size of a full token bucket in octets: the longest datagram, so that any length can be answered, plus a burst of
/// a hundred packets without extensions.
const FULL_BYTES: u64 = 65_536 + 100 * 44;

#[derive(Debug)]
struct Bucket {
    bytes: u64,
    /// Time at which the bucket had that many bytes.
    at: Instant,
}

/// Token buckets of the clients, at most `clients_max`. A client whose bucket is full again is forgotten when room is
/// needed, which loses no information.
#[derive(Debug)]
struct Allowance {
    rate: BitRate,
    clients_max: usize,
    buckets: HashMap<IpAddr, Bucket>,
}

impl Allowance {
    fn new(rate: BitRate, clients_max: usize) -> Self {
        Self { rate, clients_max, buckets: HashMap::new() }
    }

    /// Takes octets from a client's bucket; returns false if there are too few.
    fn take(&mut self, client: IpAddr, bytes: usize, now: Instant) -> bool {
        let rate = self.rate;
        if !self.buckets.contains_key(&client) && self.buckets.len() >= self.clients_max {
            self.buckets.retain(|_, bucket| bucket.filled(rate, now) < FULL_BYTES);
            if self.buckets.len() >= self.clients_max {
                return false;
            }
        }
        let bucket = self.buckets.entry(client).or_insert(Bucket { bytes: FULL_BYTES, at: now });
        let Some(rest) = bucket.filled(rate, now).checked_sub(bytes as u64) else { return false };
        *bucket = Bucket { bytes: rest, at: now };
        true
    }
}

impl Bucket {
    fn filled(&self, BitRate(rate): BitRate, now: Instant) -> u64 {
        let ns = (now - self.at).0;
        let more = u128::from(rate) * u128::from(ns) / 8_000_000_000;
        let filled = u128::from(self.bytes).saturating_add(more);
        u64::try_from(filled).unwrap_or(u64::MAX).min(FULL_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_units::Nanos;

    use super::*;

    #[test]
    fn strangers_services_and_other_reflectors_are_not_served() {
        let guard = Guard { allowed: vec!["192.0.2.0/24".parse().unwrap()], ..Guard::default() };
        for (source, expected) in [
            ("127.0.0.1:5000", true),
            ("[::1]:5000", true),
            ("192.0.2.7:5000", true),
            ("[::ffff:192.0.2.7]:5000", true),
            ("192.0.3.7:5000", false),
            ("[2001:db8::1]:5000", false),
            ("127.0.0.1:7", false),
            ("127.0.0.1:1023", false),
            ("127.0.0.1:1024", true),
            ("127.0.0.1:8620", false),
        ] {
            assert_eq!(is_served(&guard, source.parse().unwrap(), 8620), expected, "{source}");
        }
    }

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn at(ms: u64) -> Instant {
        Instant(0) + Nanos::from_millis(ms)
    }

    #[test]
    fn a_client_gets_a_full_bucket_and_then_its_rate() {
        let mut allowance = Allowance::new(BitRate(8_000_000), 2);
        assert!(allowance.take(client(1), FULL_BYTES as usize, at(0)));
        assert!(!allowance.take(client(1), 1, at(0)));
        assert!(allowance.take(client(2), 1, at(0)), "each client has its own");
        assert!(allowance.take(client(1), 1_000, at(1)));
        assert!(!allowance.take(client(1), 1, at(1)));
        assert!(!allowance.take(client(1), FULL_BYTES as usize + 1, at(1_000_000)));
    }

    #[test]
    fn often_refused_time_is_not_lost_to_rounding() {
        let mut allowance = Allowance::new(BitRate(8), 1);
        assert!(allowance.take(client(1), FULL_BYTES as usize, at(0)));
        assert!((1..1_000).all(|ms| !allowance.take(client(1), 1, at(ms))));
        assert!(allowance.take(client(1), 1, at(1_000)));
    }

    #[test]
    fn a_client_beyond_those_allowed_waits_until_a_bucket_is_full_again() {
        let mut allowance = Allowance::new(BitRate(8_000_000), 1);
        assert!(allowance.take(client(1), 1_000, at(0)));
        assert!(!allowance.take(client(2), 1, at(0)));
        assert!(allowance.take(client(2), 1, at(1)));
    }
}
