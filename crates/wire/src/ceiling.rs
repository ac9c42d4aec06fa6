//! Upper bounds on rates: full duplex, steady state, application bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exact::{Exact, Inputs, Kind, inputs};
use crate::family::Family;
use crate::frame::{Frames, Layer4, ethernet_wire_bytes, mss};
use crate::link::Link;

/// The most application bits per second that a link carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// How firmly it stands; only a bound may be tested against.
    pub kind: Kind,
    /// Application payload in bit/s.
    pub goodput_bps: Exact,
    /// How it was computed, over the names in `inputs`.
    pub formula: String,
    /// What it was computed from; the unit is in each name.
    pub inputs: Inputs,
}

impl Ceiling {
    /// The ceiling of both directions together of a link that is full duplex, each as loaded as this one.
    /// As firm as before: what acknowledgements take of the other direction is left out of it.
    #[must_use]
    pub fn both_ways(self) -> Self {
        let formula = format!("2 * {}", self.formula);
        Self { goodput_bps: self.goodput_bps.doubled(), formula, ..self }
    }
}

/// The least that QUIC adds to a stream's bytes in a datagram: a short header of 1 byte and a packet
/// number of 1 (RFC 9000, section 17.3.1), a STREAM frame's type and number of 1 each (section 19.8),
/// and the 16 bytes that authenticate the packet (RFC 9001, section 5.3).
const QUIC_OVERHEAD: u64 = 20;

/// The ceiling of UDP with `payload` bytes in each datagram: a bound.
///
/// Assumes fragments cut by the greedy rule of [`fragments`](crate::fragments). `None` where there
/// is no wire or no such datagram.
pub fn udp_goodput(link: Link, family: Family, payload: u64) -> Option<Ceiling> {
    message_goodput(link, family, Layer4::Udp, payload, Kind::Bound)
}

/// The ceiling of a TCP stream of full segments, each with `option_bytes` of options.
///
/// A bound without options, whatever the size of a write. With options (12 for time stamps) it holds
/// only if every segment carries them. `None` where there is no wire.
pub fn tcp_stream_goodput(link: Link, family: Family, option_bytes: u8) -> Option<Ceiling> {
    let wire = link.wire()?;
    let mss_bytes = mss(wire, family, option_bytes);
    let wire_bytes = ethernet_wire_bytes(u64::from(wire.mtu), wire.vlan);
    Some(Ceiling {
        kind: if option_bytes == 0 { Kind::Bound } else { Kind::Conditional },
        goodput_bps: share(wire.rate_bps, mss_bytes, wire_bytes)?,
        formula: "rate_bps * mss_bytes / wire_bytes".to_owned(),
        inputs: inputs([
            ("link", link.to_string().into()),
            ("rate_bps", wire.rate_bps.into()),
            ("family", u64::from(u8::from(family)).into()),
            ("option_bytes", u64::from(option_bytes).into()),
            ("mss_bytes", mss_bytes.into()),
            ("wire_bytes", wire_bytes.into()),
        ]),
    })
}

/// The ceiling of a QUIC stream in datagrams that fill the MTU: a bound, whatever the implementation,
/// as it sends no larger ones (RFC 9000, section 14) and no packet has less than [`QUIC_OVERHEAD`].
///
/// `None` where there is no wire.
pub fn quic_goodput(link: Link, family: Family) -> Option<Ceiling> {
    let wire = link.wire()?;
    // TCP's header without options is 12 bytes longer than that of UDP (RFC 9293, RFC 768).
    let datagram_bytes = mss(wire, family, 0) + 12;
    let payload_bytes = datagram_bytes.checked_sub(QUIC_OVERHEAD)?;
    let wire_bytes = ethernet_wire_bytes(u64::from(wire.mtu), wire.vlan);
    Some(Ceiling {
        kind: Kind::Bound,
        goodput_bps: share(wire.rate_bps, payload_bytes, wire_bytes)?,
        formula: "rate_bps * (datagram_bytes - overhead_bytes) / wire_bytes".to_owned(),
        inputs: inputs([
            ("link", link.to_string().into()),
            ("rate_bps", wire.rate_bps.into()),
            ("family", u64::from(u8::from(family)).into()),
            ("datagram_bytes", datagram_bytes.into()),
            ("overhead_bytes", QUIC_OVERHEAD.into()),
            ("wire_bytes", wire_bytes.into()),
        ]),
    })
}

