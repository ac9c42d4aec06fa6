//! Packets of sender and reflector, unauthenticated and authenticated (RFC 8762, sections 4.2 and 4.3; session
//! identifier: RFC 8972, section 3).
//!
//! A sender's packet has the fields up to the session identifier, a reflector's has all. The last 16 octets of an
//! authenticated packet are its HMAC. The rest is 0. Integers are in network byte order.

use super::key::{CODE_BYTES, Key};
use super::time::{ErrorEstimate, Timestamp};

/// Octets of an unauthenticated packet without extensions.
pub const PACKET_BYTES: usize = 44;

/// Octets of an authenticated packet without extensions.
pub const AUTHENTICATED_BYTES: usize = 112;

/// Why octets are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Too short; with the number of octets.
    #[error("{0} octets are too short for a STAMP packet")]
    Short(usize),
    /// The HMAC is wrong.
    #[error("the HMAC of the packet is wrong")]
    Forged,
}

/// Packet of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderPacket {
    /// Sequence number in the session, from 0.
    pub sequence: u32,
    /// Departure time, in the format that `error` states.
    pub sent: Timestamp,
    /// The bits of an [`ErrorEstimate`].
    pub error: u16,
    /// Session identifier; 0: none.
    pub session: u16,
}

/// Reply of a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReflectorPacket {
    /// Sequence number of the reply: a stateful reflector's own, or that of the sender's packet.
    pub sequence: u32,
    /// Departure time of the reply.
    pub sent: Timestamp,
    /// The bits of an [`ErrorEstimate`] for both timestamps of the reflector.
    pub error: u16,
    /// Session identifier of the sender's packet; 0 from reflectors that do not support it.
    pub session: u16,
    /// Arrival time of the sender's packet.
    pub received: Timestamp,
    /// Sequence number, departure time and error estimate of the sender's packet.
    pub sender: SenderPacket,
    /// TTL or hop limit of the sender's packet on arrival; 255: unknown.
    pub sender_ttl: u8,
}

/// Offset of a field: unauthenticated, and authenticated.
type Place = [usize; 2];

const SEQUENCE: Place = [0, 0];
const SENT: Place = [4, 16];
const ERROR: Place = [12, 24];
const SESSION: Place = [14, 26];
const RECEIVED: Place = [16, 32];
const SENDER_SEQUENCE: Place = [24, 48];
const SENDER_SENT: Place = [28, 64];
const SENDER_ERROR: Place = [36, 72];
const SENDER_TTL: Place = [40, 80];
const EXTENSIONS: Place = [PACKET_BYTES, AUTHENTICATED_BYTES];

/// Octets of a packet without extensions.
pub(super) fn base_bytes(key: Option<&Key>) -> usize {
    EXTENSIONS[usize::from(key.is_some())]
}

impl SenderPacket {
    /// Octets of the shortest packet: TWAMP Light without padding (RFC 5357, section 4.1.2).
    pub const LEAST_BYTES: usize = 14;

    /// Serializes the packet, without extensions.
    pub fn emit(&self, key: Option<&Key>) -> Vec<u8> {
        let mut octets = Octets::new(key);
        self.put(&mut octets);
        octets.signed(key)
    }

    /// Parses a packet with or without extensions. An unauthenticated one may be as short as [`Self::LEAST_BYTES`];
    /// missing octets read as 0 (RFC 8762, section 4.6).
    pub fn parse(octets: &[u8], key: Option<&Key>) -> Result<Self, PacketError> {
        Octets::checked(octets, key, Self::LEAST_BYTES).map(|octets| Self::of(&octets))
    }

    fn of(octets: &Octets) -> Self {
        Self {
            sequence: u32::from_be_bytes(octets.get(SEQUENCE)),
            sent: Timestamp(u64::from_be_bytes(octets.get(SENT))),
            error: u16::from_be_bytes(octets.get(ERROR)),
            session: u16::from_be_bytes(octets.get(SESSION)),
        }
    }

    fn put(&self, octets: &mut Octets) {
        octets.put(SEQUENCE, self.sequence.to_be_bytes());
        octets.put(SENT, self.sent.0.to_be_bytes());
        octets.put(ERROR, self.error.to_be_bytes());
        octets.put(SESSION, self.session.to_be_bytes());
    }
}

