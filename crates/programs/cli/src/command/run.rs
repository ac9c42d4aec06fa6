//! `fabricmark run`: runs a plan.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fabricmark_control::{Peer, PlanError, Workers, check_syntax, read_files, run_plan};
use fabricmark_plan::{Factor, NONE, Plan, Role, Size, Testbed};
use fabricmark_record::{Calibration, Record};
use fabricmark_store::{Experiment, Facts, Store};
use fabricmark_units::Nanos;

use crate::calibration;
use crate::command::guest;
use crate::command::hosts::recover;
use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::key;
use crate::options::{Ends, GUEST, How, Run};
use crate::output::{self, Loaded};
use crate::progress::Line;

/// Maximum size of a plan file: 1 MiB.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// Path of this program.
pub fn this_program() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::internal(format!("cannot find this program: {error}")))
}

/// A plan and how to run it.
pub struct Job<'a> {
    /// Name of the plan file in messages and reports.
    pub file: &'a Path,
    /// Content of the plan file.
    pub text: &'a str,
    /// Content of its topology file; `None`: it is read.
    pub topology: Option<&'a str>,
    /// The command that runs it, without options.
    pub command: &'a str,
    /// How it goes on after it was stopped.
    pub again: Again,
    /// Options of the run.
    pub how: &'a How,
}

/// What continues an experiment that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The same command.
    Same,
    /// The same command without `--fresh`, which would start another experiment.
    WithoutFresh,
    /// Nothing: the command always starts another experiment.
    Anew,
}

impl Again {
    /// After a command with `--fresh`.
    pub fn without_fresh(self) -> Self {
        if self == Self::Same { Self::WithoutFresh } else { self }
    }

    /// What to do.
    fn words(self) -> &'static str {
        match self {
            Self::Same => "run the same command to continue",
            Self::WithoutFresh => "run the same command without --fresh to continue",
            Self::Anew => "run the same command to start again",
        }
    }
}

/// Runs a plan and prints its results.
pub fn run(options: &Run) -> Result<(), Failure> {
    let text = read_plan(&options.plan)?;
    let command = format!("fabricmark run {}", options.plan.display());
    let job = Job {
        file: &options.plan,
        text: &text,
        topology: None,
        command: &command,
        again: Again::Same,
        how: &options.how,
    };
    match carry_out(&job)? {
        Some(found) => {
            output::show(&found, &options.how.place.out, options.how.json)?;
            found.require_valid_run()
        }
        None => Ok(()),
    }
}

/// Runs a plan to its end; returns `None` if it was only checked.
pub fn carry_out(job: &Job<'_>) -> Result<Option<Loaded>, Failure> {
    let Job { file, text, how, .. } = job;
    let size = if how.quick { Size::Quick } else { Size::Full };
    let mut plan = output::parse(&file.display().to_string(), text, size)
        .map_err(|problems| Failure::input(format!("the plan is invalid\n{problems}")))?;
    if let (Some(topology), Some(text)) = (&mut plan.topology, job.topology) {
        text.clone_into(&mut topology.text);
    }
    read_files(&mut plan, file.parent().unwrap_or(Path::new("")))?;
    plan.budget_ns = how.budget.or(plan.budget_ns);
    if let Some((other, _)) = how.other_end() {
        plan = plan.to_host(&other, how.link)?;
    }
    plan.launcher.clone_from(&how.launcher);
    if plan.launcher.is_some() && plan.testbed != Testbed::Mpi {
        return Err(Failure::input("--launcher needs a plan with testbed = \"mpi\""));
    }
    let hosts = how.hosts(&plan).map_err(Failure::input)?;
    if how.check {
        for host in hosts.values().copied().chain(how.reach.control.as_deref()) {
            check_syntax(host)?;
        }
        output::print(&format!("{}\n{}", summary(file, &plan), varied(&plan)))?;
        return Ok(None);
    }
    if plan.is_in_guest && how.other_end().is_none() {
        guest::again(&plan, how)?;
        return Ok(None);
    }
    recover();
    let agent = |(&node, host): (&&str, &&str)| {
        // `--control` applies only to the server.
        let control = how.reach.control.as_deref().filter(|_| node == Role::Server.name());
        let key = &how.reach.key;
        Ok::<_, Failure>((node.to_owned(), key::access(host, control, key)?))
    };
    let ends = if how.in_guest { Some(GUEST) } else { how.ends };
    let peer = match ends {
        _ if !hosts.is_empty() => Peer::Agents(hosts.iter().map(agent).collect::<Result<_, _>>()?),
        Some(Ends(ends)) => Peer::Ends(ends),
        None => {
            // The user namespace must be entered before the first thread starts.
            fabricmark_lab::acquire()?;
            Peer::Here
        }
    };
    fs::create_dir_all(&how.place.out).map_err(Failure::output(how.place.out.display()))?;
    let store = Store::open(&how.place.store_file())?;
    let _lock = lock(&how.place.store_file())?;
    let experiment = begin_or_resume(job, &plan, &store)?;
    if experiment.is_complete {
        return Ok(Some(Loaded::of(&store, &experiment)?));
    }
    let calibration = calibration::of_this_machine();
    let interrupted = interruptions()?;
    let calibration = calibration.as_ref();
    let again = if how.fresh { job.again.without_fresh() } else { job.again };
    let experiment = go_on(&plan, &store, &experiment, &peer, calibration, again, &interrupted)?;
    Ok(Some(Loaded::of(&store, &experiment)?))
}

