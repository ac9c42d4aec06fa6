//! The programs `ip` and `tc` of iproute2, and the errors of a lab.

use std::io;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::namespace::Namespace;

/// Why a lab cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine lacks a right or a program; the text names it and the remedy.
    #[error("{0}")]
    Lacks(String),
    /// A program failed.
    #[error("`{command}` failed: {message}")]
    Tool {
        /// The command, as it could be typed in the namespace.
        command: String,
        /// Its error message.
        message: String,
    },
    /// The request is invalid; the text says why.
    #[error("{0}")]
    Input(String),
    /// The options of a link are invalid.
    #[error(transparent)]
    Invalid(#[from] fabricmark_link::Invalid),
    /// Queueing disciplines of the kernel do not support an option; the text names it, and a backend that does.
    #[error("{0}")]
    Backend(String),
    /// The kernel lacks a queueing discipline.
    #[error(
        "link `{link}`: this kernel has no {kind} qdisc: run `modprobe sch_{kind}` as root, or use \
         a kernel with this module, or backend `emulator`"
    )]
    NoQdisc {
        /// The link that needs it.
        link: String,
        /// Its kind, as `tc` calls it.
        kind: &'static str,
    },
    /// The thread of the emulator has ended or does not answer, which only a defect can cause.
    #[error("the emulator thread has stopped: run `lab down` and `lab up` to restart it")]
    Stopped,
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl LabError {
    /// Whether this machine lacks a right, a program, or a part of the kernel.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Lacks(_) | Self::NoQdisc { .. })
    }

    pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { doing, source: error.into() }
    }
}

/// Longest time for a call of a program, which takes milliseconds, and seconds for a lab of thousands of nodes; an
/// arbitrary choice.
const TOOL_WITHIN: Duration = Duration::from_secs(60);

/// Runs lines of `ip -batch` in a namespace.
pub(crate) fn ip(namespace: &Namespace, lines: &str) -> Result<String, LabError> {
    run(namespace, "ip", &["-batch", "-"], lines)
}

/// Runs `tc` in a namespace, with arguments separated by single spaces.
pub(crate) fn tc(namespace: &Namespace, words: &str) -> Result<String, LabError> {
    run(namespace, "tc", &words.split(' ').collect::<Vec<_>>(), "")
}

/// Queueing disciplines of a device, with their counters.
pub(crate) fn queues(namespace: &Namespace, device: &str) -> Result<Vec<Value>, LabError> {
    let text = tc(namespace, &format!("-s -j qdisc show dev {device}"))?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Runs a program in a namespace, with `input` on its standard input; returns its standard output.
pub(crate) fn run(
    namespace: &Namespace,
    program: &'static str,
    arguments: &[&str],
    input: &str,
) -> Result<String, LabError> {
    let file = fabricmark_host::program(program).ok_or_else(|| {
        LabError::Lacks(format!(
            "the program `{program}` is missing: install iproute2 (Debian, Ubuntu: apt-get install \
             iproute2)"
        ))
    })?;
    let mut command = Command::new(file);
    command.args(arguments);
    namespace.enter(&mut command);
    let output = fabricmark_host::output_within(&mut command, input.as_bytes(), TOOL_WITHIN);
    let Output { status, stdout, stderr } =
        output.map_err(LabError::system("run a program of iproute2"))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let command = format!("{program} {}", arguments.join(" "));
    let input = if input.is_empty() { String::new() } else { format!(" <<< {}", input.trim()) };
    Err(LabError::Tool {
        command: command + &input,
        message: String::from_utf8_lossy(&stderr).trim().to_owned(),
    })
}
