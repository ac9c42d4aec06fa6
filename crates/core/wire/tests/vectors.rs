//! Figures that are published or follow by hand: ceilings, packets and limits.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_wire::{
    Acks, Ceiling, Exact, Family, Impossible, Input, Kind, Link, Operation, Path, Stack,
    ack_wire_bytes, fibre_delay, goodput, packet_rate, packets, path_goodput, path_stream_goodput,
    quic_goodput, shared_goodput, shared_stream_goodput, sources, stream_goodput,
};

const UDP4: Stack = Stack::Udp { family: Family::V4 };
const UDP6: Stack = Stack::Udp { family: Family::V6 };
const SEND: Stack = rc(Operation::Send, false);
const WRITE: Stack = rc(Operation::Write, false);
const READ: Stack = rc(Operation::Read, false);
const UD: Stack = Stack::Ud { immediate: false, family: Family::V4 };

const fn rc(operation: Operation, immediate: bool) -> Stack {
    Stack::Rc { operation, immediate, family: Family::V4 }
}

const fn tcp(family: Family, option_bytes: u8) -> Stack {
    Stack::Tcp { family, option_bytes }
}

fn link(text: &str) -> Link {
    text.parse().unwrap()
}

/// Equal to the printed figure within half a unit of its last digit.
fn assert_prints(value: f64, printed: f64, decimals: i32, case: &str) {
    let half = 0.5 * 10f64.powi(-decimals) * (1.0 + 1e-9);
    assert!((value - printed).abs() <= half, "{case}: {value} {printed}");
}

fn mbps(ceiling: Result<Ceiling, Impossible>) -> f64 {
    ceiling.unwrap().goodput_bps.as_f64() / 1e6
}

fn wire_bytes(text: &str, stack: Stack, payload: u64) -> u64 {
    match goodput(link(text), stack, payload).unwrap().inputs["wire_bytes"] {
        Input::Number(bytes) => bytes,
        Input::Text(_) => unreachable!("bytes are a number"),
    }
}

#[test]
fn frame_rates_are_those_of_rfc_5180() {
    for (frame, fps) in
        [(64, 14_880_952.0), (512, 2_349_624.0), (1518, 812_743.0), (9216, 135_339.0)]
    {
        let rate = packet_rate(link("ethernet:10G,mtu=9198"), frame - 18).unwrap();
        assert_eq!(rate.as_f64().floor(), fps, "{frame}");
    }
    let ethernet = link("ethernet:10G");
    assert_eq!(
        packet_rate(ethernet, 1501),
        Err(Impossible::Packet { bytes: 1501, link: ethernet })
    );
}

#[test]
fn datagrams_reach_the_known_goodput() {
    for (text, stack, payload, printed, decimals) in [
        ("ethernet:1G", UDP4, 18, 214.2857, 4),
        ("ethernet:1G", UDP4, 1472, 957.0871, 4),
        ("ethernet:1G", UDP6, 1452, 944.0832, 4),
        ("ethernet:1G", UDP6, 1453, 889.7734, 4),
        ("ethernet:10G", UDP6, 2892, 9414.0625, 4),
        ("ethernet:10G", UDP6, 2893, 9157.9614, 4),
        ("ipoib:4X-QDR,ib-mtu=4096", UDP4, 4064, 31_488.62, 2),
        ("ipoib:4X-QDR,ib-mtu=4096,grh", UDP4, 4064, 31_186.57, 2),
    ] {
        let case = format!("{text} {payload}");
        let ceiling = goodput(link(text), stack, payload);
        assert_eq!(ceiling.as_ref().map(|ceiling| ceiling.kind), Ok(Kind::Bound));
        assert_prints(mbps(ceiling), printed, decimals, &case);
    }
    assert_eq!(wire_bytes("ethernet:1G", UDP6, 1453), 1633);
}

