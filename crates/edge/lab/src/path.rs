//! One direction of a link: a net of link elements between two devices.

use std::cell::Cell;
use std::rc::Rc;

use fabricmark_link::{
    Count, Counters, Delay, Departure, Element, Id, Input, Invalid, LinkOptions, Net, Output,
    Packet, Port, Reason,
};
use fabricmark_stats::Histogram;
use fabricmark_units::{Instant, Nanos};

use crate::pool::Slice;
use crate::port::SwitchPort;
use crate::segment;
use crate::tun::Tun;
use crate::writer::Writer;

/// One end of a link to be created.
#[derive(Debug)]
pub struct LinkEnd {
    /// The device at this end; `None` at a switch or a hub.
    pub tun: Option<Tun>,
    /// Name of the direction from here to the other end, such as `wan:client>server`; its random streams are named
    /// after it.
    pub name: String,
    /// Options of the link for packets that the device sends.
    pub options: LinkOptions,
    /// Whether the adapter segments super-packets before the link.
    pub does_segment: bool,
}

/// Counters of a direction, or of a switch, hub or bus, since it was created.
///
/// In IP packets: `arrived + duplicated = departed + refused + dropped + held`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Name of the direction, switch or hub, or of the node with the bus.
    pub name: String,
    /// Received from the device, or from the switch or hub at which the direction begins.
    pub arrived: Count,
    /// Copies made by the link.
    pub duplicated: Count,
    /// Written to the other device, or handed to the switch or hub at the end.
    pub departed: Count,
    /// Not accepted by the other device: it is down, or the packet is invalid because of a flipped bit.
    pub refused: Count,
    /// Packets that the sending device dropped because the emulator did not read them in time; `arrived` does not
    /// count them. 0 for links of the kernel: what the other end of a veth pair does not accept is in `refused`.
    pub device_drops: u64,
    /// Dropped by the link, in the order of [`Reason::ALL`].
    pub dropped: [Count; Reason::ALL.len()],
    /// Marked with congestion (ECN) by the link.
    pub marked: Count,
    /// Packets with a flipped bit.
    pub corrupted: Count,
    /// In flight now.
    pub held: Count,
    /// Super-packets from the device; `arrived` counts their segments.
    pub trains: u64,
    /// Pieces of super-packets whose headers had to be rewritten.
    pub pieces: u64,
    /// How often the queue paused the sending device (option `pause`).
    pub pauses: u64,
    /// Total time of these pauses.
    pub paused: Nanos,
    /// How much later than due packets were written to the other device, in nanoseconds.
    pub lateness: Histogram,
    /// Time in which the emulator's thread read or wrote packets of any direction; it was idle otherwise.
    pub busy: Nanos,
    /// CPU time of the emulator's thread, which includes polling.
    pub cpu_time: Nanos,
    /// Time that it waited for a CPU; `None` if the kernel does not count it.
    pub run_delay: Option<Nanos>,
    /// Counters of the present elements, in the order in which packets cross them.
    pub elements: Vec<Counters>,
}

impl Traffic {
    /// Adds the counters of an element.
    pub(crate) fn add(&mut self, counters: &Counters) {
        self.duplicated += counters.duplicated;
        self.marked += counters.marked;
        self.corrupted += counters.corrupted;
        for (sum, reason) in self.dropped.iter_mut().zip(Reason::ALL) {
            *sum += counters.dropped(reason);
        }
    }

    /// Adds an element at which links meet, and its net.
    pub(crate) fn add_shared(&mut self, (net, id): &(Net<Slice>, Id)) {
        self.add(net.counters(*id));
        self.held += net.held();
        self.elements.push(*net.counters(*id));
    }

    /// Packets dropped by the link, for any reason.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|count| count.packets).sum()
    }

    /// Packets that were sent and will not arrive.
    pub fn lost_packets(&self) -> u64 {
        self.dropped_packets() + self.refused.packets + self.device_drops
    }
}

