//! Who takes part, and how a pair of programs makes one run.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fabricmark_lab::{LabError, Role};

use crate::place::{Place, Ready, Target, await_server};
use crate::process::{Output, Running};
use crate::work::{Values, Work};

/// One run to be made.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub work: Work,
    pub target: Target,
    /// For how long. A program that knows whole seconds only runs for the next whole one.
    pub seconds: f64,
    /// Departures per second, for work at a fixed rate.
    pub rate_per_s: u64,
    /// TCP's congestion control on a veth pair.
    pub congestion: &'a str,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
}

impl Job<'_> {
    /// The duration for programs that know whole seconds only.
    pub fn whole_seconds(&self) -> u64 {
        self.seconds.ceil().max(1.0) as u64
    }
}

/// Why a run has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The program cannot do this work or is not there, and need not be asked again.
    #[error("not offered: {0}")]
    NotOffered(String),
    #[error("{0}")]
    Failed(String),
    #[error("it ran past its time of {0:?}")]
    Late(Duration),
    /// The user wants to stop.
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
            // What this kernel lacks it lacks in the next round, too.
            LabError::NoQdisc { .. } | LabError::Backend(_) => Self::NotOffered(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// A program, or a pair of them, that does work.
pub trait Contender {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Whether it knows this work.
    fn offers(&self, work: Work) -> bool;

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure>;
}

/// How a server comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// By itself, after its one client; what it prints is read.
    Itself,
    /// At Ctrl-C; what it prints then is read.
    Interrupted,
    /// It would serve for ever, and says nothing of interest.
    Killed,
}

/// A client and a server, each a program with its arguments.
#[derive(Clone, Debug)]
pub struct Pair {
    pub server: Vec<String>,
    pub client: Vec<String>,
    /// What tells that the server is ready.
    pub ready: Ready,
    pub ends: Ends,
}

/// Time for everything around a run: connecting, reporting, ending.
pub const GRACE: Duration = Duration::from_secs(10);

impl Pair {
    /// Command lines without quotes; the server listens on a TCP port.
    pub fn tcp(port: u16, ends: Ends, server: &str, client: &str) -> Self {
        Self { server: words(server), client: words(client), ready: Ready::Listens(port), ends }
    }

    /// The same with a server at a UDP port.
    pub fn udp(port: u16, ends: Ends, server: &str, client: &str) -> Self {
        Self { ready: Ready::IsBound(port), ..Self::tcp(port, ends, server, client) }
    }

    /// Makes one run: what client and server printed to standard output.
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

/// A failure with the last line that the program printed about it.
pub fn with_reason(failure: Failure, output: &Output) -> Failure {
    let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    match (failure, last(&output.err).or_else(|| last(&output.out))) {
        (Failure::Failed(what), Some(why)) => Failure::Failed(format!("{what}: {}", why.trim())),
        (failure, _) => failure,
    }
}

/// The words of a command line without quotes.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
