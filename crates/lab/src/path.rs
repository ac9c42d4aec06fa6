//! One direction of a link: a net between two devices.

use fabricmark_link::{
    Count, Counters, Delay, Element, Invalid, LinkWords, Net, Packet, Port, Reason,
};
use fabricmark_stats::Histogram;
use fabricmark_units::{Instant, Nanos};

use crate::emulator::clock;
use crate::pool::Slice;
use crate::segment;
use crate::tun::Tun;

/// One end of a link that is wanted.
#[derive(Debug)]
pub struct LinkEnd {
    /// The device at this end.
    pub tun: Tun,
    /// A name for the direction from here to the other end, such as `wan:client>server`; chance is
    /// drawn from streams named after it.
    pub name: String,
    /// What the link does with the packets that the device sends.
    pub words: LinkWords,
}

/// What happened in one direction since it was made.
///
/// In packets of IP: `arrived + duplicated = departed + refused + dropped + held`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Name of the direction.
    pub name: String,
    /// Came from the device.
    pub arrived: Count,
    /// Copies made on the way.
    pub duplicated: Count,
    /// Written to the other device.
    pub departed: Count,
    /// What the other device did not take: it is down, or the packet is none since a bit of it flipped.
    pub refused: Count,
    /// Dropped on the way, by [`Reason::ALL`].
    pub dropped: [Count; Reason::ALL.len()],
    /// Marked with congestion on the way.
    pub marked: Count,
    /// Wrong in a bit.
    pub corrupted: Count,
    /// On the way now.
    pub held: Count,
    /// Super-packets that came from the device, each counted as its segments in `arrived`.
    pub trains: u64,
    /// Pieces whose headers had to be written anew.
    pub pieces: u64,
    /// How much later than due packets were written to the other device, in ns.
    pub lateness: Histogram,
    /// The elements of now, in the order of the way.
    pub elements: Vec<Counters>,
}

/// A direction at work.
pub(crate) struct Path {
    name: String,
    words: LinkWords,
    seed: u64,
    way: Way,
    /// Ways from before a change, until what they hold has come out.
    before: Vec<Way>,
    traffic: Traffic,
    /// For packets with a flipped bit.
    scratch: Vec<u8>,
}

struct Way {
    net: Net<Slice>,
    entrance: Port,
    elements: Vec<fabricmark_link::Id>,
}

impl Path {
    pub(crate) fn new(name: String, words: LinkWords, seed: u64) -> Result<Self, Invalid> {
        let way = Way::build(&words, seed, &name)?;
        let traffic = Traffic { name: name.clone(), ..Traffic::default() };
        Ok(Self { name, words, seed, way, before: Vec::new(), traffic, scratch: Vec::new() })
    }

    /// Lets what comes from now on go another way; what is on the way is not touched by that.
    pub(crate) fn change(&mut self, change: &LinkWords) -> Result<(), Invalid> {
        let mut words = self.words.clone();
        words.merge(change);
        let way = Way::build(&words, self.seed, &self.name)?;
        self.words = words;
        self.before.push(std::mem::replace(&mut self.way, way));
        Ok(())
    }

    pub(crate) fn arrive(&mut self, now: Instant, slice: Slice) {
        let (length, ecn) = slice.with(|bytes| (segment::length(bytes), segment::ecn(bytes)));
        self.traffic.arrived += length.into();
        self.traffic.trains += u64::from(length.segments() > 1);
        let packet = Packet { ecn, ..Packet::new(slice, length) };
        self.way.net.arrive(now, self.way.entrance, packet);
    }

    /// Writes out what is due.
    pub(crate) fn deliver(&mut self, now: Instant, to: &Tun) {
        let Self { way, before, traffic, scratch, .. } = self;
        for net in before.iter_mut().map(|way| &mut way.net).chain([&mut way.net]) {
            while let Some(departure) = net.next(now) {
                let length = departure.packet.length;
                match write(&departure.packet, to, scratch, &mut traffic.pieces) {
                    Ok(()) => traffic.departed += length.into(),
                    Err(_) => traffic.refused += length.into(),
                }
                traffic.lateness.record((clock() - departure.at).0);
            }
        }
        before.retain(|way| {
            let is_done = way.net.deadline().is_none();
            if is_done {
                way.add_to(traffic);
            }
            !is_done
        });
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
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
    fn build(words: &LinkWords, seed: u64, name: &str) -> Result<Self, Invalid> {
        let mut elements: Vec<Box<dyn Element<Slice> + Send>> = words.build(seed, name)?;
        if elements.is_empty() {
            elements.push(Box::new(Delay::fixed(Nanos(0))));
        }
        let mut net = Net::new();
        let elements: Vec<_> = elements.into_iter().map(|element| net.add(element)).collect();
        net.chain(&elements);
        let entrance = (elements[0], 0);
        Ok(Self { net, entrance, elements })
    }

    fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.elements.iter().map(|&element| self.net.counters(element))
    }

    fn add_to(&self, traffic: &mut Traffic) {
        for counters in self.counters() {
            traffic.duplicated += counters.duplicated;
            traffic.marked += counters.marked;
            traffic.corrupted += counters.corrupted;
            for (sum, reason) in traffic.dropped.iter_mut().zip(Reason::ALL) {
                *sum += counters.dropped(reason);
            }
        }
    }
}

fn write(
    packet: &Packet<Slice>,
    to: &Tun,
    scratch: &mut Vec<u8>,
    pieces: &mut u64,
) -> std::io::Result<()> {
    packet.payload.with(|whole| {
        let piece = segment::piece(whole, packet);
        *pieces += u64::from(piece.is_some());
        let (headers, payload) = match &piece {
            Some(piece) => (piece.headers(), &whole[piece.payload.clone()]),
            None => (whole, &[][..]),
        };
        let Some(bit) = packet.flipped_bit else { return to.write(headers, payload) };
        scratch.clear();
        scratch.extend_from_slice(headers);
        scratch.extend_from_slice(payload);
        segment::flip(scratch, bit);
        to.write(scratch, &[])
    })
}