/// A direction in operation.
pub(crate) struct Path {
    name: String,
    pub(crate) options: LinkOptions,
    seed: u64,
    /// How often its elements were built anew.
    changes: u64,
    /// The port at which it begins, if it begins at a switch.
    port: Option<SwitchPort>,
    /// Whether super-packets are segmented before the link.
    does_segment: bool,
    way: Way,
    /// Nets from before a change, until the packets in them have left.
    before: Vec<Way>,
    pub(crate) traffic: Traffic,
    writer: Writer,
}

struct Way {
    net: Net<Slice>,
    elements: Vec<Id>,
    /// The output of its wire, if it has one.
    wire: Option<Port>,
    /// Whether its wire waits until those from before the change are empty.
    is_held: bool,
    /// Pauses that its queue requests, if the options ask for them.
    pauses: Option<Pauses>,
}

impl Path {
    pub(crate) fn new(
        name: String,
        options: LinkOptions,
        port: Option<SwitchPort>,
        seed: u64,
        does_segment: bool,
    ) -> Result<Self, Invalid> {
        let way = Way::build(&options, port.as_ref(), seed, &name)?;
        let traffic = Traffic { name: name.clone(), ..Traffic::default() };
        let (before, writer) = (Vec::new(), Writer::default());
        let changes = 0;
        Ok(Self { name, options, seed, changes, port, does_segment, way, before, traffic, writer })
    }

    /// Changes the options for packets that arrive from now on; packets in flight are not affected.
    pub(crate) fn change(&mut self, change: &LinkOptions) -> Result<(), Invalid> {
        self.options.merge(change);
        self.rebuild()
    }

    /// Tells that another wire leads to a port of the switch at which this direction begins.
    pub(crate) fn change_wire(&mut self, from: u16, options: &LinkOptions) -> Result<(), Invalid> {
        let Some(port) = &mut self.port else { return Ok(()) };
        if port.set_wire(from, options)? { self.rebuild() } else { Ok(()) }
    }

    fn rebuild(&mut self) -> Result<(), Invalid> {
        self.changes += 1;
        // With the same name the random numbers would begin again.
        let name = format!("{} {}", self.name, self.changes);
        let mut way = Way::build(&self.options, self.port.as_ref(), self.seed, &name)?;
        // There is one wire: what waits before it leaves first.
        if self.before.iter().chain([&self.way]).any(Way::is_busy) {
            way.hold(self.way.net.now());
        }
        self.before.push(std::mem::replace(&mut self.way, way));
        Ok(())
    }

    /// Takes a packet that a device sent.
    pub(crate) fn arrive(&mut self, now: Instant, slice: Slice) {
        self.pass(now, 0, packet(slice));
    }

    /// Takes a packet from a port of the switch or hub at which this direction begins.
    pub(crate) fn pass(&mut self, now: Instant, from: u16, packet: Packet<Slice>) {
        self.traffic.arrived += packet.length.into();
        self.traffic.trains += u64::from(packet.length.segments() > 1);
        let Way { net, elements, .. } = &mut self.way;
        let first = (elements[0], from);
        if self.does_segment {
            packet.segment(|segment| net.arrive(now, first, segment));
        } else {
            net.arrive(now, first, packet);
        }
    }

    /// The next packet that leaves no later than `until`, to be handed on.
    pub(crate) fn next(&mut self, until: Instant) -> Option<Departure<Slice>> {
        let mut is_free = true;
        for way in self.before.iter_mut().chain([&mut self.way]) {
            if is_free {
                way.go_on(until);
            }
            if let Some(departure) = way.net.next(until) {
                return Some(departure);
            }
            is_free &= !way.is_busy();
        }
        // Nets from before a change are done when they are empty.
        for way in self.before.extract_if(.., |way| way.net.deadline().is_none()) {
            way.add_to(&mut self.traffic);
        }
        None
    }

    /// Writes a packet that has left to the device behind the link, at [`Self::flush`] at the latest.
    pub(crate) fn write(&mut self, departure: Departure<Slice>, to: &Tun) {
        self.writer.write(departure, to, &mut self.traffic);
    }

