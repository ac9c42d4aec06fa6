//! Levels as text: the form of each kind of level, and its canonical form.

use std::net::IpAddr;
use std::str::FromStr;

use fabricmark_link::{HostBus, LinkOptions};
use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::{Family, Link};

use crate::choice::{
    Choice, Cm, Direction, Interference, Offload, Operation, PaceWait, Path, Pattern, Probe,
    RelayPath, Timestamps, Wait,
};
use crate::invalid::Invalid;
use crate::mpi::{Benchmark, Buffers, Datatype, MpiLibrary, MpiTransport, Root, Sync};
use crate::pace::Pace;
use crate::shop::{Engine, Interaction, Mix};
use crate::transport::Transport;
use crate::window::Window;

/// A level as canonical text: sizes in bytes, links in their shortest form.
pub type Level = String;

/// Level that switches a factor off, as if the plan did not name it.
pub const NONE: &str = "none";

/// Form of a factor's levels.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One of a fixed set of keywords.
    Choice(&'static [Choice]),
    /// A whole number from minimum to maximum.
    Number(u64, u64),
    /// A number of bytes from minimum to maximum.
    Size(Bytes, Bytes),
    /// A duration from minimum to maximum.
    Duration(Nanos, Nanos),
    /// A rate in bit/s.
    Rate,
    /// True or false.
    Truth,
    /// A name of 1 to 15 letters, digits, `-`, `_` and `.`, as the kernel accepts it.
    Name,
    /// An IP address.
    Address,
    /// Text with a grammar of its own; the function returns its canonical form.
    Grammar(fn(&str) -> Result<Level, String>),
}

impl Kind {
    /// A grammar that `T` parses and prints.
    pub(crate) const fn of<T: FromStr<Err: ToString> + ToString>() -> Self {
        Self::Grammar(|text| {
            text.parse().map(|value: T| value.to_string()).map_err(|e| e.to_string())
        })
    }

    /// The canonical form of a level. The error describes the levels of this kind.
    pub(crate) fn canonical(self, text: &str) -> Result<Level, Invalid> {
        match self {
            Self::Choice(known) => choice(text, known),
            Self::Truth if matches!(text, "true" | "false") => Ok(text.to_owned()),
            Self::Truth => Err(format!("`{text}` is not one of true, false")),
            Self::Number(least, most) => match text.parse::<u64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
                _ => Err(format!("`{text}` is not a number from {least} to {most}")),
            },
            Self::Size(least, most) => size(text, least, most),
            Self::Duration(least, most) => match text.parse::<Nanos>() {
                Ok(time) if (least..=most).contains(&time) => Ok(time.to_string()),
                _ => Err(format!("`{text}` is not a duration such as 400ms, at most {most}")),
            },
            Self::Rate => rate(text),
            Self::Name => name(text),
            Self::Address => text
                .parse()
                .map(|at: IpAddr| at.to_string())
                .map_err(|_| format!("`{text}` is not an address such as 10.0.0.1 or fd00::1")),
            Self::Grammar(canonical) => canonical(text),
        }
        .map_err(Invalid)
    }
}

fn choice(text: &str, known: &[Choice]) -> Result<Level, String> {
    match known.iter().find(|choice| choice.word == text || choice.was == Some(text)) {
        Some(choice) => Ok(choice.word.to_owned()),
        None => {
            let words: Vec<&str> = known.iter().map(|choice| choice.word).collect();
            Err(format!("`{text}` is not one of {}", words.join(", ")))
        }
    }
}

fn size(text: &str, least: Bytes, most: Bytes) -> Result<Level, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if !(least..=most).contains(&bytes) {
        return Err(format!("{} bytes is out of range; use {} to {most}", bytes.0, least.0));
    }
    Ok(bytes.0.to_string())
}

/// A rate of at least one byte per second: the kernel counts in bytes per second, and 0 means unlimited.
fn rate(text: &str) -> Result<Level, String> {
    let rate: BitRate = text.parse().map_err(|error| format!("{error}"))?;
    if rate.0 < 8 {
        return Err(format!("a rate of {rate} is out of range; use 8 bit/s or more"));
    }
    Ok(rate.to_string())
}

/// At most 15 characters: the kernel's limit for the name of a congestion control (TCP_CA_NAME_MAX, linux/tcp.h)
/// and of a device (IFNAMSIZ, linux/if.h).
fn name(text: &str) -> Result<Level, String> {
    let is_name = !text.is_empty()
        && text.len() <= 15
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a name of 1 to 15 letters, digits, `-`, `_`, `.`"))
    }
}

/// A codepoint by its number or its name: CS0 to CS7 (RFC 2474, section 4.2.2), AF11 to AF43 (RFC 2597, section 6), EF (RFC
/// 3246), VA (RFC 5865) and LE (RFC 8622).
pub(crate) fn dscp(text: &str) -> Result<Level, String> {
    let name = text.to_ascii_uppercase();
    let digits = |prefix: &str| -> Option<Vec<u32>> {
        name.strip_prefix(prefix)?.chars().map(|c| c.to_digit(10)).collect()
    };
    let number = match name.as_str() {
        "EF" => Some(46),
        "VA" => Some(44),
        "LE" => Some(1),
        _ => match (digits("CS").as_deref(), digits("AF").as_deref()) {
            (Some(&[class @ 0..=7]), _) => Some(8 * class),
            (_, Some(&[class @ 1..=4, precedence @ 1..=3])) => Some(8 * class + 2 * precedence),
            _ => text.parse().ok().filter(|number| *number <= 63),
        },
    };
    let wrong =
        || format!("`{text}` is not a number from 0 to 63, or a name such as EF, CS1 or AF41");
    number.map(|number| number.to_string()).ok_or_else(wrong)
}

