//! P1's tables by payload, as plans and reports name them.

use fabricmark_units::BitRate;
use fabricmark_wire::{Family, Ipoib, IpoibMode, Lanes, Link, Speed};

use crate::cell::{cells, value};

/// What the cells of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Figure {
    /// Application payload in Mbit/s (10^6), as netperf reports it.
    GoodputMbps,
    /// Half a round trip in microseconds.
    LatencyUs,
}

/// The network under the IP layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Technology {
    /// 10-gigabit Ethernet in its default configuration; the paper states no MTU.
    TenGigabitEthernet,
    /// IP over InfiniBand, 4X FDR, datagram mode, beside Ethernet (tables IV to VII).
    IpoibFdr,
    /// The same beside connected mode (tables II and III).
    IpoibDatagram,
    /// IP over InfiniBand, 4X FDR, connected mode (tables II and III).
    IpoibConnected,
}

impl Technology {
    /// All of them, in the order of columns.
    pub const ALL: [Self; 4] =
        [Self::TenGigabitEthernet, Self::IpoibFdr, Self::IpoibDatagram, Self::IpoibConnected];

    /// The name in the heads of columns.
    fn name(self) -> &'static str {
        match self {
            Self::TenGigabitEthernet => "10GbE",
            Self::IpoibFdr => "IPoIB/FDR",
            Self::IpoibDatagram => "IPoIB datagram",
            Self::IpoibConnected => "IPoIB connected",
        }
    }

    /// Whether `link` has the rate and the mode of this technology; its MTU is another matter.
    pub fn is_of(self, link: Link) -> bool {
        let is_fdr = |wanted: IpoibMode| {
            matches!(link, Link::Ipoib(Ipoib { lanes, speed: Speed::Fdr, mode, .. })
                if mode == wanted && Some(lanes) == Lanes::new(4))
        };
        match self {
            Self::TenGigabitEthernet => {
                matches!(link, Link::Ethernet { rate: BitRate(10_000_000_000), .. })
            }
            Self::IpoibFdr | Self::IpoibDatagram => is_fdr(IpoibMode::Datagram),
            Self::IpoibConnected => is_fdr(IpoibMode::Connected),
        }
    }
}

/// One table of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Short name of the paper, such as `P1`.
    pub paper: &'static str,
    /// Number of the table in the paper, such as `IV`.
    pub name: &'static str,
    /// What its cells are.
    pub figure: Figure,
    /// Transport of all its cells: `udp` or `tcp`.
    pub transport: &'static str,
}

static TABLES: [Table; 6] = [
    Table { paper: "P1", name: "II", figure: Figure::GoodputMbps, transport: "udp" },
    Table { paper: "P1", name: "III", figure: Figure::LatencyUs, transport: "udp" },
    Table { paper: "P1", name: "IV", figure: Figure::GoodputMbps, transport: "udp" },
    Table { paper: "P1", name: "V", figure: Figure::LatencyUs, transport: "udp" },
    Table { paper: "P1", name: "VI", figure: Figure::GoodputMbps, transport: "tcp" },
    Table { paper: "P1", name: "VII", figure: Figure::LatencyUs, transport: "tcp" },
];

impl Table {
    /// How cells name it.
    fn place(&self) -> String {
        format!("table {}", self.name)
    }

    /// The payloads of the rows in bytes, smallest first.
    pub fn payloads(&self) -> impl Iterator<Item = u64> {
        let place = self.place();
        let mut payloads: Vec<u64> = cells(self.paper)
            .iter()
            .filter(|cell| cell.place == place)
            .filter_map(|cell| cell.row.parse().ok())
            .collect();
        payloads.dedup();
        payloads.into_iter()
    }

    /// Whether there are columns of `technology`.
    pub fn has(&self, technology: Technology) -> bool {
        let column = format!("{} {}", technology.name(), column_family(Family::V4));
        let place = self.place();
        cells(self.paper).iter().any(|cell| cell.place == place && cell.column == column)
    }

    /// The cell for `payload` bytes, in the unit of [`figure`](Self::figure); `None` where the paper
    /// has no such row or column.
    pub fn value(&self, technology: Technology, family: Family, payload: u64) -> Option<f64> {
        let column = format!("{} {}", technology.name(), column_family(family));
        value(self.paper, &self.place(), &payload.to_string(), &column)
    }
}

fn column_family(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// The table called `name`, such as `P1 IV`.
pub fn published(name: &str) -> Option<&'static Table> {
    let (paper, table) = name.split_once(' ')?;
    TABLES.iter().find(|t| t.paper == paper && t.name == table)
}

/// The names under which [`published`] knows its tables, in the papers' order.
pub fn names() -> impl Iterator<Item = String> {
    TABLES.iter().map(|t| format!("{} {}", t.paper, t.name))
}

#[cfg(test)]
mod tests {
    use fabricmark_wire::Stack;

    use super::*;
    use Technology::{IpoibConnected, IpoibDatagram, IpoibFdr, TenGigabitEthernet};

