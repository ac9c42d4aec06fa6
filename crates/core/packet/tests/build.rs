//! Built packets have the lengths that the model computes, and pass dissection without errors.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_packet::build::{self, Host, NotBuilt, Packet, build};
use fabricmark_packet::capture::{self, LinkType};
use fabricmark_packet::dissect::{Part, dissect};
use fabricmark_wire::{Family, Link, Operation, Stack, packets};
use proptest::prelude::*;

fn headers(link: Link, packet: &Packet) -> Vec<&'static str> {
    dissect(build::link_type(link), &packet.bytes).headers().collect()
}

fn field(link: Link, packet: &Packet, header: &str, field: &str) -> u128 {
    dissect(build::link_type(link), &packet.bytes).field(header, field).unwrap()
}

fn built(link: &str, stack: Stack, payload: u64) -> (Link, Vec<Packet>) {
    let link = link.parse().unwrap();
    (link, build(link, stack, payload).unwrap())
}

/// Payload bytes in a packet.
fn data(link: Link, packet: &Packet) -> Vec<u8> {
    let told = dissect(build::link_type(link), &packet.bytes);
    let parts = told.parts.iter().filter_map(|part| match part {
        Part::Data { name: "payload" | "fragment", at, bytes } => {
            Some(&packet.bytes[*at..at + bytes])
        }
        _ => None,
    });
    parts.flatten().copied().collect()
}

#[test]
fn each_stack_has_its_headers() {
    let v4 = Family::V4;
    let v6 = Family::V6;
    let rc = |operation, immediate| Stack::Rc { operation, immediate, family: v6 };
    for (link, stack, payload, chain) in [
        ("ethernet:10G", Stack::Udp { family: v4 }, 100, vec!["Ethernet", "IPv4", "UDP"]),
        (
            "ethernet:10G,vlan=2",
            Stack::Tcp { family: v6, option_bytes: 12 },
            100,
            vec!["Ethernet", "802.1Q", "802.1Q", "IPv6", "TCP"],
        ),
        (
            "ipoib:4X-FDR",
            Stack::Udp { family: v6 },
            100,
            vec!["LRH", "BTH", "DETH", "IPoIB", "IPv6", "UDP"],
        ),
        (
            "ipoib:4X-FDR,mode=connected,grh",
            Stack::Tcp { family: v4, option_bytes: 0 },
            100,
            vec!["LRH", "GRH", "BTH", "IPoIB", "IPv4", "TCP"],
        ),
        ("ib:4X-HDR", rc(Operation::Write, true), 5, vec!["LRH", "BTH", "RETH", "ImmDt"]),
        ("ib:4X-HDR,grh", rc(Operation::Send, false), 5, vec!["LRH", "GRH", "BTH"]),
        (
            "rocev1:100G",
            Stack::Ud { immediate: true, family: v4 },
            5,
            vec!["Ethernet", "GRH", "BTH", "DETH", "ImmDt"],
        ),
        (
            "rocev2:100G,vlan=1",
            rc(Operation::Send, true),
            5,
            vec!["Ethernet", "802.1Q", "IPv6", "UDP", "BTH", "ImmDt"],
        ),
    ] {
        let (link, packets) = built(link, stack, payload);
        assert_eq!(packets.len(), 1, "{link}");
        assert_eq!(headers(link, &packets[0]), chain, "{link}");
    }
}

#[test]
fn a_read_is_a_request_and_its_answers() {
    let stack = Stack::Rc { operation: Operation::Read, immediate: false, family: Family::V4 };
    let (link, packets) = built("ib:4X-EDR,mtu=1024", stack, 3000);
    let opcodes: Vec<_> =
        packets.iter().map(|packet| field(link, packet, "BTH", "opcode")).collect();
    assert_eq!(opcodes, [0x0c, 0x0d, 0x0e, 0x0f]);
    let senders: Vec<_> = packets.iter().map(|packet| packet.from).collect();
    assert_eq!(senders, [Host::First, Host::Second, Host::Second, Host::Second]);
    assert_eq!(field(link, &packets[0], "RETH", "dma_bytes"), 3000);
    assert_eq!(headers(link, &packets[1]), ["LRH", "BTH", "AETH"]);
    assert_eq!(headers(link, &packets[2]), ["LRH", "BTH"]);
}

#[test]
fn a_datagram_larger_than_the_mtu_is_cut_into_fragments() {
    for (family, header) in [(Family::V4, "IPv4"), (Family::V6, "Fragment")] {
        let (link, packets) = built("ethernet:1G", Stack::Udp { family }, 3000);
        let offsets: Vec<_> =
            packets.iter().map(|packet| field(link, packet, header, "fragment_offset")).collect();
        assert_eq!(offsets, if family == Family::V4 { [0, 185, 370] } else { [0, 181, 362] });
        let more: Vec<_> =
            packets.iter().map(|packet| field(link, packet, header, "more_fragments")).collect();
        assert_eq!(more, [1, 1, 0]);
    }
}

