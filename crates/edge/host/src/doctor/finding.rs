//! Result of a check: severity, evidence and remedy.

use serde::Serialize;

use super::tree::File;

/// Severity of a finding, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Figures measured now are wrong or not repeatable.
    Problem,
    /// Figures are affected on some paths, at some rates, or at some times.
    Warning,
    /// Relevant when figures are read or compared.
    Note,
    /// Cannot be determined on this machine; the finding says why.
    #[serde(rename = "not observable")]
    NotObservable,
    /// Nothing to fix.
    Fine,
}

impl Severity {
    /// Name of the severity in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
            Self::NotObservable => "not observable",
            Self::Fine => "fine",
        }
    }
}

/// A check: one condition that is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name for scripts, stable across versions.
    pub name: &'static str,
    /// Why the condition matters, in one sentence.
    pub why: &'static str,
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// File or system call.
    pub source: String,
    /// Content, or the reason that it could not be read.
    pub value: String,
}

impl Evidence {
    pub(super) fn new(source: impl Into<String>, value: impl Into<String>) -> Self {
        Self { source: source.into(), value: value.into() }
    }
}

impl From<&File> for Evidence {
    fn from(file: &File) -> Self {
        match &file.text {
            Ok(text) => Self::new(&file.path, text),
            Err(reason) => Self::new(&file.path, format!("cannot be read: {reason}")),
        }
    }
}

/// Finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check. A check of network cards has one finding per card.
    pub check: &'static str,
    /// How much the finding matters.
    pub severity: Severity,
    /// One-line summary.
    pub title: String,
    /// Values on which the finding is based.
    pub evidence: Vec<Evidence>,
    /// Why the condition matters, in one sentence.
    pub why: &'static str,
    /// Command that fixes it, to be run as root; `None` if no single command does.
    pub remedy: Option<String>,
}

/// A check with its evidence, before a severity is assigned.
pub(super) struct Found {
    check: Check,
    evidence: Vec<Evidence>,
}

impl Check {
    pub(super) fn found(self, evidence: impl Into<Evidence>) -> Found {
        self.found_all([evidence])
    }

    pub(super) fn found_all(self, all: impl IntoIterator<Item = impl Into<Evidence>>) -> Found {
        Found { check: self, evidence: Vec::new() }.found_all(all)
    }
}

impl Found {
    pub(super) fn found(self, evidence: impl Into<Evidence>) -> Self {
        self.found_all([evidence])
    }

    pub(super) fn found_all(mut self, all: impl IntoIterator<Item = impl Into<Evidence>>) -> Self {
        self.evidence.extend(all.into_iter().map(Into::into));
        self
    }

    pub(super) fn problem(self, title: impl Into<String>) -> Finding {
        self.judged(Severity::Problem, title.into())
    }

    pub(super) fn warning(self, title: impl Into<String>) -> Finding {
        self.judged(Severity::Warning, title.into())
    }

    pub(super) fn note(self, title: impl Into<String>) -> Finding {
        self.judged(Severity::Note, title.into())
    }

    pub(super) fn fine(self, title: impl Into<String>) -> Finding {
        self.judged(Severity::Fine, title.into())
    }

    pub(super) fn not_observable(self, title: impl Into<String>) -> Finding {
        self.judged(Severity::NotObservable, title.into())
    }

    fn judged(self, severity: Severity, title: String) -> Finding {
        let Self { check: Check { name: check, why }, evidence } = self;
        Finding { check, severity, title, evidence, why, remedy: None }
    }
}

impl Finding {
    pub(super) fn fixed_by(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(command.into());
        self
    }
}