    /// Writes what waits for its continuation.
    pub(crate) fn flush(&mut self, to: &Tun) {
        self.writer.flush(to, &mut self.traffic);
    }

    /// Sets whether adapters segment the super-packets that arrive from now on.
    pub(crate) fn set_segmentation(&mut self, does_segment: bool) {
        self.does_segment = does_segment;
    }

    /// Whether the queue has paused its sender.
    pub(crate) fn is_stopped(&self) -> bool {
        self.way.pauses.as_ref().is_some_and(Pauses::is_stopped)
    }

    /// Writes what is due. The last of it may wait for its continuation.
    pub(crate) fn deliver(&mut self, now: Instant, to: &Tun) {
        while let Some(departure) = self.next(now) {
            self.write(departure, to);
        }
        if !self.writer.holds(now, self.next_departure()) {
            self.flush(to);
        }
    }

    /// When [`Self::deliver`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next_departure().into_iter().chain(self.writer.held_until()).min()
    }

    /// When the next packet leaves the link.
    pub(crate) fn next_departure(&self) -> Option<Instant> {
        let nets = self.before.iter().chain([&self.way]);
        nets.filter_map(|way| way.net.deadline()).min()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let mut traffic = self.traffic.clone();
        for way in self.before.iter().chain([&self.way]) {
            way.add_to(&mut traffic);
            traffic.held += way.net.held();
        }
        traffic.elements = self.way.counters().copied().collect();
        traffic
    }
}

impl Way {
    fn build(
        options: &LinkOptions,
        port: Option<&SwitchPort>,
        seed: u64,
        name: &str,
    ) -> Result<Self, Invalid> {
        let (mut elements, exit) = match port {
            Some(port) => port.build(options, seed, name)?,
            None => (options.build(seed, name)?, 0),
        };
        if elements.is_empty() {
            elements.push(Box::new(Delay::fixed(Nanos(0))));
        }
        let mut net = Net::new();
        let elements: Vec<_> = elements.into_iter().map(|element| net.add(element)).collect();
        net.chain(&elements);
        if let [first, second, ..] = elements[..] {
            net.connect((first, exit), (second, 0));
        }
        let wire = options.is_paced().then_some((elements[0], exit));
        let pauses = options.pauses().then(Pauses::default);
        if let Some(pauses) = &pauses {
            let signal = net.add(pauses.clone());
            net.connect((elements[0], 1), (signal, 0));
        }
        Ok(Self { net, elements, wire, is_held: false, pauses })
    }

    /// Whether packets are on its wire, or wait for it.
    fn is_busy(&self) -> bool {
        self.wire.is_some_and(|(element, _)| self.net.counters(element).held().packets > 0)
    }

    /// Lets nothing onto its wire until [`Self::go_on`]; a schedule or a trace does not stop.
    fn hold(&mut self, now: Instant) {
        /// Longer than any queue takes to empty.
        const YEAR: Nanos = Nanos::from_secs(365 * 86_400);
        if let Some(wire) = self.wire {
            self.net.pause(now, wire, YEAR);
            self.is_held = true;
        }
    }

    fn go_on(&mut self, now: Instant) {
        if let (true, Some(wire)) = (std::mem::take(&mut self.is_held), self.wire) {
            self.net.pause(now, wire, Nanos(0));
        }
    }

    fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.elements.iter().map(|&element| self.net.counters(element))
    }

    fn add_to(&self, traffic: &mut Traffic) {
        if let Some(pauses) = &self.pauses {
            traffic.pauses += pauses.count();
            traffic.paused = Nanos(traffic.paused.0 + pauses.time(self.net.now()).0);
        }
        for counters in self.counters() {
            traffic.add(counters);
        }
    }
}

/// The packet that a device sent.
pub(crate) fn packet(slice: Slice) -> Packet<Slice> {
    let (length, ecn) = slice.with(|bytes| (segment::length(bytes), segment::ecn(bytes)));
    Packet { ecn, ..Packet::new(slice, length) }
}

