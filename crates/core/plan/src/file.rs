//! Reads a plan file. `docs/plan-file.md` documents its schema.
//!
//! The TOML tree is walked by hand, so that every error, semantic ones included, is reported with its line and the
//! remedy, and all errors are reported at once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fabricmark_stats::StopRule;
use fabricmark_units::{Nanos, Percent};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::choice::Interference;
use crate::factor::{Factor, Filter, Levels, Named, Point, Section as PlanSection};
use crate::figure::Figure;
use crate::level::{Level, NONE};
use crate::matrix::{Cross, comparison_groups, is_replaced};
use crate::nodes::NamedGroup;
use crate::pair::pairs;
use crate::plan::{
    Amount, Compare, Group, INTERVAL_MIN, Plan, STEADY_INTERVALS_MIN, Testbed, Topology, Wire,
    points_each,
};
use crate::presentation::{Drawing, Presentation, Table};
use crate::problem::{Problems, Source};
use crate::reading::{Reader, Section, Value};
use crate::shop::Interaction;
use crate::transport::Transport;

/// Which version of a plan to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The whole plan.
    Full,
    /// The plan with its `[quick]` table applied.
    Quick,
}

/// Interval of runs that are to be steady, if none is given: twice as many as are needed.
pub fn steady_interval(duration: Nanos) -> Nanos {
    INTERVAL_MIN.max(Nanos(duration.0 / (2 * STEADY_INTERVALS_MIN)))
}

/// Parses the plan in `text`. `file` is its name in messages; `published` lists the values that `published` keys
/// accept.
pub fn parse(file: &str, text: &str, size: Size, published: &[&str]) -> Result<Plan, Problems> {
    let mut source = Source::new(file, text);
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let help = "see docs/plan-file.md for the form of a plan file";
            source.problem(error.span().unwrap_or(0..0), error.message(), help);
            return source.finish(None);
        }
    };
    let is_quick = size == Size::Quick;
    let plan = Reader { source: &mut source, published, is_quick }.plan(root.get_ref());
    source.finish(plan)
}

