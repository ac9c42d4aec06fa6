//! Invariants of every chain of elements.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_link::{
    Adaptive, CoDel, Coalesce, Corrupt, Counters, Delay, Delays, Departure, Duplicate, Ecn,
    Element, Forwarding, Framing, GilbertElliott, Id, Input, Length, Limit, Line, Loss, Losses,
    Marks, Medium, Moderation, Net, Opportunities, Order, Outage, Output, Packet, Queue, Rate,
    Reason, Red, RedSettings, Reorder, Switch, Trace,
};
use fabricmark_units::{BitRate, Instant, Nanos, Stream};
use proptest::prelude::*;

/// An element by kind, with parameters derived from `seed`. The last kinds do not keep order.
fn element(kind: u8, seed: u64) -> Box<dyn Element<u32>> {
    let mut chance = Stream::new(seed, "settings");
    let mut number = |below| chance.below(below);
    let stream = || Stream::new(seed, "element");
    let share = number(100) as f64 / 99.0;
    match kind {
        0 => Box::new(Delay::fixed(Nanos(number(100_000)))),
        1 => {
            let delays =
                Delays::Normal { mean: Nanos(number(10_000)), deviation: Nanos(number(10_000)) };
            Box::new(Delay::new(delays, Order::Kept, stream()).unwrap())
        }
        2 => Box::new(Rate::new(line(number(10_000_000_000) + 1_000_000), queue(seed))),
        3 => {
            let marks = Marks::new(9_000, 3_000, Nanos(number(100_000) + 2)).unwrap();
            Box::new(Rate::new(line(100_000_000), queue(seed)).with_marks(marks))
        }
        4 => Box::new(Loss::new(Losses::Independent(share), stream()).unwrap()),
        5 => {
            let model =
                GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_good: 0.01, loss_bad: share };
            Box::new(Loss::new(Losses::GilbertElliott(model), stream()).unwrap())
        }
        6 => Box::new(Loss::new(Losses::Periodic(number(9) + 1), stream()).unwrap()),
        7 => {
            let (up, down) = (Nanos(number(100_000) + 1), Nanos(number(100_000)));
            Box::new(Outage::new(up, down, Nanos(number(100_000))).unwrap())
        }
        8 => Box::new(Corrupt::new(share, stream()).unwrap()),
        9 => Box::new(Duplicate::new(share, stream()).unwrap()),
        10 => {
            let time = Nanos(number(100_000));
            Box::new(Coalesce::fixed(Moderation { time, frames: number(20) as u32 }))
        }
        11 => {
            let moderation = |us: u64| Moderation { time: Nanos(us * 1000), frames: 0 };
            let adaptive = Adaptive {
                rate_low: 10_000,
                rate_high: 100_000,
                sample: Nanos(number(1_000_000) + 1),
                low: moderation(0),
                normal: moderation(10),
                high: moderation(100),
            };
            Box::new(Coalesce::adaptive(adaptive).unwrap())
        }
        12 => Box::new(Opportunities::trace(Trace::parse("0\n1\n1\n5\n").unwrap(), queue(seed))),
        13 => {
            let (bytes, period) = (number(20_000) + 1, Nanos(number(100_000) + 1));
            Box::new(Opportunities::schedule(bytes, period, queue(seed)).unwrap())
        }
        14 => Box::new(Medium::bus(line(8_000_000_000), vec![queue(seed)]).unwrap()),
        15 => {
            let queues = vec![queue(seed), queue(seed)];
            Box::new(Medium::hub(line(100_000_000), queues).unwrap())
        }
        16 => {
            let port = |rate_bps| (line(rate_bps), queue(seed));
            let ports = vec![port(1_000_000_000), port(number(2_000_000_000) + 1_000_000)];
            let forwarding = match number(2) {
                0 => Forwarding::Store,
                _ => Forwarding::CutThrough { look_bytes: number(100) as u32 },
            };
            Box::new(Switch::new(ports, vec![1], forwarding, Nanos(number(10_000))))
        }
        17 => {
            let delays = Delays::Pareto { least: Nanos(number(10_000)), shape: 1.0 + share };
            Box::new(Delay::new(delays, Order::Free, stream()).unwrap())
        }
        _ => {
            let (gap, longest) = (number(9) as u32 + 1, Nanos(number(100_000) + 1));
            Box::new(Reorder::new(share, gap, longest, stream()).unwrap())
        }
    }
}

const KINDS: u8 = 19;
/// Kinds below this keep order.
const ORDERED: u8 = 17;
/// The rate with marks, which requests pauses by port 1.
const PRESSING: u8 = 3;
/// Kinds whose packets enter by port 0 and leave by port 1: a hub and a switch.
const THROUGH: [u8; 2] = [15, 16];

fn line(rate_bps: u64) -> Line {
    Line::new(BitRate(rate_bps), Framing::ethernet(0)).unwrap()
}

