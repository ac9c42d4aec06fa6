//! Where links meet: switches, hubs and the buses of hosts, and the order in which packets pass from link to link.
//!
//! Each direction of a link stays a [`Path`] of its own, which may change without the others. A packet that leaves
//! a path at a switch, a hub or a bus is handed on at the instant at which it left. Of all events that are due, on
//! any link, the earliest is handled first.

use fabricmark_link::{Departure, Id, Invalid, LinkOptions, Medium, Net, Packet, Reason};
use fabricmark_units::Instant;

use crate::bus::{Bus, Crossed};
use crate::emulator::Device;
use crate::path::{self, Path, Traffic};
use crate::pool::Slice;
use crate::port::SwitchPort;
use crate::table::{Destination, Table};
use crate::topology::{Junction, Topology};

/// All switches, hubs and buses of a lab, in operation.
pub(crate) struct Shared {
    places: Vec<Place>,
    buses: Vec<Bus>,
    /// By direction that begins at a device with a bus: the bus, and the number of the device on it.
    on_bus: Vec<Option<(usize, usize)>>,
    /// By direction: place and port at which it ends and at which it begins.
    ends: Vec<[Option<(usize, u16)>; 2]>,
    /// Directions with a place or a bus at an end.
    members: Vec<usize>,
    /// Whether a direction is one of `members`.
    is_member: Vec<bool>,
}

const END: usize = 0;
const BEGIN: usize = 1;

/// A switch or a hub.
struct Place {
    junction: Junction,
    /// The directions that end here, by port. The number of the opposite direction has the last bit flipped.
    inward: Vec<usize>,
    table: Table,
    /// The medium of a hub, with a port for each link.
    medium: Option<(Net<Slice>, Id)>,
    traffic: Traffic,
}

impl Shared {
    pub fn new(topology: &Topology, directions: usize) -> Result<Self, Invalid> {
        let places = topology.junctions.keys().map(|name| Place::new(topology, name));
        let places: Vec<Place> = places.collect::<Result<_, _>>()?;
        let buses = topology.buses().map(|(host, bus)| Bus::new(topology, host, bus));
        let buses: Vec<Bus> = buses.collect::<Result<_, _>>()?;
        let mut on_bus = vec![None; directions];
        for (number, bus) in buses.iter().enumerate() {
            for (device, &direction) in bus.directions.iter().enumerate() {
                on_bus[direction] = Some((number, device));
            }
        }
        let mut ends = vec![[None; 2]; directions];
        for (number, place) in places.iter().enumerate() {
            for (port, &direction) in (0..).zip(&place.inward) {
                ends[direction][END] = Some((number, port));
                ends[direction ^ 1][BEGIN] = Some((number, port));
            }
        }
        let is_member = |direction: usize| {
            let has_bus = on_bus[direction].is_some() || on_bus[direction ^ 1].is_some();
            has_bus || ends[direction] != [None; 2]
        };
        let is_member: Vec<bool> = (0..directions).map(is_member).collect();
        let members = (0..directions).filter(|&direction| is_member[direction]).collect();
        Ok(Self { places, buses, on_bus, ends, members, is_member })
    }

    /// Whether a direction begins or ends at a switch, a hub or a bus.
    pub fn has(&self, direction: usize) -> bool {
        self.is_member[direction]
    }

    /// Whether the bus of a device accepts nothing more from it now.
    pub fn is_full(&self, direction: usize) -> bool {
        self.on_bus[direction].is_some_and(|(bus, device)| self.buses[bus].is_full(device))
    }

    /// Takes a packet that a device sent.
    pub fn arrive(&mut self, now: Instant, direction: usize, slice: Slice, paths: &mut [Path]) {
        match self.on_bus[direction] {
            Some((bus, device)) => self.buses[bus].send(now, device, path::packet(slice)),
            None => paths[direction].arrive(now, slice),
        }
    }

    /// Tells the bus before a link whether the queue of the link has paused its sender.
    pub fn press(&mut self, at: Instant, direction: usize, paths: &[Path]) {
        if let Some((bus, device)) = self.on_bus.get(direction).copied().flatten() {
            self.buses[bus].pause(at, device, paths[direction].is_stopped());
        }
    }

