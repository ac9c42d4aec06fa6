//! Lower bounds on latency: what serialisation, switches and distance cost, and no host time.

use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exact::{Exact, Inputs, Kind, inputs};
use crate::family::Family;
use crate::frame::{Frames, GAP, Layer4};
use crate::link::Link;

/// The least time that a message, or a request and its answer, spend on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// How firmly it stands.
    pub kind: Kind,
    /// Time in nanoseconds, first bit out of the sender to last bit into the receiver.
    pub time_ns: Exact,
    /// How it was computed, over the names in `inputs`.
    pub formula: String,
    /// What it was computed from; the unit is in each name.
    pub inputs: Inputs,
}

/// When a switch starts to send a frame on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Switching {
    /// Once it holds the whole frame.
    StoreAndForward,
    /// Once it has read the destination address: 14 bytes, preamble included. The faster of the
    /// two, so the one to assume where nobody knows.
    #[default]
    CutThrough,
}

/// What lies between two hosts: links of equal rate with switches between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// Number of switches; 0 is a cable.
    pub switches: u16,
    /// How all of them switch.
    pub switching: Switching,
    /// Time of light over the whole path, one way; 0 keeps the floor a bound.
    pub propagation_ns: Nanos,
}

/// Bytes that a cut-through switch reads before it knows the way out.
const CUT_THROUGH: u64 = 14;

/// The least time one way for `payload` bytes over a path.
///
/// A message of several frames is taken to leave back to back. `None` where there is no wire or no
/// such message. See [`rtt_floor`] for what makes a floor a bound.
pub fn one_way_floor(
    link: Link,
    family: Family,
    layer4: Layer4,
    payload: u64,
    path: Path,
) -> Option<Floor> {
    floor(link, family, layer4, path, &[("payload_bytes", payload)])
}

/// The least round trip of `request` bytes there and `response` bytes back over a path.
///
/// A bound for UDP and for TCP without options, except for TCP through store-and-forward switches:
/// there a stack that cuts more segments than it must is faster, so the floor is conditional.
/// TCP's acknowledgements are not on the way of a message that fits the window.
/// `None` where there is no wire or no such message.
pub fn rtt_floor(
    link: Link,
    family: Family,
    layer4: Layer4,
    request: u64,
    response: u64,
    path: Path,
) -> Option<Floor> {
    let messages = [("request_bytes", request), ("response_bytes", response)];
    floor(link, family, layer4, path, &messages)
}

/// The sum over messages that follow one another.
fn floor(
    link: Link,
    family: Family,
    layer4: Layer4,
    path: Path,
    messages: &[(&str, u64)],
) -> Option<Floor> {
    let wire = link.wire()?;
    let switches = u64::from(path.switches);
    let (mut count, mut frame_bytes, mut gap_bytes, mut switch_bytes) = (0u64, 0u64, 0u64, 0u64);
    let mut propagation_ns = 0u64;
    for &(_, payload) in messages {
        let frames = Frames::of(wire, family, layer4, payload)?;
        count = count.checked_add(frames.count)?;
        // The last bit of a frame has arrived before the gap behind it.
        frame_bytes = frame_bytes.checked_add(frames.wire_bytes - frames.count * GAP)?;
        gap_bytes = gap_bytes.checked_add((frames.count - 1) * GAP)?;
        switch_bytes += switches
            * match path.switching {
                Switching::StoreAndForward => frames.largest_bytes - GAP,
                Switching::CutThrough => CUT_THROUGH,
            };
        propagation_ns = propagation_ns.checked_add(path.propagation_ns.0)?;
    }
    let rate_bps = u128::from(wire.rate_bps);
    let path_bytes = u128::from(frame_bytes) + u128::from(gap_bytes) + u128::from(switch_bytes);
    let numerator =
        (8_000_000_000 * path_bytes).checked_add(u128::from(propagation_ns) * rate_bps)?;
    let mut inputs = inputs([
        ("link", link.to_string().into()),
        ("rate_bps", wire.rate_bps.into()),
        ("family", u64::from(u8::from(family)).into()),
        ("switches", switches.into()),
        ("frames", count.into()),
        ("frame_bytes", frame_bytes.into()),
        ("gap_bytes", gap_bytes.into()),
        ("switch_bytes", switch_bytes.into()),
        ("propagation_ns", propagation_ns.into()),
    ]);
    inputs.extend(messages.iter().map(|&(name, bytes)| (name.to_owned(), bytes.into())));
    if let Layer4::Tcp { option_bytes } = layer4 {
        inputs.insert("option_bytes".to_owned(), u64::from(option_bytes).into());
    }
    Some(Floor {
        kind: kind(layer4, path),
        time_ns: Exact::new(numerator, rate_bps)?,
        formula: "8e9 * (frame_bytes + gap_bytes + switch_bytes) / rate_bps + propagation_ns"
            .to_owned(),
        inputs,
    })
}

