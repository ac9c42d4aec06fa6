//! A network of connected elements, and its time.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use crate::{Count, Counters, Element, Input, Output, Packet};

/// Index of an element in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(usize);

/// An input or output port of an element.
pub type Port = (Id, u16);

/// A packet that left the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// When it left.
    pub at: Instant,
    /// The unconnected output port by which it left.
    pub from: Port,
    /// The packet that entered, or a copy or piece of it.
    pub packet: Packet<T>,
}

/// Elements and their connections.
///
/// A driver passes in arrivals and asks for departures up to an instant. It takes the instants from an event list
/// (virtual time) or from a clock (real time). Each event happens at its due time, so a late driver adds no drift. Of
/// simultaneous events, the element that was added first acts first, and arrivals come after due events.
///
/// Each event scans all elements: a network is meant for tens of elements, not thousands. A loop of elements without
/// delay never terminates.
pub struct Net<T> {
    nodes: Vec<Node<T>>,
    /// Wake-up time of each element; [`NEVER`] if it is idle.
    wakes: Vec<Instant>,
    inbox: VecDeque<(usize, Input<T>)>,
    departures: VecDeque<Departure<T>>,
    now: Instant,
}

struct Node<T> {
    element: Box<dyn Element<T>>,
    /// Destination of each output port, by port number.
    edges: Vec<Option<Port>>,
    counters: Counters,
}

const NEVER: Instant = Instant(u64::MAX);

impl<T> Default for Net<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Net<T> {
    /// An empty network at instant 0.
    pub fn new() -> Self {
        Self {
            nodes: Vec::new(),
            wakes: Vec::new(),
            inbox: VecDeque::new(),
            departures: VecDeque::new(),
            now: Instant(0),
        }
    }

    /// Adds an element. Packets leave the network by its output ports until they are connected.
    pub fn add(&mut self, element: impl Element<T> + 'static) -> Id {
        let element = Box::new(element);
        self.nodes.push(Node { element, edges: Vec::new(), counters: Counters::default() });
        self.wakes.push(NEVER);
        Id(self.nodes.len() - 1)
    }

    /// Connects an output port to an input port, replacing its earlier connection.
    pub fn connect(&mut self, (from, port): Port, to: Port) {
        let edges = &mut self.nodes[from.0].edges;
        if edges.len() <= usize::from(port) {
            edges.resize(usize::from(port) + 1, None);
        }
        edges[usize::from(port)] = Some(to);
    }

    /// Connects port 0 of each element to port 0 of the next.
    pub fn chain(&mut self, elements: &[Id]) {
        for pair in elements.windows(2) {
            self.connect((pair[0], 0), (pair[1], 0));
        }
    }

    /// Passes a packet to an input port, after all events that are due by `at`.
    ///
    /// An `at` in the past counts as the current instant. A driver that reacts to departures must first ask for those
    /// until `at`.
    pub fn arrive(&mut self, at: Instant, port: Port, packet: Packet<T>) {
        self.tell(at, port.0, Input::Packet { port: port.1, packet });
    }

    /// Pauses the transmission from an output port for `time` from `at` on; 0 resumes it.
    pub fn pause(&mut self, at: Instant, port: Port, time: Nanos) {
        self.tell(at, port.0, Input::Pause { port: port.1, time });
    }

    /// The next packet that leaves at or before `until`. `None` if there is none; the network has then reached
    /// `until`.
    pub fn next(&mut self, until: Instant) -> Option<Departure<T>> {
        while self.departures.is_empty() && self.turn(until) {}
        if self.departures.is_empty() {
            self.now = self.now.max(until);
        }
        self.departures.pop_front()
    }

    /// When the next event is due; `None` while the network holds no packet.
    pub fn deadline(&self) -> Option<Instant> {
        if self.departures.is_empty() { self.earliest().map(|(_, at)| at) } else { Some(self.now) }
    }

    /// The current instant of the network.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Counters of an element since it was added.
    pub fn counters(&self, element: Id) -> &Counters {
        &self.nodes[element.0].counters
    }

    /// Packets and bytes inside all elements now.
    pub fn held(&self) -> Count {
        self.nodes.iter().fold(Count::default(), |sum, node| sum + node.counters.held())
    }

    fn tell(&mut self, at: Instant, element: Id, input: Input<T>) {
        while self.turn(at) {}
        self.now = self.now.max(at);
        self.inbox.push_back((element.0, input));
        self.settle();
    }