/// Runs the remaining steps of an experiment, and stores each run.
pub fn go_on(
    plan: &Plan,
    store: &Store,
    experiment: &Experiment,
    peer: &Peer,
    calibration: Option<&Calibration>,
    again: Again,
    interrupted: &AtomicBool,
) -> Result<Experiment, Failure> {
    let program = this_program()?;
    let mut line = Line::new();
    let kept = store.records(experiment)?;
    let mut keep = |records: &[Record]| store.append(experiment, records);
    let workers = Workers { program: &program, peer, calibration };
    let result = run_plan(plan, &kept, &mut keep, &workers, &mut line, interrupted);
    line.clear();
    match result {
        Ok(true) => store.complete(experiment)?,
        Ok(false) => {}
        Err(error) => return Err(interrupted_at(store, experiment, again, error)),
    }
    Ok(store.find(&experiment.name)?)
}

fn read_plan(path: &Path) -> Result<String, Failure> {
    let size = fs::metadata(path).map_err(Failure::unread(path))?.len();
    if size > PLAN_BYTES_MAX {
        let message = format!("{} is longer than 1 MiB; check the file name", path.display());
        return Err(Failure::input(message));
    }
    fs::read_to_string(path).map_err(Failure::unread(path))
}

fn summary(path: &Path, plan: &Plan) -> String {
    let stop = &plan.stop;
    let runs = if stop.runs_min == stop.runs_max {
        format!("{} runs", stop.runs_max)
    } else {
        format!("{} to {} runs", stop.runs_min, stop.runs_max)
    };
    let sets = plan.comparison_groups.len();
    let plural = |count| if count == 1 { "" } else { "s" };
    let at_most = if plan.amount.is_some() { "at most " } else { "" };
    let at_once = match plan.groups.len() {
        0 => String::new(),
        groups => format!("; {groups} groups of flows at once"),
    };
    let points = plan.points.len();
    let least = match plan.shortest() {
        Nanos(0) => String::new(),
        shortest => format!(", at least {}", least(shortest)),
    };
    format!(
        "{}: {points} point{} in {sets} comparison group{}, {runs} of {at_most}{} each{least}{at_once}; digest {}",
        path.display(),
        plural(points),
        plural(sets),
        plan.duration_ns,
        &plan.digest()[..14],
    )
}