    /// The port at which a direction begins, if it begins at a switch.
    pub fn port(&self, direction: usize) -> Result<Option<SwitchPort>, Invalid> {
        let Some((place, _)) = self.ends[direction][BEGIN] else { return Ok(None) };
        let Place { junction, inward, .. } = &self.places[place];
        let Junction::Switch { forwarding, delay } = *junction else { return Ok(None) };
        SwitchPort::new(forwarding, delay, inward.len()).map(Some)
    }

    /// Tells all ports by which wires packets arrive.
    pub fn connect(&self, paths: &mut [Path]) -> Result<(), Invalid> {
        self.members.iter().try_for_each(|&direction| self.connect_from(direction, paths))
    }

    /// The same for one wire that has changed.
    pub fn connect_from(&self, from: usize, paths: &mut [Path]) -> Result<(), Invalid> {
        let Some((place, port)) = self.ends[from][END] else { return Ok(()) };
        let options = paths[from].options.clone();
        let inward = self.places[place].inward.iter().filter(|&&inward| inward != from);
        inward.map(|inward| inward ^ 1).try_for_each(|out| paths[out].change_wire(port, &options))
    }

    /// When a hub or a bus is due next; paths have deadlines of their own.
    pub fn deadline(&self) -> Option<Instant> {
        let places = self.places.iter().filter_map(Place::deadline);
        places.chain(self.buses.iter().filter_map(Bus::deadline)).min()
    }

    /// Hands on and writes what is due, in the order of time.
    pub fn deliver(&mut self, now: Instant, paths: &mut [Path], devices: &[Option<Device>]) {
        while let Some((due, part)) = self.earliest(paths).filter(|&(due, _)| due <= now) {
            match part {
                Part::Path(number) => self.leave(number, due, paths, devices),
                Part::Place(place) => self.places[place].repeat(due, paths),
                Part::Bus(bus) => self.cross(bus, due, paths, devices),
            }
        }
        for &from in &self.members {
            if let Some(Device { tun, .. }) = &devices[from ^ 1] {
                paths[from].flush(tun);
            }
        }
        for bus in &mut self.buses {
            bus.flush(devices);
        }
    }

    /// The part that is due first.
    fn earliest(&self, paths: &[Path]) -> Option<(Instant, Part)> {
        let members = self.members.iter().copied().map(Part::Path);
        let places = (0..self.places.len()).map(Part::Place);
        let parts = members.chain(places).chain((0..self.buses.len()).map(Part::Bus));
        let due = |part| match part {
            Part::Path(number) => paths[number].next_departure(),
            Part::Place(place) => self.places[place].deadline(),
            Part::Bus(bus) => self.buses[bus].deadline(),
        };
        parts.filter_map(|part| Some((due(part)?, part))).min_by_key(|&(due, _)| due)
    }

    /// Counters of each switch, hub and bus.
    pub fn traffic(&self) -> Vec<Traffic> {
        self.places.iter().map(Place::traffic).chain(self.buses.iter().map(Bus::traffic)).collect()
    }

    /// Hands on packets that leave a path until `due`.
    fn leave(&mut self, from: usize, due: Instant, paths: &mut [Path], devices: &[Option<Device>]) {
        while let Some(departure) = paths[from].next(due) {
            if let Some((place, port)) = self.ends[from][END] {
                paths[from].traffic.departed += departure.packet.length.into();
                self.places[place].arrive(port, departure, paths);
            } else if let Some((bus, device)) = self.on_bus[from ^ 1] {
                paths[from].traffic.departed += departure.packet.length.into();
                self.buses[bus].receive(departure.at, device, departure.packet);
            } else if let Some(Device { tun, .. }) = &devices[from ^ 1] {
                paths[from].write(departure, tun);
            }
        }
        self.press(due, from, paths);
    }

