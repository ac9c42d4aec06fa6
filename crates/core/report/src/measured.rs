//! The result of `fabricmark measure`: one setting, or a few side by side.

use std::collections::BTreeMap;

use fabricmark_plan::{Factor, Figure, Pattern, Point, Unit};
use fabricmark_record::{Bottleneck, Flow, Instrument, Node, Record, Warning};
use fabricmark_stats::{Estimate, holm};
use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cell::{Cell, Limit};
use crate::grid::{Side, grid};
use crate::number::{self, RateUnit, Scale, Written};
use crate::require::{Kept, Requirement};
use crate::runs::ByPoint;
use crate::table::Change;
use crate::{Experiment, facts, label, notes, results, select, text};

/// Settings and their results.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The settings, each a point of the plan, and the records of their runs.
    pub experiment: Experiment<'a>,
    /// Name of each point; the others are compared with the first.
    pub names: &'a [String],
    /// Requirements that each setting must meet.
    pub requirements: &'a [Requirement],
}

/// Results of one setting.
struct Setting<'a> {
    name: &'a str,
    cell: Cell<'a>,
    /// Change against the first setting.
    change: Change,
}

/// A requirement of a setting, and whether it is met.
struct Judged<'a> {
    setting: &'a str,
    requirement: &'a Requirement,
    estimate: Option<Estimate>,
    /// Numbers of invalid and of valid runs, if more are invalid: the valid ones may be a biased selection.
    mostly_invalid: Option<(usize, usize)>,
    kept: Kept,
}

/// What `measure --json` prints. Values are in the base unit that their key names; changes and shares are fractions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasureResults<'a> {
    /// The settings; the others are compared with the first.
    settings: Vec<SettingResults<'a>>,
    /// Requirements, each for every setting.
    requirements: Vec<RequirementResult<'a>>,
    /// Records of all runs but warm-ups.
    records: Vec<&'a Record>,
    /// Overhead of the program itself.
    instrument: Option<Instrument>,
    /// Start, in RFC 3339.
    started: &'a str,
    /// Command that reproduces the measurement.
    reproduce: &'a str,
}

/// Results of a setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SettingResults<'a> {
    /// Levels by which it differs from the other settings, or its name.
    name: &'a str,
    /// What was run, with all defaults filled in.
    point: &'a Point,
    /// Estimates over its runs, by the key of the figure, as in records.
    figures: BTreeMap<&'static str, results::Estimated>,
    /// What limited the runs.
    limited_by: Option<&'a Bottleneck>,
    /// Change against the first setting.
    change: Option<results::Comparison>,
    /// Why it is withheld.
    withheld: Option<String>,
}

/// Result of a requirement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RequirementResult<'a> {
    /// Name of the setting.
    setting: &'a str,
    /// The requirement, such as `goodput>=9G`.
    requirement: &'a str,
    /// Whether it is met.
    result: Kept,
}

impl<'a> Measured<'a> {
    /// The deciding figure of the first setting's pattern.
    fn figure(&self) -> Figure {
        self.experiment.plan.points.first().map_or(Figure::Goodput, Figure::deciding)
    }

