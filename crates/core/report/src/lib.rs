//! Tables, charts, pages and exports: functions from records to text.
//!
//! A plan says what to show, the records say what was found; a view model joins the two once, and
//! text, HTML, charts and JSON are printed from that one model, so that they cannot disagree.
//!
//! Deliberately not here: files, clocks, sockets. Limits are read from the records and never
//! computed again; estimates and verdicts are those of `stats`.

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
mod notes;
mod number;
mod papers;
mod published;
mod require;
mod runs;
mod select;
mod short;
mod summary;
mod table;
mod text;
mod view;

use fabricmark_plan::Plan;
use fabricmark_record::{Instrument, Record};

pub use chart::{ChartFile, Curve, charts, course_chart, goodput_chart};
pub use claims::{ClaimsView, NoSuchPaper};
pub use compare::{ComparedPoint, ComparisonReport, GateResult, compare};
pub use export::{csv, json_lines};
pub use grid::{Side, grid};
pub use html::html;
pub use measured::{Measured, measured_json, measured_text};
pub use number::fixed;
pub use papers::{PaperPart, PaperView, UnknownPaper, papers_json, papers_text};
pub use published::published_names;
pub use require::{Kept, ParseRequirementError, Requirement};
pub use summary::summary_json;
pub use table::Change;
pub use text::text;

/// Everything that a report is made from.
#[derive(Clone, Copy, Debug)]
pub struct Experiment<'a> {
    /// Short name, such as the plan file's stem.
    pub name: &'a str,
    /// What was planned, and what to show of it.
    pub plan: &'a Plan,
    /// What the runs left, in any order.
    pub records: &'a [Record],
    /// What the instrument itself costs, where it was measured.
    pub instrument: Option<Instrument>,
    /// When the experiment began, in RFC 3339.
    pub started: &'a str,
    /// The exact command that carries it out again.
    pub reproduce: &'a str,
    /// Whether every planned run is among the records.
    pub planned_complete: bool,
    /// Whether the plan's `[quick]` table was applied.
    pub quick: bool,
}
