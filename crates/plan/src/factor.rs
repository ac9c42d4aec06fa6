//! Factors and their levels: the columns of the matrix.

use std::str::FromStr;

use fabricmark_units::Bytes;
use fabricmark_wire::Link;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::point::Point;

/// What may vary between points.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// stream, ping-pong.
    Pattern,
    /// tcp, udp, null.
    Transport,
    /// IP version: 4, 6.
    Family,
    /// Application bytes per write or datagram.
    Payload,
    /// A link of the link grammar.
    Link,
    /// How bytes pass between program and kernel: copy.
    Path,
    /// TCP congestion control.
    Congestion,
    /// TCP_NODELAY: true, false.
    Nodelay,
    /// Receive buffer asked for.
    ReceiveBuffer,
    /// A name without an effect.
    Label,
}

/// A level as canonical text: sizes in bytes, links in their shortest form.
pub type Level = String;

/// Why a text is no level of a factor; says what would be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LevelError(pub String);

/// Largest receive buffer that may be asked for: 1 GiB, RFC 7323's largest window.
const RECEIVE_BUFFER_BYTES_MAX: u64 = 1 << 30;

impl Factor {
    /// Every factor, in the order in which a point's name lists them.
    pub const ALL: [Self; 10] = [
        Self::Pattern,
        Self::Transport,
        Self::Family,
        Self::Payload,
        Self::Link,
        Self::Path,
        Self::Congestion,
        Self::Nodelay,
        Self::ReceiveBuffer,
        Self::Label,
    ];

    /// The factors that every plan must name; the others have defaults.
    pub const REQUIRED: [Self; 5] =
        [Self::Pattern, Self::Transport, Self::Family, Self::Payload, Self::Link];

    /// The name that plan files use.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Transport => "transport",
            Self::Family => "family",
            Self::Payload => "payload",
            Self::Link => "link",
            Self::Path => "path",
            Self::Congestion => "congestion",
            Self::Nodelay => "nodelay",
            Self::ReceiveBuffer => "receive_buffer",
            Self::Label => "label",
        }
    }

    /// The factor of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|factor| factor.key() == name)
    }

    /// Brings a level into its canonical form, or says what a level of this factor looks like.
    pub fn level(self, text: &str) -> Result<Level, LevelError> {
        match self {
            Self::Pattern => {
                word(text, &["stream", "ping-pong"], &["exchange", "connect-exchange"])
            }
            Self::Transport => word(
                text,
                &["tcp", "udp", "null"],
                &["mptcp", "quic", "tls", "unix", "rsocket", "rc", "uc", "ud", "smc", "sctp"],
            ),
            Self::Family => word(text, &["4", "6"], &[]),
            Self::Path => word(text, &["copy"], &["mmsg", "gso", "zerocopy", "splice", "io-uring"]),
            Self::Nodelay => word(text, &["true", "false"], &[]),
            Self::Payload => size(text, Point::PAYLOAD_MAX.0),
            Self::ReceiveBuffer => size(text, RECEIVE_BUFFER_BYTES_MAX),
            Self::Link => Link::from_str(text)
                .map(|link| link.to_string())
                .map_err(|error| LevelError(error.to_string())),
            Self::Congestion | Self::Label => name(text),
        }
    }
}

fn word(text: &str, known: &[&str], later: &[&str]) -> Result<Level, LevelError> {
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    let choice = known.join(", ");
    Err(LevelError(if later.contains(&text) {
        format!("`{text}` is not carried by this version; use one of {choice}")
    } else {
        format!("`{text}` is not one of {choice}")
    }))
}

fn size(text: &str, largest: u64) -> Result<Level, LevelError> {
    let Bytes(bytes) = text.parse().map_err(|error| LevelError(format!("{error}")))?;
    if bytes == 0 || bytes > largest {
        return Err(LevelError(format!(
            "{bytes} bytes is out of range; use 1 to {}",
            Bytes(largest)
        )));
    }
    Ok(bytes.to_string())
}

/// The kernel takes at most 15 characters for a congestion control (TCP_CA_NAME_MAX, linux/tcp.h).
fn name(text: &str) -> Result<Level, LevelError> {
    let is_name = !text.is_empty()
        && text.len() <= 15
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(LevelError(format!("`{text}` is not a name of 1 to 15 letters, digits, `-`, `_`, `.`")))
    }
}
