//! A switch: forwards packets by the port that leads to their destination.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use crate::egress::Egress;
use crate::{Counters, Element, Input, Line, Output, Packet, Queue, Reason};

/// Forwards each packet by one of its ports; each port is a full-duplex line with a queue before it.
///
/// Packets arrive with their last bit. A cut-through switch starts to send once it has seen the first bytes, so its
/// packets leave earlier; if the outgoing line is faster than the incoming one, it stores and forwards. Of two
/// packets to one port, the one that has completely arrived goes first, even if the other one began to arrive
/// earlier. A pause that arrives by a port stops transmission there.
#[derive(Debug)]
pub struct Switch<T> {
    ports: Vec<Egress<T>>,
    /// Packets on their way to each output port: when they join its queue, and when they may be transmitted at the
    /// earliest.
    in_transit: Vec<VecDeque<(Instant, Instant, Packet<T>)>>,
    /// Output port of each destination.
    routes: Vec<u16>,
    forwarding: Forwarding,
    delay: Nanos,
}

/// When a switch may start to forward a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// Once it holds the whole packet.
    Store,
    /// Once it has the first bytes.
    CutThrough {
        /// Number of these bytes: 14 on Ethernet, preamble and destination address; 4 on InfiniBand.
        look_bytes: u32,
    },
}

impl<T: Clone> Switch<T> {
    /// A switch with a port for each line and its queue. Packets to destination `d` leave by port `routes[d]`.
    /// `delay` is the time that each packet spends inside; it limits no rate.
    pub fn new(
        ports: Vec<(Line, Queue<T>)>,
        routes: Vec<u16>,
        forwarding: Forwarding,
        delay: Nanos,
    ) -> Self {
        let ports: Vec<_> =
            ports.into_iter().map(|(line, queue)| Egress::new(line, queue)).collect();
        let in_transit = ports.iter().map(|_| VecDeque::new()).collect();
        Self { ports, in_transit, routes, forwarding, delay }
    }

    /// The port to the destination of a packet that arrived by `from`; `None` if there is none or it is `from`
    /// itself.
    fn route(&self, packet: &Packet<T>, from: usize) -> Option<usize> {
        let port = usize::from(*self.routes.get(usize::from(packet.destination))?);
        (port != from && port < self.ports.len()).then_some(port)
    }

    /// When a packet whose last bit arrives at `now` may start to leave.
    fn ready(&self, now: Instant, from: usize, to: usize, packet: &Packet<T>) -> Instant {
        let ready = now + self.delay;
        let (Forwarding::CutThrough { look_bytes }, Some(from)) =
            (self.forwarding, self.ports.get(from))
        else {
            return ready;
        };
        if !self.ports[to].line.is_not_faster_than(&from.line) {
            return ready;
        }
        let unseen = from.line.wire_bytes(packet.length).saturating_sub(look_bytes.into());
        Instant(ready.0.saturating_sub(from.line.time_of(unseen).0))
    }
}

