//! One word of a link: its key, and what stands behind it.

use std::fmt;

use fabricmark_units::{BitRate, Bytes, Nanos};
use fabricmark_wire::{Link, MTU_MIN};

use super::WordsError;
use super::value::{self, Discipline, Distribution, LossWord, Room, Share};
use crate::coalesce::Moderation;
use crate::delay::Order;
use crate::framing::Framing;

/// What a word speaks of, in the order of the printed form. Of each there is one word at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Delay,
    Jitter,
    Distribution,
    Order,
    Link,
    /// When packets may leave: a rate, a schedule, a trace.
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

/// Each key as it is written; of several for the same, the first is printed.
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

/// A word as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    RoundTrip(Nanos),
    Delay(Nanos),
    Jitter(Nanos),
    Distribution(Distribution),
    Order(Order),
    Link(Link),
    Rate(BitRate),
    Schedule {
        bytes: Bytes,
        period: Nanos,
    },
    Trace(String),
    /// That of a link, or nothing.
    Framing(Option<Link>),
    Mtu(u16),
    Queue(Room),
    Discipline(Discipline),
    Ecn,
    Pause,
    Up(Nanos),
    Down(Nanos),
    Loss(LossWord),
    Corrupt(Share),
    Duplicate(Share),
    Reorder {
        share: Share,
        longest: Nanos,
        gap: Option<u32>,
    },
    /// `None` where it adapts.
    Coalesce(Option<Moderation>),
    /// There is no such thing.
    Absent(Key),
}

impl Word {
    pub fn parse(name: &str, text: &str) -> Result<Self, WordsError> {
        let known = KEYS.iter().find(|(known, _)| *known == name);
        let &(name, key) = known.ok_or_else(|| unknown(name))?;
        if text == "none" && key != Key::Framing {
            return Ok(Self::Absent(key));
        }
        let expecting =
            |expected| move || WordsError::Value { key: name, value: text.to_owned(), expected };
        let time = || text.parse().map_err(|_| expecting("a time such as 400ms or 20us")());
        let share = || Share::parse(text).ok_or_else(expecting("a share such as 1e-6 or 0.1%"));
        let flag = || match text {
            "" | "true" => Ok(()),
            _ => Err(expecting("the word alone, or none")()),
        };
        Ok(match name {
            "rtt" => Self::RoundTrip(time()?),
            "delay" => Self::Delay(time()?),
            "jitter" => Self::Jitter(time()?),
            "up" => Self::Up(time()?),
            "down" => Self::Down(time()?),
            "dist" => Self::Distribution(
                Distribution::parse(text).ok_or_else(expecting("normal or pareto"))?,
            ),
            "order" => match text {
                "kept" => Self::Order(Order::Kept),
                "free" => Self::Order(Order::Free),
                _ => return Err(expecting("kept or free")()),
            },
            "link" => {
                let link = link(name, text)?;
                if link.has_wire() && Framing::of(link).is_none() {
                    return Err(expecting("a link that carries IP, such as ipoib:4X-FDR")());
                }
                Self::Link(link)
            }
            "framing" if text == "none" => Self::Framing(None),
            "framing" => {
                let link = link(name, text)?;
                if Framing::of(link).is_none() {
                    return Err(expecting("none, or a link with a wire that carries IP")());
                }
                Self::Framing(Some(link))
            }
            "rate" => {
                Self::Rate(text.parse().map_err(|_| expecting("a bit rate such as 100M or 10G")())?)
            }
            "schedule" => {
                let (bytes, period) = value::schedule(text)
                    .ok_or_else(expecting("bytes and a period, such as 62487B/5995us"))?;
                Self::Schedule { bytes, period }
            }
            "trace" if text.is_empty() || text.contains(char::is_whitespace) => {
                return Err(expecting("the name of a file, without spaces")());
            }
            "trace" => Self::Trace(text.to_owned()),
            "mtu" => {
                let mtu = text.parse().ok().filter(|&mtu| mtu >= MTU_MIN);
                Self::Mtu(mtu.ok_or_else(expecting("bytes from 1280 (RFC 8200) to 65535"))?)
            }
            "queue" => Self::Queue(
                Room::parse(text)
                    .ok_or_else(expecting("packets, bytes or a time: 1000p, 1MB or 50ms"))?,
            ),
            "discipline" => Self::Discipline(
                Discipline::parse(text)
                    .ok_or_else(expecting("drop-tail, codel, codel:TARGET,INTERVAL or red"))?,
            ),
            "ecn" => flag().map(|()| Self::Ecn)?,
            "pause" => flag().map(|()| Self::Pause)?,
            "loss" => Self::Loss(LossWord::parse(text).ok_or_else(expecting(
                "a share such as 1e-6 or 0.1%, ge:p,r,h,k, or every:1000",
            ))?),
            "corrupt" => Self::Corrupt(share()?),
            "duplicate" => Self::Duplicate(share()?),
            "reorder" => {
                let (share, longest, gap) = value::reorder(text)
                    .ok_or_else(expecting("a share, a time and perhaps packets: 0.01:5ms:3"))?;
                Self::Reorder { share, longest, gap }
            }
            _ => Self::Coalesce(
                value::coalesce(text)
                    .ok_or_else(expecting("packets and a time such as 64:50us, or adaptive"))?,
            ),
        })
    }

