//! What claims are judged on: the tables of a paper, or the means of an experiment.

use std::collections::BTreeMap;

use fabricmark_plan::{Figure, Point, Transport};
use fabricmark_wire::{Exact, Family, Link};

use super::limit::{Limit, limit};
use super::tally::Scale;
use super::value::Value;
use crate::table::{TABLES, Table, Technology};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Application payload in Mbit/s (10^6).
    GoodputMbps,
    /// Half a round trip in microseconds.
    LatencyUs,
}

impl Quantity {
    /// How near two figures count as the same: 2 % of a throughput and 3 % of a latency, as reports
    /// have it.
    pub fn scale(self) -> Scale {
        match self {
            Self::GoodputMbps => Scale { tie: fabricmark_stats::THROUGHPUT_TIE, unit: "Mb/s" },
            Self::LatencyUs => Scale { tie: fabricmark_stats::LATENCY_TIE, unit: "µs" },
        }
    }

    /// The figure of a run that it is.
    pub fn figure(self) -> Figure {
        match self {
            Self::GoodputMbps => Figure::Goodput,
            Self::LatencyUs => Figure::HalfRtt,
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::GoodputMbps => "goodput",
            Self::LatencyUs => "latency",
        }
    }
}

/// What moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Datagrams.
    Udp,
    /// A TCP connection.
    Tcp,
    /// A benchmark of Intel's MPI suite, by its name.
    Mpi(&'static str),
}

/// The loads of P1's tables.
pub const LOADS: [Load; 2] = [Load::Udp, Load::Tcp];

impl Load {
    /// What `transport` is in the tables; nothing where they have none of it.
    pub fn of(transport: Transport) -> Option<Self> {
        match transport {
            Transport::Udp => Some(Self::Udp),
            Transport::Tcp => Some(Self::Tcp),
            _ => None,
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Mpi(name) => name,
        }
    }
}

/// Which of several sets of columns a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The comparison of technologies: P1's tables IV to VII, and everything that is measured.
    Technologies,
    /// The comparison of IPoIB's modes: P1's tables II and III.
    Modes,
}

/// Figures by payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What its cells are.
    pub quantity: Quantity,
    /// What moved the data.
    pub load: Load,
    /// Which comparison it belongs to.
    pub set: Set,
    /// Name of the network, such as `10GbE`, or `ethernet:1G (emulated)`.
    pub network: String,
    /// The network as a link is written: `ethernet:10G`.
    pub link: String,
    /// IP version.
    pub family: Family,
    /// Cells by payload in bytes.
    pub cells: BTreeMap<u64, Value>,
    /// A point of a measured column, for what else was varied; nothing where it was printed.
    pub point: Option<Box<Point>>,
    /// What the wire allows at each payload, in the unit of the cells; none without a wire.
    pub limits: BTreeMap<u64, Limit>,
}

impl Column {
    /// `UDP 10GbE IPv4`.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.load.word(), self.network, self.family)
    }

    /// The payloads that both columns have, with the cells of both.
    pub fn with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u64, Value, Value)> + 'a {
        self.cells
            .iter()
            .filter_map(|(&payload, &cell)| Some((payload, cell, *other.cells.get(&payload)?)))
    }

    /// Whether it is Ethernet.
    pub fn is_ethernet(&self) -> bool {
        self.link.starts_with("ethernet:")
    }

    /// Whether it is IP over InfiniBand in connected mode.
    pub fn is_connected(&self) -> bool {
        self.link.starts_with("ipoib:") && self.link.contains("mode=connected")
    }

    /// Whether it is IP over InfiniBand in datagram mode.
    pub fn is_datagram(&self) -> bool {
        self.link.starts_with("ipoib:") && !self.is_connected()
    }

    /// The rate of its link in bit/s, line coding left out; 0 where there is no wire.
    pub fn rate_bps(&self) -> f64 {
        let link: Option<Link> = self.link.parse().ok();
        link.and_then(Link::rate_bps).map_or(0.0, Exact::as_f64)
    }

    /// Its link without its settings: `ipoib:4X-SDR`.
    pub fn base_link(&self) -> &str {
        self.link.split(',').next().unwrap_or_default()
    }

    /// Whether it is RDMA over Ethernet.
    pub fn is_roce(&self) -> bool {
        self.link.starts_with("roce")
    }
}

/// Where figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Printed in the papers.
    Published,
    /// Means of the runs of an experiment; the names of its networks say which are emulated.
    Measured,
}

/// The figures that claims are judged on, from one origin: published and measured ones never mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Where they come from.
    pub origin: Origin,
    /// The columns.
    pub columns: Vec<Column>,
}

impl Figures {
    /// What the papers print.
    pub fn published() -> Self {
        let mut columns = Vec::new();
        for table in &TABLES {
            let &Table { quantity, load, set, .. } = table;
            for technology in Technology::ALL.into_iter().filter(|&t| table.has(t)) {
                for family in [Family::V4, Family::V6] {
                    let column = || table.column(technology, family);
                    let of = |p| Some((p, limit(quantity, load, technology.link, family, p)?));
                    columns.push(Column {
                        quantity,
                        load,
                        set,
                        network: technology.name.to_owned(),
                        link: technology.link.to_owned(),
                        family,
                        cells: column().map(|(p, value)| (p, Value::exact(value))).collect(),
                        point: None,
                        limits: column().filter_map(|(p, _)| of(p)).collect(),
                    });
                }
            }
        }
        Self { origin: Origin::Published, columns }
    }

    /// How two figures of a quantity are compared: printed ones as they are.
    pub fn scale(&self, quantity: Quantity) -> Scale {
        let scale = quantity.scale();
        match self.origin {
            Origin::Published => Scale { tie: 0.0, ..scale },
            Origin::Measured => scale,
        }
    }

