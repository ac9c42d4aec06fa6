//! A discrete-event simulation that shares no code with the floors: packets queue at links. Times are whole
//! picoseconds, a multiple of which a byte takes on every link generated here.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fabricmark_units::Nanos;
use fabricmark_wire::{
    Exact, Family, Hop, Operation, Path, Stack, Switch, Switching, fragments, one_way_floor,
};
use proptest::prelude::*;

/// A link of the simulation.
#[derive(Clone, Debug)]
struct Wire {
    text: String,
    kind: &'static str,
    ps_per_byte: u64,
    vlan: u64,
    grh: bool,
}

/// A switch of the simulation; that of the first link is ignored.
#[derive(Clone, Debug)]
struct Between {
    stores: bool,
    look: Option<u64>,
    delay_ns: u64,
}

/// Bytes on the wire of each packet that carries one packet of the layer above.
fn frames(wire: &Wire, family: Family, ib_mtu: u64, packet: u64) -> Vec<u64> {
    let pad = |bytes: u64| (4 - bytes % 4) % 4;
    let grh = if wire.grh { 40 } else { 0 };
    let ethernet = |inside: u64| 8 + (18 + 4 * wire.vlan + inside).max(64);
    match wire.kind {
        "ethernet" => vec![ethernet(packet)],
        "rocev1" => vec![ethernet(40 + packet)],
        "rocev2" => vec![ethernet(if family == Family::V4 { 28 } else { 48 } + packet)],
        "ib" => vec![8 + grh + packet + 2],
        "datagram" => vec![38 + grh + packet + pad(4 + packet)],
        _ => {
            let mut left = 4 + packet;
            let mut cut = Vec::new();
            while left > 0 {
                let part = left.min(ib_mtu);
                cut.push(26 + grh + part + pad(part));
                left -= part;
            }
            cut
        }
    }
}

fn is_infiniband(wire: &Wire) -> bool {
    matches!(wire.kind, "ib" | "datagram" | "connected")
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A link is ready to send again.
    Idle { hop: usize },
    /// A packet may be sent onto a link.
    Ready { hop: usize, packet: usize },
}

/// A packet on a link: its bytes, and the index of the packet of the layer above that it carries.
struct Piece {
    bytes: u64,
    whole: usize,
}

/// Time at which the last byte arrives, in picoseconds.
fn simulate(wires: &[Wire], switches: &[Between], pieces: &[Vec<Piece>]) -> u64 {
    let mut events = BinaryHeap::new();
    for packet in 0..pieces[0].len() {
        events.push(Reverse((0, Event::Ready { hop: 0, packet })));
    }
    let mut queues: Vec<VecDeque<usize>> = wires.iter().map(|_| VecDeque::new()).collect();
    let mut is_idle = vec![true; wires.len()];
    let mut last = 0;
    while let Some(Reverse((now, event))) = events.pop() {
        let hop = match event {
            Event::Idle { hop } => {
                is_idle[hop] = true;
                hop
            }
            Event::Ready { hop, packet } => {
                queues[hop].push_back(packet);
                hop
            }
        };
        if !is_idle[hop] {
            continue;
        }
        let Some(packet) = queues[hop].pop_front() else { continue };
        is_idle[hop] = false;
        let Piece { bytes, whole } = pieces[hop][packet];
        let end = now + bytes * wires[hop].ps_per_byte;
        let gap = if is_infiniband(&wires[hop]) { 0 } else { 12 };
        events.push(Reverse((end + gap * wires[hop].ps_per_byte, Event::Idle { hop })));
        let next = hop + 1;
        if next == wires.len() {
            last = end;
            continue;
        }
        let delay = switches[next].delay_ns * 1000;
        if wires[next].kind != wires[hop].kind {
            let is_whole = pieces[hop].get(packet + 1).is_none_or(|piece| piece.whole != whole);
            let of_whole =
                pieces[next].iter().enumerate().filter(|(_, piece)| piece.whole == whole);
            for (packet, _) in of_whole.filter(|_| is_whole) {
                events.push(Reverse((end + delay, Event::Ready { hop: next, packet })));
            }
            continue;
        }
        let is_faster = wires[next].ps_per_byte < wires[hop].ps_per_byte;
        let ready = if switches[next].stores || is_faster {
            end
        } else {
            let least = if is_infiniband(&wires[hop]) { 4 } else { 14 };
            let look = switches[next].look.unwrap_or(least).min(bytes);
            let takes = pieces[next][packet].bytes * wires[next].ps_per_byte;
            (now + look * wires[hop].ps_per_byte).max(end.saturating_sub(takes))
        };
        events.push(Reverse((ready + delay, Event::Ready { hop: next, packet })));
    }
    last
}