fn kind(layer4: Layer4, path: Path) -> Kind {
    let stores = path.switches > 0 && path.switching == Switching::StoreAndForward;
    match layer4 {
        Layer4::Udp => Kind::Bound,
        Layer4::Tcp { option_bytes: 0 } if !stores => Kind::Bound,
        Layer4::Tcp { .. } => Kind::Conditional,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::TCP_TIMESTAMPS;
    use proptest::prelude::*;

    const STAMPED: Layer4 = Layer4::Tcp { option_bytes: TCP_TIMESTAMPS };

    fn link(text: &str) -> Link {
        text.parse().unwrap()
    }

    fn path(switches: u16, switching: Switching) -> Path {
        Path { switches, switching, ..Path::default() }
    }

    fn micros(floor: Option<Floor>) -> f64 {
        floor.unwrap().time_ns.as_f64() / 1e3
    }

    #[test]
    fn each_store_and_forward_hop_costs_one_more_frame() {
        for (switches, us) in [(0, 9.44), (1, 18.88), (5, 56.64)] {
            let path = path(switches, Switching::StoreAndForward);
            let floor = one_way_floor(link("ethernet:100M"), Family::V4, Layer4::Udp, 64, path);
            assert_eq!(micros(floor), us, "{switches}");
        }
    }

    #[test]
    fn a_fragmented_datagram_pays_the_gaps_and_its_largest_frame() {
        let tenths = |family, payload, switching| {
            let path = path(1, switching);
            let floor = one_way_floor(link("ethernet:10G"), family, Layer4::Udp, payload, path);
            (floor.unwrap().time_ns.as_f64() * 10.0).round()
        };
        let stored = Switching::StoreAndForward;
        assert_eq!(tenths(Family::V4, 2048, stored), 29_488.0);
        assert_eq!(tenths(Family::V4, 2048, Switching::CutThrough), 17_392.0);
        // Packets of 1496 and 1500 bytes: (1522 + 12 + 1526 + 1526) * 0.8 ns.
        assert_eq!(tenths(Family::V6, 2892, stored), 36_688.0);
    }

    #[test]
    fn a_round_trip_is_the_sum_of_both_ways() {
        let path = Path { propagation_ns: Nanos(5), ..path(1, Switching::StoreAndForward) };
        let wire = link("ethernet:100M");
        let way = |bytes| micros(one_way_floor(wire, Family::V4, Layer4::Udp, bytes, path));
        // 118 and 72 bytes of 80 ns, each twice, and the light once.
        assert_eq!((way(64), way(4)), (18.885, 11.525));
        let floor = rtt_floor(wire, Family::V4, Layer4::Udp, 64, 4, path).unwrap();
        assert_eq!(floor.time_ns, Exact::new(30_410, 1).unwrap());
        assert_eq!(floor.inputs["request_bytes"], 64.into());
        assert_eq!(floor.inputs["propagation_ns"], 10.into());
    }

    #[test]
    fn only_what_no_stack_can_beat_is_a_bound() {
        let kind = |layer4, path| {
            rtt_floor(link("ethernet:1G"), Family::V6, layer4, 1, 1, path).unwrap().kind
        };
        let plain = Layer4::Tcp { option_bytes: 0 };
        let stored = path(1, Switching::StoreAndForward);
        assert_eq!(kind(Layer4::Udp, stored), Kind::Bound);
        assert_eq!(kind(plain, path(1, Switching::CutThrough)), Kind::Bound);
        assert_eq!(kind(plain, path(0, Switching::StoreAndForward)), Kind::Bound);
        assert_eq!(kind(plain, stored), Kind::Conditional);
        assert_eq!(kind(STAMPED, Path::default()), Kind::Conditional);
    }

    #[test]
    fn without_a_wire_or_a_message_there_is_no_floor() {
        let floor = |link, layer4, payload| {
            one_way_floor(link, Family::V4, layer4, payload, Path::default())
        };
        let wire = link("ethernet:1G");
        assert_eq!(floor(link("veth"), Layer4::Udp, 64), None);
        assert_eq!(floor(wire, Layer4::Udp, 65_508), None);
        assert_eq!(floor(wire, STAMPED, 0), None);
        assert!(floor(wire, Layer4::Udp, 0).is_some());
    }

    #[test]
    fn a_floor_reads_back_from_json() {
        let floor = rtt_floor(link("ethernet:3G"), Family::V6, STAMPED, 7, 9, Path::default());
        let floor = floor.unwrap();
        let json = serde_json::to_string(&floor).unwrap();
        assert_eq!(serde_json::from_str::<Floor>(&json).unwrap(), floor);
    }

    proptest! {
        #[test]
        fn no_path_is_faster_than_one_frame_after_another(
            payload in 1u64..65_000,
            mtu in crate::MTU_MIN..,
            switches in 0u16..100,
        ) {
            let wire = link(&format!("ethernet:1G,mtu={mtu}"));
            let time = |path| one_way_floor(wire, Family::V4, Layer4::Udp, payload, path)
                .unwrap()
                .time_ns;
            let cut = time(path(switches, Switching::CutThrough));
            let stored = time(path(switches, Switching::StoreAndForward));
            // 8 ns a byte at 1 Gbit/s.
            let payload_ns = Exact::new(8 * u128::from(payload), 1).unwrap();
            prop_assert!(payload_ns < cut && cut <= stored);
        }
    }

    /// Payload in bytes; IPv4 and IPv6, each cut-through and store-and-forward. Microseconds.
    type Row = (u64, [f64; 2], [f64; 2]);

    const UDP_10GBE: [Row; 14] = [
        (4, [0.069, 0.115], [0.074, 0.125]),
        (8, [0.069, 0.115], [0.077, 0.131]),
        (16, [0.069, 0.115], [0.083, 0.144]),
        (32, [0.080, 0.138], [0.096, 0.170]),
        (64, [0.106, 0.189], [0.122, 0.221]),
        (128, [0.157, 0.291], [0.173, 0.323]),
        (256, [0.259, 0.496], [0.275, 0.528]),
        (512, [0.464, 0.906], [0.480, 0.938]),
        (1024, [0.874, 1.725], [0.890, 1.757]),
        (2048, [1.739, 2.949], [1.784, 2.990]),
        (4096, [3.424, 4.634], [3.491, 4.698]),
        (8192, [6.840, 8.050], [6.974, 8.181]),
        (16_384, [13.672, 14.882], [13.941, 15.147]),
        (32_768, [27.290, 28.499], [27.805, 29.011]),
    ];

    /// Time stamps on.
    const TCP_10GBE: [Row; 14] = [
        (4, [0.077, 0.131], [0.093, 0.163]),
        (8, [0.080, 0.138], [0.096, 0.170]),
        (16, [0.086, 0.150], [0.102, 0.182]),
        (32, [0.099, 0.176], [0.115, 0.208]),
        (64, [0.125, 0.227], [0.141, 0.259]),
        (128, [0.176, 0.330], [0.192, 0.362]),
        (256, [0.278, 0.534], [0.294, 0.566]),
        (512, [0.483, 0.944], [0.499, 0.976]),
        (1024, [0.893, 1.763], [0.909, 1.795]),
        (2048, [1.784, 2.994], [1.816, 3.026]),
        (4096, [3.494, 4.704], [3.542, 4.752]),
        (8192, [6.987, 8.197], [7.083, 8.293]),
        (16_384, [13.973, 15.182], [14.165, 15.374]),
        (32_768, [27.872, 29.082], [28.240, 29.450]),
    ];

    #[test]
    fn one_10_gigabit_switch_has_the_floors_of_the_worked_tables() {
        for (layer4, table) in [(Layer4::Udp, &UDP_10GBE), (STAMPED, &TCP_10GBE)] {
            for &(payload, v4, v6) in table {
                for (family, expected) in [(Family::V4, v4), (Family::V6, v6)] {
                    for (switching, expected) in [
                        (Switching::CutThrough, expected[0]),
                        (Switching::StoreAndForward, expected[1]),
                    ] {
                        let path = path(1, switching);
                        let floor =
                            one_way_floor(link("ethernet:10G"), family, layer4, payload, path);
                        let us = micros(floor);
                        assert!(
                            (us - expected).abs() <= 0.000_500_001,
                            "{layer4:?} {family} {payload} {switching:?}: {us} {expected}"
                        );
                    }
                }
            }
        }
    }
}
