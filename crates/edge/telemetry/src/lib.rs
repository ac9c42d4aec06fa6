//! What is measured during a run: clocks, sockets, packet timestamps and kernel counters.
//!
//! - [`clock`]: the clock of a run.
//! - [`tcp_info`]: TCP_INFO of a connection; [`subflow`]: of the first subflow of MPTCP.
//! - [`stamp`]: packet timestamps (SO_TIMESTAMPING).
//! - [`datagrams`]: datagrams with fields of their IP header.
//! - [`sys`]: socket options and control messages as bytes.
//! - [`kernel`]: kernel counters (`/proc/net`).
//! - [`sampler`]: bytes and calls of each interval of a run, from the [`gauge`] that each flow writes.
//!
//! Not here: what is sent (`load`), and facts about the machine before and after a run (`host`).

pub mod clock;
pub mod datagrams;
pub mod gauge;
pub mod kernel;
pub mod netlink;
pub mod sampler;
pub mod stamp;
pub mod subflow;
#[expect(unsafe_code, reason = "calls that no safe crate offers")]
pub mod sys;
pub mod tcp_info;
