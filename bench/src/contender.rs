//! Who takes part, and how a pair of programs makes one run.

use fabricmark_lab::Role;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::place::{Place, Ready, Target, await_server};
use crate::process::{Output, Running, Unfinished};
use crate::work::{Values, Work};

/// One run to be made.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What to do.
    pub work: Work,
    /// On which network.
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
    /// The run went wrong.
    #[error("{0}")]
    Failed(String),
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<Unfinished> for Failure {
    fn from(error: Unfinished) -> Self {
        match error {
            Unfinished::Interrupted => Self::Interrupted,
            Unfinished::Late(_) | Unfinished::System(_) => Self::Failed(error.to_string()),
        }
    }
}

/// A program, or a pair of them, that does work.
pub trait Contender {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Whether it knows this work.
    fn offers(&self, work: Work) -> bool;

    /// Makes one run.
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

/// The server of a pair.
#[derive(Clone, Debug)]
pub struct Server {
    /// Program and arguments.
    pub words: Vec<String>,
    /// What tells that it is ready.
    pub ready: Ready,
    /// How it ends.
    pub ends: Ends,
}

/// What both ends printed to standard output.
#[derive(Clone, Debug)]
pub struct Printed {
    /// The client.
    pub client: String,
    /// The server.
    pub server: String,
}

/// Time for everything around a run: connecting, reporting, ending.
pub const GRACE: Duration = Duration::from_secs(10);

/// Makes one run of a client against a server.
pub fn run_pair(
    job: &Job<'_>,
    place: &Place,
    server: &Server,
    client: &[String],
) -> Result<Printed, Failure> {
    let start = |end, words: &[String]| {
        Running::start(&mut place.command(end, words))
            .map_err(|error| Failure::Failed(format!("cannot start {}: {error}", words[0])))
    };
    let answering = start(Role::Server, &server.words)?;
    if let Err(failure) = await_server(&answering, server.ready) {
        return Err(with_reason(failure, &finish(answering)?));
    }
    let asking = start(Role::Client, client)?;
    let within = Duration::from_secs(job.whole_seconds()) + GRACE;
    asking.wait(within, job.stop)?;
    let asked = finish(asking)?;
    if !asked.status.success() {
        let failure = Failure::Failed(format!("its client ended with {}", asked.status));
        return Err(with_reason(failure, &asked));
    }
    if server.ends == Ends::Interrupted {
        answering.interrupt();
    }
    if server.ends != Ends::Killed {
        answering.wait(GRACE, job.stop)?;
    }
    Ok(Printed { client: asked.out, server: finish(answering)?.out })
}

fn finish(running: Running) -> Result<Output, Failure> {
    running.finish().map_err(|error| Failure::Failed(error.to_string()))
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
