//! What a report shows of a plan's records: tables, charts over levels, and charts over time.

use std::collections::BTreeSet;

use crate::factor::{Factor, Filter, Point};
use crate::figure::Figure;
use crate::level::{Kind, Level};

/// What a report shows of a plan's records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Presentation {
    /// Title of the report.
    pub title: String,
    /// A sentence or two below the title.
    pub about: String,
    /// Tables, in this order.
    pub tables: Vec<Table>,
    /// Charts, in this order.
    pub charts: Vec<Drawing>,
}

/// A table: one row per level of a factor, one column per combination of levels of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Title; empty if the plan gives none.
    pub title: String,
    /// Figure in the cells.
    pub figure: Figure,
    /// Which points are shown.
    pub filter: Filter,
    /// Factor of the rows.
    pub rows: Factor,
    /// Factors of the columns, outermost first.
    pub columns: Vec<Factor>,
    /// Published table to show beside it, such as `P1 IV 10GbE`.
    pub published: Option<String>,
}

/// A chart of a figure over the levels of a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title; empty if the plan gives none.
    pub title: String,
    /// Lines against x, or groups of bars.
    pub kind: ChartKind,
    /// Figure on the vertical axis.
    pub figure: Figure,
    /// Which points are plotted.
    pub filter: Filter,
    /// Factor of the horizontal axis.
    pub x: Factor,
    /// Factors whose combinations of levels are the series.
    pub series: Vec<Factor>,
    /// Published figure to draw as a separate line, such as `P3 record`.
    pub published: Option<String>,
}

/// How a chart draws its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartKind {
    /// A line for each series on logarithmic axes, with error bars for the intervals and dashed ceilings.
    Lines,
    /// Groups of bars, one for each level of x, as in figures 10 and 11 of P1.
    Bars,
}

/// A chart of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// A figure of whole runs over the levels of a factor.
    Levels(Chart),
    /// A quantity recorded in intervals, over time.
    Course(CourseChart),
}

/// A chart over time, one line for each point. It needs runs that record intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct CourseChart {
    /// Title; empty if the plan gives none.
    pub title: String,
    /// Quantity on the vertical axis.
    pub course: Course,
    /// Which points are plotted.
    pub filter: Filter,
    /// Factors at the start of a line's name; those that distinguish the lines follow in any case.
    pub series: Vec<Factor>,
    /// Which runs of a point a line shows.
    pub of: CourseOf,
}

/// Which runs of a point a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourseOf {
    /// The first run that counts.
    First,
    /// The mean over all runs that count, at each time that all of them reached.
    Mean,
}

/// Quantity that the intervals of a stream record; of its first flow if it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Course {
    /// Application bits received per second.
    Goodput,
    /// TCP congestion window of the sender in bytes: segments times MSS.
    Cwnd,
    /// Smoothed RTT of TCP at the sender.
    Rtt,
    /// Segments that TCP retransmitted, per second.
    Retransmits,
    /// CPU time of the sender's process, as a fraction of one CPU.
    SenderCpu,
    /// CPU time of the receiver's process, as a fraction of one CPU.
    ReceiverCpu,
}

impl Course {
    /// Every quantity with its name in plans.
    pub const ALL: [(&str, Self); 6] = [
        ("goodput", Self::Goodput),
        ("cwnd", Self::Cwnd),
        ("rtt", Self::Rtt),
        ("retransmits", Self::Retransmits),
        ("sender-cpu", Self::SenderCpu),
        ("receiver-cpu", Self::ReceiverCpu),
    ];
}

impl Drawing {
    /// Title; empty if the plan gives none.
    pub fn title(&self) -> &str {
        match self {
            Self::Levels(chart) => &chart.title,
            Self::Course(chart) => &chart.title,
        }
    }
}

/// Most charts that a plan without tables and charts gets: a choice.
const CHARTS_MAX: usize = 12;

impl Presentation {
    /// A table and charts of the deciding figure of each pattern, for a plan that declares neither.
    ///
    /// Rows and horizontal axes are the levels of the payload or, if that does not vary, of the factor with most levels;
    /// compared levels are side by side. Each combination of the other factors is a group of the table and a chart of its
    /// own.
    pub(crate) fn fill(&mut self, points: &[Point], compared: &[Factor]) {
        if !self.tables.is_empty() || !self.charts.is_empty() {
            return;
        }
        let mut figures: Vec<Figure> = points.iter().map(Figure::deciding).collect();
        figures.sort_unstable();
        figures.dedup();
        for figure in figures {
            let of_figure: Vec<&Point> = points
                .iter()
                .filter(|point| figure.spec().patterns.contains(&point.pattern))
                .collect();
            self.show(figure, &of_figure, compared);
        }
    }

