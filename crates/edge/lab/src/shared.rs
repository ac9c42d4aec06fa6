//! Where links meet: switches, hubs and the buses of hosts, and the order in which packets go from link to link.
//!
//! Each direction of a link stays a [`Path`] of its own, which may change without the others. What comes
//! out of one that ends at a switch, a hub or a bus is handed on at the instant at which it came out: of all that is due, on any
//! link, the earliest is done first.

use fabricmark_link::{Departure, Id, Invalid, LinkWords, Medium, Net, Packet, Reason};
use fabricmark_units::Instant;

use crate::bus::{Bus, BusPlan, Crossed};
use crate::emulator::Device;
use crate::path::{self, Path, Traffic};
use crate::pool::Slice;
use crate::port::SwitchPort;
use crate::table::Table;
use crate::topology::{Junction, Topology};
use crate::tun::Tun;

/// One direction of a link that is wanted, at the end where it begins.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The device of that end; none at a switch or a hub.
    pub(crate) tun: Option<Tun>,
    /// Its name, as in [`LinkEnd`](crate::LinkEnd).
    pub(crate) name: String,
    pub(crate) words: LinkWords,
}

/// A switch or a hub that is wanted.
#[derive(Debug)]
pub(crate) struct Meeting {
    name: String,
    junction: Junction,
    /// The directions that end here, port by port; that to the same link is the number with the last bit
    /// flipped.
    inward: Vec<usize>,
    table: Table,
}

impl Meeting {
    /// A switch or a hub of a topology, by its name.
    pub(crate) fn new(topology: &Topology, name: &str) -> Self {
        let inward = topology.ends(name).map(|(link, end)| topology.direction(link, 1 - end));
        Self {
            name: name.to_owned(),
            junction: topology.junctions[name].clone(),
            inward: inward.collect(),
            table: Table::new(topology, name),
        }
    }
}

/// All of them, at work.
pub(crate) struct Shared {
    places: Vec<Place>,
    buses: Vec<Bus>,
    /// For each direction that begins at a device with a bus: the bus, and the number of the device there.
    on_bus: Vec<Option<(usize, usize)>>,
    /// For each direction the place and port at which it ends and at which it begins.
    ends: Vec<[Option<(usize, u16)>; 2]>,
    /// Directions with a place or a bus at one end.
    members: Vec<usize>,
    /// The same, by number.
    is_member: Vec<bool>,
}

const END: usize = 0;
const BEGIN: usize = 1;

struct Place {
    meeting: Meeting,
    /// That of a hub, with a port for each link.
    medium: Option<(Net<Slice>, Id)>,
    traffic: Traffic,
}

impl Shared {
    pub(crate) fn new(
        meetings: Vec<Meeting>,
        buses: Vec<BusPlan>,
        directions: usize,
    ) -> Result<Self, Invalid> {
        let mut on_bus = vec![None; directions];
        for (number, bus) in buses.iter().enumerate() {
            for (device, &direction) in bus.devices().iter().enumerate() {
                on_bus[direction] = Some((number, device));
            }
        }
        let mut ends = vec![[None; 2]; directions];
        for (place, meeting) in meetings.iter().enumerate() {
            for (port, &direction) in (0..).zip(&meeting.inward) {
                ends[direction][END] = Some((place, port));
                ends[direction ^ 1][BEGIN] = Some((place, port));
            }
        }
        let is_member = |direction: usize| {
            let has_bus = on_bus[direction].is_some() || on_bus[direction ^ 1].is_some();
            has_bus || ends[direction] != [None; 2]
        };
        let is_member: Vec<bool> = (0..directions).map(is_member).collect();
        let members = (0..directions).filter(|&direction| is_member[direction]).collect();
        let places = meetings.into_iter().map(Place::new).collect::<Result<_, _>>()?;
        let buses = buses.into_iter().map(Bus::new).collect::<Result<_, _>>()?;
        Ok(Self { places, buses, on_bus, ends, members, is_member })
    }

    /// Whether a direction begins or ends here.
    pub(crate) fn has(&self, direction: usize) -> bool {
        self.is_member[direction]
    }