    fn settings(&self, runs: &ByPoint<'a>) -> Vec<Setting<'a>> {
        let (figure, rule) = (self.figure(), &self.experiment.plan.stop);
        let baseline = self.experiment.plan.points.first().and_then(|point| runs.get(point));
        let change = |place: usize, point: &Point| {
            let baseline = baseline.filter(|_| place > 0)?;
            Some(Change::paired(baseline, runs.get(point)?, figure, rule))
        };
        let mut settings: Vec<Setting<'_>> = self
            .experiment
            .plan
            .points
            .iter()
            .zip(self.names)
            .enumerate()
            .map(|(place, (point, name))| Setting {
                name,
                cell: Cell::of(point, runs.get(point), figure, rule),
                change: change(place, point).unwrap_or_default(),
            })
            .collect();
        holm(settings.iter_mut().filter_map(|setting| setting.change.comparison.as_mut()));
        settings
    }

    fn estimate(&self, runs: &ByPoint<'a>, point: &'a Point, figure: Figure) -> Option<Estimate> {
        Cell::of(point, runs.get(point), figure, &self.experiment.plan.stop).estimate
    }

    /// Whether all settings meet all requirements; the worst result counts.
    pub fn kept(&self) -> Kept {
        self.judged().into_iter().map(|judged| judged.kept).max().unwrap_or(Kept::Yes)
    }

    fn judged(&self) -> Vec<Judged<'a>> {
        let runs = ByPoint::of(self.experiment.records);
        let mut judged = Vec::new();
        for (point, name) in self.experiment.plan.points.iter().zip(self.names) {
            let counts = runs.get(point).map(|runs| (runs.invalid().count(), runs.counted.len()));
            let mostly_invalid = counts.filter(|(invalid, valid)| invalid > valid);
            for requirement in self.requirements {
                let estimate = self.estimate(&runs, point, requirement.figure);
                let kept = match requirement.judge(estimate.as_ref()) {
                    Kept::Yes if mostly_invalid.is_some() => Kept::Inconclusive,
                    kept => kept,
                };
                judged.push(Judged { setting: name, requirement, estimate, mostly_invalid, kept });
            }
        }
        judged
    }
}

/// The result for a terminal of `width` columns, with rates in `rates`.
pub fn measured_text(m: &Measured<'_>, rates: RateUnit, width: usize) -> String {
    let runs = ByPoint::of(m.experiment.records);
    let settings = m.settings(&runs);
    let mut out = String::new();
    match settings.as_slice() {
        [only] => one(&mut out, m, rates, &runs, only),
        several => {
            let figure = m.figure();
            table(&mut out, figure, Scale::with_rates(figure, rates), several);
        }
    }
    let mut lines: Vec<(&str, String)> = Vec::new();
    let of_points: Vec<_> =
        m.experiment.plan.points.iter().filter_map(|point| runs.get(point)).collect();
    if let [only] = settings.as_slice() {
        lines.extend(only.cell.bottleneck.map(|by| ("limited by", label::limited(by))));
    }
    let changes = settings.iter().map(|setting| &setting.change);
    lines.extend(notes::beyond_means(changes).map(|note| ("note", note)));
    if settings.len() > 1 {
        let marked = notes::invalid(settings.iter().map(|setting| &setting.cell));
        lines.extend(marked.map(|note| ("note", note)));
    }
    lines.extend(notes::of_runs(&of_points).into_iter().map(|note| ("note", note)));
    for setting in &settings {
        let of = if settings.len() > 1 { format!("{}: ", setting.name) } else { String::new() };
        let last = runs.get(setting.cell.point).and_then(|runs| runs.counted.last());
        let warnings = last.iter().flat_map(|record| &record.warnings);
        let correlated = warnings.filter(|warning| matches!(warning, Warning::Correlated { .. }));
        lines.extend(correlated.map(|warning| ("note", format!("{of}{warning}"))));
    }
    for Judged { setting, requirement, estimate, mostly_invalid, kept } in m.judged() {
        let of = if settings.len() > 1 { format!(" by {setting}") } else { String::new() };
        let too_few = estimate.filter(|found| found.n > 1 && found.interval.is_none());
        let why = match (mostly_invalid, too_few) {
            (Some((invalid, valid)), _) if kept == Kept::Inconclusive => {
                format!(": {invalid} of {} runs are invalid", invalid + valid)
            }
            (_, Some(Estimate { n, n_needed, .. })) => {
                format!(": {n} runs of the {n_needed} that an interval needs")
            }
            _ => String::new(),
        };
        lines.push(("required", format!("{requirement}: {}{of}{why}", kept.word())));
    }
    lines.push(("settings", shared(m)));
    for fact in facts::footer(&m.experiment) {
        let wanted = ["instrument", "emulator", "runs", "hosts", "interfaces", "reproduce"];
        lines.extend(wanted.contains(&fact.0).then_some(fact));
    }
    out.push('\n');
    for (name, line) in lines {
        text::paragraph(&mut out, &format!("{name:<10}  {line}"), width, "            ");
    }
    out
}

