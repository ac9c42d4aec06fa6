//! Access control and limits for ports whose protocol has no authentication.

use std::net::IpAddr;
use std::str::FromStr;

use fabricmark_units::{BitRate, Nanos};
use ipnet::IpNet;

/// Addresses that may use a port: `192.0.2.0/24`, `2001:db8::/32`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

/// The text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network: write 192.0.2.0/24, 2001:db8::/32, or one address")]
pub struct NetworkError(String);

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let net: Result<IpNet, _> = text.parse();
        let one = || text.parse().map(|address: IpAddr| IpNet::from(address));
        net.or_else(|_| one()).map(Self).map_err(|_| NetworkError(text.to_owned()))
    }
}

/// Who may use a port, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Networks that may use the port, in addition to loopback.
    pub allowed: Vec<Network>,
    /// Maximum rate at which the port sends to one client, all flows together, in application bits per second.
    pub rate_max: BitRate,
    /// Maximum duration of a test.
    pub duration_max: Nanos,
    /// Maximum number of clients served at a time.
    pub clients_max: usize,
    /// First and last port for the data of clients that may name one. `None`: any from 1024 on.
    pub ports: Option<(u16, u16)>,
}

impl Default for Guard {
    /// Loopback only; 100 Gbit/s, more than one CPU can send; one hour; 64 clients, each of which needs one or two
    /// threads.
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            rate_max: BitRate(100_000_000_000),
            duration_max: Nanos::from_secs(3600),
            clients_max: 64,
            ports: None,
        }
    }
}

impl Guard {
    /// Whether an address may use the port. Loopback always may.
    pub fn admits(&self, address: IpAddr) -> bool {
        // A dual-stack socket reports IPv4 addresses as IPv4-mapped IPv6 addresses (RFC 4291, section 2.5.5.2).
        let address = address.to_canonical();
        address.is_loopback() || self.allowed.iter().any(|Network(net)| net.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_admitted_and_others_only_where_they_are_allowed() {
        let guard = Guard { allowed: vec!["192.0.2.0/24".parse().unwrap()], ..Guard::default() };
        for (address, is_admitted) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("192.0.2.200", true),
            ("::ffff:192.0.2.200", true),
            ("192.0.3.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(guard.admits(address.parse().unwrap()), is_admitted, "{address}");
        }
    }

    #[test]
    fn one_address_is_a_network_and_a_name_is_none() {
        let one: Network = "2001:db8::1".parse().unwrap();
        let guard = Guard { allowed: vec![one], ..Guard::default() };
        assert!(guard.admits("2001:db8::1".parse().unwrap()));
        assert!(!guard.admits("2001:db8::2".parse().unwrap()));
        assert_eq!(
            "host".parse::<Network>().unwrap_err().to_string(),
            "`host` is not a network: write 192.0.2.0/24, 2001:db8::/32, or one address"
        );
    }
}
