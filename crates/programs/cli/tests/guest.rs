//! A guest kernel with Soft RoCE. One boot serves many short cases, because it takes seconds.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use fabricmark_plan::{Figure, Pattern};
use fabricmark_rdma::{
    Adapter, Endpoint, Failed, Flags, Kind, Place, Region, Request, WorkCompletion, check,
};
use fabricmark_record::{Host, OffloadState, Offloads, Outcome, Record, Rings, Technology};
use fabricmark_testkit::skip;
use serde_json::Value;

/// Exit code if this machine lacks a program or a package.
const MISSING: i32 = 66;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fabricmark");

/// Runs a script in a guest; WRITABLE is a folder of this machine. `None`, and a counted skip, if no guest can run.
fn guest(test: &str, kernel: &str, script: &str) -> Option<Output> {
    let writable = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(["lab", "guest", "--kernel", kernel, "--limit", "30min", "--writable"])
        .arg(writable.path())
        .args(["--", "sh", "-c", script])
        .env("WRITABLE", writable.path())
        .env("FABRICMARK", PROGRAM)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    alone(test, &mut command)
}

/// Runs a command that boots a guest; `None`, and a counted skip, if no guest can run.
fn alone(test: &str, command: &mut Command) -> Option<Output> {
    // One guest at a time: two would share the CPUs.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = command.output().unwrap();
    if output.status.code() == Some(MISSING) {
        skip(test, String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default());
        return None;
    }
    Some(output)
}

