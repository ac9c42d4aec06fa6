//! The round-trip protocol of paper P5 (section III): both ends send each other APDUs with their own clock readings.
//!
//! ```text
//!  0      1              9     11                19    21         25
//!  | type | sent (ticks) | SSN | received (ticks) | RSN | MHz      | padding up to 1024 |
//! ```
//!
//! All fields are integers in network byte order, which the paper leaves open. Bit 7 of the type marks a multicast,
//! which ends after the SSN. *received* and *RSN* are the arrival, by the sender's clock, and the number of the last
//! APDU from the other end. Zeros mean that none has arrived.
//!
//! - [`Apdu`]: one message.
//! - [`Peer`]: the two memory tables of a host for one other host, and equation 1.
//!
//! The paper sends cycle counts and their frequency in whole MHz. Ours are nanoseconds with a frequency of 1000 MHz: the
//! equation is the same, and the frequency is not rounded. Received frequencies are used as they are.

use std::collections::VecDeque;

/// Length of an APDU without padding.
pub const APDU_BYTES: usize = 25;

/// Length of an APDU with padding.
pub const APDU_PADDED_BYTES: usize = 1024;

/// Length of a multicast APDU.
pub const APDU_MULTICAST_BYTES: usize = 11;

/// Frequency of a clock that counts nanoseconds.
const NANOSECONDS_MHZ: u32 = 1000;

/// Entries of each memory table: numbers of 16 bits are unambiguous within half their range (RFC 1982).
const TABLE_MAX: usize = 1 << 15;

const MULTICAST: u8 = 0x80;

/// The fields that a unicast APDU has in addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Arrival of the last APDU from the other end, in ticks of this clock; 0: none.
    pub received: u64,
    /// Number of that APDU.
    pub rsn: u16,
    /// Frequency of this clock.
    pub mhz: u32,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apdu {
    /// The low seven bits of the type, "similar to the stratum of NTP": 0 in ours.
    pub stratum: u8,
    /// Departure in ticks of the sender's clock.
    pub sent: u64,
    /// Number of the message.
    pub ssn: u16,
    /// `None`: a multicast.
    pub echo: Option<Echo>,
}

/// The bytes are no APDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApdu {
    /// Only 11 (multicast), 25 and 1024 bytes are legal.
    #[error("an APDU has 25 or 1024 bytes, or 11 as a multicast, and not {0}")]
    Length(usize),
    /// 11 bytes without the multicast bit, or more with it.
    #[error("{0} bytes contradict the multicast bit")]
    Type(usize),
}

impl Apdu {
    /// Serializes the message, padded with zeros to 1024 bytes if asked to; a multicast has no padding.
    pub fn emit(&self, is_padded: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(if is_padded { APDU_PADDED_BYTES } else { APDU_BYTES });
        bytes.push(self.stratum & !MULTICAST | if self.echo.is_none() { MULTICAST } else { 0 });
        bytes.extend(self.sent.to_be_bytes());
        bytes.extend(self.ssn.to_be_bytes());
        if let Some(Echo { received, rsn, mhz }) = self.echo {
            bytes.extend(received.to_be_bytes());
            bytes.extend(rsn.to_be_bytes());
            bytes.extend(mhz.to_be_bytes());
            if is_padded {
                bytes.resize(APDU_PADDED_BYTES, 0);
            }
        }
        bytes
    }

    /// Parses a whole message. The content of the padding is ignored.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotApdu> {
        let length = bytes.len();
        if ![APDU_MULTICAST_BYTES, APDU_BYTES, APDU_PADDED_BYTES].contains(&length) {
            return Err(NotApdu::Length(length));
        }
        let is_multicast = bytes[0] & MULTICAST != 0;
        if is_multicast != (length == APDU_MULTICAST_BYTES) {
            return Err(NotApdu::Type(length));
        }
        let number = |at: usize, count: usize| {
            bytes[at..at + count].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let echo = (!is_multicast).then(|| Echo {
            received: number(11, 8),
            rsn: number(19, 2) as u16,
            mhz: number(21, 4) as u32,
        });
        let (sent, ssn) = (number(1, 8), number(9, 2) as u16);
        Ok(Self { stratum: bytes[0] & !MULTICAST, sent, ssn, echo })
    }
}

