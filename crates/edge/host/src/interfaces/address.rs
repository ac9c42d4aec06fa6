//! IP addresses as rtnetlink(7) reports them, from the bytes of RTM_NEWADDR (linux/if_addr.h). The crate `if-addrs`
//! leaves out link-local addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fabricmark_ethtool::netlink::{Netlink, NetlinkError, attribute, bodies, number};
use libc::{IFA_ADDRESS, IFA_LOCAL, NLM_F_DUMP, RTM_GETADDR, RTM_NEWADDR};

/// Length of `struct ifaddrmsg`: family, length of the prefix, flags, scope, and at this offset the index of the link.
const INFO_BYTES: usize = 8;
const INDEX_AT: usize = 4;

/// An IP address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Index of the link.
    pub index: u32,
    pub ip: IpAddr,
    /// Length of the prefix, in bits.
    pub prefix: u8,
}

/// Parses the body of RTM_NEWADDR; `None` if it has no IP address. On a point-to-point link IFA_ADDRESS is that of the
/// peer, and IFA_LOCAL the own one.
fn address(body: &[u8]) -> Option<Address> {
    let [family, prefix, ..] = number::<INFO_BYTES>(body)?;
    let attributes = &body[INFO_BYTES..];
    let value = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS))?;
    let ip = match i32::from(family) {
        libc::AF_INET => Ipv4Addr::from(number::<4>(value)?).into(),
        libc::AF_INET6 => Ipv6Addr::from(number::<16>(value)?).into(),
        _ => return None,
    };
    Some(Address { index: u32::from_ne_bytes(number(&body[INDEX_AT..])?), ip, prefix })
}

/// All addresses of the network namespace of the calling thread.
pub(super) fn addresses() -> Result<Vec<Address>, NetlinkError> {
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    let answer = netlink.request(RTM_GETADDR, NLM_F_DUMP as u16, &[0; INFO_BYTES])?;
    let addresses = bodies(&answer).filter(|message| message.kind == RTM_NEWADDR);
    Ok(addresses.filter_map(|message| address(message.body)).collect())
}

#[cfg(test)]
mod tests {
    use fabricmark_ethtool::netlink::{encoded, put};
    use proptest::prelude::*;

    use super::*;

    fn message(family: i32, prefix: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let attributes: Vec<_> = attributes.iter().map(|(kind, value)| put(*kind, value)).collect();
        [&[family as u8, prefix, 0, 0, 7, 0, 0, 0], &encoded(&attributes)[..]].concat()
    }

    #[test]
    fn an_address_is_that_of_this_end() {
        let peer: (u16, &[u8]) = (IFA_ADDRESS, &[10, 0, 0, 2]);
        let own: (u16, &[u8]) = (IFA_LOCAL, &[10, 0, 0, 1]);
        let v6 = "fe80::1".parse::<Ipv6Addr>().unwrap().octets();
        for (body, expected) in [
            (message(libc::AF_INET, 32, &[peer, own]), Some("10.0.0.1")),
            (message(libc::AF_INET6, 64, &[(IFA_ADDRESS, &v6)]), Some("fe80::1")),
            (message(libc::AF_INET6, 64, &[peer]), None),
            (message(libc::AF_PACKET, 0, &[own]), None),
            (message(libc::AF_INET, 8, &[]), None),
        ] {
            let ip = address(&body).map(|address| address.ip.to_string());
            assert_eq!(ip.as_deref(), expected);
        }
        let found = address(&message(libc::AF_INET, 24, &[own])).unwrap();
        assert_eq!((found.index.to_le_bytes(), found.prefix), ([7, 0, 0, 0], 24));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(0_u8..40, 0..100)) {
            let _ = address(&bytes);
        }
    }
}
