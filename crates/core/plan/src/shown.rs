//! Reads what is compared and shown: `[[compare]]`, `[[table]]`, `[[chart]]`, and the levels that select points.

use crate::factor::{Factor, Filter, Levels, Named};
use crate::figure::Figure;
use crate::level::NONE;
use crate::plan::Compare;
use crate::presentation::{Chart, ChartKind, Course, CourseChart, CourseOf, Drawing, Table};
use crate::reading::{Reader, Section, Value, suggestion};

/// Whether this level is among those of the plan.
fn has(known: &[Named], level: &str) -> bool {
    known.iter().any(|(name, _)| name == level)
}

/// The help with the levels of the plan.
fn one_of(known: &[Named]) -> String {
    let known: Vec<&str> = known.iter().map(|(level, _)| level.as_str()).collect();
    format!("use one of {}", known.join(", "))
}

impl Reader<'_, '_> {
    /// Reads levels that select points: `transport = "udp"`, `rtt = ["0ms", "400ms"]`.
    pub(crate) fn filter(&mut self, section: Section<'_, '_>, levels: &Levels) -> Option<Filter> {
        let name = section.name;
        let mut filter = Filter::new();
        for (factor, chosen) in self.levels(section, name) {
            let Some(known) = levels.get(&factor) else {
                let place = chosen.first().map_or(0..0, |(_, span)| span.clone());
                let message =
                    format!("{name} uses {}, which is not a factor of the plan", factor.key());
                let help = "use a factor of [factors] or of an [[add]]";
                return self.refuse(place, message, help);
            };
            for (level, place) in &chosen {
                // --quick may have left out the points that have a level by default. Those to which a factor does not apply
                // have `none`.
                let is_none = level == NONE && factor.has_none();
                if !self.is_quick && !is_none && !has(known, level) {
                    let message =
                        format!("{name} uses {factor}={level}, which the plan does not have");
                    self.source.problem(place.clone(), message, one_of(known));
                }
            }
            filter.insert(factor, chosen.into_iter().map(|(level, _)| level).collect());
        }
        Some(filter)
    }

    fn factor_name(&mut self, value: &Value<'_>, levels: &Levels) -> Option<Factor> {
        let text = self.text(value)?;
        Factor::named(&text).filter(|factor| levels.contains_key(factor)).or_else(|| {
            let known: Vec<&str> = levels.keys().map(|factor| factor.key()).collect();
            let message = format!("the plan has no factor `{text}`");
            self.refuse(value.span(), message, suggestion(&text, &known))
        })
    }

