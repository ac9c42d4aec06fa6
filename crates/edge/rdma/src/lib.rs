//! RDMA verbs by libibverbs, which is loaded on first use: a program with this crate also starts on machines without
//! RDMA, and reports what is missing.
//!
//! [`Adapter`] is the adapter of an IP address, [`Endpoint`] a queue pair with what it needs, and [`Identity`] what
//! its other end must know of it.
//!
//! Not here: patterns and counting (`load`).

#[expect(missing_docs, reason = "the layouts of verbs.h, which documents them")]
mod abi;
mod adapter;
mod endpoint;
mod identity;
mod manager;
mod rsocket;
mod status;
#[expect(unsafe_code, reason = "libibverbs is a C library")]
mod sys;
mod sysfs;

pub use abi::WorkCompletion;
pub use adapter::{Adapter, Unavailable, check_address, packet_bytes};
pub use endpoint::{Endpoint, Kind, ROUTE_HEADER_BYTES};
pub use identity::{IDENTITY_BYTES, Identity};
pub use manager::Manager;
pub use rsocket::{Rsocket, Waiting};
pub use status::{Failed, check};
pub use sys::{Completions, Destination, Flags, Pair, Place, Region, Request};
pub use sysfs::{Gid, GidKind, LinkLayer, Lossless, Port, lossless, ports, ports_in};
