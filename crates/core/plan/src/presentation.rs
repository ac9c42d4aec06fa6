//! What a report shows of a plan's records: tables, charts over levels, and charts over time.

use std::collections::BTreeSet;

use crate::factor::{Factor, Filter, Point};
use crate::figure::Figure;
use crate::level::{Kind, Level};
use crate::shop::Interaction;

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

/// A table: one row per combination of levels of some factors, one column per combination of levels of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Title; empty if the plan gives none.
    pub title: String,
    /// Figure in the cells.
    pub figure: Figure,
    /// Which points are shown.
    pub filter: Filter,
    /// Factors of the rows, outermost first; at least one.
    pub rows: Vec<Factor>,
    /// Factors of the columns, outermost first.
    pub columns: Vec<Factor>,
    /// Published table to show beside it, such as `P1 IV 10GbE`.
    pub published: Option<String>,
}

impl Table {
    /// The factor whose levels it compares, side by side: the first of those that the plan compares among its columns.
    pub fn compared(&self, compared: impl IntoIterator<Item = Factor>) -> Option<Factor> {
        compared.into_iter().find(|factor| self.columns.contains(factor))
    }
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
    /// Factors of which each combination of levels has a chart of its own; empty in a [`Plan`](crate::Plan), which
    /// has those charts.
    pub split: Vec<Factor>,
    /// Which points determine the vertical axis: those of all charts that were split from one. `None`: the points that
    /// are plotted.
    pub axis: Option<Filter>,
    /// Published figure to draw as a separate line, such as `P3 record`.
    pub published: Option<String>,
}

impl Chart {
    /// A chart for each combination of levels of [`Self::split`] in `points`, all with the same vertical axis.
    fn small_multiples(self, points: &[Point]) -> Vec<Self> {
        if self.split.is_empty() {
            return vec![self];
        }
        let is_shown = |point: &&Point| {
            self.figure.spec().patterns.contains(&point.pattern) && point.is_among(&self.filter)
        };
        let mut combinations: Vec<Vec<Level>> = Vec::new();
        for point in points.iter().filter(is_shown) {
            let levels = self.split.iter().map(|&factor| point.level(factor)).collect();
            if !combinations.contains(&levels) {
                combinations.push(levels);
            }
        }
        let one = |levels: Vec<Level>| {
            let named = self.split.iter().zip(&levels).filter(|(_, level)| !level.is_empty());
            let named = named.map(|(factor, level)| {
                let heading = factor.spec().heading(level);
                if heading.is_empty() { level.clone() } else { heading }
            });
            let whole = if self.title.is_empty() { self.figure.spec().label } else { &self.title };
            let title = [whole.to_owned()].into_iter().chain(named).collect::<Vec<_>>().join(", ");
            let mut filter = self.filter.clone();
            filter.extend(
                self.split.iter().copied().zip(levels.into_iter().map(|level| vec![level])),
            );
            let axis = Some(self.filter.clone());
            Self { title, filter, axis, split: Vec::new(), ..self.clone() }
        };
        combinations.into_iter().map(one).collect()
    }
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
    /// Web interactions of the bookstore per second.
    Interactions,
}

