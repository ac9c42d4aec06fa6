//! Plans whose ranks communicate by MPI, on this machine. `scripts/mpi debug` builds what they need.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fabricmark_plan::{Figure, MpiTransport};
use fabricmark_record::{Outcome, Record};
use fabricmark_testkit::documents::{ROOT, document};
use fabricmark_testkit::skip;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fabricmark");

/// One job at a time: ranks need a CPU each.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the ranks' programs of these libraries were built; if not, the test counts as skipped.
fn has(test: &str, libraries: &[&str]) -> bool {
    let is_missing = |library: &&&str| {
        let name = format!("fabricmark-mpi-{library}");
        !Path::new(PROGRAM).with_file_name(name).is_file()
    };
    let missing = libraries.iter().find(is_missing);
    if let Some(library) = missing {
        skip(test, &format!("fabricmark-mpi-{library} was not built: run scripts/mpi debug"));
    }
    missing.is_none()
}

/// A folder with a plan of PingPong and Allreduce over these transports, at one payload, two jobs of each.
fn plan(settings: &str, transports: &str, duration: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "title = \"t\"\ntestbed = \"mpi\"\n[factors]\nbenchmark = [\"PingPong\", \"Allreduce\"]\n\
         mpi_transport = [{transports}]\npayload = [1024]\n{settings}\n\
         [run]\nduration = \"{duration}\"\n[stop]\nruns = 2\n"
    );
    fs::write(folder.path().join("plan.toml"), text).unwrap();
    folder
}

