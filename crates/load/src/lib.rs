//! The data plane: traffic is pattern x transport x stop, combined when a run starts, so that the
//! hot loops hold no configuration branch.
//!
//! - [`transport`]: one file each; what moves a payload.
//! - [`pattern`]: one file each; the hot loops.
//! - [`Endpoint`]: one end of a run, from sockets to counts.
//!
//! Deliberately not here: namespaces and links (`lab`), and who decides what to run (`control`).

mod clock;
mod counters;
mod endpoint;
pub mod pattern {
    //! The hot loops. A new pattern is one file and works over every transport.
    pub mod ping_pong;
    pub mod stream;
}
mod sockets;
#[expect(unsafe_code, reason = "socket options that no safe crate offers")]
mod sys;
pub mod transport;

pub use endpoint::{Control, Endpoint, instrument};
