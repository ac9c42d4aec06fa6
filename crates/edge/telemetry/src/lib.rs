//! What is read while a run goes on: clocks, sockets, packets' times, and the counters of the kernel.
//!
//! - [`Clock`]: the clock of a run, CLOCK_MONOTONIC or the time-stamp counter.
//! - [`tcp_info`]: TCP_INFO of a connection; [`subflow`]: of the first subflow of MPTCP.
//! - [`stamp`]: timestamps of packets (SO_TIMESTAMPING).
//! - [`kernel`]: counters of the kernel (`/proc/net`).
//! - [`sampler`]: bytes and calls of each interval of a run, from the [`gauge`] that each flow writes.
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
