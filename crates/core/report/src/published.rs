//! Published tables by the names used in plans: `P1 II`, `P1 IV 10GbE`, `P1 V IPoIB`, `P5 1-2`.

use fabricmark_papers::claims::Load;
use fabricmark_papers::{self as papers, Table, Technology};
use fabricmark_plan::{Figure, Pattern, Point};
use fabricmark_wire::Family;

use crate::number::{self, Scale};

/// Technologies that a name may end with; the columns of that technology are then shown for any link.
const TECHNOLOGIES: [(&str, Technology); 2] =
    [("10GbE", Technology::ALL[0]), ("IPoIB", Technology::ALL[1])];

/// The published land-speed record, a line in charts.
const RECORD: &str = "P3 record";

/// Tables 1 and 2 of P5, by IP version and buffer of the relay, and its table 3.
const RELAYED: [(&str, Relayed); 2] = [("P5 1-2", Relayed::Buffers), ("P5 3", Relayed::Model)];

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
        .chain(RELAYED.map(|(name, _)| name.to_owned()))
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

/// Published columns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Published {
    /// A table of P1, or one technology's columns of it.
    Networks {
        table: &'static Table,
        /// `None`: the link of a point selects the columns.
        technology: Option<Technology>,
    },
    /// Tables of P5.
    Relayed(Relayed),
}

/// What P5's tables are about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Relayed {
    /// A file of 7,990 bytes by the buffer of the relay.
    Buffers,
    /// A file of 240,118 bytes by the schedule of Model 100.
    Model,
}

impl Published {
    /// The columns called `name`; `None` if they have another figure.
    pub(crate) fn named(name: &str, figure: Figure) -> Option<Self> {
        if let Some((_, relayed)) = RELAYED.into_iter().find(|(known, _)| *known == name) {
            return relayed.name(figure).is_some().then_some(Self::Relayed(relayed));
        }
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
        (table.load.figure(table.quantity) == figure)
            .then_some(Self::Networks { table, technology })
    }

    /// Printed value for a point, in base units.
    pub(crate) fn value(self, figure: Figure, point: &Point) -> Option<f64> {
        let printed = match self {
            Self::Relayed(relayed) => relayed.value(figure, point)?,
            Self::Networks { table, technology } => {
                if Load::of(point.transport) != Some(table.load) {
                    return None;
                }
                let of_link = Technology::ALL.into_iter().filter(|t| t.is_of(point.link));
                let mut technologies = of_link.filter(|&technology| table.has(technology));
                let technology = technology.or_else(|| technologies.next())?;
                table.value(technology, point.family, point.payload.0)?
            }
        };
        Some(printed * Scale::of(figure).size)
    }
}

impl Relayed {
    /// Name of a figure in the tables; `None` if they do not have it.
    fn name(self, figure: Figure) -> Option<&'static str> {
        match (self, figure) {
            (Self::Buffers, Figure::SwitchingTime) => Some("switching time"),
            (Self::Buffers, Figure::SwitchingSpeed) => Some("switching speed"),
            (Self::Buffers, Figure::RelayReceivingTime) => Some("receiving time"),
            (Self::Model, Figure::SendingTime) => Some("SENDING"),
            (Self::Model, Figure::SwitchingTime) => Some("SWITCHING"),
            (Self::Model, Figure::ReceivingTime) => Some("RECEIVING"),
            _ => None,
        }
    }

    /// Printed value for a point in µs or Mb/s; the middle of a printed range.
    fn value(self, figure: Figure, point: &Point) -> Option<f64> {
        let name = self.name(figure)?;
        let buffer = point.relay_buffer?.0.to_string();
        match self {
            Self::Buffers => {
                let file = papers::value("P5", "section II", "Testfile1", "")?;
                let is_file = point.pattern == Pattern::Crr && point.payload.0 as f64 == file;
                let (v4, v6) = ("table 1", "table 2");
                let place = if point.family == Family::V4 { v4 } else { v6 };
                let column = format!("{name} {}", point.family);
                papers::value("P5", place, &buffer, &column).filter(|_| is_file)
            }
            Self::Model => {
                let is_printed = point.family == Family::V4
                    && point.pace.to_string() == "model-100"
                    && papers::value("P5", "caption of table 3", "buffer", "")
                        .is_some_and(|printed| buffer == printed.to_string());
                let time = |end: &str| papers::value("P5", "table 3", name, end);
                let middle = (time("least time")? + time("most time")?) / 2.0;
                Some(middle).filter(|_| is_printed)
            }
        }
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
        assert_eq!(names.len(), 17);
        for name in names {
            let figures =
                [Figure::Goodput, Figure::HalfRtt, Figure::LandSpeed, Figure::SwitchingTime];
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
    fn p5s_columns_stand_beside_the_transfers_of_its_files() {
        let columns = |name: &str, figure: Figure, levels: &str| {
            let levels = levels.replace(',', "\n");
            let text = format!(
                "title = 't'\n[factors]\ntransport = 'tcp'\nlink = 'veth'\ncongestion = 'cubic'\n{levels}\n"
            );
            let plan = parse("t", &text, Size::Full, &[]).unwrap();
            Published::named(name, figure).unwrap().value(figure, &plan.points[0])
        };
        let file = "pattern='crr',payload=7990,response=1,relay='copy'";
        let of = |figure, levels: &str| columns("P5 1-2", figure, &format!("{file},{levels}"));
        let rounded = |value: Option<f64>| value.map(|value| value.round() as u64);
        assert_eq!(rounded(of(Figure::SwitchingTime, "relay_buffer=750,family=4")), Some(937_000));
        let v6 = "relay_buffer=8192,family=6";
        assert_eq!(rounded(of(Figure::SwitchingSpeed, v6)), Some(1_083_380_000));
        assert_eq!(rounded(of(Figure::RelayReceivingTime, v6)), Some(102_000));
        // Table 2 has no such row.
        assert_eq!(of(Figure::SwitchingTime, "relay_buffer=1501,family=6"), None);
        let model = "pattern='stream',payload=62487,relay='copy',relay_buffer=5000,family=4";
        let of =
            |pace: &str| columns("P5 3", Figure::ReceivingTime, &format!("{model},pace='{pace}'"));
        assert_eq!(rounded(of("model-100")), Some(83_806_500));
        assert_eq!(of("closed"), None);
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
