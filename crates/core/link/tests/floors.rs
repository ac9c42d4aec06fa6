//! A network with empty queues takes exactly the latency floor of the wire model.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_link::{Delay, Forwarding, Length, Limit, Line, Net, Packet, Queue, Rate, Switch};
use fabricmark_units::{Instant, Nanos};
use fabricmark_wire::{
    Family, Hop, Link, Path, Stack, Switching, fragments, one_way_floor, packets,
};
use proptest::prelude::*;

fn link(text: &str) -> Link {
    text.parse().unwrap()
}

fn queue() -> Queue<()> {
    Queue::drop_tail(Limit::Packets(1000))
}

/// The model's floor for a UDP datagram in ns.
fn floor_ns(path: &Path, family: Family, payload: u64) -> f64 {
    one_way_floor(path, Stack::Udp { family }, payload).unwrap().time_ns.as_f64()
}

/// When the last bit of a datagram sent at instant 0 leaves the network, in ns.
fn emulated_ns(path: &Path, family: Family, payload: u64) -> u64 {
    let mut net = Net::new();
    let link = path.hops[0].link;
    let port = |hop: Hop| (Line::of(hop.link).unwrap(), queue());
    let (line, wait) = port(path.hops[0]);
    let first = net.add(Rate::new(line, wait));
    let mut last = (first, 0);
    for pair in path.hops.windows(2) {
        let switch = pair[1].switch.unwrap();
        let look_bytes = if matches!(link, Link::Ipoib(_)) { 4 } else { 14 };
        let forwarding = match switch.mode {
            Switching::StoreAndForward => Forwarding::Store,
            Switching::CutThrough => Forwarding::CutThrough { look_bytes },
        };
        let ports = vec![port(pair[0]), port(pair[1])];
        let switch = net.add(Switch::new(ports, vec![1], forwarding, switch.delay_ns));
        net.connect(last, (switch, 0));
        last = (switch, 1);
    }
    let light = net.add(Delay::fixed(path.propagation_ns));
    net.connect(last, (light, 0));
    for ip_packet in fragments(family, link.mtu(), payload).unwrap() {
        let length = Length::packet(u32::try_from(ip_packet).unwrap());
        net.arrive(Instant(0), (first, 0), Packet::new((), length));
    }
    std::iter::from_fn(|| net.next(Instant(u64::MAX - 1))).last().unwrap().at.0
}

#[test]
fn a_datagram_over_the_testbed_of_p5_takes_the_time_of_the_worked_table() {
    for (switches, ns) in [(0, 9_440), (1, 18_880), (5, 56_640)] {
        let path = Path::through(link("ethernet:100M"), switches, Switching::StoreAndForward);
        assert_eq!(emulated_ns(&path, Family::V4, 64), ns);
    }
}

proptest! {
    #[test]
    fn an_empty_path_takes_the_floor_exactly(
        v6: bool,
        payload in 1u64..9000,
        switches in 0u16..4,
        cut: bool,
        propagation in 0u64..1_000_000,
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let switching = if cut { Switching::CutThrough } else { Switching::StoreAndForward };
        let path = |text| {
            let path = Path::through(link(text), switches, switching);
            Path { propagation_ns: Nanos(propagation), ..path }
        };
        let late_ns = |path: &Path| {
            emulated_ns(path, family, payload) as f64 - floor_ns(path, family, payload)
        };
        // 8 ns a byte: no rounding anywhere.
        prop_assert_eq!(late_ns(&path("ethernet:1G")), 0.0);
        // Elsewhere each line rounds up by less than a nanosecond, and cut-through once more.
        for text in ["ethernet:10G", "ethernet:25G,vlan=1", "ipoib:4X-FDR", "ipoib:4X-QDR,grh"] {
            let late = late_ns(&path(text));
            let rounded = -1e-6..f64::from(2 * switches) + 1.0;
            prop_assert!(rounded.contains(&late), "{}: {}", text, late);
        }
    }

    #[test]
    fn links_of_unequal_rates_take_their_floor_too(
        payload in 1u64..9000,
        rates in prop::collection::vec(prop::sample::select(vec!["100M", "1G", "10G"]), 1..5),
        cut: bool,
    ) {
        let mode = if cut { Switching::CutThrough } else { Switching::StoreAndForward };
        let hops = rates.iter().zip(0..).map(|(rate, place)| {
            let switch = (place > 0).then(|| fabricmark_wire::Switch { mode, ..Default::default() });
            Hop::new(link(&format!("ethernet:{rate}")), switch)
        });
        let path = Path { hops: hops.collect(), propagation_ns: Nanos(0) };
        let late =
            emulated_ns(&path, Family::V4, payload) as f64 - floor_ns(&path, Family::V4, payload);
        prop_assert!((-1e-6..2.0 * rates.len() as f64).contains(&late), "{}", late);
    }

    #[test]
    fn a_packet_has_the_bytes_on_the_wire_that_the_model_counts(
        v6: bool,
        payload in 1u64..60_000,
        grh: bool,
        ib_mtu in prop::sample::select(vec![2048u16, 4096]),
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let grh = if grh { ",grh" } else { "" };
        for text in [
            "ethernet:10G,mtu=9000".to_owned(),
            "ethernet:10G,vlan=2".to_owned(),
            format!("ipoib:4X-EDR,ib-mtu={ib_mtu}{grh}"),
            format!("ipoib:4X-EDR,mode=connected,ib-mtu={ib_mtu},mtu=65520{grh}"),
        ] {
            let link = link(&text);
            let line = Line::of(link).unwrap();
            let ip_packets = fragments(family, link.mtu(), payload).unwrap();
            let emulated: u64 = ip_packets
                .iter()
                .map(|&bytes| line.wire_bytes(Length::packet(u32::try_from(bytes).unwrap())))
                .sum();
            let model: u64 = packets(link, Stack::Udp { family }, payload).unwrap().iter().sum();
            prop_assert_eq!(emulated, model, "{}", text);
        }
    }
}
