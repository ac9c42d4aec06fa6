//! `shop load --highest`: the most browsers without errors and within all limits, by bisection.

use fabricmark_control::{Browse, PlanError, Progress, Shop, Watch, Workers};
use fabricmark_plan::{Interaction, Point};
use serde_json::{Value, json};

use super::{UNUSED, levels, parsed, placed, plan_text};
use crate::command::run::this_program;
use crate::exit::Failure;
use crate::interrupt::interruptions;
use crate::options::shop::Load;
use crate::output::{aligned, answer};
use crate::progress::Line;

/// Ratio of the lowest load that failed to the highest that passed, at which the search ends.
const CLOSE: f64 = 1.1;

/// Most runs of a search.
const RUNS_MAX: usize = 20;

/// Share of pages that TPC-W wants within the limit: its limits are of the 90th percentile.
const WITHIN_MIN: f64 = 0.9;

/// Pages of an interaction from which on its percentile counts: with fewer, a single page decides.
const PAGES_MIN: u64 = 10;

/// A run with some number of browsers.
struct Tried {
    browsers: u32,
    interactions_per_s: f64,
    /// Why it failed; `None`: it passed.
    failure: Option<String>,
}

/// Searches for the highest load, and prints all runs.
pub(super) fn highest(options: &Load) -> Result<(), Failure> {
    let plan = parsed(&plan_text("Bookstore", &levels(options), UNUSED))?;
    let (plan, peer) = placed(&options.tiers, plan)?;
    let interrupted = interruptions()?;
    let mut line = Line::new();
    let progress = &mut |what: &str, done, of| line.prepares(what, done, of);
    let mut watch = Watch { interrupted: &interrupted, progress };
    let workers = Workers { program: &this_program()?, peer: &peer, calibration: None };
    let mut shop = Shop::start(&plan.points, &workers, None, &mut watch)?;
    let mut tried: Vec<Tried> = Vec::new();
    let mut run = |browsers, seed| {
        // Servers without the connections of an overload.
        let mut load = shop.prepare(&plan.points[0], &mut watch)?;
        load.browsers.ramp_up_ns = options.warm_up;
        load.browsers.window_ns = options.duration;
        load.browsers.browsers = browsers;
        load.browsers.seed = seed;
        let result = shop.browse(&load, &mut watch)?;
        let point = Point { browsers: Some(browsers), ..plan.points[0].clone() };
        Ok::<_, PlanError>(evaluate(&point, &result))
    };
    let (mut next, mut stopped) = (Some(options.tiers.browsers), None);
    while let Some(browsers) = next.filter(|_| tried.len() < RUNS_MAX) {
        match run(browsers, 1 + tried.len() as u64) {
            Ok(one) => tried.push(one),
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
        next = next_load(&tried);
    }
    line.clear();
    if !tried.is_empty() {
        answer(options.json, || json_of(&tried), || text_of(&tried, stopped.is_none()))?;
    }
    stopped.map_or(Ok(()), |error| Err(error.into()))
}

/// The highest load that passed.
fn highest_of(tried: &[Tried]) -> Option<u32> {
    let is_passed = |one: &&Tried| one.failure.is_none();
    tried.iter().filter(is_passed).map(|one| one.browsers).max()
}

/// All runs as a table, and the highest load; `is_finished` is false if the search was stopped.
fn text_of(tried: &[Tried], is_finished: bool) -> String {
    let head = ["browsers", "interactions/s", "result"].map(str::to_owned);
    let row = |one: &Tried| {
        let result = one.failure.clone().unwrap_or_else(|| "within all limits".to_owned());
        [one.browsers.to_string(), format!("{:.2}", one.interactions_per_s), result]
    };
    let rows: Vec<_> = std::iter::once(head).chain(tried.iter().map(row)).collect();
    let so_far = if is_finished { "" } else { " until the search was stopped" };
    let best = match highest_of(tried) {
        Some(best) => {
            format!("highest load without errors and within all limits{so_far}: {best} browsers\n")
        }
        None if is_finished => "no load passed: use fewer --browsers\n".to_owned(),
        None => format!("no load passed{so_far}\n"),
    };
    format!("{}\n{best}", aligned(&rows))
}

fn json_of(tried: &[Tried]) -> Value {
    let run = |one: &Tried| {
        json!({
            "browsers": one.browsers,
            "interactions_per_s": one.interactions_per_s,
            "failure": one.failure,
        })
    };
    let best = highest_of(tried);
    json!({ "highest_browsers": best, "runs": tried.iter().map(run).collect::<Vec<_>>() })
}

/// The next number of browsers: doubled until a run fails, then between the last two.
fn next_load(tried: &[Tried]) -> Option<u32> {
    let passed = tried.iter().filter(|one| one.failure.is_none()).map(|one| one.browsers).max();
    let failed = tried.iter().filter(|one| one.failure.is_some()).map(|one| one.browsers).min();
    match (passed, failed) {
        (Some(passed), None) => Some(2 * passed),
        (None, Some(failed)) => Some(failed / 2).filter(|&browsers| browsers > 0),
        (Some(passed), Some(failed)) => {
            let middle = passed.midpoint(failed);
            let is_close = f64::from(failed) <= CLOSE * f64::from(passed) || middle == passed;
            (!is_close).then_some(middle)
        }
        (None, None) => None,
    }
}

fn evaluate(point: &Point, browse: &Browse) -> Tried {
    let run = browse.of(Interaction::All);
    let late = browse.browsed.interactions.iter().find(|(of, result)| {
        let pages = result.times_ns.len();
        let is_within = result.within_limit as f64 >= WITHIN_MIN * pages as f64;
        *of != Interaction::All && pages >= PAGES_MIN && !is_within
    });
    let failure = if let Some(first) = browse.violations(point).into_iter().next() {
        Some(first)
    } else if run.result.errors > 0 {
        let example = run.load.errors.first().cloned().unwrap_or_default();
        let errors = match run.result.errors {
            1 => "an error".to_owned(),
            errors => format!("{errors} errors"),
        };
        Some(format!("{errors}, such as {example}"))
    } else if run.interactions == 0 {
        Some("no interaction was completed".to_owned())
    } else {
        late.map(|(of, result)| {
            let share = 100.0 * result.within_limit as f64 / result.times_ns.len() as f64;
            format!("only {share:.1} % of {of} are within their limit")
        })
    };
    let window_s = run.load.window_ns.0.max(1) as f64 / 1e9;
    let interactions_per_s = run.interactions as f64 / window_s;
    Tried { browsers: point.browsers.unwrap_or(1), interactions_per_s, failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_was_stopped_shows_its_runs_and_says_so() {
        let tried = [Tried { browsers: 9, interactions_per_s: 1.25, failure: None }];
        let text = text_of(&tried, false);
        assert!(text.contains("9  1.25            within all limits"), "{text}");
        assert!(text.ends_with("within all limits until the search was stopped: 9 browsers\n"));
        assert!(text_of(&tried, true).ends_with("within all limits: 9 browsers\n"));
        assert!(text_of(&[], false).ends_with("no load passed until the search was stopped\n"));
    }

    #[test]
    fn loads_are_doubled_until_one_fails_and_then_halve_the_gap() {
        let tried = |all: &[(u32, bool)]| {
            let one = |&(browsers, passes): &(u32, bool)| Tried {
                browsers,
                interactions_per_s: 1.0,
                failure: (!passes).then(String::new),
            };
            next_load(&all.iter().map(one).collect::<Vec<_>>())
        };
        assert_eq!(tried(&[(100, true)]), Some(200));
        assert_eq!(tried(&[(100, false)]), Some(50));
        assert_eq!(tried(&[(1, false)]), None);
        assert_eq!(tried(&[(100, true), (200, true), (400, false)]), Some(300));
        assert_eq!(tried(&[(200, true), (218, false)]), None);
    }
}
