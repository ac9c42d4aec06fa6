//! The packets of both ends, without authentication and with it (RFC 8762, sections 4.2 and 4.3; the
//! session identifier of RFC 8972, section 3).
//!
//! | octets | sender | reflector | authenticated sender | authenticated reflector |
//! |---|---|---|---|---|
//! | sequence number | 0 to 3 | 0 to 3 | 0 to 3 | 0 to 3 |
//! | departure | 4 to 11 | 4 to 11 | 16 to 23 | 16 to 23 |
//! | its error estimate | 12, 13 | 12, 13 | 24, 25 | 24, 25 |
//! | session identifier | 14, 15 | 14, 15 | 26, 27 | 26, 27 |
//! | arrival | | 16 to 23 | | 32 to 39 |
//! | the sender's sequence number | | 24 to 27 | | 48 to 51 |
//! | the sender's departure | | 28 to 35 | | 64 to 71 |
//! | its error estimate | | 36, 37 | | 72, 73 |
//! | the sender's TTL on arrival | | 40 | | 80 |
//! | authentication code | | | 96 to 111 | 96 to 111 |
//!
//! The rest is 0. Integers are in network order.

use super::key::{CODE_BYTES, Key};
use super::time::{ErrorEstimate, Timestamp};

/// Octets of a packet without authentication and extensions.
pub const PACKET_BYTES: usize = 44;

/// Octets of a packet with authentication and without extensions.
pub const AUTHENTICATED_BYTES: usize = 112;

/// Why octets are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// There are too few of them.
    #[error("{0} octets are no packet")]
    Short(usize),
    /// They were not sent by whoever has the key.
    #[error("the authentication of the packet is wrong")]
    Forged,
}

/// What a sender sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderPacket {
    /// Number of the packet in its session, from 0.
    pub sequence: u32,
    /// When it departed, in the form that `error` says.
    pub sent: Timestamp,
    /// The bits of an [`ErrorEstimate`].
    pub error: u16,
    /// Session identifier; 0 where the sender has none.
    pub session: u16,
}

/// What a reflector sends back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReflectorPacket {
    /// Number of the answer: of a reflector with state its own, of one without that of the sender.
    pub sequence: u32,
    /// When the answer departed.
    pub sent: Timestamp,
    /// The bits of an [`ErrorEstimate`] of both its times.
    pub error: u16,
    /// Session identifier of the packet that it answers; 0 from reflectors that do not know it.
    pub session: u16,
    /// When that packet arrived.
    pub received: Timestamp,
    /// Number, departure and error estimate of that packet.
    pub sender: SenderPacket,
    /// Its TTL or hop limit on arrival; 255 where the reflector could not tell.
    pub sender_ttl: u8,
}

/// Where a packet has its fields.
struct Layout {
    /// All of it.
    bytes: usize,
    sent: usize,
    error: usize,
    session: usize,
    received: usize,
    sender_sequence: usize,
    sender_sent: usize,
    sender_error: usize,
    sender_ttl: usize,
}

const PLAIN: Layout = Layout {
    bytes: PACKET_BYTES,
    sent: 4,
    error: 12,
    session: 14,
    received: 16,
    sender_sequence: 24,
    sender_sent: 28,
    sender_error: 36,
    sender_ttl: 40,
};

const AUTHENTICATED: Layout = Layout {
    bytes: AUTHENTICATED_BYTES,
    sent: 16,
    error: 24,
    session: 26,
    received: 32,
    sender_sequence: 48,
    sender_sent: 64,
    sender_error: 72,
    sender_ttl: 80,
};

impl Layout {
    fn of(key: Option<&Key>) -> &'static Self {
        if key.is_some() { &AUTHENTICATED } else { &PLAIN }
    }
}

/// Octets of a packet before its extensions.
pub(super) fn base_bytes(key: Option<&Key>) -> usize {
    Layout::of(key).bytes
}

impl SenderPacket {
    /// Octets of the shortest packet: that of TWAMP-Light without padding (RFC 5357, section 4.1.2).
    pub const LEAST_BYTES: usize = 14;

    /// The octets, without extensions.
    pub fn emit(&self, key: Option<&Key>) -> Vec<u8> {
        signed(key, |octets, layout| self.put(octets, layout))
    }

    /// Reads a packet with or without extensions. Without authentication it may be short, down to
    /// [`Self::LEAST_BYTES`], and what is missing is 0 (RFC 8762, section 4.6).
    pub fn parse(octets: &[u8], key: Option<&Key>) -> Result<Self, PacketError> {
        let octets = checked(octets, key, Self::LEAST_BYTES)?;
        let layout = Layout::of(key);
        Ok(Self {
            sequence: u32_at(&octets, 0),
            sent: Timestamp(u64_at(&octets, layout.sent)),
            error: u16_at(&octets, layout.error),
            session: u16_at(&octets, layout.session),
        })
    }