#[test]
fn a_tcp_stream_reaches_the_known_goodput() {
    for (text, family, plain, stamped) in [
        ("ethernet:10G", Family::V4, 9492.848, 9414.824),
        ("ethernet:10G,mtu=9000", Family::V4, 9913.698, 9900.420),
        ("ethernet:10G,mtu=9000", Family::V6, 9891.569, 9878.292),
    ] {
        for (option_bytes, printed) in [(0, plain), (12, stamped)] {
            let ceiling = stream_goodput(link(text), tcp(family, option_bytes));
            assert_prints(mbps(ceiling), printed, 3, text);
        }
    }
    // A WAN PHY of 10-gigabit Ethernet: 9.58464 Gbit/s times 64/66, rounded down to a whole bit/s.
    let wan = link("ethernet:9294196363,mtu=9000");
    assert_prints(mbps(stream_goodput(wan, tcp(Family::V6, 12))), 9181.08, 2, "WAN PHY");
}

#[test]
fn a_message_of_verbs_takes_the_known_bytes() {
    for (text, stack, payload, bytes) in [
        ("ib:4X-EDR", SEND, 65_536, 65_952),
        ("ib:4X-EDR", WRITE, 65_536, 65_968),
        ("ib:4X-EDR", READ, 65_536, 65_960),
        ("ib:4X-EDR", rc(Operation::Send, true), 65_536, 65_956),
        ("rocev1:10G", SEND, 8192, 8944),
        ("rocev2:10G", WRITE, 8192, 8864),
        ("ipoib:4X-FDR,mode=connected,mtu=65520", UDP4, 32_768, 33_242),
        // A WRITE that fits one packet carries both its headers, a READ response one AETH.
        ("ib:4X-EDR", rc(Operation::Write, true), 1, 8 + 12 + 16 + 4 + 1 + 3 + 4 + 2),
        ("ib:4X-EDR", READ, 1, 8 + 12 + 4 + 4 + 4 + 2),
        ("ib:4X-EDR,grh", SEND, 0, 66),
        // Short RoCE packets are padded to the minimum frame: v2 over IPv4 has at least 58 bytes.
        ("rocev2:10G", SEND, 0, 84),
        ("rocev1:10G", SEND, 0, 94),
        ("rocev2:10G,vlan=1", SEND, 4, 90),
    ] {
        assert_eq!(wire_bytes(text, stack, payload), bytes, "{text} {stack:?} {payload}");
    }
}

#[test]
fn long_messages_of_verbs_approach_the_share_of_a_full_packet() {
    for (text, stack, share) in [
        ("ib:4X-EDR,mtu=2048", SEND, 0.9875),
        ("ib:4X-EDR,mtu=2048", UD, 0.9837),
        ("ib:4X-EDR", SEND, 0.9937),
        ("ib:4X-EDR", UD, 0.9918),
        ("ib:4X-EDR,mtu=2048,grh", SEND, 0.9688),
        ("ib:4X-EDR,mtu=2048,grh", UD, 0.9651),
    ] {
        let ceiling = stream_goodput(link(text), stack).unwrap();
        assert_eq!(ceiling.kind, Kind::Bound);
        assert_prints(ceiling.goodput_bps.as_f64() / 1e11, share, 4, text);
    }
}

#[test]
fn the_packets_of_a_message_are_listed_in_order() {
    for (text, stack, payload, sizes) in [
        ("ethernet:10G", UDP6, 2892, vec![1522, 1526]),
        ("ethernet:10G", UDP6, 2893, vec![1522, 1522, 79]),
        ("ethernet:10G", UDP4, 4, vec![72]),
        ("ethernet:10G", tcp(Family::V4, 12), 1449, vec![1526, 8 + 18 + 53]),
        ("ib:4X-EDR,mtu=256", WRITE, 513, vec![298, 282, 30]),
        ("ib:4X-EDR,mtu=256", READ, 513, vec![286, 282, 34]),
        // IP packets of 2,044 and 21 bytes with 4 bytes of IPoIB header each, segmented separately.
        ("ipoib:4X-FDR,mode=connected,ib-mtu=1024", UDP4, 2017, vec![1050, 1050, 54]),
    ] {
        assert_eq!(packets(link(text), stack, payload), Ok(sizes), "{text} {payload}");
    }
    let long = packets(link("ethernet:1G"), tcp(Family::V4, 0), 1 << 40);
    assert!(matches!(long, Err(Impossible::TooManyPackets(_))), "{long:?}");
}