impl Reader<'_, '_> {
    fn plan(&mut self, root: &DeTable<'_>) -> Option<Plan> {
        let mut top =
            Section { name: "the plan", span: 0..0, table: Some(root), known: Vec::new() };
        let title = top.take("title").and_then(|value| self.text(value));
        if !root.contains_key("title") {
            let help = "add title = \"...\", the heading of the report";
            self.source.problem(0..0, "the plan has no title", help);
        }
        let about = top.take("about").and_then(|value| self.text(value)).unwrap_or_default();
        let testbed = top.take("testbed");
        let is = |names: [&str; 2]| {
            let name = testbed.and_then(|value| value.get_ref().as_str());
            name.is_some_and(|name| names.contains(&name))
        };
        let (is_in_guest, is_mpi) = (is(["guest", "mpi:guest"]), is(["mpi", "mpi:guest"]));
        let is_tiers = is(["tiers", "tiers"]);
        let topology = testbed.filter(|_| !is_in_guest && !is_mpi && !is_tiers);
        let topology = topology.map_or(Some(None), |value| self.topology(value));
        let seed = top.take("seed").map_or(Some(1), |value| {
            self.integer(value, 0, i64::MAX as u64, "a seed from 0 to 9223372036854775807")
        });
        let named_nodes = top.take("nodes");
        let nodes = self.nodes(named_nodes);
        let wires = self.tables(&mut top, "wire", "[[wire]]");
        let flows = self.tables(&mut top, "group", "[[group]]");
        let interference = top.take("interference");
        let factors = self.section(&mut top, "factors", "[factors]");
        let settings = self.section(&mut top, "settings", "[settings]");
        let mut run = self.section(&mut top, "run", "[run]");
        let mut stop = self.section(&mut top, "stop", "[stop]");
        let mut quick = self.section(&mut top, "quick", "[quick]");
        let adds = self.tables(&mut top, "add", "[[add]]");
        let excludes = self.tables(&mut top, "exclude", "[[exclude]]");
        let compares = self.tables(&mut top, "compare", "[[compare]]");
        let tables = self.tables(&mut top, "table", "[[table]]");
        let charts = self.tables(&mut top, "chart", "[[chart]]");
        top.finish(self.source);

        let is_quick = self.is_quick;
        if is_quick && quick.table.is_none() {
            let help = "add a [quick] table, or run without --quick";
            self.source.problem(0..0, "the plan has no [quick] table", help);
        }
        let mut duration = self.duration(&mut run, "duration").unwrap_or(Nanos::from_secs(1));
        // Almost three think times, after which few browsers have not visited a page.
        let usual = if is_tiers { Nanos::from_secs(20) } else { Nanos::from_millis(200) };
        let mut warm_up = self.duration(&mut run, "warm_up").unwrap_or(usual);
        let port = run
            .take("port")
            .map_or(Some(0), |value| self.integer(value, 0, 65_535, "a port from 0 to 65535"));
        let interval = run.take("interval");
        let amount = run.take("bytes").and_then(|value| {
            self.integer(value, 1, i64::MAX as u64, "a number of bytes from 1").map(Amount::Bytes)
        });
        let slices = run.take("slices").is_some_and(|value| self.truth(value));
        let omit = self.duration(&mut run, "omit").unwrap_or_default();
        let steady = run.take("steady").and_then(|value| self.steady(value));
        let opposed = [
            ("slices = true", slices),
            ("bytes", amount.is_some()),
            ("a testbed of MPI", is_mpi),
            ("testbed = \"tiers\"", is_tiers),
        ];
        for (what, is_there) in [("omit", omit.0 > 0), ("steady", steady.is_some())] {
            if let Some((with, _)) = opposed.into_iter().find(|(_, is_set)| is_there && *is_set) {
                let message = format!("{what} is not supported with {with}");
                self.source.problem(0..0, message, "leave one of them out");
            }
        }
        // No effect: calibration no longer excludes points, but older plans have this key.
        let _ = run.take("beyond_calibration").map(|value| self.truth(value));
        run.finish(self.source);
        let mut rule = self.stop_rule(&mut stop);
        let mut budget = self.duration(&mut stop, "budget");
        stop.finish(self.source);

        let has_file = topology.as_ref().is_some_and(Option::is_some);
        if let (true, Some(wire)) = (has_file, wires.first()) {
            let message = "[[wire]] is not supported with a topology file";
            self.source.problem(
                wire.span.clone(),
                message,
                "add the link to the file, or leave out testbed",
            );
        }
        let wires: Vec<Wire> = wires
            .into_iter()
            .enumerate()
            .filter_map(|(place, section)| self.wire(section, place, &nodes))
            .collect();
        self.check_joined(&nodes, &wires, named_nodes.map_or(0..0, Spanned::span));
        let flows = self.flow_groups(flows, &nodes, &wires, has_file);
        let has_interference = interference.is_some_and(|value| self.interference(value, &flows));
        let groups: Vec<Group> = flows.iter().map(|flows| flows.group.clone()).collect();
        let starts_later = groups.iter().any(|group| group.start_ns.0 > 0);
        for (with, is_set) in [("[interference]", has_interference), ("bytes", amount.is_some())] {
            if starts_later && is_set {
                let message = format!("`start` of a group is not supported with {with}");
                self.source.problem(0..0, message, "leave one of them out");
            }
        }
        let topology = match topology {
            Some(None) if !wires.is_empty() => {
                Some(Some(self.wired(&nodes, &wires, groups.first())))
            }
            topology => topology,
        };
        let implied = match has_file || !wires.is_empty() {
            _ if is_mpi => Implied::Mpi,
            _ if is_tiers => Implied::Tiers,
            true => Implied::Topology,
            false => Implied::Nothing,
        };
        if (is_mpi || is_tiers) && !(wires.is_empty() && groups.is_empty()) {
            let message = "[[wire]] and [[group]] are not supported with this testbed";
            self.source.problem(0..0, message, "leave them out, or use another testbed");
        }
        let levels = self.factors(factors, settings, implied, &flows);
        let adds: Vec<Cross> = adds.into_iter().map(|section| self.added(section)).collect();
        // The levels that other tables may name, including those that --quick leaves out.
        let mut named = union(&levels, &adds);
        let quick_duration = self.duration(&mut quick, "duration");
        let quick_warm_up = self.duration(&mut quick, "warm_up");
        let quick_budget = self.duration(&mut quick, "budget");
        let quick_runs = quick.take("runs").and_then(|value| self.runs(value));
        let has_adds = quick.take("add").is_none_or(|value| self.truth(value));
        let quick_levels = self.levels(quick, "[quick]");
        self.check_quick(&levels, &named, &quick_levels);
        let mut crosses = vec![Cross { levels: levels.clone(), span: 0..0 }];
        crosses.extend(adds.into_iter().map(|add| add.over(&levels)));
        if is_quick {
            crosses.truncate(if has_adds { crosses.len() } else { 1 });
            crosses.iter_mut().for_each(|cross| cross.keep(&quick_levels));
            duration = quick_duration.unwrap_or(duration);
            warm_up = quick_warm_up.unwrap_or(warm_up);
            budget = quick_budget.or(budget);
            if let (Some(rule), Some((min, max))) = (&mut rule, quick_runs) {
                (rule.runs_min, rule.runs_max) = (min, max);
            }
        }
        if let Some(rule) = &mut rule {
            rule.half_width = rule.half_width.filter(|_| rule.runs_min < rule.runs_max);
        }
        let interval = match interval {
            Some(value) => self.interval(value, duration).map(Some),
            None => Some(steady.map(|_| steady_interval(duration))),
        };
        if let (Some(_), Some(Some(interval))) = (steady, interval)
            && interval.0 * STEADY_INTERVALS_MIN > duration.0
        {
            let message = format!(
                "steady needs at least {STEADY_INTERVALS_MIN} intervals, and a run of {duration} has fewer of {interval}"
            );
            self.source.problem(0..0, message, "use a longer duration or a shorter interval");
        }
        let excludes: Vec<Filter> =
            excludes.into_iter().filter_map(|section| self.filter(section, &named)).collect();
        let points = self.points(&crosses, &excludes, &flows, has_interference)?;
        if amount.is_some() && points.iter().any(|point| point.probe.is_some()) {
            let message = "bytes is not supported with a probe".to_owned();
            self.source.problem(0..0, message, "leave one of them out");
        }
        // Levels that points have without being named: those of groups, and the defaults beside those of an [[add]].
        let of_groups = [Factor::Group, Factor::Beside, Factor::Interference];
        let factors: BTreeSet<Factor> = named.keys().copied().chain(of_groups).collect();
        for factor in factors {
            let known: BTreeSet<&Level> =
                named.get(&factor).into_iter().flatten().map(|(level, _)| level).collect();
            let level = |point: &Point| match point.level(factor) {
                level if level.is_empty() && factor.has_none() => NONE.to_owned(),
                level => level,
            };
            let levels: BTreeSet<Level> = points.iter().map(level).collect();
            let others: Vec<Named> = levels
                .into_iter()
                .filter(|level| !level.is_empty() && !known.contains(level))
                .map(|level| (level, 0..0))
                .collect();
            if !others.is_empty() {
                named.entry(factor).or_default().extend(others);
            }
        }
        let mut compare = self.compares(compares, &named);
        if has_interference && !compare.iter().any(|one| one.factor == Factor::Interference) {
            let [baseline, candidate] =
                [Interference::Alone, Interference::Together].map(|level| level.to_string());
            compare.push(Compare { factor: Factor::Interference, baseline, candidate });
        }
        let each = points_each(groups.len(), has_interference);
        let mut pairs = pairs(&points, &compare);
        let comparison_groups = comparison_groups(&points, each, &compare, &pairs);
        pairs.retain(|pair| {
            let figures =
                [pair.baseline, pair.candidate].map(|place| Figure::deciding(&points[place]));
            figures[0] == figures[1]
        });
        let tables: Vec<Table> =
            tables.into_iter().filter_map(|section| self.table(section, &named)).collect();
        let has_intervals = is_tiers || interval.is_none_or(|interval| interval.is_some());
        let charts: Vec<Drawing> = charts
            .into_iter()
            .filter_map(|section| self.drawing(section, &named, has_intervals))
            .collect();
        let mut presentation = Presentation { title: title?, about, tables, charts };
        let compared: Vec<Factor> = compare.iter().map(|compare| compare.factor).collect();
        presentation.complete(&points, &compared);
        Some(Plan {
            testbed: implied.testbed(),
            topology: topology?,
            is_in_guest,
            wires,
            groups,
            has_interference,
            peer: None,
            launcher: None,
            seed: seed?,
            duration_ns: duration,
            omit_ns: omit,
            steady,
            amount,
            warm_up_ns: warm_up,
            interval_ns: interval?,
            slices,
            stop: rule?,
            budget_ns: budget,
            port: u16::try_from(port?).ok()?,
            cpus: None,
            points,
            comparison_groups,
            pairs,
            compare,
            traces: BTreeMap::new(),
            link_traces: BTreeMap::new(),
            presentation,
        })
    }

