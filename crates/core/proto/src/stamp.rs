//! STAMP, the simple two-way active measurement protocol: a sender's packets carry the time of their
//! departure, and a reflector sends them back with the times at which it received and sent them
//! (RFC 8762, with the session identifier and the extensions of RFC 8972).
//!
//! A packet without authentication is one of TWAMP-Light, too (RFC 5357, appendix I), whose senders may
//! send 14 octets and whose reflectors answer with 41; what STAMP adds behind is padding to them.
//!
//! Erratum 8199 of RFC 8972 is not taken into account: its text was not at hand.

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

/// The port of senders' packets where nobody says another (RFC 8762, section 4.1).
pub const PORT: u16 = 862;