#[test]
fn a_quic_stream_stays_below_its_datagrams_by_20_bytes_each() {
    for (text, family, expected) in [
        // 1,452 of 1,538 bytes, 1,432 of 1,538, 8,952 of 9,038.
        ("ethernet:1G", Family::V4, 944.0832),
        ("ethernet:1G", Family::V6, 931.0793),
        ("ethernet:10G,mtu=9000", Family::V4, 9904.8462),
    ] {
        let ceiling = quic_goodput(link(text), family);
        assert_eq!(ceiling.as_ref().map(|ceiling| ceiling.kind), Ok(Kind::Bound));
        assert_prints(mbps(ceiling), expected, 4, text);
    }
    assert_eq!(quic_goodput(link("veth"), Family::V4), Err(Impossible::NoWire(link("veth"))));
}

#[test]
fn a_stream_of_tls_stays_below_tcp_by_22_bytes_each_16_kib_of_a_write() {
    for (payload, expected) in [
        // 1,460 of 1,538 bytes, times 65,536 of 65,624, 64 of 86, 16,384 of 16,406, 16,385 of 16,429.
        (65_536, 948.0118),
        (64, 706.4445),
        (16_384, 948.0118),
        (16_385, 946.7424),
    ] {
        let over_tcp = stream_goodput(link("ethernet:1G"), tcp(Family::V4, 0)).unwrap();
        let ceiling = over_tcp.in_tls_records(payload);
        assert_eq!(ceiling.as_ref().map(|ceiling| ceiling.kind), Ok(Kind::Bound));
        assert_prints(mbps(ceiling), expected, 4, &payload.to_string());
    }
}

#[test]
fn acknowledgements_have_the_known_lengths() {
    let stacks = [(Family::V4, 0), (Family::V4, 12), (Family::V6, 0), (Family::V6, 12)]
        .map(|(f, o)| tcp(f, o));
    for (text, expected) in
        [("ethernet:10G", [84, 90, 98, 110]), ("ipoib:4X-FDR", [78, 90, 98, 110])]
    {
        for (stack, bytes) in stacks.into_iter().zip(expected) {
            assert_eq!(ack_wire_bytes(link(text), stack), Ok(bytes), "{text} {stack:?}");
        }
    }
    let over_v6 = Stack::Rc { operation: Operation::Send, immediate: false, family: Family::V6 };
    for (text, stack, bytes) in [
        ("ib:4X-EDR", SEND, 30),
        ("ib:4X-EDR,grh", WRITE, 70),
        ("ib:4X-EDR", READ, 42),
        ("rocev1:10G", SEND, 98),
        ("rocev2:10G", SEND, 86),
        ("rocev2:10G", over_v6, 106),
    ] {
        assert_eq!(ack_wire_bytes(link(text), stack), Ok(bytes), "{text} {stack:?}");
    }
    assert_eq!(ack_wire_bytes(link("ethernet:1G"), UDP4), Err(Impossible::NoAcks));
}

#[test]
fn acknowledgements_cost_a_direction_that_carries_them() {
    let ethernet = link("ethernet:10G");
    let stream = |acks| shared_stream_goodput(ethernet, tcp(Family::V4, 0), acks).unwrap();
    for (acks, kind, numerator, denominator) in [
        (Acks::Free, Kind::Bound, 1460, 1538),
        (Acks::EveryOther, Kind::Conditional, 1460, 1538 + 42),
        (Acks::Each, Kind::Conditional, 1460, 1538 + 84),
    ] {
        let ceiling = stream(acks);
        assert_eq!(ceiling.kind, kind);
        let expected = Exact::new(10_000_000_000 * numerator, denominator);
        assert_eq!(Some(ceiling.goodput_bps), expected, "{acks:?}");
    }
    let verbs = link("ib:4X-EDR");
    let message = |acks| shared_goodput(verbs, SEND, 65_536, acks).unwrap();
    let each = Exact::new(100_000_000_000 * 65_536, 65_952 + 30);
    assert_eq!(Some(message(Acks::Each).goodput_bps), each);
    let alone = goodput(verbs, SEND, 65_536).unwrap();
    assert_eq!(message(Acks::Free).goodput_bps, alone.goodput_bps);
    assert_eq!(
        (message(Acks::Free).kind, message(Acks::Each).kind),
        (Kind::Bound, Kind::Conditional)
    );
}

