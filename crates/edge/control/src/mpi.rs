//! MPI jobs: the launcher starts the ranks of `fabricmark-mpi`, and rank 0 prints the results, which become records.

mod launcher;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_judge::{Route, correlated, limits, mpi_figures, mpi_warnings, outcome};
use fabricmark_plan::{MpiLibrary, MpiTransport, Plan, Point, Role, Step, Testbed};
use fabricmark_record::{Mpi, MpiFacts, MpiJob, MpiLine, MpiResult, Outcome, Record};
use fabricmark_units::Nanos;
use fabricmark_wire::Link;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::coordinator::Coordinator;
use crate::error::{Cause, PlanError};
use crate::experiment::Context;
use crate::history::History;
use crate::progress::Progress;
use launcher::{Device, Launch, find};

/// Period of checks for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a launcher may take to end with its ranks, before it gets SIGTERM, and then SIGKILL: a slice, and its own end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Longest silence of a job beyond ten times the length of a round: ranks of a lost host are noticed by TCP after
/// minutes.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Largest length of a line of a job, and of what is kept of its standard error.
const LINE_MAX: u64 = 64 << 20;
const ERRORS_MAX: usize = 64 << 10;

/// Programs and launcher of MPI jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    /// `fabricmark-mpi` of each library that the plan uses.
    programs: BTreeMap<MpiLibrary, PathBuf>,
    /// Launcher of the user; empty: that of the library.
    launcher: Vec<String>,
}

impl Programs {
    /// Checks a plan, and finds what it needs.
    pub(crate) fn of(plan: &Plan, this_program: &Path) -> Result<Self, PlanError> {
        check_link(plan)?;
        Self::find(plan, this_program)
    }

    fn find(plan: &Plan, this_program: &Path) -> Result<Self, PlanError> {
        let words = plan.launcher.iter().flat_map(|text| text.split_whitespace());
        let launcher: Vec<String> = words.map(str::to_owned).collect();
        let libraries: BTreeSet<MpiLibrary> =
            plan.points.iter().filter_map(|point| point.mpi_library).collect();
        let program = |library| Ok((library, find(library, this_program, !launcher.is_empty())?));
        let programs = libraries.into_iter().map(program).collect::<Result<_, PlanError>>()?;
        Ok(Self { programs, launcher })
    }

    /// Why a point is skipped: ranks that share a CPU wait for each other's time slices.
    pub(crate) fn reason(&self, point: &Point, cpus: usize) -> Option<String> {
        let ranks = point.ranks() as usize;
        (self.launcher.is_empty() && ranks > cpus).then(|| {
            format!(
                "{ranks} ranks need {ranks} CPUs, and this machine has {cpus}; use --launcher to \
                 start them on several hosts"
            )
        })
    }
}

/// Checks that this machine has what the MPI jobs of a plan need; `this_program` is beside those of the ranks.
pub fn check_mpi(plan: &Plan, this_program: &Path) -> Result<(), PlanError> {
    if plan.testbed == Testbed::Mpi {
        Programs::find(plan, this_program)?;
    }
    Ok(())
}

/// Rejects a link between hosts if all ranks are on this machine.
fn check_link(plan: &Plan) -> Result<(), PlanError> {
    let has_wire = |point: &&Point| point.link != Link::Loopback;
    let wired = plan.points.iter().find(has_wire);
    match wired.filter(|_| plan.launcher.is_none() && plan.own_ends().is_none()) {
        None => Ok(()),
        Some(point) => Err(PlanError::Input(format!(
            "link={} is between hosts, and all ranks are on this one; use --launcher, testbed = \
             \"mpi:guest\", or link = \"loopback\"",
            point.link
        ))),
    }
}

/// What a job printed.
#[derive(Debug, Default)]
struct Printed {
    facts: Option<MpiFacts>,
    results: BTreeMap<usize, MpiResult>,
    has_ended: bool,
    /// Why it ended early, by its own words.
    failure: Option<String>,
}

