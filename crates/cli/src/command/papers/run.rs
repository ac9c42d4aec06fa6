//! `fabricmark papers run`: a paper's experiment on today's hosts, beside what it printed.

use std::path::Path;
use std::process::ExitCode;

use fabricmark_report::{self as report, ClaimsView};
use serde_json::json;

use crate::command::run::{Job, carry_out};
use crate::exit::{Code, Failure};
use crate::options::RunPaper;
use crate::output::{Loaded, pretty, print, width, write};

/// Papers that can be run today: name, plan file and its text.
const PLANS: [(&str, &str, &str); 1] =
    [("P1", "plans/p1.toml", include_str!("../../../../../plans/p1.toml"))];

/// Runs the paper's plan, shows its tables with the published columns beside the new ones, and then
/// the paper's claims on the new figures alone.
pub fn run(options: &RunPaper) -> Result<ExitCode, Failure> {
    let Some((paper, file, text)) = PLANS.into_iter().find(|(paper, ..)| *paper == options.paper)
    else {
        return Err(no_plan(&options.paper));
    };
    let command = format!("fabricmark papers run {paper}");
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
    let known: Vec<&str> = PLANS.iter().map(|(paper, ..)| *paper).collect();
    let message = format!("{paper} cannot be run; what can be today: {}", known.join(", "));
    Failure::new(Code::Input, message)
}