#[test]
fn a_kilometre_of_fibre_takes_4897_nanoseconds_rounded_down() {
    assert_eq!(fibre_delay(1000).0, 4896);
    assert_eq!(fibre_delay(1_000_000).0, 4_896_720);
}

#[test]
fn only_what_no_stack_can_beat_is_a_bound() {
    let ethernet = link("ethernet:1G");
    let stream = |options| stream_goodput(ethernet, tcp(Family::V4, options)).unwrap().kind;
    assert_eq!((stream(0), stream(12)), (Kind::Bound, Kind::Conditional));
    let message = |stack| goodput(ethernet, stack, 64).unwrap().kind;
    assert_eq!((message(tcp(Family::V4, 0)), message(UDP4)), (Kind::Conditional, Kind::Bound));
}

#[test]
fn a_ceiling_carries_what_it_was_computed_from() {
    let ceiling = goodput(link("ethernet:1G"), UDP4, 1472).unwrap();
    assert_eq!(ceiling.formula, "rate_bps * payload_bytes / wire_bytes");
    assert_eq!(ceiling.inputs["wire_bytes"], Input::Number(1538));
    assert_eq!(ceiling.inputs["link"], Input::Text("ethernet:1G".into()));
    let json = serde_json::to_string(&ceiling).unwrap();
    assert!(json.contains(r#""exact":"736000000000/769""#), "{json}");
    assert!(json.contains(r#""kind":"bound""#), "{json}");
    assert_eq!(serde_json::from_str::<Ceiling>(&json).unwrap(), ceiling);
    let ceiling = goodput(link("ipoib:4X-FDR"), UDP4, 1472).unwrap();
    assert_eq!(ceiling.inputs["rate_bps"], Input::Text("600000000000/11".into()));
}

#[test]
fn the_tightest_link_of_a_path_and_its_smallest_mtu_decide() {
    let mut path = Path::through(link("ethernet:10G,mtu=9000"), 2, Default::default());
    path.hops[1].link = link("ethernet:1G,mtu=9000,vlan=1");
    path.hops[2].link = link("ipoib:4X-FDR");
    // Packets of 2,044 bytes on each link; the slowest is Ethernet with a tag.
    let stream = path_stream_goodput(&path, tcp(Family::V4, 0)).unwrap();
    assert_eq!(Some(stream.goodput_bps), Exact::new(1_000_000_000 * 2004, 2044 + 42));
    assert_eq!(stream.inputs["mtu_bytes"], Input::Number(2044));
    let datagram = path_goodput(&path, UDP4, 2017).unwrap();
    assert_eq!(datagram.inputs["packets"], Input::Number(2));
}

#[test]
fn a_segment_that_fills_its_words_may_beat_a_larger_one() {
    // 2,043 bytes plus 4 of IPoIB are padded by 1; 2,040 bytes are not, and have a better payload ratio.
    let odd = link("ipoib:4X-FDR,mtu=2043");
    let stream = stream_goodput(odd, tcp(Family::V4, 0)).unwrap();
    assert_eq!(Some(stream.goodput_bps), Exact::new(600_000_000_000 * 2000, 11 * 2078));
    // One byte more than an InfiniBand packet would need a second one.
    let beyond = link("ipoib:4X-FDR,mode=connected,mtu=2045");
    let stream = stream_goodput(beyond, tcp(Family::V4, 0)).unwrap();
    assert_eq!(Some(stream.goodput_bps), Exact::new(600_000_000_000 * 2004, 11 * 2074));
}

#[test]
fn sources_name_the_clauses_of_link_and_stack() {
    let found = sources(link("ipoib:4X-FDR,mode=connected"), tcp(Family::V6, 12));
    for clause in ["IBTA vol. 1", "RFC 4755", "RFC 8200", "RFC 9293", "RFC 7323"] {
        assert!(found.iter().any(|source| source.starts_with(clause)), "{clause}: {found:?}");
    }
    assert!(!found.iter().any(|source| source.contains("802.3")), "{found:?}");
    let found = sources(link("rocev2:25G,vlan=1"), WRITE);
    for clause in ["IEEE 802.3", "IEEE 802.1Q", "RFC 791", "RFC 768", "Linux iboe_get_mtu"] {
        assert!(found.iter().any(|source| source.starts_with(clause)), "{clause}: {found:?}");
    }
}