/// The program with the tests of links of the kernel, those of the package fabricmark-lab.
fn tests_of_the_kernel() -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--locked", "--package", "fabricmark-lab", "--test", "kernel"]);
    cargo.args(["--no-run", "--message-format", "json"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = lines.find_map(|line| Some(line["executable"].as_str()?.to_owned()));
    program.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn queues_that_this_kernel_lacks_do_what_they_say_in_a_kernel_that_has_them() {
    let tests = tests_of_the_kernel();
    let script = format!(
        // The emulator runs beside them, also with a queue of the device that this kernel does not allow.
        "\"$FABRICMARK\" measure stream lab:veth --rtt 0ms --offload off --runs 1 -t 200ms >&2 || exit 3\n\
         FABRICMARK_EVERY_QUEUE=1 FABRICMARK_SKIPS=\"$WRITABLE/skips\" '{tests}' --test-threads=1 every_queue netem >&2 || exit 1\n\
         [ ! -s \"$WRITABLE/skips\" ] || {{ cat \"$WRITABLE/skips\" >&2; exit 2; }}"
    );
    let Some(output) = guest("netem, CoDel and RED", "6.1", &script) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", last_lines(&messages));
    assert!(messages.contains("2 passed"), "{}", last_lines(&messages));
}

/// The cause of a failure is at the end of a long output.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// The records that a command printed.
fn records(output: &Output) -> Vec<Record> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of the runs that count; asserts that each of `points` has one. A run in which an end stalled is invalid and
/// is repeated, but not for ever.
fn counted(mut records: Vec<Record>, points: usize) -> Vec<Record> {
    let reasons: Vec<_> = records
        .iter()
        .filter(|record| record.outcome != Outcome::Completed)
        .map(|record| (record.point.key(), record.outcome.clone()))
        .collect();
    records.retain(Record::counts);
    let counted: BTreeSet<String> = records.iter().map(|record| record.point.key()).collect();
    assert_eq!(counted.len(), points, "{reasons:#?}");
    records
}

/// Asserts that the data of a run arrived by the device of its receiver: an adapter also carries messages from itself to
/// itself, which cross no network.
fn assert_crossed(record: &Record) {
    // Headers of IPv4 and TCP; those of RoCEv2 have 44 bytes.
    const HEADERS: u64 = 40;
    let [flow] = record.flows.as_slice() else { panic!("{:?}", record.flows) };
    let arrived = |node: usize| record.nodes[node].kernel.unwrap().device_received_bytes;
    let key = record.point.key();
    if record.point.pattern == Pattern::Stream {
        assert!(flow.received.bytes > 0, "{key}");
        assert!(arrived(1) >= Some(flow.received.bytes), "{key}: {:?}", record.nodes[1].kernel);
    } else {
        // A transaction or burst takes a packet each way at least.
        let least = HEADERS * flow.sent.calls;
        assert!(least > 0, "{key}");
        assert!([0, 1].map(arrived).into_iter().all(|bytes| bytes >= Some(least)), "{key}");
    }
}

/// Two transports that both cross the guest's network, each with every pattern. Runs last 500 ms, because a debug build on
/// emulated CPUs may stall for most of 100 ms, and receives only about 100 messages in 200 ms.
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
duration = "500ms"
warm_up = "0s"
[stop]
runs = 2
"#;

/// The transports of [`PLAN`].
const BOTH: &str = "[\"rc\", \"tcp\"]";

#[test]
fn a_guest_has_rdma_that_crosses_its_network_and_gives_back_what_its_command_said() {
    let test = "RDMA in a guest kernel";
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let sctp = "[[add]]\ntransport = \"sctp\"\npattern = [\"stream\", \"rr\", \"ping-pong\", \"ping-ping\", \"burst\"]\n\
                payload = 1024\nwait = \"block\"\n";
    let plan = file("plan.toml", &format!("{PLAN}{sctp}"));
    let smc = "transport = [\"smc\"]\npattern = [\"stream\"]\npayload = [1024]\nwait = [\"block\"]";
    let smc = file("smc.toml", &plan_of(smc));
    // SMC falls back to TCP in this kernel; a run must report that as a failure.
    let script = format!(
        "\"$FABRICMARK\" run {smc} --ends 10.9.0.1,10.9.0.2 --out /tmp/smc >&2; [ $? = 67 ] || exit 4\n\
         \"$FABRICMARK\" run {plan} --ends 10.9.0.1,10.9.0.2 --out \"$WRITABLE/out\" >&2 || exit 1\n\
         \"$FABRICMARK\" export --out \"$WRITABLE/out\" --format json || exit 2\n\
         touch /etc/fabricmark-was-here || exit 3\nexit 7"
    );
    let Some(output) = guest(test, "6.1", &script) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{}", last_lines(&messages));
    assert!(!fs::exists("/etc/fabricmark-was-here").unwrap());
    assert!(messages.contains("SMC fell back to TCP"), "{messages}");
    for record in &counted(records(&output), 2 * 3 * 2 * 2 + 5) {
        assert_crossed(record);
        // The guest's CPUs are emulated in software: no figure may count as measured.
        let figures = serde_json::to_string(&record.figures).unwrap();
        assert!(figures.contains("emulated") && !figures.contains("measured"), "{figures}");
    }
    // Many of the records are of RDMA, and each of its packets crosses the guest's network.
    let last = messages.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [crossed, by_rdma] = numbers[..] else { panic!("{messages}") };
    assert!(by_rdma > 1000 && crossed >= by_rdma, "{last}");
}

/// Factors of the RDMA plan: the first ones are its `[factors]`, each of the others replaces all of them in an `[[add]]`.
const RDMA: [&str; 13] = [
    "transport = [\"rsocket\"]\npattern = [\"stream\", \"rr\", \"ping-pong\", \"ping-ping\"]\npayload = [64, 65536]\n\
     wait = [\"spin\", \"block\"]",
    "transport = [\"rc\"]\npattern = [\"rr\"]\npayload = [8]\nwait = [\"spin\"]\noperation = \
     [\"send\", \"write\", \"write-imm\", \"read\", \"fetch-add\", \"compare-swap\"]",
    "transport = [\"rc\"]\npattern = [\"rr\"]\npayload = [4096]\nwait = [\"block\"]\noutstanding = [4]\n\
     tx_depth = [8]\ncq_mod = [1, 8]\ninline = [0]\nverify = [true]\noperation = [\"send\", \"write-imm\"]",
    "transport = [\"rc\"]\npattern = [\"rr\"]\npayload = [4096]\nwait = [\"block\"]\noutstanding = [4]\n\
     tx_depth = [8]\nverify = [true]\noperation = [\"read\"]",
    "transport = [\"rc\"]\npattern = [\"stream\"]\npayload = [64, 65536]\nwait = [\"spin\", \"block\"]\n\
     verify = [true]\noperation = [\"write\", \"write-imm\"]",
    "transport = [\"rc\"]\npattern = [\"ping-pong\", \"ping-ping\"]\npayload = [4096]\nwait = [\"spin\"]\n\
     verify = [true]\noperation = [\"send\", \"write\", \"write-imm\"]",
    "transport = [\"uc\", \"ud\"]\npattern = [\"stream\", \"rr\", \"ping-pong\"]\npayload = [64, 1024]\n\
     wait = [\"spin\"]\nverify = [true]",
    "transport = [\"rc\"]\npattern = [\"stream\", \"rr\"]\npayload = [4096]\nwait = [\"block\"]\n\
     cm = [\"tcp\", \"rdma\"]\nverify = [true]",
    "transport = [\"rc\"]\npattern = [\"stream\", \"rr\"]\npayload = [1024]\nwait = [\"epoll\"]\n\
     flows = [1, 3]\nverify = [true]",
    "transport = [\"rc\"]\npattern = [\"rr\"]\npayload = [64]\nwait = [\"spin\", \"block\"]\npace = [\"fixed:100/s\"]",
    "transport = [\"ud\"]\npattern = [\"stream\", \"rr\"]\npayload = [1024]\nwait = [\"epoll\"]\nflows = [3]\n\
     verify = [true]",
    "transport = [\"rc\"]\npattern = [\"stream\"]\npayload = [64, 4096]\nwait = [\"spin\", \"block\"]\n\
     verify = [true]\noperation = [\"read\"]",
    "transport = [\"rc\"]\npattern = [\"stream\"]\npayload = [1024]\nwait = [\"epoll\"]\nflows = [3]\n\
     threads = [2]\nverify = [true]\noperation = [\"send\", \"write\", \"write-imm\", \"read\"]",
];

/// [`PLAN`] with other factors.
fn plan_of(factors: &str) -> String {
    let (head, rest) = PLAN.split_once("[factors]").unwrap();
    let (_, settings) = rest.split_once("[settings]").unwrap();
    format!("{head}[factors]\n{factors}\n[settings]{settings}")
}

#[test]
fn every_operation_and_transport_of_rdma_is_carried_and_crosses_the_network() {
    let plan = tempfile::NamedTempFile::new().unwrap();
    fs::write(plan.path(), plan_of(&RDMA.join("\n[[add]]\n"))).unwrap();
    let script = format!(
        "\"$FABRICMARK\" run {} --ends 10.9.0.1,10.9.0.2 --out /tmp/out >&2 || exit 1\n\
         \"$FABRICMARK\" export --out /tmp/out --format json || exit 2",
        plan.path().display()
    );
    let Some(output) = guest("operations of RDMA in a guest kernel", "6.1", &script) else {
        return;
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", last_lines(&messages));
    let counted = counted(records(&output), 16 + 6 + 4 + 1 + 8 + 6 + 12 + 4 + 4 + 2 + 2 + 4 + 4);
    counted.iter().for_each(assert_crossed);
    let last = messages.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [_, by_rdma] if by_rdma > 10_000), "{last}");
}

/// Soft RoCE and TCP over one link of 1 Gbit/s, with the ceilings of both.
#[test]
fn a_plan_runs_in_a_guest_over_its_wire_and_shows_what_that_allows() {
    let folder = tempfile::tempdir().unwrap();
    let plan = PLAN
        .replace("[factors]", "testbed = \"guest\"\n[factors]")
        .replace("\"stream\", \"burst\"", "\"stream\"")
        .replace("wait = [\"spin\", \"block\"]\n", "")
        .replace("link = \"veth\"", "link = \"ethernet:1G\"");
    fs::write(folder.path().join("plan.toml"), &plan).unwrap();
    let run = |options: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["run", "plan.toml"]).args(options).current_dir(folder.path());
        alone("a plan in a guest kernel", &mut command)
    };
    let Some(output) = run(&[]) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", last_lines(&messages));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("reproduce   fabricmark run plan.toml --fresh"), "{text}");
    let mut export = Command::new(PROGRAM);
    export.args(["export", "--format", "json"]).current_dir(folder.path());
    for record in &counted(records(&export.output().unwrap()), 2 * 2 * 2) {
        let key = record.point.key();
        if let Some(goodput_bps) = record.figures.value(Figure::Goodput) {
            let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
            assert!(goodput_bps < bound_bps && bound_bps < 1e9, "{key}: {bound_bps}");
        } else {
            let floor_ns = record.limits.rtt_floor.as_ref().unwrap().time_ns.as_f64();
            let rtt_ns = record.figures.value(Figure::Rtt).unwrap();
            assert!(floor_ns > 1_000.0 && rtt_ns > floor_ns, "{key}: {floor_ns}");
        }
    }
    let one = "link = \"ethernet:1G\"\n";
    let plan =
        plan.replace(one, "").replace("[factors]", "[factors]\nlink = [\"ethernet:1G\", \"veth\"]");
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let refused = run(&[]).unwrap();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{message}");
    assert!(message.contains("a guest has only one link"), "{message}");
}