fn run(folder: &Path, options: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(["run", "plan.toml"])
        .args(options)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn records(folder: &Path) -> Vec<Record> {
    let mut command = Command::new(PROGRAM);
    let output = command.args(["export", "--format", "json"]).current_dir(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of a plan that ends with exit code 0.
fn records_of(folder: &Path, options: &[&str]) -> Vec<Record> {
    let output = run(folder, options);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    records(folder)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An executable file in a folder.
fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn each_library_uses_the_transport_that_a_plan_asks_for() {
    let test = "each_library_uses_the_transport_that_a_plan_asks_for";
    if !has(test, &["openmpi", "mpich"]) {
        return;
    }
    let _alone = alone();
    let folder =
        plan("mpi_library = [\"openmpi\", \"mpich\"]", "\"shm\", \"tcp\", \"auto\"", "20ms");
    let output = run(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let records = records(folder.path());
    let mut counted = 0;
    for record in &records {
        if let Outcome::Invalid(reason) = &record.outcome {
            // A run that a busy machine disturbs is repeated.
            assert!(!reason.contains("did not use"), "{:?}: {reason}", record.point);
            continue;
        }
        counted += 1;
        let mpi = record.mpi.as_ref().unwrap();
        let network: u64 = mpi.result.traffic.iter().map(|traffic| traffic.bytes).sum();
        match record.point.mpi_transport.unwrap() {
            MpiTransport::Tcp => assert!(network > 1024 * mpi.result.operations, "{network}"),
            _ => assert!(network < 100_000, "{network}"),
        }
        assert!(record.figures.value(Figure::OperationTime).unwrap() > 0.0);
        assert_eq!((mpi.facts.ranks.len(), mpi.result.slices_ns.len()), (2, 10));
        assert!(mpi.launcher.contains("mpirun."), "{}", mpi.launcher);
    }
    assert_eq!(counted, 2 * 2 * 3 * 2, "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("MPI over") && text.contains("shm"), "{text}");
}

#[test]
fn a_library_that_silently_used_another_transport_has_no_valid_run() {
    let test = "a_library_that_silently_used_another_transport_has_no_valid_run";
    if !has(test, &["openmpi"]) {
        return;
    }
    let _alone = alone();
    let folder = plan("", "\"tcp\"", "20ms");
    // Overrides the choice of the transport.
    let launcher = script(
        folder.path(),
        "launch",
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n\
         exec env OMPI_MCA_btl=self,vader mpirun.openmpi \"$@\"",
    );
    let output = run(folder.path(), &["--launcher", &launcher]);
    assert_eq!(output.status.code(), Some(67), "{}", said(&output));
    for record in records(folder.path()) {
        let Outcome::Invalid(reason) = &record.outcome else { panic!("{:?}", record.outcome) };
        assert!(reason.starts_with("MPI did not use tcp: network devices sent "), "{reason}");
    }
}

#[test]
fn a_killed_rank_ends_its_job_and_the_plan_goes_on() {
    let test = "a_killed_rank_ends_its_job_and_the_plan_goes_on";
    if !has(test, &["openmpi"]) {
        return;
    }
    let _alone = alone();
    let folder = plan("", "\"shm\"", "2s");
    // Kills a rank of the first job when it says that its first round is done. Ranks have the name of their program, cut
    // to 15 characters; zombies of jobs before have it too.
    let launcher = script(
        folder.path(),
        "launch",
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n\
         mkdir \"$0.first\" 2>/dev/null || exec mpirun.openmpi \"$@\"\n\
         { mpirun.openmpi \"$@\"; echo $? >\"$0.code\"; } | while IFS= read -r line; do\n\
         printf '%s\\n' \"$line\"\n\
         case $line in *'\"kind\":\"round\",\"done\":1,'*) pkill -9 -n -r R,S -x fabricmark-mpi- ;; esac\n\
         done\n\
         exit \"$(cat \"$0.code\")\"",
    );
    let records = records_of(folder.path(), &["--launcher", &launcher]);
    let (mut valid, mut lost) = (0, 0);
    for record in &records {
        match &record.outcome {
            Outcome::Completed => valid += 1,
            Outcome::Invalid(reason) => {
                lost += 1;
                assert!(reason.starts_with("the MPI job ended early: "), "{reason}");
                assert!(reason.contains("signal 9 (Killed)"), "{reason}");
            }
            Outcome::Skipped(reason) => panic!("{reason}"),
        }
    }
    assert_eq!((valid, lost), (4, 2));
}

/// Number of ranks on this machine; the kernel cuts the names of processes to 15 characters. A zombie has ended: Open MPI
/// leaves some to process 1.
fn ranks() -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_rank = |folder: &fs::DirEntry| {
        let status = fs::read_to_string(folder.path().join("status")).unwrap_or_default();
        status.starts_with("Name:\tfabricmark-mpi-\n") && !status.contains("\nState:\tZ")
    };
    processes.filter(is_rank).count()
}

/// Waits until a condition holds, by looking at the processes of this machine.
fn until(what: &str, is_true: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < until, "no {what}");
    }
}

#[test]
fn an_interrupted_or_killed_plan_leaves_no_ranks() {
    let test = "an_interrupted_or_killed_plan_leaves_no_ranks";
    if !has(test, &["openmpi", "mpich"]) {
        return;
    }
    let _alone = alone();
    for library in ["openmpi", "mpich"] {
        for signal in [Signal::INT, Signal::KILL] {
            let settings = format!("mpi_library = [\"{library}\"]");
            let folder = plan(&settings, "\"shm\"", "60s");
            let mut command = Command::new(PROGRAM);
            command.args(["run", "plan.toml"]).current_dir(folder.path());
            let mut running = command.stderr(Stdio::null()).spawn().unwrap();
            until("two ranks", || ranks() == 2);
            kill_process(Pid::from_child(&running), signal).unwrap();
            let status = running.wait().unwrap();
            if signal == Signal::INT {
                // The ranks have ended before.
                assert_eq!((status.code(), ranks()), (Some(130), 0), "{library}");
            }
            until("end of the ranks", || ranks() == 0);
        }
    }
}

#[test]
fn what_is_missing_for_mpi_is_named_with_its_package() {
    let folder = plan("", "\"shm\"", "20ms");
    let output = Command::new(PROGRAM)
        .args(["run", "plan.toml"])
        .env("PATH", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(66));
    let said = said(&output);
    let expected = "mpirun.openmpi is missing: run `apt-get install libopenmpi-dev openmpi-bin`, \
                    then `make mpi`";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_plan_that_one_machine_cannot_run_says_so() {
    let test = "a_plan_that_one_machine_cannot_run_says_so";
    if !has(test, &["openmpi"]) {
        return;
    }
    let folder = plan("link = [\"ethernet:1G\"]", "\"tcp\"", "20ms");
    let output = run(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(said(&output).contains("link=ethernet:1G is between hosts"), "{}", said(&output));

    let folder = plan("ranks = [60000]", "\"tcp\"", "20ms");
    let text = fs::read_to_string(folder.path().join("plan.toml")).unwrap();
    fs::write(folder.path().join("plan.toml"), text.replace("\"PingPong\", ", "")).unwrap();
    let output = run(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(67), "{}", said(&output));
    assert!(said(&output).contains("60000 ranks need 60000 CPUs"), "{}", said(&output));

    let folder = plan("", "\"tcp\"", "20ms");
    let output = run(folder.path(), &["--to", "node2"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(said(&output).contains("use --launcher"), "{}", said(&output));
}

/// The five commands of docs/mpi.md: the packages are those that `make test` has installed, and the programs are those
/// of this build.
#[test]
fn the_commands_of_the_page_lead_from_packages_to_the_first_table_of_p4() {
    let test = "the_commands_of_the_page_lead_from_packages_to_the_first_table_of_p4";
    if !has(test, &["openmpi"]) {
        return;
    }
    let _alone = alone();
    let page = document("docs/mpi.md");
    let commands = page.blocks()[0].text();
    let commands: Vec<&str> = commands.lines().collect();
    let [packages, build, alone, plan, paper] = commands[..] else { panic!("{commands:?}") };
    let folder = tempfile::tempdir().unwrap();
    let shell = |command: &str| {
        Command::new("sh")
            .args(["-c", command])
            .current_dir(ROOT)
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            .output()
            .unwrap()
    };
    let simulated = shell(&packages.replace("install -y", "install --simulate -y"));
    assert!(simulated.status.success(), "{packages}: {}", said(&simulated));
    assert!(shell(&build.replace("make", "make --dry-run")).status.success(), "{build}");
    let of_this_build = |command: &str| {
        let programs = Path::new(PROGRAM).parent().unwrap().display().to_string();
        let here = format!(" --out {0} --store {0}/s.sqlite", folder.path().display());
        let here = if command.contains("mpirun") { "" } else { &here };
        // One of the four blocks of `--quick`.
        let first = if command == paper { " --budget 1s" } else { "" };
        format!("{}{here}{first}", command.replace("target/release", &programs))
    };
    for (command, expected) in [
        (alone, "PingPong, 2 ranks: half the round trip"),
        (plan, "MPI over shm against MPI over tcp"),
        (paper, "Throughput of PingPong (figure 2) (goodput, Mbit/s)"),
    ] {
        let output = shell(&of_this_build(command));
        if command == paper && output.status.code() == Some(66) {
            skip(test, said(&output).lines().last().unwrap_or_default());
            return;
        }
        assert!(output.status.success(), "{command}: {}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{command}: {text}");
        if command == paper {
            assert!(text.contains("P4-02"), "{text}");
            assert!(
                text.contains("RDMA ports") || said(&output).contains("RDMA packets"),
                "{text}"
            );
        }
    }
}
