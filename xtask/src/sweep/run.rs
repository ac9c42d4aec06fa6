//! Runs a point with the real program and classifies the result.

use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::laws::{Breach, breaches, is_counted};
use super::point::Point;
use super::record::Record;

/// Time-out beyond ten times the duration: three runs, each of which waits for send buffers for up to 20 s, for a long
/// RTT, and until its link is empty (79 s were observed).
const GRACE: Duration = Duration::from_secs(120);

const LOOK: Duration = Duration::from_millis(2);

/// Result of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran, and its record satisfies every law.
    Completed,
    /// It ran, but the program itself declares the run invalid, for this reason.
    Invalid(String),
    /// The program refused the point (exit code 64 or 66), for this reason.
    Refused(String),
    /// A law is broken.
    Broken(Vec<Breach>),
    /// The program failed unexpectedly; the breach describes the failure.
    Failed(Breach),
    /// Interrupted by the user.
    Interrupted,
}

impl Outcome {
    /// The breaches of a failure; empty for other outcomes.
    pub fn breaches(&self) -> &[Breach] {
        match self {
            Self::Broken(all) => all,
            Self::Failed(one) => std::slice::from_ref(one),
            _ => &[],
        }
    }
}

/// Result of a run of the program.
#[derive(Clone, Debug)]
pub struct Run {
    /// Classified result.
    pub outcome: Outcome,
    /// JSON output of the program; `None` if it printed none.
    pub document: Option<Value>,
    /// Elapsed time.
    pub took: Duration,
}

/// The program under test.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    /// Folder for its state, so that this machine's calibration is ignored.
    pub state: PathBuf,
}

impl Program {
    /// Runs a point once and classifies the result.
    pub fn run(&self, point: &Point, interrupted: &AtomicBool) -> Run {
        let started = Instant::now();
        let ended = self.output(point, interrupted);
        let took = started.elapsed();
        let mut document = None;
        let outcome = match ended {
            _ if interrupted.load(Relaxed) => Outcome::Interrupted,
            Err(numbers) => Outcome::Failed(Breach { law: "starts", numbers }),
            Ok(None) => {
                let numbers = format!("still running after {:.1} s", took.as_secs_f64());
                Outcome::Failed(Breach { law: "ends", numbers })
            }
            Ok(Some(ended)) => {
                document = last_document(&ended.stdout);
                judge(point, &ended, document.as_ref())
            }
        };
        Run { outcome, document, took }
    }

    /// Output of the program; `None` if it had to be killed.
    fn output(&self, point: &Point, interrupted: &AtomicBool) -> Result<Option<Ended>, String> {
        let mut child = Command::new(&self.path)
            .args(point.words())
            .arg("--json")
            .env("XDG_STATE_HOME", &self.state)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.path.display()))?;
        let readers = (reader(child.stdout.take()), reader(child.stderr.take()));
        let until = Instant::now() + GRACE + 10 * Duration::from_nanos(point.duration_ns());
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < until && !interrupted.load(Relaxed) => {
                    thread::sleep(LOOK);
                }
                Ok(None) | Err(_) => break None,
            }
        };
        let Some(status) = status else {
            // Ignore errors: it may have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        };
        let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Some(Ended { code, stdout: text(readers.0), stderr: text(readers.1) }))
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Ignore errors: the text so far is evaluated.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Exit code and output of the program.
#[derive(Debug)]
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

/// The last JSON document: `--interval` prints a line for each interval before it.
fn last_document(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter().map_while(Result::ok).last()
}

