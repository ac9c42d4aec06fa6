//! Reads a plan file. Its schema is documented in `docs/plan-file.md`.
//!
//! The TOML tree is walked by hand, so that every fault, semantic ones included, is reported with
//! its line and with what would be right, and all faults are reported at once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use fabricmark_stats::StopRule;
use fabricmark_units::{Nanos, Percent};
use toml::de::{DeTable, DeValue};

use crate::factor::{Factor, Level};
use crate::matrix::{Levels, groups};
use crate::plan::{Chart, ChartKind, Compare, Figure, Plan, Presentation, Table, Testbed, Where};
use crate::problem::{Problems, Source};
use crate::reading::{Reader, Section, Value, suggestion};

/// Which part of a plan file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The whole plan.
    Full,
    /// The plan with its `[quick]` table laid over it.
    Quick,
}

/// Reads the plan in `text`; `file` is its name in messages, `published` the tables that may be
/// named as published ones.
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
    let plan = Reader { source: &mut source, published }.plan(root.get_ref(), size);
    source.finish(plan)
}

impl Reader<'_, '_> {
    fn plan(&mut self, root: &DeTable<'_>, size: Size) -> Option<Plan> {
        let mut top =
            Section { name: "the plan", span: 0..0, table: Some(root), known: Vec::new() };
        let title = top.take("title").and_then(|value| self.text(value));
        if !root.contains_key("title") {
            let help = "add title = \"...\": it heads the report";
            self.source.problem(0..0, "the plan has no title", help);
        }
        let about = top.take("about").and_then(|value| self.text(value)).unwrap_or_default();
        let testbed = match top.take("testbed") {
            Some(value) => self.one_of(value, &[("lab", Testbed::Lab)], "testbed"),
            None => Some(Testbed::Lab),
        };
        let seed = top.take("seed").map_or(Some(1), |value| {
            self.integer(value, 0, i64::MAX as u64, "a seed from 0 to 9223372036854775807")
        });
        let factors = self.section(&mut top, "factors", "[factors]");
        let settings = self.section(&mut top, "settings", "[settings]");
        let mut run = self.section(&mut top, "run", "[run]");
        let mut stop = self.section(&mut top, "stop", "[stop]");
        let mut quick = self.section(&mut top, "quick", "[quick]");
        let excludes = self.tables(&mut top, "exclude", "[[exclude]]");
        let compares = self.tables(&mut top, "compare", "[[compare]]");
        let tables = self.tables(&mut top, "table", "[[table]]");
        let charts = self.tables(&mut top, "chart", "[[chart]]");
        top.finish(self.source);

        let is_quick = size == Size::Quick;
        if is_quick && quick.table.is_none() {
            let help = "add a [quick] table, or run without --quick";
            self.source.problem(0..0, "the plan has no [quick] table", help);
        }
        let mut duration = self.duration(&mut run, "duration").unwrap_or(Nanos::from_secs(1));
        let mut warm_up = self.duration(&mut run, "warm_up").unwrap_or(Nanos::from_millis(200));
        let port = run
            .take("port")
            .map_or(Some(0), |value| self.integer(value, 0, 65_535, "a port from 0 to 65535"));
        let interval = run.take("interval");
        run.finish(self.source);
        let mut rule = self.stop_rule(&mut stop);
        stop.finish(self.source);

        let mut levels = self.factors(factors, settings);
        let quick_duration = self.duration(&mut quick, "duration");
        let quick_warm_up = self.duration(&mut quick, "warm_up");
        let quick_runs = quick.take("runs").and_then(|value| self.runs(value));
        let quick_levels = self.levels(quick, "[quick]");
        self.check_quick(&levels, &quick_levels);
        if is_quick {
            levels.extend(quick_levels);
            duration = quick_duration.unwrap_or(duration);
            warm_up = quick_warm_up.unwrap_or(warm_up);
            if let (Some(rule), Some((min, max))) = (&mut rule, quick_runs) {
                (rule.runs_min, rule.runs_max) = (min, max);
                if min == max {
                    rule.half_width = None;
                }
            }
        }
        let interval = match interval {
            Some(value) => self.interval(value, duration).map(Some),
            None => Some(None),
        };
        let excludes: Vec<Where> =
            excludes.into_iter().filter_map(|section| self.filter(section, &levels)).collect();
        let compare: Vec<Compare> =
            compares.into_iter().filter_map(|section| self.compare(section, &levels)).collect();
        let points = self.matrix(&levels, &excludes)?;
        let groups = groups(&points, &compare);
        let tables: Vec<Table> =
            tables.into_iter().filter_map(|section| self.table(section, &levels)).collect();
        let charts: Vec<Chart> =
            charts.into_iter().filter_map(|section| self.chart(section, &levels)).collect();
        Some(Plan {
            testbed: testbed?,
            peer: None,
            seed: seed?,
            duration_ns: duration,
            omit_ns: Nanos(0),
            amount: None,
            warm_up_ns: warm_up,
            interval_ns: interval?,
            stop: rule?,
            port: u16::try_from(port?).ok()?,
            cpus: None,
            points,
            groups,
            compare,
            traces: BTreeMap::new(),
            presentation: Presentation { title: title?, about, tables, charts },
        })
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
        let half_width = (runs_min < runs_max).then_some(half_width);
        Some(StopRule { confidence, half_width, runs_min, runs_max })
    }