/// The ceiling of TCP when each write of `payload` bytes leaves in segments of its own.
///
/// Conditional always: a stack may merge small writes (Nagle, corking, send offload) and then beats
/// it. `None` where there is no wire or nothing to write.
pub fn tcp_message_goodput(
    link: Link,
    family: Family,
    payload: u64,
    option_bytes: u8,
) -> Option<Ceiling> {
    let tcp = Layer4::Tcp { option_bytes };
    let mut ceiling = message_goodput(link, family, tcp, payload, Kind::Conditional)?;
    let option_bytes = u64::from(option_bytes).into();
    ceiling.inputs.insert("option_bytes".to_owned(), option_bytes);
    Some(ceiling)
}

/// The most IP packets of `ip_packet` bytes per second that a link carries: a bound.
///
/// `None` where there is no wire or the packet is larger than its MTU.
pub fn packet_rate(link: Link, ip_packet: u64) -> Option<Exact> {
    let wire = link.wire().filter(|wire| ip_packet <= u64::from(wire.mtu))?;
    let wire_bytes = ethernet_wire_bytes(ip_packet, wire.vlan);
    Exact::new(u128::from(wire.rate_bps), 8 * u128::from(wire_bytes))
}

fn message_goodput(
    link: Link,
    family: Family,
    layer4: Layer4,
    payload: u64,
    kind: Kind,
) -> Option<Ceiling> {
    let wire = link.wire()?;
    let frames = Frames::of(wire, family, layer4, payload)?;
    Some(Ceiling {
        kind,
        goodput_bps: share(wire.rate_bps, payload, frames.wire_bytes)?,
        formula: "rate_bps * payload_bytes / wire_bytes".to_owned(),
        inputs: inputs([
            ("link", link.to_string().into()),
            ("rate_bps", wire.rate_bps.into()),
            ("family", u64::from(u8::from(family)).into()),
            ("payload_bytes", payload.into()),
            ("frames", frames.count.into()),
            ("wire_bytes", frames.wire_bytes.into()),
        ]),
    })
}

