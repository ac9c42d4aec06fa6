//! Sources of the constants that ceilings and floors use.

use crate::frame::TCP_TIMESTAMPS;
use crate::{Family, Ipoib, IpoibMode, Link, Operation, Stack};

/// Sources for a ceiling or floor of `stack` over `link`; those of the link alone if it does not carry the stack.
pub fn sources(link: Link, stack: Stack) -> Vec<&'static str> {
    let mut sources = Vec::new();
    let ethernet = [
        "IEEE 802.3 (header 14, FCS 4, smallest frame 64 bytes)",
        "RFC 5180 appendix A (preamble 8, gap 12 bytes)",
    ];
    let infiniband = "IBTA vol. 1 (LRH 8, GRH 40, BTH 12, ICRC 4, VCRC 2 bytes; padding to words)";
    let rates = "P1 table I and vendors' tables (signalling and coding of lanes)";
    match link {
        Link::Loopback | Link::Veth { .. } => {}
        Link::Ethernet { .. } => sources.extend(ethernet),
        Link::Ib(_) => sources.extend([infiniband, rates]),
        Link::Ipoib(Ipoib { mode, .. }) => {
            sources.extend([infiniband, rates, "RFC 4391 sections 6 and 7 (header 4 bytes, MTU)"]);
            sources.push(match mode {
                IpoibMode::Datagram => "IBTA vol. 1, 9.3.2 (DETH 8 bytes)",
                IpoibMode::Connected => "RFC 4755 sections 4 and 5 (connected mode, MTU)",
            });
        }
        Link::RoceV1 { .. } => {
            sources.extend(ethernet);
            sources.push("IBTA vol. 1, annex A16 (GRH 40, BTH 12, ICRC 4 bytes within a frame)");
            sources.push("Linux iboe_get_mtu (path MTU)");
        }
        Link::RoceV2 { .. } => {
            sources.extend(ethernet);
            sources.push("IBTA vol. 1, annex A17 (BTH 12, ICRC 4 bytes within UDP)");
            sources.push("Linux iboe_get_mtu (path MTU)");
            sources.push("RFC 768 (UDP header 8 bytes)");
        }
    }
    if let Link::Ethernet { vlan: 1.., .. }
    | Link::RoceV1 { vlan: 1.., .. }
    | Link::RoceV2 { vlan: 1.., .. } = link
    {
        sources.push("IEEE 802.1Q (tag 4 bytes)");
    }
    let ip = match stack.family() {
        Family::V4 => "RFC 791 (IPv4 header 20 bytes, fragments)",
        Family::V6 => "RFC 8200 (IPv6 header 40, fragment header 8 bytes, MTU 1280)",
    };
    if !stack.is_verbs() || matches!(link, Link::RoceV2 { .. }) {
        sources.push(ip);
    }
    match stack {
        Stack::Udp { .. } => sources.push("RFC 768 (UDP header 8 bytes)"),
        Stack::Tcp { option_bytes, .. } => {
            sources.push("RFC 9293 (TCP header 20 bytes)");
            if option_bytes == TCP_TIMESTAMPS {
                sources.push("RFC 7323 (timestamps 10 bytes, and 2 of padding)");
            }
        }
        Stack::Rc { operation, .. } => match operation {
            Operation::Send => {}
            Operation::Write => sources.push("IBTA vol. 1, 9.3.3 (RETH 16 bytes)"),
            Operation::Read => sources.push("IBTA vol. 1, 9.3.5 (AETH 4 bytes)"),
        },
        Stack::Ud { .. } => sources.push("IBTA vol. 1, 9.3.2 (DETH 8 bytes)"),
    }
    if let Stack::Rc { immediate: true, .. } | Stack::Ud { immediate: true, .. } = stack {
        sources.push("IBTA vol. 1, 9.3.6 (immediate data 4 bytes)");
    }
    sources
}
