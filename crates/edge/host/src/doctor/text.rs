//! Findings as text for the terminal.

use super::finding::{Evidence, Finding, Severity};

/// Width of the labels in front of evidence, reason and command.
const INDENT: usize = 11;

/// Formats findings, most severe first. Unless `is_all`, notes have no reason, findings that are not observable
/// have no evidence, and all fine findings share one line.
pub fn text(findings: &[Finding], is_all: bool, columns: usize) -> String {
    let columns = columns.clamp(40, 100);
    let mut out = String::new();
    for finding in findings {
        out += &match finding.severity {
            _ if is_all => whole(finding, columns),
            Severity::Problem | Severity::Warning => whole(finding, columns),
            Severity::Note => {
                let parts = [head(finding, columns), found(finding, columns), fix(finding)];
                parts.concat() + "\n"
            }
            Severity::NotObservable => head(finding, columns),
            Severity::Fine => continue,
        };
    }
    let fine = of(findings, Severity::Fine);
    if !is_all && fine > 0 {
        out += &format!("fine: {fine} more (shown with --all)\n");
    }
    let sum = match (of(findings, Severity::Problem), of(findings, Severity::Warning)) {
        (0, 0) => "No problems and no warnings.".to_owned(),
        (problems, warnings) => format!(
            "Problems: {problems}. Warnings: {warnings}. The commands need root and last until the \
             next boot."
        ),
    };
    format!("{}\n\n{}", out.trim_end(), wrapped("", &sum, 0, columns))
}

fn of(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}

/// A finding with evidence, reason and command.
fn whole(finding: &Finding, columns: usize) -> String {
    let why = wrapped("  because  ", finding.why, INDENT, columns);
    [head(finding, columns), found(finding, columns), why, fix(finding)].concat() + "\n"
}

fn head(finding: &Finding, columns: usize) -> String {
    let title = format!("{} [{}]", finding.title, finding.check);
    wrapped(&format!("{}: ", finding.severity.word()), &title, 2, columns)
}

fn found(finding: &Finding, columns: usize) -> String {
    let lines = finding.evidence.iter().enumerate().map(|(index, Evidence { source, value })| {
        let word = if index == 0 { "  found    " } else { "           " };
        wrapped(word, &format!("{source}: {value}"), INDENT, columns)
    });
    lines.collect()
}

/// The command stays on one line, so that it can be copied.
fn fix(finding: &Finding) -> String {
    let fix = |remedy: &String| format!("  fix      {}\n", printable(remedy));
    finding.remedy.as_ref().map(fix).unwrap_or_default()
}

/// Replaces control characters by `?`: names of processes and interfaces may contain them.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Wraps `head` and the words of `body` at `columns`; continuation lines are indented by `indent` spaces.
fn wrapped(head: &str, body: &str, indent: usize, columns: usize) -> String {
    let mut lines = vec![head.to_owned()];
    let mut is_begun = false;
    for word in body.split_whitespace().map(printable) {
        let Some(line) = lines.last_mut() else { break };
        if is_begun && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(format!("{:indent$}{word}", ""));
        } else {
            if is_begun {
                line.push(' ');
            }
            line.push_str(&word);
        }
        is_begun = true;
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::finding::Check;
    use super::*;

    const CHECK: Check = Check { name: "a-check", why: "It matters." };

    fn findings() -> Vec<Finding> {
        let file = || Evidence::new("/proc/a", "1\u{1b}[31m 2");
        vec![
            CHECK.found_all([file(), file()]).warning("Something").fixed_by("sysctl -w a=2"),
            CHECK.found(file()).note("Something else"),
            CHECK.found(file()).not_observable("Nothing to see"),
            CHECK.found(file()).fine("Well"),
        ]
    }

    #[test]
    fn a_finding_has_its_evidence_its_reason_and_its_command() {
        let expected = "\
warning: Something [a-check]
  found    /proc/a: 1?[31m 2
           /proc/a: 1?[31m 2
  because  It matters.
  fix      sysctl -w a=2

note: Something else [a-check]
  found    /proc/a: 1?[31m 2

not observable: Nothing to see [a-check]
fine: 1 more (shown with --all)

Problems: 0. Warnings: 1. The commands need root and last until the next boot.
";
        assert_eq!(text(&findings(), false, 80), expected);
    }

    #[test]
    fn all_shows_reasons_and_evidence_of_everything() {
        let text = text(&findings(), true, 80);
        assert_eq!(text.matches("  because  It matters.").count(), 4);
        assert!(text.contains("fine: Well [a-check]\n  found    /proc/a"));
    }

    #[test]
    fn words_are_broken_at_the_columns() {
        assert_eq!(wrapped("- ", "one two three", 4, 10), "- one two\n    three\n");
    }

    #[test]
    fn a_sound_machine_is_said_to_be_one() {
        let text = text(&[CHECK.found_all([Evidence::new("/a", "1")]).fine("Well")], false, 80);
        let expected = "fine: 1 more (shown with --all)\n\nNo problems and no warnings.\n";
        assert_eq!(text, expected);
    }
}
