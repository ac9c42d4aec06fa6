//! What a lab of two nodes is wired with: a link's technology, and what of it is emulated.

use fabricmark_link::{HostBus, LinkWords};
use fabricmark_plan::{Offload, Point};
use fabricmark_wire::Link;

/// A link that a point asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wiring {
    /// Its technology.
    pub link: Link,
    /// What the emulator does in both directions; `None` for a veth pair, behind a token bucket where
    /// the technology has a wire.
    pub words: Option<LinkWords>,
    /// Whether senders hand over single packets to the emulator.
    pub single: bool,
    /// What all packets of the client cross, too.
    pub bus: Option<HostBus>,
}

impl Wiring {
    /// The link of a point.
    pub fn of(point: &Point) -> Self {
        let single = point.offload == Some(Offload::Off);
        Self { link: point.link, words: point.words(), single, bus: point.host_bus() }
    }
}

impl From<Link> for Wiring {
    fn from(link: Link) -> Self {
        Self { link, words: None, single: false, bus: None }
    }
}