    /// What it speaks of.
    pub fn key(&self) -> Key {
        match self {
            Self::RoundTrip(_) | Self::Delay(_) => Key::Delay,
            Self::Jitter(_) => Key::Jitter,
            Self::Distribution(_) => Key::Distribution,
            Self::Order(_) => Key::Order,
            Self::Link(_) => Key::Link,
            Self::Rate(_) | Self::Schedule { .. } | Self::Trace(_) => Key::Pace,
            Self::Framing(_) => Key::Framing,
            Self::Mtu(_) => Key::Mtu,
            Self::Queue(_) => Key::Queue,
            Self::Discipline(_) => Key::Discipline,
            Self::Ecn => Key::Ecn,
            Self::Pause => Key::Pause,
            Self::Up(_) => Key::Up,
            Self::Down(_) => Key::Down,
            Self::Loss(_) => Key::Loss,
            Self::Corrupt(_) => Key::Corrupt,
            Self::Duplicate(_) => Key::Duplicate,
            Self::Reorder { .. } => Key::Reorder,
            Self::Coalesce(_) => Key::Coalesce,
            Self::Absent(key) => *key,
        }
    }

    /// Whether it means single packets where it stands in a link.
    pub fn acts_on_single_packets(&self) -> bool {
        !matches!(self, Self::Absent(_) | Self::Discipline(Discipline::DropTail))
    }
}

fn link(key: &'static str, text: &str) -> Result<Link, WordsError> {
    text.parse().map_err(|reason| WordsError::Link { key, reason })
}

/// "did you mean" for a near miss, else the whole choice.
fn unknown(name: &str) -> WordsError {
    let near = KEYS
        .iter()
        .map(|(known, _)| (strsim::damerau_levenshtein(name, known), *known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let remedy = match near {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => format!("use one of {}", KEYS.map(|(known, _)| known).join(", ")),
    };
    WordsError::Unknown { word: name.to_owned(), remedy }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.key().name();
        match self {
            Self::RoundTrip(time) => write!(f, "rtt={time}"),
            Self::Delay(time) | Self::Jitter(time) | Self::Up(time) | Self::Down(time) => {
                write!(f, "{name}={time}")
            }
            Self::Distribution(distribution) => write!(f, "{name}={distribution}"),
            Self::Order(Order::Kept) => write!(f, "{name}=kept"),
            Self::Order(Order::Free) => write!(f, "{name}=free"),
            Self::Link(link) | Self::Framing(Some(link)) => write!(f, "{name}={link}"),
            Self::Rate(rate) => write!(f, "{name}={rate}"),
            Self::Schedule { bytes, period } => write!(f, "schedule={}B/{period}", bytes.0),
            Self::Trace(file) => write!(f, "trace={file}"),
            Self::Mtu(bytes) => write!(f, "{name}={bytes}"),
            Self::Queue(room) => write!(f, "{name}={room}"),
            Self::Discipline(discipline) => write!(f, "{name}={discipline}"),
            Self::Ecn | Self::Pause => f.write_str(name),
            Self::Loss(loss) => write!(f, "{name}={loss}"),
            Self::Corrupt(share) | Self::Duplicate(share) => write!(f, "{name}={share}"),
            Self::Reorder { share, longest, gap } => {
                write!(f, "{name}={share}:{longest}")?;
                gap.map_or(Ok(()), |gap| write!(f, ":{gap}"))
            }
            Self::Coalesce(None) => write!(f, "{name}=adaptive"),
            Self::Coalesce(Some(Moderation { time, frames })) => {
                write!(f, "{name}={frames}:{time}")
            }
            Self::Framing(None) | Self::Absent(_) => write!(f, "{name}=none"),
        }
    }
}
