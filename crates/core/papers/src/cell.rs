//! Printed numbers and their places.

use std::sync::LazyLock;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::number::{base_unit, number};
use crate::paper::papers;

/// Data files, in the order of the papers.
const FILES: [&str; 5] = [
    include_str!("../data/p1.csv"),
    include_str!("../data/p2.csv"),
    include_str!("../data/p3.csv"),
    include_str!("../data/p4.csv"),
    include_str!("../data/p5.csv"),
];

/// One number of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Place in the paper: `table IV`, `section VI.C`, `abstract`.
    pub place: String,
    /// Row of a table (a payload in bytes is a plain number: `1024`); in text, a description of the number.
    pub row: String,
    /// Column of a table, such as `10GbE IPv6`; empty for text.
    pub column: String,
    /// Unit, one of those of [`base_unit`]; empty for a count.
    pub unit: String,
    /// The number as printed: `1,492.17`.
    pub printed: String,
    /// The printed number, in `unit`.
    #[serde(skip_deserializing, rename(serialize = "published"))]
    pub value: f64,
    /// Numbers of the [`Doubt`](crate::Doubt)s about this cell, ascending.
    #[serde(deserialize_with = "numbers")]
    pub doubts: Vec<u8>,
}

impl Cell {
    /// Value in base units: bit/s, s, B, bit, m or Hz; a fraction for `%`.
    pub fn base_value(&self) -> f64 {
        self.value * base_unit(&self.unit).map_or(1.0, |(factor, _)| factor)
    }
}

fn numbers<'de, D: Deserializer<'de>>(text: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(text)?;
    text.split_whitespace().map(|n| n.parse().map_err(D::Error::custom)).collect()
}

static CELLS: LazyLock<[Vec<Cell>; 5]> = LazyLock::new(|| FILES.map(parse));

/// Skips malformed lines; a test checks that there are none.
fn parse(text: &str) -> Vec<Cell> {
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let cell = |line: Result<Cell, csv::Error>| {
        let cell = line.ok()?;
        Some(Cell { value: number(&cell.printed, &cell.unit)?, ..cell })
    };
    lines.deserialize().filter_map(cell).collect()
}

/// All numbers of the paper `paper`, in the paper's order; empty if there is no such paper.
pub fn cells(paper: &str) -> &'static [Cell] {
    let place = papers().iter().position(|known| known.name == paper);
    place.map_or(&[], |place| &CELLS[place])
}

/// One printed number in its printed unit; `None` if the paper has no such cell.
pub fn value(paper: &str, place: &str, row: &str, column: &str) -> Option<f64> {
    let is_it = |cell: &&Cell| cell.place == place && cell.row == row && cell.column == column;
    cells(paper).iter().find(is_it).map(|cell| cell.value)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::doubt;

    #[test]
    fn every_line_of_every_file_is_a_cell() {
        for (text, paper) in FILES.into_iter().zip(papers()) {
            assert_eq!(cells(paper.name).len(), text.lines().count() - 1, "{}", paper.name);
        }
    }

    #[test]
    fn no_two_cells_of_a_paper_have_one_name() {
        for paper in papers() {
            let mut seen = HashSet::new();
            for cell in cells(paper.name) {
                let name = (&cell.place, &cell.row, &cell.column);
                assert!(seen.insert(name), "{} {name:?}", paper.name);
            }
        }
    }

    #[test]
    fn every_unit_is_known_and_every_table_and_doubt_exists() {
        for paper in papers() {
            for cell in cells(paper.name) {
                assert!(base_unit(&cell.unit).is_some(), "{cell:?}");
                assert_eq!(cell.place.starts_with("table"), !cell.column.is_empty(), "{cell:?}");
                if cell.place.starts_with("table") {
                    assert!(paper.tables.iter().any(|t| t.place == cell.place), "{cell:?}");
                }
                for &n in &cell.doubts {
                    assert!(doubt(n).is_some_and(|d| d.paper == paper.name), "{cell:?}");
                }
            }
        }
    }

    #[test]
    fn a_cell_is_found_by_its_names_and_keeps_what_is_printed() {
        assert_eq!(value("P1", "table IV", "256", "10GbE IPv4"), Some(1492.17));
        assert_eq!(value("P1", "section IV", "InfiniBand MTU", ""), Some(2048.0));
        assert_eq!(value("P1", "table IV", "5", "10GbE IPv4"), None);
        assert_eq!(value("P9", "table IV", "4", "10GbE IPv4"), None);
        let is_it = |c: &&Cell| c.place == "table IV" && c.row == "256" && c.column == "10GbE IPv4";
        let cell = cells("P1").iter().find(is_it).unwrap();
        assert_eq!((cell.printed.as_str(), cell.base_value()), ("1,492.17", 1_492_170_000.0));
    }
}