    /// Whether the bus of a device wants nothing more of it now.
    pub(crate) fn is_full(&self, direction: usize) -> bool {
        self.on_bus[direction].is_some_and(|(bus, device)| self.buses[bus].is_full(device))
    }

    /// Takes what a device sends.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        direction: usize,
        slice: Slice,
        paths: &mut [Path],
    ) {
        match self.on_bus[direction] {
            Some((bus, device)) => self.buses[bus].send(now, device, path::packet(slice)),
            None => paths[direction].arrive(now, slice),
        }
    }

    /// Lets the bus before a link know whether its queue wants nothing now.
    pub(crate) fn press(&mut self, at: Instant, direction: usize, paths: &[Path]) {
        if let Some((bus, device)) = self.on_bus.get(direction).copied().flatten() {
            self.buses[bus].pause(at, device, paths[direction].is_stopped());
        }
    }

    /// What a direction begins with, if it begins at a switch.
    pub(crate) fn port(&self, direction: usize) -> Result<Option<SwitchPort>, Invalid> {
        let Some((place, _)) = self.ends[direction][BEGIN] else { return Ok(None) };
        let Meeting { junction, inward, .. } = &self.places[place].meeting;
        match *junction {
            Junction::Switch { forwarding, delay } => {
                SwitchPort::new(forwarding, delay, inward.len()).map(Some)
            }
            Junction::Hub { .. } => Ok(None),
        }
    }

    /// Lets all ports know by which wires packets come to them.
    pub(crate) fn connect(&self, paths: &mut [Path]) -> Result<(), Invalid> {
        self.members.iter().try_for_each(|&direction| self.connect_from(direction, paths))
    }

    /// The same for one wire that has changed.
    pub(crate) fn connect_from(&self, from: usize, paths: &mut [Path]) -> Result<(), Invalid> {
        let Some((place, port)) = self.ends[from][END] else { return Ok(()) };
        let words = paths[from].words().clone();
        let inward = self.places[place].meeting.inward.iter().filter(|&&inward| inward != from);
        inward.map(|inward| inward ^ 1).try_for_each(|out| paths[out].change_wire(port, &words))
    }

    /// When there is something to do that no path knows of.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let places = self.places.iter().filter_map(Place::deadline);
        places.chain(self.buses.iter().filter_map(Bus::deadline)).min()
    }

    /// Hands on and writes out what is due, in the order of time.
    pub(crate) fn deliver(&mut self, now: Instant, paths: &mut [Path], devices: &[Option<Device>]) {
        while let Some((due, part)) = self.earliest(paths).filter(|&(due, _)| due <= now) {
            match part {
                Part::Path(number) => self.leave(number, due, paths, devices),
                Part::Place(place) => self.places[place].repeat(due, paths),
                Part::Bus(bus) => self.cross(bus, due, paths, devices),
            }
        }
    }

    /// What has something to do first.
    fn earliest(&self, paths: &[Path]) -> Option<(Instant, Part)> {
        let members = self.members.iter().copied().map(Part::Path);
        let places = (0..self.places.len()).map(Part::Place);
        let parts = members.chain(places).chain((0..self.buses.len()).map(Part::Bus));
        let due = |part| match part {
            Part::Path(number) => paths[number].deadline(),
            Part::Place(place) => self.places[place].deadline(),
            Part::Bus(bus) => self.buses[bus].deadline(),
        };
        parts.filter_map(|part| Some((due(part)?, part))).min_by_key(|&(due, _)| due)
    }

    /// What happened at each place and on each bus.
    pub(crate) fn traffic(&self) -> Vec<Traffic> {
        self.places.iter().map(Place::traffic).chain(self.buses.iter().map(Bus::traffic)).collect()
    }

    /// Hands on what comes out of a path until `due`.
    fn leave(
        &mut self,
        number: usize,
        due: Instant,
        paths: &mut [Path],
        devices: &[Option<Device>],
    ) {
        while let Some(departure) = paths[number].next(due) {
            let length = departure.packet.length;
            if let Some((place, port)) = self.ends[number][END] {
                paths[number].count_departed(length);
                self.places[place].arrive(port, departure, paths);
            } else if let Some((bus, device)) = self.on_bus[number ^ 1] {
                paths[number].count_departed(length);
                self.buses[bus].receive(departure.at, device, departure.packet);
            } else if let Some(Device { tun, .. }) = &devices[number ^ 1] {
                paths[number].write(&departure, tun);
            }
        }
        self.press(due, number, paths);
    }

    /// Hands on and writes out what has crossed a bus until `due`.
    fn cross(&mut self, bus: usize, due: Instant, paths: &mut [Path], devices: &[Option<Device>]) {
        while let Some(crossed) = self.buses[bus].next(due) {
            match crossed {
                Crossed::Out(device, Departure { at, packet, .. }) => {
                    let number = self.buses[bus].direction(device);
                    paths[number].pass(at, 0, packet);
                    self.press(at, number, paths);
                }
                Crossed::In(device, departure) => {
                    let number = self.buses[bus].direction(device);
                    if let Some(Device { tun, .. }) = &devices[number] {
                        self.buses[bus].write(&departure, tun);
                    }
                }
            }
        }
    }
}

