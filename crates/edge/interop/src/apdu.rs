//! The round-trip protocol of paper P5 over UDP, multicast and TCP: an end that answers, and one that measures. The
//! protocol is `fabricmark_proto::Peer`; sockets are here.
//!
//! Departures are stamped just before the send call, arrivals when poll(2) has reported them and before they are
//! received, as the paper's figure 4 has it. The clock is CLOCK_MONOTONIC.

mod measure;
mod multicast;
mod reflect;

pub use fabricmark_proto::ApduCounts;
pub use measure::{Each, MeasureError, Settings, Transport, measure};
pub use multicast::join;
pub use reflect::{reflect_connections, reflect_datagrams};

use fabricmark_telemetry::clock;

/// Default port. The paper has none.
pub const PORT: u16 = 7479;

/// The time for stamps; 0 would mean that there is none.
fn now_ns() -> u64 {
    clock::now_ns().max(1)
}
