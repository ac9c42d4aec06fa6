//! One link option: its key and its value.

use std::fmt;

use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::{Link, MTU_MIN};

use super::LinkOptionsError;
use super::value::{self, Discipline, Distribution, LossWord, Room, Share};
use crate::{Framing, Moderation, Order};

/// What an option sets, in print order. Each is set at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Delay,
    Jitter,
    Distribution,
    Order,
    Link,
    /// When packets may leave: `rate`, `schedule` or `trace`.
    Pace,
    Framing,
    Mtu,
    Queue,
    Discipline,
    Ecn,
    Pause,
    Up,
    Down,
    Loss,
    Corrupt,
    Duplicate,
    Reorder,
    Coalesce,
}

/// Option names. [`Key::name`] is the first name of a key.
const KEYS: [(&str, Key); 22] = [
    ("delay", Key::Delay),
    ("rtt", Key::Delay),
    ("jitter", Key::Jitter),
    ("dist", Key::Distribution),
    ("order", Key::Order),
    ("link", Key::Link),
    ("rate", Key::Pace),
    ("schedule", Key::Pace),
    ("trace", Key::Pace),
    ("framing", Key::Framing),
    ("mtu", Key::Mtu),
    ("queue", Key::Queue),
    ("discipline", Key::Discipline),
    ("ecn", Key::Ecn),
    ("pause", Key::Pause),
    ("up", Key::Up),
    ("down", Key::Down),
    ("loss", Key::Loss),
    ("corrupt", Key::Corrupt),
    ("duplicate", Key::Duplicate),
    ("reorder", Key::Reorder),
    ("coalesce", Key::Coalesce),
];

impl Key {
    pub fn name(self) -> &'static str {
        KEYS.iter().find(|(_, key)| *key == self).map_or("", |(name, _)| name)
    }
}

/// A parsed option: its name as written, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    pub name: &'static str,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    RoundTrip(Nanos),
    Time(Nanos),
    Distribution(Distribution),
    Order(Order),
    Link(Link),
    Rate(BitRate),
    Schedule {
        bytes: Bytes,
        period: Nanos,
    },
    Trace(String),
    /// File with the delay or the fate of each packet.
    OfEach(String),
    /// Link whose framing is used; `None` for `framing=none`.
    Framing(Option<Link>),
    Mtu(u16),
    Queue(Room),
    Discipline(Discipline),
    /// A flag without a value.
    Flag,
    Loss(LossWord),
    Share(Share),
    Reorder {
        share: Share,
        longest: Nanos,
        gap: Option<u32>,
    },
    /// `None` for `adaptive`.
    Coalesce(Option<Moderation>),
    /// `none`: explicitly unset.
    Absent,
}

