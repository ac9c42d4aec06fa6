//! Tables, charts, pages and exports: functions from records to text.
//!
//! A plan says what to show, and the records have the results. One view model joins both, and text, HTML, charts and
//! JSON are all printed from that model, so they cannot disagree.
//!
//! Deliberately absent: files, clocks and sockets. Limits are read from the records and never recomputed; estimates
//! and verdicts come from `fabricmark_stats`.

mod answer;
mod cell;
mod chart;
mod claims;
mod compare;
mod course;
mod export;
mod facts;
mod grid;
mod html;
mod label;
mod measured;
mod models;
mod network;
mod notes;
mod number;
mod papers;
mod published;
mod require;
mod results;
mod runs;
mod scaling;
mod select;
mod sharing;
mod shop;
mod short;
mod summary;
mod table;
mod text;
mod view;

use fabricmark_plan::Plan;
use fabricmark_record::{Instrument, Record};

pub use chart::{ChartFile, Curve, charts, course_chart, goodput_chart, rtt_chart};
pub use claims::{ClaimsView, NoSuchPaper};
pub use compare::{CompareResults, ComparedPoint, ComparisonReport, GateResult, compare};
pub use export::{csv, json_lines};
pub use grid::{Side, grid};
pub use html::html;
pub use measured::{MeasureResults, Measured, measured_json, measured_text};
pub use network::{Network, NetworkLink, network_svg, network_text};
pub use number::{RateUnit, bit_rate, fixed};
pub use papers::{PaperPart, PaperView, UnknownPaper, papers_json, papers_text};
pub use published::published_names;
pub use require::{Kept, ParseRequirementError, Requirement};
pub use results::Results;
pub use runs::Withheld;
pub use summary::summary_json;
pub use table::Change;
pub use text::text;

/// Input of a report.
#[derive(Clone, Copy, Debug)]
pub struct Experiment<'a> {
    /// Short name, such as the plan file's stem.
    pub name: &'a str,
    /// The plan, which also says what to show.
    pub plan: &'a Plan,
    /// Records of the runs, in any order.
    pub records: &'a [Record],
    /// Overhead of the program itself, if measured.
    pub instrument: Option<Instrument>,
    /// Start of the experiment, in RFC 3339.
    pub started: &'a str,
    /// Command that reproduces the experiment.
    pub reproduce: &'a str,
    /// Whether all planned runs have a record.
    pub planned_complete: bool,
    /// Whether the plan's `[quick]` table was applied.
    pub quick: bool,
}