    /// Hands on and writes packets that have crossed a bus until `due`.
    fn cross(&mut self, bus: usize, due: Instant, paths: &mut [Path], devices: &[Option<Device>]) {
        while let Some(crossed) = self.buses[bus].next(due) {
            match crossed {
                Crossed::Out(device, Departure { at, packet, .. }) => {
                    let number = self.buses[bus].directions[device];
                    paths[number].pass(at, 0, packet);
                    self.press(at, number, paths);
                }
                Crossed::In(device, departure) => {
                    let number = self.buses[bus].directions[device];
                    if let Some(Device { tun, .. }) = &devices[number] {
                        self.buses[bus].write(device, departure, tun);
                    }
                }
            }
        }
    }
}

/// A part of the lab that can be due.
#[derive(Clone, Copy)]
enum Part {
    Path(usize),
    Place(usize),
    Bus(usize),
}

impl Place {
    fn new(topology: &Topology, name: &str) -> Result<Self, Invalid> {
        let inward = topology.ends(name).map(|(link, end)| topology.direction(link, 1 - end));
        let inward: Vec<usize> = inward.collect();
        let junction = topology.junctions[name].clone();
        let medium = match &junction {
            Junction::Switch { .. } => None,
            Junction::Hub { link } => {
                // A queue for each station. Stations ignore packets for others, so that a packet leaves by the port
                // by which it came and is handed to the port of its destination from there.
                let mut options = LinkOptions::default();
                // The link of a checked hub is one that options accept.
                let _ = options.set("link", &link.to_string());
                let mut queues = Vec::new();
                let mut wire = None;
                for _ in &inward {
                    let Some((line, queue)) = options.build_line(0, name)? else { continue };
                    wire = Some(line);
                    queues.push(queue);
                }
                let mut net = Net::new();
                let medium = wire.map(|line| Medium::bus(line, queues)).transpose()?;
                medium.map(|medium| net.add(medium)).map(|id| (net, id))
            }
        };
        let traffic = Traffic { name: name.to_owned(), ..Traffic::default() };
        Ok(Self { junction, inward, table: Table::new(topology, name), medium, traffic })
    }

    fn deadline(&self) -> Option<Instant> {
        self.medium.as_ref().and_then(|(net, _)| net.deadline())
    }

    /// Takes a packet that left a link.
    fn arrive(&mut self, port: u16, departure: Departure<Slice>, paths: &mut [Path]) {
        let Departure { at, packet, .. } = departure;
        self.traffic.arrived += packet.length.into();
        match &mut self.medium {
            Some((net, id)) => net.arrive(at, (*id, port), packet),
            None => self.forward(at, port, &packet, paths),
        }
    }

    /// Hands on packets that leave the medium until `due`.
    fn repeat(&mut self, due: Instant, paths: &mut [Path]) {
        while let Some((net, _)) = &mut self.medium
            && let Some(Departure { at, from, packet }) = net.next(due)
        {
            self.forward(at, from.1, &packet, paths);
        }
    }

    /// Hands a packet to the link towards its destination, a multicast to all links, but not to the one by which it
    /// came.
    fn forward(&mut self, at: Instant, from: u16, packet: &Packet<Slice>, paths: &mut [Path]) {
        let destination = packet.payload.with(|whole| self.table.destination(whole));
        let back = self.inward[usize::from(from)] ^ 1;
        let length = packet.length;
        let mut count = 0_u32;
        let mut pass = |out: usize| {
            if out != back {
                count += 1;
                self.traffic.departed += length.into();
                paths[out].pass(at, from, packet.clone());
            }
        };
        match destination {
            Destination::Direction(out) => pass(out),
            Destination::All => self.inward.iter().for_each(|&inward| pass(inward ^ 1)),
            Destination::Unknown => {}
        }
        if count == 0 {
            self.traffic.dropped[Reason::NoRoute as usize] += length.into();
        }
        for _ in 1..count {
            self.traffic.duplicated += length.into();
        }
    }

    fn traffic(&self) -> Traffic {
        let mut traffic = self.traffic.clone();
        self.medium.iter().for_each(|medium| traffic.add_shared(medium));
        traffic
    }
}
