//! Helpers for tests of the built program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fabricmark_plan::{Figure, Pace, Pattern, Transport};
use fabricmark_record::{Outcome, Record, Warning};
use fabricmark_store::Store;
pub use fabricmark_testkit::skip;
use serde_json::Value;
use tempfile::TempDir;

/// One lab at a time: two would share the CPUs.
static LAB: Mutex<()> = Mutex::new(());

/// A folder for one test, and the lock that makes it the only lab.
pub struct Bench {
    pub folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// A bench; `None`, and a counted skip, if namespaces cannot be created.
pub fn bench(test: &str) -> Option<Bench> {
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip(test, "network namespaces need root");
        return None;
    }
    Some(Bench { folder: TempDir::new().unwrap(), _alone: alone() })
}

/// Locks the CPUs of this machine.
pub fn alone() -> MutexGuard<'static, ()> {
    // The lock is poisoned by a failed test, which does not concern the next one.
    LAB.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_fabricmark"))
}

/// A small TCP and UDP plan over two links; tests modify it.
pub const PLAN: &str = r#"
title = "test"
[factors]
pattern = ["stream", "ping-pong"]
transport = ["tcp", "udp"]
family = [4, 6]
payload = [512]
link = ["veth", "ethernet:1G"]
[settings]
congestion = "cubic"
[run]
duration = "30ms"
warm_up = "10ms"
[[compare]]
factor = "family"
baseline = 4
candidate = 6
[[table]]
title = "TCP goodput"
figure = "goodput"
where = { transport = "tcp" }
columns = ["link", "family"]
[[chart]]
title = "TCP goodput"
figure = "goodput"
where = { transport = "tcp" }
series = ["link", "family"]
[stop]
runs = 3
"#;

/// Points of [`PLAN`].
pub const POINTS: usize = 16;

impl Bench {
    pub fn plan(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        path
    }

    pub fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).arg("--out").arg(self.out()).current_dir(self.folder.path());
        // Ignore the calibration of this machine.
        command.env("XDG_STATE_HOME", self.folder.path());
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a plan, which succeeds, unless no run counts because each lacked CPU time ([`counted`] reports that).
    #[track_caller]
    pub fn carries_out(&self, words: &[&str], told: &[&str]) -> Output {
        let output = self.run(words);
        let has_none = output.status.code() == Some(67) && stderr(&output).contains("no valid run");
        let may_have_none = || {
            let records = self.records();
            let mut runs = records.iter().filter(|run| !run.place.warm_up);
            runs.all(|run| !run.counts()) && records.iter().any(was_slowed)
        };
        expect(&output, if has_none && may_have_none() { 67 } else { 0 }, told);
        output
    }

    /// JSON output of `fabricmark measure`.
    pub fn measure(&self, line: &str) -> Value {
        let mut command = Command::new(program());
        command.arg("measure").args(line.split_whitespace()).arg("--json");
        let output = command.env("XDG_STATE_HOME", self.folder.path()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)))
    }

    pub fn start(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The records of the latest experiment; empty if there is no store yet.
    pub fn records(&self) -> Vec<Record> {
        let store = self.out().join("store.sqlite");
        let records = || {
            let store = Store::open_existing(&store).ok()?;
            store.records(&store.find("latest").ok()?).ok()
        };
        records().unwrap_or_default()
    }

    /// Waits until `count` records are stored.
    pub fn wait_for_records(&self, child: &mut Child, count: usize) {
        wait_until(|| {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended early: {ended:?}");
            self.records().len() >= count
        });
    }
}

/// Waits for a condition, at most a minute.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "waited for a minute in vain");
        std::thread::yield_now();
    }
}

/// Child processes of `pid`, in the order of their start.
pub fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The two workers of a coordinator with one network: client and server.
pub fn workers(coordinator: u32) -> Vec<u32> {
    let is_worker = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|word| word == b"worker")
    };
    let mut workers = Vec::new();
    wait_until(|| {
        workers = children(coordinator).into_iter().filter(is_worker).collect();
        workers.len() == 2
    });
    workers
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Valid runs without warm-ups: a busy machine has invalid ones, which are repeated. A point without any is a counted skip if
/// its runs say that they lacked CPU time, and a failure otherwise. Exempt are streams of datagrams without
/// a pace, which may be faster than the emulator.
pub fn counted(records: &[Record]) -> Vec<&Record> {
    let mut points: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for run in records.iter().filter(|run| !run.place.warm_up) {
        points.entry(run.point.key()).or_default().push(run);
    }
    for (key, runs) in points {
        let is_flood = runs[0].point.transport == Transport::Udp
            && runs[0].point.pattern == Pattern::Stream
            && runs[0].point.pace == Pace::Closed;
        if is_flood || runs.iter().any(|run| run.counts()) {
            continue;
        }
        let outcomes: Vec<&Outcome> = runs.iter().map(|run| &run.outcome).collect();
        assert_unless_slowed(false, runs.iter().copied(), &format!("{key}: {outcomes:?}"));
    }
    records.iter().filter(|run| run.counts()).collect()
}