    #[test]
    fn every_column_has_the_sum_of_the_printed_one() {
        for (name, sums) in [
            ("P1 II", [35_285.78, 39_835.85, 22_633.94, 24_794.11]),
            ("P1 III", [241.83, 170.49, 250.69, 191.23]),
            ("P1 IV", [36_594.07, 49_339.33, 35_275.78, 39_835.85]),
            ("P1 V", [642.20, 541.73, 241.83, 170.49]),
            ("P1 VI", [36_477.33, 46_539.31, 35_056.47, 39_770.21]),
            ("P1 VII", [666.20, 616.91, 338.98, 295.82]),
        ] {
            let table = published(name).unwrap();
            let technologies = Technology::ALL.into_iter().filter(|&t| table.has(t));
            let columns: Vec<(Technology, Family)> =
                technologies.flat_map(|t| [(t, Family::V6), (t, Family::V4)]).collect();
            assert_eq!(columns.len(), sums.len(), "{name}");
            for ((technology, family), expected) in columns.into_iter().zip(sums) {
                let sum: f64 = table
                    .payloads()
                    .filter_map(|payload| table.value(technology, family, payload))
                    .sum();
                let case = format!("{name} {technology:?} {family}");
                assert!((sum - expected).abs() < 1e-6, "{case}: {sum} {expected}");
            }
        }
    }

    #[test]
    fn cells_are_those_of_the_paper() {
        for (name, technology, family, payload, expected) in [
            ("P1 II", IpoibDatagram, Family::V6, 32, 119.04),
            ("P1 II", IpoibConnected, Family::V4, 1024, 1152.42),
            ("P1 III", IpoibConnected, Family::V6, 16_384, 34.92),
            ("P1 IV", TenGigabitEthernet, Family::V4, 4, 20.15),
            ("P1 IV", TenGigabitEthernet, Family::V6, 32_768, 6754.10),
            // Table II prints 119.04 for the same run.
            ("P1 IV", IpoibFdr, Family::V6, 32, 109.04),
            ("P1 IV", IpoibFdr, Family::V4, 32_768, 9721.07),
            ("P1 V", TenGigabitEthernet, Family::V4, 64, 26.70),
            ("P1 V", IpoibFdr, Family::V6, 2048, 15.01),
            ("P1 VI", TenGigabitEthernet, Family::V6, 1024, 3482.23),
            ("P1 VI", IpoibFdr, Family::V4, 16_384, 7917.27),
            ("P1 VII", TenGigabitEthernet, Family::V6, 8192, 61.23),
            ("P1 VII", IpoibFdr, Family::V4, 4, 14.32),
        ] {
            let value = published(name).unwrap().value(technology, family, payload);
            assert_eq!(value, Some(expected), "{name} {payload}");
        }
    }

    #[test]
    fn every_table_has_the_fourteen_powers_of_two_from_4_to_32768() {
        for name in names() {
            let table = published(&name).unwrap();
            let powers = (2..16).map(|power| 1 << power);
            assert!(table.payloads().eq(powers), "{name}");
        }
    }

    #[test]
    fn what_no_paper_has_is_none() {
        for name in ["", "P1", "P1 I", "P9 IV", "p1 iv"] {
            assert_eq!(published(name), None, "{name}");
        }
        let table = published("P1 V").unwrap();
        assert_eq!(table.value(IpoibFdr, Family::V4, 5), None);
        assert_eq!(table.value(IpoibConnected, Family::V4, 4), None);
        let names: Vec<String> = names().collect();
        assert_eq!(names, ["P1 II", "P1 III", "P1 IV", "P1 V", "P1 VI", "P1 VII"]);
    }

    #[test]
    fn a_technology_is_told_by_rate_and_mode_of_a_link() {
        for (link, expected) in [
            ("ethernet:10G,mtu=9000", [true, false, false, false]),
            ("ethernet:1G", [false; 4]),
            ("ipoib:4X-FDR", [false, true, true, false]),
            ("ipoib:4X-FDR,mode=connected,mtu=65520", [false, false, false, true]),
            ("ipoib:4X-SDR", [false; 4]),
            ("ipoib:1X-FDR", [false; 4]),
            ("veth", [false; 4]),
        ] {
            let found = Technology::ALL.map(|technology| technology.is_of(link.parse().unwrap()));
            assert_eq!(found, expected, "{link}");
        }
    }

    #[test]
    fn no_published_goodput_over_ethernet_exceeds_its_ceiling() {
        let link = "ethernet:10G".parse().unwrap();
        for name in ["P1 IV", "P1 VI"] {
            let table = published(name).unwrap();
            for family in [Family::V4, Family::V6] {
                for payload in table.payloads() {
                    let mbps = table.value(TenGigabitEthernet, family, payload).unwrap();
                    let stack = match table.transport {
                        "udp" => Stack::Udp { family },
                        _ => Stack::Tcp { family, option_bytes: 12 },
                    };
                    let ceiling = fabricmark_wire::goodput(link, stack, payload);
                    let bps = ceiling.unwrap().goodput_bps.as_f64();
                    assert!(mbps * 1e6 < bps, "{name} {family} {payload}");
                }
            }
        }
    }
}
