//! Which network device an address belongs to.

use std::net::IpAddr;

use fabricmark_host::interfaces;
use fabricmark_wire::{Link, MTU_DEFAULT};
use if_addrs::{Interface, get_if_addrs};

/// A device and its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
}

/// The device with this address; without name and addresses if there is none.
pub(crate) fn device_of(address: IpAddr) -> Device {
    let address = address.to_canonical();
    // Without permission to list addresses, nothing is known.
    let all: Vec<Interface> = get_if_addrs().unwrap_or_default();
    let Some(name) = all.iter().find(|one| one.ip() == address).map(|one| one.name.clone()) else {
        return Device::default();
    };
    let addresses = all.iter().filter(|one| one.name == name).map(Interface::ip).collect();
    Device { name, addresses }
}

/// The link of a device, as far as it is known; without a rate if nothing is known of the device.
pub(crate) fn link_of(device: &str) -> Link {
    interfaces::facts(device).map_or(Link::Veth { mtu: MTU_DEFAULT }, |facts| facts.link())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn loopback_has_its_address_and_a_strange_one_no_device() {
        let loopback = device_of(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into());
        assert_eq!(loopback.name, "lo");
        assert!(loopback.addresses.contains(&Ipv4Addr::LOCALHOST.into()), "{loopback:?}");
        assert_eq!(device_of(Ipv6Addr::from(1 << 127).into()), Device::default());
        assert_eq!(link_of("lo"), Link::Loopback);
        assert_eq!(link_of(""), Link::Veth { mtu: MTU_DEFAULT });
    }
}