impl Word {
    pub fn parse(name: &str, text: &str) -> Result<(Key, Self), LinkOptionsError> {
        let known = KEYS.iter().find(|(known, _)| *known == name);
        let &(name, key) = known.ok_or_else(|| unknown(name))?;
        if text == "none" && key != Key::Framing {
            return Ok((key, Self { name: key.name(), value: Value::Absent }));
        }
        if let ("delay" | "loss", Some(file)) = (name, text.strip_prefix("trace:")) {
            let (value, expected) = file_name(file, Value::OfEach);
            let refused =
                || LinkOptionsError::Value { key: name, value: text.to_owned(), expected };
            return Ok((key, Self { name, value: value.ok_or_else(refused)? }));
        }
        let link = || text.parse().map_err(|reason| LinkOptionsError::Link { key: name, reason });
        let (value, expected) = match name {
            "rtt" => (text.parse().ok().map(Value::RoundTrip), "a time such as 400ms or 20us"),
            "delay" => {
                (text.parse().ok().map(Value::Time), "a time such as 400ms or 20us, or trace:FILE")
            }
            "jitter" | "up" | "down" => {
                (text.parse().ok().map(Value::Time), "a time such as 400ms or 20us")
            }
            "dist" => (Distribution::parse(text).map(Value::Distribution), "normal or pareto"),
            "order" => {
                let order = match text {
                    "kept" => Some(Order::Kept),
                    "free" => Some(Order::Free),
                    _ => None,
                };
                (order.map(Value::Order), "kept or free")
            }
            "link" => {
                let carries_ip = |link: &Link| !link.has_wire() || Framing::of(*link).is_some();
                let link = Some(link()?).filter(carries_ip);
                (link.map(Value::Link), "a link that carries IP, such as ipoib:4X-FDR")
            }
            "framing" if text == "none" => (Some(Value::Framing(None)), ""),
            "framing" => {
                let link = Some(link()?).filter(|link| Framing::of(*link).is_some());
                (link.map(Some).map(Value::Framing), "none, or a link with a wire that carries IP")
            }
            "rate" => (text.parse().ok().map(Value::Rate), "a bit rate such as 100M or 10G"),
            "schedule" => (
                value::schedule(text),
                "bytes and a period, such as 62487B/5995us, or model-1, model-2 or model-100",
            ),
            "trace" => file_name(text, Value::Trace),
            "mtu" => {
                let mtu = text.parse().ok().filter(|&mtu| mtu >= MTU_MIN);
                (mtu.map(Value::Mtu), "bytes from 1280 (RFC 8200) to 65535")
            }
            "queue" => (
                Room::parse(text).map(Value::Queue),
                "packets, bytes or a time: 1000p, 1MB or 50ms",
            ),
            "discipline" => (
                Discipline::parse(text).map(Value::Discipline),
                "drop-tail, codel, codel:TARGET,INTERVAL or red",
            ),
            "ecn" | "pause" => {
                let is_said = matches!(text, "" | "true");
                (is_said.then_some(Value::Flag), "the option without a value, or none")
            }
            "loss" => (
                LossWord::parse(text).map(Value::Loss),
                "a share such as 1e-6 or 0.1%, ge:p,r,h,k, every:1000 or trace:FILE",
            ),
            "corrupt" | "duplicate" => {
                (Share::parse(text).map(Value::Share), "a share such as 1e-6 or 0.1%")
            }
            "reorder" => (
                value::reorder(text),
                "a share, a time and optionally packets, such as \
                                                 0.01:5ms:3",
            ),
            _ => (value::coalesce(text), "packets and a time such as 64:50us, or adaptive"),
        };
        let refused = || LinkOptionsError::Value { key: name, value: text.to_owned(), expected };
        let value = value.ok_or_else(refused)?;
        Ok((key, Self { name, value }))
    }
}

/// The name of a file, or what was expected.
fn file_name(text: &str, value: fn(String) -> Value) -> (Option<Value>, &'static str) {
    let is_name = !text.is_empty() && !text.contains(char::is_whitespace);
    (is_name.then(|| value(text.to_owned())), "the name of a file, without spaces")
}

/// Error that suggests the nearest option name, or lists all if none is near.
fn unknown(name: &str) -> LinkOptionsError {
    let near = KEYS
        .iter()
        .map(|(known, _)| (strsim::damerau_levenshtein(name, known), *known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let remedy = match near {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => format!("use one of {}", KEYS.map(|(known, _)| known).join(", ")),
    };
    LinkOptionsError::Unknown { word: name.to_owned(), remedy }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match &self.value {
            Value::RoundTrip(time) | Value::Time(time) => write!(f, "={time}"),
            Value::Distribution(distribution) => write!(f, "={distribution}"),
            Value::Order(Order::Kept) => f.write_str("=kept"),
            Value::Order(Order::Free) => f.write_str("=free"),
            Value::Link(link) | Value::Framing(Some(link)) => write!(f, "={link}"),
            Value::Rate(rate) => write!(f, "={rate}"),
            Value::Schedule { bytes, period } => write!(f, "={}B/{period}", bytes.0),
            Value::Trace(file) => write!(f, "={file}"),
            Value::OfEach(file) => write!(f, "=trace:{file}"),
            Value::Mtu(bytes) => write!(f, "={bytes}"),
            Value::Queue(room) => write!(f, "={room}"),
            Value::Discipline(discipline) => write!(f, "={discipline}"),
            Value::Flag => Ok(()),
            Value::Loss(loss) => write!(f, "={loss}"),
            Value::Share(share) => write!(f, "={share}"),
            Value::Reorder { share, longest, gap: None } => write!(f, "={share}:{longest}"),
            Value::Reorder { share, longest, gap: Some(gap) } => {
                write!(f, "={share}:{longest}:{gap}")
            }
            Value::Coalesce(None) => f.write_str("=adaptive"),
            Value::Coalesce(Some(Moderation { time, frames })) => write!(f, "={frames}:{time}"),
            Value::Framing(None) | Value::Absent => f.write_str("=none"),
        }
    }
}
