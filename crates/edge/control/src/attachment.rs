//! Where an end of a run is attached to its network, and what is known of it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use fabricmark_record::{Carrier, ClockOffset, HostFacts};

use crate::error::PlanError;
use crate::host::towards;
use crate::interfaces::device_of;

/// Where an end of a run is attached to its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// Network device.
    pub(crate) device: String,
    /// Address that sockets are bound to.
    pub(crate) address: IpAddr,
    /// Number of the device, where the address needs it.
    pub(crate) scope_id: u32,
}

impl Attachment {
    /// Of this host to whatever leads to an address.
    pub(crate) fn towards(at: SocketAddr) -> io::Result<Self> {
        let address = towards(at)?.ip();
        let scope_id = match at {
            SocketAddr::V6(at) => at.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        Ok(Self { device: device_of(address).name, address, scope_id })
    }

    /// Of this host, by an address that it has.
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

/// What is known of a node beside what its worker reports.
pub(crate) struct NodeFacts {
    /// How it is reached.
    pub(crate) carrier: Carrier,
    /// Its network namespace.
    pub(crate) namespace: Option<String>,
    /// Its machine, where that is not this one.
    pub(crate) host: Option<HostFacts>,
    /// How far its clock is from ours.
    pub(crate) clock_offset: Option<ClockOffset>,
}

impl NodeFacts {
    /// Of a node on this machine.
    pub(crate) fn here(namespace: Option<String>) -> Self {
        Self { carrier: Carrier::LocalSocket, namespace, host: None, clock_offset: None }
    }
}