fn share(rate_bps: u64, part_bytes: u64, whole_bytes: u64) -> Option<Exact> {
    Exact::new(u128::from(rate_bps) * u128::from(part_bytes), u128::from(whole_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::Input;
    use fabricmark_units::BitRate;
    use proptest::prelude::*;

    fn link(text: &str) -> Link {
        text.parse().unwrap()
    }

    fn mbps(ceiling: Option<Ceiling>) -> f64 {
        ceiling.unwrap().goodput_bps.as_f64() / 1e6
    }

    /// Equal to the printed figure, half a unit of its last digit allowed.
    fn assert_prints(value: f64, printed: f64, decimals: i32, case: &str) {
        let half = 0.5 * 10f64.powi(-decimals) * (1.0 + 1e-9);
        assert!((value - printed).abs() <= half, "{case}: {value} {printed}");
    }

    #[test]
    fn frame_rates_are_those_of_rfc_5180() {
        for (frame, fps) in
            [(64, 14_880_952.0), (512, 2_349_624.0), (1518, 812_743.0), (9216, 135_339.0)]
        {
            let rate = packet_rate(link("ethernet:10G,mtu=9198"), frame - 18).unwrap();
            assert_eq!(rate.as_f64().floor(), fps, "{frame}");
        }
        assert_eq!(packet_rate(link("ethernet:10G"), 1501), None);
    }

    #[test]
    fn udp_over_ethernet_reaches_the_known_goodput() {
        for (text, family, payload, expected) in [
            ("ethernet:1G", Family::V4, 18, 214.2857),
            ("ethernet:1G", Family::V4, 1472, 957.0871),
            ("ethernet:1G", Family::V6, 1452, 944.0832),
            ("ethernet:1G", Family::V6, 1453, 889.7734),
            ("ethernet:10G", Family::V6, 2892, 9414.0625),
            ("ethernet:10G", Family::V6, 2893, 9157.9614),
        ] {
            let ceiling = udp_goodput(link(text), family, payload);
            assert_prints(mbps(ceiling), expected, 4, &format!("{family} {payload}"));
        }
    }

    #[test]
    fn a_tcp_stream_reaches_the_known_goodput() {
        for (text, family, plain, stamped, decimals) in [
            ("ethernet:10G", Family::V4, 9492.848, 9414.824, 3),
            ("ethernet:10G", Family::V6, 9362.81, 9284.79, 2),
            ("ethernet:10G,mtu=9000", Family::V4, 9913.698, 9900.420, 3),
            ("ethernet:10G,mtu=9000", Family::V6, 9891.569, 9878.292, 3),
        ] {
            for (options, expected) in [(0, plain), (12, stamped)] {
                let ceiling = tcp_stream_goodput(link(text), family, options);
                assert_prints(mbps(ceiling), expected, decimals, text);
            }
        }
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
            assert_eq!(ceiling.as_ref().map(|ceiling| ceiling.kind), Some(Kind::Bound));
            assert_prints(mbps(ceiling), expected, 4, text);
        }
        assert_eq!(quic_goodput(link("veth"), Family::V4), None);
    }

    #[test]
    fn only_a_stream_without_options_is_a_bound_for_tcp() {
        let link = link("ethernet:1G");
        let kind = |ceiling: Option<Ceiling>| ceiling.unwrap().kind;
        let stream = |options| kind(tcp_stream_goodput(link, Family::V4, options));
        assert_eq!((stream(0), stream(12)), (Kind::Bound, Kind::Conditional));
        let message = kind(tcp_message_goodput(link, Family::V4, 64, 0));
        assert_eq!(message, Kind::Conditional);
        assert_eq!(kind(udp_goodput(link, Family::V4, 64)), Kind::Bound);
    }

    #[test]
    fn a_ceiling_carries_what_it_was_computed_from() {
        let ceiling = udp_goodput(link("ethernet:1G"), Family::V4, 1472).unwrap();
        assert_eq!(ceiling.formula, "rate_bps * payload_bytes / wire_bytes");
        assert_eq!(ceiling.inputs["wire_bytes"], Input::Number(1538));
        assert_eq!(ceiling.inputs["link"], Input::Text("ethernet:1G".into()));
        let json = serde_json::to_string(&ceiling).unwrap();
        assert!(json.contains(r#""exact":"736000000000/769""#), "{json}");
        assert_eq!(serde_json::from_str::<Ceiling>(&json).unwrap(), ceiling);
    }

    #[test]
    fn without_a_wire_or_a_message_there_is_no_ceiling() {
        let wire = link("ethernet:1G");
        assert_eq!(udp_goodput(link("veth"), Family::V4, 64), None);
        assert_eq!(tcp_stream_goodput(link("veth"), Family::V4, 0), None);
        assert_eq!(udp_goodput(wire, Family::V4, 65_508), None);
        assert_eq!(tcp_message_goodput(wire, Family::V4, 0, 12), None);
        assert_eq!(tcp_message_goodput(wire, Family::V4, u64::MAX, 12), None);
        for (rate, mtu, vlan) in [(0, 1500, 0), (1, 0, 0), (1, 1500, 3)] {
            let rate = BitRate(rate);
            let broken = Link::Ethernet { rate, mtu, vlan };
            assert_eq!(tcp_stream_goodput(broken, Family::V6, 255), None);
        }
    }

    proptest! {
        #[test]
        fn goodput_stays_below_the_rate(
            v6: bool,
            rate in 1u64..,
            mtu in crate::MTU_MIN..,
            vlan in 0u8..=2,
            payload in 1u64..=65_507,
            options: u8,
        ) {
            let family = if v6 { Family::V6 } else { Family::V4 };
            let link = Link::Ethernet { rate: BitRate(rate), mtu, vlan };
            let line = Exact::new(u128::from(rate), 1).unwrap();
            for ceiling in [
                udp_goodput(link, family, payload),
                tcp_stream_goodput(link, family, options),
                tcp_message_goodput(link, family, payload, options),
            ] {
                prop_assert!(ceiling.unwrap().goodput_bps < line);
            }
        }

        #[test]
        fn messages_never_beat_the_stream(v6: bool, mtu in crate::MTU_MIN.., payload in 1u64..1 << 40) {
            let family = if v6 { Family::V6 } else { Family::V4 };
            let link = Link::Ethernet { rate: BitRate(1), mtu, vlan: 0 };
            let message = tcp_message_goodput(link, family, payload, 0).unwrap();
            let stream = tcp_stream_goodput(link, family, 0).unwrap();
            prop_assert!(message.goodput_bps <= stream.goodput_bps);
        }
    }

    /// Payload in bytes; at MTU 1500 IPv4 and IPv6 with frames; at MTU 9000 IPv4 and IPv6. Mbit/s.
    type Row = (u64, [(f64, u64); 2], [f64; 2]);

    const UDP_10GBE: [Row; 14] = [
        (4, [(476.19, 1), (444.44, 1)], [476.19, 444.44]),
        (8, [(952.38, 1), (851.06, 1)], [952.38, 851.06]),
        (16, [(1904.76, 1), (1568.63, 1)], [1904.76, 1568.63]),
        (32, [(3265.31, 1), (2711.86, 1)], [3265.31, 2711.86]),
        (64, [(4923.08, 1), (4266.67, 1)], [4923.08, 4266.67]),
        (128, [(6597.94, 1), (5981.31, 1)], [6597.94, 5981.31]),
        (256, [(7950.31, 1), (7485.38, 1)], [7950.31, 7485.38]),
        (512, [(8858.13, 1), (8561.87, 1)], [8858.13, 8561.87]),
        (1024, [(9394.50, 1), (9225.23, 1)], [9394.50, 9225.23]),
        (2048, [(9429.10, 2), (9192.10, 2)], [9687.80, 9597.00]),
        (4096, [(9574.57, 3), (9390.19, 3)], [9841.42, 9794.36]),
        (8192, [(9583.53, 6), (9398.81, 6)], [9920.08, 9896.11]),
        (16_384, [(9588.01, 12), (9403.12, 12)], [9924.88, 9891.33]),
        (32_768, [(9606.57, 23), (9428.55, 23)], [9927.29, 9893.72]),
    ];

    /// Time stamps on.
    const TCP_10GBE: [Row; 14] = [
        (4, [(425.53, 1), (350.88, 1)], [425.53, 350.88]),
        (8, [(816.33, 1), (677.97, 1)], [816.33, 677.97]),
        (16, [(1509.43, 1), (1269.84, 1)], [1509.43, 1269.84]),
        (32, [(2622.95, 1), (2253.52, 1)], [2622.95, 2253.52]),
        (64, [(4155.84, 1), (3678.16, 1)], [4155.84, 3678.16]),
        (128, [(5871.56, 1), (5378.15, 1)], [5871.56, 5378.15]),
        (256, [(7398.84, 1), (6994.54, 1)], [7398.84, 6994.54]),
        (512, [(8504.98, 1), (8231.51, 1)], [8504.98, 8231.51]),
        (1024, [(9192.10, 1), (9029.98, 1)], [9192.10, 9029.98]),
        (2048, [(9192.10, 2), (9029.98, 2)], [9579.05, 9490.27]),
        (4096, [(9381.58, 3), (9254.41, 3)], [9785.00, 9738.47]),
        (8192, [(9381.58, 6), (9254.41, 6)], [9891.33, 9867.50]),
        (16_384, [(9381.58, 12), (9254.41, 12)], [9891.33, 9867.50]),
        (32_768, [(9405.82, 23), (9283.25, 23)], [9891.33, 9867.50]),
    ];

    fn assert_table(table: &[Row], goodput: impl Fn(Link, Family, u64) -> Option<Ceiling>) {
        for &(payload, at_1500, at_9000) in table {
            for (i, family) in [Family::V4, Family::V6].into_iter().enumerate() {
                let case = format!("{family} {payload}");
                let ceiling = goodput(link("ethernet:10G"), family, payload).unwrap();
                let (expected, frames) = at_1500[i];
                assert_eq!(ceiling.inputs["frames"], Input::Number(frames), "{case}");
                assert_prints(mbps(Some(ceiling)), expected, 2, &case);
                let ceiling = goodput(link("ethernet:10G,mtu=9000"), family, payload);
                assert_prints(mbps(ceiling), at_9000[i], 2, &case);
            }
        }
    }

    #[test]
    fn udp_over_10_gigabit_ethernet_has_the_ceilings_of_the_worked_table() {
        assert_table(&UDP_10GBE, udp_goodput);
    }

    #[test]
    fn tcp_over_10_gigabit_ethernet_has_the_ceilings_of_the_worked_table() {
        assert_table(&TCP_10GBE, |link, family, payload| {
            tcp_message_goodput(link, family, payload, 12)
        });
    }
}
