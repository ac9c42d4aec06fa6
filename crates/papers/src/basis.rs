//! What lies under a published figure: the link, and what was sent over it.

use fabricmark_wire::Family::{self, V4, V6};

use crate::cell::Cell;

/// What bounds a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// UDP datagrams of a payload; one switch on the way.
    Udp(Family, u64),
    /// TCP, each write of a payload alone in its segments, with time stamps; one switch on the way.
    Tcp(Family, u64),
    /// A TCP stream without options.
    Stream(Family),
    /// A TCP stream whose bytes cross a shared medium twice.
    Relay(Family),
    /// A file of this many bytes once over the medium, by TCP without options.
    File(Family, u64),
    /// RDMA over a reliable connection in full packets.
    Rdma,
    /// One RDMA Write without data, over a cable.
    Write,
    /// A host bus of this many bit/s.
    Bus(f64),
    /// A round trip through fibre over a path of this many metres.
    Fibre(f64),
}

/// A load, the link under it as the program writes links, and what was assumed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Basis {
    /// What bounds the figure.
    pub load: Load,
    /// The link; empty where the load has none.
    pub link: &'static str,
    /// What the paper leaves open; empty where nothing.
    pub assumed: &'static str,
}

/// What lies under `cell` of `paper`; `None` where the wire says nothing about it.
pub(crate) fn basis(paper: &str, cell: &Cell) -> Option<Basis> {
    match (paper, cell.column.is_empty()) {
        ("P1", false) => p1(cell),
        ("P5", false) => p5(cell),
        _ => TEXT
            .iter()
            .find(|(p, place, row, _)| (*p, *place, *row) == (paper, &*cell.place, &*cell.row))
            .map(|&(.., basis)| basis),
    }
}

const STAMPS: &str = "time stamps of 12 bytes in each segment, and that no writes are merged";

fn p1(cell: &Cell) -> Option<Basis> {
    let payload = cell.row.parse().ok()?;
    let (technology, family) = cell.column.rsplit_once(' ')?;
    let family = family_of(family)?;
    let is_tcp = matches!(cell.place.as_str(), "table VI" | "table VII");
    let load = if is_tcp { Load::Tcp(family, payload) } else { Load::Udp(family, payload) };
    let (link, assumed) = match technology {
        "10GbE" if is_tcp => (
            "ethernet:10G,mtu=1500",
            "the default MTU of Ethernet, time stamps of 12 bytes in each segment, and that no writes are merged",
        ),
        "10GbE" => ("ethernet:10G,mtu=1500", "the default MTU of Ethernet"),
        "IPoIB connected" => {
            ("ipoib:4X-FDR,mode=connected,ib-mtu=2048,mtu=2044", "the default MTU of RFC 4755")
        }
        _ => ("ipoib:4X-FDR,ib-mtu=2048", if is_tcp { STAMPS } else { "" }),
    };
    Some(Basis { load, link, assumed })
}

const SHARED: &str = "the hub is one half-duplex medium with an MTU of 1500 bytes";
const FAST_ETHERNET: &str = "ethernet:100M,mtu=1500";

fn p5(cell: &Cell) -> Option<Basis> {
    let family = cell.column.rsplit_once(' ').and_then(|(_, word)| family_of(word)).unwrap_or(V4);
    let file_bytes = if cell.place == "table 3" { 240_118 } else { 7990 };
    let load =
        if cell.unit == "us" { Load::File(family, file_bytes) } else { Load::Stream(family) };
    Some(Basis { load, link: FAST_ETHERNET, assumed: SHARED })
}

fn family_of(word: &str) -> Option<Family> {
    match word {
        "IPv4" => Some(V4),
        "IPv6" => Some(V6),
        _ => None,
    }
}

const fn stream(family: Family, link: &'static str, assumed: &'static str) -> Basis {
    Basis { load: Load::Stream(family), link, assumed }
}