/// The pauses that a queue requests; clones share them. As the end of a net, it receives the requests.
///
/// A queue repeats a request before it expires, and tells when it accepts packets again. So the durations in the
/// requests do not matter.
#[derive(Clone, Debug, Default)]
struct Pauses(Rc<Cell<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Start of the pause in progress.
    since: Option<Instant>,
    count: u64,
    /// Total time of pauses that have ended.
    time: Nanos,
}

impl Pauses {
    /// Whether a pause is in progress.
    fn is_stopped(&self) -> bool {
        self.0.get().since.is_some()
    }

    fn count(&self) -> u64 {
        self.0.get().count
    }

    /// Total time of all pauses until `now`.
    fn time(&self, now: Instant) -> Nanos {
        let State { since, time, .. } = self.0.get();
        Nanos(time.0 + since.map_or(0, |since| now.0.saturating_sub(since.0)))
    }
}

impl<T> Element<T> for Pauses {
    fn step(&mut self, now: Instant, input: Input<T>, _: &mut Counters) -> Output<T> {
        if let Input::Pause { time, .. } = input {
            let mut state = self.0.get();
            if time == Nanos(0) {
                (state.time, state.since) = (self.time(now), None);
            } else if state.since.is_none() {
                (state.since, state.count) = (Some(now), state.count + 1);
            }
            self.0.set(state);
        }
        Output::Idle
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::iter::from_fn;

    use fabricmark_link::Length;

    use super::*;
    use crate::pool::Pool;

    /// A super-packet of three segments; its bytes do not matter here.
    pub(crate) fn train() -> Packet<Slice> {
        let slice = Pool::default().fill(|_| Ok(Some(100))).unwrap().unwrap();
        Packet::new(slice, Length::train(40, 4000, 1460))
    }

    #[test]
    fn super_packets_are_segmented_whether_a_device_or_a_bus_hands_them_over() {
        for (does_segment, expected) in [(false, vec![3]), (true, vec![1, 1, 1])] {
            let options = LinkOptions::default();
            let mut path = Path::new("p".to_owned(), options, None, 1, does_segment).unwrap();
            path.pass(Instant(5), 0, train());
            let left = from_fn(|| path.next(Instant(5)));
            let segments: Vec<u32> = left.map(|one| one.packet.length.segments()).collect();
            assert_eq!(segments, expected);
            assert_eq!((path.traffic.arrived.packets, path.traffic.trains), (3, 1));
        }
    }

    #[test]
    fn packets_that_wait_when_a_link_changes_leave_first_at_the_former_rate() {
        let packet = || {
            let slice = Pool::default().fill(|_| Ok(Some(100))).unwrap().unwrap();
            Packet::new(slice, Length::packet(1500))
        };
        // 1,500 bytes take 1 ms, and then 0.5 ms.
        let options = "rate=12M queue=100p".parse().unwrap();
        let mut path = Path::new("p".to_owned(), options, None, 1, false).unwrap();
        (0..4).for_each(|_| path.pass(Instant(0), 0, packet()));
        for change in ["rate=48M", "rate=24M"] {
            path.change(&change.parse().unwrap()).unwrap();
        }
        (0..2).for_each(|_| path.pass(Instant(1), 0, packet()));
        let mut left_ns = Vec::new();
        for at in (0..10_000_000).step_by(1000).map(Instant) {
            left_ns.extend(from_fn(|| path.next(at)).map(|one| one.at.0));
        }
        let expected = [1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_500_000, 5_000_000];
        assert_eq!(left_ns, expected);
    }

    #[test]
    fn a_pause_that_is_asked_for_again_is_one() {
        let pauses = Pauses::default();
        let mut signal = pauses.clone();
        for (at, time) in [(10, 50), (30, 50), (70, 0), (80, 0), (100, 50)] {
            let input = Input::<()>::Pause { port: 0, time: Nanos(time) };
            let _ = signal.step(Instant(at), input, &mut Counters::default());
        }
        assert_eq!((pauses.is_stopped(), pauses.count()), (true, 2));
        assert_eq!(pauses.time(Instant(140)), Nanos(100));
    }
}
