//! Prints stored experiments, and writes their reports.

use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Component, Path, PathBuf};

use fabricmark_plan::{Plan, Problems, Size};
use fabricmark_record::{Outcome, Record};
use fabricmark_report as report;
use fabricmark_store::{Experiment, Store};

use crate::exit::{Code, Failure};
use crate::locale;
use crate::options::Place;

/// Width of tables if standard output is not a terminal.
const WIDTH: usize = 160;

/// Parses a plan; it may refer to the published tables that this version knows.
pub fn parse(file: &str, text: &str, size: Size) -> Result<Plan, Problems> {
    let published = report::published_names();
    let published: Vec<&str> = published.iter().map(String::as_str).collect();
    fabricmark_plan::parse(file, text, size, &published)
}

/// The plan of an experiment, without its traces.
pub fn plan(experiment: &Experiment) -> Result<Plan, Failure> {
    let size = if experiment.facts.is_quick { Size::Quick } else { Size::Full };
    let plan = parse(&experiment.facts.plan_file, &experiment.facts.plan_text, size).map_err(
        |problems| {
            let name = &experiment.name;
            Failure::input(format!("the plan stored with {name} is invalid\n{problems}"))
        },
    )?;
    let link = experiment.facts.link.as_ref().and_then(|link| link.parse().ok());
    match &experiment.facts.host {
        Some(host) => Ok(plan.to_host(host, link)?),
        None => Ok(plan),
    }
}

/// An experiment with its plan and records.
pub struct Loaded {
    experiment: Experiment,
    plan: Plan,
    /// Records in the order of their runs.
    pub records: Vec<Record>,
}

impl Loaded {
    /// The experiment with this name, or the `latest`.
    pub fn find(place: &Place, name: &str) -> Result<Self, Failure> {
        let store = Store::open_existing(&place.store_file())?;
        Self::of(&store, &store.find(name)?)
    }

    pub fn of(store: &Store, experiment: &Experiment) -> Result<Self, Failure> {
        let mut plan = plan(experiment)?;
        let records = store.records(experiment)?;
        if plan.topology.is_some() {
            // Take delays and MTU from the records: the topology file may have changed since.
            for record in &records {
                if let Some(point) = plan.points.get_mut(record.place.point as usize) {
                    point.clone_from(&record.point);
                }
            }
        }
        Ok(Self { experiment: experiment.clone(), plan, records })
    }

    /// Confidence level of the plan, as a fraction.
    pub fn confidence(&self) -> f64 {
        self.plan.stop.confidence
    }

    /// Fails if none of its runs counts, with the reason of the last one.
    pub fn require_valid_run(&self) -> Result<(), Failure> {
        let last = self.records.iter().rfind(|record| !record.place.warm_up);
        match last.map(|record| &record.outcome) {
            _ if self.records.iter().any(Record::counts) => Ok(()),
            Some(Outcome::Skipped(reason) | Outcome::Invalid(reason)) => {
                Err(Failure::new(Code::RunFailed, format!("no valid run: {reason}")))
            }
            _ => Ok(()),
        }
    }

    /// Input of the reports.
    pub fn view(&self) -> report::Experiment<'_> {
        let Self { experiment, plan, records } = self;
        report::Experiment {
            name: &experiment.name,
            plan,
            records,
            instrument: experiment.facts.instrument,
            started: &experiment.facts.started,
            reproduce: &experiment.facts.reproduce,
            planned_complete: experiment.is_complete,
            quick: experiment.facts.is_quick,
        }
    }
}

/// Prints an experiment, writes its report, and prints its path.
pub fn show(loaded: &Loaded, out: &Path, is_json: bool) -> Result<(), Failure> {
    let view = loaded.view();
    answer(is_json, || report::summary_json(&view), || report::text(&view, width()))?;
    write(loaded, out)
}

/// Writes an experiment's report, and prints its path.
pub fn write(loaded: &Loaded, out: &Path) -> Result<(), Failure> {
    let view = loaded.view();
    let folder = folder_of(out, &loaded.experiment.name)?;
    let mut files = vec![
        ("report.html".to_owned(), report::html(&view)),
        ("results.json".to_owned(), pretty(&report::summary_json(&view))),
        ("runs.csv".to_owned(), report::csv(&loaded.records)),
    ];
    let charts = report::charts(&view);
    files.extend(charts.into_iter().map(|chart| (format!("charts/{}", chart.name), chart.svg)));
    fs::create_dir_all(folder.join("charts")).map_err(Failure::output(folder.display()))?;
    let count = files.len() - 3;
    for (name, text) in files {
        let file = folder.join(name);
        fs::write(&file, text).map_err(Failure::output(file.display()))?;
    }
    note!(
        "report   {}\ncharts   {} ({count} SVG files)\nresults  {}, {}",
        folder.join("report.html").display(),
        folder.join("charts").display(),
        folder.join("results.json").display(),
        folder.join("runs.csv").display(),
    );
    Ok(())
}

/// Folder of an experiment in the one of `--out`. A store from another host may have any name.
fn folder_of(out: &Path, name: &str) -> Result<PathBuf, Failure> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(out.join(only)),
        _ => Err(Failure::input(format!("the experiment {name:?} has no name for a folder"))),
    }
}

/// Indented JSON with a newline at its end.
pub fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// Prints an answer as JSON or text.
pub fn answer(
    is_json: bool,
    json: impl FnOnce() -> serde_json::Value,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    print(&if is_json { pretty(&json()) } else { text() })
}

/// Prints to standard output; in ASCII to a terminal that shows nothing else.
pub fn print(text: &str) -> Result<(), Failure> {
    if !stdout().is_terminal() {
        return print_bytes(text.as_bytes());
    }
    print_bytes(locale::shown(&locale::harmless(text)).as_bytes())
}

/// Prints to standard output. EPIPE is not an error: the reader has closed the pipe.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    match stdout().lock().write_all(bytes).and_then(|()| stdout().flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::output("standard output")(error)),
        Ok(()) => Ok(()),
    }
}

/// Width of tables: that of the terminal, or enough for a table of one link.
pub fn width() -> usize {
    terminal_columns().unwrap_or(WIDTH)
}

/// Columns of the terminal; `None` if standard output is not a terminal.
pub fn terminal_columns() -> Option<usize> {
    let terminal = stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(stdout()).ok());
    terminal.flatten().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Aligns columns: each is as wide as its widest cell, and numbers are right-aligned.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let is_number = |column: usize| {
        rows.iter().skip(1).all(|row| row[column].bytes().all(|byte| byte.is_ascii_digit()))
    };
    let numbers: [bool; N] = std::array::from_fn(is_number);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).zip(numbers).map(|((cell, width), is_number)| {
            if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let cells: Vec<_> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_experiment_is_written_outside_the_folder() {
        let out = Path::new("out");
        assert_eq!(folder_of(out, "ipv6-1").unwrap(), Path::new("out/ipv6-1"));
        for name in ["..", ".", "", "/etc", "a/b", "../a", "a/"] {
            assert!(folder_of(out, name).is_err(), "{name}");
        }
    }
}
