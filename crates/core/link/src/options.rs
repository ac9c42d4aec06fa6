//! Link options of one direction: `rtt=400ms rate=10G loss=1e-6`.

mod build;
mod describe;
mod value;
mod word;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fabricmark_units::Nanos;
use fabricmark_wire::{Link, MTU_DEFAULT, ParseLinkError};

use crate::Losses;
use crate::line::saturated;
use crate::trace::{self, Trace, TraceError};
pub use describe::{Description, WireDescription};
use value::Room;
pub use value::{Discipline, Distribution};
use word::{Key, Value, Word};

/// Length in bytes of the longest super-packet with the headers of its segments, of which there are at most 44.
pub const SUPER_PACKET_MAX: u64 = (64 << 10) + 44 * 120;

/// Options of one direction of a link, or changes to them at run time.
///
/// Text form: options separated by spaces, in any order, each once; `docs/lab.md` lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkOptions {
    options: BTreeMap<Key, Word>,
    files: Files,
}

/// Contents of the files that options name; `None` if there is none, or if it was not read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Files {
    trace: Option<Trace>,
    delays: Option<Vec<Nanos>>,
    losses: Option<Vec<bool>>,
}

/// Why a text is not a valid list of link options.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LinkOptionsError {
    #[error("unknown option `{word}`: {remedy}")]
    Unknown { word: String, remedy: String },
    #[error("`{key}={value}`: write {expected}")]
    Value { key: &'static str, value: String, expected: &'static str },
    #[error("`{key}`: {reason}")]
    Link { key: &'static str, reason: ParseLinkError },
    #[error("`{first}` and `{second}` set the same property: give one of them")]
    Twice { first: String, second: String },
}

