//! Reads single values of a plan file: texts, numbers, quantities and tables. Each error is recorded with its
//! position and the remedy.

use std::ops::Range;

use fabricmark_units::Nanos;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::plan::{INTERVAL_MIN, INTERVALS_MAX};
use crate::problem::Source;

/// Longest run: an hour.
pub(crate) const DURATION_MAX: Nanos = Nanos::from_secs(3600);

pub(crate) type Value<'i> = Spanned<DeValue<'i>>;

/// A table from which known keys are taken; keys that remain are unknown.
pub(crate) struct Section<'a, 'i> {
    pub(crate) name: &'static str,
    pub(crate) span: Range<usize>,
    pub(crate) table: Option<&'a DeTable<'i>>,
    pub(crate) known: Vec<&'static str>,
}

impl<'a, 'i> Section<'a, 'i> {
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Value<'i>> {
        self.known.push(key);
        self.table?.get(key)
    }

    /// Records an error for every key that was not taken.
    pub(crate) fn finish(self, source: &mut Source<'_>) {
        let Some(table) = self.table else { return };
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let message = format!("unknown key `{name}` in {}", self.name);
                source.problem(key.span(), message, suggestion(name, &self.known));
            }
        }
    }
}

/// "did you mean" for a near miss, otherwise all choices.
pub(crate) fn suggestion(name: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(name, word), word))
        .min()
        .filter(|(distance, word)| *distance <= 2.max(word.len() / 3));
    match near {
        Some((_, word)) => format!("did you mean `{word}`?"),
        None => format!("use one of {}", known.join(", ")),
    }
}

pub(crate) struct Reader<'s, 't> {
    pub(crate) source: &'s mut Source<'t>,
    pub(crate) published: &'s [&'s str],
    /// Whether the `[quick]` table is applied.
    pub(crate) is_quick: bool,
}

impl Reader<'_, '_> {
    /// Records an error and returns `None`.
    pub(crate) fn refuse<T>(
        &mut self,
        place: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.source.problem(place, message, help);
        None
    }

    pub(crate) fn wrong(&mut self, value: &Value<'_>, expected: &str) {
        let message =
            format!("expected {expected}, found {}", value.get_ref().type_str().replace('_', " "));
        self.source.problem(value.span(), message, format!("write {expected}"));
    }

    /// Reads a text. A list of one text counts as that text.
    pub(crate) fn text(&mut self, value: &Value<'_>) -> Option<String> {
        let only = match value.get_ref().as_array() {
            Some(list) if list.len() == 1 => &list[0],
            _ => value,
        };
        let text = only.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong(value, "a string in quotes");
        }
        text
    }

    /// Reads a boolean. Anything else is recorded as an error and read as true.
    pub(crate) fn truth(&mut self, value: &Value<'_>) -> bool {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            self.wrong(value, "true or false");
        }
        truth.unwrap_or(true)
    }

    pub(crate) fn integer(
        &mut self,
        value: &Value<'_>,
        min: u64,
        max: u64,
        expected: &str,
    ) -> Option<u64> {
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|i| u64::from_str_radix(&i.as_str().replace('_', ""), i.radix()).ok())
            .filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let found = self.source.text.get(value.span()).unwrap_or_default().to_owned();
            let message = format!("`{found}` is not {expected}");
            self.source.problem(value.span(), message, format!("write {expected}"));
        }
        number
    }

    /// Reads a quantity of the `units` crate: a text with a number and a unit.
    pub(crate) fn quantity<T: std::str::FromStr>(
        &mut self,
        value: &Value<'_>,
        expected: &str,
    ) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong(value, expected);
            return None;
        };
        text.parse().map_or_else(
            |error: T::Err| {
                self.refuse(value.span(), error.to_string(), format!("write {expected}"))
            },
            Some,
        )
    }

    pub(crate) fn one_of<T: Copy>(
        &mut self,
        value: &Value<'_>,
        choice: &[(&str, T)],
        what: &str,
    ) -> Option<T> {
        let text = self.text(value)?;
        let found = choice.iter().find(|(word, _)| *word == text).map(|&(_, found)| found);
        found.or_else(|| {
            let words: Vec<&str> = choice.iter().map(|&(word, _)| word).collect();
            self.refuse(value.span(), format!("unknown {what} `{text}`"), suggestion(&text, &words))
        })
    }

    pub(crate) fn section<'a, 'i>(
        &mut self,
        parent: &mut Section<'a, 'i>,
        key: &'static str,
        name: &'static str,
    ) -> Section<'a, 'i> {
        let value = parent.take(key);
        let table = value.and_then(|value| value.get_ref().as_table());
        if let (Some(value), None) = (value, table) {
            self.wrong(value, &format!("a table {name}"));
        }
        Section { name, span: value.map_or(0..0, Spanned::span), table, known: Vec::new() }
    }

    pub(crate) fn tables<'a, 'i>(
        &mut self,
        parent: &mut Section<'a, 'i>,
        key: &'static str,
        name: &'static str,
    ) -> Vec<Section<'a, 'i>> {
        let Some(value) = parent.take(key) else {
            return Vec::new();
        };
        let tables: Option<Vec<_>> = value.get_ref().as_array().and_then(|array| {
            let section = |item: &'a Value<'i>| {
                let table = Some(item.get_ref().as_table()?);
                Some(Section { name, span: item.span(), table, known: Vec::new() })
            };
            array.iter().map(section).collect()
        });
        if tables.is_none() {
            self.wrong(value, &format!("{name} tables"));
        }
        tables.unwrap_or_default()
    }

    pub(crate) fn duration(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
    ) -> Option<Nanos> {
        let value = section.take(key)?;
        let duration: Nanos = self.quantity(value, "a duration such as \"400ms\" or \"1s\"")?;
        // 0 means no warm-up, no omitted part, and the first start.
        let is_long = duration.0 > 0 || ["warm_up", "omit", "start"].contains(&key);
        if !is_long || duration > DURATION_MAX {
            let message = format!("a {key} of {duration} is out of range");
            return self.refuse(value.span(), message, "use more than 0 and at most an hour");
        }
        Some(duration)
    }

    /// Reads the interval of runs of this length.
    pub(crate) fn interval(&mut self, value: &Value<'_>, duration: Nanos) -> Option<Nanos> {
        let interval: Nanos = self.quantity(value, "an interval such as \"100ms\"")?;
        let shortest = INTERVAL_MIN.max(Nanos(duration.0.div_ceil(INTERVALS_MAX)));
        if interval < shortest || interval > duration {
            let message = format!(
                "an interval of {interval} is out of range for a run of \
                                   {duration}"
            );
            let help = format!("use {shortest} to {duration}");
            return self.refuse(value.span(), message, help);
        }
        Some(interval)
    }
}
