//! What one direction of a link does, in words: `rtt=400ms rate=10G loss=1e-6`.

mod build;
mod describe;
mod value;
mod word;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fabricmark_units::Nanos;
use fabricmark_wire::{Link, MTU_DEFAULT, ParseLinkError};

use crate::{Losses, Trace, TraceError};
pub use describe::{Description, WireDescription};
use value::Room;
pub use value::{Discipline, Distribution};
use word::{Key, Value, Word};

/// Bytes of the longest super-packet with the headers of its segments, which are at most 44.
pub const SUPER_PACKET_MAX: u64 = (64 << 10) + 44 * 120;

/// What one direction of a link does, and what of it is to change while it runs.
///
/// The text form has words between spaces, in any order, each once; `docs/lab.md` lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkWords {
    words: BTreeMap<Key, Word>,
    trace: Option<Trace>,
}

/// Why a text does not say what a link does.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WordsError {
    #[error("unknown word `{word}`: {remedy}")]
    Unknown { word: String, remedy: String },
    #[error("`{key}={value}`: write {expected}")]
    Value { key: &'static str, value: String, expected: &'static str },
    #[error("`{key}`: {reason}")]
    Link { key: &'static str, reason: ParseLinkError },
    #[error("`{first}` and `{second}` speak of the same: give one of them")]
    Twice { first: String, second: String },
}

impl LinkWords {
    /// Adds one word, as a key and its value; the value of a flag such as `ecn` is `true` or `none`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), WordsError> {
        let (key, word) = Word::parse(key, value)?;
        if let Some(first) = self.words.get(&key) {
            let (first, second) = (first.to_string(), word.to_string());
            return Err(WordsError::Twice { first, second });
        }
        self.words.insert(key, word);
        Ok(())
    }

    /// What is said of a key, unless it is said to be absent.
    fn get(&self, key: Key) -> Option<&Value> {
        self.words.get(&key).map(|word| &word.value).filter(|value| **value != Value::Absent)
    }

    /// Lets what `change` says hold instead of what was said before.
    ///
    /// A new `link` brings its own rate, framing and MTU; those said before go with the old one.
    pub fn merge(&mut self, change: &Self) {
        if change.words.contains_key(&Key::Link) {
            self.words.retain(|key, _| !matches!(key, Key::Pace | Key::Framing | Key::Mtu));
        }
        self.words.extend(change.words.iter().map(|(&key, word)| (key, word.clone())));
        if change.trace.is_some() || self.trace_file().is_none() {
            self.trace.clone_from(&change.trace);
        }
    }

    /// The file of `trace=`, which the caller reads and hands to [`set_trace`](Self::set_trace).
    pub fn trace_file(&self) -> Option<&str> {
        let Value::Trace(file) = self.get(Key::Pace)? else { return None };
        Some(file)
    }

    /// What stands in the file of `trace=`.
    pub fn set_trace(&mut self, text: &str) -> Result<(), TraceError> {
        self.trace = Some(Trace::parse(text)?);
        Ok(())
    }

    /// The largest IP packet in bytes: of `mtu`, else of `link`, else 1500.
    pub fn mtu(&self) -> u16 {
        match self.get(Key::Mtu) {
            Some(Value::Mtu(bytes)) => *bytes,
            _ => self.link().map_or(MTU_DEFAULT, Link::mtu),
        }
    }

    /// The mean delay in this direction.
    pub fn delay(&self) -> Nanos {
        match self.get(Key::Delay) {
            Some(Value::RoundTrip(rtt)) => Nanos(rtt.0.div_ceil(2)),
            Some(Value::Time(delay)) => *delay,
            _ => Nanos(0),
        }
    }

    /// The standard deviation of the delay in this direction; `None` where all are delayed alike.
    pub fn jitter(&self) -> Option<Nanos> {
        let &Value::Time(jitter) = self.get(Key::Jitter)? else { return None };
        Some(jitter)
    }

    /// Which packets the medium loses; `None` where it loses none.
    pub fn losses(&self) -> Option<Losses> {
        let Value::Loss(loss) = self.get(Key::Loss)? else { return None };
        Some(loss.losses())
    }

    /// The rate of the wire in bit/s; `None` where there is none, or no single one.
    pub fn rate_bps(&self) -> Option<f64> {
        self.ratio().map(|(bits, seconds)| bits as f64 / seconds as f64)
    }

    /// Whether super-packets must be cut before they come here, for packets to meet what the words
    /// say of single ones: delays that differ, losses, copies, signals of congestion, pauses of a queue
    /// without room for one.
    ///
    /// Elsewhere only a full queue cuts a super-packet.
    pub fn needs_single_packets(&self) -> bool {
        let singles =
            [Key::Jitter, Key::Loss, Key::Corrupt, Key::Duplicate, Key::Reorder, Key::Discipline];
        let is_narrow = self.pause_room_bytes().is_some_and(|room| room < SUPER_PACKET_MAX);
        let mut said = singles.into_iter().filter_map(|key| self.get(key));
        said.any(|value| *value != Value::Discipline(Discipline::DropTail)) || is_narrow
    }

    /// The same with a queue that holds what the wire carries in `time`.
    #[must_use]
    pub fn with_queue(mut self, time: Nanos) -> Self {
        let value = Value::Queue(Room::Time(time));
        self.words.insert(Key::Queue, Word { name: Key::Queue.name(), value });
        self
    }

    /// Whether nothing is said of the queue before the wire, nor of outages, in which it fills.
    pub fn has_default_queue(&self) -> bool {
        let said = [Key::Queue, Key::Discipline, Key::Ecn, Key::Pause, Key::Up, Key::Down];
        said.iter().all(|key| !self.words.contains_key(key))
    }

    /// Whether the queue stops the wire before it.
    pub fn pauses(&self) -> bool {
        self.get(Key::Pause).is_some()
    }

    /// The technology of the wire, where one is named.
    pub fn link(&self) -> Option<Link> {
        let &Value::Link(link) = self.get(Key::Link)? else { return None };
        Some(link)
    }
}

impl FromStr for LinkWords {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Self, WordsError> {
        let mut words = Self::default();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            words.set(key, value)?;
        }
        Ok(words)
    }
}

impl fmt::Display for LinkWords {
    /// The words in a fixed order; the parser reads them back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, word) in self.words.values().enumerate() {
            let gap = if place > 0 { " " } else { "" };
            write!(f, "{gap}{word}")?;
        }
        Ok(())
    }
}
