//! Impossible combinations are rejected with a remedy.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_units::BitRate;
use fabricmark_wire::{
    Family, Impossible, Link, Operation, Stack, goodput, packet_rate, packets, quic_goodput,
    stream_goodput,
};

const UDP4: Stack = Stack::Udp { family: Family::V4 };
const UDP6: Stack = Stack::Udp { family: Family::V6 };
const SEND: Stack = rc(Operation::Send, false, Family::V4);
const UD: Stack = Stack::Ud { immediate: false, family: Family::V4 };

const fn tcp(option_bytes: u8) -> Stack {
    Stack::Tcp { family: Family::V4, option_bytes }
}

const fn rc(operation: Operation, immediate: bool, family: Family) -> Stack {
    Stack::Rc { operation, immediate, family }
}

fn link(text: &str) -> Link {
    text.parse().unwrap()
}

/// A link, stack and payload that do not fit together, and the error message.
const REFUSED: &[(&str, Stack, u64, &str)] = &[
    (
        "loopback",
        UDP4,
        64,
        "loopback has no line rate and no framing, so there is no ceiling: use a link such as \
         ethernet:10G",
    ),
    (
        "veth",
        tcp(0),
        64,
        "veth has no line rate and no framing, so there is no ceiling: use a link such as \
         ethernet:10G",
    ),
    (
        "ib:4X-HDR",
        UDP4,
        64,
        "udp and tcp are not supported over ib:4X-HDR, which carries no IP: use ipoib:4X-HDR, or \
         rc or ud",
    ),
    (
        "rocev2:25G,mtu=9000",
        tcp(0),
        64,
        "udp and tcp are not supported over rocev2:25G,mtu=9000, which carries no IP: use \
         ethernet:25G, or rc or ud",
    ),
    (
        "ethernet:25G",
        SEND,
        64,
        "rc and ud are not supported over ethernet:25G: use rocev2:25G, or \
                                udp or tcp",
    ),
    (
        "ipoib:4X-FDR",
        UD,
        64,
        "rc and ud are not supported over ipoib:4X-FDR: use ib:4X-FDR, or udp \
                              or tcp",
    ),
    (
        "ipoib:4X-FDR,ib-mtu=1024",
        UDP6,
        64,
        "IPv6 needs an MTU of at least 1280, but ipoib:4X-FDR,ib-mtu=1024 has 1020: use \
         ib-mtu=2048, mode=connected or IPv4",
    ),
    (
        "rocev2:10G,mtu=1000",
        rc(Operation::Send, false, Family::V6),
        64,
        "IPv6 needs an MTU of at least 1280, but rocev2:10G,mtu=1000 has 1000: use mtu=1280 or \
         more, or IPv4",
    ),
    (
        "ethernet:10G",
        UDP4,
        65_508,
        "65508 bytes do not fit in a UDP datagram over IPv4: use at most 65507, or tcp",
    ),
    (
        "ethernet:10G",
        UDP6,
        65_528,
        "65528 bytes do not fit in a UDP datagram over IPv6: use at most 65527, or tcp",
    ),
    (
        "ib:4X-HDR,mtu=2048",
        UD,
        2049,
        "2049 bytes do not fit in a UD datagram, which is one packet of at most 2048 bytes: use \
         rc, or a larger mtu",
    ),
    (
        "rocev1:10G",
        SEND,
        (1 << 31) + 1,
        "2147483649 bytes exceed the longest RDMA message: use at most 2147483648",
    ),
    (
        "ethernet:10G",
        tcp(12),
        0,
        "a write of 0 bytes sends no segment: use a payload of at least 1 byte",
    ),
    (
        "ethernet:10G",
        tcp(44),
        64,
        "44 bytes of TCP options are not possible: use a multiple of 4, at most 40",
    ),
    (
        "ipoib:4X-FDR,mtu=68",
        tcp(28),
        64,
        "an MTU of 68 has no room for a payload after the headers: use a larger mtu",
    ),
    (
        "ib:4X-HDR",
        rc(Operation::Read, true, Family::V4),
        64,
        "an RDMA READ carries no immediate data: use send or write, or leave out immediate",
    ),
    ("ethernet:10G", tcp(0), u64::MAX, "the figure exceeds 128 bits: use a smaller payload"),
];

#[test]
fn a_message_that_no_link_carries_is_refused_with_the_remedy() {
    for &(text, stack, payload, message) in REFUSED {
        let error = goodput(link(text), stack, payload).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(packets(link(text), stack, payload).is_err(), "{text}");
    }
}

#[test]
fn the_largest_that_fits_is_not_refused() {
    for (text, stack, payload) in [
        ("ethernet:10G", UDP4, 65_507),
        ("ethernet:10G", UDP6, 65_527),
        ("ib:4X-HDR,mtu=2048", UD, 2048),
        ("ib:4X-HDR", SEND, 1 << 31),
        // InfiniBand and RoCEv1 have no IP, so its version does not matter.
        ("ib:4X-HDR,mtu=256", rc(Operation::Write, true, Family::V6), 0),
        ("rocev1:10G,mtu=352", rc(Operation::Read, false, Family::V6), 4096),
        ("ipoib:4X-FDR,ib-mtu=256,mode=connected", UDP6, 65_527),
        ("ipoib:4X-FDR,mtu=68", UDP4, 65_507),
    ] {
        let found = goodput(link(text), stack, payload);
        assert!(found.is_ok(), "{text} {stack:?}: {found:?}");
    }
}

#[test]
fn only_streams_have_the_ceiling_of_a_stream() {
    assert_eq!(stream_goodput(link("ethernet:1G"), UDP4), Err(Impossible::NoStream));
    let verbs = link("ib:4X-HDR");
    assert!(matches!(packet_rate(verbs, 64), Err(Impossible::NoIp { .. })));
    assert!(matches!(quic_goodput(verbs, Family::V4), Err(Impossible::NoIp { .. })));
}

#[test]
fn a_link_out_of_range_has_no_figures() {
    for (rate, mtu, vlan) in [(0, 1500, 0), (1, 0, 0), (1, 1500, 3)] {
        let broken = Link::Ethernet { rate: BitRate(rate), mtu, vlan };
        assert!(matches!(stream_goodput(broken, tcp(0)), Err(Impossible::Link(_))), "{broken}");
        assert!(matches!(goodput(broken, UDP6, 64), Err(Impossible::Link(_))), "{broken}");
    }
    // A datagram carries no more than its packet.
    let Link::Ipoib(ipoib) = link("ipoib:4X-FDR") else { unreachable!("that is what was written") };
    let beyond = Link::Ipoib(fabricmark_wire::Ipoib { mtu: 2045, ..ipoib });
    let error = goodput(beyond, UDP4, 64).unwrap_err();
    assert!(error.to_string().starts_with("`mtu=2045` is out of range"), "{error}");
}
