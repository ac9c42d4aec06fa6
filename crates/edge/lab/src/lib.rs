//! Test networks on this machine: namespaces, veth pairs between them, shaped and emulated links.
//!
//! A file descriptor of this process holds a namespace, which has no name on the system. So nothing is left behind
//! however the process ends.
//!
//! Out of scope: what is sent through the network (`load`) and when (`control`).

mod backpressure;
mod bus;
mod device;
mod emulator;
pub mod held;
mod kernel;
mod namespace;
mod network;
mod offload;
mod path;
mod pool;
mod port;
mod privilege;
mod qdisc;
mod route;
mod segment;
mod shared;
#[expect(unsafe_code, reason = "namespaces and TUN devices are made by raw system calls")]
mod sys;
mod table;
mod tool;
mod topology;
mod tun;
mod wiring;
mod writer;

pub use emulator::Emulator;
pub use fabricmark_plan::{Offload, Role};
pub use kernel::wire_of;
pub use namespace::Namespace;
pub use network::Lab;
pub use path::{LinkEnd, Traffic};
pub use privilege::acquire;
pub use qdisc::Backend;
pub use tool::LabError;
pub use topology::{Junction, Node, Source, Topology, TopologyError, Way, Wire};
pub use tun::Tun;
pub use wiring::Wiring;
