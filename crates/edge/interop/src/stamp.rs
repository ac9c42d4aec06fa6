//! RTT by STAMP and TWAMP-Light over UDP: a reflector for other tools' senders, and a sender for other tools'
//! reflectors. The protocol is `fabricmark_proto::stamp`; sockets and clocks are here.
//!
//! The kernel takes the timestamp of an arrival (SO_TIMESTAMPNS); the program takes that of a departure just before
//! it sends. Both are CLOCK_REALTIME: setting that clock during a measurement distorts the RTTs of that moment.
//! RTTs that contradict themselves are counted as implausible.

mod clock;
mod measure;
mod reflect;
#[expect(unsafe_code, reason = "adjtimex(2), which no safe crate has")]
mod sys;

pub(crate) use clock::time;
pub use fabricmark_proto::stamp::{
    Counts, Key, PORT, Protocol, Reflector, Session, TimestampInformation, Wanted,
};
pub use measure::{MeasureError, Measured, OneWayDifferences, Seen, Settings, Spread, measure};
pub use reflect::{Served, reflect};