    fn put(&self, octets: &mut [u8], layout: &Layout) {
        put(octets, 0, &self.sequence.to_be_bytes());
        put(octets, layout.sent, &self.sent.0.to_be_bytes());
        put(octets, layout.error, &self.error.to_be_bytes());
        put(octets, layout.session, &self.session.to_be_bytes());
    }
}

impl ReflectorPacket {
    /// Octets of the shortest answer: that of TWAMP-Light (RFC 5357, section 4.2.1).
    pub const LEAST_BYTES: usize = 41;

    /// The octets, without extensions.
    pub fn emit(&self, key: Option<&Key>) -> Vec<u8> {
        signed(key, |octets, layout| {
            let Self { sequence, sent, error, session, .. } = *self;
            SenderPacket { sequence, sent, error, session }.put(octets, layout);
            put(octets, layout.received, &self.received.0.to_be_bytes());
            put(octets, layout.sender_sequence, &self.sender.sequence.to_be_bytes());
            put(octets, layout.sender_sent, &self.sender.sent.0.to_be_bytes());
            put(octets, layout.sender_error, &self.sender.error.to_be_bytes());
            octets[layout.sender_ttl] = self.sender_ttl;
        })
    }

    /// Reads an answer with or without extensions.
    pub fn parse(octets: &[u8], key: Option<&Key>) -> Result<Self, PacketError> {
        let octets = checked(octets, key, Self::LEAST_BYTES)?;
        let layout = Layout::of(key);
        let session = u16_at(&octets, layout.session);
        Ok(Self {
            sequence: u32_at(&octets, 0),
            sent: Timestamp(u64_at(&octets, layout.sent)),
            error: u16_at(&octets, layout.error),
            session,
            received: Timestamp(u64_at(&octets, layout.received)),
            sender: SenderPacket {
                sequence: u32_at(&octets, layout.sender_sequence),
                sent: Timestamp(u64_at(&octets, layout.sender_sent)),
                error: u16_at(&octets, layout.sender_error),
                session,
            },
            sender_ttl: octets[layout.sender_ttl],
        })
    }

    /// Nanoseconds from arrival to departure at the reflector; negative where its clock was set back.
    pub fn turnaround_ns(&self) -> i64 {
        if ErrorEstimate::is_ptp_in(self.error) {
            self.sent.ptp_since_ns(self.received)
        } else {
            self.sent.since_ns(self.received)
        }
    }
}

/// A packet as `fill` writes it, with its code where there is a key.
fn signed(key: Option<&Key>, fill: impl FnOnce(&mut [u8], &Layout)) -> Vec<u8> {
    let layout = Layout::of(key);
    let mut octets = vec![0; layout.bytes];
    fill(&mut octets, layout);
    if let Some(key) = key {
        let (text, code) = octets.split_at_mut(AUTHENTICATED_BYTES - CODE_BYTES);
        code.copy_from_slice(&key.code(&[text]));
    }
    octets
}

/// The fixed part of a packet of at least `least` octets; with a key it is whole and of whoever has it.
fn checked(
    octets: &[u8],
    key: Option<&Key>,
    least: usize,
) -> Result<[u8; AUTHENTICATED_BYTES], PacketError> {
    let least = if key.is_some() { AUTHENTICATED_BYTES } else { least };
    if octets.len() < least {
        return Err(PacketError::Short(octets.len()));
    }
    let mut whole = [0; AUTHENTICATED_BYTES];
    let fixed = Layout::of(key).bytes.min(octets.len());
    whole[..fixed].copy_from_slice(&octets[..fixed]);
    let (text, code) = whole.split_at(AUTHENTICATED_BYTES - CODE_BYTES);
    match key {
        Some(key) if !key.is_code(&[text], code) => Err(PacketError::Forged),
        _ => Ok(whole),
    }
}

fn put(octets: &mut [u8], at: usize, field: &[u8]) {
    octets[at..at + field.len()].copy_from_slice(field);
}

fn field<const N: usize>(octets: &[u8; AUTHENTICATED_BYTES], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&octets[at..at + N]);
    field
}

fn u16_at(octets: &[u8; AUTHENTICATED_BYTES], at: usize) -> u16 {
    u16::from_be_bytes(field(octets, at))
}

fn u32_at(octets: &[u8; AUTHENTICATED_BYTES], at: usize) -> u32 {
    u32::from_be_bytes(field(octets, at))
}

fn u64_at(octets: &[u8; AUTHENTICATED_BYTES], at: usize) -> u64 {
    u64::from_be_bytes(field(octets, at))
}
