//! Fuzz targets: parsers of bytes from the network, as functions of bytes.
//!
//! Each target accepts any bytes, feeds them to one part of the program, and panics if an invariant is violated. A
//! fuzzer searches for such bytes (`fuzz/README.md`); a test replays the corpus (`tests/corpus.rs`).

mod agent;
mod control;
mod flow;
mod identity;
mod iperf3;
mod netperf;
mod pairing;
mod stamp;
mod validation;
mod wire;

pub use agent::{agent_answer, agent_request};
pub use control::{control_order, control_report};
pub use flow::{apdu, datagram_header, ntp, opening, proxy, reassembly, sequence};
pub use identity::identity;
pub use iperf3::{iperf3_client, iperf3_server, iperf3_words};
pub use netperf::netperf_server;
pub use pairing::pairing;
pub use stamp::{stamp_reflector, stamp_sender};
pub use validation::validation;
pub use wire::{capture, dissection};

/// Name and function of a target.
pub type Target = (&'static str, fn(&[u8]));

macro_rules! targets {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}

/// All targets. The names are those of their corpora and of the fuzzer's binaries.
pub const TARGETS: &[Target] = targets![
    agent_answer,
    agent_request,
    apdu,
    capture,
    control_order,
    control_report,
    datagram_header,
    dissection,
    reassembly,
    identity,
    iperf3_client,
    iperf3_server,
    iperf3_words,
    netperf_server,
    ntp,
    opening,
    pairing,
    proxy,
    sequence,
    stamp_reflector,
    stamp_sender,
    validation,
];
