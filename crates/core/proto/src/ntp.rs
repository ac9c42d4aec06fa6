//! The client's side of NTP version 4 (RFC 5905): a request, and what an answer says of RTT and offset.
//!
//! ```text
//!  0                1          2      3           4            8                 12       16           24       32         40
//!  | LI, VN, mode   | stratum  | poll | precision | root delay | root dispersion | ref ID | reference  | origin | receive  | transmit |
//! ```

use crate::stamp::Timestamp;

/// Length of a packet without extension fields (section 7.3).
pub const NTP_BYTES: usize = 48;

/// Version 4, mode 3 (client).
const CLIENT: u8 = 4 << 3 | 3;

/// Mode of an answer: server.
const SERVER: u8 = 4;

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NtpAnswer {
    /// RTT without the time at the server: (T4 - T1) - (T3 - T2) (section 8), in nanoseconds.
    pub rtt_ns: i64,
    /// Server's clock minus this one: ((T2 - T1) + (T3 - T4)) / 2, in nanoseconds. Wrong by half of the difference between
    /// the delays there and back.
    pub offset_ns: i64,
    /// 1: the server has a reference clock; 2 to 15: it follows another server.
    pub stratum: u8,
    /// Resolution of the server's clock in nanoseconds; it states powers of two of a second.
    pub precision_ns: f64,
    /// Largest error of the server's clock against its reference: half its delay plus its dispersion.
    pub root_distance_ns: f64,
}

/// Why a packet is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswer {
    /// It is too short, or not from a server.
    #[error("it is not a packet of an NTP server")]
    Form,
    /// It does not repeat the time of the request.
    #[error("it answers another request")]
    Origin,
    /// The server's clock is not synchronised, or it refuses to answer (section 7.4).
    #[error("the server is not synchronised or refuses requests")]
    Unsynchronised,
}

/// The request that departs at `transmit`.
pub fn ntp_request(transmit: Timestamp) -> [u8; NTP_BYTES] {
    let mut packet = [0; NTP_BYTES];
    packet[0] = CLIENT;
    packet[40..].copy_from_slice(&transmit.0.to_be_bytes());
    packet
}

impl NtpAnswer {
    /// Reads the answer to the request that departed at `departed`, which arrived at `arrived`.
    pub fn parse(
        packet: &[u8],
        departed: Timestamp,
        arrived: Timestamp,
    ) -> Result<Self, NotAnswer> {
        let packet = packet.get(..NTP_BYTES).ok_or(NotAnswer::Form)?;
        if packet[0] & 7 != SERVER {
            return Err(NotAnswer::Form);
        }
        let number = |at: usize, count: usize| {
            packet[at..at + count].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let [origin, received, sent] = [24, 32, 40].map(|at| Timestamp(number(at, 8)));
        if origin != departed {
            return Err(NotAnswer::Origin);
        }
        let (leap, stratum) = (packet[0] >> 6, packet[1]);
        if leap == 3 || !(1..16).contains(&stratum) || sent == Timestamp(0) {
            return Err(NotAnswer::Unsynchronised);
        }
        let (forward_ns, backward_ns) = (received.since_ns(departed), arrived.since_ns(sent));
        // Seconds with 16 bits after the point.
        let short_ns = |at: usize| number(at, 4) as f64 / 65_536.0 * 1e9;
        Ok(Self {
            rtt_ns: forward_ns.saturating_add(backward_ns),
            offset_ns: forward_ns.saturating_sub(backward_ns) / 2,
            stratum,
            precision_ns: 1e9 * f64::from(packet[3] as i8).exp2(),
            root_distance_ns: short_ns(4) / 2.0 + short_ns(8),
        })
    }
}

#[cfg(test)]
mod tests {
    use fabricmark_units::Nanos;

    use super::*;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_unix(Nanos(1_700_000_000_000_000_000 + 1_000 * us))
    }

    /// An answer of a server whose clock is 1 ms ahead: 100 us there, 20 us at the server, 140 us back.
    fn answer() -> [u8; NTP_BYTES] {
        let mut packet = [0; NTP_BYTES];
        (packet[0], packet[1], packet[3]) = (4 << 3 | SERVER, 2, (-20_i8) as u8);
        packet[4..8].copy_from_slice(&(2_u32 << 16).to_be_bytes());
        packet[8..12].copy_from_slice(&(1_u32 << 15).to_be_bytes());
        for (place, time) in [(24, at(0)), (32, at(1_100)), (40, at(1_120))] {
            packet[place..place + 8].copy_from_slice(&time.0.to_be_bytes());
        }
        packet
    }

    #[test]
    fn an_answer_gives_rtt_and_offset() {
        let found = NtpAnswer::parse(&answer(), at(0), at(260)).unwrap();
        assert!((found.rtt_ns - 240_000).abs() <= 2, "{found:?}");
        assert!((found.offset_ns - 980_000).abs() <= 2, "{found:?}");
        assert_eq!((found.stratum, found.root_distance_ns), (2, 1.5e9));
        assert!((found.precision_ns - 953.674).abs() < 0.001);
    }

    #[test]
    fn a_request_is_48_bytes_with_its_departure_last() {
        let packet = ntp_request(at(0));
        assert_eq!((packet.len(), packet[0]), (48, 0x23));
        assert_eq!(packet[40..], at(0).0.to_be_bytes());
        assert!(packet[1..40].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn what_answers_nothing_is_refused_with_the_reason() {
        let refused = |change: fn(&mut [u8; NTP_BYTES])| {
            let mut packet = answer();
            change(&mut packet);
            NtpAnswer::parse(&packet, at(0), at(260)).unwrap_err()
        };
        assert_eq!(refused(|packet| packet[0] = CLIENT), NotAnswer::Form);
        assert_eq!(refused(|packet| packet[31] ^= 1), NotAnswer::Origin);
        assert_eq!(refused(|packet| packet[0] |= 3 << 6), NotAnswer::Unsynchronised);
        assert_eq!(refused(|packet| packet[1] = 0), NotAnswer::Unsynchronised);
        let short = NtpAnswer::parse(&answer()[..47], at(0), at(260));
        assert_eq!(short, Err(NotAnswer::Form));
    }
}
