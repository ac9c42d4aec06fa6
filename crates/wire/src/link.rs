//! The link grammar: `loopback`; `veth` or `ethernet:RATE`, then `,mtu=N` and `,vlan=N`.

use std::fmt;
use std::str::FromStr;

use fabricmark_units::BitRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// MTU of a link that states none, in bytes (RFC 894).
pub const MTU_DEFAULT: u16 = 1500;

/// The smallest MTU over which IPv6 runs, in bytes (RFC 8200 section 5).
pub const MTU_MIN: u16 = 1280;

/// Tags beyond two (802.1ad) are not in use.
const VLAN_MAX: u8 = 2;

/// One hop, in text and JSON as `veth,mtu=9000` or `ethernet:10G,mtu=9000,vlan=1`.
///
/// A value that the grammar would refuse, such as a rate of 0, has no ceilings and no floors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Link {
    /// The host to itself: memory copies, no wire and no second network.
    Loopback,
    /// A pair of virtual interfaces on one machine: memory copies, no wire.
    Veth {
        /// Largest IP packet in bytes.
        mtu: u16,
    },
    /// Full-duplex Ethernet.
    Ethernet {
        /// MAC rate in bit/s, in each direction.
        rate: BitRate,
        /// Largest IP packet in bytes.
        mtu: u16,
        /// Number of 802.1Q tags in each frame, 0 to 2.
        vlan: u8,
    },
}

/// Why a text is not a link; says what would be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseLinkError {
    /// The first word names no kind of link.
    #[error("`{0}` is not a link: write loopback, veth[,mtu=N] or ethernet:RATE[,mtu=N][,vlan=N]")]
    UnknownKind(String),
    /// The kind exists, but this version has no model of it.
    #[error(
        "`{0}` is not carried by this version; use loopback, veth or ethernet:RATE[,mtu=N][,vlan=N]"
    )]
    NotCarried(String),
    /// An Ethernet link has no rate, or one that is none.
    #[error("`{0}` has no rate above 0: write ethernet:RATE, such as ethernet:10G")]
    Rate(String),
    /// A veth pair was given a rate.
    #[error("`{0}` gives a rate, but a veth pair has no wire: write veth or veth,mtu=N")]
    VethRate(String),
    /// The MTU is no number in range.
    #[error("`mtu={0}` is out of range: write mtu=1280 to mtu=65535 (IPv6 needs 1280)")]
    Mtu(String),
    /// The number of tags is no number in range.
    #[error("`vlan={0}` is not a number of 802.1Q tags: write vlan=0, vlan=1 or vlan=2")]
    Vlan(String),
    /// A setting that this kind of link does not have.
    #[error("`{0}` is not a setting of this link: veth takes mtu=N, ethernet mtu=N and vlan=N")]
    UnknownKey(String),
    /// A setting stands twice.
    #[error("`{0}` is given twice: give it once")]
    Twice(String),
}

impl Link {
    /// Largest IP packet in bytes.
    pub fn mtu(self) -> u16 {
        match self {
            // The kernel's `lo` takes 65,536 bytes; no IPv4 packet is longer than this.
            Self::Loopback => u16::MAX,
            Self::Veth { mtu } | Self::Ethernet { mtu, .. } => mtu,
        }
    }

    /// The line rate in bit/s; `None` for a veth pair.
    pub fn rate(self) -> Option<BitRate> {
        match self {
            Self::Loopback | Self::Veth { .. } => None,
            Self::Ethernet { rate, .. } => Some(rate),
        }
    }

    /// Whether frames cross a medium with a rate of its own, and so have ceilings and floors.
    pub fn has_wire(self) -> bool {
        self.rate().is_some()
    }

    /// Rate in bit/s, MTU and tags of a wire that the grammar would accept.
    pub(crate) fn wire(self) -> Option<Wire> {
        match self {
            Self::Ethernet { rate, mtu, vlan }
                if rate.0 > 0 && mtu >= MTU_MIN && vlan <= VLAN_MAX =>
            {
                Some(Wire { rate_bps: rate.0, mtu, vlan })
            }
            _ => None,
        }
    }
}

/// An Ethernet link whose values are in range.
#[derive(Clone, Copy)]
pub(crate) struct Wire {
    pub rate_bps: u64,
    pub mtu: u16,
    pub vlan: u8,
}

