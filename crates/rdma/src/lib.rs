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
mod status;
#[expect(unsafe_code, reason = "libibverbs is a C library")]
mod sys;
mod sysfs;

pub use abi::WorkCompletion;
pub use adapter::{Adapter, Unavailable};
pub use endpoint::{Endpoint, Kind};
pub use identity::{IDENTITY_BYTES, Identity};
pub use status::{Failed, check};
pub use sys::{Completions, Flags, Operation, Pair, Place, Region, Route};
pub use sysfs::{Gid, GidKind, LinkLayer, Port, ports};
