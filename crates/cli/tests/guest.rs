//! A guest kernel with Soft RoCE: one boot for many short cases, since a boot takes seconds.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "says what was skipped")]

use std::fs;
use std::io::Write;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use fabricmark_record::{Outcome, Record};

/// Exit code where this machine lacks a program or a package.
const MISSING: i32 = 66;

/// Counts a test as skipped: `make test` prints the file that FABRICMARK_SKIPS names.
fn skip(test: &str, reason: &str) {
    eprintln!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("FABRICMARK_SKIPS") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {reason}").unwrap();
    }
}

/// Runs a script in a guest; nothing where there is none, which is counted.
fn guest(test: &str, kernel: &str, script: &str) -> Option<Output> {
    let program = env!("CARGO_BIN_EXE_fabricmark");
    // Two guests would share the processors.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(program)
        .args(["lab", "guest", "--kernel", kernel, "--limit", "4min", "--", "sh", "-c", script])
        .env("FABRICMARK", program)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    if output.status.code() == Some(MISSING) {
        skip(test, String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default());
        return None;
    }
    Some(output)
}

/// Two paths that both cross the guest's network, each pattern by both.
const PLAN: &str = r#"
title = "guest"
[factors]
transport = ["rc", "tcp"]
pattern = ["ping-pong", "stream", "burst"]
payload = [64, 65536]
wait = ["spin", "block"]
[settings]
family = 4
congestion = "cubic"
link = "veth"
[run]
duration = "100ms"
warm_up = "1ms"
[stop]
runs = 2
"#;

/// The transports of [`PLAN`].
const BOTH: &str = "[\"rc\", \"tcp\"]";

#[test]
fn a_guest_has_rdma_that_crosses_its_network_and_gives_back_what_its_command_said() {
    let test = "RDMA in a guest kernel";
    let plan = tempfile::NamedTempFile::new().unwrap();
    fs::write(plan.path(), PLAN).unwrap();
    let plan = plan.path().display();
    let smc = tempfile::NamedTempFile::new().unwrap();
    fs::write(smc.path(), PLAN.replace(BOTH, "[\"smc\"]")).unwrap();
    let smc = smc.path().display();
    // SMC falls back to TCP in this kernel, which a run must not hide.
    let script = format!(
        "\"$FABRICMARK\" run {smc} --ends 10.9.0.1,10.9.0.2 --out /tmp/smc >&2; [ $? = 67 ] || exit 4\n\
         \"$FABRICMARK\" run {plan} --ends 10.9.0.1,10.9.0.2 --out /tmp/out >&2 || exit 1\n\
         \"$FABRICMARK\" export --out /tmp/out --format json || exit 2\n\
         touch /etc/fabricmark-was-here || exit 3\nexit 7"
    );
    let Some(output) = guest(test, "6.1", &script) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{messages}");
    assert!(!fs::exists("/etc/fabricmark-was-here").unwrap());
    assert!(messages.contains("SMC fell back to TCP"), "{messages}");
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records: Vec<_> = records.iter().filter(|record| !record.place.warm_up).collect();
    assert_eq!(records.len(), 2 * 3 * 2 * 2 * 2, "{messages}");
    for record in records {
        assert_eq!(record.outcome, Outcome::Completed, "{:?} {messages}", record.point);
        assert!(record.deciding_value().is_some_and(|value| value > 0.0), "{:?}", record.point);
        // Its processors are software: no figure of it is a measured one.
        let figures = serde_json::to_string(&record.figures).unwrap();
        assert!(figures.contains("emulated") && !figures.contains("measured"), "{figures}");
    }
    // Half of the records are of RDMA, and each round trip and segment is a packet.
    let last = messages.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [crossed, by_rdma] = numbers[..] else { panic!("{messages}") };
    assert!(by_rdma > 1000 && crossed > by_rdma / 2, "{last}");
}

/// What RDMA is asked for, in as many plans: levels that are left out are those of [`PLAN`].
const RDMA: [&str; 6] = [
    "transport = [\"rc\"]\npattern = [\"exchange\"]\npayload = [8]\nwait = [\"spin\"]\noperation = \
     [\"send\", \"write\", \"write-imm\", \"read\", \"fetch-add\", \"compare-swap\"]",
    "transport = [\"rc\"]\npattern = [\"exchange\"]\npayload = [4096]\nwait = [\"block\"]\noutstanding = [24]\n\
     depth = [8]\nsignal_every = [1, 8]\ninline = [0]\noperation = [\"send\", \"write-imm\", \"read\"]",
    "transport = [\"rc\"]\npattern = [\"stream\"]\npayload = [64, 65536]\nwait = [\"spin\", \"block\"]\n\
     operation = [\"write\", \"write-imm\"]",
    "transport = [\"rc\"]\npattern = [\"ping-pong\"]\npayload = [1, 65536]\nwait = [\"spin\"]\noperation = \
     [\"write\", \"write-imm\"]",
    "transport = [\"uc\", \"ud\"]\npattern = [\"stream\", \"exchange\", \"ping-pong\"]\npayload = [64, 1024]\n\
     wait = [\"spin\", \"block\"]",
    "transport = [\"rsocket\"]\npattern = [\"stream\", \"exchange\", \"ping-pong\"]\npayload = [64, 65536]\n\
     wait = [\"spin\", \"block\"]",
];

