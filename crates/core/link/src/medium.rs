//! One rate shared by several ports: a host bus, or the half-duplex medium of a hub.

use fabricmark_units::Instant;

use crate::{Counters, Element, Input, Invalid, Line, Output, Packet, Queue, Reason, some};

/// Sends one packet at a time from any port; ports with waiting packets take turns (round robin).
///
/// On a bus a packet leaves by the port it came from: two interfaces, or the two directions of one, are two ports; a
/// pause that arrives by a port stops what waits there. On a hub a packet leaves by all other ports (P5). Stations
/// never collide, as if each knew its turn.
#[derive(Debug)]
pub struct Medium<T> {
    line: Line,
    queues: Vec<Queue<T>>,
    /// Earliest start of the next transmission, by port.
    paused_until: Vec<Instant>,
    repeats: bool,
    /// The port that sends, its packet, and when its last bit has left.
    sending: Option<(usize, Packet<T>, Instant)>,
    /// Source port of a packet, the packet, and the next port to receive it.
    repeating: Option<(usize, Packet<T>, usize)>,
    turn: usize,
}

impl<T: Clone> Medium<T> {
    /// A bus with a port for each queue; at least one.
    pub fn bus(line: Line, queues: Vec<Queue<T>>) -> Result<Self, Invalid> {
        some("the number of ports of a bus", queues.len() as u64)?;
        let paused_until = vec![Instant(0); queues.len()];
        let (sending, repeating) = (None, None);
        Ok(Self { line, queues, paused_until, repeats: false, sending, repeating, turn: 0 })
    }

    /// A hub with a port for each queue, which holds the frames of its station; at least two.
    pub fn hub(line: Line, queues: Vec<Queue<T>>) -> Result<Self, Invalid> {
        some("the number of further ports of a hub", queues.len().saturating_sub(1) as u64)?;
        Ok(Self { repeats: true, ..Self::bus(line, queues)? })
    }

    /// Starts to send the packet of the next port in turn.
    fn begin(&mut self, now: Instant, counters: &mut Counters) {
        let ports = self.queues.len();
        for port in (0..ports).map(|i| (self.turn + i) % ports) {
            let paused_until = self.paused_until[port];
            if paused_until > now {
                continue;
            }
            if let Some((ready, packet)) = self.queues[port].pop(now, counters) {
                let left = self.line.send(ready.max(paused_until), packet.length);
                self.sending = Some((port, packet, left));
                self.turn = (port + 1) % ports;
                return;
            }
        }
    }

    /// When the first pause ends among ports with waiting packets.
    fn resume(&self) -> Option<Instant> {
        let ports = self.queues.iter().zip(&self.paused_until);
        ports.filter(|(queue, _)| !queue.is_empty()).map(|(_, until)| *until).min()
    }

    /// The next copy for a port of a hub; the last one is the packet itself.
    fn repeat(&mut self, counters: &mut Counters) -> Option<Output<T>> {
        let (from, packet, to) = self.repeating.take()?;
        let to = if to == from { to + 1 } else { to };
        let mut after = to + 1;
        if after == from {
            after += 1;
        }
        if after < self.queues.len() {
            counters.duplicated += packet.length.into();
            self.repeating = Some((from, packet.clone(), after));
        }
        Some(Output::Packet { port: number(to), packet })
    }
}

/// Saturates: packets cannot arrive by ports beyond 65,535.
fn number(port: usize) -> u16 {
    u16::try_from(port).unwrap_or(u16::MAX)
}

