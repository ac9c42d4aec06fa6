//! Who the other end of runs is, and the right to use it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use fabricmark_interop::iperf3::Credentials;
use fabricmark_record::Calibration;
use rustls::ClientConfig;

use crate::host::AgentHost;

/// Where workers come from.
pub struct Workers<'a> {
    /// This program, which is started as a worker.
    pub program: &'a Path,
    /// Who answers.
    pub peer: &'a Peer,
    /// How true this machine's emulator is, where that was measured: records carry it in short. It
    /// decides nothing.
    pub calibration: Option<&'a Calibration>,
}

/// Who answers.
#[derive(Clone, Debug)]
pub enum Peer {
    /// Workers on this machine.
    Here,
    /// Workers of agents, by the name of their node; the other nodes are this host.
    Agents(BTreeMap<String, AgentAccess>),
    /// A server of iperf3.
    Iperf3(Iperf3Access),
    /// Workers on this machine, told apart by address: where both ends of a wire are plugged in here.
    Ends([IpAddr; 2]),
}

/// An agent and the right to use it.
#[derive(Clone, Debug)]
pub struct AgentAccess {
    /// Where it is.
    pub host: AgentHost,
    /// TLS with the key of this host, and whom it knows.
    pub tls: Arc<ClientConfig>,
}

/// A server of iperf3 and the right to use it.
#[derive(Clone, Debug)]
pub struct Iperf3Access {
    /// As the user named it.
    pub name: String,
    /// Where it listens.
    pub server: SocketAddr,
    /// User and password, where it asks for them.
    pub credentials: Option<Credentials>,
}