    /// Reads the comparisons, of which no two are the same.
    pub(crate) fn compares(
        &mut self,
        sections: Vec<Section<'_, '_>>,
        levels: &Levels,
    ) -> Vec<Compare> {
        let mut all: Vec<Compare> = Vec::new();
        for section in sections {
            let place = section.span.clone();
            let Some(one) = self.compare(section, levels) else { continue };
            let Compare { factor, baseline, candidate } = &one;
            let is_it = |other: &Compare| {
                let Compare { factor: of, baseline: from, candidate: to } = other;
                of == factor
                    && ((from, to) == (baseline, candidate) || (from, to) == (candidate, baseline))
            };
            if all.iter().any(is_it) {
                let message = format!("{factor} is compared twice: {baseline} with {candidate}");
                self.source.problem(place, message, "keep one of the two [[compare]]");
                continue;
            }
            all.push(one);
        }
        all
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
            let known = &levels[&factor];
            if !has(known, &level) {
                let message = format!("the plan has no {} {level}", factor.key());
                return self.refuse(value.span(), message, one_of(known));
            }
            Some(level)
        };
        let (baseline, candidate) = (level(baseline?)?, level(candidate?)?);
        if baseline == candidate {
            let named = levels[&factor].iter().find(|(known, _)| *known == candidate);
            let place = named.map_or(0..0, |(_, span)| span.clone());
            let message = format!("baseline and candidate are both {baseline}");
            let help = "for an A/A test, add the factor label = [\"a\", \"b\"] and compare its \
                        levels";
            return self.refuse(place, message, help);
        }
        Some(Compare { factor, baseline, candidate })
    }

    fn figure(&mut self, section: &mut Section<'_, '_>) -> Option<Figure> {
        let Some(value) = section.take("figure") else {
            let message = format!("{} has no figure", section.name);
            let help = "write figure = \"goodput\" or figure = \"half-rtt\"";
            return self.refuse(section.span.clone(), message, help);
        };
        let text = self.text(value)?;
        Figure::named(&text).or_else(|| {
            let names = Figure::ALL.map(Figure::name);
            let message = format!("unknown figure `{text}`");
            self.refuse(value.span(), message, suggestion(&text, &names))
        })
    }

    /// Reads the keys that tables and charts share: title, figure and where.
    fn shown(
        &mut self,
        section: &mut Section<'_, '_>,
        levels: &Levels,
    ) -> Option<(String, Figure, Filter)> {
        let title = section.take("title").and_then(|value| self.text(value));
        let figure = self.figure(section);
        let filter = self.section(section, "where", "where");
        let place = filter.span.clone();
        let filter = self.filter(filter, levels);
        let (figure, filter) = (figure?, filter?);
        let patterns = figure.spec().patterns;
        if let (Some(wanted), Some(pattern)) = (filter.get(&Factor::Pattern), patterns.first())
            && !patterns.iter().any(|pattern| wanted.iter().any(|word| pattern.word() == word))
        {
            let words: Vec<&str> = patterns.iter().map(|pattern| pattern.word()).collect();
            let message = format!("this figure exists only with pattern={}", words.join(" or "));
            let help =
                format!("write where = {{ pattern = \"{pattern}\", ... }} or another figure");
            return self.refuse(place, message, help);
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

    fn published(&mut self, section: &mut Section<'_, '_>) -> Option<String> {
        let value = section.take("published")?;
        let choice: Vec<(&str, &str)> = self.published.iter().map(|&name| (name, name)).collect();
        self.one_of(value, &choice, "published table").map(str::to_owned)
    }

    pub(crate) fn table(&mut self, mut section: Section<'_, '_>, levels: &Levels) -> Option<Table> {
        let shown = self.shown(&mut section, levels);
        let mut rows = self.factor_list(&mut section, "rows", levels);
        if rows.is_empty() {
            rows.push(Factor::Payload);
        }
        let columns = self.factor_list(&mut section, "columns", levels);
        let published = self.published(&mut section);
        section.finish(self.source);
        let (title, figure, filter) = shown?;
        Some(Table { title, figure, filter, rows, columns, published })
    }

    /// Reads a `[[chart]]` of any kind.
    pub(crate) fn drawing(
        &mut self,
        mut section: Section<'_, '_>,
        levels: &Levels,
        has_intervals: bool,
    ) -> Option<Drawing> {
        let kinds =
            [("lines", Some(ChartKind::Lines)), ("bars", Some(ChartKind::Bars)), ("series", None)];
        let place = section.span.clone();
        let kind = section.take("kind").map_or(Some(Some(ChartKind::Lines)), |value| {
            self.one_of(value, &kinds, "kind of chart")
        });
        match kind? {
            Some(kind) => self.chart(section, levels, kind).map(Drawing::Levels),
            None if has_intervals => self.course(section, levels).map(Drawing::Course),
            None => {
                let message = "a chart of kind series needs intervals";
                let help = "add interval = \"500ms\" to [run]";
                self.refuse(place, message, help)
            }
        }
    }

    fn chart(
        &mut self,
        mut section: Section<'_, '_>,
        levels: &Levels,
        kind: ChartKind,
    ) -> Option<Chart> {
        let shown = self.shown(&mut section, levels);
        let x = section.take("x").map(|value| self.factor_name(value, levels));
        let series = self.factor_list(&mut section, "series", levels);
        let split = self.factor_list(&mut section, "split", levels);
        let published = self.published(&mut section);
        section.finish(self.source);
        let (title, figure, filter) = shown?;
        let x = x.unwrap_or(Some(Factor::Payload))?;
        Some(Chart { title, kind, figure, filter, x, series, split, axis: None, published })
    }

    /// Reads a chart over time.
    fn course(&mut self, mut section: Section<'_, '_>, levels: &Levels) -> Option<CourseChart> {
        let title = section.take("title").and_then(|value| self.text(value)).unwrap_or_default();
        let course = section.take("figure").map_or(Some(Course::Goodput), |value| {
            self.one_of(value, &Course::ALL, "figure over time")
        });
        let runs = [("first", CourseOf::First), ("mean", CourseOf::Mean)];
        let of = section
            .take("runs")
            .map_or(Some(CourseOf::First), |value| self.one_of(value, &runs, "choice of runs"));
        let filter = self.section(&mut section, "where", "where");
        let filter = self.filter(filter, levels);
        let series = self.factor_list(&mut section, "series", levels);
        section.finish(self.source);
        Some(CourseChart { title, course: course?, filter: filter?, series, of: of? })
    }
}
