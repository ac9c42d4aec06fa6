//! `fabricmark shop`: the bookstore of paper P2, to use in a browser, and under the load of emulated browsers.

mod highest;
mod up;

use std::fmt::Write;
use std::path::Path;

use fabricmark_control::Peer;
use fabricmark_plan::{Factor, Plan, Size, overlay};

use crate::command::measure::command_line;
use crate::command::run::{self, Again, Job};
use crate::exit::Failure;
use crate::key::access;
use crate::options::shop::{Load, Shop, Tiers, hosts_of_tiers};
use crate::options::{How, Reach};
use crate::output::{self, answer, width, write};

/// Carries out a subcommand.
pub fn shop(command: &Shop) -> Result<(), Failure> {
    match command {
        Shop::Up(options) => up::up(options),
        Shop::Down => up::down(),
        Shop::Load(options) if options.highest => highest::highest(options),
        Shop::Load(options) => load(options),
    }
}

/// The rest of a plan of which only the point is used.
const UNUSED: &str = "[stop]\nruns = 2\n";

/// Text of a plan of the bookstore with these levels of factors.
fn plan_text(title: &str, levels: &[(Factor, Vec<String>)], rest: &str) -> String {
    let mut text = format!("title = \"{title}\"\ntestbed = \"tiers\"\n[factors]\n");
    for (factor, levels) in levels {
        let levels: Vec<String> = levels.iter().map(|level| quoted(level)).collect();
        let _ = writeln!(text, "{factor} = [{}]", levels.join(", "));
    }
    text + rest
}

/// A string of a plan: those of JSON are strings of TOML, too.
fn quoted(level: &str) -> String {
    serde_json::Value::from(level).to_string()
}

fn parsed(text: &str) -> Result<Plan, Failure> {
    output::parse("options", text, Size::Full)
        .map_err(|problems| Failure::input(format!("the options are invalid\n{problems}")))
}

/// The plan for the hosts of the servers, and these hosts.
fn placed(tiers: &Tiers, plan: Plan) -> Result<(Plan, Peer), Failure> {
    if tiers.to.is_empty() {
        // The user namespace must be entered before the first thread starts.
        fabricmark_lab::acquire()?;
        return Ok((plan, Peer::Here));
    }
    let hosts = hosts_of_tiers(&tiers.to, &plan.points).map_err(Failure::input)?;
    let agent = |(node, host): (&&str, &&str)| {
        Ok::<_, Failure>(((*node).to_owned(), access(host, None, &tiers.key)?))
    };
    let agents = hosts.iter().map(agent).collect::<Result<_, _>>()?;
    let names: Vec<String> = hosts.iter().map(|(node, host)| format!("{node}={host}")).collect();
    Ok((plan.to_host(&names.join(" "), None)?, Peer::Agents(agents)))
}

/// The levels of the options of `shop load`.
fn levels(options: &Load) -> Vec<(Factor, Vec<String>)> {
    let mut levels = options.tiers.levels();
    levels.push((Factor::Mix, options.mix.clone()));
    levels.extend(options.think_time.map(|think| (Factor::ThinkTime, think.to_string())));
    levels.extend(options.arrivals.map(|rate| (Factor::Pace, format!("poisson:{rate}/s"))));
    levels.into_iter().map(|(factor, level)| (factor, vec![level])).collect()
}

/// Runs a plan that follows from the options.
fn load(options: &Load) -> Result<(), Failure> {
    let mut levels = levels(options);
    let mut rest = format!(
        "[run]\nwarm_up = \"{}\"\nduration = \"{}\"\n[stop]\nruns = {}\n",
        options.warm_up, options.duration, options.runs
    );
    let mut compared: Option<(Factor, Vec<String>)> = None;
    for text in &options.vs {
        let one = overlay(text)?;
        let (Some((&factor, level)), 1) = (one.iter().next(), one.len()) else {
            return Err(Failure::input(format!("--vs {text}: name one factor")));
        };
        match &mut compared {
            None => compared = Some((factor, vec![level.clone()])),
            Some((first, levels)) if *first == factor => levels.push(level.clone()),
            Some((first, _)) => {
                return Err(Failure::input(format!(
                    "--vs {text}: the other --vs options set {first}; use the same factor in all"
                )));
            }
        }
    }
    match &compared {
        Some((factor, named)) if named.len() > 1 => {
            levels.retain(|(of, _)| of != factor);
            levels.push((*factor, named.clone()));
            for candidate in &named[1..] {
                let (baseline, candidate) = (quoted(&named[0]), quoted(candidate));
                let _ = writeln!(
                    rest,
                    "[[compare]]\nfactor = \"{factor}\"\nbaseline = {baseline}\ncandidate = {candidate}"
                );
            }
        }
        Some((factor, _)) => {
            let message =
                format!("one --vs compares nothing: give the baseline first, --vs {factor}=...");
            return Err(Failure::input(message));
        }
        None => {}
    }
    let text = plan_text("Bookstore", &levels, &rest);
    parsed(&text)?;
    let how = How {
        quick: false,
        fresh: true,
        budget: None,
        to: options.tiers.to.clone(),
        ends: None,
        in_guest: false,
        link: None,
        launcher: None,
        reach: Reach { control: None, key: options.tiers.key.clone() },
        check: false,
        json: options.json,
        place: options.place.clone(),
    };
    let command = command_line();
    let job = Job {
        file: Path::new("shop.toml"),
        text: &text,
        topology: None,
        command: &command,
        again: Again::Anew,
        how: &how,
    };
    let Some(loaded) = run::carry_out(&job)? else { return Ok(()) };
    let view = loaded.view();
    let text = || fabricmark_report::text(&view, width());
    answer(options.json, || fabricmark_report::summary_json(&view), text)?;
    write(&loaded, &options.place.out)?;
    loaded.require_valid_run()
}
