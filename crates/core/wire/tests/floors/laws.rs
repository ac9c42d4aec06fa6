//! Properties of every floor.

use fabricmark_units::Nanos;
use fabricmark_wire::{
    Exact, Family, Path, Stack, Switch, Switching, one_way_floor, packets, rtt_floor,
};
use proptest::prelude::*;

use super::{UDP4, link, tcp, time};

const LINKS: [&str; 6] = [
    "ethernet:1G",
    "ethernet:10G,mtu=9000,vlan=1",
    "ipoib:4X-FDR",
    "ipoib:4X-SDR,mode=connected,mtu=65520",
    "ipoib:12X-QDR,mode=connected,ib-mtu=256",
    "ipoib:1X-DDR,ib-mtu=4096,grh",
];

const ETHERNETS: [&str; 3] = ["ethernet:1G", "ethernet:10G", "ethernet:40G,vlan=2"];

fn mode(stores: bool) -> Switching {
    if stores { Switching::StoreAndForward } else { Switching::CutThrough }
}

/// The same path, but with packets followed one by one: an explicit default `look_bytes` differs from `None`.
fn told_otherwise(path: &Path, look: u64) -> Path {
    let mut path = path.clone();
    for hop in path.hops.iter_mut().skip(2) {
        let switch = hop.switch.unwrap_or_default();
        hop.switch = Some(Switch { look_bytes: Some(look), ..switch });
    }
    path
}

/// Serialization time of `bytes` at the rate of a link, in nanoseconds.
fn serialised(text: &str, bytes: u64) -> Exact {
    let rate = link(text).rate_bps().unwrap();
    let bits = 8_000_000_000 * u128::from(bytes) * rate.denominator();
    Exact::new(bits, rate.numerator()).unwrap()
}

proptest! {
    #[test]
    fn following_packets_over_equal_links_gives_the_closed_form(
        text in prop::sample::select(&LINKS),
        stores: bool,
        switches in 2u16..7,
        payload in 1u64..1 << 33,
        is_tcp: bool,
    ) {
        let path = Path::through(link(text), switches, mode(stores));
        let look = if text.starts_with("ipoib") { 4 } else { 14 };
        let (stack, payload) = if is_tcp { (tcp(12), payload) } else { (UDP4, payload % 65_508) };
        let followed = one_way_floor(&told_otherwise(&path, look), stack, payload).unwrap();
        let closed = one_way_floor(&path, stack, payload).unwrap();
        prop_assert_ne!(&followed.formula, &closed.formula);
        prop_assert_eq!(followed.time_ns, closed.time_ns);
        prop_assert_eq!(&followed.inputs["packets"], &closed.inputs["packets"]);
        prop_assert_eq!(followed.kind, closed.kind);
    }

    #[test]
    fn no_path_is_faster_than_one_frame_after_another(
        text in prop::sample::select(&LINKS),
        payload in 1u64..65_000,
        switches in 0u16..20,
    ) {
        let through = |mode| time(&Path::through(link(text), switches, mode), UDP4, payload);
        let cable = time(&Path::direct(link(text)), UDP4, payload);
        let (cut, stored) = (through(Switching::CutThrough), through(Switching::StoreAndForward));
        prop_assert!(serialised(text, payload) < cable);
        prop_assert!(cable <= cut && cut <= stored);
    }

    #[test]
    fn links_one_after_another_take_no_longer_than_each_alone(
        texts in prop::collection::vec(prop::sample::select(&ETHERNETS), 1..6),
        stores: bool,
        payload in 0u64..65_000,
    ) {
        let floor = time(&super::path(&texts, mode(stores)), UDP4, payload).as_f64();
        let alone = |text: &&str| time(&Path::direct(link(text)), UDP4, payload).as_f64();
        let sum: f64 = texts.iter().map(alone).sum();
        let slowest = texts.iter().map(alone).fold(0.0, f64::max);
        prop_assert!(floor <= sum * (1.0 + 1e-12) && slowest <= floor * (1.0 + 1e-12));
    }

    #[test]
    fn more_bytes_a_slower_link_and_distance_never_take_less_time(
        payload in 1u64..60_000,
        more in 0u64..5_000,
        switches in 0u16..5,
        stores: bool,
        light in 0u64..1_000_000,
    ) {
        let path = |text| Path::through(link(text), switches, mode(stores));
        let (fast, slow) = (path("ethernet:10G"), path("ethernet:9G"));
        prop_assert!(time(&fast, tcp(0), payload) <= time(&fast, tcp(0), payload + more));
        prop_assert!(time(&fast, UDP4, payload) < time(&slow, UDP4, payload));
        let near = time(&fast, UDP4, payload).as_f64();
        let far = Path { propagation_ns: Nanos(light), ..fast };
        prop_assert!((time(&far, UDP4, payload).as_f64() - near - light as f64).abs() < 1e-3);
    }

    #[test]
    fn a_round_trip_is_there_and_back(
        request in 1u64..10_000,
        response in 1u64..10_000,
        v6: bool,
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let stack = Stack::Tcp { family, option_bytes: 0 };
        let links = ["ethernet:1G", "ipoib:4X-SDR", "ipoib:4X-DDR"];
        let there = super::path(&links, Switching::CutThrough);
        let round = rtt_floor(&there, stack, request, response).unwrap().time_ns;
        let ways = time(&there, stack, request).as_f64()
            + time(&there.reversed(), stack, response).as_f64();
        prop_assert!((round.as_f64() - ways).abs() < 1e-6);
    }

    #[test]
    fn a_cable_takes_as_long_as_its_packets_and_the_gaps_between(
        text in prop::sample::select(&LINKS),
        payload in 1u64..300_000,
    ) {
        let sizes = packets(link(text), tcp(0), payload).unwrap();
        let gap = if text.starts_with("ethernet") { 12 } else { 0 };
        let bytes = sizes.iter().sum::<u64>() + gap * (sizes.len() as u64 - 1);
        let floor = time(&Path::direct(link(text)), tcp(0), payload);
        prop_assert_eq!(floor, serialised(text, bytes));
    }
}