impl FromStr for Link {
    type Err = ParseLinkError;

    /// Reads `veth`, `veth,mtu=9000`, `ethernet:1G`, `ethernet:10G,mtu=9000,vlan=1`.
    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let (head, settings) = match text.split_once(',') {
            Some((head, settings)) => (head, Some(settings)),
            None => (text, None),
        };
        let (kind, rate) = match head.split_once(':') {
            Some((kind, rate)) => (kind, Some(rate)),
            None => (head, None),
        };
        match kind {
            "loopback" if rate.is_none() => {
                let [] = read_settings(settings, [])?;
                Ok(Self::Loopback)
            }
            "veth" => {
                if rate.is_some() {
                    return Err(ParseLinkError::VethRate(head.to_owned()));
                }
                let [mtu] = read_settings(settings, ["mtu"])?;
                Ok(Self::Veth { mtu: read_mtu(mtu)? })
            }
            "ethernet" => {
                let rate = rate
                    .and_then(|rate| rate.parse().ok())
                    .filter(|rate: &BitRate| rate.0 > 0)
                    .ok_or_else(|| ParseLinkError::Rate(head.to_owned()))?;
                let [mtu, vlan] = read_settings(settings, ["mtu", "vlan"])?;
                Ok(Self::Ethernet { rate, mtu: read_mtu(mtu)?, vlan: read_vlan(vlan)? })
            }
            "ipoib" | "ib" | "rocev1" | "rocev2" => {
                Err(ParseLinkError::NotCarried(kind.to_owned()))
            }
            _ => Err(ParseLinkError::UnknownKind(text.to_owned())),
        }
    }
}

/// The values of `keys` in `key=value,key=value`.
fn read_settings<'a, const N: usize>(
    settings: Option<&'a str>,
    keys: [&str; N],
) -> Result<[Option<&'a str>; N], ParseLinkError> {
    let mut values = [None; N];
    for setting in settings.into_iter().flat_map(|settings| settings.split(',')) {
        let unknown = || ParseLinkError::UnknownKey(setting.to_owned());
        let (key, value) = setting.split_once('=').ok_or_else(unknown)?;
        let place = keys.iter().position(|&k| k == key).ok_or_else(unknown)?;
        if values[place].replace(value).is_some() {
            return Err(ParseLinkError::Twice(key.to_owned()));
        }
    }
    Ok(values)
}

fn read_mtu(text: Option<&str>) -> Result<u16, ParseLinkError> {
    let Some(text) = text else {
        return Ok(MTU_DEFAULT);
    };
    text.parse()
        .ok()
        .filter(|&mtu| mtu >= MTU_MIN)
        .ok_or_else(|| ParseLinkError::Mtu(text.to_owned()))
}

fn read_vlan(text: Option<&str>) -> Result<u8, ParseLinkError> {
    let Some(text) = text else {
        return Ok(0);
    };
    text.parse()
        .ok()
        .filter(|&tags| tags <= VLAN_MAX)
        .ok_or_else(|| ParseLinkError::Vlan(text.to_owned()))
}

impl fmt::Display for Link {
    /// The shortest form that the parser reads back: defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => return f.write_str("loopback"),
            Self::Veth { .. } => f.write_str("veth")?,
            Self::Ethernet { rate, .. } => write!(f, "ethernet:{rate}")?,
        }
        if self.mtu() != MTU_DEFAULT {
            write!(f, ",mtu={}", self.mtu())?;
        }
        match self {
            Self::Ethernet { vlan, .. } if *vlan > 0 => write!(f, ",vlan={vlan}"),
            _ => Ok(()),
        }
    }
}

impl TryFrom<String> for Link {
    type Error = ParseLinkError;

    fn try_from(text: String) -> Result<Self, ParseLinkError> {
        text.parse()
    }
}