impl<T: Clone> Element<T> for Medium<T> {
    fn step(&mut self, now: Instant, input: Input<T>, counters: &mut Counters) -> Output<T> {
        match input {
            Input::Packet { port, packet } => match self.queues.get_mut(usize::from(port)) {
                Some(queue) => {
                    let busy = self.sending.is_some() || self.paused_until[usize::from(port)] > now;
                    queue.push(now, now, packet, busy, counters);
                }
                None => counters.drop(Reason::NoRoute, packet.length),
            },
            Input::Pause { port, time } => {
                if let Some(paused_until) = self.paused_until.get_mut(usize::from(port)) {
                    *paused_until = now + time;
                }
            }
            Input::Wake => {}
        }
        if let Some(output) = self.repeat(counters) {
            return output;
        }
        if self.sending.is_none() {
            self.begin(now, counters);
        }
        let Some((port, packet, left)) = self.sending.take_if(|(.., left)| *left <= now) else {
            let left = self.sending.as_ref().map(|&(.., left)| left);
            return Output::wait(left.or_else(|| self.resume()));
        };
        self.begin(left, counters);
        if !self.repeats {
            return Output::Packet { port: number(port), packet };
        }
        self.repeating = Some((port, packet, 0));
        self.repeat(counters).unwrap_or(Output::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::net::{Id, Net};
    use crate::packet::Length;
    use crate::queue::Limit;
    use fabricmark_units::{BitRate, Nanos};

    fn queues(ports: usize) -> Vec<Queue<u32>> {
        (0..ports).map(|_| Queue::drop_tail(Limit::Packets(100))).collect()
    }

    fn bus(text: &str) -> Line {
        Line::of_bus(text.parse().unwrap()).unwrap()
    }

    /// Time, port and number of the packets that leave.
    fn out(net: &mut Net<u32>) -> Vec<(u64, u16, u32)> {
        std::iter::from_fn(|| net.next(Instant(1_000_000_000)))
            .map(|departure| (departure.at.0, departure.from.1, departure.packet.payload))
            .collect()
    }

    fn send(net: &mut Net<u32>, medium: Id, port: u16, number: u32) {
        net.arrive(Instant(0), (medium, port), Packet::new(number, Length::packet(1500)));
    }

    #[test]
    fn interfaces_share_their_bus_by_turns() {
        let mut net = Net::new();
        let bus = net.add(Medium::bus(bus("pcie:1x8"), queues(2)).unwrap());
        for (port, number) in [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4)] {
            send(&mut net, bus, port, number);
        }
        // 1500 bytes of 0.5 ns.
        let expected = [(750, 0, 0), (1500, 1, 3), (2250, 0, 1), (3000, 1, 4), (3750, 0, 2)];
        assert_eq!(out(&mut net), expected);
    }

    #[test]
    fn a_pause_stops_one_port_of_a_bus() {
        let mut net = Net::new();
        let bus = net.add(Medium::bus(bus("pcie:1x8"), queues(2)).unwrap());
        net.pause(Instant(0), (bus, 0), Nanos(10_000));
        for (port, number) in [(0, 0), (0, 1), (1, 2)] {
            send(&mut net, bus, port, number);
        }
        assert_eq!(out(&mut net), [(750, 1, 2), (10_750, 0, 0), (11_500, 0, 1)]);
        assert_eq!(net.deadline(), None);
    }

    #[test]
    fn a_bus_of_p3_carries_8_533_gigabit_in_both_directions_together() {
        let mut net = Net::new();
        let bus = net.add(Medium::bus(bus("pci-x:133"), queues(2)).unwrap());
        for number in 0..200 {
            send(&mut net, bus, (number % 2) as u16, number);
        }
        // 200 * 12,000 bits * 3 / 25.6 ns, rounded up.
        assert_eq!(out(&mut net).last().map(|row| row.0), Some(281_250));
    }

    #[test]
    fn a_hub_lets_all_other_ports_hear_one_frame_at_a_time() {
        let line = Line::new(BitRate(100_000_000), Framing::ethernet(0)).unwrap();
        let mut net = Net::new();
        let hub = net.add(Medium::hub(line, queues(3)).unwrap());
        send(&mut net, hub, 0, 7);
        send(&mut net, hub, 1, 8);
        send(&mut net, hub, 2, 9);
        // 1526 bytes of 80 ns, and 1538 more for each earlier frame.
        let [first, second, third] = [122_080, 245_120, 368_160];
        let expected = [
            (first, 1, 7),
            (first, 2, 7),
            (second, 0, 8),
            (second, 2, 8),
            (third, 0, 9),
            (third, 1, 9),
        ];
        assert_eq!(out(&mut net), expected);
        assert_eq!(net.counters(hub).duplicated.packets, 3);
        assert_eq!(net.held().packets, 0);
    }

    #[test]
    fn a_relay_on_a_hub_has_half_of_its_rate() {
        // Station 0 sends to 1 and 1 forwards to 2: the data cross the medium twice (models of P5).
        let line = Line::new(BitRate(100_000_000), Framing::ethernet(0)).unwrap();
        let mut net = Net::new();
        let hub = net.add(Medium::hub(line, queues(3)).unwrap());
        for number in 0..50 {
            send(&mut net, hub, 0, number);
        }
        let mut last = Instant(0);
        while let Some(departure) = net.next(Instant(1_000_000_000)) {
            last = departure.at;
            let relayed = departure.packet.payload >= 1000;
            if departure.from == (hub, 1) && !relayed {
                let packet = Packet { payload: 1000, ..departure.packet };
                net.arrive(departure.at, (hub, 1), packet);
            }
        }
        assert_eq!(last, Instant((100 * 1538 - 12) * 80));
    }

    #[test]
    fn a_hub_of_one_port_is_refused() {
        let line = Line::new(BitRate(1), Framing::NONE).unwrap();
        assert!(Medium::<()>::hub(line, Vec::new()).is_err());
        assert!(Medium::hub(line, queues(1)).is_err());
        assert!(Medium::bus(line, queues(1)).is_ok());
    }
}