impl LinkOptions {
    /// Adds an option. The value of a flag such as `ecn` is `true` or `none`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LinkOptionsError> {
        let (key, word) = Word::parse(key, value)?;
        if let Some(first) = self.options.get(&key) {
            let (first, second) = (first.to_string(), word.to_string());
            return Err(LinkOptionsError::Twice { first, second });
        }
        self.options.insert(key, word);
        Ok(())
    }

    /// The value of a key; `None` if it is unset or `none`.
    fn get(&self, key: Key) -> Option<&Value> {
        self.options.get(&key).map(|word| &word.value).filter(|value| **value != Value::Absent)
    }

    /// Replaces options by those of `change`.
    ///
    /// A new `link` brings its own rate, framing and MTU, so it also clears the present ones.
    pub fn merge(&mut self, change: &Self) {
        if change.options.contains_key(&Key::Link) {
            self.options.retain(|key, _| !matches!(key, Key::Pace | Key::Framing | Key::Mtu));
        }
        self.options.extend(change.options.iter().map(|(&key, word)| (key, word.clone())));
        let Files { trace, delays, losses } = &change.files;
        if change.options.contains_key(&Key::Delay) {
            self.files.delays.clone_from(delays);
        }
        if change.options.contains_key(&Key::Loss) {
            self.files.losses.clone_from(losses);
        }
        if change.options.contains_key(&Key::Pace) || !self.options.contains_key(&Key::Pace) {
            self.files.trace.clone_from(trace);
        }
    }

    /// Names of the files of `trace=`, `delay=trace:` and `loss=trace:`. The caller reads them
    /// ([`read_files`](Self::read_files)).
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let values = [Key::Pace, Key::Delay, Key::Loss].into_iter().filter_map(|key| self.get(key));
        values.filter_map(|value| match value {
            Value::Trace(file) | Value::OfEach(file) => Some(file.as_str()),
            _ => None,
        })
    }

    /// Reads the files of the options; `read` returns the text of a file, or why there is none.
    pub fn read_files(
        &mut self,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        for key in [Key::Pace, Key::Delay, Key::Loss] {
            let Some(Value::Trace(file) | Value::OfEach(file)) = self.get(key) else { continue };
            let file = file.clone();
            let text =
                read(&file).map_err(|error| format!("cannot read the trace {file}: {error}"))?;
            let broken = |error: TraceError| format!("{file}: {error}");
            match key {
                Key::Delay => self.files.delays = Some(trace::delays(&text).map_err(broken)?),
                Key::Loss => self.files.losses = Some(trace::losses(&text).map_err(broken)?),
                _ => self.files.trace = Some(Trace::parse(&text).map_err(broken)?),
            }
        }
        Ok(())
    }

    /// The same options with some trace in place of those that they name, to check what does not depend on it.
    #[must_use]
    pub fn with_any_traces(mut self) -> Self {
        let trace = Trace { stamps_ms: vec![1] };
        let (delays, losses) = (Some(vec![Nanos(0)]), Some(vec![false]));
        self.files = Files { trace: Some(trace), delays, losses };
        self
    }

    /// Largest IP packet in bytes: `mtu`, else that of `link`, else 1500.
    pub fn mtu(&self) -> u16 {
        match self.get(Key::Mtu) {
            Some(Value::Mtu(bytes)) => *bytes,
            _ => self.link().map_or(MTU_DEFAULT, Link::mtu),
        }
    }

    /// Mean one-way delay: `delay`, that of a trace of delays, or half of `rtt` rounded up. Default: 0.
    pub fn delay(&self) -> Nanos {
        match self.get(Key::Delay) {
            Some(Value::OfEach(_)) => {
                let delays = self.files.delays.as_deref().unwrap_or_default();
                let sum: u128 = delays.iter().map(|delay| u128::from(delay.0)).sum();
                Nanos(saturated(sum / delays.len().max(1) as u128))
            }
            Some(Value::RoundTrip(rtt)) => Nanos(rtt.0.div_ceil(2)),
            Some(Value::Time(delay)) => *delay,
            _ => Nanos(0),
        }
    }

    /// Whether packets have different delays, by `jitter` or by a trace.
    pub fn has_jitter(&self) -> bool {
        self.jitter().is_some() || matches!(self.get(Key::Delay), Some(Value::OfEach(_)))
    }

    /// Standard deviation of the one-way delay; `None` if the delay is constant, or by a trace.
    pub fn jitter(&self) -> Option<Nanos> {
        let &Value::Time(jitter) = self.get(Key::Jitter)? else { return None };
        Some(jitter)
    }

    /// Loss model; `None` without loss.
    pub fn losses(&self) -> Option<Losses> {
        match self.get(Key::Loss)? {
            Value::Loss(loss) => Some(loss.losses()),
            _ => Some(Losses::Trace(self.files.losses.clone().unwrap_or_default())),
        }
    }

    /// Rate in bit/s; `None` if unlimited, or set by a schedule or a trace.
    pub fn rate_bps(&self) -> Option<f64> {
        self.ratio().map(|(bits, seconds)| bits as f64 / seconds as f64)
    }

    /// Whether super-packets must be segmented before they enter the link, because an option applies to single
    /// packets: jitter, a trace of delays, loss, corruption, duplication, reordering, AQM, or `pause` with less room than a
    /// super-packet.
    ///
    /// Otherwise only a full queue splits a super-packet.
    pub fn needs_single_packets(&self) -> bool {
        let singles =
            [Key::Jitter, Key::Loss, Key::Corrupt, Key::Duplicate, Key::Reorder, Key::Discipline];
        let mut said = singles.into_iter().filter_map(|key| self.get(key));
        said.any(|value| *value != Value::Discipline(Discipline::DropTail))
            || self.has_jitter()
            || self.is_narrow()
    }

    /// Whether the queue may request a pause (`pause`) with less room than a super-packet: hosts must then send single
    /// packets.
    pub fn is_narrow(&self) -> bool {
        self.pause_room_bytes().is_some_and(|room| room < SUPER_PACKET_MAX)
    }

    /// The same options with a queue that holds what the wire sends in `time`.
    #[must_use]
    pub fn with_queue(mut self, time: Nanos) -> Self {
        let value = Value::Queue(Room::Time(time));
        self.options.insert(Key::Queue, Word { name: Key::Queue.name(), value });
        self
    }

    /// Whether no option sets the queue or outages.
    pub fn has_default_queue(&self) -> bool {
        let said = [Key::Queue, Key::Discipline, Key::Ecn, Key::Pause, Key::Up, Key::Down];
        said.iter().all(|key| !self.options.contains_key(key))
    }

    /// Whether the queue pauses the sender before it (`pause`).
    pub fn pauses(&self) -> bool {
        self.get(Key::Pause).is_some()
    }

    /// The link of `link=`; `None` if unset.
    pub fn link(&self) -> Option<Link> {
        let &Value::Link(link) = self.get(Key::Link)? else { return None };
        Some(link)
    }
}

impl FromStr for LinkOptions {
    type Err = LinkOptionsError;

    fn from_str(text: &str) -> Result<Self, LinkOptionsError> {
        let mut options = Self::default();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            options.set(key, value)?;
        }
        Ok(options)
    }
}

impl fmt::Display for LinkOptions {
    /// Prints the options in a fixed order that the parser reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, word) in self.options.values().enumerate() {
            let gap = if place > 0 { " " } else { "" };
            write!(f, "{gap}{word}")?;
        }
        Ok(())
    }
}
