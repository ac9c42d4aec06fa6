//! A report as one self-contained page.

mod details;
mod table;

use askama::Template;
use fabricmark_stats::Verdict;

use crate::answer::{self, Answer};
use crate::chart::{self, ChartFile, Form};
use crate::facts::{self, Fact};
use crate::grid::PlainTable;
use crate::runs::ByPoint;
use crate::view::tables;
use crate::{Experiment, models, notes, scaling, sharing, shop, summary};
use table::TablePart;

/// The page: one HTML file with its styles, script, charts and aggregates.
pub fn html(e: &Experiment<'_>) -> String {
    let tables = tables(e);
    let runs = ByPoint::of(e.records);
    let all: Vec<_> = e.plan.points.iter().filter_map(|point| runs.get(point)).collect();
    let presentation = &e.plan.presentation;
    // Without `<` no text in the data can end the script element.
    let json = summary::summary_json(e).to_string().replace('<', "\\u003c");
    let page = Page {
        title: &presentation.title,
        about: &presentation.about,
        answers: answer::answers(e, &tables),
        forests: chart::forests(e, &tables, Form::Inline),
        charts: chart::drawings(e, Form::Inline),
        tables: tables.iter().map(TablePart::of).collect(),
        scaling: scaling::tables(&scaling::scaling(e)),
        sharing: sharing::tables(&sharing::sharing(e)),
        models: models::tables(&models::models(e)),
        shop: shop::tables(&shop::shops(e)),
        method: facts::method(e),
        warnings: notes::of_runs(&all),
        footer: facts::footer(e),
        style: concat!(
            include_str!("../../templates/report.css"),
            include_str!("../chart/style.css")
        ),
        script: include_str!("../../templates/report.js"),
        json,
    };
    page.render().expect("writing to a string does not fail")
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: &'a str,
    about: &'a str,
    answers: Vec<Answer>,
    forests: Vec<ChartFile>,
    charts: Vec<ChartFile>,
    tables: Vec<TablePart<'a>>,
    scaling: Vec<PlainTable>,
    sharing: Vec<PlainTable>,
    models: Vec<PlainTable>,
    shop: Vec<PlainTable>,
    method: Vec<Fact>,
    warnings: Vec<String>,
    footer: Vec<Fact>,
    style: &'a str,
    script: &'a str,
    json: String,
}

/// CSS class of a verdict.
fn class(verdict: Option<&Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Faster) => "verdict faster",
        Some(Verdict::Slower) => "verdict slower",
        Some(Verdict::Same) => "verdict same",
        Some(Verdict::Inconclusive) => "verdict unknown",
        None => "verdict none",
    }
}