/// Carries out a step, which is a job; returns a record for each of its points.
pub(crate) fn run(
    context: &Context<'_>,
    step: &Step,
    coordinator: &Coordinator,
    programs: &Programs,
    history: &mut History,
    progress: &mut dyn Progress,
) -> Result<Vec<Record>, PlanError> {
    let plan = context.plan;
    let points: Vec<Point> = step.points.iter().map(|&point| plan.points[point].clone()).collect();
    let first = &points[0];
    let library = first.mpi_library.unwrap_or(MpiLibrary::OpenMpi);
    let launch = Launch {
        library,
        transport: first.mpi_transport.unwrap_or(MpiTransport::Auto),
        ranks: first.ranks(),
        launcher: &programs.launcher,
        devices: devices(coordinator, first, plan)?,
    };
    let slice = step.slice.unwrap_or_else(|| plan.mpi_slice());
    let job = MpiJob {
        points: points.clone(),
        slice_ns: slice,
        rounds: u32::try_from(plan.duration_ns.0 / slice.0.max(1)).unwrap_or(u32::MAX).max(2),
        seed: fabricmark_units::Stream::new(plan.seed, &format!("runs of block {}", step.block))
            .next_u64(),
    };
    let program = programs.programs.get(&library).cloned().unwrap_or_default();
    let started = jiff::Timestamp::now().to_string();
    let (command, text) = launch.command(&program, &["--job"]);
    let (printed, errors) = carry_out(command, &job, context, progress)?;
    let failure = match (&printed.failure, printed.has_ended) {
        (Some(failure), _) => Some(failure.clone()),
        (None, true) => None,
        (None, false) => {
            let why = summary(&errors)
                .unwrap_or_else(|| format!("it printed no message; try `{text} PingPong`"));
            Some(format!("the MPI job ended early: {why}"))
        }
    };
    let mut records = Vec::new();
    for (place, point) in points.iter().enumerate() {
        let mut record = context.record(step, place, Outcome::Completed);
        record.started.clone_from(&started);
        record.duration_ns = Nanos(slice.0 * u64::from(job.rounds));
        record.slice_ns = Some(slice);
        let result = printed.results.get(&place);
        match (&printed.facts, result, &failure) {
            (Some(facts), Some(result), None) => {
                let provenance = coordinator.provenance(point);
                record.figures = mpi_figures(point, result, provenance);
                record.limits = limits(point, Route::of(plan.testbed));
                record.mpi = Some(Mpi {
                    facts: facts.clone(),
                    result: result.clone(),
                    launcher: text.clone(),
                });
                record.warnings =
                    record.mpi.iter().flat_map(|mpi| mpi_warnings(mpi, &record.figures)).collect();
                record.outcome = outcome(&record);
            }
            // Ranks that have never run would not run next time either.
            (None, _, Some(failure)) if !history.outcomes.has_value(step.points[place]) => {
                history.cause = Cause::Missing;
                record.outcome = Outcome::Skipped(failure.clone());
            }
            (_, _, failure) => {
                let reason = failure.clone().unwrap_or_else(|| "no slice was complete".to_owned());
                history.cause = Cause::Other;
                record.outcome = Outcome::Invalid(reason);
            }
        }
        if record.outcome == Outcome::Completed {
            let index = record.place.point as usize;
            let mut values = history.outcomes.samples(index, step.block);
            values.extend(record.deciding_value());
            record.warnings.extend(correlated(&values));
        }
        history.give_up(&mut record);
        records.push(record);
    }
    Ok(records)
}

/// Devices of the ends of a point, if they are two addresses of this machine.
fn devices(
    coordinator: &Coordinator,
    point: &Point,
    plan: &Plan,
) -> Result<Option<[Device; 2]>, PlanError> {
    if plan.own_ends().is_none() {
        return Ok(None);
    }
    let device = |role| {
        let network = coordinator.testbed().attach(role, point)?.device;
        let rdma = rdma_device(&network);
        Ok::<_, PlanError>(Device { network, rdma })
    };
    Ok(Some([device(Role::Client)?, device(Role::Server)?]))
}

/// The RDMA device on a network device.
fn rdma_device(network: &str) -> Option<String> {
    let entries = fs::read_dir("/sys/class/infiniband").ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_on = |name: &String| {
        let path = format!("/sys/class/infiniband/{name}/ports/1/gid_attrs/ndevs/0");
        fs::read_to_string(path).is_ok_and(|text| text.trim() == network)
    };
    names.into_iter().find(is_on)
}