    /// Reads the share of a steady state.
    fn steady(&mut self, value: &Value<'_>) -> Option<f64> {
        let Percent(share) = self.quantity(value, "a share such as \"5%\"")?;
        if !(share > 0.0 && share < 1.0) {
            let message = format!("a steady state of {} is out of range", Percent(share));
            let help = "use more than \"0%\", below \"100%\"";
            return self.refuse(value.span(), message, help);
        }
        Some(share)
    }

    fn stop_rule(&mut self, section: &mut Section<'_, '_>) -> Option<StopRule> {
        let confidence = match section.take("confidence") {
            Some(value) => {
                let share: Percent = self.quantity(value, "a confidence such as \"95%\"")?;
                if !(0.5..1.0).contains(&share.0) {
                    let message = format!("a confidence of {share} is out of range");
                    self.source.problem(
                        value.span(),
                        message,
                        "use \"50%\" or more, below \"100%\"",
                    );
                    return None;
                }
                share.0
            }
            None => 0.95,
        };
        let half_width = match section.take("half_width") {
            Some(value) => {
                let share: Percent = self.quantity(value, "a half width such as \"5%\"")?;
                if !(share.0 > 0.0 && share.0 < 1.0) {
                    let message = format!("a half width of {share} is out of range");
                    self.source.problem(
                        value.span(),
                        message,
                        "use more than \"0%\", below \"100%\"",
                    );
                    return None;
                }
                share.0
            }
            None => 0.05,
        };
        let (runs_min, runs_max) = match section.take("runs") {
            Some(value) => self.runs(value)?,
            None => (10, 30),
        };
        let decides = section.take("decide").is_some_and(|value| self.truth(value));
        Some(StopRule { confidence, half_width: Some(half_width), runs_min, runs_max, decides })
    }

