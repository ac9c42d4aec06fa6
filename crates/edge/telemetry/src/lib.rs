//! What is read while a run goes on: clocks, sockets, packets' times, and the counters of the kernel.
//!
//! - [`clock`]: the clock of a run.
//! - [`tcp_info`]: TCP_INFO of a connection; [`subflow`]: of the first subflow of MPTCP.
//! - [`stamp`]: timestamps of packets (SO_TIMESTAMPING).
//! - [`sys`]: socket options and control messages as bytes.
//! - [`kernel`]: counters of the kernel (`/proc/net`).
//! - [`sampler`]: bytes and calls of each interval of a run, from the [`gauge`] that each flow writes.
//!
//! Deliberately not here: what is sent (`load`), and what is known of the machine before and after (`host`).

pub mod clock;
pub mod gauge;
pub mod kernel;
pub mod netlink;
pub mod sampler;
pub mod stamp;
pub mod subflow;
#[expect(unsafe_code, reason = "calls that no safe crate offers")]
pub mod sys;
pub mod tcp_info;