/// A network that loses packets, and adapters as `doctor rdma` shows them.
#[test]
fn a_lossy_network_costs_datagrams_of_rdma_and_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("lossy.toml");
    let factors = "transport = [\"rc\", \"ud\"]\npattern = [\"stream\"]\npayload = [1024]\nwait = [\"block\"]";
    fs::write(&plan, plan_of(factors)).unwrap();
    let script = format!(
        "tc qdisc add dev v0 root netem loss 2% || exit 1\n\
         \"$FABRICMARK\" run {} --ends 10.9.0.1,10.9.0.2 --out /tmp/out >&2 || exit 2\n\
         \"$FABRICMARK\" export --out /tmp/out --format json || exit 3\n\
         \"$FABRICMARK\" doctor rdma >&2",
        plan.display()
    );
    let Some(output) = guest("RDMA over a lossy network", "6.1", &script) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", last_lines(&messages));
    for record in &counted(records(&output), 2) {
        let lost: u64 = record.flows.iter().map(|flow| flow.drops.lost).sum();
        let is_lossy = record.point.transport.is_lossy();
        assert_eq!(lost > 0, is_lossy, "{lost} {:?}", record.point.transport);
    }
    for shown in ["rxe0 port 1: Ethernet, ACTIVE", "up to 1024 bytes", "10.9.0.2 (RoCE v2, v1)"] {
        assert!(messages.contains(shown), "{shown}: {messages}");
    }
}

