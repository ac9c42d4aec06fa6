//! Network paths: links in order, with switches between them.

use std::{fmt, mem};

use fabricmark_units::Nanos;

use crate::ceiling::{goodput_within, stream_goodput_within};
use crate::{Ceiling, Impossible, Ipoib, IpoibMode, Link, Stack};

/// Links in the order in which a message traverses them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The links, each with the switch before it; the first has no switch.
    pub hops: Vec<Hop>,
    /// One-way propagation delay of the whole path; 0 keeps a floor a bound. See [`fibre_delay`].
    pub propagation_ns: Nanos,
}

/// A link of a path, and the switch that sends onto it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The link.
    pub link: Link,
    /// The switch before the link. `None` after the first link means the default switch, which is the fastest.
    pub switch: Option<Switch>,
    /// Number of the half-duplex medium that the link is, such as a hub: hops over one medium share its time. `None`:
    /// full duplex.
    pub medium: Option<usize>,
}

impl Hop {
    /// A full-duplex link.
    pub fn new(link: Link, switch: Option<Switch>) -> Self {
        Self { link, switch, medium: None }
    }
}

/// A device that receives from one link and sends onto the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Switch {
    /// When it starts to send a packet.
    pub mode: Switching,
    /// Bytes of a packet, counted from the first on the wire, that a cut-through switch receives before it sends.
    /// Default: up to the destination, which is 14 on Ethernet (preamble and destination address) and 4 on InfiniBand
    /// (DLID of the LRH). 0 models a repeater. A higher value is an assumption about the switch.
    pub look_bytes: Option<u64>,
    /// Additional forwarding delay.
    pub delay_ns: Nanos,
}

/// When a switch starts to forward a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Switching {
    /// After it has received the whole packet.
    StoreAndForward,
    /// After it has read the destination. This is the faster mode, and so the default if the mode is unknown.
    #[default]
    CutThrough,
}

/// Bytes that a switch must receive on its ingress link before it knows the egress.
pub(crate) fn look_default(ingress: Link) -> u64 {
    match ingress {
        Link::Ipoib(_) | Link::Ib(_) => 4,
        Link::Loopback
        | Link::Veth { .. }
        | Link::Ethernet { .. }
        | Link::RoceV1 { .. }
        | Link::RoceV2 { .. } => 14,
    }
}

/// Speed of light in vacuum in m/s (SI, by definition).
pub(crate) const LIGHT: u128 = 299_792_458;

/// Refractive index of single-mode fibre at 1550 nm in thousandths (data sheets of G.652 fibre: 1.467 to 1.469).
pub(crate) const FIBRE_INDEX_THOUSANDTHS: u128 = 1468;

/// Propagation delay of fibre (4.897 us/km at refractive index 1.468), rounded down so that a floor stays a bound.
pub fn fibre_delay(metres: u64) -> Nanos {
    let ns = u128::from(metres) * FIBRE_INDEX_THOUSANDTHS * 1_000_000 / LIGHT;
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl Path {
    /// A single link without switches.
    pub fn direct(link: Link) -> Self {
        Self::through(link, 0, Switching::default())
    }

    /// Equal links with `switches` switches of one mode between them.
    pub fn through(link: Link, switches: u16, mode: Switching) -> Self {
        let switch = Some(Switch { mode, ..Switch::default() });
        let mut hops = vec![Hop::new(link, None)];
        hops.extend((0..switches).map(|_| Hop::new(link, switch)));
        Self { hops, propagation_ns: Nanos(0) }
    }

    /// The path in the opposite direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut hops: Vec<Hop> = self.hops.iter().rev().copied().collect();
        // A hop holds the switch before its link, which is the switch after it in the opposite direction.
        let mut switch = None;
        for hop in &mut hops {
            mem::swap(&mut hop.switch, &mut switch);
        }
        Self { hops, ..*self }
    }

    /// Whether both directions share the time of a medium.
    pub fn is_half_duplex(&self) -> bool {
        self.hops.iter().any(|hop| hop.medium.is_some())
    }

    /// How often packets cross the medium of a hop.
    fn crossings(&self, hop: &Hop) -> u64 {
        let is_same = |other: &&Hop| hop.medium.is_some() && other.medium == hop.medium;
        self.hops.iter().filter(is_same).count().max(1) as u64
    }

    /// Largest packet that crosses every link (see [`Stack::mtu_over`]).
    pub(crate) fn mtu(&self, stack: Stack) -> Result<u64, Impossible> {
        if self.hops.first().ok_or(Impossible::EmptyPath)?.switch.is_some() {
            return Err(Impossible::FirstSwitch);
        }
        self.hops.iter().try_fold(u64::MAX, |mtu, hop| Ok(mtu.min(stack.mtu_over(hop.link)?)))
    }

    /// The links, where neighbours in connected-mode IPoIB all get the smallest `ib_mtu` among them: switches forward
    /// InfiniBand packets unchanged, so both sides use the same packet size.
    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links: Vec<Link> = self.hops.iter().map(|hop| hop.link).collect();
        for neighbours in links.chunk_by_mut(|a, b| is_switched(*a, *b)) {
            let connected_mtus = neighbours.iter().filter_map(|link| match link {
                Link::Ipoib(Ipoib { mode: IpoibMode::Connected, ib_mtu, .. }) => Some(*ib_mtu),
                _ => None,
            });
            let smallest = connected_mtus.min();
            for link in neighbours {
                if let (Link::Ipoib(ipoib), Some(smallest)) = (link, smallest) {
                    ipoib.ib_mtu = smallest;
                }
            }
        }
        links
    }
}

