//! What stands above a link and carries the payload.

use crate::{Family, Ib, Impossible, Ipoib, Link, MTU_MIN};

/// The transport of a payload, with what decides the size of its headers.
///
/// `family` is the version of IP; of verbs only RoCEv2 looks at it. `immediate` is whether 4 bytes for
/// the receiver travel beside the payload.
#[expect(missing_docs, reason = "fields that several have are explained above")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// UDP: one datagram for a payload, fragmented by IP where it is larger than the MTU.
    Udp { family: Family },
    /// TCP: a payload cut into full segments and a rest.
    Tcp {
        family: Family,
        /// Length of the options in each segment, in bytes: 0 or
        /// [`TCP_TIMESTAMPS`](crate::frame::TCP_TIMESTAMPS).
        option_bytes: u8,
    },
    /// Verbs over a reliable connection: one message for a payload, in as many packets as it takes.
    Rc {
        /// What the message does.
        operation: Operation,
        immediate: bool,
        family: Family,
    },
    /// Verbs as unreliable datagrams: one packet for a payload.
    Ud { immediate: bool, family: Family },
}

/// What a message on a reliable connection does with its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Into a buffer that the receiver has posted.
    Send,
    /// Into the receiver's memory, at an address that the sender names.
    Write,
    /// Out of the other end's memory; the payload travels in the response.
    Read,
}

impl Operation {
    /// The operation as it is written: `send`, `write`, `read`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

impl Stack {
    /// Version of IP; one that only RoCEv2 looks at where the stack is verbs.
    pub fn family(self) -> Family {
        match self {
            Self::Udp { family }
            | Self::Tcp { family, .. }
            | Self::Rc { family, .. }
            | Self::Ud { family, .. } => family,
        }
    }

    /// Whether the payload travels by InfiniBand's verbs rather than by IP.
    pub fn is_verbs(self) -> bool {
        matches!(self, Self::Rc { .. } | Self::Ud { .. })
    }

    /// The largest packet that the link carries of this stack, in bytes: of IP with its header, of
    /// verbs the payload alone.
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
                _ => "use mtu=1280 at least, or IPv4",
            };
            return Err(Impossible::Ipv6Mtu { link, remedy });
        }
        Ok(u64::from(link.path_mtu().unwrap_or(link.mtu())))
    }
}
