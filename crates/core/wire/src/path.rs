//! What lies between two hosts: links in order, with switches between them.

use std::{fmt, mem};

use fabricmark_units::Nanos;

use crate::ceiling::{goodput_within, stream_goodput_within};
use crate::{Ceiling, Impossible, Ipoib, IpoibMode, Link, Stack};

/// Links in the order in which a message crosses them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The links, each with the switch before it; the first has none.
    pub hops: Vec<Hop>,
    /// Time of light over the whole path, one way; 0 keeps a floor a bound. See [`fibre_delay`].
    pub propagation_ns: Nanos,
}

/// A link of a path and the switch that sends onto it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The link.
    pub link: Link,
    /// The switch before it. Behind the first link, `None` is the default one: the fastest.
    pub switch: Option<Switch>,
}

/// What receives from one link and sends onto the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Switch {
    /// When it starts to send.
    pub mode: Switching,
    /// Bytes of a packet, from its first on the wire, that a cut-through switch waits for. The default
    /// is where it can know the way: 14 on Ethernet (preamble and destination address), 4 on InfiniBand
    /// (the LRH's destination). 0 is a repeater. More is an assumption about the switch.
    pub look_bytes: Option<u64>,
    /// Time that it takes besides.
    pub delay_ns: Nanos,
}

/// When a switch starts to send a packet on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Switching {
    /// Once it holds the whole packet.
    StoreAndForward,
    /// Once it knows the way. The faster of the two, so the one to assume where nobody knows.
    #[default]
    CutThrough,
}

/// Bytes that a switch must see before it can know the way out of the packet's link.
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

/// Refractive index of single-mode fibre at 1550 nm in thousandths (data sheets of G.652 fibre state
/// 1.467 to 1.469).
pub(crate) const FIBRE_INDEX_THOUSANDTHS: u128 = 1468;

/// How long light takes through `metres` of fibre, rounded down, so that a floor stays a bound: 4.897 us
/// for a kilometre at a refractive index of 1.468.
pub fn fibre_delay(metres: u64) -> Nanos {
    let ns = u128::from(metres) * FIBRE_INDEX_THOUSANDTHS * 1_000_000 / LIGHT;
    Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl Path {
    /// A cable.
    pub fn direct(link: Link) -> Self {
        Self::through(link, 0, Switching::default())
    }

    /// `switches` of one kind, with equal links between them.
    pub fn through(link: Link, switches: u16, mode: Switching) -> Self {
        let switch = Some(Switch { mode, ..Switch::default() });
        let mut hops = vec![Hop { link, switch: None }];
        hops.extend((0..switches).map(|_| Hop { link, switch }));
        Self { hops, propagation_ns: Nanos(0) }
    }

    /// The way back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut hops: Vec<Hop> = self.hops.iter().rev().copied().collect();
        // A switch stands before the link behind it, which on the way back is the other one.
        let mut switch = None;
        for hop in &mut hops {
            mem::swap(&mut hop.switch, &mut switch);
        }
        Self { hops, ..*self }
    }

    /// The largest packet that crosses every link (see [`Stack::mtu_over`]).
    pub(crate) fn mtu(&self, stack: Stack) -> Result<u64, Impossible> {
        if self.hops.first().ok_or(Impossible::EmptyPath)?.switch.is_some() {
            return Err(Impossible::FirstSwitch);
        }
        self.hops.iter().try_fold(u64::MAX, |mtu, hop| Ok(mtu.min(stack.mtu_over(hop.link)?)))
    }

    /// The links, with the packets of InfiniBand under IP cut alike where only switches lie between:
    /// they pass packets on as they are, so the smallest MTU of neighbours decides.
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

/// Whether packets go from one link to the other as they are. A router stands between others: it takes
/// a packet out of its frame, and so must hold the whole of it.
pub(crate) fn is_switched(from: Link, to: Link) -> bool {
    match (from, to) {
        (Link::Ipoib(Ipoib { mode: from, .. }), Link::Ipoib(Ipoib { mode: to, .. })) => from == to,
        _ => mem::discriminant(&from) == mem::discriminant(&to),
    }
}

impl fmt::Display for Path {
    /// The links in order with the switches between them:
    /// `ethernet:10G > cut-through look 64 delay 300ns > ethernet:1G`.
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

/// The ceiling of messages over a path: that of its tightest link, with packets that cross them all.
/// See [`goodput`](crate::goodput).
pub fn path_goodput(path: &Path, stack: Stack, payload: u64) -> Result<Ceiling, Impossible> {
    tightest(path, stack, |link, mtu| goodput_within(link, stack, mtu, payload))
}

/// The ceiling of a stream over a path: that of its tightest link, with packets that cross them all.
/// See [`stream_goodput`](crate::stream_goodput).
pub fn path_stream_goodput(path: &Path, stack: Stack) -> Result<Ceiling, Impossible> {
    tightest(path, stack, |link, mtu| stream_goodput_within(link, stack, mtu))
}

fn tightest(
    path: &Path,
    stack: Stack,
    ceiling: impl Fn(Link, u64) -> Result<Ceiling, Impossible>,
) -> Result<Ceiling, Impossible> {
    let mtu = path.mtu(stack)?;
    let ceilings = path.links().into_iter().map(|link| ceiling(link, mtu));
    let ceilings = ceilings.collect::<Result<Vec<_>, _>>()?.into_iter();
    let lowest = ceilings.min_by_key(|ceiling| ceiling.goodput_bps);
    let mut lowest = lowest.ok_or(Impossible::EmptyPath)?;
    if path.hops.len() > 1 {
        lowest.inputs.insert("path".to_owned(), path.to_string().into());
        lowest.inputs.insert("mtu_bytes".to_owned(), mtu.into());
    }
    Ok(lowest)
}