    /// `runs = 5` or `runs = { min = 10, max = 30 }`.
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
            let message = format!("at least {min} runs but at most {max}");
            self.source.problem(value.span(), message, "let min be no more than max");
            return None;
        }
        Some((min, max))
    }

    /// The levels named in a table whose keys are factors.
    fn levels(&mut self, mut section: Section<'_, '_>, name: &str) -> Levels {
        let mut levels = Levels::new();
        for factor in Factor::ALL {
            let key = factor.key();
            let Some(value) = section.take(key) else {
                continue;
            };
            let items: Vec<&Value<'_>> = match value.get_ref().as_array() {
                Some(array) => array.iter().collect(),
                None => vec![value],
            };
            if items.is_empty() {
                let message = format!("{key} in {name} has no levels");
                self.source.problem(value.span(), message, "name at least one level");
            }
            let mut seen: Vec<(Level, Range<usize>)> = Vec::new();
            for item in items {
                let Some(level) = self.level(factor, item) else {
                    continue;
                };
                if seen.iter().any(|(known, _)| *known == level) {
                    let message = format!("{key} names {level} twice");
                    self.source.problem(item.span(), message, "name each level once");
                } else {
                    seen.push((level, item.span()));
                }
            }
            levels.insert(factor, seen);
        }
        section.finish(self.source);
        levels
    }

    fn level(&mut self, factor: Factor, value: &Value<'_>) -> Option<Level> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref().to_owned(),
            DeValue::Integer(number) => number.as_str().replace('_', ""),
            DeValue::Boolean(truth) => truth.to_string(),
            _ => {
                self.wrong(value, "a text, a whole number, true or false");
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

    fn factors(&mut self, factors: Section<'_, '_>, settings: Section<'_, '_>) -> Levels {
        let span = factors.span.clone();
        let mut levels = self.levels(factors, "[factors]");
        for (factor, setting) in self.levels(settings, "[settings]") {
            let key = factor.key();
            let place = setting.first().map_or(0..0, |(_, span)| span.clone());
            if setting.len() > 1 {
                let help = format!("give {key} one level here, or move it to [factors]");
                self.source.problem(place.clone(), format!("{key} varies in [settings]"), help);
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
        for factor in Factor::REQUIRED {
            if !levels.contains_key(&factor) {
                let key = factor.key();
                let help = format!("add {key} = [...] to [factors] or {key} = ... to [settings]");
                self.source.problem(
                    span.clone(),
                    format!("the plan does not say which {key}"),
                    help,
                );
            }
        }
        levels
    }

    fn check_quick(&mut self, levels: &Levels, quick: &Levels) {
        for (factor, wanted) in quick {
            let known = levels.get(factor).map(Vec::as_slice).unwrap_or_default();
            for (level, span) in wanted {
                if !known.iter().any(|(name, _)| name == level) {
                    let message = format!("[quick] names {level}, which the plan does not have");
                    let help = format!("quick levels are a part of [factors] {}", factor.key());
                    self.source.problem(span.clone(), message, help);
                }
            }
        }
    }

    /// Levels that select points: `transport = "udp"`.
    fn filter(&mut self, section: Section<'_, '_>, levels: &Levels) -> Option<Where> {
        let name = section.name;
        let span = section.span.clone();
        let mut filter = Where::new();
        for (factor, chosen) in self.levels(section, name) {
            let [(level, place)] = chosen.as_slice() else {
                let message = format!("{name} names several levels of {}", factor.key());
                self.source.problem(span, message, "name one level of a factor");
                return None;
            };
            // Levels that --quick leaves out are no fault, so only unknown factors are.
            if !levels.contains_key(&factor) {
                let message = format!("{name} names {}, which the plan does not", factor.key());
                self.source.problem(place.clone(), message, "name a factor of [factors]");
                return None;
            }
            filter.insert(factor, level.clone());
        }
        Some(filter)
    }

    fn factor_name(&mut self, value: &Value<'_>, levels: &Levels) -> Option<Factor> {
        let text = self.text(value)?;
        let known: Vec<&str> = levels.keys().map(|factor| factor.key()).collect();
        let factor = Factor::named(&text).filter(|factor| levels.contains_key(factor));
        if factor.is_none() {
            let message = format!("the plan has no factor `{text}`");
            self.source.problem(value.span(), message, suggestion(&text, &known));
        }
        factor
    }

    fn compare(&mut self, mut section: Section<'_, '_>, levels: &Levels) -> Option<Compare> {
        let mut missing = |reader: &mut Self, key| {
            let value = section.take(key);
            if value.is_none() {
                let help = "write factor = \"family\", baseline = 4, candidate = 6";
                let message = format!("[[compare]] has no {key}");
                reader.source.problem(section.span.clone(), message, help);
            }
            value
        };
        let factor = missing(self, "factor");
        let baseline = missing(self, "baseline");
        let candidate = missing(self, "candidate");
        section.finish(self.source);
        let factor = self.factor_name(factor?, levels)?;
        let mut level = |value: &Value<'_>| {
            let level = self.level(factor, value)?;
            if !levels[&factor].iter().any(|(known, _)| *known == level) {
                let message = format!("the plan has no {} {level}", factor.key());
                let known: Vec<&str> = levels[&factor].iter().map(|(l, _)| l.as_str()).collect();
                self.source.problem(
                    value.span(),
                    message,
                    format!("use one of {}", known.join(", ")),
                );
                return None;
            }
            Some(level)
        };
        let (baseline, candidate) = (level(baseline?)?, level(candidate?)?);
        if baseline == candidate {
            let message = format!("{baseline} is compared with itself");
            let help = "for an A/A run make label = [\"a\", \"b\"] a factor and compare that";
            self.source.problem(section_span(&candidate, levels, factor), message, help);
            return None;
        }
        Some(Compare { factor, baseline, candidate })
    }

    fn figure(&mut self, section: &mut Section<'_, '_>) -> Option<Figure> {
        match section.take("figure") {
            Some(value) => self.one_of(value, &Figure::ALL, "figure"),
            None => {
                let message = format!("{} has no figure", section.name);
                let help = "write figure = \"goodput\" or figure = \"half-rtt\"";
                self.source.problem(section.span.clone(), message, help);
                None
            }
        }
    }

    /// The keys that tables and charts share: title, figure and where.
    fn shown(
        &mut self,
        section: &mut Section<'_, '_>,
        levels: &Levels,
    ) -> Option<(String, Figure, Where)> {
        let title = section.take("title").and_then(|value| self.text(value));
        let figure = self.figure(section);
        let filter = self.section(section, "where", "where");
        let place = filter.span.clone();
        let filter = self.filter(filter, levels);
        let (figure, filter) = (figure?, filter?);
        let patterns = figure.patterns();
        if let (Some(wanted), Some(pattern)) = (filter.get(&Factor::Pattern), patterns.first())
            && !patterns.iter().any(|pattern| pattern.word() == wanted)
        {
            let words: Vec<&str> = patterns.iter().map(|pattern| pattern.word()).collect();
            let message = format!("this figure belongs to the pattern {}", words.join(" or "));
            let help =
                format!("write where = {{ pattern = \"{pattern}\", ... }} or another figure");
            self.source.problem(place, message, help);
            return None;
        }
        Some((title.unwrap_or_default(), figure, filter))
    }

    fn factor_list(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
        levels: &Levels,
    ) -> Vec<Factor> {
        let Some(value) = section.take(key) else {
            return Vec::new();
        };
        match value.get_ref().as_array() {
            Some(array) => array.iter().filter_map(|item| self.factor_name(item, levels)).collect(),
            None => self.factor_name(value, levels).into_iter().collect(),
        }
    }

    fn table(&mut self, mut section: Section<'_, '_>, levels: &Levels) -> Option<Table> {
        let shown = self.shown(&mut section, levels);
        let rows = section.take("rows").map(|value| self.factor_name(value, levels));
        let columns = self.factor_list(&mut section, "columns", levels);
        let published = section.take("published").and_then(|value| {
            let choice: Vec<(&str, &str)> = self.published.iter().map(|&p| (p, p)).collect();
            self.one_of(value, &choice, "published table")
        });
        section.finish(self.source);
        let (title, figure, filter) = shown?;
        let rows = rows.unwrap_or(Some(Factor::Payload))?;
        let published = published.map(str::to_owned);
        Some(Table { title, figure, filter, rows, columns, published })
    }

    fn chart(&mut self, mut section: Section<'_, '_>, levels: &Levels) -> Option<Chart> {
        let shown = self.shown(&mut section, levels);
        let kinds = [("lines", ChartKind::Lines), ("bars", ChartKind::Bars)];
        let kind = match section.take("kind") {
            Some(value) => self.one_of(value, &kinds, "kind of chart"),
            None => Some(ChartKind::Lines),
        };
        let x = section.take("x").map(|value| self.factor_name(value, levels));
        let series = self.factor_list(&mut section, "series", levels);
        section.finish(self.source);
        let (title, figure, filter) = shown?;
        let x = x.unwrap_or(Some(Factor::Payload))?;
        Some(Chart { title, kind: kind?, figure, filter, x, series })
    }
}

fn section_span(level: &str, levels: &Levels, factor: Factor) -> Range<usize> {
    levels[&factor].iter().find(|(known, _)| known == level).map_or(0..0, |(_, span)| span.clone())
}
