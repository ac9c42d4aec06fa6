//! Published tables by the names used in plans: `P1 II`, `P1 IV 10GbE`, `P1 V IPoIB`.

use fabricmark_papers::claims::Load;
use fabricmark_papers::{self as papers, Table, Technology};
use fabricmark_plan::{Figure, Point};

use crate::number::{self, Scale};

/// Technologies that a name may end with; the columns of that technology are then shown for any link.
const TECHNOLOGIES: [(&str, Technology); 2] =
    [("10GbE", Technology::ALL[0]), ("IPoIB", Technology::ALL[1])];

/// The published land-speed record, a line in charts.
const RECORD: &str = "P3 record";

/// All valid values of a plan's `published` key: tables for tables, and lines for charts.
pub fn published_names() -> Vec<String> {
    let names = papers::names().filter_map(|name| Some((papers::published(&name)?, name)));
    names
        .flat_map(|(table, name)| {
            let of = |(word, _)| format!("{name} {word}");
            let named = TECHNOLOGIES.into_iter().filter(|(_, technology)| table.has(*technology));
            let named: Vec<String> = named.map(of).collect();
            [name].into_iter().chain(named)
        })
        .chain([RECORD.to_owned()])
        .collect()
}

/// The published figure `name` as a line in a chart: its label and its value in base units; `None` for another
/// figure.
pub(crate) fn line(name: &str, figure: Figure) -> Option<(String, f64)> {
    if name != RECORD || figure != Figure::LandSpeed {
        return None;
    }
    let number = |row: &str| papers::value("P3", "slide Concluding Remarks", row, "");
    let (gbps, km) = (number("land speed record: rate")?, number("land speed record: distance")?);
    let label = format!("P3, {gbps} Gb/s × {} km", number::fixed(km, 0));
    Some((label, gbps * 1e9 * km * 1e3))
}

/// A published table, or one technology's columns of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    table: &'static Table,
    /// `None`: the link of a point selects the columns.
    technology: Option<Technology>,
}

impl Published {
    /// The columns called `name`; `None` if they have another figure.
    pub(crate) fn named(name: &str, figure: Figure) -> Option<Self> {
        let (table, technology) = match papers::published(name) {
            Some(table) => (table, None),
            None => {
                let (table, word) = name.rsplit_once(' ')?;
                let table = papers::published(table)?;
                let is_it = |&(known, t): &(&str, Technology)| known == word && table.has(t);
                let (_, technology) = TECHNOLOGIES.into_iter().find(is_it)?;
                (table, Some(technology))
            }
        };
        (table.quantity.figure() == figure).then_some(Self { table, technology })
    }

    /// Printed value for a point, in base units.
    pub(crate) fn value(self, figure: Figure, point: &Point) -> Option<f64> {
        if Load::of(point.transport) != Some(self.table.load) {
            return None;
        }
        let of_link = Technology::ALL.into_iter().filter(|t| t.is_of(point.link));
        let mut technologies = of_link.filter(|&technology| self.table.has(technology));
        let technology = self.technology.or_else(|| technologies.next())?;
        let printed = self.table.value(technology, point.family, point.payload.0)?;
        Some(printed * Scale::of(figure).size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricmark_plan::{Plan, Size, parse};

    #[test]
    fn every_published_name_is_found_again() {
        let names = published_names();
        assert_eq!(names[..5], ["P1 II", "P1 III", "P1 IV", "P1 IV 10GbE", "P1 IV IPoIB"]);
        assert_eq!(names.len(), 15);
        for name in names {
            let figures = [Figure::Goodput, Figure::HalfRtt, Figure::LandSpeed];
            let is_found =
                |&f: &Figure| Published::named(&name, f).is_some() || line(&name, f).is_some();
            assert!(figures.iter().any(is_found), "{name}");
        }
    }

    #[test]
    fn the_record_is_5_6_gbps_over_30_000_km() {
        let (label, value) = line(RECORD, Figure::LandSpeed).unwrap();
        assert_eq!(label, "P3, 5.6 Gb/s × 30,000 km");
        assert!((value / 1.68e17 - 1.0).abs() < 1e-12, "{value}");
        assert!(line(RECORD, Figure::Goodput).is_none());
    }

    #[test]
    fn a_latency_table_does_not_stand_beside_goodput() {
        assert!(Published::named("P1 V 10GbE", Figure::Goodput).is_none());
        assert!(Published::named("P1 III", Figure::Goodput).is_none());
    }

    #[test]
    fn a_technology_without_columns_in_a_table_is_no_name() {
        assert!(Published::named("P1 II 10GbE", Figure::Goodput).is_none());
    }

    fn plan() -> Plan {
        let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'udp'\n\
                    family = 4\npayload = 1024\n\
                    link = ['ipoib:4X-FDR', 'ipoib:4X-FDR,mode=connected', 'ipoib:4X-SDR', \
                    'ethernet:10G']\n";
        parse("t", text, Size::Full, &[]).unwrap()
    }

    #[test]
    fn the_link_of_a_point_says_which_columns_stand_beside_it() {
        let beside = |name: &str| -> Vec<Option<u64>> {
            let columns = Published::named(name, Figure::Goodput).unwrap();
            let plan = plan();
            let values = plan.points.iter().map(|p| columns.value(Figure::Goodput, p));
            values.map(|value| value.map(|bps| bps.round() as u64)).collect()
        };
        let (datagram, connected, ethernet) = (3_107_230_000, 1_152_420_000, 4_967_320_000);
        assert_eq!(beside("P1 II"), [Some(datagram), Some(connected), None, None]);
        assert_eq!(beside("P1 IV"), [Some(datagram), None, None, Some(ethernet)]);
        assert_eq!(beside("P1 IV IPoIB"), [Some(datagram); 4]);
    }
}
