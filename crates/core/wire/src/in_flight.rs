//! Limits on data in flight, which bound a rate by the RTT.

use fabricmark_units::Nanos;

use crate::exact::inputs;
use crate::{Ceiling, Exact, Impossible, Input, Kind};

/// Maximum number of outstanding sequence numbers: half of 24 bits (IBTA vol. 1, 9.7.1).
const PSN_WINDOW: u64 = 1 << 23;

/// Maximum link credits in blocks of 64 bytes: half of 12 bits (IBTA vol. 1, 7.9.4).
const CREDIT_BLOCKS: u64 = 2048;

/// What limits the bytes in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InFlight {
    /// Messages that the sender of a reliable connection keeps posted. A message completes, and makes room for the
    /// next, when its acknowledgement arrives.
    Messages {
        /// Number of messages in flight.
        count: u64,
        /// Payload of each in bytes.
        bytes: u64,
    },
    /// Outstanding RDMA READs that the responder accepts.
    Reads {
        /// Number of READs in flight.
        outstanding: u64,
        /// Payload of each in bytes.
        bytes: u64,
    },
    /// The 24-bit packet sequence numbers of a reliable connection.
    SequenceNumbers {
        /// Maximum payload of a packet in bytes.
        path_mtu: u16,
    },
    /// Link-level credits of one virtual lane; the RTT is that of one link.
    LinkCredits,
}

impl InFlight {
    /// Maximum number of bytes in flight.
    pub fn bytes(self) -> u128 {
        match self {
            Self::Messages { count, bytes } | Self::Reads { outstanding: count, bytes } => {
                u128::from(count) * u128::from(bytes)
            }
            Self::SequenceNumbers { path_mtu } => u128::from(PSN_WINDOW * u64::from(path_mtu)),
            Self::LinkCredits => u128::from(CREDIT_BLOCKS * 64),
        }
    }

    /// Ceiling of the rate with these bytes in flight and an RTT of at least `rtt`. A bound.
    ///
    /// Link credits count all bytes of packets, so their ceiling applies to more than the payload.
    pub fn goodput(self, rtt: Nanos) -> Result<Ceiling, Impossible> {
        if rtt == Nanos(0) {
            return Err(Impossible::NoRtt);
        }
        let bytes = Exact::new(self.bytes(), 1).ok_or(Impossible::TooLarge)?;
        let rate = bytes.scaled(8_000_000_000, u128::from(rtt.0)).ok_or(Impossible::TooLarge)?;
        let name = match self {
            Self::Messages { .. } => "messages",
            Self::Reads { .. } => "outstanding reads",
            Self::SequenceNumbers { .. } => "sequence numbers",
            Self::LinkCredits => "link credits",
        };
        Ok(Ceiling {
            kind: Kind::Bound,
            goodput_bps: rate,
            formula: "8e9 * in_flight_bytes / rtt_ns".to_owned(),
            inputs: inputs([
                ("limit", Input::Text(name.to_owned())),
                ("in_flight_bytes", bytes.into()),
                ("rtt_ns", rtt.0.into()),
            ]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::fibre_delay;

    fn gbps(limit: InFlight, rtt: Nanos) -> f64 {
        limit.goodput(rtt).unwrap().goodput_bps.as_f64() / 1e9
    }

    #[test]
    fn credits_bite_on_a_link_of_ten_kilometres() {
        let rtt = Nanos(2 * fibre_delay(10_000).0);
        assert_eq!(rtt, Nanos(97_934));
        assert_eq!((gbps(InFlight::LinkCredits, rtt) * 10.0).round() / 10.0, 10.7);
    }

    #[test]
    fn what_is_under_way_leaves_once_a_round_trip() {
        let rtt = Nanos(1_000_000);
        assert_eq!(gbps(InFlight::Messages { count: 2, bytes: 62_500 }, rtt), 1.0);
        assert_eq!(gbps(InFlight::Reads { outstanding: 16, bytes: 62_500 }, rtt), 8.0);
        // 2^23 packets of 4096 bytes are 32 GiB.
        let psn = InFlight::SequenceNumbers { path_mtu: 4096 };
        assert_eq!(psn.bytes(), 32 << 30);
        assert_eq!(psn.goodput(Nanos(0)), Err(Impossible::NoRtt));
        assert_eq!(psn.goodput(rtt).unwrap().kind, Kind::Bound);
    }
}
