//! The link grammar: a kind, parameters after a colon, then comma-separated `key=value` settings.

use std::fmt;
use std::str::FromStr;

use fabricmark_units::BitRate;

use super::check::{Range, check_ib_mtu, check_vlan};
use super::{Ib, Ipoib, IpoibMode, Lanes, Link, MTU_DEFAULT, Speed};

/// Default IB MTU of IPoIB, which every implementation supports (RFC 4391).
const IPOIB_IB_MTU_DEFAULT: u16 = 2048;
/// Default MTU of InfiniBand for verbs.
const IB_MTU_DEFAULT: u16 = 4096;

/// Lowest rate of a link: no network is as slow, and whoever writes `ethernet:10` means 10 Mbit/s or 10 Gbit/s.
const RATE_MIN_BPS: u64 = 1_000;

/// Why a text is not a link; the messages say what would be one.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseLinkError {
    #[error(
        "`{0}` is not a link: write loopback, veth[,mtu=N], ethernet:RATE[,mtu=N][,vlan=N], \
         ipoib:4X-FDR, ib:4X-HDR, rocev1:RATE or rocev2:RATE"
    )]
    UnknownKind(String),
    #[error(
        "`{text}` has no rate of 1 kbit/s or more: write {kind}:RATE, such as {kind}:100M or {kind}:10G"
    )]
    Rate { text: String, kind: &'static str },
    #[error("`{0}` has a rate, but veth has none: write veth or veth,mtu=N")]
    VethRate(String),
    #[error(
        "`{text}` has no width and speed: write {kind}:WIDTH-SPEED, such as {kind}:4X-FDR, with 1X, \
         2X, 4X, 8X or 12X and SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR"
    )]
    Speed { text: String, kind: &'static str },
    #[error("`mtu={text}` is out of range: write mtu={smallest} to mtu={largest} ({why})")]
    Mtu { text: String, smallest: u16, largest: u16, why: &'static str },
    #[error("`{key}={text}` is not an InfiniBand MTU: write {key}=256, 512, 1024, 2048 or 4096")]
    IbMtu { key: &'static str, text: String },
    #[error("`mode={0}` is not an IPoIB mode: write mode=datagram or mode=connected")]
    Mode(String),
    #[error("`vlan={0}` is not a number of 802.1Q tags: write vlan=0, vlan=1 or vlan=2")]
    Vlan(String),
    #[error("`{setting}` is not an option of {kind}: use {known}")]
    UnknownKey { setting: String, kind: &'static str, known: &'static str },
    #[error("`{0}` is given twice: give it once")]
    Twice(String),
}

impl Link {
    /// Keyword at the start of the text form.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth { .. } => "veth",
            Self::Ethernet { .. } => "ethernet",
            Self::Ipoib(_) => "ipoib",
            Self::Ib(_) => "ib",
            Self::RoceV1 { .. } => "rocev1",
            Self::RoceV2 { .. } => "rocev2",
        }
    }
}

impl FromStr for Link {
    type Err = ParseLinkError;

    /// Parses `veth`, `veth,mtu=9000`, `ethernet:10G,mtu=9000,vlan=1`, `ipoib:4X-FDR,mode=connected,mtu=65520,grh`,
    /// `ib:4X-HDR,mtu=2048`, `rocev2:25G,mtu=4200`.
    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let (head, settings) = split(text, ',');
        let (kind, rest) = split(head, ':');
        let head = Head { text: head, rest };
        Ok(match kind {
            "loopback" if rest.is_none() => {
                let [] = read_settings(settings, "loopback", "none", [])?;
                Self::Loopback
            }
            "veth" if rest.is_some() => return Err(ParseLinkError::VethRate(head.text.to_owned())),
            "veth" => {
                let [mtu] = read_settings(settings, "veth", "mtu=N", ["mtu"])?;
                Self::Veth { mtu: Range::IP.read(mtu, MTU_DEFAULT)? }
            }
            "ethernet" => {
                let (rate, mtu, vlan) = head.ethernet("ethernet", settings, &Range::IP)?;
                Self::Ethernet { rate, mtu, vlan }
            }
            "rocev1" => {
                let (rate, mtu, vlan) = head.ethernet("rocev1", settings, &Range::ROCE)?;
                Self::RoceV1 { rate, mtu, vlan }
            }
            "rocev2" => {
                let (rate, mtu, vlan) = head.ethernet("rocev2", settings, &Range::ROCE)?;
                Self::RoceV2 { rate, mtu, vlan }
            }
            "ib" => Self::Ib(head.ib(settings)?),
            "ipoib" => Self::Ipoib(head.ipoib(settings)?),
            _ => return Err(ParseLinkError::UnknownKind(text.to_owned())),
        })
    }
}

/// Splits at the first `at`.
fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// The text before the first comma.
struct Head<'a> {
    text: &'a str,
    /// The part after the colon.
    rest: Option<&'a str>,
}