const DDR: &str = "ib:4X-DDR,mtu=2048";
const IPOIB: Basis = stream(V4, "ipoib:4X-DDR,ib-mtu=2048", "datagram mode over IPv4");
const JUMBO: Basis = stream(V4, "ethernet:10G,mtu=9000", "jumbo frames of 9000 bytes over IPv4");
const VERBS: Basis = Basis { load: Load::Rdma, link: DDR, assumed: "" };
const BUS: Basis = Basis { load: Load::Bus(16e9), link: "", assumed: "" };
const LONG: Basis = stream(V6, "ethernet:10G,mtu=9198", "an MTU of 9198 bytes");
const LONG_V4: Basis = stream(V4, "ethernet:10G,mtu=9198", "an MTU of 9198 bytes");

const fn fibre(metres: f64) -> Basis {
    Basis { load: Load::Fibre(metres), link: "", assumed: "the distance is one way round the loop" }
}

const fn shared(load: Load) -> Basis {
    Basis { load, link: FAST_ETHERNET, assumed: SHARED }
}

/// Figures stated in text: paper, place, row.
const TEXT: [(&str, &str, &str, Basis); 27] = [
    (
        "P2",
        "section V.A",
        "latency of RDMA Write: least",
        Basis { load: Load::Write, link: DDR, assumed: "no data and no switch" },
    ),
    ("P2", "section V.A", "verbs: bandwidth: most", VERBS),
    ("P2", "section V.A", "SDP: bandwidth: most", VERBS),
    ("P2", "section V.A", "10GigE: bandwidth: most", JUMBO),
    ("P2", "section V.A", "IPoIB: bandwidth of one stream: most", IPOIB),
    ("P2", "section V.A", "IPoIB: bandwidth of one stream: average of large messages", IPOIB),
    ("P2", "section V.A", "10GigE, several streams: bandwidth: most", JUMBO),
    ("P2", "section V.A", "IPoIB, several streams: bandwidth: most", IPOIB),
    ("P2", "section V.B", "10GigE and IPoIB: aggregate bandwidth: most", BUS),
    ("P3", "slide IPv6 Performance on Pseudo Network", "rate without delay: more than", LONG),
    (
        "P3",
        "slide IPv6 Performance on Pseudo Network",
        "rate at the highest delay: almost more than",
        LONG,
    ),
    ("P3", "slide IPv4 Performance on Pseudo LFN", "rate without delay: more than", LONG_V4),
    ("P3", "slide IPv4 Performance on Pseudo LFN", "rate at the highest delay: more than", LONG_V4),
    ("P3", "slide Tokyo - Seattle - Tokyo", "RTT", fibre(15_461e3)),
    ("P3", "slide Tokyo - Seattle - Tokyo", "rate", LONG),
    ("P3", "slide Tokyo - Chicago - Tokyo", "RTT", fibre(20_294e3)),
    ("P3", "slide Tokyo - Chicago - Tokyo", "rate", LONG),
    ("P3", "slide Tokyo - Seattle - Tokyo - Chicago - Tokyo", "RTT", fibre(35_755e3)),
    ("P3", "slide Tokyo - Seattle - Tokyo - Chicago - Tokyo", "rate", LONG),
    ("P5", "caption of table 1", "sending time over IPv4", shared(Load::File(V4, 7990))),
    ("P5", "caption of table 1", "sending throughput over IPv4", shared(Load::Stream(V4))),
    ("P5", "caption of table 2", "sending time over IPv6", shared(Load::File(V6, 7990))),
    ("P5", "caption of table 2", "sending throughput over IPv6", shared(Load::Stream(V6))),
    ("P5", "section IV", "switching speed over IPv4: most", shared(Load::Stream(V4))),
    ("P5", "section IV", "switching speed over IPv6: most", shared(Load::Stream(V6))),
    ("P5", "section V", "overall throughput: from", shared(Load::Relay(V4))),
    ("P5", "section V", "overall throughput: to", shared(Load::Relay(V4))),
];
