//! The figures that claims are evaluated on: tables of a paper, or means of an experiment.

use std::collections::BTreeMap;

use fabricmark_plan::{Figure, Point, Transport};
use fabricmark_units::Bytes;
use fabricmark_wire::{Exact, Family, Link};

use super::limit::{Limit, limit};
use super::tally::Scale;
use super::value::Value;
use crate::table::{TABLES, Table, Technology};

/// Quantity of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Goodput in Mbit/s (10^6).
    GoodputMbps,
    /// RTT/2 in microseconds.
    LatencyUs,
    /// P5's switching speed of a relay in Mbit/s.
    SwitchingMbps,
    /// Web interactions of the bookstore per second.
    InteractionsPerS,
}

impl Quantity {
    /// Tie band and unit: 2 % for goodput and 3 % for latency, as in reports.
    pub fn scale(self) -> Scale {
        match self {
            Self::GoodputMbps | Self::SwitchingMbps => {
                Scale { tie: fabricmark_stats::THROUGHPUT_TIE, unit: "Mb/s" }
            }
            Self::LatencyUs => Scale { tie: fabricmark_stats::LATENCY_TIE, unit: "µs" },
            Self::InteractionsPerS => Scale { tie: fabricmark_stats::THROUGHPUT_TIE, unit: "/s" },
        }
    }

    /// Name for display.
    pub fn word(self) -> &'static str {
        match self {
            Self::GoodputMbps => "goodput",
            Self::LatencyUs => "latency",
            Self::SwitchingMbps => "switching speed",
            Self::InteractionsPerS => "web interactions",
        }
    }
}

/// Transport or benchmark of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// UDP datagrams.
    Udp,
    /// A TCP connection.
    Tcp,
    /// A benchmark of the Intel MPI Benchmarks, by its name.
    Mpi(&'static str),
    /// The browsers of the bookstore.
    Shop,
}

/// The loads of P1's tables.
pub const LOADS: [Load; 2] = [Load::Udp, Load::Tcp];

impl Load {
    /// The load of `transport`; `None` if the tables do not have it.
    pub fn of(transport: Transport) -> Option<Self> {
        match transport {
            Transport::Udp => Some(Self::Udp),
            Transport::Tcp => Some(Self::Tcp),
            Transport::Http => Some(Self::Shop),
            _ => None,
        }
    }

    /// The figure of a run that is this quantity.
    pub fn figure(self, quantity: Quantity) -> Figure {
        match (quantity, self) {
            (Quantity::GoodputMbps, _) => Figure::Goodput,
            (Quantity::LatencyUs, Self::Mpi(_)) => Figure::OperationTime,
            (Quantity::LatencyUs, Self::Udp | Self::Tcp) => Figure::HalfRtt,
            (Quantity::LatencyUs, Self::Shop) => Figure::ResponseTime,
            (Quantity::SwitchingMbps, _) => Figure::SwitchingSpeed,
            (Quantity::InteractionsPerS, _) => Figure::InteractionRate,
        }
    }

    /// Name for display.
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Mpi(name) => name,
            Self::Shop => "bookstore",
        }
    }
}

/// Comparison that a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Comparison of technologies: P1's tables IV to VII, and everything measured.
    Technologies,
    /// Comparison of IPoIB's modes: P1's tables II and III.
    Modes,
}

/// Figures by payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Quantity of the cells.
    pub quantity: Quantity,
    /// Transport or benchmark.
    pub load: Load,
    /// Comparison that the column belongs to.
    pub set: Set,
    /// Name of the network, such as `10GbE`, or `ethernet:1G (emulated)`.
    pub network: String,
    /// The network in the link grammar: `ethernet:10G`.
    pub link: String,
    /// IP version.
    pub family: Family,
    /// Cells by payload in bytes; of a relay by the size of its buffer.
    pub cells: BTreeMap<u64, Value>,
    /// A point of a measured column, which has the levels of all other factors; `None` for a printed column.
    pub point: Option<Box<Point>>,
    /// Limits by payload, in the unit of the cells; empty without a wire.
    pub limits: BTreeMap<u64, Limit>,
}

