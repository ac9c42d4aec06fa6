//! What to show of a plan's records: tables, charts over levels, and charts of runs through time.

use crate::factor::{Factor, Filter};
use crate::figure::Figure;

/// What to show of a plan's records.
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

/// A table: a row for each level of one factor, a column for each combination of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// What the cells show.
    pub figure: Figure,
    /// Which points are shown.
    pub filter: Filter,
    /// Factor of the rows.
    pub rows: Factor,
    /// Factors of the columns, outermost first.
    pub columns: Vec<Factor>,
    /// A published table to show beside, such as `P1 IV 10GbE`.
    pub published: Option<String>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Lines against x, or groups of bars.
    pub kind: ChartKind,
    /// What is plotted.
    pub figure: Figure,
    /// Which points are plotted.
    pub filter: Filter,
    /// Factor of the horizontal axis.
    pub x: Factor,
    /// Factors that make a series.
    pub series: Vec<Factor>,
    /// A published figure to draw as a line of its own, such as `P3 record`.
    pub published: Option<String>,
}

/// How a chart draws its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartKind {
    /// A line for each series on logarithmic axes, intervals as bars, ceilings dashed.
    Lines,
    /// Groups of bars, one group a level of x, as figures 10 and 11 of P1.
    Bars,
}

/// A drawing of the report.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// A figure of whole runs against the levels of a factor.
    Levels(Chart),
    /// What the intervals of runs had, against time.
    Course(CourseChart),
}

/// What runs had through time, a line for each point. It needs runs that are recorded in intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct CourseChart {
    /// Title.
    pub title: String,
    /// What is plotted.
    pub course: Course,
    /// Which points are plotted.
    pub filter: Filter,
    /// Factors that name a line, before those that tell the lines apart in any case.
    pub series: Vec<Factor>,
    /// Which runs a line is of.
    pub of: CourseOf,
}

/// Which runs of a point a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourseOf {
    /// The first run that counts.
    First,
    /// The mean over all runs that count, moment by moment, as long as all of them went on.
    Mean,
}

/// What the intervals of a stream have, of its first flow where it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Course {
    /// Application bits per second that arrived.
    Goodput,
    /// TCP's congestion window at the sender, in bytes: its segments times the largest segment.
    Cwnd,
    /// TCP's smoothed round-trip time at the sender.
    Rtt,
    /// Segments that TCP sent again, per second.
    Retransmits,
    /// Processor time of the sender's process, as a share of one processor.
    SenderCpu,
    /// Processor time of the receiver's process.
    ReceiverCpu,
}

impl Course {
    /// Every course, by the name that plans use.
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
    /// Its title; empty where the plan gives none.
    pub fn title(&self) -> &str {
        match self {
            Self::Levels(chart) => &chart.title,
            Self::Course(chart) => &chart.title,
        }
    }
}