/// The packets on each link.
fn pieces(wires: &[Wire], family: Family, ib_mtu: u64, packets: &[u64]) -> Vec<Vec<Piece>> {
    let on = |wire: &Wire| {
        let packets = packets.iter().enumerate();
        let cut = packets.flat_map(|(whole, &packet)| {
            let sizes = frames(wire, family, ib_mtu, packet).into_iter();
            sizes.map(move |bytes| Piece { bytes, whole })
        });
        cut.collect()
    };
    wires.iter().map(on).collect()
}

const MTU: u16 = 1500;
const PATH_MTU: u64 = 1024;

fn wire(is_verbs: bool, ib_mtu: u64) -> impl Strategy<Value = Wire> {
    let ethernet = vec![("100M", 80_000), ("1G", 8000), ("10G", 800), ("25G", 320), ("100G", 80)];
    let infiniband = vec![("4X-SDR", 1000), ("1X-QDR", 1000), ("4X-QDR", 250), ("4X-EDR", 80)];
    let ethernet = prop::sample::select(ethernet);
    let infiniband = prop::sample::select(infiniband);
    (0usize..3, ethernet, infiniband, 0u64..3, any::<bool>()).prop_map(
        move |(kind, (rate, ethernet_ps), (speed, ib_ps), vlan, grh)| {
            let kind = if is_verbs {
                ["rocev1", "rocev2", "ib"][kind]
            } else {
                ["ethernet", "datagram", "connected"][kind]
            };
            let flag = if grh { ",grh" } else { "" };
            let (text, ps_per_byte) = match kind {
                "ib" => (format!("ib:{speed},mtu={PATH_MTU}{flag}"), ib_ps),
                "datagram" => (format!("ipoib:{speed},mtu={MTU}{flag}"), ib_ps),
                "connected" => {
                    let mode = format!("mode=connected,ib-mtu={ib_mtu},mtu={MTU}");
                    (format!("ipoib:{speed},{mode}{flag}"), ib_ps)
                }
                ethernet => (format!("{ethernet}:{rate},mtu={MTU},vlan={vlan}"), ethernet_ps),
            };
            Wire { text, kind, ps_per_byte, vlan, grh }
        },
    )
}

fn between() -> impl Strategy<Value = Between> {
    (any::<bool>(), prop::option::of(0u64..200), 0u64..2000)
        .prop_map(|(stores, look, delay_ns)| Between { stores, look, delay_ns })
}

fn path(wires: &[Wire], switches: &[Between]) -> Path {
    let hop = |(place, (wire, between)): (usize, (&Wire, &Between))| {
        let switch = Switch {
            mode: if between.stores { Switching::StoreAndForward } else { Switching::CutThrough },
            look_bytes: between.look,
            delay_ns: Nanos(between.delay_ns),
        };
        Hop::new(wire.text.parse().unwrap(), (place > 0).then_some(switch))
    };
    let hops = wires.iter().zip(switches).enumerate().map(hop).collect();
    Path { hops, propagation_ns: Nanos(0) }
}

fn any_path() -> impl Strategy<Value = (u64, Vec<Wire>, Vec<Between>)> {
    prop::sample::select(vec![256u64, 512, 1024, 2048]).prop_flat_map(|ib_mtu| {
        let wires = prop::collection::vec(wire(false, ib_mtu), 1..6);
        (Just(ib_mtu), wires, prop::collection::vec(between(), 6))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_datagram_over_any_path_arrives_when_the_events_say(
        (ib_mtu, wires, switches) in any_path(),
        payload in 0u64..20_000,
        v6: bool,
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let packets = fragments(family, MTU, payload).unwrap();
        let ps = simulate(&wires, &switches, &pieces(&wires, family, ib_mtu, &packets));
        let floor = one_way_floor(&path(&wires, &switches), Stack::Udp { family }, payload).unwrap();
        prop_assert_eq!(Some(floor.time_ns), Exact::new(u128::from(ps), 1000));
    }

    #[test]
    fn a_message_of_verbs_over_any_path_arrives_when_the_events_say(
        wires in prop::collection::vec(wire(true, 0), 1..6),
        switches in prop::collection::vec(between(), 6),
        payload in 0u64..20_000,
        v6: bool,
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let stack = Stack::Rc { operation: Operation::Write, immediate: true, family };
        let count = payload.div_ceil(PATH_MTU).max(1);
        let packet = |place: u64| {
            let part = (payload - place * PATH_MTU).min(PATH_MTU);
            let address = if place == 0 { 16 } else { 0 };
            let immediate = if place == count - 1 { 4 } else { 0 };
            12 + address + immediate + part.next_multiple_of(4) + 4
        };
        let packets: Vec<u64> = (0..count).map(packet).collect();
        let ps = simulate(&wires, &switches, &pieces(&wires, family, 0, &packets));
        let floor = one_way_floor(&path(&wires, &switches), stack, payload).unwrap();
        prop_assert_eq!(Some(floor.time_ns), Exact::new(u128::from(ps), 1000));
    }
}
