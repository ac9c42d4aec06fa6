//! Floors: known figures, properties, and comparison with an independent simulation.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod events;
mod laws;

use fabricmark_units::Nanos;
use fabricmark_wire::{
    Exact, Family, Floor, Hop, Impossible, Kind, Link, Operation, Path, Stack, Switch, Switching,
    one_way_floor, rtt_floor,
};

const UDP4: Stack = Stack::Udp { family: Family::V4 };
const UDP6: Stack = Stack::Udp { family: Family::V6 };
const READ: Stack = Stack::Rc { operation: Operation::Read, immediate: false, family: Family::V4 };

const fn tcp(option_bytes: u8) -> Stack {
    Stack::Tcp { family: Family::V4, option_bytes }
}

fn link(text: &str) -> Link {
    text.parse().unwrap()
}

/// Links in order, with switches of one mode between them.
fn path(links: &[&str], mode: Switching) -> Path {
    let switch = Switch { mode, ..Switch::default() };
    let hop = |(place, text): (usize, &&str)| Hop::new(link(text), (place > 0).then_some(switch));
    Path { hops: links.iter().enumerate().map(hop).collect(), propagation_ns: Nanos(0) }
}

fn time(path: &Path, stack: Stack, payload: u64) -> Exact {
    one_way_floor(path, stack, payload).unwrap().time_ns
}

/// `numerator / denominator` nanoseconds.
fn ns(numerator: u128, denominator: u128) -> Exact {
    Exact::new(numerator, denominator).unwrap()
}

#[test]
fn each_store_and_forward_switch_costs_one_more_frame() {
    for (switches, expected) in [(0, 9440), (1, 18_880), (5, 56_640)] {
        let path = Path::through(link("ethernet:100M"), switches, Switching::StoreAndForward);
        assert_eq!(time(&path, UDP4, 64), ns(expected, 1), "{switches}");
    }
}

#[test]
fn a_fragmented_datagram_pays_the_gaps_and_its_largest_frame() {
    let through = |mode| Path::through(link("ethernet:10G"), 1, mode);
    let stored = through(Switching::StoreAndForward);
    assert_eq!(time(&stored, UDP4, 2048), ns(29_488, 10));
    assert_eq!(time(&through(Switching::CutThrough), UDP4, 2048), ns(17_392, 10));
    // Packets of 1496 and 1500 bytes: (1522 + 12 + 1526 + 1526) * 0.8 ns.
    assert_eq!(time(&stored, UDP6, 2892), ns(36_688, 10));
}

#[test]
fn a_round_trip_is_the_sum_of_both_ways() {
    let wire = link("ethernet:100M");
    let stored = Path::through(wire, 1, Switching::StoreAndForward);
    let path = Path { propagation_ns: Nanos(5), ..stored };
    // 118 and 72 bytes at 80 ns, each twice, plus the propagation delay.
    assert_eq!(time(&path, UDP4, 64), ns(18_885, 1));
    assert_eq!(time(&path, UDP4, 4), ns(11_525, 1));
    let floor = rtt_floor(&path, UDP4, 64, 4).unwrap();
    assert_eq!(floor.time_ns, ns(30_410, 1));
    assert_eq!(floor.inputs["request_bytes"], 64.into());
    assert_eq!(floor.inputs["propagation_ns"], 10.into());
    assert_eq!(floor.inputs["packets"], 2.into());
}

#[test]
fn the_way_back_crosses_the_links_in_the_other_order() {
    let there = path(&["ethernet:1G", "ethernet:10G"], Switching::StoreAndForward);
    let back = path(&["ethernet:10G", "ethernet:1G"], Switching::StoreAndForward);
    assert_eq!(there.reversed(), back);
    // Two frames of 1526 and 622 bytes: the slow link first, or last after the first frame.
    assert_eq!(time(&there, UDP4, 2048), ns((1526 + 12 + 622) * 80 + 622 * 8, 10));
    assert_eq!(time(&back, UDP4, 2048), ns(1526 * 8 + (1526 + 12 + 622) * 80, 10));
    let round = rtt_floor(&there, UDP4, 2048, 2048).unwrap();
    assert_eq!(round.time_ns, ns((2160 * 2) * 80 + (1526 + 622) * 8, 10));
}

#[test]
fn a_read_asks_without_payload_and_is_answered_with_it() {
    let cable = Path::direct(link("ib:4X-EDR"));
    // 42 bytes of request, 34 of response, 0.08 ns each.
    let floor = rtt_floor(&cable, READ, 0, 4).unwrap();
    assert_eq!(floor.time_ns, ns(76 * 8, 100));
    assert_eq!(floor.notes, ["the payload of an RDMA READ is in the response"]);
    assert_eq!(rtt_floor(&cable, READ, 4, 4), Err(Impossible::ReadRequest(4)));
}