/// Starts a long stream, injects a fault once data moves, and prints how the stream ended and after how long.
const FAULTS: &str = r#"
has_workers() { read -r sender receiver rest </proc/$pid/task/$pid/children && [ -n "$receiver" ]; }
sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }
fault() {
    name=$1; inject=$2; shift 2
    before=$(sent)
    "$FABRICMARK" measure stream --ends 10.9.0.1,10.9.0.2 --payload $payload --duration $length --warm-up 0s "$@" >/tmp/said 2>&1 &
    pid=$!
    # Without a fault to inject, the run begins with its workers.
    if [ "$inject" = : ]; then
        while ! has_workers && kill -0 $pid; do sleep 0.05; done
    else
        while [ $(($(sent) - before)) -lt 2000 ] && kill -0 $pid; do sleep 0.05; done
        has_workers
    fi
    began=$(date +%s%N)
    $inject
    wait $pid
    code=$?
    echo "$name|$code|$((($(date +%s%N) - began) / 1000000))|$(tr '\n' ' ' </tmp/said)"
}
kill_receiver() { kill -KILL $receiver; }
kill_sender() { kill -KILL $sender; }
stop_receiver() { kill -STOP $receiver; }
lose_all() { tc qdisc add dev v0 root netem loss 100%; }
length=60s
payload=4KiB
fault killed-receiver kill_receiver --transport rc
fault killed-sender kill_sender --transport rc --wait spin
fault stopped-block stop_receiver --transport rc
fault stopped-spin stop_receiver --transport rc --wait spin
fault stopped-epoll stop_receiver --transport rc --wait epoll
fault stopped-rsocket stop_receiver --transport rsocket
fault network lose_all --transport rc
tc qdisc del dev v0 root || exit 1
# TCP passes, RoCE does not: messages of the client, then of the server, never arrive.
payload=1024
for device in v0 v1; do
    tc qdisc add dev $device root handle 1: prio && tc qdisc add dev $device parent 1:3 netem loss 100% &&
        tc filter add dev $device parent 1: protocol ip u32 match ip dport 4791 0xffff flowid 1:3 || exit 4
    fault unheard-uc-$device : --transport uc
    fault unheard-ud-$device : --transport ud
    tc qdisc del dev $device root || exit 1
done
payload=4KiB
remove() { rdma link delete rxe1 & removal=$!; }
length=3s
fault removed remove --transport rc
wait $removal || exit 3
fault gone : --transport rc
"#;