impl Column {
    /// `UDP 10GbE IPv4`.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.load.word(), self.network, self.family)
    }

    /// The payloads that both columns have, with both cells.
    pub fn with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u64, Value, Value)> + 'a {
        self.cells
            .iter()
            .filter_map(|(&payload, &cell)| Some((payload, cell, *other.cells.get(&payload)?)))
    }

    /// Whether the link is Ethernet.
    pub fn is_ethernet(&self) -> bool {
        self.link.starts_with("ethernet:")
    }

    /// Whether the link is IPoIB in connected mode.
    pub fn is_connected(&self) -> bool {
        self.link.starts_with("ipoib:") && self.link.contains("mode=connected")
    }

    /// Whether the link is IPoIB in datagram mode.
    pub fn is_datagram(&self) -> bool {
        self.link.starts_with("ipoib:") && !self.is_connected()
    }

    /// Data rate of the link in bit/s after line coding; 0 if there is no wire.
    pub fn rate_bps(&self) -> f64 {
        let link: Option<Link> = self.link.parse().ok();
        link.and_then(Link::rate_bps).map_or(0.0, Exact::as_f64)
    }

    /// The link without settings: `ipoib:4X-SDR`.
    pub fn base_link(&self) -> &str {
        self.link.split(',').next().unwrap_or_default()
    }

    /// Whether the link is RoCE.
    pub fn is_roce(&self) -> bool {
        self.link.starts_with("roce")
    }
}

/// Origin of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Printed in the papers.
    Published,
    /// Means of the runs of an experiment; the networks' names say which are emulated.
    Measured,
}

/// A set of figures from one origin; published and measured figures are never mixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Published or measured.
    pub origin: Origin,
    /// All columns.
    pub columns: Vec<Column>,
}

impl Figures {
    /// The figures that the papers print.
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

    /// Tie band and unit for a quantity; printed figures are compared exactly.
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

    /// Pairs of IPv4 and IPv6 columns of the same network.
    pub fn families(&self, quantity: Quantity, load: Load) -> Vec<(&Column, &Column)> {
        pairs(&self.columns(quantity, load).collect::<Vec<_>>(), by_family)
    }

    /// [`families`](Self::families) of the tables that compare IPoIB's modes.
    pub fn families_of_modes(&self, quantity: Quantity) -> Vec<(&Column, &Column)> {
        pairs(&self.of(Set::Modes, quantity, Load::Udp).collect::<Vec<_>>(), by_family)
    }

    /// Pairs of Ethernet and a faster IPoIB in datagram mode with the same IP version, for UDP and then TCP. Among
    /// several speeds of IPoIB, the fastest takes the place of P1's FDR.
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

    /// Pairs of TCP and UDP columns of the same network and IP version.
    pub fn transports(&self, quantity: Quantity) -> Vec<(&Column, &Column)> {
        let all: Vec<&Column> = self.columns.iter().filter(|c| c.quantity == quantity).collect();
        pairs(&all, |a, b| {
            a.load == Load::Tcp
                && b.load == Load::Udp
                && (a.set, &a.network, a.family) == (b.set, &b.network, b.family)
        })
    }

    /// Pairs of IPoIB's datagram and connected mode with the same width, speed and IP version.
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

    /// Pairs of RoCE and plain Ethernet under an MPI benchmark.
    pub fn rdma(&self, quantity: Quantity, benchmark: &'static str) -> Vec<(&Column, &Column)> {
        let columns: Vec<&Column> = self.columns(quantity, Load::Mpi(benchmark)).collect();
        // All else equal; the payload is that of the row, and the datatype follows from it.
        let others = |column: &Column| {
            let point = column.point.as_deref().cloned();
            point.map(|point| Point {
                mpi_transport: None,
                payload: Bytes(0),
                datatype: None,
                ..point
            })
        };
        pairs(&columns, |a, b| a.is_roce() && b.is_ethernet() && others(a) == others(b))
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