/// Whether packets are forwarded unchanged between the two links. Otherwise a router is between them, which must
/// receive the whole packet because it replaces the frame.
pub(crate) fn is_switched(from: Link, to: Link) -> bool {
    match (from, to) {
        (Link::Ipoib(Ipoib { mode: from, .. }), Link::Ipoib(Ipoib { mode: to, .. })) => from == to,
        _ => mem::discriminant(&from) == mem::discriminant(&to),
    }
}

impl fmt::Display for Path {
    /// Writes links and switches in order: `ethernet:10G > cut-through look 64 delay 300ns > ethernet:1G`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, hop) in self.hops.iter().enumerate() {
            if place > 0 {
                let Switch { mode, look_bytes, delay_ns } = hop.switch.unwrap_or_default();
                write!(f, " > {mode}")?;
                if let Some(bytes) = look_bytes {
                    write!(f, " look {bytes}")?;
                }
                if delay_ns > Nanos(0) {
                    write!(f, " delay {delay_ns}")?;
                }
                f.write_str(" > ")?;
            }
            write!(f, "{}", hop.link)?;
        }
        Ok(())
    }
}

impl fmt::Display for Switching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StoreAndForward => "store-and-forward",
            Self::CutThrough => "cut-through",
        })
    }
}

/// Ceiling of messages over a path: that of its slowest link, with packets that fit all links; a part of it where
/// packets cross a half-duplex medium several times, as those of a relay on a hub do. See
/// [`goodput`](crate::goodput).
pub fn path_goodput(path: &Path, stack: Stack, payload: u64) -> Result<Ceiling, Impossible> {
    tightest(path, stack, |link, mtu| goodput_within(link, stack, mtu, payload))
}

/// Ceiling of a stream over a path: that of its slowest link, with packets that fit all links. See
/// [`stream_goodput`](crate::stream_goodput).
pub fn path_stream_goodput(path: &Path, stack: Stack) -> Result<Ceiling, Impossible> {
    tightest(path, stack, |link, mtu| stream_goodput_within(link, stack, mtu))
}

fn tightest(
    path: &Path,
    stack: Stack,
    ceiling: impl Fn(Link, u64) -> Result<Ceiling, Impossible>,
) -> Result<Ceiling, Impossible> {
    let mtu = path.mtu(stack)?;
    let ceilings = path
        .links()
        .into_iter()
        .zip(&path.hops)
        .map(|(link, hop)| ceiling(link, mtu)?.crossing(path.crossings(hop)));
    let ceilings = ceilings.collect::<Result<Vec<_>, _>>()?.into_iter();
    let lowest = ceilings.min_by_key(|ceiling| ceiling.goodput_bps);
    let mut lowest = lowest.ok_or(Impossible::EmptyPath)?;
    if path.hops.len() > 1 {
        lowest.inputs.insert("path".to_owned(), path.to_string().into());
        lowest.inputs.insert("mtu_bytes".to_owned(), mtu.into());
    }
    Ok(lowest)
}
