//! The program at each rank: rank 0 prints, and errors become exit codes (`docs/exit-codes.md`).

use std::env;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_plan::Benchmark;
use fabricmark_record::{MPI_BY_RANK, MpiFacts, MpiJob, MpiLine, MpiResult};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::job::{self, JobError};
use crate::options::{As, Options};
use crate::sys::World;
use crate::table;

/// Invalid input.
const INPUT: u8 = 64;
/// The job failed.
const FAILED: u8 = 67;
/// A signal ended the job.
const INTERRUPTED: u8 = 130;

/// Runs the program; returns its exit code.
pub fn run(options: Result<Options, clap::Error>) -> ExitCode {
    if let Ok(Options { list: true, .. }) = options {
        return list();
    }
    if let Err(error) = set_by_rank() {
        eprintln!("fabricmark-mpi: {error}");
        return FAILED.into();
    }
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("fabricmark-mpi: {error}");
            return FAILED.into();
        }
    };
    let code = match of_rank(&world, options) {
        Ok(code) => code,
        Err(error) => {
            // The other ranks wait for this one, and end with it.
            eprintln!("fabricmark-mpi: rank {}: {error}", world.rank());
            world.abort(FAILED);
            FAILED
        }
    };
    if let Err(error) = world.finalize() {
        eprintln!("fabricmark-mpi: {error}");
        return FAILED.into();
    }
    code.into()
}

fn list() -> ExitCode {
    for benchmark in Benchmark::CHOICES {
        println!("{:<22}{}", benchmark.word, benchmark.about);
    }
    ExitCode::SUCCESS
}

/// Runs one rank.
fn of_rank(world: &World, options: Result<Options, clap::Error>) -> Result<u8, JobError> {
    // Each rank has the same command line, and ends by itself if it is wrong.
    let is_first = world.rank() == 0;
    let options = match options {
        Ok(options) => options,
        Err(error) => {
            if is_first {
                eprint!("{error}");
            }
            return Ok(INPUT);
        }
    };
    if !options.job
        && let Err(message) = options.job(world.ranks())
    {
        if is_first {
            eprintln!("fabricmark-mpi: {message}");
        }
        return Ok(INPUT);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&interrupted)) {
            return Err(JobError::Input(format!("cannot catch signals: {error}")));
        }
    }
    let job = is_first.then(|| the_job(&options, world.ranks())).transpose()?;
    let reads_job = options.job;
    let is_interrupted = || interrupted.load(Relaxed) || reads_job && has_input_ended();
    let mut output = Output::new(&options, job.as_ref());
    let is_interrupted =
        match job::run(world, job.as_ref(), &is_interrupted, &mut |line| output.say(&line)) {
            Err(JobError::Wrong(message)) => {
                output.say(&MpiLine::Failed { message: message.clone(), is_wrong: true });
                eprintln!("fabricmark-mpi: wrong result: {message}");
                return Ok(FAILED);
            }
            Err(error) => {
                output.say(&MpiLine::Failed { message: error.to_string(), is_wrong: false });
                return Err(error);
            }
            Ok(is_interrupted) => is_interrupted,
        };
    if is_first {
        output.finish();
    }
    Ok(if is_interrupted { INTERRUPTED } else { 0 })
}

fn the_job(options: &Options, ranks: u32) -> Result<MpiJob, JobError> {
    if !options.job {
        return options.job(ranks).map_err(JobError::Input);
    }
    let unread =
        |error: &dyn std::fmt::Display| JobError::Input(format!("cannot read the job: {error}"));
    let mut text = Vec::new();
    let mut input = io::stdin().lock().take(JOB_MAX);
    input.read_until(b'\n', &mut text).map_err(|error| unread(&error))?;
    serde_json::from_slice(&text).map_err(|error| {
        let of_another = "`fabricmark` and `fabricmark-mpi` must have one version: run `make mpi`";
        unread(&format!("{error}; {of_another}"))
    })
}

/// Whether the launcher has closed the standard input behind the job: `fabricmark` has ended, or wants the job to end.
fn has_input_ended() -> bool {
    let input = io::stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    let is_ready = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    is_ready && rustix::io::read(&input, &mut [0_u8; 1]).is_ok_and(|read| read == 0)
}

/// Largest job: 100,000 points of some 500 bytes.
const JOB_MAX: u64 = 64 << 20;

/// Starts this program again with the variable of [`MPI_BY_RANK`] set; returns if there is none to set.
fn set_by_rank() -> io::Result<()> {
    let Ok(setting) = env::var(MPI_BY_RANK) else { return Ok(()) };
    // Open MPI, MPICH, Slurm.
    let numbers = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];
    let rank = numbers.iter().find_map(|name| env::var(name).ok()?.parse::<usize>().ok());
    let (Some((name, values)), Some(rank)) = (setting.split_once('='), rank) else {
        let message =
            format!("{MPI_BY_RANK}={setting} needs NAME=VALUE,VALUE and the rank's number");
        return Err(io::Error::other(message));
    };
    let value = values.split(',').cycle().nth(rank).unwrap_or_default();
    let mut again = Command::new(env::current_exe()?);
    Err(again.args(env::args_os().skip(1)).env(name, value).env_remove(MPI_BY_RANK).exec())
}

/// What rank 0 prints.
struct Output {
    as_of: Option<As>,
    is_json: bool,
    /// Whether a person sees standard error.
    shows_progress: bool,
    job: MpiJob,
    facts: Option<MpiFacts>,
    results: Vec<(usize, MpiResult)>,
    is_interrupted: bool,
}

impl Output {
    fn new(options: &Options, job: Option<&MpiJob>) -> Self {
        let none = MpiJob { points: Vec::new(), slice_ns: options.duration, rounds: 0, seed: 0 };
        Self {
            as_of: options.as_of,
            is_json: options.json || options.job,
            shows_progress: !options.job,
            job: job.cloned().unwrap_or(none),
            facts: None,
            results: Vec::new(),
            is_interrupted: false,
        }
    }

    fn say(&mut self, line: &MpiLine) {
        if self.is_json {
            let mut out = io::stdout().lock();
            // A reader that has gone needs no more lines.
            let _ = serde_json::to_writer(&mut out, line).map(|()| out.write_all(b"\n"));
            let _ = out.flush();
        }
        match line {
            MpiLine::Started(facts) => self.facts = Some(facts.clone()),
            // The warm-up, and ten lines at most.
            MpiLine::Round { done, of }
                if self.shows_progress && (*done - 1) % of.div_ceil(10) == 0 =>
            {
                eprintln!("round {done} of {of}{}", if *done == 1 { " (warm-up)" } else { "" });
            }
            MpiLine::Measured { point, result } => self.results.push((*point, (**result).clone())),
            MpiLine::Ended { is_interrupted, clock_error_ns } => {
                self.is_interrupted = *is_interrupted;
                if let Some(facts) = &mut self.facts {
                    facts.clock_error_ns = *clock_error_ns;
                }
            }
            MpiLine::Round { .. } | MpiLine::Failed { .. } => {}
        }
    }

    fn finish(&self) {
        let Some(facts) = self.facts.as_ref().filter(|_| !self.is_json) else { return };
        let text = match self.as_of {
            Some(As::Imb) => table::as_imb(&self.job.points, &self.results),
            None => table::text(&self.job, facts, &self.results),
        };
        let _ = io::stdout().lock().write_all(text.as_bytes());
        if self.is_interrupted {
            eprintln!("interrupted: the figures are those of the slices so far");
        }
    }
}