/// Counts of the conversation with one other host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApduCounts {
    /// Messages sent.
    pub sent: u64,
    /// Messages received, without duplicates.
    pub received: u64,
    /// Sent messages that the other end has named as its last one: each gives an RTT.
    pub answered: u64,
    /// Messages received twice.
    pub duplicates: u64,
    /// Messages received after one with a higher number.
    pub reordered: u64,
    /// Messages whose RTT would be negative, or whose frequency is 0.
    pub implausible: u64,
    /// Messages that name a message which was not sent, or too long ago.
    pub unknown: u64,
}

/// A message of ours in the first table.
#[derive(Clone, Copy, Debug)]
struct SentRow {
    departed_ns: u64,
    is_answered: bool,
}

/// The last message of the other end, which the next one of ours names.
#[derive(Clone, Copy, Debug)]
struct Last {
    number: u64,
    arrived_ns: u64,
}

/// The conversation with one other host: what was sent to it and received from it. Times are nanoseconds of one clock
/// of this host that never goes back.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The first table: messages sent, from number `first_sent` on.
    sent: VecDeque<SentRow>,
    first_sent: u64,
    /// The second table: number + 1 of each message received, at its number modulo the size; 0: none.
    received: Vec<u64>,
    highest: Option<u64>,
    last: Option<Last>,
    counts: ApduCounts,
}

impl Peer {
    /// A conversation in which nothing was sent or received.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts so far.
    pub fn counts(&self) -> ApduCounts {
        self.counts
    }

    /// The next message to the other end, which departs at `now_ns`.
    pub fn send(&mut self, now_ns: u64) -> Apdu {
        let ssn = self.note_departure(now_ns);
        let last = self.last;
        let echo = Echo {
            received: last.map_or(0, |last| last.arrived_ns),
            rsn: last.map_or(0, |last| last.number as u16),
            mhz: NANOSECONDS_MHZ,
        };
        Apdu { stratum: 0, sent: now_ns, ssn, echo: Some(echo) }
    }

    /// As [`Self::send`], for a message to a multicast group, which is part of the conversation with every member. A
    /// member that answers for the first time gets a clone of a conversation in which nothing was received.
    pub fn send_multicast(&mut self, now_ns: u64) -> Apdu {
        let ssn = self.note_departure(now_ns);
        Apdu { stratum: 0, sent: now_ns, ssn, echo: None }
    }

    fn note_departure(&mut self, departed_ns: u64) -> u16 {
        if self.sent.len() == TABLE_MAX {
            self.sent.pop_front();
            self.first_sent += 1;
        }
        let number = self.first_sent + self.sent.len() as u64;
        self.sent.push_back(SentRow { departed_ns, is_answered: false });
        self.counts.sent += 1;
        number as u16
    }

    /// Takes a message that arrived at `now_ns`. Returns the RTT in nanoseconds by equation 1 if the message is the first
    /// that names one of ours.
    pub fn on_apdu(&mut self, apdu: &Apdu, now_ns: u64) -> Option<f64> {
        let number = near(self.highest.unwrap_or(0), apdu.ssn);
        self.received.resize(TABLE_MAX, 0);
        if std::mem::replace(&mut self.received[number as usize % TABLE_MAX], number + 1) > number {
            self.counts.duplicates += 1;
            return None;
        }
        self.counts.received += 1;
        if self.highest.is_some_and(|highest| number < highest) {
            self.counts.reordered += 1;
        } else {
            self.highest = Some(number);
        }
        // The last one to arrive, as the paper has it, even if it was overtaken.
        self.last = Some(Last { number, arrived_ns: now_ns });
        let echo = apdu.echo.filter(|echo| echo.received != 0)?;
        self.rtt_ns(apdu.sent, &echo, now_ns)
    }

