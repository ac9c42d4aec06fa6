//! Transports above a link.

use crate::{Family, Ib, Impossible, Ipoib, Link, MTU_MIN};

/// The transport of a payload, with the options that determine the size of its headers.
///
/// `family` is the IP version; for verbs, only RoCEv2 uses it. `immediate` adds 4 bytes of immediate data.
#[expect(missing_docs, reason = "fields that several have are explained above")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// UDP: one datagram per payload, fragmented by IP if it exceeds the MTU.
    Udp { family: Family },
    /// TCP: the payload in full segments and a remainder.
    Tcp {
        family: Family,
        /// Length of the options of each segment in bytes: 0 or [`TCP_TIMESTAMPS`](crate::frame::TCP_TIMESTAMPS).
        option_bytes: u8,
    },
    /// Verbs on a reliable connection: one message per payload, in as many packets as needed.
    Rc {
        /// Operation of the message.
        operation: Operation,
        immediate: bool,
        family: Family,
    },
    /// Verbs with unreliable datagrams: one packet per payload.
    Ud { immediate: bool, family: Family },
}

/// Operation on a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Sends into a buffer that the receiver has posted.
    Send,
    /// RDMA WRITE: writes to a remote address that the sender names.
    Write,
    /// RDMA READ: reads remote memory; the payload travels in the response.
    Read,
}

impl Operation {
    /// Keyword: `send`, `write` or `read`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

impl Stack {
    /// IP version. For verbs, only RoCEv2 uses it.
    pub fn family(self) -> Family {
        match self {
            Self::Udp { family }
            | Self::Tcp { family, .. }
            | Self::Rc { family, .. }
            | Self::Ud { family, .. } => family,
        }
    }

    /// Whether the payload is carried by verbs instead of IP.
    pub fn is_verbs(self) -> bool {
        matches!(self, Self::Rc { .. } | Self::Ud { .. })
    }

    /// Maximum packet of this stack on `link`, in bytes: for IP including its header, for verbs the payload only.
    pub(crate) fn mtu_over(self, link: Link) -> Result<u64, Impossible> {
        link.check()?;
        match (link, self.is_verbs()) {
            (Link::Loopback | Link::Veth { .. }, _) => return Err(Impossible::NoWire(link)),
            (Link::Ethernet { .. } | Link::Ipoib(_), false)
            | (Link::Ib(_) | Link::RoceV1 { .. } | Link::RoceV2 { .. }, true) => {}
            (Link::Ethernet { rate, .. }, true) => {
                return Err(Impossible::NoVerbs { link, instead: format!("rocev2:{rate}") });
            }
            (Link::RoceV1 { rate, .. } | Link::RoceV2 { rate, .. }, false) => {
                return Err(Impossible::NoIp { link, instead: format!("ethernet:{rate}") });
            }
            (Link::Ipoib(Ipoib { lanes, speed, .. }), true) => {
                let instead = format!("ib:{}X-{speed}", lanes.get());
                return Err(Impossible::NoVerbs { link, instead });
            }
            (Link::Ib(Ib { lanes, speed, .. }), false) => {
                let instead = format!("ipoib:{}X-{speed}", lanes.get());
                return Err(Impossible::NoIp { link, instead });
            }
        }
        let has_ip = !matches!(link, Link::Ib(_) | Link::RoceV1 { .. });
        if has_ip && self.family() == Family::V6 && link.mtu() < MTU_MIN {
            let remedy = match link {
                Link::Ipoib(_) => "use ib-mtu=2048, mode=connected or IPv4",
                _ => "use mtu=1280 or more, or IPv4",
            };
            return Err(Impossible::Ipv6Mtu { link, remedy });
        }
        Ok(u64::from(link.path_mtu().unwrap_or(link.mtu())))
    }
}