    /// Columns of the comparison of technologies.
    pub fn columns(&self, quantity: Quantity, load: Load) -> impl Iterator<Item = &Column> {
        self.of(Set::Technologies, quantity, load)
    }

    fn of(&self, set: Set, quantity: Quantity, load: Load) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(move |c| c.set == set && c.quantity == quantity && c.load == load)
    }

    /// The columns of IPv4 and IPv6 over the same network.
    pub fn families(&self, quantity: Quantity, load: Load) -> Vec<(&Column, &Column)> {
        pairs(&self.columns(quantity, load).collect::<Vec<_>>(), by_family)
    }

    /// The same of the tables that compare IPoIB's modes.
    pub fn families_of_modes(&self, quantity: Quantity) -> Vec<(&Column, &Column)> {
        pairs(&self.of(Set::Modes, quantity, Load::Udp).collect::<Vec<_>>(), by_family)
    }

    /// The columns of Ethernet and of a faster IPoIB in datagram mode with the same IP version, of UDP
    /// and then of TCP. Of several speeds of IPoIB the fastest has the place of P1's FDR.
    pub fn technologies(&self, quantity: Quantity) -> Vec<(&Column, &Column)> {
        let of_load = |load| {
            let columns: Vec<&Column> = self.columns(quantity, load).collect();
            let datagrams = columns.iter().filter(|column| column.is_datagram());
            let fastest_bps = datagrams.map(|column| column.rate_bps()).fold(0.0, f64::max);
            pairs(&columns, |a, b| {
                a.is_ethernet()
                    && b.is_datagram()
                    && a.family == b.family
                    && b.rate_bps() == fastest_bps
                    && fastest_bps > a.rate_bps()
            })
        };
        LOADS.into_iter().flat_map(of_load).collect()
    }

    /// The columns of TCP and UDP over the same network with the same IP version.
    pub fn transports(&self, quantity: Quantity) -> Vec<(&Column, &Column)> {
        let all: Vec<&Column> = self.columns.iter().filter(|c| c.quantity == quantity).collect();
        pairs(&all, |a, b| {
            a.load == Load::Tcp
                && b.load == Load::Udp
                && (a.set, &a.network, a.family) == (b.set, &b.network, b.family)
        })
    }

    /// The columns of IPoIB's datagram and connected mode that differ in nothing else.
    pub fn modes(&self, quantity: Quantity) -> Vec<(&Column, &Column)> {
        let set = match self.origin {
            Origin::Published => Set::Modes,
            Origin::Measured => Set::Technologies,
        };
        pairs(&self.of(set, quantity, Load::Udp).collect::<Vec<_>>(), |a, b| {
            a.is_datagram()
                && b.is_connected()
                && (a.base_link(), a.family) == (b.base_link(), b.family)
        })
    }

    /// The columns of RDMA over Ethernet and of plain Ethernet under a benchmark of MPI.
    pub fn rdma(&self, quantity: Quantity, benchmark: &'static str) -> Vec<(&Column, &Column)> {
        let columns: Vec<&Column> = self.columns(quantity, Load::Mpi(benchmark)).collect();
        pairs(&columns, |a, b| a.is_roce() && b.is_ethernet())
    }
}

fn by_family(a: &Column, b: &Column) -> bool {
    (a.family, b.family) == (Family::V4, Family::V6) && a.network == b.network
}

fn pairs<'a>(
    columns: &[&'a Column],
    is_pair: impl Fn(&Column, &Column) -> bool,
) -> Vec<(&'a Column, &'a Column)> {
    let all = columns.iter().flat_map(|&a| columns.iter().map(move |&b| (a, b)));
    all.filter(|&(a, b)| is_pair(a, b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_are_24_columns_of_14_payloads() {
        let figures = Figures::published();
        assert_eq!(figures.columns.len(), 24);
        assert!(figures.columns.iter().all(|column| column.cells.len() == 14));
        let names: Vec<String> =
            figures.columns(Quantity::LatencyUs, Load::Tcp).map(Column::name).collect();
        let expected =
            ["TCP 10GbE IPv4", "TCP 10GbE IPv6", "TCP IPoIB/FDR IPv4", "TCP IPoIB/FDR IPv6"];
        assert_eq!(names, expected);
    }

    #[test]
    fn columns_are_paired_by_what_a_claim_compares() {
        let figures = Figures::published();
        let goodput = Quantity::GoodputMbps;
        let names = |pairs: Vec<(&Column, &Column)>| -> Vec<(String, String)> {
            pairs.into_iter().map(|(a, b)| (a.name(), b.name())).collect()
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            names(figures.families(goodput, Load::Udp)),
            [
                pair("UDP 10GbE IPv4", "UDP 10GbE IPv6"),
                pair("UDP IPoIB/FDR IPv4", "UDP IPoIB/FDR IPv6")
            ]
        );
        assert_eq!(
            names(figures.technologies(goodput)),
            [
                pair("UDP 10GbE IPv4", "UDP IPoIB/FDR IPv4"),
                pair("UDP 10GbE IPv6", "UDP IPoIB/FDR IPv6"),
                pair("TCP 10GbE IPv4", "TCP IPoIB/FDR IPv4"),
                pair("TCP 10GbE IPv6", "TCP IPoIB/FDR IPv6")
            ]
        );
        assert_eq!(
            names(figures.modes(goodput)),
            [
                pair("UDP IPoIB datagram IPv4", "UDP IPoIB connected IPv4"),
                pair("UDP IPoIB datagram IPv6", "UDP IPoIB connected IPv6")
            ]
        );
        assert_eq!(figures.transports(goodput).len(), 4);
        assert!(figures.rdma(goodput, "PingPong").is_empty());
    }
}
