//! RDMA verbs, by libibverbs, which is loaded when it is first wanted: a program that has this crate starts on
//! machines without RDMA, too, and says what is missing.
//!
//! [`Adapter`] finds and opens what an IP address belongs to, [`Endpoint`] is a queue pair with what it
//! needs, [`Identity`] is what its other end has to know of it.
//!
//! Deliberately not here: patterns and counting (`load`).

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
pub use sysfs::{Gid, GidKind, LinkLayer, Lossless, Port, lossless, ports};
