//! Which network device an address belongs to.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use fabricmark_units::BitRate;
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

/// The link of a device, as far as it is known: rate and MTU. Without a rate if the device is virtual or not
/// Ethernet: an InfiniBand device reports a rounded rate, from which no bound follows.
pub(crate) fn link_of(device: &str) -> Link {
    let read = |name: &str| fs::read_to_string(format!("/sys/class/net/{device}/{name}")).ok();
    let mtu = read("mtu").and_then(|text| text.trim().parse().ok()).unwrap_or(MTU_DEFAULT);
    // The drivers of virtual devices report invented rates.
    let is_real = Path::new(&format!("/sys/class/net/{device}/device")).exists();
    let speed_mbps: Option<u64> = read("speed").and_then(|text| text.trim().parse().ok());
    // ARPHRD_ETHER (linux/if_arp.h).
    let is_ethernet = read("type").is_some_and(|text| text.trim() == "1");
    match speed_mbps.filter(|&mbps| is_real && is_ethernet && mbps > 0) {
        Some(mbps) => Link::Ethernet { rate: BitRate(mbps * 1_000_000), mtu, vlan: 0 },
        None if device == "lo" => Link::Loopback,
        None => Link::Veth { mtu },
    }
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
    }
}
