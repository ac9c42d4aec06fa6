//! Where the ends of runs are, and the credentials to use them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use fabricmark_interop::iperf3::Credentials;
use fabricmark_record::Calibration;
use rustls::ClientConfig;

use crate::host::AgentHost;

/// How workers are started.
pub struct Workers<'a> {
    /// This program, which is started as worker.
    pub program: &'a Path,
    /// Where the ends of runs are.
    pub peer: &'a Peer,
    /// Accuracy of this machine's emulator, if it was measured. Records contain a summary of it; it has no other
    /// effect.
    pub calibration: Option<&'a Calibration>,
}

/// Where the ends of runs are.
#[derive(Clone, Debug)]
pub enum Peer {
    /// Workers on this machine.
    Here,
    /// Workers of agents, by the name of their node; the other nodes are on this host.
    Agents(BTreeMap<String, AgentAccess>),
    /// Client here, server of iperf3.
    Iperf3(Iperf3Access),
    /// Workers on this machine at two of its addresses, for a wire with both ends plugged in here.
    Ends([IpAddr; 2]),
}

/// An agent and the credentials to use it.
#[derive(Clone, Debug)]
pub struct AgentAccess {
    /// Addresses of the agent.
    pub host: AgentHost,
    /// TLS with the key of this host, and the hosts that it trusts.
    pub tls: Arc<ClientConfig>,
}

/// An iperf3 server and the credentials to use it.
#[derive(Clone, Debug)]
pub struct Iperf3Access {
    /// Name, as the user gave it.
    pub name: String,
    /// Address at which it listens.
    pub server: SocketAddr,
    /// User and password, if the server requires them.
    pub credentials: Option<Credentials>,
}