/// A line for each factor that varies, with its levels.
fn varied(plan: &Plan) -> String {
    let line = |factor: &Factor| {
        let mut levels: Vec<String> = Vec::new();
        for level in plan.points.iter().map(|point| point.level(*factor)) {
            let level = if level.is_empty() { NONE.to_owned() } else { level };
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        (levels.len() > 1).then(|| format!("  {factor}: {}\n", levels.join(", ")))
    };
    Factor::ALL.iter().filter_map(line).collect()
}

/// A time in seconds, or in minutes from two minutes on.
fn least(Nanos(ns): Nanos) -> String {
    match ns.div_ceil(1_000_000_000) {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// Locks the store: two coordinators that measure at once would disturb each other.
pub fn lock(store: &Path) -> Result<fs::File, Failure> {
    // Beside every store its own, whatever its extension; never the store itself.
    let mut path = store.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let opened = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(Failure::output(path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Failure::new(
            Code::RunFailed,
            format!(
                "another fabricmark is running a plan with {}: wait for it, or use another \
                     --store",
                store.display()
            ),
        )),
        Err(fs::TryLockError::Error(error)) => Err(Failure::output(path.display())(error)),
    }
}

fn begin_or_resume(job: &Job<'_>, plan: &Plan, store: &Store) -> Result<Experiment, Failure> {
    let Job { file, text, command, again, how, .. } = job;
    let digest = plan.digest();
    if !how.fresh
        && let Some(mut experiment) = kept(store, &digest)?
    {
        let facts = &experiment.facts;
        if facts.plan_text != *text || facts.is_quick != how.quick {
            // Its tables and charts may have changed.
            store.set_plan(&mut experiment, &file.display().to_string(), text, how.quick)?;
        }
        let runs = store.records(&experiment)?.len();
        if experiment.is_complete {
            note!(
                "{} already has all {runs} runs of this plan; showing them (--fresh starts again)",
                experiment.name
            );
        } else {
            note!(
                "resuming {}: {runs} runs of this plan are stored (--fresh starts again)",
                experiment.name
            );
        }
        return Ok(experiment);
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let quick = if how.quick { "-quick" } else { "" };
    let other = how.other_end();
    let to = other.as_ref().map_or_else(String::new, |(_, options)| format!(" {options}"));
    let to = to.trim_end();
    let link = how.link.map_or_else(String::new, |link| format!(" --link {link}"));
    let launcher = how
        .launcher
        .as_ref()
        .map_or_else(String::new, |launcher| format!(" --launcher \"{launcher}\""));
    let quickly = if how.quick { " --quick" } else { "" };
    let facts = Facts {
        digest,
        plan_file: file.display().to_string(),
        plan_text: (*text).to_owned(),
        is_quick: how.quick,
        reproduce: match again {
            // It has all options already.
            Again::Anew => (*command).to_owned(),
            _ => format!("{command}{quickly}{to}{link}{launcher} --fresh"),
        },
        started: jiff::Timestamp::now().to_string(),
        instrument: Some(fabricmark_load::instrument()),
        host: other.map(|(name, _)| name),
        link: how.link.map(|link| link.to_string()),
    };
    let experiment = store.begin(&format!("{stem}{quick}"), &facts)?;
    note!("{}: {}", experiment.name, summary(file, plan));
    Ok(experiment)
}

/// The latest experiment with that digest. An experiment of an earlier version, with another digest, is recognised by
/// its plan, and its digest is updated.
fn kept(store: &Store, digest: &str) -> Result<Option<Experiment>, Failure> {
    if let Some(experiment) = store.latest_of(digest)? {
        return Ok(Some(experiment));
    }
    for experiment in store.experiments()?.into_iter().rev() {
        let is_earlier = !experiment.facts.digest.contains('-');
        if is_earlier && digest_of(&experiment).as_deref() == Some(digest) {
            store.set_digest(&experiment, digest)?;
            return Ok(Some(experiment));
        }
    }
    Ok(None)
}

/// The digest of an experiment's plan; `None` if the plan or its traces cannot be read any more.
fn digest_of(experiment: &Experiment) -> Option<String> {
    let mut plan = output::plan(experiment).ok()?;
    let folder = Path::new(&experiment.facts.plan_file).parent().unwrap_or(Path::new(""));
    read_files(&mut plan, folder).ok()?;
    Some(plan.digest())
}

/// Adds the number of stored runs and the way to continue to an error.
fn interrupted_at(
    store: &Store,
    experiment: &Experiment,
    again: Again,
    error: PlanError,
) -> Failure {
    let runs = store.records(experiment).map_or(0, |records| records.len());
    let remedy = match error {
        PlanError::Interrupted => again.words().to_owned(),
        // Points that gave no result are not run again.
        PlanError::Nothing { .. } if again != Again::Anew => {
            "fix the cause and run the same command with --fresh".to_owned()
        }
        _ => format!("fix the cause and {}", again.words()),
    };
    Failure::from(error).and(&format!("{runs} runs of {} are stored; {remedy}", experiment.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_store_leaves_every_store_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [store, other] = ["runs.lock", "runs.sqlite"].map(|name| folder.path().join(name));
        fs::write(&store, "records").unwrap();
        let held = lock(&store).unwrap();
        assert!(lock(&store).is_err() && lock(&other).is_ok());
        assert_eq!(fs::read_to_string(&store).unwrap(), "records");
        drop(held);
        assert!(lock(&store).is_ok());
    }
}