fn queue(seed: u64) -> Queue<u32> {
    let limit = if seed.is_multiple_of(2) { Limit::Bytes(50_000) } else { Limit::Packets(50) };
    match seed % 5 {
        0 | 1 => {
            let settings = RedSettings {
                min_bytes: 5_000,
                max_bytes: 15_000,
                probability: 0.1,
                weight: 0.1,
                packet_time: Nanos(10_000),
                marks: seed.is_multiple_of(3),
            };
            Queue::red(limit, Red::new(settings, Stream::new(seed, "red")).unwrap())
        }
        2 | 3 => {
            let codel = CoDel::new(Nanos(5_000), Nanos(100_000), seed.is_multiple_of(3));
            Queue::codel(limit, codel.unwrap())
        }
        _ => Queue::drop_tail(limit),
    }
}

/// Requests wake-ups much earlier than its element needs.
struct Impatient(Box<dyn Element<u32>>);

impl Element<u32> for Impatient {
    fn step(&mut self, now: Instant, input: Input<u32>, counters: &mut Counters) -> Output<u32> {
        match self.0.step(now, input, counters) {
            Output::Wake(at) => {
                let half = (at.0 - now.0).div_ceil(2);
                Output::Wake(Instant(now.0 + half))
            }
            output => output,
        }
    }
}

/// A chain of elements by kind and seed, starting at port 0 of the first.
fn chain(
    elements: &[(u8, u64)],
    wrap: impl Fn(Box<dyn Element<u32>>) -> Box<dyn Element<u32>>,
) -> (Net<u32>, Vec<Id>) {
    let mut net = Net::new();
    let ids: Vec<Id> =
        elements.iter().map(|&(kind, seed)| net.add(wrap(element(kind, seed)))).collect();
    for (pair, kinds) in ids.windows(2).zip(elements.windows(2)) {
        let out = u16::from(THROUGH.contains(&kinds[0].0));
        net.connect((pair[0], out), (pair[1], 0));
        if kinds[1].0 == PRESSING {
            net.connect((pair[1], 1), (pair[0], 1));
        }
    }
    (net, ids)
}

/// Gap before the packet in ns, bytes, and bytes of a segment (0: no super-packet).
type Arrival = (u64, u32, u16);

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let one = (0u64..30_000, 1u32..20_000, prop_oneof![Just(0u16), 500u16..1500]);
    prop::collection::vec(one, 1..60)
}

fn packet(number: u32, bytes: u32, segment: u16) -> Packet<u32> {
    let ecn = if number.is_multiple_of(2) { Ecn::Capable0 } else { Ecn::NotCapable };
    Packet { ecn, ..Packet::new(number, Length::train(40, bytes, segment)) }
}

/// Instant, packet number, offset in the packet, bytes.
type Row = (u64, u32, u32, u64);

/// Departures in order.
fn run(net: &mut Net<u32>, first: Id, arrivals: &[Arrival]) -> Vec<Row> {
    let mut out = Vec::new();
    let mut at = 0;
    for (&(gap, bytes, segment), number) in arrivals.iter().zip(0..) {
        at += gap;
        while let Some(departure) = net.next(Instant(at)) {
            out.push(departure);
        }
        net.arrive(Instant(at), (first, 0), packet(number, bytes, segment));
    }
    while let Some(departure) = net.next(Instant(u64::MAX - 1)) {
        out.push(departure);
    }
    let row = |departure: Departure<u32>| {
        let (at, packet) = (departure.at.0, departure.packet);
        (at, packet.payload, packet.length.offset_bytes(), packet.length.bytes())
    };
    out.into_iter().map(row).collect()
}

