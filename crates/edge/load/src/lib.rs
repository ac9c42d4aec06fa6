//! The data plane. Traffic is pattern x transport x path x pace x stop. These are combined when a run starts, so that
//! the hot loops contain no configuration branch.
//!
//! - [`transport`]: what moves a payload, one file each.
//! - [`path`]: alternatives to one plain system call per payload, one file each.
//! - [`pattern`]: the hot loops, one file each.
//! - [`Pacer`]: waits for the departures of an open loop.
//! - [`Endpoint`]: one end of a run, from sockets to counts.
//! - [`foreign`]: the same over flows that another tool's protocol opens.
//!
//! Not here: namespaces and links (`lab`), what is read during a run (`telemetry`), what to run (`control`).

mod amount;
mod buffer;
mod carry;
mod control;
mod descriptors;
mod endpoint;
mod failure;
mod flow_set;
mod opening;
mod options;
pub mod path {
    //! Alternatives to one plain system call per payload.
    pub mod gso;
    pub mod mmsg;
    pub mod pages;
    #[expect(unsafe_code, reason = "calls that no safe crate offers")]
    mod sys;
    pub mod uring;
}
mod pacer;
pub mod pattern {
    //! The hot loops. A new pattern is one file and works over every transport.
    pub mod answer;
    pub mod arrivals;
    pub(crate) mod crr;
    pub(crate) mod crr_many;
    mod paced_requests;
    pub mod paced_rr;
    pub mod paced_stream;
    pub(crate) mod ping_ping;
    pub mod rr;
    pub mod stream;
}
mod interrupt;
mod response_limit;
#[cfg(test)]
mod scripted;
mod slices;
pub mod smc;
mod sockets;
mod tcp;
mod threads;
pub mod transport;
mod watch;
mod window;

pub use carry::instrument;
pub use control::{Control, Event};
pub use descriptors::own_descriptors;
pub use endpoint::{Endpoint, foreign};
pub use failure::caught;
pub use pacer::{Pacer, Waiting};
pub use response_limit::LATE_MAX;
