//! Limits of published figures: what the wire below them allows.

use fabricmark_wire::Family::{self, V4, V6};
use fabricmark_wire::{
    self as wire, Bus, Ceiling, Floor, Kind, Operation, Path, Stack, Switching, frame,
};

use crate::cell::{Cell, value};
use crate::number::base_unit;

/// Modelled limit of a published figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Bound or conditional.
    pub kind: Kind,
    /// The limit in the unit of the cell: a ceiling for rates, a floor for times.
    pub value: f64,
    /// Whether the limit is a floor, so that a lower figure is impossible.
    pub is_floor: bool,
    /// What the limit applies to: `UDP over ethernet:10G,mtu=1500`.
    pub over: String,
    /// Assumptions about what the paper does not specify; may be empty.
    pub assumed: String,
}

impl Limit {
    /// Ratio of `value`, in the limit's unit, to the limit; at most 1 if the value is possible.
    pub fn efficiency(&self, value: f64) -> f64 {
        if self.is_floor { self.value / value } else { value / self.value }
    }
}

/// The limit of `cell` in `paper`; `None` if the wire does not limit it.
pub fn limit(paper: &str, cell: &Cell) -> Option<Limit> {
    let (factor, base) = base_unit(&cell.unit)?;
    let is_floor = match base {
        "bit/s" => false,
        "s" => true,
        _ => return None,
    };
    let Basis { what, link, limit: (value, kind), assumed } = match paper {
        "P1" => p1(cell, is_floor),
        "P2" => p2(cell),
        "P3" => p3(cell),
        "P5" => p5(cell, is_floor),
        _ => None,
    }?;
    let over = if link.is_empty() { what } else { format!("{what} over {link}") };
    Some(Limit { kind, value: value / factor, is_floor, over, assumed })
}

/// What a limit is computed from.
struct Basis {
    /// Description of the traffic.
    what: String,
    /// The link in the link grammar; empty if there is none.
    link: &'static str,
    /// The limit in bit/s or seconds.
    limit: (f64, Kind),
    /// Assumptions about what the paper does not specify; may be empty.
    assumed: String,
}

impl Basis {
    fn of(
        what: &str,
        link: &'static str,
        limit: Option<(f64, Kind)>,
        assumed: &str,
    ) -> Option<Self> {
        Some(Self { what: what.to_owned(), link, limit: limit?, assumed: assumed.to_owned() })
    }

    /// A TCP stream without options.
    fn stream(family: Family, link: &'static str, assumed: &str) -> Option<Self> {
        let limit = bps(stream_ceiling(link, tcp(family, false)));
        Self::of(&format!("a TCP stream over {family}"), link, limit, assumed)
    }
}

/// TCP over `family`, with timestamps or without options.
pub(crate) fn tcp(family: Family, has_stamps: bool) -> Stack {
    Stack::Tcp { family, option_bytes: if has_stamps { frame::TCP_TIMESTAMPS } else { 0 } }
}

/// RDMA over a reliable connection; `family` matters for RoCEv2 only.
pub(crate) fn rdma(operation: Operation, family: Family) -> Stack {
    Stack::Rc { operation, immediate: false, family }
}

/// Ceiling of messages of `payload` bytes that are not merged.
pub(crate) fn ceiling(link: &str, stack: Stack, payload: u64) -> Option<Ceiling> {
    wire::goodput(link.parse().ok()?, stack, payload).ok()
}

/// Ceiling of a stream in full packets.
pub(crate) fn stream_ceiling(link: &str, stack: Stack) -> Option<Ceiling> {
    wire::stream_goodput(link.parse().ok()?, stack).ok()
}

/// One-way floor of a message of `payload` bytes through `switches` cut-through switches.
pub(crate) fn floor(link: &str, switches: u16, stack: Stack, payload: u64) -> Option<Floor> {
    let path = Path::through(link.parse().ok()?, switches, Switching::CutThrough);
    wire::one_way_floor(&path, stack, payload).ok()
}

fn bps(ceiling: Option<Ceiling>) -> Option<(f64, Kind)> {
    ceiling.map(|ceiling| (ceiling.goodput_bps.as_f64(), ceiling.kind))
}

fn secs(floor: Option<Floor>) -> Option<(f64, Kind)> {
    floor.map(|floor| (floor.time_ns.as_f64() / 1e9, floor.kind))
}

const ETHERNET_MTU: &str = "the default MTU of Ethernet";
const SEGMENTS: &str = "timestamps of 12 bytes in each segment, and no merged writes";