#[test]
fn a_connection_is_set_up_and_ended_by_five_messages() {
    let link: Link = "ipoib:4X-FDR,mode=connected".parse().unwrap();
    let Link::Ipoib(ipoib) = link else { panic!("{link}") };
    let packets = build::handshake(ipoib);
    let names: Vec<_> =
        packets.iter().map(|packet| headers(link, packet).last().copied().unwrap()).collect();
    assert_eq!(names, ["REQ", "REP", "RTU", "DREQ", "DREP"]);
    for packet in &packets {
        assert!(dissect(LinkType::Infiniband, &packet.bytes).is_sound());
        assert_eq!(field(link, packet, "BTH", "destination_qp"), 1);
        // A 256-byte MAD in LRH, BTH, DETH and the two CRCs.
        assert_eq!(packet.bytes.len(), 8 + 12 + 8 + 256 + 4 + 2);
    }
    assert_eq!(field(link, &packets[0], "REQ", "path_mtu"), 4);
    // Code 12 is 56 Gbit/s.
    assert_eq!(field(link, &packets[0], "REQ", "primary_packet_rate"), 12);
}

#[test]
fn what_no_host_sends_is_refused() {
    let udp = Stack::Udp { family: Family::V4 };
    let error = |link: &str, stack, payload| {
        build(link.parse().unwrap(), stack, payload).unwrap_err().to_string()
    };
    assert!(error("ib:4X-FDR", udp, 1).contains("carries no IP"));
    assert_eq!(
        build("ethernet:1G".parse().unwrap(), udp, 1 << 30),
        Err(NotBuilt::TooLarge(1 << 30))
    );
}

fn links() -> impl Strategy<Value = Link> {
    let text = prop_oneof![
        (1280u16..9000, 0u8..3)
            .prop_map(|(mtu, vlan)| format!("ethernet:10G,mtu={mtu},vlan={vlan}")),
        (prop::sample::select(vec![256, 512, 1024, 2048, 4096]), any::<bool>())
            .prop_map(|(mtu, grh)| format!("ib:4X-FDR,mtu={mtu}{}", if grh { ",grh" } else { "" })),
        (prop::sample::select(vec![256, 512, 1024, 2048, 4096]), any::<bool>()).prop_map(
            |(mtu, grh)| format!("ipoib:4X-FDR,ib-mtu={mtu}{}", if grh { ",grh" } else { "" })
        ),
        (prop::sample::select(vec![256, 512, 1024, 2048, 4096]), 1280u16..=65_520, any::<bool>())
            .prop_map(|(ib_mtu, mtu, grh)| {
                let grh = if grh { ",grh" } else { "" };
                format!("ipoib:12X-EDR,mode=connected,ib-mtu={ib_mtu},mtu={mtu}{grh}")
            }),
        (1u8..3, 352u16..9000, 0u8..3)
            .prop_map(|(version, mtu, vlan)| format!("rocev{version}:100G,mtu={mtu},vlan={vlan}")),
    ];
    text.prop_map(|text| text.parse().unwrap())
}

fn stacks() -> impl Strategy<Value = Stack> {
    let family = || any::<bool>().prop_map(|v6| if v6 { Family::V6 } else { Family::V4 });
    let operation = prop::sample::select(vec![Operation::Send, Operation::Write, Operation::Read]);
    prop_oneof![
        family().prop_map(|family| Stack::Udp { family }),
        (family(), 0u8..=10)
            .prop_map(|(family, words)| Stack::Tcp { family, option_bytes: 4 * words }),
        (operation, any::<bool>(), family()).prop_map(|(operation, immediate, family)| Stack::Rc {
            operation,
            immediate,
            family
        }),
        (any::<bool>(), family()).prop_map(|(immediate, family)| Stack::Ud { immediate, family }),
    ]
}

proptest! {
    #[test]
    fn packets_are_as_long_as_the_model_says_and_carry_the_payload(
        link in links(),
        stack in stacks(),
        payload in prop_oneof![0u64..200, 0u64..20_000],
    ) {
        let built = build(link, stack, payload);
        let Ok(lengths) = packets(link, stack, payload) else {
            prop_assert!(matches!(built, Err(NotBuilt::Impossible(_))));
            return Ok(());
        };
        let built = built.unwrap();
        let is_read = matches!(stack, Stack::Rc { operation: Operation::Read, .. });
        let messages = if is_read { &built[1..] } else { &built[..] };
        // A capture of Ethernet omits preamble and FCS.
        let around = if build::link_type(link) == LinkType::Ethernet { 8 + 4 } else { 0 };
        let found: Vec<u64> =
            messages.iter().map(|packet| packet.bytes.len() as u64 + around).collect();
        prop_assert_eq!(found, lengths);

        for packet in &built {
            let told = dissect(build::link_type(link), &packet.bytes);
            prop_assert!(told.is_sound(), "{}", told.text());
        }
        let file = capture::write(
            capture::Form::Plain(build::link_type(link)),
            built.iter().map(|packet| packet.bytes.as_slice()),
        );
        let file = file.unwrap();
        let read: Vec<_> =
            capture::read(&file).unwrap().map(|packet| packet.unwrap().bytes).collect();
        prop_assert!(read.iter().eq(built.iter().map(|packet| &packet.bytes)));

        // The payload is not recovered if connected-mode IPoIB segments an IP packet.
        let is_cut = matches!(link, Link::Ipoib(ipoib) if ipoib.ib_mtu < ipoib.mtu);
        if !is_cut {
            let mut carried: Vec<u8> =
                messages.iter().flat_map(|packet| data(link, packet)).collect();
            let is_fragmented = matches!(stack, Stack::Udp { .. }) && messages.len() > 1;
            prop_assert_eq!(carried.len() as u64, payload, "{}", is_fragmented);
            carried.truncate(36);
            let pattern = b"abcdefghijklmnopqrstuvwxyz0123456789";
            prop_assert_eq!(&carried, &pattern[..carried.len()]);
        }
    }
}