/// Messages of a run when its peer, its network or its adapter fails.
#[test]
fn a_peer_that_is_killed_or_stands_still_and_a_network_that_is_gone_end_a_run_within_10_s() {
    let tests = std::env::current_exe().unwrap();
    let inside = "inside_a_guest_requests_that_may_not_be_fail_with_their_names";
    let script = format!("{} --ignored --exact {inside} >&2 || exit 2\n{FAULTS}", tests.display());
    let Some(output) = guest("faults of RDMA", "6.1", &script) else { return };
    let (text, messages) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{messages}");
    let killed = ["killed by signal 9"].as_slice();
    // An end may also stall while a run is being prepared or opened.
    let stopped = ["stalled", "did not answer within 5.0 s", "no answer within 5.0 s"].as_slice();
    let unheard = ["messages over the queue pair do not arrive"].as_slice();
    let expected = [
        ("killed-receiver", killed),
        ("killed-sender", killed),
        ("stopped-block", stopped),
        ("stopped-spin", stopped),
        ("stopped-epoll", stopped),
        ("stopped-rsocket", stopped),
        ("network", &["retry exceeded"]),
        ("unheard-uc-v0", unheard),
        ("unheard-ud-v0", unheard),
        ("unheard-uc-v1", unheard),
        ("unheard-ud-v1", unheard),
        // The kernel removes an adapter only once nothing uses it.
        ("removed", &["runs        1 counted"]),
        ("gone", &["no adapter has the address 10.9.0.2"]),
    ];
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(4, '|').collect()).collect();
    assert_eq!(lines.len(), expected.len(), "{text}{messages}");
    for (line, (name, said)) in lines.iter().zip(expected) {
        let [fault, code, ended_ms, words] = line[..] else { panic!("{text}") };
        let ends = match name {
            "removed" => "0",
            "gone" => "66",
            _ => "67",
        };
        assert_eq!((fault, code), (name, ends), "{text}");
        assert!(said.iter().any(|said| words.contains(said)), "{name}: {words}");
        assert!(ended_ms.parse::<u64>().unwrap() < 10_000, "{name}: {ended_ms} ms, {words}");
    }
}

/// Both ends of a connection between the adapters of a guest.
fn pair() -> [(Endpoint, Region); 2] {
    let ends = [("10.9.0.1", "v0"), ("10.9.0.2", "v1")].map(|(address, device)| {
        let adapter = Adapter::open(address.parse().unwrap(), device).unwrap();
        let endpoint = Endpoint::new(&adapter, Kind::Reliable, 4, 0, [1; 16]).unwrap();
        (endpoint, adapter.region(64).unwrap())
    });
    let identities = ends.each_ref().map(|(endpoint, region)| endpoint.identity(Some(region)));
    let connect = |end: usize, address: &str| {
        ends[end].0.connect(&identities[1 - end], address.parse().unwrap()).map(drop)
    };
    let error = connect(0, "10.9.0.9").unwrap_err();
    assert_eq!(error.to_string(), "the other end's GID is 10.9.0.2, but its address is 10.9.0.9");
    connect(0, "10.9.0.2").unwrap();
    connect(1, "10.9.0.1").unwrap();
    ends
}

/// Result of the only outstanding request at an end.
fn done(endpoint: &Endpoint) -> Result<(), Failed> {
    let mut completions = [WorkCompletion::default()];
    while endpoint.completions.poll(&mut completions).unwrap() == 0 {}
    check(&completions[0])
}

#[test]
#[ignore = "runs inside a guest, started by the test of faults"]
fn inside_a_guest_requests_that_may_not_be_fail_with_their_names() {
    let told = Flags { signaled: true, inline: false };
    let [(from, own), (to, there)] = pair();
    let place = Place { address: there.address(), key: there.remote_key() };
    from.pair.post(1, Request::Write(place), &own, 0..64, told).unwrap();
    assert_eq!(done(&from), Ok(()));
    let beyond = Place { address: place.address + 1, ..place };
    from.pair.post(2, Request::Write(beyond), &own, 0..64, told).unwrap();
    assert_eq!(done(&from), Err(Failed::RemoteAccess));
    drop((from, own, to, there));

    let [(from, own), (_to, there)] = pair();
    let unknown = Place { address: there.address(), key: there.remote_key() ^ 0xff };
    from.pair.post(1, Request::Read(unknown), &own, 0..64, told).unwrap();
    assert_eq!(done(&from), Err(Failed::RemoteAccess));
    from.pair.post(2, Request::Read(unknown), &own, 0..64, told).unwrap();
    assert_eq!(done(&from), Err(Failed::Flushed));

    // An agent that limits rates refuses runs that read: others must not.
    let [(from, own), (_to, there)] = pair();
    let place = Place { address: there.address(), key: there.remote_key() };
    from.pair.post(1, Request::Read(place), &own, 0..64, told).unwrap();
    assert_eq!(done(&from), Err(Failed::RemoteAccess));

    let [(from, own), (to, there)] = pair();
    to.pair.post_receive(1, &there, 0..32).unwrap();
    from.pair.post(1, Request::Send, &own, 0..64, told).unwrap();
    // Adapters differ in the status that they report.
    assert!(matches!(done(&from), Err(Failed::RemoteInvalid | Failed::RemoteOperation)));
    assert!(done(&to).is_err());
}