    /// Equation 1: RTT = (t21_f − t12_i) / f_1 − (t21_i − t12_f) / f_2.
    fn rtt_ns(&mut self, sent: u64, echo: &Echo, now_ns: u64) -> Option<f64> {
        let next = self.first_sent + self.sent.len() as u64;
        let number = near(next, echo.rsn);
        let place = number.checked_sub(self.first_sent).filter(|_| number < next);
        let row = place.and_then(|place| self.sent.get_mut(place as usize));
        let Some(row) = row else {
            self.counts.unknown += 1;
            return None;
        };
        // The other end names its last message in each of its own until another arrives.
        if std::mem::replace(&mut row.is_answered, true) {
            return None;
        }
        let whole_ns = now_ns.checked_sub(row.departed_ns);
        let held_ticks = sent.checked_sub(echo.received).filter(|_| echo.mhz > 0);
        let rtt_ns = whole_ns.zip(held_ticks).map(|(whole_ns, ticks)| {
            whole_ns as f64 - ticks as f64 * f64::from(NANOSECONDS_MHZ) / f64::from(echo.mhz)
        });
        match rtt_ns.filter(|&ns| ns >= 0.0) {
            Some(ns) => {
                self.counts.answered += 1;
                Some(ns)
            }
            None => {
                self.counts.implausible += 1;
                None
            }
        }
    }
}

