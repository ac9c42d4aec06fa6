//! STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762, with session identifier and extensions of RFC
//! 8972). A sender's packet carries its departure time; a reflector adds its receive and send times.
//!
//! An unauthenticated packet is also one of TWAMP Light (RFC 5357, appendix I), whose senders may send 14 octets
//! and whose reflectors answer with 41; the additional octets of STAMP are padding there.
//!
//! Erratum 8199 of RFC 8972 is not taken into account: its text was not available.

mod extension;
mod key;
mod packet;
mod reflector;
mod sender;
mod time;

pub use extension::{ClassOfService, Extensions, TimestampInformation, Wanted};
pub use key::Key;
pub use packet::{AUTHENTICATED_BYTES, PACKET_BYTES, PacketError, ReflectorPacket, SenderPacket};
pub use reflector::{Answer, Arrival, Dropped, Reflector};
pub use sender::{Counts, Ignored, OneWay, Protocol, Return, Sender, Session};
pub use time::{ErrorEstimate, Timestamp};

/// Default destination port of a sender's packets (RFC 8762, section 4.1).
pub const PORT: u16 = 862;