/// Whether a run says itself that it lacked CPU time, which is no fault of the program: the hypervisor took it, or
/// other processes had the CPU of the emulator, or a fifth of a CPU and more.
pub fn was_slowed(record: &Record) -> bool {
    let is_stolen =
        record.warnings.iter().any(|warning| matches!(warning, Warning::StolenTime { .. }));
    let outcome = &record.outcome;
    is_stolen
        || matches!(outcome, Outcome::Invalid(why) if why.contains("waited for a CPU"))
        || others_had(record).is_some_and(|share| share > 0.2)
}

/// Share of a CPU in which other processes were in user mode during a run on this machine, less 20 ms for the kernel's
/// clock ticks. `None` if other parts of the run cannot be told from others.
fn others_had(record: &Record) -> Option<f64> {
    if record.point.group.is_some() || record.slice_ns.is_some() {
        return None;
    }
    let usage = record.nodes.first()?.usage.as_ref()?;
    let machine = usage.machine.as_ref()?;
    let elapsed_ns = usage.elapsed_ns as f64;
    let all_ns = machine.all.user * machine.per_cpu.len() as f64 * elapsed_ns;
    let ends = record.nodes.iter().filter_map(|node| node.usage.as_ref());
    let ends_ns: u64 = ends.map(|usage| usage.process.user_ns).sum();
    let emulator_ns = record.emulation.as_ref().and_then(|emulation| emulation.cpu_ns);
    let own_ns = ends_ns + emulator_ns.unwrap_or_default();
    Some((all_ns - own_ns as f64 - 20e6) / elapsed_ns)
}

/// Asserts a bound that holds unless CPU time was short: a counted skip if one of these runs says so.
pub fn assert_unless_slowed<'a>(
    holds: bool,
    runs: impl IntoIterator<Item = &'a Record>,
    told: &str,
) {
    if !holds {
        assert!(runs.into_iter().any(was_slowed), "{told}");
        // Skips are counted by the line.
        let thread = std::thread::current();
        let told: String = told.lines().next().unwrap_or_default().chars().take(100).collect();
        let why = format!("its runs lacked CPU time: {told}");
        skip(thread.name().unwrap_or_default(), &why);
    }
}

/// The records in the JSON of `fabricmark measure`.
pub fn records_of(answer: &Value) -> Vec<Record> {
    serde_json::from_value(answer["records"].clone()).unwrap()
}

/// The valid run of `fabricmark measure`, of one setting with one run; `None`, and a counted skip, as in [`counted`].
pub fn counted_run(answer: &Value) -> Option<&Value> {
    let records = answer["records"].as_array().unwrap();
    let found = records.iter().find(|record| record["outcome"]["kind"] == "completed");
    let outcomes: Vec<&Value> = records.iter().map(|record| &record["outcome"]).collect();
    assert_unless_slowed(
        found.is_some(),
        &records_of(answer),
        &format!("no valid run: {outcomes:?}"),
    );
    found
}

/// The goodput in bit/s of a valid run that exceeds the wire, allowing for a token bucket that starts full.
pub fn above_the_wire(record: &Record) -> Option<f64> {
    const BUCKET_BITS: f64 = 8.0 * 262_144.0;
    let goodput_bps = record.figures.get(Figure::Goodput)?.value;
    let bound_bps = record.limits.ceilings.first()?.goodput_bps.as_f64();
    let seconds = record.flows[0].received.elapsed_ns as f64 / 1e9;
    let at_once_bps = if record.emulation.is_some() { 0.0 } else { BUCKET_BITS / seconds };
    (record.counts() && goodput_bps > 1.0002 * bound_bps + at_once_bps).then_some(goodput_bps)
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts the exit code and fragments of the message.
#[track_caller]
pub fn expect(output: &Output, code: i32, words: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
}