impl Course {
    /// Every quantity with its name in plans.
    pub const ALL: [(&str, Self); 7] = [
        ("goodput", Self::Goodput),
        ("cwnd", Self::Cwnd),
        ("rtt", Self::Rtt),
        ("retransmits", Self::Retransmits),
        ("sender-cpu", Self::SenderCpu),
        ("receiver-cpu", Self::ReceiverCpu),
        ("interactions", Self::Interactions),
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
    /// Completes what a plan declares: default tables and charts if it declares neither, a table of each compared factor
    /// that no table compares, and small multiples.
    pub(crate) fn complete(&mut self, points: &[Point], compared: &[Factor]) {
        let is_default = self.tables.is_empty() && self.charts.is_empty();
        let mut left: Vec<Factor> = Vec::new();
        for &factor in compared {
            let shows = |table: &Table| table.compared(compared.iter().copied()) == Some(factor);
            if !left.contains(&factor) && !self.tables.iter().any(shows) {
                left.push(factor);
            }
        }
        self.fill(points, &left, is_default);
        let charts = std::mem::take(&mut self.charts).into_iter();
        let charts = charts.flat_map(|drawing| match drawing {
            Drawing::Levels(chart) => {
                chart.small_multiples(points).into_iter().map(Drawing::Levels).collect()
            }
            Drawing::Course(_) => vec![drawing],
        });
        self.charts = charts.take(if is_default { CHARTS_MAX } else { usize::MAX }).collect();
    }

    /// Adds tables of the deciding figure of each pattern, one for each of the `compared` factors that varies. `is_default`:
    /// the plan declares no tables and charts, so that a pattern in which none varies has a table, too, and all have charts.
    fn fill(&mut self, points: &[Point], compared: &[Factor], is_default: bool) {
        let mut figures: Vec<Figure> = points.iter().map(Figure::deciding).collect();
        figures.sort_unstable();
        figures.dedup();
        let is_shop = is_default && figures.contains(&Figure::ResponseTime);
        if is_shop {
            figures.push(Figure::ResponseTimeP90);
        }
        for figure in figures {
            let of_figure: Vec<&Point> = points
                .iter()
                .filter(|point| figure.spec().patterns.contains(&point.pattern))
                .collect();
            let mut sides: Vec<Option<Factor>> = compared
                .iter()
                .filter(|&&factor| levels(&of_figure, factor).len() > 1)
                .map(|&factor| Some(factor))
                .collect();
            if is_default && sides.is_empty() {
                sides.push(None);
            }
            for (place, side) in sides.into_iter().enumerate() {
                let (table, chart) = layout(figure, &of_figure, side);
                self.tables.push(table);
                let chart = chart.filter(|_| is_default && place == 0);
                self.charts.extend(chart.map(Drawing::Levels));
            }
        }
        if is_shop {
            let all = vec![Interaction::All.to_string()];
            self.charts.push(Drawing::Course(CourseChart {
                title: "Interactions over time".to_owned(),
                course: Course::Interactions,
                filter: Filter::from([(Factor::Interaction, all)]),
                series: Vec::new(),
                of: CourseOf::Mean,
            }));
        }
    }
}

/// The levels of a factor that occur, except none.
fn levels(points: &[&Point], factor: Factor) -> Vec<Level> {
    let mut levels: Vec<Level> = points.iter().map(|point| point.level(factor)).collect();
    levels.sort();
    levels.dedup();
    levels.retain(|level| !level.is_empty());
    levels
}

/// A table and a chart of a figure with the levels of `side` next to each other; no chart if no other factor varies.
///
/// Rows and horizontal axes are the levels of the payload or, if that does not vary, of the factor with most levels. Each
/// combination of the other factors is a group of the table and a chart of its own.
fn layout(figure: Figure, points: &[&Point], side: Option<Factor>) -> (Table, Option<Chart>) {
    let combinations = |factors: &[Factor]| {
        let of = |point: &&Point| factors.iter().map(|&f| point.level(f)).collect::<Vec<_>>();
        points.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    let is_varied = |factor: &Factor| levels(points, *factor).len() > 1;
    let columns: Vec<Factor> = side.into_iter().collect();
    // A level that follows from the compared one cannot stand in a row with both.
    let adds = |factor: &Factor| {
        let with = [columns.as_slice(), &[*factor]].concat();
        combinations(&with) > combinations(&columns)
    };
    let others: Vec<Factor> =
        Factor::ALL.into_iter().filter(|factor| is_varied(factor) && adds(factor)).collect();
    let longest = || others.iter().copied().max_by_key(|factor| levels(points, *factor).len());
    let rows = match is_varied(&Factor::Payload) && !columns.contains(&Factor::Payload) {
        true => Some(Factor::Payload),
        false => longest(),
    };
    let table = Table {
        title: String::new(),
        figure,
        filter: Filter::new(),
        rows: vec![rows.unwrap_or(Factor::Payload)],
        columns: columns.clone(),
        published: None,
    };
    let Some(x) = rows else { return (table, None) };
    // Only what distinguishes points: a response may follow from the payload.
    let mut known = [columns.as_slice(), &[x]].concat();
    let mut split = Vec::new();
    for factor in others {
        let with = [known.as_slice(), &[factor]].concat();
        if combinations(&with) > combinations(&known) {
            known = with;
            split.push(factor);
        }
    }
    let is_number = matches!(
        x.spec().kind,
        Kind::Number(..) | Kind::Size(..) | Kind::Duration(..) | Kind::Rate
    );
    let kind = if is_number { ChartKind::Lines } else { ChartKind::Bars };
    let (title, filter) = (String::new(), Filter::new());
    let (series, axis, published) = (columns, None, None);
    (table, Some(Chart { title, kind, figure, filter, x, series, split, axis, published }))
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
        let shapes: Vec<_> = tables
            .iter()
            .map(|table| (table.figure, table.rows.clone(), table.columns.clone()))
            .collect();
        let family = vec![Factor::Family];
        assert_eq!(
            shapes,
            [
                (Figure::Goodput, vec![Factor::Payload], family.clone()),
                (Figure::TransactionRate, vec![Factor::Payload], family)
            ]
        );
        let titles: Vec<&str> = charts.iter().map(Drawing::title).collect();
        assert_eq!(
            titles,
            ["goodput, tcp", "goodput, udp", "transactions, tcp", "transactions, udp"]
        );
    }

    #[test]
    fn each_compared_factor_has_a_table_also_beside_those_of_the_plan() {
        let factors = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'tcp'\npayload = [64, 1024]\n\
                       family = [4, 6]\nflows = [1, 4]\n[settings]\nlink = 'veth'\ncongestion = 'cubic'\n\
                       [[compare]]\nfactor = 'family'\nbaseline = 4\ncandidate = 6\n\
                       [[compare]]\nfactor = 'flows'\nbaseline = 1\ncandidate = 4\n";
        let shapes = |tables: &str| -> (Vec<(String, Vec<Factor>)>, usize) {
            let text = format!("{factors}{tables}");
            let Presentation { tables, charts, .. } =
                parse("t", &text, Size::Full, &[]).unwrap().presentation;
            let columns = tables.into_iter().map(|table| (table.title, table.columns)).collect();
            (columns, charts.len())
        };
        let of = |title: &str, columns: &[Factor]| (title.to_owned(), columns.to_vec());
        let of_flows = of("", &[Factor::Flows]);
        assert_eq!(shapes("").0, [of("", &[Factor::Family]), of_flows.clone()]);
        let own = "[[table]]\ntitle = 'T'\nfigure = 'goodput'\nrows = 'payload'\ncolumns = ['family', 'flows']\n";
        let both = of("T", &[Factor::Family, Factor::Flows]);
        assert_eq!(shapes(own), (vec![both, of_flows], 0));
    }

    #[test]
    fn a_chart_that_is_split_becomes_a_chart_for_each_combination_with_one_axis() {
        let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = ['tcp', 'udp']\n\
                    payload = [64, 1024]\nfamily = [4, 6]\n[settings]\nlink = 'veth'\ncongestion = 'cubic'\n\
                    [[chart]]\ntitle = 'T'\nfigure = 'goodput'\nwhere = { family = 6 }\nsplit = 'transport'\n";
        let Presentation { charts, .. } = parse("t", text, Size::Full, &[]).unwrap().presentation;
        let [Drawing::Levels(tcp), Drawing::Levels(udp)] = charts.as_slice() else {
            panic!("{charts:?}");
        };
        assert_eq!([&*tcp.title, &*udp.title], ["T, tcp", "T, udp"]);
        let six = Filter::from([(Factor::Family, vec!["6".to_owned()])]);
        assert_eq!((&tcp.axis, &udp.axis), (&Some(six.clone()), &Some(six)));
        assert_eq!(tcp.filter[&Factor::Transport], ["tcp"]);
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