#[test]
fn smc_travels_by_rdma_in_a_kernel_that_finds_its_peer_by_rocev2() {
    let plan = tempfile::NamedTempFile::new().unwrap();
    fs::write(plan.path(), PLAN.replace(BOTH, "[\"smc\"]").replace("\"burst\"", "\"rr\"")).unwrap();
    let script = format!(
        "\"$FABRICMARK\" run {} --ends 10.9.0.1,10.9.0.2 --out /tmp/out >&2 || exit 1\n\
         \"$FABRICMARK\" export --out /tmp/out --format json || exit 2",
        plan.path().display()
    );
    let Some(output) = guest("SMC-R in a guest kernel", "6.12", &script) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", last_lines(&messages));
    counted(records(&output), 3 * 2 * 2).iter().for_each(assert_crossed);
    let last = messages.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [_, by_rdma] if by_rdma > 1000), "{messages}");
}

/// Sets what a driver for hardware and a veth have, and prints what `hosts show` has of it, and `rdma link`. No module
/// is loaded while a second emulated CPU runs (`inside.sh` of the guest).
const SET_AND_SHOW: &str = "set -e
    echo 0 >/sys/devices/system/cpu/cpu1/online
    modprobe e1000e
    ethtool -C eth0 rx-usecs 50 >&2
    ethtool -G eth0 rx 512 tx 1024 >&2
    ethtool -K eth0 tso off gro off >&2
    ip link add c0 numrxqueues 4 numtxqueues 4 type veth peer name c1
    ethtool -L c0 rx 2 tx 3 >&2
    \"$FABRICMARK\" hosts show --interface eth0 --interface c0 --interface v0 --interface v1 --json
    rdma -j link";

#[test]
fn settings_that_ethtool_has_made_and_the_links_of_rdma_are_shown() {
    let test = "settings_that_ethtool_has_made_and_the_links_of_rdma_are_shown";
    if fabricmark_host::program("ethtool").is_none() {
        return skip(test, "ethtool is not installed");
    }
    let Some(output) = guest(test, "6.1", SET_AND_SHOW) else { return };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}", last_lines(&messages));
    let mut documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    let mut document = || -> Value { documents.next().unwrap().unwrap() };
    let Host { interfaces, .. } = serde_json::from_value(document()).unwrap();
    let [card, veth, roce0, roce1] = ["eth0", "c0", "v0", "v1"]
        .map(|name| interfaces.iter().find(|interface| interface.name == name).unwrap());
    assert_eq!(card.technology, Technology::Ethernet);
    assert_eq!(card.driver.as_deref(), Some("e1000e"));
    assert!(card.pci.is_some() && !card.irqs.is_empty(), "{card:?}");
    let coalescing = card.coalescing.unwrap();
    assert_eq!((coalescing.rx_delay_ns, coalescing.rx_frames), (Some(50_000), None));
    let rings = Rings { rx: Some(512), rx_max: Some(4096), tx: Some(1024), tx_max: Some(4096) };
    assert_eq!(card.rings, Some(rings));
    let is_on = |offload: Option<OffloadState>| offload.unwrap().is_on;
    let Offloads { tso, gso, gro, .. } = card.offloads;
    assert_eq!([tso, gso, gro].map(is_on), [false, true, false]);
    assert_eq!(card.channels, None);
    let channels = veth.channels.unwrap();
    assert_eq!((channels.rx, channels.tx, channels.combined), (Some(2), Some(3), None));
    assert_eq!((channels.rx_max, channels.tx_max), (Some(4), Some(4)));
    let links = document();
    assert_eq!(links.as_array().unwrap().len(), 2);
    for (link, interface) in links.as_array().unwrap().iter().zip([roce0, roce1]) {
        let [port] = interface.rdma.as_slice() else { panic!("{interface:?}") };
        assert_eq!(link["netdev"], interface.name.as_str());
        assert_eq!(link["ifname"], port.device.as_str());
        assert_eq!(
            (&link["port"], &link["state"]),
            (&port.port.into(), &port.state.as_str().into())
        );
        assert!(port.protocols.contains(&"RoCE v2".to_owned()), "{port:?}");
    }
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
        assert!(text.contains("RDMA unavailable: this machine has no adapter"), "{text}");
    } else {
        skip("a kernel without RDMA", "this one has an adapter");
    }
}
