//! Charts as SVG: inline in the page, or as separate files.
//!
//! Colours are CSS variables, so one drawing serves light and dark themes. Series do not rely on colour alone: lines
//! differ in dash and marker, bars in their hatching.

mod bars;
mod course;
mod forest;
mod frame;
mod lines;
mod modelled;
mod plot;
mod reference;
mod scale;
mod svg;

pub(crate) use svg::escaped;

use fabricmark_plan::{ChartKind, Drawing};

pub use modelled::{Curve, course_chart, goodput_chart, rtt_chart};

use crate::Experiment;
use crate::course::CoursePlot;
use crate::runs::ByPoint;
use crate::table::TableView;
use crate::view::tables;
use plot::Plot;

/// A chart as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// File name: `01-udp-goodput.svg`.
    pub name: String,
    /// Title of the chart.
    pub title: String,
    /// Content of the file.
    pub svg: String,
}

/// The plan's charts, each a self-contained SVG file that follows the reader's light or dark theme.
pub fn charts(e: &Experiment<'_>) -> Vec<ChartFile> {
    let mut all = forests(e, &tables(e), Form::File);
    all.extend(drawings(e, Form::File));
    all
}

/// A forest plot per comparison of the plan.
pub(crate) fn forests(e: &Experiment<'_>, tables: &[TableView<'_>], form: Form) -> Vec<ChartFile> {
    e.plan.compare.iter().filter_map(|compare| forest::draw(tables, compare, form)).collect()
}

/// Where a drawing is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    File,
    /// In a page that includes `style.css` and prints the titles.
    Inline,
}

pub(crate) fn drawings(e: &Experiment<'_>, form: Form) -> Vec<ChartFile> {
    let runs = ByPoint::of(e.records);
    let drawn = |(place, drawing): (usize, &Drawing)| {
        let stem = |title: &str| format!("{:02}-{}", place + 1, slug(title));
        let (title, svg) = match drawing {
            Drawing::Levels(chart) => {
                let plot = Plot::of(e.plan, chart, &runs)?;
                let svg = match chart.kind {
                    ChartKind::Lines => lines::draw(&plot, form),
                    ChartKind::Bars => bars::draw(&plot, &stem(&plot.title), form),
                };
                (plot.title, svg)
            }
            Drawing::Course(chart) => {
                let plot = CoursePlot::of(e.plan, chart, &runs)?;
                let svg = course::draw(&plot, form);
                (plot.title, svg)
            }
        };
        Some(ChartFile { name: format!("{}.svg", stem(&title)), title, svg })
    };
    e.plan.presentation.charts.iter().enumerate().filter_map(drawn).collect()
}

/// Letters and digits of a title, separated by hyphens.
fn slug(title: &str) -> String {
    let words: Vec<String> = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-")
}
