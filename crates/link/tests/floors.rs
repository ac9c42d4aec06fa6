//! A net of empty queues is as fast as the model says a wire can be, and no faster.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_link::{
    Delay, Forwarding, Framing, Length, Limit, Line, Net, Packet, Queue, Rate, Switch,
};
use fabricmark_units::{BitRate, Instant, Nanos};
use fabricmark_wire::{Family, Layer4, Link, Path, Switching, fragments, one_way_floor};
use proptest::prelude::*;

fn line(rate_bps: u64) -> Line {
    Line::new(BitRate(rate_bps), Framing::ethernet(0)).unwrap()
}

fn queue() -> Queue<()> {
    Queue::drop_tail(Limit::Packets(1000))
}

/// The model's floor for a UDP datagram, in nanoseconds.
fn floor_ns(rate_bps: u64, family: Family, payload: u64, path: Path) -> f64 {
    let link = Link::Ethernet { rate: BitRate(rate_bps), mtu: 1500, vlan: 0 };
    one_way_floor(link, family, Layer4::Udp, payload, path).unwrap().time_ns.as_f64()
}

/// When the last bit of the datagram has gone through the net, sent from instant 0 on.
fn emulated_ns(rate_bps: u64, family: Family, payload: u64, path: Path) -> u64 {
    let mut net = Net::new();
    let first = net.add(Rate::new(line(rate_bps), queue()));
    let mut last = (first, 0);
    for _ in 0..path.switches {
        let forwarding = match path.switching {
            Switching::StoreAndForward => Forwarding::Store,
            Switching::CutThrough => Forwarding::CutThrough { look_bytes: 14 },
        };
        let ports = vec![(line(rate_bps), queue()), (line(rate_bps), queue())];
        let switch = net.add(Switch::new(ports, vec![1], forwarding, Nanos(0)));
        net.connect(last, (switch, 0));
        last = (switch, 1);
    }
    let light = net.add(Delay::fixed(path.propagation_ns));
    net.connect(last, (light, 0));
    for ip_packet in fragments(family, 1500, payload).unwrap() {
        let length = Length::packet(u32::try_from(ip_packet).unwrap());
        net.arrive(Instant(0), (first, 0), Packet::new((), length));
    }
    std::iter::from_fn(|| net.next(Instant(u64::MAX - 1))).last().unwrap().at.0
}

#[test]
fn a_datagram_over_the_testbed_of_p5_takes_the_time_of_the_worked_table() {
    for (switches, ns) in [(0, 9_440), (1, 18_880), (5, 56_640)] {
        let path = Path { switches, switching: Switching::StoreAndForward, ..Path::default() };
        assert_eq!(emulated_ns(100_000_000, Family::V4, 64, path), ns);
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
        let path = Path { switches, switching, propagation_ns: Nanos(propagation) };
        // 8 ns a byte: no rounding anywhere.
        let emulated = emulated_ns(1_000_000_000, family, payload, path);
        prop_assert_eq!(emulated as f64, floor_ns(1_000_000_000, family, payload, path));
        // 0.8 ns a byte: each line rounds up by less than a nanosecond, and cutting through once more.
        let late = emulated_ns(10_000_000_000, family, payload, path) as f64
            - floor_ns(10_000_000_000, family, payload, path);
        prop_assert!((-1e-6..f64::from(2 * switches) + 1.0).contains(&late), "{}", late);
    }
}