/// The number nearest to `about` whose low 16 bits are `low`.
fn near(about: u64, low: u16) -> u64 {
    let ahead = low.wrapping_sub(about as u16) as i16;
    about.checked_add_signed(i64::from(ahead)).unwrap_or_else(|| u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apdu() -> Apdu {
        let echo = Echo { received: 0x1112_1314_1516_1718, rsn: 0x2122, mhz: 400 };
        Apdu { stratum: 0, sent: 0x0102_0304_0506_0708, ssn: 0x090a, echo: Some(echo) }
    }

    #[test]
    fn a_unicast_apdu_has_the_25_bytes_of_figure_3_in_network_order() {
        let expected = [
            0x00, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
            0x21, 0x22, 0, 0, 0x01, 0x90,
        ];
        assert_eq!(apdu().emit(false), expected);
        assert_eq!(Apdu::parse(&expected), Ok(apdu()));
    }

    #[test]
    fn padding_adds_999_zeros() {
        let bytes = apdu().emit(true);
        assert_eq!(bytes.len(), 1024);
        assert_eq!(bytes[..25], apdu().emit(false));
        assert_eq!(bytes[25..], [0; 999]);
        assert_eq!(Apdu::parse(&bytes), Ok(apdu()));
    }

    #[test]
    fn a_multicast_has_only_the_first_three_fields_and_bit_7_set() {
        let multicast = Apdu { echo: None, ..apdu() };
        let expected = [0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        assert_eq!(multicast.emit(true), expected);
        assert_eq!(Apdu::parse(&expected), Ok(multicast));
    }

    #[test]
    fn other_lengths_and_a_bit_that_contradicts_the_length_are_refused() {
        let bytes = apdu().emit(true);
        for length in (0..=bytes.len()).filter(|length| ![11, 25, 1024].contains(length)) {
            assert_eq!(Apdu::parse(&bytes[..length]), Err(NotApdu::Length(length)));
        }
        assert_eq!(Apdu::parse(&bytes[..11]), Err(NotApdu::Type(11)));
        let mut multicast = apdu().emit(false);
        multicast[0] = 0x80;
        assert_eq!(Apdu::parse(&multicast), Err(NotApdu::Type(25)));
    }

    /// The other end as the paper's: its own frequency, and stamps of its cycle counter.
    fn answer(to: &Apdu, ssn: u16, received: u64, sent: u64, mhz: u32) -> Apdu {
        Apdu { stratum: 0, sent, ssn, echo: Some(Echo { received, rsn: to.ssn, mhz }) }
    }

    #[test]
    fn equation_1_takes_the_time_at_the_other_end_away_by_its_own_clock() {
        let mut peer = Peer::new();
        let sent = peer.send(1_000_000);
        // 40,000 ticks of 400 MHz are 100 µs of 537 µs.
        let rtt = peer.on_apdu(&answer(&sent, 7, 9_000_000, 9_040_000, 400), 1_537_000);
        assert_eq!(rtt, Some(437_000.0));
        assert_eq!(peer.counts().answered, 1);
    }

    #[test]
    fn a_truncated_frequency_gives_the_error_that_models_md_states() {
        // 366.67 MHz sent as 366: held for 1 s, 0.18 % too long.
        let mut peer = Peer::new();
        let sent = peer.send(0);
        let rtt = peer.on_apdu(&answer(&sent, 0, 1, 366_670_001, 366), 1_002_000_000).unwrap();
        assert!((rtt - (2_000_000.0 - 1_830_601.0)).abs() < 1.0, "{rtt}");
    }

    #[test]
    fn a_negative_rtt_and_a_frequency_of_0_are_counted_and_give_none() {
        let mut peer = Peer::new();
        for (ssn, mhz) in [(0, 1000), (1, 0)] {
            let sent = peer.send(1_000);
            assert_eq!(peer.on_apdu(&answer(&sent, ssn, 1, 5_001, mhz), 2_000), None);
        }
        assert_eq!(peer.counts().implausible, 2);
        assert_eq!(peer.counts().answered, 0);
    }

    #[test]
    fn the_first_apdu_of_the_other_end_names_nothing() {
        let mut peer = Peer::new();
        peer.send(1_000);
        let first = Peer::new().send(77);
        assert_eq!(first.echo, Some(Echo { received: 0, rsn: 0, mhz: 1000 }));
        assert_eq!(peer.on_apdu(&first, 2_000), None);
        assert_eq!(peer.counts(), ApduCounts { sent: 1, received: 1, ..ApduCounts::default() });
    }

    #[test]
    fn two_peers_measure_each_other_across_the_wrap_of_16_bits() {
        let (mut one, mut two) = (Peer::new(), Peer::new());
        // Their clocks differ by 1 s; 40 µs there, 60 µs back, 10 µs at the other end.
        let offset_ns = 1_000_000_000;
        for round in 0..200_000_u64 {
            let now_ns = 1 + round * 1_000_000;
            let request = one.send(now_ns);
            two.on_apdu(&request, now_ns + offset_ns + 40_000);
            let response = two.send(now_ns + offset_ns + 50_000);
            assert_eq!(one.on_apdu(&response, now_ns + 110_000), Some(100_000.0), "{round}");
        }
        assert_eq!(one.counts().answered, 200_000);
        assert_eq!(two.counts().received, 200_000);
        // Their second RTT is that of the next request.
        assert_eq!(two.counts().answered, 199_999);
        assert!(one.sent.len() <= TABLE_MAX && one.received.len() <= TABLE_MAX);
    }

    #[test]
    fn duplicates_and_reordered_messages_are_counted_once() {
        let (mut one, mut two) = (Peer::new(), Peer::new());
        let [first, second, third] = [10, 20, 30].map(|now_ns| two.send(now_ns));
        for apdu in [first, third, second, third] {
            one.on_apdu(&apdu, 100);
        }
        let counts = one.counts();
        assert_eq!((counts.received, counts.reordered, counts.duplicates), (3, 1, 1));
    }

    #[test]
    fn a_number_that_was_not_sent_is_counted_as_unknown() {
        let mut peer = Peer::new();
        let sent = peer.send(1_000);
        let unsent = Apdu { ssn: 9, ..sent };
        assert_eq!(peer.on_apdu(&answer(&unsent, 0, 1, 2, 1000), 2_000), None);
        assert_eq!(peer.counts().unknown, 1);
    }
}
