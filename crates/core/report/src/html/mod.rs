//! A report as one page that needs no network.

mod details;
mod table;

use askama::Template;
use fabricmark_stats::Verdict;

use crate::answer::{self, Answer};
use crate::chart::{self, ChartFile, Form};
use crate::facts::{self, Fact};
use crate::runs::ByPoint;
use crate::view::tables;
use crate::{Experiment, notes, summary};
use table::TablePart;

/// The page: one self-contained HTML file with its styles, script, charts and aggregates.
pub fn html(e: &Experiment<'_>) -> String {
    let tables = tables(e);
    let runs = ByPoint::of(e.records);
    let all: Vec<_> = e.plan.points.iter().filter_map(|point| runs.get(point)).collect();
    let presentation = &e.plan.presentation;
    // Without `<` no text of the data can end the script element.
    let json = summary::summary_json(e).to_string().replace('<', "\\u003c");
    let answers = answer::answers(e, &tables);
    let page = Page {
        title: &presentation.title,
        about: &presentation.about,
        has_verdicts: answers.iter().any(|answer| !answer.verdicts.is_empty()),
        answers,
        charts: chart::drawings(e, Form::Inline),
        tables: tables.iter().map(TablePart::of).collect(),
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
    has_verdicts: bool,
    answers: Vec<Answer>,
    charts: Vec<ChartFile>,
    tables: Vec<TablePart<'a>>,
    method: Vec<Fact>,
    warnings: Vec<String>,
    footer: Vec<Fact>,
    style: &'a str,
    script: &'a str,
    json: String,
}

/// The class of a verdict, and its sign, so that the strip of an answer does not rest on colour.
fn shown(verdict: Option<&Verdict>) -> (&'static str, &'static str) {
    match verdict {
        Some(Verdict::Faster) => ("verdict faster", "+"),
        Some(Verdict::Slower) => ("verdict slower", "−"),
        Some(Verdict::Same) => ("verdict same", "="),
        Some(Verdict::Inconclusive) => ("verdict unknown", "?"),
        None => ("verdict none", ""),
    }
}

fn word(verdict: Option<&Verdict>) -> String {
    verdict.map_or_else(|| "not compared".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_a_sign_of_its_own() {
        let verdicts = [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Inconclusive];
        let mut signs = verdicts.map(|verdict| shown(Some(&verdict)).1);
        signs.sort_unstable();
        assert!(signs.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