    /// Reads `runs = 5` or `runs = { min = 10, max = 30 }`.
    fn runs(&mut self, value: &Value<'_>) -> Option<(usize, usize)> {
        const EXPECTED: &str = "a number of runs from 2 to 10000";
        let Some(table) = value.get_ref().as_table() else {
            let runs = self.integer(value, 2, 10_000, EXPECTED)? as usize;
            return Some((runs, runs));
        };
        let mut section =
            Section { name: "runs", span: value.span(), table: Some(table), known: Vec::new() };
        let mut bound = |reader: &mut Self, key, default| match section.take(key) {
            Some(value) => reader.integer(value, 2, 10_000, EXPECTED).map(|n| n as usize),
            None => Some(default),
        };
        let min = bound(self, "min", 10);
        let max = bound(self, "max", 30);
        section.finish(self.source);
        let (min, max) = (min?, max?);
        if min > max {
            let message = format!("min={min} exceeds max={max}");
            self.source.problem(value.span(), message, "use a min of at most max");
            return None;
        }
        Some((min, max))
    }

    /// Reads the levels in a table whose keys are factors.
    pub(crate) fn levels(&mut self, mut section: Section<'_, '_>, name: &str) -> Levels {
        let mut levels = Levels::new();
        for factor in Factor::ALL {
            let key = factor.key();
            let earlier = factor.earlier_key().and_then(|key| section.take(key));
            let value = match (section.take(key), earlier) {
                (Some(_), Some(value)) => {
                    let message = format!("{name} has {key} twice, once by its old name");
                    self.source.problem(value.span(), message, format!("keep {key}"));
                    continue;
                }
                (Some(value), None) | (None, Some(value)) => value,
                (None, None) => continue,
            };
            let items: Vec<&Value<'_>> = match value.get_ref().as_array() {
                Some(array) => array.iter().collect(),
                None => vec![value],
            };
            if items.is_empty() {
                let message = format!("{key} in {name} has no levels");
                self.source.problem(value.span(), message, "give at least one level");
            }
            let mut seen: Vec<(Level, Range<usize>)> = Vec::new();
            for item in items {
                let Some(level) = self.level(factor, item) else {
                    continue;
                };
                if seen.iter().any(|(known, _)| *known == level) {
                    let message = format!("{key} has the level {level} twice");
                    self.source.problem(item.span(), message, "give each level once");
                } else {
                    seen.push((level, item.span()));
                }
            }
            levels.insert(factor, seen);
        }
        section.finish(self.source);
        levels
    }

    pub(crate) fn level(&mut self, factor: Factor, value: &Value<'_>) -> Option<Level> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref().to_owned(),
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                match (number.radix(), u64::from_str_radix(&digits, number.radix())) {
                    (10, _) | (_, Err(_)) => digits,
                    (_, Ok(number)) => number.to_string(),
                }
            }
            DeValue::Boolean(truth) => truth.to_string(),
            _ => {
                self.wrong(value, "a string, an integer, true or false");
                return None;
            }
        };
        match factor.level(&text) {
            Ok(level) => Some(level),
            Err(error) => {
                let message = format!("not a level of {}", factor.key());
                self.source.problem(value.span(), message, error.to_string());
                None
            }
        }
    }

    /// Reads `testbed`: `lab`, or `lab:` and a topology file. The caller handles the others.
    fn topology(&mut self, value: &Value<'_>) -> Option<Option<Topology>> {
        let text = self.text(value)?;
        if text == "lab" {
            return Some(None);
        }
        let topology = text.strip_prefix("lab:").and_then(Topology::named);
        if topology.is_none() {
            let help = "use \"lab\", \"guest\", \"mpi\", \"mpi:guest\", \"tiers\", or \"lab:FILE.toml:CLIENT,SERVER\" for two nodes of a topology file";
            self.source.problem(value.span(), format!("unknown testbed `{text}`"), help);
        }
        topology.map(Some)
    }

    /// Merges the levels of `[factors]` and `[settings]`, and adds those that the testbed implies.
    fn factors(
        &mut self,
        factors: Section<'_, '_>,
        settings: Section<'_, '_>,
        implied: Implied,
        flows: &[NamedGroup],
    ) -> Levels {
        let span = factors.span.clone();
        let mut levels = self.levels(factors, "[factors]");
        for (factor, setting) in self.levels(settings, "[settings]") {
            let key = factor.key();
            let place = setting.first().map_or(0..0, |(_, span)| span.clone());
            if setting.len() > 1 {
                let help = format!("give {key} one level here, or move it to [factors]");
                self.source.problem(
                    place.clone(),
                    format!("{key} has several levels in [settings]"),
                    help,
                );
            }
            match levels.entry(factor) {
                Entry::Vacant(free) => {
                    free.insert(setting);
                }
                Entry::Occupied(_) => {
                    let message = format!("{key} is both a factor and a setting");
                    self.source.problem(place, message, "keep one of the two");
                }
            }
        }
        for (factor, named) in levels.iter().filter(|_| implied == Implied::Topology) {
            if *factor == Factor::Link || factor.spec().section == PlanSection::Link {
                let place = named.first().map_or(0..0, |(_, span)| span.clone());
                let message = format!("{factor} cannot be set in a plan with a topology");
                let help = "set it in the topology file or in a [[wire]]";
                self.source.problem(place, message, help);
            }
        }
        for (factor, level) in implied.levels() {
            levels.entry(*factor).or_insert_with(|| vec![((*level).to_owned(), 0..0)]);
        }
        if implied == Implied::Tiers {
            // A run measures all interactions.
            let all = || Interaction::ALL.iter().map(|one| (one.to_string(), 0..0)).collect();
            levels.entry(Factor::Interaction).or_insert_with(all);
        }
        if implied == Implied::Mpi && !levels.contains_key(&Factor::Benchmark) {
            let help = "add benchmark = [\"PingPong\"] to [factors]";
            self.source.problem(span.clone(), "the plan has no benchmark", help);
        }
        let transports = levels.get(&Factor::Transport).into_iter().flatten();
        let other = |(level, _): &&(Level, Range<usize>)| {
            let needs = match Transport::named(level) {
                Some(Transport::Mpi) => Testbed::Mpi,
                Some(Transport::Http) => Testbed::Tiers,
                _ => Testbed::Lab,
            };
            needs != implied.testbed()
        };
        if let Some((level, place)) = transports.clone().find(other) {
            let message = format!("transport={level} is not supported with this testbed");
            let help = "transport=mpi needs testbed = \"mpi\", and http needs \"tiers\"; these have no \
                        other transport";
            self.source.problem(place.clone(), message, help);
        }
        for factor in levels.keys().filter(|factor| factor.spec().section == PlanSection::Group) {
            let place = levels[factor].first().map_or(0..0, |(_, span)| span.clone());
            let message = format!("{factor} cannot be set");
            self.source.problem(
                place,
                message,
                "leave it out; it follows from the [[group]]s of \
                                                 the plan",
            );
        }
        for factor in Factor::required() {
            let is_of_groups =
                !flows.is_empty() && flows.iter().all(|flows| flows.levels.contains_key(&factor));
            if !levels.contains_key(&factor) && !is_of_groups {
                let key = factor.key();
                let help = format!("add {key} = [...] to [factors] or {key} = ... to [settings]");
                self.source.problem(span.clone(), format!("the plan has no {key}"), help);
            }
        }
        levels
    }

    /// Reads an `[[add]]`: levels that replace those of the plan.
    fn added(&mut self, section: Section<'_, '_>) -> Cross {
        let span = section.span.clone();
        let levels = self.levels(section, "[[add]]");
        if levels.is_empty() {
            let help = "add the levels of its points, such as window = [\"1bdp\"]";
            self.source.problem(span.clone(), "[[add]] has no levels", help);
        }
        Cross { levels, span }
    }

    fn check_quick(&mut self, levels: &Levels, named: &Levels, quick: &Levels) {
        for (factor, wanted) in quick {
            if levels.get(factor).is_some_and(|own| is_replaced(*factor, own, wanted)) {
                continue;
            }
            let is_in = |known: &Levels, level: &Level| {
                known.get(factor).is_some_and(|known| known.iter().any(|(name, _)| name == level))
            };
            for (level, span) in wanted {
                if !is_in(named, level) {
                    let message = format!(
                        "[quick] has the level {level}, which the plan does not \
                                           have"
                    );
                    let help = format!("use levels of {} in [factors]", factor.key());
                    self.source.problem(span.clone(), message, help);
                }
            }
            let is_left = wanted.iter().any(|(level, _)| is_in(levels, level));
            if levels.contains_key(factor) && !is_left {
                let span = wanted.first().map_or(0..0, |(_, span)| span.clone());
                let message = format!("[quick] keeps no level of {} in [factors]", factor.key());
                let help = "add a level of [factors]; levels of an [[add]] alone are not enough";
                self.source.problem(span, message, help);
            }
        }
    }
}

