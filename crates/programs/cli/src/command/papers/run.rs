//! `fabricmark papers run`: a paper's experiment on today's hosts, beside what it printed.

use std::path::Path;
use std::process::ExitCode;

use fabricmark_report::{self as report, ClaimsView};
use serde_json::json;

use crate::command::run::{Job, carry_out};
use crate::exit::{Code, Failure};
use crate::options::RunPaper;
use crate::output::{Loaded, pretty, print, width, write};

/// What can be run today: the paper, and behind a dash which of its experiments; plan file and its text.
const PLANS: &[(&str, &str, &str)] = &[
    ("P1", "plans/p1.toml", include_str!("../../../../../../plans/p1.toml")),
    ("P1-modes", "plans/p1-modes.toml", include_str!("../../../../../../plans/p1-modes.toml")),
    ("P1-speeds", "plans/p1-speeds.toml", include_str!("../../../../../../plans/p1-speeds.toml")),
    ("P1-IPoIB", "plans/p1-ipoib.toml", include_str!("../../../../../../plans/p1-ipoib.toml")),
    ("P2", "plans/p2.toml", include_str!("../../../../../../plans/p2.toml")),
    ("P3", "plans/lfn.toml", include_str!("../../../../../../plans/lfn.toml")),
    ("P4", "plans/p4.toml", include_str!("../../../../../../plans/p4.toml")),
];

/// Runs the paper's plan, shows its tables with the published columns beside the new ones, and then
/// the paper's claims on the new figures alone.
pub fn run(options: &RunPaper) -> Result<ExitCode, Failure> {
    let wanted = |(name, ..): &&(&str, &str, &str)| name.eq_ignore_ascii_case(&options.paper);
    let Some((name, file, text)) = PLANS.iter().find(wanted) else {
        return Err(no_plan(&options.paper));
    };
    let paper = name.split('-').next().unwrap_or(name);
    let command = format!("fabricmark papers run {name}");
    let job = Job { file: Path::new(file), text, command: &command, how: &options.how };
    let Some((store, experiment)) = carry_out(&job)? else { return Ok(ExitCode::SUCCESS) };
    let loaded = Loaded::of(&store, &experiment)?;
    let view = loaded.view();
    let claims = ClaimsView::of(&[view], &[paper.to_owned()])?;
    if options.how.json {
        let both = json!({ "results": report::summary_json(&view), "claims": claims.json() });
        print(&pretty(&both))?;
    } else {
        print(&format!("{}\n{}", report::text(&view, width()), claims.text(width())))?;
    }
    eprintln!("{}", write(&loaded, &options.how.place.out)?);
    Ok(ExitCode::SUCCESS)
}

fn no_plan(paper: &str) -> Failure {
    let known: Vec<&str> = PLANS.iter().map(|(name, ..)| *name).collect();
    let message = format!("{paper} cannot be run; what can be today: {}", known.join(", "));
    Failure::new(Code::Input, message)
}
