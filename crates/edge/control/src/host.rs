//! Where an agent is, as a user names it.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use fabricmark_wire::{Family, Link};

use crate::carrier::AgentError;
use crate::interfaces::{device_of, link_of};

/// Port of an agent where none is named; unassigned by IANA.
pub const AGENT_PORT: u16 = 7477;

/// A host with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentHost {
    /// As the user named it.
    pub name: String,
    /// Where its agent listens, the likeliest first.
    pub control: Vec<SocketAddr>,
    /// Where data goes.
    pub data: Vec<SocketAddr>,
}

impl AgentHost {
    /// Looks names up: `host`, `host:7477`, `[2001:db8::1]:7477`, `fe80::1%eth0`; several addresses with
    /// commas between are those of one host. Orders may take another way than data.
    pub fn find(text: &str, control: Option<&str>) -> Result<Self, AgentError> {
        let data = look_up(text, AGENT_PORT)?;
        let control = control.map_or_else(|| Ok(data.clone()), |text| look_up(text, AGENT_PORT))?;
        Ok(Self { name: text.to_owned(), control, data })
    }

    /// What is known of the wire that leads to the host: that of the device that data leaves by.
    pub fn link(&self) -> Option<Link> {
        link_towards(*self.data.first()?)
    }

    /// Where data of a family goes, by what the user said or else by what the agent says of itself.
    pub(crate) fn data_address(&self, family: Family, known: &[IpAddr]) -> Option<SocketAddr> {
        let fits = |address: &IpAddr| address.is_ipv4() == (family == Family::V4);
        let named = self.data.iter().find(|address| fits(&address.ip())).copied();
        let told = known.iter().find(|address| fits(address) && !is_link_local(address));
        named.or_else(|| told.map(|&address| SocketAddr::new(address, 0)))
    }
}

/// What is known of the wire that leads to an address: that of the device that data leaves by.
pub fn link_towards(at: SocketAddr) -> Option<Link> {
    Some(link_of(&device_of(towards(at).ok()?.ip()).name))
}

/// Addresses of a host, each with the port that is named or else with this one; those that are parted by
/// commas are of one host.
pub fn look_up(text: &str, port: u16) -> Result<Vec<SocketAddr>, AgentError> {
    let all: Result<Vec<_>, _> = text.split(',').map(|text| addresses(text, port)).collect();
    Ok(all?.concat())
}

/// The address from which the kernel would send to another; nothing is sent (udp(7)).
pub(crate) fn towards(at: SocketAddr) -> io::Result<SocketAddr> {
    let any: SocketAddr = if at.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any)?;
    let mut at = at;
    // A port of 0 is no destination.
    at.set_port(at.port().max(1));
    socket.connect(at)?;
    socket.local_addr()
}

/// Such an address means something only together with a device.
fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn addresses(text: &str, default: u16) -> Result<Vec<SocketAddr>, AgentError> {
    let text = text.trim();
    let (name, port) = match text.rsplit_once(':') {
        // An IPv6 address has more than one colon, and a port only behind brackets.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port.parse()),
        _ => (text, Ok(default)),
    };
    let fail = |why: String| AgentError { host: text.to_owned(), why };
    let port = port.map_err(|_| fail("has a port that is no number up to 65535".to_owned()))?;
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let found = (name, port).to_socket_addrs();
    let found = found.map_err(|error| fail(format!("is not found: {error}")))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_with_and_without_ports() {
        for (text, found) in [
            ("192.0.2.1", "192.0.2.1:7477"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("2001:db8::1", "[2001:db8::1]:7477"),
            ("[2001:db8::1]", "[2001:db8::1]:7477"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
            ("fe80::1%lo", "[fe80::1%1]:7477"),
        ] {
            assert_eq!(addresses(text, AGENT_PORT).unwrap(), [found.parse().unwrap()], "{text}");
        }
        let error = addresses("192.0.2.1:http", AGENT_PORT).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the agent at 192.0.2.1:http has a port that is no number up to 65535"
        );
    }

    #[test]
    fn data_goes_to_what_was_named_or_else_to_what_the_agent_says() {
        let host = AgentHost::find("192.0.2.1", Some("198.51.100.1")).unwrap();
        assert_eq!(host.control, ["198.51.100.1:7477".parse().unwrap()]);
        let known = ["192.0.2.9", "fe80::1", "2001:db8::1"].map(|text| text.parse().unwrap());
        let of = |family| host.data_address(family, &known).map(|at| at.ip().to_string());
        assert_eq!(of(Family::V4).as_deref(), Some("192.0.2.1"));
        assert_eq!(of(Family::V6).as_deref(), Some("2001:db8::1"));
        assert_eq!(host.data_address(Family::V6, &known[..2]), None);
    }
}