/// What a testbed implies about the factors of a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Implied {
    /// Nothing.
    Nothing,
    /// The links are those of a topology.
    Topology,
    /// Ranks communicate by MPI.
    Mpi,
    /// The tiers of the bookstore.
    Tiers,
}

impl Implied {
    const fn testbed(self) -> Testbed {
        match self {
            Self::Nothing | Self::Topology => Testbed::Lab,
            Self::Mpi => Testbed::Mpi,
            Self::Tiers => Testbed::Tiers,
        }
    }

    /// Levels of factors that the plan does not name.
    const fn levels(self) -> &'static [(Factor, &'static str)] {
        match self {
            Self::Nothing => &[],
            Self::Topology => &[(Factor::Link, "veth")],
            Self::Mpi => &[
                (Factor::Pattern, "mpi"),
                (Factor::Transport, "mpi"),
                (Factor::Family, "4"),
                (Factor::Link, "loopback"),
            ],
            Self::Tiers => &[
                (Factor::Pattern, "shop"),
                (Factor::Transport, "http"),
                (Factor::Family, "4"),
                (Factor::Payload, "0"),
                (Factor::Link, "loopback"),
            ],
        }
    }
}

/// All levels that a plan names, those of its factors first.
fn union(levels: &Levels, adds: &[Cross]) -> Levels {
    let mut all = levels.clone();
    for (factor, added) in adds.iter().flat_map(|add| &add.levels) {
        let known = all.entry(*factor).or_default();
        for (level, span) in added {
            if !known.iter().any(|(name, _)| name == level) {
                known.push((level.clone(), span.clone()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_decimal_hexadecimal_octal_or_binary() {
        let plan = |dscp: &str, payload: &str| {
            let text = format!(
                "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'udp'\nfamily = 4\nlink = 'veth'\n\
                 payload = {payload}\n[settings]\ndscp = {dscp}\n"
            );
            parse("t", &text, Size::Full, &[]).unwrap().points
        };
        assert_eq!(plan("0x28", "0b1_0000"), plan("40", "16"));
        assert_eq!(plan("0o50", "1_024"), plan("40", "1024"));
    }
}
