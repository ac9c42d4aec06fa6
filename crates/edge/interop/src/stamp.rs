//! Round trips by STAMP and TWAMP-Light over UDP: a reflector for others' senders, and a sender for
//! others' reflectors. The protocol is `fabricmark_proto::stamp`; here are sockets and clocks.
//!
//! Arrivals are stamped by the kernel (SO_TIMESTAMPNS), departures by the program just before it sends.
//! Both read CLOCK_REALTIME: a clock that is set during a measurement spoils the round trips of that
//! moment, which count as implausible where they contradict themselves.

mod clock;
mod datagrams;
mod measure;
mod reflect;
#[expect(unsafe_code, reason = "adjtimex(2), which no safe crate has")]
mod sys;

pub use fabricmark_proto::stamp::{
    Counts, Key, PORT, Protocol, Reflector, Session, TimestampInformation, Wanted,
};
pub use measure::{MeasureError, Measured, OneWayDifferences, Seen, Settings, Spread, measure};
pub use reflect::{Served, reflect};