fn judge(point: &Point, ended: &Ended, document: Option<&Value>) -> Outcome {
    let failed = |law| Outcome::Failed(Breach { law, numbers: message(&ended.stderr) });
    if ended.stderr.contains("panicked at") {
        return failed("does-not-panic");
    }
    let records = document.and_then(|document| document.pointer("/records")?.as_array());
    let records: Vec<Record> = records.into_iter().flatten().map(Record).collect();
    match ended.code {
        0 => match document.map(|document| breaches(point, document)) {
            _ if !records.iter().any(is_counted) => {
                let reason = records.last().map(|record| record.text("/outcome/reason"));
                let numbers = format!("exit code 0 without a run that counts: {reason:?}");
                Outcome::Failed(Breach { law: "success-has-a-record", numbers })
            }
            Some(broken) if !broken.is_empty() => Outcome::Broken(broken),
            _ => Outcome::Completed,
        },
        64 | 66 => Outcome::Refused(message(&ended.stderr)),
        67 => {
            let reasons = records.iter().filter(|record| !is_counted(record));
            let reason = reasons.map(|record| record.text("/outcome/reason")).next_back();
            match reason {
                Some(reason) if !reason.is_empty() => Outcome::Invalid(reason.to_owned()),
                _ => failed("runs"),
            }
        }
        130 => Outcome::Interrupted,
        70 => failed("has-no-fault"),
        _ => {
            let numbers = format!("exit code {}: {}", ended.code, message(&ended.stderr));
            Outcome::Failed(Breach { law: "has-a-documented-exit-code", numbers })
        }
    }
}

/// The program's standard error, in one line.
fn message(stderr: &str) -> String {
    let lines: Vec<&str> =
        stderr.lines().map(str::trim).filter(|line| !line.is_empty()).take(6).collect();
    lines.join(" / ")
}

/// A message with numbers replaced by `N`, so that similar messages are counted together.
pub fn kind(message: &str) -> String {
    let mut kind = String::new();
    for character in message.chars() {
        match character {
            '0'..='9' | '.' | ',' if kind.ends_with('N') => {}
            '0'..='9' => kind.push('N'),
            _ => kind.push(character),
        }
    }
    kind
}

/// Formats the breaches of a failure.
pub fn said(breaches: &[Breach]) -> String {
    breaches.iter().map(|breach| format!("    {}: {}\n", breach.law, breach.numbers)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn point() -> Point {
        super::super::generate::point(1, 0)
    }

    fn judged(code: i32, stderr: &str, document: Option<&Value>) -> Outcome {
        let ended = Ended { code, stdout: String::new(), stderr: stderr.to_owned() };
        judge(&point(), &ended, document)
    }

    fn law(outcome: &Outcome) -> &'static str {
        outcome.breaches()[0].law
    }

    #[test]
    fn refusals_and_invalid_runs_are_no_failures() {
        let refusal = "fabricmark: no such thing; use another\n";
        for code in [64, 66] {
            let said = "fabricmark: no such thing; use another".to_owned();
            assert_eq!(judged(code, refusal, None), Outcome::Refused(said));
        }
        let invalid =
            json!({ "records": [{ "outcome": { "kind": "invalid", "reason": "lost" } }] });
        assert_eq!(judged(67, "", Some(&invalid)), Outcome::Invalid("lost".to_owned()));
    }

    #[test]
    fn a_panic_a_fault_and_a_failure_without_a_reason_are_failures() {
        assert_eq!(law(&judged(0, "thread 'main' panicked at x.rs:1", None)), "does-not-panic");
        assert_eq!(law(&judged(70, "a fault", None)), "has-no-fault");
        assert_eq!(law(&judged(67, "no link", None)), "runs");
        assert_eq!(law(&judged(139, "", None)), "has-a-documented-exit-code");
        assert_eq!(law(&judged(0, "", Some(&json!({ "records": [] })))), "success-has-a-record");
    }

    #[test]
    fn the_last_document_of_several_is_read() {
        assert_eq!(last_document("{\"a\":1}\n{\"records\":[]}\n"), Some(json!({ "records": [] })));
        assert_eq!(last_document("no JSON"), None);
    }

    #[test]
    fn like_messages_are_counted_together() {
        assert_eq!(kind("no answer within 1,234.5us of 2"), kind("no answer within 7us of 19"));
    }

    #[test]
    fn a_program_that_cannot_be_started_is_a_failure() {
        let program = Program { path: "/nonexistent/program".into(), state: "/".into() };
        let run = program.run(&point(), &AtomicBool::new(false));
        assert_eq!(law(&run.outcome), "starts");
    }
}
