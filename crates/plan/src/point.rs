//! A point: one level of each factor, with every default filled in.

use std::fmt;

use fabricmark_units::Bytes;
use fabricmark_wire::{Family, Link};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::factor::Factor;

/// How data moves between the two ends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One end writes without pause, the other reads.
    Stream,
    /// One payload there, one payload back, and so on.
    PingPong,
}

/// What carries the payload.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The kernel's TCP (RFC 9293).
    Tcp,
    /// The kernel's UDP (RFC 768).
    Udp,
    /// Nothing: shows what the instrument itself costs.
    Null,
}

/// How bytes pass between the program and the kernel.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// One plain read or write call a payload.
    #[default]
    Copy,
}

/// One level of each factor: everything that a run needs to know, defaults included.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// How data moves.
    pub pattern: Pattern,
    /// What carries it.
    pub transport: Transport,
    /// IP version.
    pub family: Family,
    /// Application bytes per write or datagram.
    pub payload: Bytes,
    /// The link between the two ends.
    pub link: Link,
    /// How bytes pass between program and kernel.
    pub path: Path,
    /// TCP congestion control, set on each socket; absent where there is no TCP.
    pub congestion: Option<String>,
    /// TCP_NODELAY; absent where there is no TCP.
    pub nodelay: Option<bool>,
    /// Receive buffer asked for in bytes; absent where the kernel tunes it (TCP by default).
    pub receive_buffer: Option<Bytes>,
    /// A name without an effect: two labels compare a setting with itself (an A/A run).
    pub label: Option<String>,
}

impl Point {
    /// Largest payload: both ends allocate a buffer of its size.
    pub const PAYLOAD_MAX: Bytes = Bytes(64 << 20);

    /// The level of one factor as text; empty where the factor does not apply to this point.
    pub fn level(&self, factor: Factor) -> String {
        match factor {
            Factor::Pattern => Some(self.pattern.to_string()),
            Factor::Transport => Some(self.transport.to_string()),
            Factor::Family => Some(u8::from(self.family).to_string()),
            Factor::Payload => Some(self.payload.0.to_string()),
            Factor::Link => Some(self.link.to_string()),
            Factor::Path => Some(self.path.to_string()),
            Factor::Congestion => self.congestion.clone(),
            Factor::Nodelay => self.nodelay.map(|is_set| is_set.to_string()),
            Factor::ReceiveBuffer => self.receive_buffer.map(|bytes| bytes.0.to_string()),
            Factor::Label => self.label.clone(),
        }
        .unwrap_or_default()
    }

    /// All levels in one line, `factor=level` each: the name of this point in stores and messages.
    pub fn key(&self) -> String {
        Factor::ALL
            .into_iter()
            .map(|factor| (factor, self.level(factor)))
            .filter(|(_, level)| !level.is_empty())
            .map(|(factor, level)| format!("{factor}={level}"))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Writes the serde name of a unit variant, so that every word has one definition.
fn write_word(value: &impl Serialize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => f.pad(&word),
        _ => Err(fmt::Error),
    }
}

macro_rules! display_as_serde_word {
    ($($name:ty),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_word(self, f)
            }
        }
    )*};
}

display_as_serde_word!(Pattern, Transport, Path, Factor);
