//! `--path auto`: the path that moves most, by trials of those that the setting supports.

use fabricmark_plan::{Figure, Path, Plan};
use fabricmark_record::Record;
use fabricmark_stats::StopRule;
use fabricmark_units::Nanos;

use super::CONFIDENCE;
use crate::exit::{Code, Failure};

/// The paths between which it chooses: those that carry data from and to memory of the program. The first one is that of
/// every transport.
pub const CANDIDATES: [Path; 6] =
    [Path::Copy, Path::Mmsg, Path::Gso, Path::ZeroCopy, Path::Uring, Path::UringZeroCopy];

/// Length and number of the trials of each path.
const TRIAL: Nanos = Nanos::from_millis(100);
const TRIALS: usize = 5;

/// The fastest path, and a sentence about all of them. `of_path` makes the plan of a path, if the setting supports it;
/// `run` runs the plan of the trials.
pub fn path(
    of_path: impl Fn(Path) -> Result<Plan, Failure>,
    run: &mut dyn FnMut(&Plan) -> Result<Vec<Record>, Failure>,
) -> Result<(Path, String), Failure> {
    let mut trials = of_path(CANDIDATES[0])?;
    let others = CANDIDATES[1..].iter().filter_map(|&path| of_path(path).ok());
    trials.points.extend(others.flat_map(|plan| plan.points));
    trials.comparison_groups = vec![(0..trials.points.len()).collect()];
    trials.stop = StopRule::of_runs(CONFIDENCE, TRIALS);
    trials.duration_ns = TRIAL;
    (trials.omit_ns, trials.amount, trials.steady) = (Nanos(0), None, None);
    (trials.interval_ns, trials.slices) = (None, false);
    let records = run(&trials)?;
    fastest(&trials, &records)
}

fn fastest(trials: &Plan, records: &[Record]) -> Result<(Path, String), Failure> {
    let mut paths: Vec<(Path, f64)> = trials
        .points
        .iter()
        .filter_map(|point| {
            let figure = Figure::deciding(point);
            let counted = records.iter().filter(|one| one.point == *point && one.counts());
            let mut values: Vec<f64> =
                counted.filter_map(|record| record.figures.value(figure)).collect();
            values.sort_by(f64::total_cmp);
            let median = *values.get(values.len() / 2)?;
            let speed = if figure.spec().is_higher_better { median } else { 1.0 / median };
            Some((point.path, speed))
        })
        .collect();
    paths.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let Some(&(best, speed)) = paths.first() else {
        let message = "no path has a valid trial: name one instead of auto";
        return Err(Failure::new(Code::RunFailed, message));
    };
    let others = paths[1..].iter().map(|(path, other)| format!("{path} {:.2}", other / speed));
    let others: Vec<String> = others.collect();
    let text = match &others[..] {
        [] => format!("path={best}: no other one is supported"),
        _ => format!(
            "path={best}: the fastest in trials of {TRIAL} (relative to it: {})",
            others.join(", ")
        ),
    };
    Ok((best, text))
}
