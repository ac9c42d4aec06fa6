//! The bus of a host, which all packets of its devices cross.

use fabricmark_link::{Departure, HostBus, Id, Invalid, Limit, Medium, Net, Packet, Queue};
use fabricmark_units::{Instant, Nanos};

use crate::emulator::Device;
use crate::path::Traffic;
use crate::pool::Slice;
use crate::topology::Topology;
use crate::tun::Tun;
use crate::writer::Writer;

/// Bytes of a device that may wait for the bus before the device is no longer read: two super-packets. A bus drops
/// nothing that a host sends, since the memory of the host is its queue.
const WAITING_MAX: u64 = 128 << 10;

/// Received packets that may wait for the bus in each adapter: the queue of a Linux interface.
const RECEIVED_MAX: u64 = 1000;

/// Longer than any lab is up.
const FOR_EVER: Nanos = Nanos(1 << 62);

/// A bus in operation. Device `i` sends at port `2 i` and receives at port `2 i + 1`.
pub(crate) struct Bus {
    /// Directions that begin at devices of the host.
    pub(crate) directions: Vec<usize>,
    /// One medium for both directions, or one for each.
    media: Vec<(Net<Slice>, Id)>,
    /// Bytes that wait to be sent, by device.
    waiting_bytes: Vec<u64>,
    /// Whether the link of a device has paused it, by device.
    stopped: Vec<bool>,
    traffic: Traffic,
    /// By device.
    writers: Vec<Writer>,
}

/// A packet that has crossed a bus, sent or received by a device.
pub(crate) enum Crossed {
    Out(usize, Departure<Slice>),
    In(usize, Departure<Slice>),
}

impl Bus {
    pub(crate) fn new(topology: &Topology, host: &str, bus: HostBus) -> Result<Self, Invalid> {
        let ends = topology.ends(host).map(|(link, end)| topology.direction(link, end));
        let directions: Vec<usize> = ends.collect();
        let devices = directions.len();
        let ways = if bus.is_duplex() { 2 } else { 1 };
        let mut media = Vec::new();
        for _ in 0..ways {
            let limits = [Limit::Bytes(u64::MAX), Limit::Packets(RECEIVED_MAX)];
            let queues = (0..devices).flat_map(|_| limits.map(Queue::drop_tail)).collect();
            let mut net = Net::new();
            let id = net.add(Medium::bus(bus.line()?, queues)?);
            media.push((net, id));
        }
        Ok(Self {
            directions,
            media,
            waiting_bytes: vec![0; devices],
            stopped: vec![false; devices],
            traffic: Traffic { name: host.to_owned(), ..Traffic::default() },
            writers: (0..devices).map(|_| Writer::default()).collect(),
        })
    }

    pub(crate) fn send(&mut self, at: Instant, device: usize, packet: Packet<Slice>) {
        self.waiting_bytes[device] += packet.length.bytes();
        self.arrive(at, 2 * device, packet);
    }

    pub(crate) fn receive(&mut self, at: Instant, device: usize, packet: Packet<Slice>) {
        self.arrive(at, 2 * device + 1, packet);
    }

    fn arrive(&mut self, at: Instant, port: usize, packet: Packet<Slice>) {
        self.traffic.arrived += packet.length.into();
        self.traffic.trains += u64::from(packet.length.segments() > 1);
        let medium = port % self.media.len();
        let (net, id) = &mut self.media[medium];
        net.arrive(at, (*id, port as u16), packet);
    }

    /// Pauses or resumes what a device sends.
    pub(crate) fn pause(&mut self, at: Instant, device: usize, is_stopped: bool) {
        if std::mem::replace(&mut self.stopped[device], is_stopped) != is_stopped {
            let (net, id) = &mut self.media[0];
            let time = if is_stopped { FOR_EVER } else { Nanos(0) };
            net.pause(at, (*id, 2 * device as u16), time);
        }
    }

    /// Whether a device should not be read now.
    pub(crate) fn is_full(&self, device: usize) -> bool {
        self.waiting_bytes[device] >= WAITING_MAX
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        // The end of a pause is not a deadline.
        let is_soon = |due: &Instant| due.0 < FOR_EVER.0;
        self.media.iter().filter_map(|(net, _)| net.deadline().filter(is_soon)).min()
    }

    /// The next packet that crosses the bus until `due`.
    pub(crate) fn next(&mut self, due: Instant) -> Option<Crossed> {
        let departure = self.media.iter_mut().find_map(|(net, _)| net.next(due))?;
        let port = usize::from(departure.from.1);
        let device = port / 2;
        if port % 2 == 1 {
            return Some(Crossed::In(device, departure));
        }
        self.waiting_bytes[device] -= departure.packet.length.bytes();
        self.traffic.departed += departure.packet.length.into();
        Some(Crossed::Out(device, departure))
    }

    /// Writes a packet to a device, at [`Self::flush`] at the latest.
    pub(crate) fn write(&mut self, device: usize, departure: Departure<Slice>, to: &Tun) {
        self.writers[device].write(departure, to, &mut self.traffic);
    }

    /// Writes what waits for its continuation. `devices` are those of all directions.
    pub(crate) fn flush(&mut self, devices: &[Option<Device>]) {
        for (writer, &direction) in self.writers.iter_mut().zip(&self.directions) {
            if let Some(Device { tun, .. }) = &devices[direction] {
                writer.flush(tun, &mut self.traffic);
            }
        }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let mut traffic = self.traffic.clone();
        self.media.iter().for_each(|medium| traffic.add_shared(medium));
        traffic
    }
}
