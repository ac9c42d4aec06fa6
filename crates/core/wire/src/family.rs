//! The two IP versions.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::frame::{IPV4_HEADER, IPV6_HEADER};

/// A version of the Internet Protocol; the integer 4 or 6 in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Family {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// A number other than 4 and 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an IP version: write 4 or 6")]
pub struct UnknownFamily(pub u8);

impl Family {
    /// Length of the IP header without options or extension headers, in bytes.
    pub const fn header_bytes(self) -> u64 {
        match self {
            Self::V4 => IPV4_HEADER,
            Self::V6 => IPV6_HEADER,
        }
    }

    /// Maximum UDP payload in bytes: 65,507 or 65,527.
    ///
    /// The maximum packet of 65,535 bytes includes the header in IPv4 (RFC 791) but not in IPv6 (RFC 8200).
    pub const fn udp_payload_max(self) -> u64 {
        match self {
            Self::V4 => 65_507,
            Self::V6 => 65_527,
        }
    }
}

impl TryFrom<u8> for Family {
    type Error = UnknownFamily;

    fn try_from(version: u8) -> Result<Self, UnknownFamily> {
        match version {
            4 => Ok(Self::V4),
            6 => Ok(Self::V6),
            other => Err(UnknownFamily(other)),
        }
    }
}

impl From<Family> for u8 {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv{}", u8::from(*self))
    }
}

impl JsonSchema for Family {
    fn schema_name() -> Cow<'static, str> {
        "Family".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "IP version", "type": "integer", "enum": [4, 6] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_a_number_in_json_and_a_name_in_text() {
        assert_eq!(serde_json::to_string(&Family::V6).unwrap(), "6");
        assert_eq!(serde_json::from_str::<Family>("4").unwrap(), Family::V4);
        assert_eq!(Family::V4.to_string(), "IPv4");
        let error = serde_json::from_str::<Family>("5").unwrap_err();
        assert_eq!(error.to_string(), "`5` is not an IP version: write 4 or 6");
    }
}