#[test]
fn a_cut_through_switch_before_a_faster_link_stores_and_forwards_and_says_so() {
    let links = ["ethernet:1G", "ethernet:10G"];
    let cut = one_way_floor(&path(&links, Switching::CutThrough), UDP4, 1472).unwrap();
    let stored = one_way_floor(&path(&links, Switching::StoreAndForward), UDP4, 1472).unwrap();
    assert_eq!(cut.time_ns, stored.time_ns);
    assert_eq!(cut.kind, Kind::Bound);
    assert_eq!(
        cut.notes,
        ["ethernet:10G is faster than ethernet:1G, so the cut-through switch between them is \
             computed as store-and-forward"]
    );
    assert!(stored.notes.is_empty());
    // Onto a slower link it starts after 14 bytes.
    let slower = path(&["ethernet:10G", "ethernet:1G"], Switching::CutThrough);
    assert_eq!(time(&slower, UDP4, 1472), ns(14 * 8 + 1526 * 80, 10));
}

#[test]
fn a_router_between_unlike_links_holds_the_packet_and_says_so() {
    let links = ["ethernet:10G,mtu=2044", "ipoib:4X-EDR,mode=connected,ib-mtu=1024"];
    let floor = one_way_floor(&path(&links, Switching::CutThrough), UDP4, 2016).unwrap();
    // 2,070 bytes at 0.8 ns, then 2,048 and twice 26 at 0.08.
    assert_eq!(floor.time_ns, ns(207_000 * 8 + 2100 * 80, 1000));
    assert!(floor.notes[0].contains("computed as a store-and-forward router"), "{:?}", floor.notes);
    // In the other direction the router waits for both packets.
    let back = path(&[links[1], links[0]], Switching::StoreAndForward);
    assert_eq!(time(&back, UDP4, 2016), floor.time_ns);
}

#[test]
fn switched_neighbours_of_a_connection_share_the_smallest_packets() {
    let small = "ipoib:4X-EDR,mode=connected,ib-mtu=1024";
    let large = "ipoib:4X-EDR,mode=connected,ib-mtu=2048";
    let stored = |links: &[&str]| time(&path(links, Switching::StoreAndForward), UDP4, 2016);
    assert_eq!(stored(&[large, small]), stored(&[small, small]));
    assert!(stored(&[small, small]) < stored(&[large, large]));
}

#[test]
fn a_switch_that_looks_further_than_it_must_is_an_assumption() {
    let with = |look| {
        let mut path = Path::through(link("ethernet:10G"), 1, Switching::CutThrough);
        let delay_ns = Nanos(300);
        path.hops[1].switch =
            Some(Switch { look_bytes: Some(look), delay_ns, ..Switch::default() });
        one_way_floor(&path, UDP4, 1472).unwrap()
    };
    for (look, kind, bytes) in [
        (0, Kind::Bound, 1526),
        (14, Kind::Bound, 1540),
        (64, Kind::Conditional, 1590),
        // A switch waits for no more bytes than the packet has.
        (9000, Kind::Conditional, 2 * 1526),
    ] {
        let floor = with(look);
        assert_eq!((floor.kind, floor.notes.is_empty()), (kind, kind == Kind::Bound), "{look}");
        assert_eq!(floor.time_ns, ns(8 * bytes + 3000, 10), "{look}");
    }
}

#[test]
fn a_tag_taken_off_does_not_let_the_last_byte_leave_before_it_has_come() {
    let mut path = path(&["ethernet:10G,vlan=2", "ethernet:10G"], Switching::CutThrough);
    path.hops[1].switch = Some(Switch { look_bytes: Some(0), ..Switch::default() });
    assert_eq!(time(&path, UDP4, 1472), ns(8 * (1526 + 8), 10));
}

#[test]
fn only_what_no_stack_can_beat_is_a_bound() {
    let kind = |stack, switches, mode| {
        let path = Path::through(link("ethernet:1G"), switches, mode);
        rtt_floor(&path, stack, 1, 1).unwrap().kind
    };
    let stored = Switching::StoreAndForward;
    assert_eq!(kind(UDP4, 1, stored), Kind::Bound);
    assert_eq!(kind(tcp(0), 1, Switching::CutThrough), Kind::Bound);
    assert_eq!(kind(tcp(0), 0, stored), Kind::Bound);
    assert_eq!(kind(tcp(0), 1, stored), Kind::Conditional);
    assert_eq!(kind(tcp(12), 0, Switching::CutThrough), Kind::Conditional);
}

#[test]
fn a_path_that_is_none_is_refused() {
    let floor = |path: &Path| one_way_floor(path, UDP4, 64);
    let none = Path { hops: Vec::new(), propagation_ns: Nanos(0) };
    assert_eq!(floor(&none), Err(Impossible::EmptyPath));
    let mut first = Path::direct(link("ethernet:1G"));
    first.hops[0].switch = Some(Switch::default());
    assert_eq!(floor(&first), Err(Impossible::FirstSwitch));
    let veth = Path::direct(link("veth"));
    assert_eq!(floor(&veth), Err(Impossible::NoWire(link("veth"))));
    assert!(floor(&Path::direct(link("ethernet:1G"))).is_ok());
}

#[test]
fn a_floor_reads_back_from_json() {
    for links in [&["ethernet:3G"][..], &["ethernet:1G", "ipoib:4X-FDR"]] {
        let floor = rtt_floor(&path(links, Switching::CutThrough), tcp(12), 7, 9).unwrap();
        let json = serde_json::to_string(&floor).unwrap();
        assert!(json.contains(r#""kind":"conditional""#), "{json}");
        assert_eq!(serde_json::from_str::<Floor>(&json).unwrap(), floor);
    }
}
