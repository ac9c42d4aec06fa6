//! The interface of programs under test, and how a client and a server perform one run.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fabricmark_lab::{LabError, Role};

use crate::place::{Place, Ready, Target, await_server};
use crate::process::{Output, Running};
use crate::work::{Values, Work};

/// Parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub work: Work,
    pub target: Target,
    /// Whether each end has a CPU of its own; otherwise each program places its threads and waits by its defaults.
    pub is_pinned: bool,
    /// Duration. Programs that accept only whole seconds round it up.
    pub seconds: f64,
    /// Departures per second, for workloads at a fixed rate.
    pub rate_per_s: u64,
    /// TCP congestion control on a veth pair.
    pub congestion: &'a str,
    /// Set on an interrupt by the user.
    pub stop: &'a AtomicBool,
}

impl Job<'_> {
    /// The duration rounded up to whole seconds.
    pub fn whole_seconds(&self) -> u64 {
        self.seconds.ceil().max(1.0) as u64
    }
}

/// Why a run has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The program does not support this workload or is not installed; it is not tried again.
    #[error("not offered: {0}")]
    NotOffered(String),
    #[error("{0}")]
    Failed(String),
    #[error("it ran past its time of {0:?}")]
    Late(Duration),
    /// Interrupted by the user.
    #[error("interrupted")]
    Interrupted,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            // A missing kernel feature will also be missing in the next round.
            LabError::NoQdisc { .. } | LabError::Backend(_) => Self::NotOffered(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// A program, or a pair of programs, under test.
pub trait Contender {
    /// Name in the table.
    fn name(&self) -> &'static str;

    /// Whether it supports this workload.
    fn offers(&self, work: Work) -> bool;

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure>;
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// By itself, after its only client; its output is read.
    Itself,
    /// On SIGINT; its output is read.
    Interrupted,
    /// It is killed, because it would run for ever; its output is ignored.
    Killed,
}

/// Command lines of a client and a server.
#[derive(Clone, Debug)]
pub struct Pair {
    pub server: Vec<String>,
    pub client: Vec<String>,
    /// Condition for the server to be ready.
    pub ready: Ready,
    pub ends: Ends,
}

/// Time allowed for connecting, reporting and ending, in addition to the run.
pub const GRACE: Duration = Duration::from_secs(10);

impl Pair {
    /// A pair whose server listens on a TCP port. Command lines have no quotes.
    pub fn tcp(port: u16, ends: Ends, server: &str, client: &str) -> Self {
        Self { server: words(server), client: words(client), ready: Ready::Listens(port), ends }
    }

    /// A pair whose server binds a UDP port.
    pub fn udp(port: u16, ends: Ends, server: &str, client: &str) -> Self {
        Self { ready: Ready::IsBound(port), ..Self::tcp(port, ends, server, client) }
    }

    /// Performs one run; returns the standard output of client and server.
    pub fn run(&self, job: &Job<'_>, place: &Place) -> Result<(String, String), Failure> {
        let start = |end, words: &[String]| {
            Running::start(&mut place.command(end, words))
                .map_err(|error| Failure::Failed(format!("cannot start {}: {error}", words[0])))
        };
        let answering = start(Role::Server, &self.server)?;
        if let Err(failure) = await_server(&answering, self.ready) {
            return Err(with_reason(failure, &answering.finish()?));
        }
        let asking = start(Role::Client, &self.client)?;
        asking.wait(Duration::from_secs(job.whole_seconds()) + GRACE, job.stop)?;
        let asked = asking.finish()?;
        if !asked.status.success() {
            let failure = Failure::Failed(format!("its client ended with {}", asked.status));
            return Err(with_reason(failure, &asked));
        }
        if self.ends == Ends::Interrupted {
            answering.interrupt();
        }
        if self.ends != Ends::Killed {
            answering.wait(GRACE, job.stop)?;
        }
        Ok((asked.out, answering.finish()?.out))
    }
}

/// Adds the last line of the program's output to a failure.
pub fn with_reason(failure: Failure, output: &Output) -> Failure {
    let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    match (failure, last(&output.err).or_else(|| last(&output.out))) {
        (Failure::Failed(what), Some(why)) => Failure::Failed(format!("{what}: {}", why.trim())),
        (failure, _) => failure,
    }
}

/// Splits a command line without quotes.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
