//! How an end of a run is attached to its network, and facts about its node.

use std::io;
use std::net::{IpAddr, SocketAddr};

use fabricmark_record::{Carrier, ClockOffset, HostFacts};

use crate::error::PlanError;
use crate::host::towards;
use crate::interfaces::device_of;

/// Attachment of an end of a run to its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// Name of the network device.
    pub(crate) device: String,
    /// Address to which sockets are bound.
    pub(crate) address: IpAddr,
    /// Scope id of the address, if it needs one; otherwise 0.
    pub(crate) scope_id: u32,
}

impl Attachment {
    /// The attachment of this host on its route to an address.
    pub(crate) fn towards(at: SocketAddr) -> io::Result<Self> {
        let address = towards(at)?.ip();
        let scope_id = match at {
            SocketAddr::V6(at) => at.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        Ok(Self { device: device_of(address).name, address, scope_id })
    }

    /// The attachment of this host by one of its addresses.
    pub(crate) fn here(address: IpAddr) -> Result<Self, PlanError> {
        let device = device_of(address).name;
        if device.is_empty() {
            return Err(PlanError::Input(format!(
                "no device of this machine has the address {address}: see `ip address`"
            )));
        }
        Ok(Self { device, address, scope_id: 0 })
    }
}

/// Facts about a node besides those that its worker reports.
pub(crate) struct NodeFacts {
    /// How the coordinator reaches it.
    pub(crate) carrier: Carrier,
    /// Its network namespace, if it has one.
    pub(crate) namespace: Option<String>,
    /// Its machine; `None`: this one.
    pub(crate) host: Option<HostFacts>,
    /// Boot id of its machine; `None`: this one.
    pub(crate) boot: Option<String>,
    /// Offset of its clock from ours.
    pub(crate) clock_offset: Option<ClockOffset>,
}

impl NodeFacts {
    /// Facts about a node on this machine.
    pub(crate) fn here(namespace: Option<String>) -> Self {
        Self {
            carrier: Carrier::LocalSocket,
            namespace,
            host: None,
            boot: None,
            clock_offset: None,
        }
    }
}
