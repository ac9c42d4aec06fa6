//! The port of a switch at which a direction begins.

use fabricmark_link::{
    Delay, Element, Forwarding, Framing, Invalid, Limit, Line, LinkOptions, Queue, Switch,
};
use fabricmark_units::{BitRate, Nanos};

use crate::pool::Slice;

/// Output port of a switch. Each port is an element of its own, so that a link can change without the others.
#[derive(Clone, Debug)]
pub(crate) struct SwitchPort {
    forwarding: Forwarding,
    delay: Nanos,
    /// Wires by which packets arrive at the switch, by port.
    wires: Vec<Line>,
}

/// Elements, and the port by which packets leave the first of them.
type Elements = (Vec<Box<dyn Element<Slice> + Send>>, u16);

impl SwitchPort {
    pub fn new(forwarding: Forwarding, delay: Nanos, ports: usize) -> Result<Self, Invalid> {
        Ok(Self { forwarding, delay, wires: vec![no_wire()?; ports] })
    }

    /// Sets the options of the link by which packets arrive at another port; true if this matters here.
    pub fn set_wire(&mut self, from: u16, options: &LinkOptions) -> Result<bool, Invalid> {
        let wire = options.rate_bps().map(|_| options.line()).transpose()?.flatten();
        let wire = wire.map_or_else(no_wire, Ok)?;
        let Some(place) = self.wires.get_mut(usize::from(from)) else { return Ok(false) };
        let is_other = std::mem::replace(place, wire) != wire;
        Ok(is_other && matches!(self.forwarding, Forwarding::CutThrough { .. }))
    }

    /// The switch with the wire of these options, and the elements behind the wire. Without a wire in the options
    /// there is nothing to cut through to.
    pub fn build(&self, options: &LinkOptions, seed: u64, name: &str) -> Result<Elements, Invalid> {
        let mut elements: Vec<Box<dyn Element<Slice> + Send>> = Vec::new();
        let Some(out) = options.build_line(seed, name)? else {
            if self.delay > Nanos(0) {
                elements.push(Box::new(Delay::fixed(self.delay)));
            }
            elements.extend(options.build(seed, name)?);
            return Ok((elements, 0));
        };
        let exit = u16::try_from(self.wires.len()).unwrap_or(u16::MAX);
        // No packets leave by the ports by which they arrive; their queues stay empty.
        let ports = self.wires.iter().map(|&wire| (wire, Queue::drop_tail(Limit::Packets(0))));
        let ports = ports.chain([out]).collect();
        elements.push(Box::new(Switch::new(ports, vec![exit], self.forwarding, self.delay)));
        elements.extend(options.build_behind(seed, name)?);
        Ok((elements, exit))
    }
}

/// A wire without transmission time: storing takes no longer than cutting through.
fn no_wire() -> Result<Line, Invalid> {
    Line::new(BitRate(u64::MAX), Framing::NONE)
}