impl From<Link> for String {
    fn from(link: Link) -> Self {
        link.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ethernet(rate: u64, mtu: u16, vlan: u8) -> Link {
        Link::Ethernet { rate: BitRate(rate), mtu, vlan }
    }

    #[test]
    fn links_are_read_as_people_write_them_and_printed_without_defaults() {
        for (text, link, printed) in [
            ("loopback", Link::Loopback, "loopback"),
            ("veth", Link::Veth { mtu: 1500 }, "veth"),
            ("veth,mtu=9000", Link::Veth { mtu: 9000 }, "veth,mtu=9000"),
            ("ethernet:1G", ethernet(1_000_000_000, 1500, 0), "ethernet:1G"),
            (
                "ethernet:10Gbit/s,vlan=1,mtu=9000",
                ethernet(10_000_000_000, 9000, 1),
                "ethernet:10G,mtu=9000,vlan=1",
            ),
            ("ethernet:2.5G,mtu=1500,vlan=0", ethernet(2_500_000_000, 1500, 0), "ethernet:2500M"),
        ] {
            assert_eq!(text.parse(), Ok(link), "{text}");
            assert_eq!(link.to_string(), printed);
        }
    }

    #[test]
    fn what_is_not_a_link_is_refused_with_what_would_be_right() {
        for (text, message) in [
            (
                "wifi",
                "`wifi` is not a link: write loopback, veth[,mtu=N] or ethernet:RATE[,mtu=N][,vlan=N]",
            ),
            (
                "ipoib:4X-FDR,mode=datagram",
                "`ipoib` is not carried by this version; use loopback, veth or ethernet:RATE[,mtu=N][,vlan=N]",
            ),
            (
                "ethernet",
                "`ethernet` has no rate above 0: write ethernet:RATE, such as ethernet:10G",
            ),
            (
                "ethernet:0",
                "`ethernet:0` has no rate above 0: write ethernet:RATE, such as ethernet:10G",
            ),
            (
                "veth:1G",
                "`veth:1G` gives a rate, but a veth pair has no wire: write veth or veth,mtu=N",
            ),
            (
                "veth,mtu=1279",
                "`mtu=1279` is out of range: write mtu=1280 to mtu=65535 (IPv6 needs 1280)",
            ),
            (
                "ethernet:1G,mtu=65536",
                "`mtu=65536` is out of range: write mtu=1280 to mtu=65535 (IPv6 needs 1280)",
            ),
            (
                "ethernet:1G,vlan=3",
                "`vlan=3` is not a number of 802.1Q tags: write vlan=0, vlan=1 or vlan=2",
            ),
            (
                "veth,vlan=1",
                "`vlan=1` is not a setting of this link: veth takes mtu=N, ethernet mtu=N and vlan=N",
            ),
            (
                "veth,",
                "`` is not a setting of this link: veth takes mtu=N, ethernet mtu=N and vlan=N",
            ),
            ("veth,mtu=1500,mtu=1500", "`mtu` is given twice: give it once"),
        ] {
            let error = text.parse::<Link>().unwrap_err();
            assert_eq!(error.to_string(), message, "{text}");
        }
        for kind in ["ib", "rocev1:10G", "rocev2"] {
            assert!(matches!(kind.parse::<Link>(), Err(ParseLinkError::NotCarried(_))), "{kind}");
        }
    }

    #[test]
    fn a_link_is_its_text_in_json() {
        let link = ethernet(10_000_000_000, 9000, 0);
        let json = serde_json::to_string(&link).unwrap();
        assert_eq!(json, r#""ethernet:10G,mtu=9000""#);
        assert_eq!(serde_json::from_str::<Link>(&json).unwrap(), link);
        let schema = serde_json::to_value(schemars::schema_for!(Link)).unwrap();
        assert_eq!(schema["type"], "string");
    }

    #[test]
    fn a_veth_pair_has_no_wire() {
        assert!(!Link::Veth { mtu: 1500 }.has_wire());
        assert!(ethernet(1, 1500, 0).has_wire());
    }

    proptest! {
        #[test]
        fn printing_and_reading_gives_the_same_link(
            rate in 1u64..,
            mtu in MTU_MIN..,
            vlan in 0..=VLAN_MAX,
        ) {
            for link in [Link::Loopback, Link::Veth { mtu }, ethernet(rate, mtu, vlan)] {
                prop_assert_eq!(link.to_string().parse(), Ok(link));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(
            text in ".{0,24}",
            near in "(loopback|veth|ethernet)?(:[0-9.GMx]{0,8})?(,(mtu|vlan|é)?=?[0-9é-]{0,6}){0,3}",
        ) {
            let _ = (text.parse::<Link>(), near.parse::<Link>());
        }
    }
}