/// P1: each datagram or write is separate and passes one switch.
fn p1(cell: &Cell, is_floor: bool) -> Option<Basis> {
    let payload = cell.row.parse().ok()?;
    let (technology, family) = cell.column.rsplit_once(' ')?;
    let family = family_of(family)?;
    let is_tcp = matches!(cell.place.as_str(), "table VI" | "table VII");
    let (what, stack, segments) = match is_tcp {
        true => ("TCP", tcp(family, true), SEGMENTS),
        false => ("UDP", Stack::Udp { family }, ""),
    };
    let (link, mtu) = match technology {
        "10GbE" => ("ethernet:10G,mtu=1500", ETHERNET_MTU),
        "IPoIB connected" => {
            ("ipoib:4X-FDR,mode=connected,ib-mtu=2048,mtu=2044", "the default MTU of RFC 4755")
        }
        _ => ("ipoib:4X-FDR,ib-mtu=2048", ""),
    };
    let limit = match is_floor {
        true => secs(floor(link, 1, stack, payload)),
        false => bps(ceiling(link, stack, payload)),
    };
    let assumed: Vec<&str> = [mtu, segments].into_iter().filter(|what| !what.is_empty()).collect();
    Basis::of(what, link, limit, &assumed.join(", "))
}

fn p2(cell: &Cell) -> Option<Basis> {
    let verbs = "ib:4X-DDR,mtu=2048";
    match (cell.place.as_str(), cell.row.as_str()) {
        ("section V.A", "latency of RDMA Write: least") => {
            let limit = secs(floor(verbs, 0, rdma(Operation::Write, V4), 0));
            Basis::of("one RDMA Write", verbs, limit, "no data and no switch")
        }
        ("section V.A", "verbs: bandwidth: most" | "SDP: bandwidth: most") => {
            let limit = bps(stream_ceiling(verbs, rdma(Operation::Send, V4)));
            Basis::of("RDMA in full packets", verbs, limit, "")
        }
        ("section V.A", "10GigE: bandwidth: most" | "10GigE, several streams: bandwidth: most") => {
            Basis::stream(V4, "ethernet:10G,mtu=9000", "jumbo frames of 9000 bytes over IPv4")
        }
        (
            "section V.A",
            "IPoIB: bandwidth of one stream: most"
            | "IPoIB: bandwidth of one stream: average of large messages"
            | "IPoIB, several streams: bandwidth: most",
        ) => Basis::stream(V4, "ipoib:4X-DDR,ib-mtu=2048", "datagram mode over IPv4"),
        ("section V.B", "10GigE and IPoIB: aggregate bandwidth: most") => {
            let limit = bps(Bus::Pcie { generation: 1, lanes: 8 }.goodput().ok());
            Basis::of("eight lanes of PCIe 1.1 before packet headers", "", limit, "")
        }
        _ => None,
    }
}

fn p3(cell: &Cell) -> Option<Basis> {
    let is_loop = cell.place.starts_with("slide Tokyo");
    if is_loop && cell.row == "RTT" {
        let metres = 1e3 * value("P3", &cell.place, "distance", "")?;
        let limit = (2.0 * wire::fibre_delay(metres as u64).as_secs_f64(), Kind::Bound);
        let what = "light through fibre (index 1.468) over the distance and back";
        return Basis::of(what, "", Some(limit), "the distance is the one-way length of the loop");
    }
    let is_rate = is_loop && cell.row == "rate"
        || cell.row.starts_with("rate without delay")
        || cell.row.starts_with("rate at the highest delay");
    let family = if cell.place.contains("IPv4") { V4 } else { V6 };
    let assumed = "the jumbo frame of 9198 bytes is an MTU";
    is_rate.then(|| Basis::stream(family, "ethernet:10G,mtu=9198", assumed)).flatten()
}

fn p5(cell: &Cell, is_floor: bool) -> Option<Basis> {
    let link = "ethernet:100M,mtu=1500";
    let assumed = "the hub is one half-duplex medium with an MTU of 1500 bytes";
    let named = [&cell.column, &cell.row]
        .iter()
        .find_map(|name| name.rsplit_once(' ').and_then(|(_, word)| family_of(word)));
    let (family, file_bytes) = match (cell.place.as_str(), cell.row.as_str()) {
        ("table 1" | "table 2" | "caption of table 1" | "caption of table 2", _) => {
            (named?, Some(7990))
        }
        ("table 3", _) => (V4, Some(240_118)),
        ("section IV", "switching speed over IPv4: most") => (V4, None),
        ("section IV", "switching speed over IPv6: most") => (V6, None),
        ("section V", "overall throughput: from" | "overall throughput: to") => {
            // Relayed bytes cross the medium twice.
            let (bps, kind) = bps(stream_ceiling(link, tcp(V4, false)))?;
            let what = format!("a relayed TCP stream over {V4}");
            return Basis::of(&what, link, Some((bps / 2.0, kind)), assumed);
        }
        _ => return None,
    };
    if is_floor {
        let file_bytes = file_bytes?;
        let limit = secs(floor(link, 0, tcp(family, false), file_bytes));
        let what = format!("{file_bytes} bytes by TCP over {family}");
        return Basis::of(&what, link, limit, assumed);
    }
    Basis::stream(family, link, assumed)
}

fn family_of(word: &str) -> Option<Family> {
    [V4, V6].into_iter().find(|family| family.to_string() == word)
}