proptest! {
    #[test]
    fn in_and_copied_is_out_and_dropped_and_held(
        elements in prop::collection::vec((0..KINDS, any::<u64>()), 1..8),
        arrivals in arrivals(),
    ) {
        let (mut net, ids) = chain(&elements, |element| element);
        let out = run(&mut net, ids[0], &arrivals);
        let mut before = Default::default();
        for (place, &id) in ids.iter().enumerate() {
            let counters = *net.counters(id);
            if place > 0 {
                prop_assert_eq!(counters.arrived, before);
            }
            // Nothing is due any more, so nothing may be held: no wake-up was missed.
            prop_assert_eq!(
                counters.arrived + counters.duplicated,
                counters.departed + counters.dropped_in_all()
            );
            before = counters.departed;
        }
        prop_assert_eq!(net.deadline(), None);
        let bytes: u64 = out.iter().map(|row| row.3).sum();
        prop_assert_eq!(bytes, before.bytes);
    }

    #[test]
    fn time_never_goes_back(
        elements in prop::collection::vec((0..KINDS, any::<u64>()), 1..8),
        arrivals in arrivals(),
    ) {
        let (mut net, ids) = chain(&elements, |element| element);
        let out = run(&mut net, ids[0], &arrivals);
        prop_assert!(out.is_sorted_by_key(|row| row.0));
    }

    #[test]
    fn order_is_kept_where_it_is_promised(
        elements in prop::collection::vec((0..ORDERED, any::<u64>()), 1..8),
        arrivals in arrivals(),
    ) {
        let (mut net, ids) = chain(&elements, |element| element);
        let out = run(&mut net, ids[0], &arrivals);
        // A copy follows its packet, which may be a piece, so pieces of one packet are not compared.
        prop_assert!(out.is_sorted_by_key(|row| row.1));
    }

    #[test]
    fn a_seed_gives_the_same_again_however_late_the_net_is_asked(
        elements in prop::collection::vec((0..KINDS, any::<u64>()), 1..8),
        arrivals in arrivals(),
    ) {
        let (mut net, ids) = chain(&elements, |element| element);
        let prompt = run(&mut net, ids[0], &arrivals);
        let (mut net, ids) = chain(&elements, |element| element);
        let mut at = 0;
        for (&(gap, bytes, segment), number) in arrivals.iter().zip(0..) {
            at += gap;
            net.arrive(Instant(at), (ids[0], 0), packet(number, bytes, segment));
        }
        prop_assert_eq!(run(&mut net, ids[0], &[]), prompt);
    }
}

proptest! {
    #[test]
    fn an_early_wake_up_changes_nothing(
        elements in prop::collection::vec((0..KINDS, any::<u64>()), 1..8),
        arrivals in arrivals(),
    ) {
        let (mut net, ids) = chain(&elements, |element| element);
        let calm = run(&mut net, ids[0], &arrivals);
        let (mut net, ids) = chain(&elements, |element| Box::new(Impatient(element)));
        prop_assert_eq!(run(&mut net, ids[0], &arrivals), calm);
    }
}

#[test]
fn a_queue_of_random_arrivals_waits_as_long_as_the_formula_of_pollaczek_and_khinchine_says() {
    // M/D/1: 1000 ns per packet, and a mean wait of load / (2 (1 - load)) times that.
    for load in [0.5, 0.8] {
        let line = Line::new(BitRate(8_000_000_000), Framing::NONE).unwrap();
        let mut net = Net::new();
        let rate = net.add(Rate::new(line, Queue::drop_tail(Limit::Packets(u64::MAX))));
        let mut chance = Stream::new(1, "arrivals");
        let (mut at, mut waits) = (0.0, 0.0);
        const PACKETS: u32 = 400_000;
        let mut waited = |net: &mut Net<u64>, until| {
            while let Some(departure) = net.next(until) {
                waits += (departure.at.0 - departure.packet.payload - 1000) as f64;
            }
        };
        for _ in 0..PACKETS {
            at += chance.exponential() * 1000.0 / load;
            let now = Instant(at as u64);
            waited(&mut net, now);
            net.arrive(now, (rate, 0), Packet::new(now.0, Length::packet(1000)));
        }
        waited(&mut net, Instant(u64::MAX - 1));
        let mean = waits / f64::from(PACKETS);
        let expected = 1000.0 * load / (2.0 * (1.0 - load));
        // Successive waits are correlated: over 400,000 packets the mean varies by about 1 %.
        assert!((mean / expected - 1.0).abs() < 0.03, "{load}: {mean} {expected}");
    }
}

#[test]
fn a_standing_queue_is_signalled_by_codel_and_by_marks_where_it_may() {
    // 12 Mbit/s into 10 Mbit/s for 2 s: 1000 packets/s arrive and 833 leave.
    for (marks, ecn, reason) in [
        (false, Ecn::Capable0, Reason::Congestion),
        (true, Ecn::NotCapable, Reason::Congestion),
        (true, Ecn::Capable0, Reason::Overflow),
    ] {
        let line = Line::new(BitRate(10_000_000), Framing::NONE).unwrap();
        let codel = CoDel::new(CoDel::TARGET, CoDel::INTERVAL, marks).unwrap();
        let mut net = Net::new();
        let rate = net.add(Rate::new(line, Queue::codel(Limit::Packets(10_000), codel)));
        for i in 0..2000u64 {
            let mut packet = Packet::new((), Length::packet(1500));
            packet.ecn = ecn;
            net.arrive(Instant(i * 1_000_000), (rate, 0), packet);
        }
        let counters = net.counters(rate);
        let (dropped, marked) = (counters.dropped(Reason::Congestion), counters.marked);
        let signals = dropped.packets + marked.packets;
        // The queue stands from about 30 ms on, so signals start at 130 ms. The nth follows 100 ms * (sum of 1 /
        // sqrt(k) for k < n) later: 104 signals in 1870 ms.
        assert!((95..=110).contains(&signals), "{signals}");
        assert_eq!(marked.packets > 0, reason == Reason::Overflow);
        assert_eq!(dropped.packets > 0, reason == Reason::Congestion);
    }
}
