//! What a report shows of a plan's records: tables, charts over levels, and charts over time.

use crate::factor::{Factor, Filter};
use crate::figure::Figure;

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
