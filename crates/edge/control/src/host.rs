//! Addresses of an agent, as a user names them.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use fabricmark_wire::{Family, Link};

use crate::interfaces::{device_of, link_of};

/// Default port of an agent; unassigned by IANA.
pub const AGENT_PORT: u16 = 7477;

/// Why a host that a user named has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is no host.
    #[error("`{text}` {why}")]
    Malformed {
        /// The host, as the user named it.
        text: String,
        /// What is wrong, and the remedy.
        why: &'static str,
    },
    /// The system knows no address of that name.
    #[error("cannot resolve the name {name}: {why}")]
    Unresolved {
        /// The name.
        name: String,
        /// What the system's resolver says.
        why: String,
    },
}

/// A host with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentHost {
    /// Name, as the user gave it.
    pub name: String,
    /// Addresses at which its agent listens, the most likely first.
    pub control: Vec<SocketAddr>,
    /// Addresses for data.
    pub data: Vec<SocketAddr>,
}

impl AgentHost {
    /// Resolves `host`, `host:7477`, `[2001:db8::1]:7477` or `fe80::1%eth0`; addresses separated by commas belong
    /// to one host. `control` names other addresses for orders, so that these may take another path than data.
    pub fn find(text: &str, control: Option<&str>) -> Result<Self, AddressError> {
        let data = look_up(text, AGENT_PORT)?;
        let control = control.map_or_else(|| Ok(data.clone()), |text| look_up(text, AGENT_PORT))?;
        Ok(Self { name: text.to_owned(), control, data })
    }

    /// The link to the host, as far as it is known from the device by which data leaves.
    pub fn link(&self) -> Option<Link> {
        link_towards(*self.data.first()?)
    }

    /// Address for data of a family: one that the user named, or else one that the agent reported.
    pub(crate) fn data_address(&self, family: Family, known: &[IpAddr]) -> Option<SocketAddr> {
        let fits = |address: &IpAddr| address.is_ipv4() == (family == Family::V4);
        let named = self.data.iter().find(|address| fits(&address.ip())).copied();
        let told = known.iter().find(|address| fits(address) && !is_link_local(address));
        named.or_else(|| told.map(|&address| SocketAddr::new(address, 0)))
    }
}

/// The link to an address, as far as it is known from the device by which data leaves.
pub fn link_towards(at: SocketAddr) -> Option<Link> {
    Some(link_of(&device_of(towards(at).ok()?.ip()).name))
}

/// Addresses of a host, each with the port that is named or else with `port`. Addresses separated by commas belong
/// to one host.
pub fn look_up(text: &str, port: u16) -> Result<Vec<SocketAddr>, AddressError> {
    let all: Result<Vec<_>, _> = text.split(',').map(|text| addresses(text, port)).collect();
    Ok(all?.concat())
}

/// Local address from which the kernel would send to `at`; nothing is sent (udp(7)).
pub(crate) fn towards(at: SocketAddr) -> io::Result<SocketAddr> {
    let any: SocketAddr = if at.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any)?;
    let mut at = at;
    // A port of 0 is not a valid destination.
    at.set_port(at.port().max(1));
    socket.connect(at)?;
    socket.local_addr()
}

/// Whether an address is valid only together with a device.
pub(crate) fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Checks the syntax of names and ports as [`look_up`] does, without resolving the names.
pub fn check_syntax(text: &str) -> Result<(), AddressError> {
    text.split(',').try_for_each(|text| name_and_port(text.trim(), AGENT_PORT).map(drop))
}

/// Splits a host into its name, or its address without brackets, and its port, by default `default`.
fn name_and_port(text: &str, default: u16) -> Result<(&str, u16), AddressError> {
    let (name, port) = match text.rsplit_once(':') {
        // An IPv6 address has several colons, and a port only after brackets.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port.parse()),
        _ => (text, Ok(default)),
    };
    let malformed = |why| AddressError::Malformed { text: text.to_owned(), why };
    let port = port.map_err(|_| malformed("has an invalid port; use a number up to 65535"))?;
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if name.is_empty() {
        return Err(malformed("has no host name or address"));
    }
    if name.parse().is_ok_and(|address| is_link_local(&IpAddr::V6(address))) {
        let why = "is a link-local address: add the network device, such as fe80::1%eth0";
        return Err(malformed(why));
    }
    Ok((name, port))
}

fn addresses(text: &str, default: u16) -> Result<Vec<SocketAddr>, AddressError> {
    let (name, port) = name_and_port(text.trim(), default)?;
    let found = (name, port).to_socket_addrs().map_err(|error| AddressError::Unresolved {
        name: name.to_owned(),
        why: error.to_string(),
    })?;
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
        for (text, says) in [
            ("192.0.2.1:http", "has an invalid port; use a number up to 65535"),
            ("node2:99999", "has an invalid port; use a number up to 65535"),
            ("node2:", "has an invalid port; use a number up to 65535"),
            ("", "has no host name or address"),
            (":7477", "has no host name or address"),
            ("fe80::1", "is a link-local address: add the network device, such as fe80::1%eth0"),
        ] {
            let error = addresses(text, AGENT_PORT).unwrap_err();
            assert_eq!(error.to_string(), format!("`{text}` {says}"));
        }
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
