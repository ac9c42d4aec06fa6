//! InfiniBand and IPoIB: widths, speeds and MTUs.

use std::fmt;
use std::str::FromStr;

use crate::exact::Exact;

/// Valid maximum payloads of an InfiniBand packet in bytes (IBTA vol. 1; RFC 4391 section 7).
pub const IB_MTUS: [u16; 5] = [256, 512, 1024, 2048, 4096];

/// IP over InfiniBand (RFC 4391, RFC 4755).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipoib {
    /// Width of the link.
    pub lanes: Lanes,
    /// Speed of each lane.
    pub speed: Speed,
    /// Datagram or connected mode.
    pub mode: IpoibMode,
    /// Maximum payload of an InfiniBand packet in bytes: 256 to 4096.
    pub ib_mtu: u16,
    /// Maximum IP packet in bytes.
    pub mtu: u16,
    /// Whether packets carry a GRH: mandatory between subnets, optional within one.
    pub grh: bool,
}

/// InfiniBand for verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ib {
    /// Width of the link.
    pub lanes: Lanes,
    /// Speed of each lane.
    pub speed: Speed,
    /// Maximum payload of a packet in bytes: 256 to 4096.
    pub mtu: u16,
    /// Whether packets carry a GRH: mandatory between subnets, optional within one.
    pub grh: bool,
}

/// How IPoIB carries an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpoibMode {
    /// In one packet of the unreliable datagram service (RFC 4391).
    Datagram,
    /// In one message of a reliable connection, of as many packets as needed (RFC 4755).
    Connected,
}

impl IpoibMode {
    /// Default IP MTU: the IB MTU minus the 4 bytes of the IPoIB header (RFC 4391 section 7), or 2044 in connected
    /// mode (RFC 4755 section 5).
    pub fn mtu_default(self, ib_mtu: u16) -> u16 {
        match self {
            Self::Datagram => ib_mtu.saturating_sub(4),
            Self::Connected => 2044,
        }
    }

    /// Maximum IP MTU; 65,520 in connected mode, as in Linux (`IPOIB_CM_MTU`).
    pub fn mtu_max(self, ib_mtu: u16) -> u16 {
        match self {
            Self::Datagram => ib_mtu.saturating_sub(4),
            Self::Connected => 65_520,
        }
    }
}

/// Width of an InfiniBand link: 1, 2, 4, 8 or 12 lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lanes(u8);

impl Lanes {
    /// All valid widths.
    pub const ALL: [Self; 5] = [Self(1), Self(2), Self(4), Self(8), Self(12)];

    /// `None` if no link has this width.
    pub fn new(lanes: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.0 == lanes)
    }

    /// The number of lanes.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// Data rate of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Speed {
    /// Single data rate, 2 Gbit/s.
    Sdr,
    /// Double data rate, 4 Gbit/s.
    Ddr,
    /// Quad data rate, 8 Gbit/s.
    Qdr,
    /// Ten, 10 Gbit/s: a lane of 40-gigabit Ethernet.
    Fdr10,
    /// Fourteen data rate, 150/11 Gbit/s.
    Fdr,
    /// Enhanced data rate, 25 Gbit/s.
    Edr,
    /// High data rate, 50 Gbit/s.
    Hdr,
    /// Next data rate, 100 Gbit/s.
    Ndr,
    /// Extreme data rate, 200 Gbit/s.
    Xdr,
}

/// A text that is not the name of a speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an InfiniBand speed: write SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR")]
pub struct UnknownSpeed(pub String);

impl Speed {
    /// All speeds, slowest first.
    pub const ALL: [Self; 9] = [
        Self::Sdr,
        Self::Ddr,
        Self::Qdr,
        Self::Fdr10,
        Self::Fdr,
        Self::Edr,
        Self::Hdr,
        Self::Ndr,
        Self::Xdr,
    ];

    /// Name, signalling rate per lane in bit/s (P1, table I, to EDR; vendors' data sheets), and
    /// [`coding`](Self::coding).
    fn facts(self) -> (&'static str, u64, (u64, u64)) {
        // 8b/10b, 64b/66b, and from HDR on 256b/257b with RS(544,514).
        let (short, long, corrected) = ((8, 10), (64, 66), (514 * 256, 544 * 257));
        match self {
            Self::Sdr => ("SDR", 2_500_000_000, short),
            Self::Ddr => ("DDR", 5_000_000_000, short),
            Self::Qdr => ("QDR", 10_000_000_000, short),
            Self::Fdr10 => ("FDR10", 10_312_500_000, long),
            Self::Fdr => ("FDR", 14_062_500_000, long),
            Self::Edr => ("EDR", 25_781_250_000, long),
            Self::Hdr => ("HDR", 53_125_000_000, corrected),
            Self::Ndr => ("NDR", 106_250_000_000, corrected),
            Self::Xdr => ("XDR", 212_500_000_000, corrected),
        }
    }

    /// Line coding: data bits, and the coded bits that carry them.
    pub fn coding(self) -> (u64, u64) {
        self.facts().2
    }

    /// Data rate in bit/s of a link of this width.
    pub(super) fn data_bps(self, lanes: Lanes) -> Option<Exact> {
        let (_, signalling_bps, (data, coded)) = self.facts();
        let bits = u128::from(lanes.0) * u128::from(signalling_bps) * u128::from(data);
        Exact::new(bits, u128::from(coded))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().0)
    }
}

impl FromStr for Speed {
    type Err = UnknownSpeed;

    /// Parses `FDR`, ignoring case.
    fn from_str(text: &str) -> Result<Self, UnknownSpeed> {
        Self::ALL
            .into_iter()
            .find(|speed| speed.facts().0.eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownSpeed(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lanes_carry_the_known_rates() {
        let four = Lanes::new(4).unwrap();
        for (speed, numerator, denominator) in [
            ("SDR", 8_000_000_000, 1),
            ("DDR", 16_000_000_000, 1),
            ("QDR", 32_000_000_000, 1),
            ("FDR10", 40_000_000_000, 1),
            ("FDR", 600_000_000_000, 11),
            ("EDR", 100_000_000_000, 1),
            ("HDR", 200_000_000_000, 1),
            ("NDR", 400_000_000_000, 1),
            ("XDR", 800_000_000_000, 1),
        ] {
            let speed: Speed = speed.parse().unwrap();
            assert_eq!(speed.data_bps(four), Exact::new(numerator, denominator), "{speed}");
        }
    }

    #[test]
    fn widths_and_speeds_that_no_link_has_are_none() {
        assert_eq!(Lanes::ALL.map(Lanes::get), [1, 2, 4, 8, 12]);
        assert!([0, 3, 16].into_iter().all(|lanes| Lanes::new(lanes).is_none()));
        assert!("".parse::<Speed>().is_err());
        assert_eq!(
            "FDR14".parse::<Speed>().unwrap_err().to_string(),
            "`FDR14` is not an InfiniBand speed: write SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or \
             XDR"
        );
    }
}
