//! Errors in a plan file: what is wrong, where, and the remedy.

use std::fmt;

use crate::factor::Factor;
use crate::invalid::Invalid;

/// Why levels contradict each other, so that they form no point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct Contradiction {
    /// Factor whose level does not fit.
    pub factor: Factor,
    /// What is wrong.
    pub message: String,
    /// Remedy.
    pub help: String,
}

/// The error that the level of `factor` contradicts others.
pub(crate) fn refuse<T>(
    factor: Factor,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Result<T, Contradiction> {
    Err(Contradiction { factor, message: message.into(), help: help.into() })
}

impl From<Contradiction> for Invalid {
    fn from(contradiction: Contradiction) -> Self {
        Self(contradiction.to_string())
    }
}

/// An error in a plan file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file as the user gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The text of that line.
    pub source: String,
    /// What is wrong.
    pub message: String,
    /// Remedy.
    pub help: String,
}

/// All errors in a plan file, in the order of lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, source, message, help } = self;
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        writeln!(f, "  {line:>4} | {source}")?;
        writeln!(f, "       | {:>column$}", "^")?;
        write!(f, "       = {help}")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Text of the plan file, and the errors found so far.
pub(crate) struct Source<'a> {
    file: &'a str,
    pub(crate) text: &'a str,
    problems: Vec<Problem>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, problems: Vec::new() }
    }

    /// Records an error at a byte range of the text.
    pub(crate) fn problem(
        &mut self,
        span: std::ops::Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            source: self.text[line_start..].lines().next().unwrap_or_default().to_owned(),
            message: message.into(),
            help: help.into(),
        });
    }

    /// Returns the value, or the errors if any were recorded.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, Problems> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => {
                self.problems.sort_by_key(|problem| (problem.line, problem.column));
                Err(Problems(self.problems))
            }
        }
    }
}