impl Head<'_> {
    fn ethernet(
        &self,
        kind: &'static str,
        settings: Option<&str>,
        range: &Range,
    ) -> Result<(BitRate, u16, u8), ParseLinkError> {
        let rate = self
            .rest
            .and_then(|rate| rate.parse().ok())
            .filter(|rate: &BitRate| rate.0 >= RATE_MIN_BPS)
            .ok_or_else(|| ParseLinkError::Rate { text: self.text.to_owned(), kind })?;
        let known = "mtu=N and vlan=N";
        let [mtu, vlan] = read_settings(settings, kind, known, ["mtu", "vlan"])?;
        let vlan = vlan.unwrap_or("0");
        let vlan = vlan.parse().map_err(|_| ParseLinkError::Vlan(vlan.to_owned()))?;
        check_vlan(vlan)?;
        Ok((rate, range.read(mtu, MTU_DEFAULT)?, vlan))
    }

    fn ib(&self, settings: Option<&str>) -> Result<Ib, ParseLinkError> {
        let (lanes, speed) = self.speed("ib")?;
        let [mtu, grh] = read_settings(settings, "ib", "mtu=N and grh", ["mtu", "grh"])?;
        let mtu = read_ib_mtu(mtu, "mtu", IB_MTU_DEFAULT)?;
        Ok(Ib { lanes, speed, mtu, grh: grh.is_some() })
    }

    fn ipoib(&self, settings: Option<&str>) -> Result<Ipoib, ParseLinkError> {
        let (lanes, speed) = self.speed("ipoib")?;
        let known = "mode=datagram or mode=connected, ib-mtu=N, mtu=N and grh";
        let keys = ["mode", "ib-mtu", "mtu", "grh"];
        let [mode, ib_mtu, mtu, grh] = read_settings(settings, "ipoib", known, keys)?;
        let mode = match mode {
            None | Some("datagram") => IpoibMode::Datagram,
            Some("connected") => IpoibMode::Connected,
            Some(other) => return Err(ParseLinkError::Mode(other.to_owned())),
        };
        let ib_mtu = read_ib_mtu(ib_mtu, "ib-mtu", IPOIB_IB_MTU_DEFAULT)?;
        let mtu = Range::of_ipoib(mode, ib_mtu).read(mtu, mode.mtu_default(ib_mtu))?;
        Ok(Ipoib { lanes, speed, mode, ib_mtu, mtu, grh: grh.is_some() })
    }

    /// Parses `4X-FDR`.
    fn speed(&self, kind: &'static str) -> Result<(Lanes, Speed), ParseLinkError> {
        let read = |text: &str| {
            let (width, speed) = text.split_once('-')?;
            let width = width.strip_suffix(['X', 'x'])?;
            Some((Lanes::new(width.parse().ok()?)?, speed.parse().ok()?))
        };
        let error = || ParseLinkError::Speed { text: self.text.to_owned(), kind };
        self.rest.and_then(read).ok_or_else(error)
    }
}

/// Parses `key=value,key=value` and returns the values of `keys`; `grh` has no value.
fn read_settings<'a, const N: usize>(
    settings: Option<&'a str>,
    kind: &'static str,
    known: &'static str,
    keys: [&str; N],
) -> Result<[Option<&'a str>; N], ParseLinkError> {
    let mut values = [None; N];
    for setting in settings.into_iter().flat_map(|settings| settings.split(',')) {
        let unknown = || ParseLinkError::UnknownKey { setting: setting.to_owned(), kind, known };
        let (key, value) = match setting {
            "grh" => ("grh", ""),
            other => other.split_once('=').filter(|(key, _)| *key != "grh").ok_or_else(unknown)?,
        };
        let place = keys.iter().position(|&k| k == key).ok_or_else(unknown)?;
        if values[place].replace(value).is_some() {
            return Err(ParseLinkError::Twice(key.to_owned()));
        }
    }
    Ok(values)
}

fn read_ib_mtu(text: Option<&str>, key: &'static str, default: u16) -> Result<u16, ParseLinkError> {
    let Some(text) = text else { return Ok(default) };
    let mtu = text.parse().map_err(|_| ParseLinkError::IbMtu { key, text: text.to_owned() })?;
    check_ib_mtu(mtu, key)?;
    Ok(mtu)
}

impl fmt::Display for Link {
    /// Writes the shortest form that the parser accepts: defaults are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match *self {
            Self::Loopback => Ok(()),
            Self::Veth { mtu } => write_unless(f, "mtu", mtu, MTU_DEFAULT),
            Self::Ethernet { rate, mtu, vlan }
            | Self::RoceV1 { rate, mtu, vlan }
            | Self::RoceV2 { rate, mtu, vlan } => {
                write!(f, ":{rate}")?;
                write_unless(f, "mtu", mtu, MTU_DEFAULT)?;
                write_unless(f, "vlan", u16::from(vlan), 0)
            }
            Self::Ib(Ib { lanes, speed, mtu, grh }) => {
                write!(f, ":{}X-{speed}", lanes.get())?;
                write_unless(f, "mtu", mtu, IB_MTU_DEFAULT)?;
                f.write_str(if grh { ",grh" } else { "" })
            }
            Self::Ipoib(Ipoib { lanes, speed, mode, ib_mtu, mtu, grh }) => {
                write!(f, ":{}X-{speed}", lanes.get())?;
                if mode == IpoibMode::Connected {
                    f.write_str(",mode=connected")?;
                }
                write_unless(f, "ib-mtu", ib_mtu, IPOIB_IB_MTU_DEFAULT)?;
                write_unless(f, "mtu", mtu, mode.mtu_default(ib_mtu))?;
                f.write_str(if grh { ",grh" } else { "" })
            }
        }
    }
}

fn write_unless(f: &mut fmt::Formatter<'_>, key: &str, value: u16, default: u16) -> fmt::Result {
    if value == default { Ok(()) } else { write!(f, ",{key}={value}") }
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
