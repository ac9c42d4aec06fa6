//! Charts as SVG: inline in the page, or as files of their own.
//!
//! Colours are CSS variables, so one drawing serves light and dark. Nothing is told by colour alone:
//! lines differ in dash and marker, bars in their hatching.

mod bars;
mod course;
mod curves;
mod frame;
mod lines;
mod modelled;
mod plot;
mod reference;
mod scale;
mod svg;

use fabricmark_plan::{Chart, ChartKind, CourseChart, Drawing, Plan};

pub use curves::{Curve, goodput_chart};
pub use modelled::{Course, course_chart};

use crate::Experiment;
use crate::course::CoursePlot;
use crate::runs::ByPoint;

/// A chart as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// Name of the file: `01-udp-goodput.svg`.
    pub name: String,
    /// Title of the chart.
    pub title: String,
    /// The whole file.
    pub svg: String,
}

/// The plan's charts, each a self-contained SVG file that follows the reader's light or dark theme.
pub fn charts(e: &Experiment<'_>) -> Vec<ChartFile> {
    drawings(e, Form::File)
}

/// The plan's charts for a page that holds `style.css` and prints the titles itself.
pub(crate) fn inline(e: &Experiment<'_>) -> Vec<ChartFile> {
    drawings(e, Form::Inline)
}

/// Where a drawing will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    File,
    Inline,
}

fn drawings(e: &Experiment<'_>, form: Form) -> Vec<ChartFile> {
    let runs = ByPoint::of(e.records);
    let charts = e.plan.presentation.charts.iter().enumerate();
    charts
        .filter_map(|(place, drawing)| {
            let place = place + 1;
            match drawing {
                Drawing::Levels(chart) => of_levels(e.plan, chart, &runs, place, form),
                Drawing::Course(chart) => of_course(e.plan, chart, &runs, place, form),
            }
        })
        .collect()
}

fn of_levels(
    plan: &Plan,
    chart: &Chart,
    runs: &ByPoint<'_>,
    place: usize,
    form: Form,
) -> Option<ChartFile> {
    let plot = plot::Plot::of(plan, chart, runs)?;
    let stem = format!("{place:02}-{}", slug(&plot.title));
    let svg = match chart.kind {
        ChartKind::Lines => lines::draw(&plot, &stem, form),
        ChartKind::Bars => bars::draw(&plot, &stem, form),
    };
    Some(ChartFile { name: format!("{stem}.svg"), title: plot.title, svg })
}

fn of_course(
    plan: &Plan,
    chart: &CourseChart,
    runs: &ByPoint<'_>,
    place: usize,
    form: Form,
) -> Option<ChartFile> {
    let plot = CoursePlot::of(plan, chart, runs)?;
    let name = format!("{place:02}-{}.svg", slug(&plot.title));
    let svg = course::draw(&plot, form);
    Some(ChartFile { name, title: plot.title, svg })
}

/// Letters and digits of a title, parted by hyphens.
fn slug(title: &str) -> String {
    let words: Vec<String> = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-")
}
