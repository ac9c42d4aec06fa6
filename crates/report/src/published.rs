//! Published tables by the names that plans use: `P1 IV 10GbE`, `P1 V IPoIB`.

use fabricmark_papers::{self as papers, Technology};
use fabricmark_plan::{Factor, Figure, Point};

use crate::number::Unit;

const TECHNOLOGIES: [(&str, Technology); 2] =
    [("10GbE", Technology::TenGigabitEthernet), ("IPoIB", Technology::IpoibFdr)];

/// Every name that a plan's `published` key may hold.
pub fn published_names() -> Vec<String> {
    papers::names()
        .flat_map(|table| TECHNOLOGIES.map(|(technology, _)| format!("{table} {technology}")))
        .collect()
}

/// One technology's columns of a published table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    table: &'static papers::Table,
    technology: Technology,
}

impl Published {
    /// The columns of that name, if their figure is the wanted one.
    pub(crate) fn named(name: &str, figure: Figure) -> Option<Self> {
        let (table, technology) = name.rsplit_once(' ')?;
        let table = papers::published(table)?;
        let is_same = matches!(
            (table.figure, figure),
            (papers::Figure::GoodputMbps, Figure::Goodput)
                | (papers::Figure::LatencyUs, Figure::HalfRtt)
        );
        let (_, technology) = TECHNOLOGIES.into_iter().find(|(word, _)| *word == technology)?;
        is_same.then_some(Self { table, technology })
    }

    /// The printed value for a point in base units.
    pub(crate) fn value(self, figure: Figure, point: &Point) -> Option<f64> {
        if point.level(Factor::Transport) != self.table.transport {
            return None;
        }
        let printed = self.table.value(self.technology, point.family, point.payload.0)?;
        Some(printed * Unit::of(figure).size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_name_is_found_again() {
        let names = published_names();
        assert_eq!(names[0], "P1 IV 10GbE");
        assert_eq!(names.len(), 8);
        for name in names {
            let figures = [Figure::Goodput, Figure::HalfRtt];
            assert!(figures.iter().any(|&f| Published::named(&name, f).is_some()), "{name}");
        }
    }

    #[test]
    fn a_latency_table_does_not_stand_beside_goodput() {
        assert!(Published::named("P1 V 10GbE", Figure::Goodput).is_none());
    }
}
