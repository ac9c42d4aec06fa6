//! What is read while a run goes on: clocks, sockets, packets' times, and the counters of the kernel.
//!
//! - [`Clock`]: what time is read from.
//! - [`tcp_info`]: what TCP says of a connection; [`subflow`]: of the first path of MPTCP.
//! - [`stamp`]: times that the kernel gave to packets.
//! - [`kernel`]: what it counted beside the sockets.
//! - [`sampler`]: what each interval of a run moved, from the [`gauge`]s of the hot loops.
//!
//! Deliberately not here: what is sent (`load`), and what is known of the machine before and after (`host`).

pub mod clock;
pub mod gauge;
pub mod kernel;
pub mod netlink;
mod proc_net;
pub mod sampler;
pub mod stamp;
pub mod subflow;
pub mod tcp_info;

pub use clock::{Clock, NoTsc, Tsc};
