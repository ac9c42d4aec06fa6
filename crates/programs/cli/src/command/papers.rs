//! `fabricmark papers`: published figures, what the wire allows, and the claims of the papers.

use std::path::Path;

use fabricmark_report::{self as report, ClaimsView};
use serde_json::json;

use crate::command::run::{Again, Job, carry_out};
use crate::exit::Failure;
use crate::options::{Papers, RunPaper, ShowPaper, VerifyPapers};
use crate::output::{Loaded, answer, width, write};

pub fn papers(command: &Papers) -> Result<(), Failure> {
    match command {
        Papers::List { json } => {
            answer(*json, report::papers_json, || report::papers_text(width()))
        }
        Papers::Show(options) => show(options),
        Papers::Verify(options) => verify(options),
        Papers::Run(options) => run(options),
    }
}

fn show(options: &ShowPaper) -> Result<(), Failure> {
    let part = match &options.table {
        Some(table) => report::PaperPart::Table(table),
        None if options.text => report::PaperPart::Text,
        None => report::PaperPart::All,
    };
    let view = report::PaperView::of(&options.paper, part).map_err(Failure::input)?;
    answer(options.json, || view.json(), || view.text(width()))
}

/// Prints the verdicts on the claims. A claim that fails is a result, not an error.
fn verify(options: &VerifyPapers) -> Result<(), Failure> {
    let claims = if options.run.is_empty() {
        ClaimsView::published(&options.papers)?
    } else {
        let load = |name: &String| Loaded::find(&options.place, name);
        let loaded = options.run.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let views: Vec<_> = loaded.iter().map(Loaded::view).collect();
        ClaimsView::of(&views, &options.papers)?
    };
    answer(options.json, || claims.json(), || claims.text(width()))
}

/// Plans that can be run: paper, with a suffix for one of its experiments; plan file; text.
const PLANS: &[(&str, &str, &str)] = &[
    ("P1", "plans/p1.toml", include_str!("../../../../../plans/p1.toml")),
    ("P1-modes", "plans/p1-modes.toml", include_str!("../../../../../plans/p1-modes.toml")),
    ("P1-speeds", "plans/p1-speeds.toml", include_str!("../../../../../plans/p1-speeds.toml")),
    ("P1-IPoIB", "plans/p1-ipoib.toml", include_str!("../../../../../plans/p1-ipoib.toml")),
    ("P2", "plans/p2.toml", include_str!("../../../../../plans/p2.toml")),
    (
        "P2-together",
        "plans/p2-together.toml",
        include_str!("../../../../../plans/p2-together.toml"),
    ),
    ("P2-shop", "plans/p2-shop.toml", include_str!("../../../../../plans/p2-shop.toml")),
    ("P2-verbs", "plans/p2-verbs.toml", include_str!("../../../../../plans/p2-verbs.toml")),
    ("P3", "plans/lfn.toml", include_str!("../../../../../plans/lfn.toml")),
    ("P4", "plans/p4.toml", include_str!("../../../../../plans/p4.toml")),
    ("P4-verbs", "plans/p4-verbs.toml", include_str!("../../../../../plans/p4-verbs.toml")),
    ("P5", "plans/p5.toml", include_str!("../../../../../plans/p5.toml")),
    ("P5-models", "plans/p5-models.toml", include_str!("../../../../../plans/p5-models.toml")),
];

/// The topology of P5's plans.
const HUB: &str = include_str!("../../../../../plans/labs/hub.toml");

/// Runs a paper's plan, prints its tables with the published columns beside the new ones, then checks the paper's
/// claims on the new figures alone.
fn run(options: &RunPaper) -> Result<(), Failure> {
    let wanted = |(name, ..): &&(&str, &str, &str)| name.eq_ignore_ascii_case(&options.paper);
    let Some((name, file, text)) = PLANS.iter().find(wanted) else {
        return Err(no_plan(&options.paper));
    };
    let paper = name.split('-').next().unwrap_or(name);
    let command = format!("fabricmark papers run {name}");
    let topology = Some(HUB).filter(|_| paper == "P5");
    let job = Job {
        file: Path::new(file),
        text,
        topology,
        command: &command,
        again: Again::Same,
        how: &options.how,
    };
    let Some(loaded) = carry_out(&job)? else { return Ok(()) };
    let view = loaded.view();
    let claims = ClaimsView::of(&[view], &[paper.to_owned()])?;
    let both = || json!({ "results": report::summary_json(&view), "claims": claims.json() });
    let text = || format!("{}\n{}", report::text(&view, width()), claims.text(width()));
    answer(options.how.json, both, text)?;
    write(&loaded, &options.how.place.out)?;
    loaded.require_valid_run()
}

fn no_plan(paper: &str) -> Failure {
    let known: Vec<&str> = PLANS.iter().map(|(name, ..)| *name).collect();
    let message = format!("{paper} has no plan to run; use one of {}", known.join(", "));
    Failure::input(message)
}
