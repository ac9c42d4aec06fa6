//! Properties of every ceiling.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_units::BitRate;
use fabricmark_wire::{
    Exact, Family, IB_MTUS, Input, Ipoib, IpoibMode, Lanes, Link, MTU_MIN, Operation, Speed, Stack,
    goodput, packet_rate, packets, quic_goodput, stream_goodput,
};
use proptest::prelude::*;

fn family(v6: bool) -> Family {
    if v6 { Family::V6 } else { Family::V4 }
}

/// Links that carry IP, including IPv6.
fn ip_link() -> impl Strategy<Value = Link> {
    let ethernet = (1u64..1 << 50, MTU_MIN.., 0u8..=2)
        .prop_map(|(rate, mtu, vlan)| Link::Ethernet { rate: BitRate(rate), mtu, vlan });
    let ipoib = (
        prop::sample::select(&Lanes::ALL),
        prop::sample::select(&Speed::ALL),
        prop::sample::select(&IB_MTUS),
        MTU_MIN..=65_520,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(lanes, speed, ib_mtu, mtu, is_connected, grh)| {
            if is_connected || ib_mtu < 2048 {
                let mode = IpoibMode::Connected;
                Link::Ipoib(Ipoib { lanes, speed, mode, ib_mtu, mtu, grh })
            } else {
                let mtu = MTU_MIN + mtu % (ib_mtu - 4 - MTU_MIN + 1);
                Link::Ipoib(Ipoib { lanes, speed, mode: IpoibMode::Datagram, ib_mtu, mtu, grh })
            }
        });
    prop_oneof![ethernet, ipoib]
}

/// Links that carry verbs.
fn verbs_link() -> impl Strategy<Value = Link> {
    let words =
        prop::sample::select(vec!["ib:4X-FDR", "ib:1X-XDR,grh", "rocev1:10G", "rocev2:25G"]);
    (words, prop::sample::select(&IB_MTUS)).prop_map(|(word, mtu)| {
        let mtu = if word.starts_with("ib") { mtu } else { mtu + 96 };
        format!("{word},mtu={mtu}").parse().unwrap()
    })
}

proptest! {
    #[test]
    fn goodput_stays_below_the_rate(
        link in ip_link(),
        v6: bool,
        payload in 1u64..=65_507,
        option_bytes in (0u8..=10).prop_map(|words| 4 * words),
    ) {
        let family = family(v6);
        let line = link.rate_bps().unwrap();
        let tcp = Stack::Tcp { family, option_bytes };
        for ceiling in [
            goodput(link, Stack::Udp { family }, payload),
            goodput(link, tcp, payload),
            stream_goodput(link, tcp),
            quic_goodput(link, family),
        ] {
            prop_assert!(ceiling.unwrap().goodput_bps < line);
        }
    }

    #[test]
    fn messages_never_beat_the_stream(
        link in ip_link(),
        v6: bool,
        payload in 1u64..1 << 40,
        stamped: bool,
    ) {
        let option_bytes = if stamped { 12 } else { 0 };
        let tcp = Stack::Tcp { family: family(v6), option_bytes };
        let message = goodput(link, tcp, payload).unwrap();
        prop_assert!(message.goodput_bps <= stream_goodput(link, tcp).unwrap().goodput_bps);
    }

    #[test]
    fn a_faster_wire_or_a_larger_mtu_never_carries_less_of_a_stream(
        rate in 1u64..1 << 50,
        more in 1u64..1 << 50,
        mtu in MTU_MIN..60_000,
        larger in 0u16..5_000,
        payload in 1u64..=65_507,
        v6: bool,
    ) {
        let family = family(v6);
        let link = |rate, mtu| Link::Ethernet { rate: BitRate(rate), mtu, vlan: 0 };
        let tcp = Stack::Tcp { family, option_bytes: 0 };
        let stream = |rate, mtu| stream_goodput(link(rate, mtu), tcp).unwrap().goodput_bps;
        prop_assert!(stream(rate, mtu) < stream(rate + more, mtu));
        prop_assert!(stream(rate, mtu) <= stream(rate, mtu + larger));
        let udp = |rate| goodput(link(rate, mtu), Stack::Udp { family }, payload).unwrap().goodput_bps;
        prop_assert!(udp(rate) < udp(rate + more));
        let connected = |mtu| {
            let text = format!("ipoib:4X-FDR,mode=connected,mtu={mtu}");
            stream_goodput(text.parse().unwrap(), tcp).unwrap().goodput_bps
        };
        prop_assert!(connected(mtu) <= connected(mtu + larger));
    }

    #[test]
    fn a_message_of_verbs_never_beats_long_ones_nor_a_write_a_send(
        link in verbs_link(),
        payload in 1u64..1 << 31,
    ) {
        let rc = |operation, immediate| Stack::Rc { operation, immediate, family: Family::V4 };
        let rate = |stack| goodput(link, stack, payload).unwrap().goodput_bps;
        let send = rate(rc(Operation::Send, false));
        prop_assert!(send <= stream_goodput(link, rc(Operation::Send, false)).unwrap().goodput_bps);
        prop_assert!(rate(rc(Operation::Write, false)) <= send);
        prop_assert!(rate(rc(Operation::Read, false)) <= send);
        prop_assert!(rate(rc(Operation::Send, true)) <= send);
    }

    #[test]
    fn the_packets_of_a_message_add_up_to_its_bytes(
        link in prop_oneof![ip_link(), verbs_link()],
        payload in 1u64..=65_507,
        v6: bool,
    ) {
        let family = family(v6);
        let stacks = [
            Stack::Udp { family },
            Stack::Tcp { family, option_bytes: 12 },
            Stack::Rc { operation: Operation::Write, immediate: true, family: Family::V4 },
        ];
        let has_gap = link.rate().is_some();
        for stack in stacks {
            // A link carries IP or verbs, not both.
            let Ok(ceiling) = goodput(link, stack, payload) else { continue };
            let sizes = packets(link, stack, payload).unwrap();
            let gaps = if has_gap { 12 * sizes.len() as u64 } else { 0 };
            let bytes = Input::Number(sizes.iter().sum::<u64>() + gaps);
            prop_assert_eq!(&ceiling.inputs["wire_bytes"], &bytes);
            prop_assert_eq!(&ceiling.inputs["packets"], &Input::Number(sizes.len() as u64));
            // InfiniBand packets end on a word before the variant CRC; frames have at least 72 bytes.
            let is_sound = |size: &u64| if has_gap { *size >= 72 } else { size % 4 == 2 };
            prop_assert!(sizes.iter().all(is_sound));
        }
    }
}

proptest! {
    // Each case lists thousands of packets.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_stream_is_that_of_the_best_segment_of_all(link in ip_link(), v6: bool) {
        let tcp = Stack::Tcp { family: family(v6), option_bytes: 0 };
        let headers = family(v6).header_bytes() + 20;
        // Far enough below the MTU to include the end of the last full InfiniBand packet.
        let mtu = u64::from(link.mtu());
        let best = (mtu.saturating_sub(4100).max(headers + 1)..=mtu)
            .map(|packet| {
                let rate = packet_rate(link, packet).unwrap();
                let bits = 8 * u128::from(packet - headers);
                Exact::new(rate.numerator() * bits, rate.denominator()).unwrap()
            })
            .max();
        prop_assert_eq!(Some(stream_goodput(link, tcp).unwrap().goodput_bps), best);
    }
}