    fn show(&mut self, figure: Figure, points: &[&Point], compared: &[Factor]) {
        let levels = |factor: Factor| {
            let mut levels: Vec<Level> = points.iter().map(|point| point.level(factor)).collect();
            levels.sort();
            levels.dedup();
            levels.retain(|level| !level.is_empty());
            levels
        };
        let is_varied = |factor: &Factor| levels(*factor).len() > 1;
        let columns: Vec<Factor> = compared.iter().copied().filter(is_varied).take(1).collect();
        let others: Vec<Factor> =
            Factor::ALL.into_iter().filter(|f| !columns.contains(f) && is_varied(f)).collect();
        let longest = || others.iter().copied().max_by_key(|factor| levels(*factor).len());
        let rows = match is_varied(&Factor::Payload) && !columns.contains(&Factor::Payload) {
            true => Some(Factor::Payload),
            false => longest(),
        };
        self.tables.push(Table {
            title: String::new(),
            figure,
            filter: Filter::new(),
            rows: rows.unwrap_or(Factor::Payload),
            columns: columns.clone(),
            published: None,
        });
        let Some(x) = rows else { return };
        // Only what distinguishes points: a response may follow from the payload.
        let combinations = |factors: &[Factor]| {
            let of = |point: &&Point| factors.iter().map(|&f| point.level(f)).collect::<Vec<_>>();
            points.iter().map(of).collect::<BTreeSet<_>>().len()
        };
        let mut known = [columns.as_slice(), &[x]].concat();
        let mut split = Vec::new();
        for factor in others {
            let with = [known.as_slice(), &[factor]].concat();
            if combinations(&with) > combinations(&known) {
                known = with;
                split.push(factor);
            }
        }
        let mut filters: Vec<Filter> = vec![Filter::new()];
        for factor in split {
            let with = |filter: &Filter, level: Level| {
                let mut filter = filter.clone();
                filter.insert(factor, vec![level]);
                filter
            };
            filters = filters
                .iter()
                .flat_map(|filter| levels(factor).into_iter().map(move |level| with(filter, level)))
                .collect();
        }
        filters.retain(|filter| points.iter().any(|point| point.is_among(filter)));
        let room = CHARTS_MAX.saturating_sub(self.charts.len());
        self.charts.extend(filters.into_iter().take(room).map(|filter| {
            let of: Vec<&str> = filter.values().flatten().map(String::as_str).collect();
            let title = [figure.spec().label].into_iter().chain(of).collect::<Vec<_>>().join(", ");
            let is_number = matches!(
                x.spec().kind,
                Kind::Number(..) | Kind::Size(_) | Kind::Duration(..) | Kind::Rate
            );
            let kind = if is_number { ChartKind::Lines } else { ChartKind::Bars };
            let series = columns.clone();
            Drawing::Levels(Chart { title, kind, figure, filter, x, series, published: None })
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Size, parse};

    #[test]
    fn a_plan_without_tables_gets_one_for_each_deciding_figure_and_a_chart_for_each_combination() {
        let text = "title = 't'\n[factors]\npattern = ['stream', 'rr']\ntransport = ['tcp', 'udp']\n\
                    payload = [64, 1024]\nfamily = [4, 6]\n[settings]\nlink = 'veth'\ncongestion = 'cubic'\n\
                    [[compare]]\nfactor = 'family'\nbaseline = 4\ncandidate = 6\n";
        let Presentation { tables, charts, .. } =
            parse("t", text, Size::Full, &[]).unwrap().presentation;
        let shapes: Vec<_> =
            tables.iter().map(|table| (table.figure, table.rows, table.columns.clone())).collect();
        let family = vec![Factor::Family];
        assert_eq!(
            shapes,
            [
                (Figure::Goodput, Factor::Payload, family.clone()),
                (Figure::TransactionRate, Factor::Payload, family)
            ]
        );
        let titles: Vec<&str> = charts.iter().map(Drawing::title).collect();
        assert_eq!(
            titles,
            ["goodput, tcp", "goodput, udp", "transactions, tcp", "transactions, udp"]
        );
    }

    #[test]
    fn a_plan_of_one_point_gets_a_table_and_no_chart() {
        let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'tcp'\nfamily = 4\npayload = 64\n\
                    link = 'veth'\n[settings]\ncongestion = 'cubic'\n";
        let Presentation { tables, charts, .. } =
            parse("t", text, Size::Full, &[]).unwrap().presentation;
        assert_eq!((tables.len(), charts.len()), (1, 0));
    }
}