impl ReflectorPacket {
    /// Octets of the shortest reply: that of TWAMP Light (RFC 5357, section 4.2.1).
    pub const LEAST_BYTES: usize = 41;

    /// Serializes the reply, without extensions.
    pub fn emit(&self, key: Option<&Key>) -> Vec<u8> {
        let Self { sequence, sent, error, session, .. } = *self;
        let mut octets = Octets::new(key);
        SenderPacket { sequence, sent, error, session }.put(&mut octets);
        octets.put(RECEIVED, self.received.0.to_be_bytes());
        octets.put(SENDER_SEQUENCE, self.sender.sequence.to_be_bytes());
        octets.put(SENDER_SENT, self.sender.sent.0.to_be_bytes());
        octets.put(SENDER_ERROR, self.sender.error.to_be_bytes());
        octets.put(SENDER_TTL, [self.sender_ttl]);
        octets.signed(key)
    }

    /// Parses a reply with or without extensions.
    pub fn parse(octets: &[u8], key: Option<&Key>) -> Result<Self, PacketError> {
        let octets = Octets::checked(octets, key, Self::LEAST_BYTES)?;
        let SenderPacket { sequence, sent, error, session } = SenderPacket::of(&octets);
        let [sender_ttl] = octets.get(SENDER_TTL);
        let sender = SenderPacket {
            sequence: u32::from_be_bytes(octets.get(SENDER_SEQUENCE)),
            sent: Timestamp(u64::from_be_bytes(octets.get(SENDER_SENT))),
            error: u16::from_be_bytes(octets.get(SENDER_ERROR)),
            session,
        };
        let received = Timestamp(u64::from_be_bytes(octets.get(RECEIVED)));
        Ok(Self { sequence, sent, error, session, received, sender, sender_ttl })
    }

    /// Nanoseconds from arrival to departure at the reflector; negative if its clock was set back.
    pub fn turnaround_ns(&self) -> i64 {
        if ErrorEstimate::is_ptp_in(self.error) {
            self.sent.ptp_since_ns(self.received)
        } else {
            self.sent.since_ns(self.received)
        }
    }
}

/// Fixed part of a packet, with room for the authenticated format.
struct Octets {
    whole: [u8; AUTHENTICATED_BYTES],
    /// Index into a [`Place`].
    form: usize,
}

impl Octets {
    fn new(key: Option<&Key>) -> Self {
        Self { whole: [0; AUTHENTICATED_BYTES], form: usize::from(key.is_some()) }
    }

    /// From a packet of at least `least` octets; with a key, the packet must be complete and its HMAC correct.
    fn checked(octets: &[u8], key: Option<&Key>, least: usize) -> Result<Self, PacketError> {
        let least = if key.is_some() { AUTHENTICATED_BYTES } else { least };
        if octets.len() < least {
            return Err(PacketError::Short(octets.len()));
        }
        let mut fixed = Self::new(key);
        let held = base_bytes(key).min(octets.len());
        fixed.whole[..held].copy_from_slice(&octets[..held]);
        let (text, code) = fixed.whole.split_at(AUTHENTICATED_BYTES - CODE_BYTES);
        match key {
            Some(key) if !key.is_code(&[text], code) => Err(PacketError::Forged),
            _ => Ok(fixed),
        }
    }

    /// The packet, with its HMAC if there is a key.
    fn signed(mut self, key: Option<&Key>) -> Vec<u8> {
        if let Some(key) = key {
            let (text, code) = self.whole.split_at_mut(AUTHENTICATED_BYTES - CODE_BYTES);
            code.copy_from_slice(&key.code(&[text]));
        }
        self.whole[..base_bytes(key)].to_vec()
    }

    fn get<const N: usize>(&self, place: Place) -> [u8; N] {
        std::array::from_fn(|octet| self.whole[place[self.form] + octet])
    }

    fn put<const N: usize>(&mut self, place: Place, field: [u8; N]) {
        let at = place[self.form];
        self.whole[at..at + N].copy_from_slice(&field);
    }
}