    /// Wakes the element with the earliest due time; `false` if none is due by `until`.
    fn turn(&mut self, until: Instant) -> bool {
        let Some((element, at)) = self.earliest().filter(|&(_, at)| at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        self.inbox.push_back((element, Input::Wake));
        self.settle();
        true
    }

    fn earliest(&self) -> Option<(usize, Instant)> {
        let (element, at) = self.wakes.iter().enumerate().min_by_key(|&(_, at)| at)?;
        (*at < NEVER).then_some((element, *at))
    }

    /// Passes pending inputs to their elements until none is left at this instant.
    fn settle(&mut self) {
        while let Some((element, mut input)) = self.inbox.pop_front() {
            let node = &mut self.nodes[element];
            if let Input::Packet { packet, .. } = &input {
                node.counters.arrived += packet.length.into();
            }
            self.wakes[element] = loop {
                match node.element.step(self.now, input, &mut node.counters) {
                    Output::Packet { port, packet } => {
                        node.counters.departed += packet.length.into();
                        match node.leads_to(port) {
                            Some((to, port)) => {
                                self.inbox.push_back((to.0, Input::Packet { port, packet }));
                            }
                            None => {
                                let from = (Id(element), port);
                                self.departures.push_back(Departure { at: self.now, from, packet });
                            }
                        }
                    }
                    Output::Pause { port, time } => {
                        if let Some((to, port)) = node.leads_to(port) {
                            self.inbox.push_back((to.0, Input::Pause { port, time }));
                        }
                    }
                    Output::Wake(at) => {
                        debug_assert!(at > self.now, "a wake-up that is already due");
                        break at;
                    }
                    Output::Idle => {
                        debug_assert_eq!(node.counters.held(), Count::default(), "it lies idle");
                        break NEVER;
                    }
                }
                input = Input::Wake;
            };
        }
    }
}

impl<T> Node<T> {
    fn leads_to(&self, port: u16) -> Option<Port> {
        self.edges.get(usize::from(port)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::Delay;
    use crate::packet::Length;

    fn packet(number: u32) -> Packet<u32> {
        Packet::new(number, Length::packet(100))
    }

    #[test]
    fn what_comes_out_of_a_port_that_leads_nowhere_leaves_the_net() {
        let mut net = Net::new();
        let (first, second) = (net.add(Delay::fixed(Nanos(5))), net.add(Delay::fixed(Nanos(7))));
        net.arrive(Instant(1), (first, 0), packet(0));
        assert_eq!(net.next(Instant(100)).map(|d| (d.at, d.from)), Some((Instant(6), (first, 0))));
        net.connect((first, 0), (second, 0));
        net.arrive(Instant(10), (first, 0), packet(1));
        assert_eq!(
            net.next(Instant(100)).map(|d| (d.at, d.from)),
            Some((Instant(22), (second, 0)))
        );
    }

    #[test]
    fn two_chains_may_share_an_element() {
        let mut net = Net::new();
        let [left, right, shared] = [1, 2, 3].map(|ns| net.add(Delay::fixed(Nanos(ns))));
        net.chain(&[left, shared]);
        net.chain(&[right, shared]);
        net.arrive(Instant(0), (right, 0), packet(1));
        net.arrive(Instant(0), (left, 0), packet(0));
        let out: Vec<_> = std::iter::from_fn(|| net.next(Instant(9)))
            .map(|d| (d.at.0, d.packet.payload))
            .collect();
        assert_eq!(out, [(4, 0), (5, 1)]);
        assert_eq!(net.counters(shared).arrived.packets, 2);
    }

    #[test]
    fn a_net_says_when_it_has_something_to_do_and_what_it_holds() {
        let mut net = Net::new();
        let delay = net.add(Delay::fixed(Nanos(5)));
        assert_eq!((net.deadline(), net.now()), (None, Instant(0)));
        net.arrive(Instant(10), (delay, 0), packet(0));
        assert_eq!((net.deadline(), net.held().bytes), (Some(Instant(15)), 100));
        assert_eq!(net.next(Instant(14)), None);
        assert_eq!((net.deadline(), net.now()), (Some(Instant(15)), Instant(14)));
        // An arrival in the past counts as one now; a late call returns the due times of events.
        net.arrive(Instant(3), (delay, 0), packet(1));
        assert_eq!(net.next(Instant(90)).map(|departure| departure.at), Some(Instant(15)));
        assert_eq!(net.next(Instant(90)).map(|departure| departure.at), Some(Instant(19)));
        assert_eq!((net.next(Instant(90)), net.now()), (None, Instant(90)));
    }
}
