//! ARP: resolves an IPv4 address to a link-layer address.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Format::{self, Decimal, Hex, Named};
use super::ethernet::ether_type;
use super::{Mac, Names, header};

/// Hardware type of Ethernet (IANA, ARP parameters).
pub const HARDWARE_ETHERNET: u16 = 1;
/// Hardware type of InfiniBand (RFC 4391, 9.2).
pub const HARDWARE_INFINIBAND: u16 = 32;
/// Operation of an ARP request (RFC 826).
pub const REQUEST: u16 = 1;
/// Operation of an ARP reply (RFC 826).
pub const REPLY: u16 = 2;

header! {
    /// ARP message for Ethernet and IPv4 addresses.
    Arp, ArpView: 28, "ARP", "Address Resolution Protocol", "RFC 826";
    /// Link type, [`HARDWARE_ETHERNET`].
    hardware: u16 = 0..16, "Hardware Type", Named(HARDWARE), "Packet format";
    /// Protocol address type, [`ether_type::IPV4`].
    protocol: u16 = 16..32, "Protocol Type", Named(ether_type::NAMES), "Packet format";
    /// Length of a hardware address in bytes, 6.
    hardware_bytes: u8 = 32..40, "Hardware Length", Decimal, "Packet format";
    /// Length of a protocol address in bytes, 4.
    protocol_bytes: u8 = 40..48, "Protocol Length", Decimal, "Packet format";
    /// [`REQUEST`] or [`REPLY`].
    operation: u16 = 48..64, "Operation", Named(OPERATION), "Packet format";
    /// The sender's MAC address.
    sender_mac: Mac = 64..112, "Sender Hardware Address", Format::Mac, "Packet format";
    /// The sender's IPv4 address.
    sender_ip: Ipv4Addr = 112..144, "Sender Protocol Address", Format::Ipv4, "Packet format";
    /// The target's MAC address; ignored in a request.
    target_mac: Mac = 144..192, "Target Hardware Address", Format::Mac, "Packet format";
    /// The target's IPv4 address.
    target_ip: Ipv4Addr = 192..224, "Target Protocol Address", Format::Ipv4, "Packet format";
}

header! {
    /// ARP message for IPoIB and IPv4 addresses.
    ///
    /// An IPoIB hardware address has 20 bytes: flags, queue pair number (QPN), global identifier (GID).
    IpoibArp, IpoibArpView: 56, "IPoIB ARP", "Address Resolution Protocol", "RFC 4391, 9.2";
    /// Link type, [`HARDWARE_INFINIBAND`].
    hardware: u16 = 0..16, "Hardware Type", Named(HARDWARE), "9.2";
    /// Protocol address type, [`ether_type::IPV4`].
    protocol: u16 = 16..32, "Protocol Type", Named(ether_type::NAMES), "9.2";
    /// Length of a hardware address in bytes, 20.
    hardware_bytes: u8 = 32..40, "Hardware Length", Decimal, "9.2";
    /// Length of a protocol address in bytes, 4.
    protocol_bytes: u8 = 40..48, "Protocol Length", Decimal, "9.2";
    /// [`REQUEST`] or [`REPLY`].
    operation: u16 = 48..64, "Operation", Named(OPERATION), "9.2";
    /// Connected modes that the sender supports: 0x80 RC, 0x40 UC (RFC 4755, 3.1); else 0.
    sender_flags: u8 = 64..72, "Sender Flags", Hex, "9.1.1";
    /// The sender's queue pair number.
    sender_qp: u32 = 72..96, "Sender QPN", Hex, "9.1.1";
    /// GID of the sender's port.
    sender_gid: Ipv6Addr = 96..224, "Sender GID", Format::Ipv6, "9.1.1";
    /// The sender's IPv4 address.
    sender_ip: Ipv4Addr = 224..256, "Sender Protocol Address", Format::Ipv4, "9.2";
    /// Connected modes that the target supports; ignored in a request.
    target_flags: u8 = 256..264, "Target Flags", Hex, "9.1.1";
    /// The target's queue pair number; ignored in a request.
    target_qp: u32 = 264..288, "Target QPN", Hex, "9.1.1";
    /// GID of the target's port; ignored in a request.
    target_gid: Ipv6Addr = 288..416, "Target GID", Format::Ipv6, "9.1.1";
    /// The target's IPv4 address.
    target_ip: Ipv4Addr = 416..448, "Target Protocol Address", Format::Ipv4, "9.2";
}

const HARDWARE: Names =
    &[(HARDWARE_ETHERNET as u128, "Ethernet"), (HARDWARE_INFINIBAND as u128, "InfiniBand")];

const OPERATION: Names = &[(REQUEST as u128, "request"), (REPLY as u128, "reply")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(an_arp_message_survives_the_wire, Arp, ArpView);
    round_trip!(an_ipoib_arp_message_survives_the_wire, IpoibArp, IpoibArpView);

    #[test]
    fn a_request_is_what_the_wire_carries() {
        let request = Arp {
            hardware: HARDWARE_ETHERNET,
            protocol: ether_type::IPV4,
            hardware_bytes: 6,
            protocol_bytes: 4,
            operation: REQUEST,
            sender_mac: Mac([2, 0, 0, 0, 0, 1]),
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: Mac([0; 6]),
            target_ip: Ipv4Addr::new(10, 0, 0, 2),
        };
        let bytes = [
            0, 1, 8, 0, 6, 4, 0, 1, // Ethernet, IPv4, 6 and 4 bytes, request
            2, 0, 0, 0, 0, 1, 10, 0, 0, 1, // sender
            0, 0, 0, 0, 0, 0, 10, 0, 0, 2, // target
        ];
        assert_eq!(request.to_bytes(), bytes);
    }

    #[test]
    fn an_address_of_ipoib_is_flags_queue_pair_and_port() {
        let gid = "fe80::2:c903:1:2345".parse().unwrap();
        let arp = IpoibArp {
            sender_flags: 0x80,
            sender_qp: 0x04_0485,
            sender_gid: gid,
            ..IpoibArpView(&[0; IpoibArp::BYTES]).value()
        };
        let sender =
            [0x80, 0x04, 0x04, 0x85, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 1, 0x23, 0x45];
        assert_eq!(arp.to_bytes()[8..28], sender);
    }
}
