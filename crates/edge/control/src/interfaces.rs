//! Network devices of this host: which one an address belongs to, and all of them for a coordinator.

use std::net::IpAddr;

use fabricmark_host::interfaces;
use fabricmark_record as record;
use fabricmark_units::{Instant, Nanos};
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

/// The last list of this host's network interfaces, and when it was made. Listing takes 0.3 ms per interface, during which
/// an agent serves no other connection.
#[derive(Debug, Default)]
pub(crate) struct Listing(Option<(Instant, Vec<record::Interface>)>);

impl Listing {
    /// Time for which a list is reused. An arbitrary choice.
    const FRESH_FOR: Nanos = Nanos::from_secs(1);

    /// The interfaces; calls `list` if the last list is too old.
    pub(crate) fn get<E>(
        &mut self,
        now: Instant,
        list: impl FnOnce() -> Result<Vec<record::Interface>, E>,
    ) -> Result<Vec<record::Interface>, E> {
        match &self.0 {
            Some((listed, interfaces)) if now - *listed < Self::FRESH_FOR => Ok(interfaces.clone()),
            _ => {
                let interfaces = list()?;
                self.0 = Some((now, interfaces.clone()));
                Ok(interfaces)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn interfaces_are_listed_once_a_second_however_many_ask() {
        let (mut listing, mut count) = (Listing::default(), 0);
        for (at_ns, listed) in
            [(0, 1), (1, 1), (999_999_999, 1), (1_000_000_000, 2), (1_500_000_000, 2)]
        {
            let list = || {
                count += 1;
                Ok::<_, ()>(Vec::new())
            };
            assert_eq!(listing.get(Instant(at_ns), list), Ok(Vec::new()));
            assert_eq!(count, listed);
        }
    }

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