/// All figures of a single setting, one per line.
fn one(
    out: &mut String,
    m: &Measured<'_>,
    rates: RateUnit,
    runs: &ByPoint<'_>,
    setting: &Setting<'_>,
) {
    let Cell { point, .. } = setting.cell;
    let mut rows: Vec<[String; 4]> = Vec::new();
    for figure in Figure::ALL {
        if !figure.spec().patterns.contains(&point.pattern) {
            continue;
        }
        let cell = Cell::of(point, runs.get(point), figure, &m.experiment.plan.stop);
        let unit = Scale::with_rates(figure, rates);
        let Some(estimate) = &cell.estimate else { continue };
        let Written { value, spread } = number::estimate(estimate, unit);
        let spread = if estimate.n > 1 { spread } else { String::new() };
        let limit = cell.limit.as_ref().map(|limit| limit_words(limit, unit)).unwrap_or_default();
        let origin = label::origin(cell.provenance.as_slice());
        rows.push([
            figure.spec().label.to_owned(),
            value,
            format!("{spread} {}", unit.name).trim_start().to_owned(),
            format!("{origin} {limit}").trim_start().to_owned(),
        ]);
    }
    let cell = &setting.cell;
    if let Some(missing) = &cell.missing {
        rows.push(["no figure".to_owned(), missing.clone(), String::new(), String::new()]);
    }
    // If retransmits are a figure of this pattern, they are listed above.
    let is_figure = Figure::Retransmits.spec().patterns.contains(&point.pattern)
        && !runs.get(point).is_some_and(|runs| runs.values(Figure::Retransmits).is_empty());
    for (name, count) in [
        (Figure::Retransmits.spec().label, cell.retransmitted.filter(|_| !is_figure)),
        ("lost packets", cell.lost_packets),
    ] {
        let all = runs.get(point).map_or(0, |runs| runs.counted.len());
        let of = format!("in {}", number::count(all, "run"));
        let count = count.map(|count| number::fixed(count as f64, 0));
        rows.extend(count.map(|count| [name.to_owned(), count, of, String::new()]));
    }
    let counted = || runs.get(point).into_iter().flat_map(|runs| &runs.counted);
    let sum = |of: fn(&Flow) -> Option<u64>| {
        counted().flat_map(|record| record.load()).filter_map(of).reduce(|one, other| one + other)
    };
    let lost = cell.loss.map(|loss| (loss.drops.lost, loss.places()));
    let unplaced = |count| (count, String::new());
    for (name, count) in [
        ("lost datagrams", lost),
        ("reordered datagrams", sum(|flow| flow.reordered).map(unplaced)),
        ("duplicate datagrams", sum(|flow| flow.duplicates).map(unplaced)),
    ] {
        let of = format!("in {}", number::count(counted().count(), "run"));
        rows.extend(
            count.map(|(count, places)| {
                [name.to_owned(), number::fixed(count as f64, 0), of, places]
            }),
        );
    }
    rows.extend(flow_rows(&counted().copied().collect::<Vec<_>>(), &setting.cell, rates));
    rows.extend(cpu_rows(&counted().collect::<Vec<_>>()));
    let reason = runs.get(point).and_then(|runs| runs.invalid().next());
    if let Some(reason) = reason.filter(|_| cell.estimate.is_some()) {
        let of = format!("of {}", number::count(counted().count() + cell.invalid, "run"));
        rows.push(["invalid".to_owned(), cell.invalid.to_string(), of, reason.to_owned()]);
    }
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [name, value, spread] = [0, 1, 2].map(|column| wide(column).unwrap_or_default());
    for row in &rows {
        let line = format!("{:<name$}  {:>value$} {:<spread$}  {}", row[0], row[1], row[2], row[3]);
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Maximum number of flows that have a row each, an arbitrary choice: they fit on a screen.
const FLOW_ROWS_MAX: usize = 16;

/// The share of each flow in the deciding figure, by its payloads, transactions or bursts in all runs.
fn flow_rows(counted: &[&Record], cell: &Cell<'_>, rates: RateUnit) -> Vec<[String; 4]> {
    let Point { pattern, transport, flows, .. } = cell.point;
    // What a flow sent in datagrams may not have arrived.
    let may_be_lost = *pattern == Pattern::Stream && transport.is_lossy();
    if *flows < 2 || may_be_lost {
        return Vec::new();
    }
    let figure = Figure::deciding(cell.point);
    let is_rate = matches!(figure.spec().unit, Unit::Bps | Unit::PerSecond);
    let Some(estimate) = cell.estimate.as_ref().filter(|_| is_rate) else { return Vec::new() };
    let mut sums = vec![0; *flows as usize];
    for record in counted {
        // Flows in both directions have no common order.
        let [flow] = record.load().collect::<Vec<_>>()[..] else { return Vec::new() };
        let each = flow.fairness.as_ref().map_or(&[][..], |fairness| &fairness.each);
        if each.len() != sums.len() || each.len() > FLOW_ROWS_MAX {
            return Vec::new();
        }
        for (sum, count) in sums.iter_mut().zip(each) {
            *sum = u64::saturating_add(*sum, *count);
        }
    }
    let all = sums.iter().copied().fold(0, u64::saturating_add);
    let unit = Scale::with_rates(figure, rates);
    let row = |(number, count): (usize, &u64)| {
        let share = *count as f64 / all as f64;
        let value = estimate.value * share / unit.size;
        let value = number::fixed(value, if value < 1.0 { 3 } else { 1 });
        let share = format!("{} % of all", number::share(share));
        [format!("flow {}", number + 1), value, unit.name.to_owned(), share]
    };
    if all == 0 { Vec::new() } else { sums.iter().enumerate().map(row).collect() }
}

/// CPU time of the worker at each node over the time of the run, mean over runs.
fn cpu_rows(counted: &[&&Record]) -> Vec<[String; 4]> {
    let Some(first) = counted.first() else { return Vec::new() };
    let row = |(place, node): (usize, &Node)| {
        let share = |record: &&&Record| {
            let usage = record.nodes.get(place)?.usage.as_ref()?;
            Some(usage.process.cpu_ns as f64 / usage.elapsed_ns.max(1) as f64)
        };
        let shares: Vec<f64> = counted.iter().filter_map(share).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let name = format!("CPU of {}", node.name);
        let percent = number::fixed(100.0 * mean, 0);
        (!shares.is_empty()).then(|| [name, percent, "% of one CPU".to_owned(), String::new()])
    };
    first.nodes.iter().enumerate().filter_map(row).collect()
}

fn limit_words(limit: &Limit, unit: Scale) -> String {
    let value = limit.value / unit.size;
    if unit.key == "bps" {
        let decimals = if value < 1.0 { 3 } else { 1 };
        let value = number::fixed(value, decimals);
        format!("{} % of the ceiling, {value} {}", number::share(limit.share), unit.name)
    } else {
        let value = number::fixed(value, 1);
        format!("{} times the floor, {value} {}", number::fixed(limit.share, 1), unit.name)
    }
}

/// Settings one below the other.
fn table(out: &mut String, figure: Figure, unit: Scale, settings: &[Setting<'_>]) {
    let has_limit = settings.iter().any(|setting| setting.cell.limit.is_some());
    let mut header = vec!["setting".to_owned(), format!("{} ({})", figure.spec().label, unit.name)];
    if has_limit {
        header.push("% of limit".to_owned());
    }
    let is_limited = settings.iter().any(|setting| setting.cell.bottleneck.is_some());
    if is_limited {
        header.push("limited by".to_owned());
    }
    let first = settings.first().map_or("", |setting| setting.name);
    header.extend([format!("against {first}"), "verdict".to_owned()]);
    let row = |setting: &Setting<'_>| {
        let cell = &setting.cell;
        let value = match (&cell.estimate, &cell.missing) {
            (Some(estimate), _) => {
                let mark = if cell.invalid > 0 { " ‡" } else { "" };
                format!("{}{mark}", number::estimate(estimate, unit))
            }
            (None, missing) => missing.clone().unwrap_or_default(),
        };
        let mut row = vec![setting.name.to_owned(), value];
        if has_limit {
            row.push(cell.limit.as_ref().map(|l| number::share(l.share)).unwrap_or_default());
        }
        if is_limited {
            row.push(label::limited_by(cell));
        }
        row.extend(setting.change.written());
        row
    };
    let columns: Vec<_> = header.into_iter().map(|heading| (heading, Side::Left)).collect();
    out.push_str(&grid(&columns, &settings.iter().map(row).collect::<Vec<_>>()));
}

/// Factors with one level for all settings, defaults included; those that differ are in the table.
fn shared(m: &Measured<'_>) -> String {
    let points: Vec<&Point> = m.experiment.plan.points.iter().collect();
    let mut words: Vec<String> = Vec::new();
    words.extend(label::topology(m.experiment.plan));
    for factor in Factor::ALL {
        let is_of_topology = m.experiment.plan.topology.is_some()
            && matches!(factor, Factor::Link | Factor::Rtt | Factor::Offload);
        if is_of_topology {
            continue;
        }
        if let [level] = select::levels(&points, factor).as_slice()
            && !level.is_empty()
        {
            words.push(format!("{} {}", label::heading(factor), label::row(factor, level)));
        }
    }
    let cpus = m.experiment.records.first().map(|record| {
        let cpus = record.nodes.iter().map(|node| cpus(record, node));
        cpus.filter(|cpus| !cpus.is_empty()).collect::<Vec<_>>().join(" and ")
    });
    words.extend(cpus.filter(|cpus| !cpus.is_empty()).map(|cpus| format!("CPUs {cpus}")));
    let at_most = match m.experiment.plan.amount {
        None => "",
        Some(amount) => {
            words.push(format!("ends after {}", label::amount(amount)));
            "at most "
        }
    };
    words.push(format!("duration {at_most}{}", m.experiment.plan.duration_ns));
    if m.experiment.plan.omit_ns > Nanos(0) {
        words.push(format!("omitted {}", m.experiment.plan.omit_ns));
    }
    words.push(format!("warm-up {}", m.experiment.plan.warm_up_ns));
    words.join(" · ")
}

/// CPUs of the load threads of a node, as `--cpu` has them.
fn cpus(record: &Record, node: &Node) -> String {
    let threads = record.flows.iter().flat_map(|flow| match node.name {
        ref name if *name == flow.from => &flow.sent_threads[..],
        ref name if *name == flow.to => &flow.received_threads,
        _ => &[],
    });
    let of_threads: Vec<Option<u32>> = threads.map(|thread| thread.cpu).collect();
    let all = if of_threads.is_empty() { vec![node.side.cpu] } else { of_threads };
    all.into_iter().flatten().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join("+")
}

/// [`MeasureResults`] as JSON.
pub fn measured_json(m: &Measured<'_>) -> Value {
    let runs = ByPoint::of(m.experiment.records);
    let settings = m.settings(&runs).into_iter().map(|setting| {
        let point = setting.cell.point;
        let figures = Figure::ALL.into_iter().filter_map(|figure| {
            Some((figure.spec().key, (&m.estimate(&runs, point, figure)?).into()))
        });
        SettingResults {
            name: setting.name,
            point,
            figures: figures.collect(),
            limited_by: setting.cell.bottleneck,
            change: setting.change.comparison.as_ref().map(Into::into),
            withheld: setting.change.reason(),
        }
    });
    let requirements =
        m.judged().into_iter().map(|Judged { setting, requirement, kept, .. }| RequirementResult {
            setting,
            requirement: &requirement.text,
            result: kept,
        });
    json!(MeasureResults {
        settings: settings.collect(),
        requirements: requirements.collect(),
        records: m.experiment.records.iter().filter(|r| !r.place.warm_up).collect(),
        instrument: m.experiment.instrument,
        started: m.experiment.started,
        reproduce: m.experiment.reproduce,
    })
}