/// Options of an emulated link, except those that are factors of their own.
pub(crate) fn emulated(text: &str) -> Result<Level, String> {
    let options: LinkOptions = text.parse().map_err(|error| format!("{error}"))?;
    let level = options.to_string();
    for word in level.split(' ').filter(|word| !word.starts_with("delay=trace:")) {
        let key = word.split('=').next().unwrap_or_default();
        let help = match key {
            "link" | "mtu" => "use the factor `link`",
            "rtt" | "delay" => "use the factor `rtt`",
            _ => continue,
        };
        return Err(format!("`{key}` is not supported in emulate; {help}"));
    }
    if level.is_empty() {
        return Err("emulate is empty; add an option such as loss=1e-6".to_owned());
    }
    Ok(level)
}

/// Levels of other groups: `factor=level` pairs, separated by spaces.
pub(crate) fn beside(text: &str) -> Result<Level, String> {
    /// In bytes: more than the levels of a few factors need.
    const LENGTH_MAX: usize = 1_000;
    let is_level = text.len() <= LENGTH_MAX && text.chars().all(|c| !c.is_control());
    if is_level { Ok(text.to_owned()) } else { Err("not levels of other groups".to_owned()) }
}

/// Canonical form of a host bus, as [`HostBus`] parses it.
pub(crate) fn bus(text: &str) -> Result<Level, String> {
    text.parse().map(|bus: HostBus| bus.to_string())
}

/// A field of a point. `Option` fields are absent if their factor does not apply.
pub(crate) trait Field: Sized {
    /// Placeholder in a point that is not complete yet.
    fn blank() -> Self;

    /// Parses canonical text; empty text means absent.
    fn read(level: &str) -> Option<Self>;

    /// Canonical text; empty if absent.
    fn write(&self) -> Level;

    fn is_absent(&self) -> bool {
        false
    }
}

macro_rules! values {
    ($($type:ty = $blank:expr, $read:expr, $write:expr;)*) => {
        $(impl Field for $type {
            fn blank() -> Self {
                $blank
            }

            fn read(level: &str) -> Option<Self> {
                $read(level)
            }

            fn write(&self) -> Level {
                $write(self)
            }
        })*
    };
}

fn parsed<T: FromStr>(level: &str) -> Option<T> {
    level.parse().ok()
}

fn family(level: &str) -> Option<Family> {
    Family::try_from(level.parse::<u8>().ok()?).ok()
}

values! {
    u16 = 0, parsed, u16::to_string;
    u32 = 0, parsed, u32::to_string;
    bool = false, parsed, bool::to_string;
    String = String::new(), parsed, String::clone;
    Bytes = Bytes(0), parsed, |bytes: &Bytes| bytes.0.to_string();
    Nanos = Nanos(0), parsed, Nanos::to_string;
    BitRate = BitRate(0), parsed, BitRate::to_string;
    IpAddr = IpAddr::from([0; 4]), parsed, IpAddr::to_string;
    Family = Family::V4, family, |family: &Family| u8::from(*family).to_string();
    Link = Link::Loopback, parsed, Link::to_string;
    Pace = Pace::Closed, parsed, Pace::to_string;
    Window = Window::Bdp(1), parsed, Window::to_string;
    Pattern = Pattern::Stream, Self::named, Self::to_string;
    Transport = Transport::Tcp, Self::named, Self::to_string;
    Direction = Direction::Forward, Self::named, Self::to_string;
    Probe = Probe::Udp, Self::named, Self::to_string;
    Path = Path::Copy, Self::named, Self::to_string;
    Offload = Offload::On, Self::named, Self::to_string;
    Wait = Wait::Block, Self::named, Self::to_string;
    PaceWait = PaceWait::SleepSpin, Self::named, Self::to_string;
    Interference = Interference::Together, Self::named, Self::to_string;
    RelayPath = RelayPath::Copy, Self::named, Self::to_string;
    Timestamps = Timestamps::Software, Self::named, Self::to_string;
    Operation = Operation::Send, Self::named, Self::to_string;
    Cm = Cm::Tcp, Self::named, Self::to_string;
    Benchmark = Benchmark::PingPong, Self::named, Self::to_string;
    MpiLibrary = MpiLibrary::OpenMpi, Self::named, Self::to_string;
    MpiTransport = MpiTransport::Auto, Self::named, Self::to_string;
    Buffers = Buffers::Warm, Self::named, Self::to_string;
    Root = Root::First, Self::named, Self::to_string;
    Sync = Sync::Barrier, Self::named, Self::to_string;
    Datatype = Datatype::Byte, Self::named, Self::to_string;
    Interaction = Interaction::All, Self::named, Self::to_string;
    Mix = Mix::Shopping, Self::named, Self::to_string;
    Engine = Engine::MariaDb, Self::named, Self::to_string;
}

impl<T: Field> Field for Option<T> {
    fn blank() -> Self {
        None
    }

    fn read(level: &str) -> Option<Self> {
        Some(if level.is_empty() { None } else { T::read(level) })
    }

    fn write(&self) -> Level {
        self.as_ref().map(T::write).unwrap_or_default()
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_have_the_numbers_of_their_names() {
        // RFC 4594, figure 3.
        for (name, number) in [
            ("CS0", 0),
            ("CS1", 8),
            ("CS7", 56),
            ("AF11", 10),
            ("AF43", 38),
            ("ef", 46),
            ("VA", 44),
            ("LE", 1),
            ("63", 63),
        ] {
            assert_eq!(dscp(name), Ok(number.to_string()), "{name}");
        }
        for name in ["64", "CS8", "AF14", "AF51", "AF1", "", "CS11", "-1"] {
            assert!(dscp(name).is_err(), "{name}");
        }
    }
}