impl<T: Clone> Element<T> for Switch<T> {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        match input {
            Input::Packet { port, packet } => match self.route(&packet, port.into()) {
                Some(to) => {
                    let ready = self.ready(now, port.into(), to, &packet);
                    // No packet overtakes another one on its way to the same port.
                    let before = self.in_transit[to].back().map_or(now, |&(at, ..)| at);
                    self.in_transit[to].push_back((ready.max(before).max(now), ready, packet));
                }
                None => counters.drop(Reason::NoRoute, packet.length),
            },
            Input::Pause { port, time } => {
                if let Some(port) = self.ports.get_mut(usize::from(port)) {
                    port.pause(now, time);
                }
            }
            Input::Wake => {}
        }
        for (egress, in_transit) in self.ports.iter_mut().zip(&mut self.in_transit) {
            while in_transit.front().is_some_and(|&(at, ..)| at <= now)
                && let Some((_, ready, packet)) = in_transit.pop_front()
            {
                egress.arrive(now, ready, packet, counters);
            }
        }
        for (egress, port) in self.ports.iter_mut().zip(0..) {
            if let Some(packet) = egress.depart(now, counters) {
                return Output::Packet { port, packet };
            }
        }
        let joins = self.in_transit.iter().filter_map(|packets| Some(packets.front()?.0));
        Output::wait(self.ports.iter().filter_map(Egress::wake).chain(joins).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::net::Net;
    use crate::packet::Length;
    use crate::queue::Limit;
    use fabricmark_units::BitRate;

    /// Four ports; destination d is behind port d.
    fn switch(rates_mbps: [u64; 4], forwarding: Forwarding, delay: Nanos) -> Switch<u32> {
        let ports = rates_mbps.map(|mbps| {
            let line = Line::new(BitRate(mbps * 1_000_000), Framing::ethernet(0)).unwrap();
            (line, Queue::drop_tail(Limit::Packets(10)))
        });
        Switch::new(ports.into(), vec![0, 1, 2, 3, 9], forwarding, delay)
    }

    fn packet(destination: u16) -> Packet<u32> {
        Packet { destination, ..Packet::new(0, Length::packet(1500)) }
    }

    const CUT: Forwarding = Forwarding::CutThrough { look_bytes: 14 };

    /// Time in ns from the arrival of a packet's last bit to its departure.
    fn time_through(rates_mbps: [u64; 4], forwarding: Forwarding, delay: Nanos) -> u64 {
        let mut net = Net::new();
        let switch = net.add(switch(rates_mbps, forwarding, delay));
        net.arrive(Instant(1_000_000), (switch, 0), packet(1));
        let departure = net.next(Instant(u64::MAX - 1)).unwrap();
        assert_eq!(departure.from, (switch, 1));
        departure.at.0 - 1_000_000
    }

    #[test]
    fn a_switch_that_stores_sends_a_packet_again_and_one_that_cuts_through_its_first_bytes() {
        let gigabit = [1000; 4];
        assert_eq!(time_through(gigabit, Forwarding::Store, Nanos(0)), 1526 * 8);
        assert_eq!(time_through(gigabit, Forwarding::Store, Nanos(500)), 1526 * 8 + 500);
        assert_eq!(time_through(gigabit, CUT, Nanos(0)), 14 * 8);
        assert_eq!(time_through(gigabit, CUT, Nanos(500)), 14 * 8 + 500);
    }

    #[test]
    fn packets_in_transit_through_a_switch_fill_no_queue() {
        let mut net = Net::new();
        let switch = net.add(switch([10_000; 4], Forwarding::Store, Nanos(50_000)));
        // At the rate of the line; the queue has room for ten.
        for number in 0..60 {
            net.arrive(Instant(1_231 * number), (switch, 0), packet(1));
        }
        let mut last = Instant(0);
        let left = std::iter::from_fn(|| net.next(Instant(1_000_000)));
        let left = left.inspect(|departure| last = departure.at).count();
        assert_eq!((left, net.counters(switch).dropped_in_all().packets), (60, 0));
        assert!(last.0 < 59 * 1_231 + 50_000 + 2 * 1_231, "{last:?}");
    }

    #[test]
    fn cutting_through_to_a_faster_line_is_storing() {
        assert_eq!(time_through([1000, 10_000, 1000, 1000], CUT, Nanos(0)), 1221);
        // To a slower line it starts after 14 bytes of the faster: 1526 * 8 - 1512 * 0.8 ns.
        assert_eq!(time_through([10_000, 1000, 1000, 1000], CUT, Nanos(0)), 12_208 - 1209);
    }

    #[test]
    fn two_ports_to_one_destination_share_its_line_and_others_are_free() {
        let mut net = Net::new();
        let switch = net.add(switch([1000; 4], Forwarding::Store, Nanos(0)));
        net.arrive(Instant(0), (switch, 0), packet(3));
        net.arrive(Instant(0), (switch, 1), packet(3));
        net.arrive(Instant(0), (switch, 2), packet(1));
        let out: Vec<_> = std::iter::from_fn(|| net.next(Instant(1_000_000)))
            .map(|departure| (departure.at.0, departure.from.1))
            .collect();
        assert_eq!(out, [(12_208, 1), (12_208, 3), (24_512, 3)]);
    }

    #[test]
    fn what_has_no_route_is_dropped() {
        let mut net = Net::new();
        let switch = net.add(switch([1000; 4], Forwarding::Store, Nanos(0)));
        for (port, destination) in [(0, 0), (0, 4), (0, 77)] {
            net.arrive(Instant(0), (switch, port), packet(destination));
        }
        assert_eq!(net.counters(switch).dropped(Reason::NoRoute).packets, 3);
        assert_eq!(net.deadline(), None);
    }

    #[test]
    fn a_pause_stops_one_port() {
        let mut net = Net::new();
        let switch = net.add(switch([1000; 4], Forwarding::Store, Nanos(0)));
        net.pause(Instant(0), (switch, 1), Nanos(100_000));
        net.arrive(Instant(0), (switch, 0), packet(1));
        net.arrive(Instant(0), (switch, 0), packet(2));
        let out: Vec<_> = std::iter::from_fn(|| net.next(Instant(1_000_000)))
            .map(|departure| (departure.at.0, departure.from.1))
            .collect();
        assert_eq!(out, [(12_208, 2), (112_208, 1)]);
    }
}
