//! What a check comes to: a judgement with its evidence and its remedy.

use serde::Serialize;

use super::tree::File;

/// How much a finding matters, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Figures measured now are wrong or do not repeat.
    Problem,
    /// Figures suffer on some paths, at some rates, or at some times.
    Warning,
    /// Worth knowing when figures are read or compared.
    Note,
    /// This machine does not show it; the finding says why.
    #[serde(rename = "not observable")]
    NotObservable,
    /// As it should be.
    Fine,
}

impl Severity {
    /// The severity in words.
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

/// One thing that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name, for scripts; the same in every version.
    pub name: &'static str,
    /// Why it matters, in one sentence.
    pub why: &'static str,
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file, or the call.
    pub source: String,
    /// What stood there, or why it could not be read.
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

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check; a check of interfaces has a finding for each.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The finding in words.
    pub title: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// Why it matters, in one sentence.
    pub why: &'static str,
    /// The command, for root, that fixes it; `None` where no command does.
    pub remedy: Option<String>,
}

/// The evidence of a check, not judged yet.
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
    /// Adds the command that fixes it.
    pub(super) fn fixed_by(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(command.into());
        self
    }
}