/// Starts a job, and reads what it prints until it ends.
fn carry_out(
    mut command: std::process::Command,
    job: &MpiJob,
    context: &Context<'_>,
    progress: &mut dyn Progress,
) -> Result<(Printed, String), PlanError> {
    let launcher = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C in a terminal reaches only this process, which ends the job in order.
    command.process_group(0);
    let child = command
        .spawn()
        .map_err(|error| PlanError::Missing(format!("cannot start {launcher}: {error}")))?;
    let mut child = Job { input: None, child };
    let mut text = serde_json::to_vec(job).unwrap_or_default();
    text.push(b'\n');
    if let Some(mut input) = child.child.stdin.take() {
        let (sender, receiver) = mpsc::channel();
        child.input = Some(receiver);
        // A launcher that ends at once says why on its standard error.
        thread::spawn(move || {
            let _ = input.write_all(&text).map(|()| sender.send(input));
        });
    }
    let errors = child.child.stderr.take().map(|errors| {
        thread::spawn(move || {
            let mut kept = Vec::new();
            let mut errors = errors;
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = errors.read(&mut buffer) {
                let room = ERRORS_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..read.min(room)]);
            }
            String::from_utf8_lossy(&kept).into_owned()
        })
    });
    let lines = child.child.stdout.take().map(lines_of);
    let round = Duration::from(job.slice_ns) * (10 * job.points.len() as u32);
    let mut printed = Printed::default();
    let mut heard = Instant::now();
    while let Some(lines) = &lines {
        if context.interrupted.load(Relaxed) {
            child.end();
            return Err(PlanError::Interrupted);
        }
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => {
                heard = Instant::now();
                take(&mut printed, &line, progress);
            }
            // Before the ranks start, a job may wait in the queue of its cluster.
            Err(RecvTimeoutError::Timeout)
                if printed.facts.is_some() && heard.elapsed() > SILENCE_MAX + round =>
            {
                let seconds = heard.elapsed().as_secs();
                printed.failure = Some(format!("the MPI job was silent for {seconds} s"));
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    child.end();
    let errors = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Ok((printed, errors))
}

/// Lines of a job, read by a thread of its own.
fn lines_of(output: std::process::ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            match (&mut output).take(LINE_MAX).read_until(b'\n', &mut line) {
                // A launcher may print in another encoding.
                Ok(1..) if sender.send(String::from_utf8_lossy(&line).into_owned()).is_ok() => {}
                _ => return,
            }
        }
    });
    receiver
}

/// Takes in a line.
fn take(printed: &mut Printed, line: &str, progress: &mut dyn Progress) {
    match serde_json::from_str(line) {
        Ok(MpiLine::Started(facts)) => printed.facts = Some(facts),
        Ok(MpiLine::Round { done, of }) => progress.round(done, of),
        Ok(MpiLine::Measured { point, result }) => {
            printed.results.insert(point, *result);
        }
        Ok(MpiLine::Ended { is_interrupted, clock_error_ns }) => {
            printed.has_ended = true;
            if let Some(facts) = &mut printed.facts {
                facts.clock_error_ns = clock_error_ns;
            }
            if is_interrupted {
                printed.failure =
                    Some("a signal ended the MPI job before its last slice".to_owned());
            }
        }
        Ok(MpiLine::Failed { message, is_wrong }) => {
            let what = if is_wrong { "wrong result: " } else { "" };
            printed.failure = Some(format!("{what}{message}"));
        }
        // Lines of others, such as a launcher.
        Err(_) if !line.starts_with("{\"kind\":") => {}
        Err(_) => {
            let message = "fabricmark-mpi is of another version than fabricmark: run `make mpi`";
            printed.failure = Some(message.to_owned());
        }
    }
}

/// The sentences of a launcher's messages, without rules and empty lines, at most 400 bytes; `None` without any.
fn summary(errors: &str) -> Option<String> {
    const LENGTH_MAX: usize = 400;
    let is_rule = |line: &str| line.chars().all(|c| "-=*# \t".contains(c));
    let lines = errors.lines().map(str::trim).filter(|line| !is_rule(line));
    let mut text = lines.collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return None;
    }
    if text.len() > LENGTH_MAX {
        let end = (0..=LENGTH_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" ...");
    }
    Some(text)
}

/// A launcher and its ranks, which end with this value.
struct Job {
    /// Standard input of rank 0 behind the job: the ranks end when it is closed, also if this process is killed.
    input: Option<Receiver<ChildStdin>>,
    child: Child,
}

impl Job {
    /// Tells the ranks to end after their slice; ends the launcher and its children if they do not.
    fn end(&mut self) {
        self.input = None;
        if self.ends_within(ENDS_WITHIN) {
            return;
        }
        // A launcher of the user may be a script.
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        if !self.ends_within(ENDS_WITHIN) {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }

    fn ends_within(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_another_version_of_the_ranks_program_is_an_error() {
        struct Nobody;
        impl Progress for Nobody {
            fn begins(&mut self, _: crate::Position, _: &Point, _: &Step) {}
            fn ends(&mut self, _: &Record) {}
        }
        let failure = |line: &str| {
            let mut printed = Printed::default();
            take(&mut printed, line, &mut Nobody);
            printed.failure
        };
        assert_eq!(failure("Warning: no such slot"), None);
        assert_eq!(failure("{\"kind\":\"round\",\"done\":1,\"of\":2}"), None);
        let other = failure("{\"kind\":\"ended\",\"since\":3}");
        assert!(other.is_some_and(|message| message.contains("make mpi")));
    }

    #[test]
    fn a_summary_of_a_launchers_message_has_no_rules() {
        let text = "-----\nThere are not enough slots\navailable.\n\n-----\n";
        assert_eq!(summary(text).unwrap(), "There are not enough slots available.");
        assert_eq!(summary("----\n"), None);
        assert!(summary(&"é".repeat(500)).unwrap().ends_with(" ..."));
    }
}