/// What takes part in the order of time.
#[derive(Clone, Copy)]
enum Part {
    Path(usize),
    Place(usize),
    Bus(usize),
}

impl Place {
    fn new(meeting: Meeting) -> Result<Self, Invalid> {
        let traffic = Traffic { name: meeting.name.clone(), ..Traffic::default() };
        let medium = match &meeting.junction {
            Junction::Switch { .. } => None,
            Junction::Hub { link } => {
                // A queue for each station; who is not the destination takes nothing, so that a packet
                // leaves by the port where it came in and goes to one of the others from there.
                let mut words = LinkWords::default();
                // A hub that was checked has a link that words take.
                let _ = words.set("link", &link.to_string());
                let mut queues = Vec::new();
                let mut wire = None;
                for _ in &meeting.inward {
                    let Some((line, queue)) = words.build_line(0, &meeting.name)? else { continue };
                    wire = Some(line);
                    queues.push(queue);
                }
                let mut net = Net::new();
                let medium = wire.map(|line| Medium::bus(line, queues)).transpose()?;
                medium.map(|medium| net.add(medium)).map(|id| (net, id))
            }
        };
        Ok(Self { meeting, medium, traffic })
    }

    fn deadline(&self) -> Option<Instant> {
        self.medium.as_ref().and_then(|(net, _)| net.deadline())
    }

    /// What comes out of a link.
    fn arrive(&mut self, port: u16, departure: Departure<Slice>, paths: &mut [Path]) {
        let Departure { at, packet, .. } = departure;
        self.traffic.arrived += packet.length.into();
        match &mut self.medium {
            Some((net, id)) => net.arrive(at, (*id, port), packet),
            None => self.forward(at, port, packet, paths),
        }
    }

    /// Hands on what comes out of the medium until `due`.
    fn repeat(&mut self, due: Instant, paths: &mut [Path]) {
        while let Some((net, _)) = &mut self.medium
            && let Some(Departure { at, from, packet }) = net.next(due)
        {
            self.forward(at, from.1, packet, paths);
        }
    }

    /// Hands a packet to the link that leads to its destination; none leads back.
    fn forward(&mut self, at: Instant, from: u16, packet: Packet<Slice>, paths: &mut [Path]) {
        let out = packet.payload.with(|whole| self.meeting.table.direction(whole));
        let back = self.meeting.inward[usize::from(from)] ^ 1;
        match out.filter(|&out| out != back) {
            Some(out) => {
                self.traffic.departed += packet.length.into();
                paths[out].pass(at, from, packet);
            }
            None => self.traffic.dropped[Reason::NoRoute as usize] += packet.length.into(),
        }
    }

    fn traffic(&self) -> Traffic {
        let mut traffic = self.traffic.clone();
        if let Some((net, id)) = &self.medium {
            let counters = net.counters(*id);
            for (sum, reason) in traffic.dropped.iter_mut().zip(Reason::ALL) {
                *sum += counters.dropped(reason);
            }
            traffic.held = net.held();
            traffic.elements = vec![*counters];
        }
        traffic
    }
}