/// [`PLAN`] with other factors.
fn plan_of(factors: &str) -> String {
    let (head, rest) = PLAN.split_once("[factors]").unwrap();
    let (_, settings) = rest.split_once("[settings]").unwrap();
    // Twice as long: in a debug build the receiver of a stream may be away for most of 100 ms.
    format!("{head}[factors]\n{factors}\n[settings]{settings}").replace("\"100ms\"", "\"200ms\"")
}

#[test]
fn every_operation_and_transport_of_rdma_is_carried_and_crosses_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let mut script = String::new();
    for (number, factors) in RDMA.into_iter().enumerate() {
        let plan = folder.path().join(format!("{number}.toml"));
        fs::write(&plan, plan_of(factors)).unwrap();
        script += &format!(
            "\"$FABRICMARK\" run {} --ends 10.9.0.1,10.9.0.2 --out /tmp/{number} >&2 || exit 1\n\
             \"$FABRICMARK\" export --out /tmp/{number} --format json || exit 2\n",
            plan.display()
        );
    }
    let Some(output) = guest("operations of RDMA in a guest kernel", "6.1", &script) else {
        return;
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records: Vec<_> = records.iter().filter(|record| !record.place.warm_up).collect();
    assert_eq!(records.len(), 2 * (6 + 6 + 8 + 4 + 24 + 12), "{messages}");
    for record in records {
        assert_eq!(record.outcome, Outcome::Completed, "{:?} {messages}", record.point);
        assert!(record.deciding_value().is_some_and(|value| value > 0.0), "{:?}", record.point);
    }
    let last = messages.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [_, by_rdma] if by_rdma > 10_000), "{last}");
}

/// A network that loses packets, and adapters as `doctor rdma` shows them.
#[test]
fn a_lossy_network_costs_datagrams_of_rdma_and_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("lossy.toml");
    let factors = "transport = [\"rc\", \"ud\"]\npattern = [\"stream\"]\npayload = [1024]\nwait = [\"block\"]";
    fs::write(&plan, plan_of(factors).replace("\"200ms\"", "\"500ms\"")).unwrap();
    let script = format!(
        "tc qdisc add dev v0 root netem loss 2% || exit 1\n\
         \"$FABRICMARK\" run {} --ends 10.9.0.1,10.9.0.2 --out /tmp/out >&2 || exit 2\n\
         \"$FABRICMARK\" export --out /tmp/out --format json || exit 3\n\
         \"$FABRICMARK\" doctor rdma >&2",
        plan.display()
    );
    let Some(output) = guest("RDMA over a lossy network", "6.1", &script) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in records.iter().filter(|record| !record.place.warm_up) {
        assert_eq!(record.outcome, Outcome::Completed, "{:?} {messages}", record.point);
        let lost: u64 = record.flows.iter().map(|flow| flow.drops.lost).sum();
        let is_lossy = record.point.transport.is_lossy();
        assert_eq!(lost > 0, is_lossy, "{lost} {:?}", record.point.transport);
    }
    for shown in ["rxe0 port 1: Ethernet, ACTIVE", "up to 1024 bytes", "10.9.0.2 (RoCE v2, v1)"] {
        assert!(messages.contains(shown), "{shown}: {messages}");
    }
}

#[test]
fn smc_travels_by_rdma_in_a_kernel_that_finds_its_peer_by_rocev2() {
    let plan = tempfile::NamedTempFile::new().unwrap();
    fs::write(plan.path(), PLAN.replace(BOTH, "[\"smc\"]").replace("\"burst\"", "\"exchange\""))
        .unwrap();
    let script = format!(
        "\"$FABRICMARK\" run {} --ends 10.9.0.1,10.9.0.2 --out /tmp/out >&2 || exit 1",
        plan.path().display()
    );
    let Some(output) = guest("SMC-R in a guest kernel", "6.12", &script) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let last = messages.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [_, by_rdma] if by_rdma > 1000), "{messages}");
}

#[test]
fn a_kernel_without_an_adapter_is_told_what_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, PLAN.replace(BOTH, "[\"rc\"]")).unwrap();
    if fabricmark_rdma::ports().is_empty() {
        let output = Command::new(env!("CARGO_BIN_EXE_fabricmark"))
            .args(["run", plan.to_str().unwrap(), "--ends", "127.0.0.1,127.0.0.1", "--out"])
            .arg(folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(MISSING), "{text}");
        assert!(text.contains("RDMA unavailable: this kernel has no adapter"), "{text}");
    } else {
        skip("a kernel without RDMA", "this one has an adapter");
    }
}
