//! The programs `ip` and `tc` of iproute2, and what can go wrong with a lab.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use fabricmark_wire::Link;

use crate::namespace::Namespace;
use crate::qdisc::Refusal;

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This user may not make namespaces.
    #[error("{cause}\n{remedy}")]
    Refused {
        /// What the kernel refused and why.
        cause: String,
        /// What to do about it.
        remedy: String,
    },
    /// A program is missing.
    #[error(
        "the program `{0}` is missing: install iproute2 (Debian, Ubuntu: apt-get install iproute2)"
    )]
    Missing(&'static str),
    /// A program did not do what it was asked for.
    #[error("`{command}` failed: {message}")]
    Tool {
        /// The command as one could type it in the namespace.
        command: String,
        /// What it said.
        message: String,
    },
    /// The addresses of a lab do not reach further.
    #[error("a lab has at most {max} links, the plan names {asked}", max = crate::network::LINKS_MAX)]
    TooManyLinks {
        /// Links asked for.
        asked: usize,
    },
    /// No network on this machine passes for this link.
    #[error(
        "`{link}`: the lab on this machine emulates no {technology}; use ethernet:RATE, ipoib:4X-SDR \
         or veth, or name a host that has one and --link {link}"
    )]
    NotEmulated {
        /// The link asked for.
        link: Link,
        /// What it is made of.
        technology: &'static str,
    },
    /// A link cannot be made of what it was said to be.
    #[error(transparent)]
    Invalid(#[from] fabricmark_link::Invalid),
    /// A link cannot do what its words say.
    #[error("link `{link}`: {error}")]
    Words {
        /// The link.
        link: String,
        /// What is wrong.
        error: String,
    },
    /// Queues of the kernel cannot do what a link is to do.
    #[error("link `{link}`: {refusal}")]
    Backend {
        /// The link.
        link: String,
        /// What they cannot do.
        refusal: Refusal,
    },
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
    /// Some queues keep what they count while they are up.
    #[error(
        "link `{link}`: the framing of an htb that is up stays: say it in the file, `lab down`, `lab up`"
    )]
    OtherFraming {
        /// The link.
        link: String,
    },
    /// The kernel does not take a setting.
    #[error("cannot set {key} to `{value}`: {source}")]
    Sysctl {
        /// Its name.
        key: String,
        /// What it was to be.
        value: String,
        /// Why not.
        source: io::Error,
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
        matches!(self, Self::Refused { .. } | Self::Missing(_) | Self::NoQdisc { .. })
    }

    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

/// Runs a program in a namespace, with `input` on its standard input; gives its standard output.
pub(crate) fn run(
    namespace: &Namespace,
    program: &'static str,
    arguments: &[&str],
    input: &str,
) -> Result<String, LabError> {
    let program_file = fabricmark_host::program(program).ok_or(LabError::Missing(program))?;
    let mut command = Command::new(program_file);
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
