//! P1's tables by payload, with the names that plans, reports and claims use.

use fabricmark_wire::{Family, Ipoib, Link};

use crate::cell::cells;
use crate::claims::{Load, Quantity, Set};

/// A network below the IP layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Technology {
    /// Name in column headings.
    pub name: &'static str,
    /// The corresponding link.
    pub link: &'static str,
}

impl Technology {
    /// All technologies in column order. IPoIB over 4X FDR is in datagram mode beside Ethernet (tables IV to VII),
    /// and in both modes in tables II and III.
    ///
    /// The paper gives IB MTU 2048 (section IV), but no MTU for 10GbE, where 1500 is the default, and none for
    /// connected mode. There 65,520 is the maximum that Linux allows, so the ceiling is a bound whatever the MTU was.
    pub const ALL: [Self; 4] = [
        Self { name: "10GbE", link: "ethernet:10G" },
        Self { name: "IPoIB/FDR", link: "ipoib:4X-FDR" },
        Self { name: "IPoIB datagram", link: "ipoib:4X-FDR" },
        Self { name: "IPoIB connected", link: "ipoib:4X-FDR,mode=connected,mtu=65520" },
    ];

    /// Whether `link` has the rate and mode of this technology. The MTU is ignored.
    pub fn is_of(self, link: Link) -> bool {
        let key = |Ipoib { lanes, speed, mode, .. }| (lanes, speed, mode);
        match (self.link.parse(), link) {
            (Ok(Link::Ethernet { rate: own, .. }), Link::Ethernet { rate, .. }) => own == rate,
            (Ok(Link::Ipoib(own)), Link::Ipoib(ipoib)) => key(own) == key(ipoib),
            _ => false,
        }
    }
}

/// A table of P1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Number in the paper, such as `IV`.
    pub name: &'static str,
    /// Quantity in the cells.
    pub quantity: Quantity,
    /// Transport that carried the data.
    pub load: Load,
    /// Comparison that the table belongs to.
    pub set: Set,
}

const fn table(name: &'static str, quantity: Quantity, load: Load, set: Set) -> Table {
    Table { name, quantity, load, set }
}

pub(crate) static TABLES: [Table; 6] = [
    table("II", Quantity::GoodputMbps, Load::Udp, Set::Modes),
    table("III", Quantity::LatencyUs, Load::Udp, Set::Modes),
    table("IV", Quantity::GoodputMbps, Load::Udp, Set::Technologies),
    table("V", Quantity::LatencyUs, Load::Udp, Set::Technologies),
    table("VI", Quantity::GoodputMbps, Load::Tcp, Set::Technologies),
    table("VII", Quantity::LatencyUs, Load::Tcp, Set::Technologies),
];

impl Table {
    /// The figures of a column by payload in bytes, ascending; empty if there is no such column.
    pub fn column(
        &self,
        technology: Technology,
        family: Family,
    ) -> impl Iterator<Item = (u64, f64)> {
        let (place, column) =
            (format!("table {}", self.name), format!("{} {family}", technology.name));
        cells("P1")
            .iter()
            .filter(move |cell| cell.place == place && cell.column == column)
            .filter_map(|cell| Some((cell.row.parse().ok()?, cell.value)))
    }

    /// Whether the table has columns of `technology`.
    pub fn has(&self, technology: Technology) -> bool {
        self.column(technology, Family::V4).next().is_some()
    }

    /// The cell for `payload` bytes, in the unit of [`quantity`](Self::quantity); `None` if there is no such cell.
    pub fn value(&self, technology: Technology, family: Family, payload: u64) -> Option<f64> {
        let mut column = self.column(technology, family);
        column.find_map(|(row, value)| (row == payload).then_some(value))
    }
}

/// Looks up a table by name, such as `P1 IV`.
pub fn published(name: &str) -> Option<&'static Table> {
    let name = name.strip_prefix("P1 ")?;
    TABLES.iter().find(|table| table.name == name)
}

/// The names that [`published`] accepts, in the paper's order.
pub fn names() -> impl Iterator<Item = String> {
    TABLES.iter().map(|table| format!("P1 {}", table.name))
}

#[cfg(test)]
mod tests {
    use fabricmark_wire::Stack;

    use super::*;

    const ETHERNET: Technology = Technology::ALL[0];
    const FDR: Technology = Technology::ALL[1];
    const DATAGRAM: Technology = Technology::ALL[2];
    const CONNECTED: Technology = Technology::ALL[3];

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
                let sum: f64 = table.column(technology, family).map(|(_, value)| value).sum();
                let case = format!("{name} {technology:?} {family}");
                assert!((sum - expected).abs() < 1e-6, "{case}: {sum} {expected}");
            }
        }
    }

    #[test]
    fn cells_are_those_of_the_paper() {
        for (name, technology, family, payload, expected) in [
            ("P1 II", DATAGRAM, Family::V6, 32, 119.04),
            ("P1 II", CONNECTED, Family::V4, 1024, 1152.42),
            ("P1 III", CONNECTED, Family::V6, 16_384, 34.92),
            ("P1 IV", ETHERNET, Family::V4, 4, 20.15),
            ("P1 IV", ETHERNET, Family::V6, 32_768, 6754.10),
            // Table II prints 119.04 for the same run.
            ("P1 IV", FDR, Family::V6, 32, 109.04),
            ("P1 IV", FDR, Family::V4, 32_768, 9721.07),
            ("P1 V", ETHERNET, Family::V4, 64, 26.70),
            ("P1 V", FDR, Family::V6, 2048, 15.01),
            ("P1 VI", ETHERNET, Family::V6, 1024, 3482.23),
            ("P1 VI", FDR, Family::V4, 16_384, 7917.27),
            ("P1 VII", ETHERNET, Family::V6, 8192, 61.23),
            ("P1 VII", FDR, Family::V4, 4, 14.32),
        ] {
            let value = published(name).unwrap().value(technology, family, payload);
            assert_eq!(value, Some(expected), "{name} {payload}");
        }
    }

    #[test]
    fn every_table_has_the_fourteen_powers_of_two_from_4_to_32768() {
        for name in names() {
            let table = published(&name).unwrap();
            for technology in Technology::ALL.into_iter().filter(|&t| table.has(t)) {
                let payloads = table.column(technology, Family::V6).map(|(payload, _)| payload);
                assert!(payloads.eq((2..16).map(|power| 1 << power)), "{name}");
            }
        }
    }

    #[test]
    fn what_no_paper_has_is_none() {
        for name in ["", "P1", "P1 I", "P9 IV", "p1 iv"] {
            assert_eq!(published(name), None, "{name}");
        }
        let table = published("P1 V").unwrap();
        assert_eq!(table.value(FDR, Family::V4, 5), None);
        assert_eq!(table.value(CONNECTED, Family::V4, 4), None);
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
                for (payload, mbps) in table.column(ETHERNET, family) {
                    let stack = match table.load {
                        Load::Udp => Stack::Udp { family },
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
