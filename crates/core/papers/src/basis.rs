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
    /// The host bus of P2: eight lanes of PCIe 1.1.
    Bus,
    /// A round trip through fibre over the distance that stands in the same place.
    Fibre,
}

/// A load, the link under it as the program writes links, and what was assumed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Basis {
    /// What bounds the figure.
    pub load: Load,
    /// The link; empty where the load has none.
    pub link: &'static str,
    /// What the paper leaves open; empty where nothing.
    pub assumed: [&'static str; 2],
}

/// What lies under `cell` of `paper`; `None` where the wire says nothing about it.
pub(crate) fn basis(paper: &str, cell: &Cell) -> Option<Basis> {
    match paper {
        "P1" => p1(cell),
        "P2" => p2(cell),
        "P3" => p3(cell),
        "P5" => p5(cell),
        _ => None,
    }
}

const ETHERNET_MTU: &str = "the default MTU of Ethernet";
const SEGMENTS: &str = "time stamps of 12 bytes in each segment, and that no writes are merged";

fn p1(cell: &Cell) -> Option<Basis> {
    let payload = cell.row.parse().ok()?;
    let (technology, family) = cell.column.rsplit_once(' ')?;
    let family = family_of(family)?;
    let is_tcp = matches!(cell.place.as_str(), "table VI" | "table VII");
    let load = if is_tcp { Load::Tcp(family, payload) } else { Load::Udp(family, payload) };
    let (link, mtu) = match technology {
        "10GbE" => ("ethernet:10G,mtu=1500", ETHERNET_MTU),
        "IPoIB connected" => {
            ("ipoib:4X-FDR,mode=connected,ib-mtu=2048,mtu=2044", "the default MTU of RFC 4755")
        }
        _ => ("ipoib:4X-FDR,ib-mtu=2048", ""),
    };
    let assumed = [mtu, if is_tcp { SEGMENTS } else { "" }];
    Some(Basis { load, link, assumed })
}

fn p2(cell: &Cell) -> Option<Basis> {
    let verbs = "ib:4X-DDR,mtu=2048";
    let (load, link, assumed) = match (cell.place.as_str(), cell.row.as_str()) {
        ("section V.A", "latency of RDMA Write: least") => {
            (Load::Write, verbs, "no data and no switch")
        }
        ("section V.A", "verbs: bandwidth: most" | "SDP: bandwidth: most") => {
            (Load::Rdma, verbs, "")
        }
        ("section V.A", "10GigE: bandwidth: most" | "10GigE, several streams: bandwidth: most") => {
            (Load::Stream(V4), "ethernet:10G,mtu=9000", "jumbo frames of 9000 bytes over IPv4")
        }
        (
            "section V.A",
            "IPoIB: bandwidth of one stream: most"
            | "IPoIB: bandwidth of one stream: average of large messages"
            | "IPoIB, several streams: bandwidth: most",
        ) => (Load::Stream(V4), "ipoib:4X-DDR,ib-mtu=2048", "datagram mode over IPv4"),
        ("section V.B", "10GigE and IPoIB: aggregate bandwidth: most") => (Load::Bus, "", ""),
        _ => return None,
    };
    Some(Basis { load, link, assumed: [assumed, ""] })
}

fn p3(cell: &Cell) -> Option<Basis> {
    let is_loop = cell.place.starts_with("slide Tokyo");
    if is_loop && cell.row == "RTT" {
        let assumed = ["the distance is one way round the loop", ""];
        return Some(Basis { load: Load::Fibre, link: "", assumed });
    }
    let is_rate = is_loop && cell.row == "rate"
        || cell.row.starts_with("rate without delay")
        || cell.row.starts_with("rate at the highest delay");
    let family = if cell.place.contains("IPv4") { V4 } else { V6 };
    is_rate.then_some(Basis {
        load: Load::Stream(family),
        link: "ethernet:10G,mtu=9198",
        assumed: ["the jumbo frame of 9198 bytes is an MTU", ""],
    })
}

fn p5(cell: &Cell) -> Option<Basis> {
    let family = [&cell.column, &cell.row]
        .iter()
        .find_map(|name| name.rsplit_once(' ').and_then(|(_, word)| family_of(word)));
    let is_time = cell.unit == "us";
    let load = match (cell.place.as_str(), cell.row.as_str()) {
        ("table 1" | "table 2" | "caption of table 1" | "caption of table 2", _) if is_time => {
            Load::File(family?, 7990)
        }
        ("table 1" | "table 2" | "caption of table 1" | "caption of table 2", _) => {
            Load::Stream(family?)
        }
        ("table 3", _) if is_time => Load::File(V4, 240_118),
        ("table 3", _) => Load::Stream(V4),
        ("section IV", "switching speed over IPv4: most") => Load::Stream(V4),
        ("section IV", "switching speed over IPv6: most") => Load::Stream(V6),
        ("section V", "overall throughput: from" | "overall throughput: to") => Load::Relay(V4),
        _ => return None,
    };
    let assumed = ["the hub is one half-duplex medium with an MTU of 1500 bytes", ""];
    Some(Basis { load, link: "ethernet:100M,mtu=1500", assumed })
}

fn family_of(word: &str) -> Option<Family> {
    match word {
        "IPv4" => Some(V4),
        "IPv6" => Some(V6),
        _ => None,
    }
}
