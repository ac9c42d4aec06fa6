//! The programs `ip` and `tc` of iproute2, and what can go wrong with a lab.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::namespace::Namespace;

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine lacks a right or a program: which, and what to do about it.
    #[error("{0}")]
    Lacks(String),
    /// A program did not do what it was asked for.
    #[error("`{command}` failed: {message}")]
    Tool {
        /// The command as one could type it in the namespace.
        command: String,
        /// What it said.
        message: String,
    },
    /// What was asked for cannot be, and why.
    #[error("{0}")]
    Input(String),
    /// A link cannot be made of what it was said to be.
    #[error(transparent)]
    Invalid(#[from] fabricmark_link::Invalid),
    /// Queues of the kernel cannot do what a link is to do: what, and what can.
    #[error("{0}")]
    Backend(String),
    /// The kernel has no such queue.
    #[error(
        "link `{link}`: this kernel has no queue of the kind {kind}: as root try `modprobe sch_{kind}`; \
         without the module use a kernel that has it, or backend `emulator`"
    )]
    NoQdisc {
        /// The link that needs it.
        link: String,
        /// As `tc` calls it.
        kind: &'static str,
    },
    /// The emulator has ended, which it only does by a defect.
    #[error("the thread of the emulator has stopped: `lab down` and `lab up` start it again")]
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
    /// Whether this machine lacks something: a right, a program, a part of the kernel.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Lacks(_) | Self::NoQdisc { .. })
    }

    pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { doing, source: error.into() }
    }
}

/// Runs lines of `ip -batch` in a namespace.
pub(crate) fn ip(namespace: &Namespace, lines: &str) -> Result<String, LabError> {
    run(namespace, "ip", &["-batch", "-"], lines)
}

/// Runs `tc` in a namespace, with words between single blanks.
pub(crate) fn tc(namespace: &Namespace, words: &str) -> Result<String, LabError> {
    run(namespace, "tc", &words.split(' ').collect::<Vec<_>>(), "")
}

/// The queues of a device, with what they counted.
pub(crate) fn queues(namespace: &Namespace, device: &str) -> Result<Vec<Value>, LabError> {
    let text = tc(namespace, &format!("-s -j qdisc show dev {device}"))?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Runs a program in a namespace, with `input` on its standard input; gives its standard output.
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
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    namespace.enter(&mut command);
    let mut child = command.spawn().map_err(LabError::system("start a program"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that stopped reading says why below.
        let _ = stdin.write_all(input.as_bytes());
    }
    let Output { status, stdout, stderr } =
        child.wait_with_output().map_err(LabError::system("wait for a program"))?;
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
