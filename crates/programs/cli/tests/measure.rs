//! `fabricmark measure` over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "measure/refusals.rs"]
mod refusals;
mod schema;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};
use std::thread;

use fabricmark_plan::{Figure, Pattern, Transport};
use fabricmark_record::{Outcome, Record};
use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use serde_json::Value;

use schema::Published;

fn measure(line: &str) -> Output {
    let words = line.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_fabricmark")).arg("measure").args(words).output().unwrap()
}

#[track_caller]
fn expect(line: &str, code: i32, fragments: &[&str]) -> String {
    says(&measure(line), code, fragments)
}

/// Asserts the exit code, and that each fragment was printed, regardless of line breaks.
#[track_caller]
fn says(output: &Output, code: i32, fragments: &[&str]) -> String {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    for fragment in fragments {
        assert!(text.contains(fragment) || line.contains(fragment), "no {fragment:?} in {text}");
    }
    text.into_owned()
}

/// System calls by number, each with (argument position, value) conditions.
type Calls = [(i64, Vec<(u8, i32)>)];

/// Runs `measure` in a process for which the kernel fails these system calls with this error.
fn refusing(calls: &Calls, error: i32, line: &str) -> Output {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (call, arguments) in calls {
        let is = |&(place, value): &(u8, i32)| {
            let value = u64::from(value.cast_unsigned());
            SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).unwrap()
        };
        let rule = SeccompRule::new(arguments.iter().map(is).collect()).unwrap();
        rules.entry(*call).or_default().push(rule);
    }
    let refuse = SeccompAction::Errno(error.cast_unsigned());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    thread::scope(|scope| {
        // A process inherits the filter of the thread that starts it (seccomp(2)).
        let thread = scope.spawn(|| {
            apply_filter(&program).unwrap();
            measure(line)
        });
        thread.join().unwrap()
    })
}

#[track_caller]
fn json(line: &str) -> Value {
    let output = measure(&format!("{line} --json"));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_setting_is_printed_with_its_figures_and_every_default() {
    expect(
        "stream loopback -t 100ms",
        0,
        &[
            "goodput",
            "Mbit/s",
            "retransmitted segments",
            "transport tcp",
            "payload (B) 131,072",
            "congestion",
            "path copy",
            "wait block",
            "duration 100ms",
            "reproduce   fabricmark measure stream loopback -t 100ms",
        ],
    );
}

#[test]
fn each_pattern_yields_its_figure_in_json_that_follows_the_schema() {
    let schema = Published::named("measure");
    // Transactions in flight of a closed loop.
    for (line, figure, in_flight) in [
        ("stream loopback --transport udp --family 6", Figure::Goodput, None),
        ("stream loopback --reverse", Figure::Goodput, None),
        ("rr loopback --response 100 --outstanding 4", Figure::TransactionRate, Some(4.0)),
        ("crr loopback", Figure::TransactionRate, Some(1.0)),
        ("ping-pong loopback --transport unix", Figure::Rtt, Some(1.0)),
        ("rr loopback --flows 20", Figure::TransactionRate, Some(20.0)),
        ("burst loopback --outstanding 8", Figure::Goodput, Some(1.0)),
        ("burst loopback --transport udp --flows 2", Figure::PayloadRate, Some(2.0)),
        ("stream loopback --transport quic", Figure::Goodput, None),
        ("ping-pong loopback --transport udp --timestamps software", Figure::Rtt, Some(1.0)),
    ] {
        let answer = json(&format!("{line} -t 200ms --warm-up 0s"));
        schema.holds(&answer);
        let records: Vec<Record> = serde_json::from_value(answer["records"].clone()).unwrap();
        // Invalid runs, of a busy machine, are repeated.
        let counts = |record: &&Record| record.outcome == Outcome::Completed;
        let record = records.iter().find(counts).unwrap_or_else(|| panic!("{line}: {answer}"));
        assert_counted(line, record, figure, in_flight);
    }
}

/// The first valid run; a single run that is invalid, of a busy machine, is repeated.
fn completed(answer: &Value) -> &Value {
    let mut records = answer["records"].as_array().unwrap().iter();
    let is_completed = |record: &&Value| record["outcome"]["kind"] == "completed";
    records.find(is_completed).unwrap_or(&answer["records"][0])
}

/// Asserts that a figure follows from the counts of its end, that the kernel carried these bytes, and that rate and RTT of
/// a closed loop follow from each other (Little's law).
fn assert_counted(line: &str, record: &Record, figure: Figure, in_flight: Option<f64>) {
    let flow = &record.flows[0];
    let is_stream = record.point.pattern == Pattern::Stream;
    let counts = if is_stream { flow.received } else { flow.sent };
    let (calls, bytes) = (counts.counted_calls() as f64, counts.counted_bytes() as f64);
    let seconds = counts.elapsed_ns as f64 / 1e9;
    // Of 0.2 s, without a ramp; the last response may be late.
    assert!(seconds > 0.1, "{line}: {seconds} s");
    let value =
        |figure| record.figures.value(figure).unwrap_or_else(|| panic!("{line}: {figure:?}"));
    let expected = match figure {
        Figure::Goodput => 8.0 * bytes / seconds,
        Figure::PayloadRate => bytes / record.point.payload.0 as f64 / seconds,
        Figure::TransactionRate => calls / seconds,
        _ => flow.rtt_ns.as_ref().unwrap().mean_ns().unwrap(),
    };
    let found = value(figure);
    assert!((found / expected - 1.0).abs() < 1e-9, "{line}: {found} instead of {expected}");
    if let Some(in_flight) = in_flight {
        let found = calls / seconds * value(Figure::Rtt) / 1e9;
        // The client prepares a request outside of the RTT, and may wait for its CPU there.
        let delay_ns = flow.sent_thread.and_then(|thread| thread.run_delay_ns).unwrap_or_default();
        let least = 0.9 - delay_ns as f64 / counts.elapsed_ns as f64;
        assert!((least..1.05).contains(&(found / in_flight)), "{line}: {found} in flight");
    }
    if record.point.transport != Transport::Unix {
        // Both ends receive by one device.
        let kernel = record.nodes[1].kernel.unwrap();
        let least = if is_stream { flow.received.bytes } else { flow.sent.bytes };
        assert!(kernel.device_received_bytes >= Some(least), "{line}: {kernel:?}");
    }
}

#[test]
fn a_stream_both_ways_is_the_sum_of_its_directions() {
    for transport in ["tcp", "udp", "unix"] {
        let answer = json(&format!("stream loopback --bidir --transport {transport} -t 200ms"));
        let record = &answer["records"][0];
        let figure = |name: &str| record["figures"][name]["value"].as_f64().unwrap();
        let (forward, reverse) = (figure("forward_goodput_bps"), figure("reverse_goodput_bps"));
        assert!(forward > 0.0 && reverse > 0.0, "{transport}: {forward} {reverse}");
        assert_eq!(figure("goodput_bps"), forward + reverse, "{transport}");
        let ways: Vec<&str> = record["flows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|flow| flow["from"].as_str().unwrap())
            .collect();
        assert_eq!(ways, ["client", "server"]);
    }
}

#[test]
fn payloads_of_a_stream_are_counted_by_their_bytes() {
    for transport in ["tcp", "tls", "udp", "quic"] {
        let answer =
            json(&format!("stream loopback --transport {transport} --payload 64 -t 200ms"));
        let figure = |name: &str| answer["records"][0]["figures"][name]["value"].as_f64().unwrap();
        let goodput_bps = 8.0 * 64.0 * figure("payloads_per_s");
        let beside = goodput_bps / figure("goodput_bps");
        assert!((beside - 1.0).abs() < 1e-9, "{transport}: {goodput_bps} bit/s in payloads");
    }
}

#[test]
fn a_probe_finds_the_round_trip_before_the_load_and_beside_it() {
    for (line, transport) in [("stream", "tcp"), ("rr", "udp"), ("stream --bidir", "udp")] {
        let (pattern, rest) = line.split_once(' ').unwrap_or((line, ""));
        let line = format!("{pattern} loopback {rest} --probe={transport} -t 200ms");
        let answer = json(&line);
        let record = &answer["records"][0];
        for name in ["idle_rtt_p50_ns", "idle_rtt_p99_ns", "loaded_rtt_p50_ns", "loaded_rtt_p99_ns"]
        {
            let value = record["figures"][name]["value"].as_f64();
            assert!(value.is_some_and(|value| value > 0.0), "{line}: {name}");
        }
        let groups: Vec<&str> = record["flows"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|flow| flow["group"].as_str())
            .filter(|group| *group != "load")
            .collect();
        assert_eq!(groups, ["probe-idle", "probe"], "{line}");
    }
    // Without a value it means UDP, and does not take the next argument as its value.
    expect("stream --probe loopback -t 100ms", 0, &["probe udp", "loaded RTT p50"]);
}

#[test]
fn jitter_is_not_the_gap_between_datagrams_over_any_path() {
    for path in ["copy", "mmsg", "gso"] {
        let line = format!("stream loopback -u --path {path} --pace fixed:200/s -t 400ms -i 20ms");
        let output = measure(&format!("{line} --json"));
        let lines = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        let lines: Vec<Value> = lines.map(Result::unwrap).collect();
        let record = &lines.last().unwrap()["records"][0];
        let jitter_ns = record["figures"]["jitter_ns"]["value"].as_f64();
        assert!(jitter_ns.is_some(), "{path}: {record}");
        // If the gap of 5 ms were taken for jitter, it would be 3.2 ms after 16 differences, before which none is
        // reported, and rise towards 5 ms. A pause of the process raises the jitter of some intervals only.
        let series = &record["flows"][0]["received_series"]["intervals"];
        let of_intervals = series.as_array().unwrap().iter();
        let least_ns = of_intervals
            .filter_map(|interval| interval["jitter_ns"].as_f64())
            .fold(f64::INFINITY, f64::min);
        assert!(least_ns < 2_500_000.0, "{path}: {least_ns} {series}");
    }
}

#[test]
fn a_client_sends_from_the_address_that_was_asked_for() {
    for transport in ["tcp", "udp"] {
        let line = format!("rr loopback --transport {transport} --source 127.0.0.2 -t 100ms");
        expect(&line, 0, &["127.0.0.2"]);
    }
}

#[test]
fn as_many_requests_depart_as_were_asked_for_however_many_may_be_outstanding() {
    let answer = json("rr loopback --outstanding 64 -k 3");
    assert_eq!(answer["records"][0]["flows"][0]["sent"]["calls"], 3, "{answer}");
}

#[test]
fn the_goodput_of_bursts_is_that_of_the_answered_ones() {
    let answer = json("burst loopback --outstanding 8 --payload 1000 -t 100ms --warm-up 0s");
    let figures = &answer["records"][0]["figures"];
    let value = |figure: &str| figures[figure]["value"].as_f64().unwrap();
    let is_near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    let bursts_per_s = value("transactions_per_s");
    assert!(is_near(value("payloads_per_s"), 8.0 * bursts_per_s), "{figures}");
    assert!(is_near(value("goodput_bps"), 8.0 * 8.0 * 1000.0 * bursts_per_s), "{figures}");
    // One burst is in flight at a time.
    assert!(value("rtt_mean_ns") * bursts_per_s <= 1e9 * (1.0 + 1e-9), "{figures}");
    let text = expect("burst loopback -t 100ms --interval 20ms", 0, &["Mbit/s", "bursts/s"]);
    assert!(text.contains("64") && text.contains("RTT p50"), "{text}");
}

#[test]
fn letters_of_iperf3_mean_the_same_here() {
    let line = "stream loopback -P 2 -l 32KiB -C reno -M 1000 -B 127.0.0.1 -w 256KiB -k 9999 -R";
    let words = [
        "flows 2",
        "payload (B) 32,768",
        "congestion reno",
        "mss 1000",
        "source 127.0.0.1",
        "receive buffer (B) 262,144",
        "ends after 9,999 payloads",
        "direction reverse",
    ];
    expect(line, 0, &words);
    let long = "stream loopback --parallel 2 --length 32KiB --set-mss 1000 --bind 127.0.0.1 --blockcount 9999 --time 1s";
    let words = [words[0], words[1], words[3], words[4], words[6]];
    expect(long, 0, &words);
    expect("stream loopback --bitrate 10M -t 50ms", 0, &["pace fixed:10M"]);
}

#[test]
fn an_amount_ends_a_run_before_its_time() {
    for (line, calls, bytes) in [
        ("stream loopback --transport udp --payload 100 --count 500", 500..=500, 50_000..=50_000),
        (
            "stream loopback --transport udp --path gso --payload 1000 -k 500",
            500..=600,
            500_000..=600_000,
        ),
        (
            "stream loopback --payload 64KiB --bytes 256MiB",
            4_096..=40_000,
            256 << 20..=(256 << 20) + (64 << 10),
        ),
        (
            "stream loopback --reverse --flows 3 --payload 64KiB -n 256MiB",
            4_096..=60_000,
            256 << 20..=257 << 20,
        ),
        ("rr loopback --count 70", 70..=70, 4_480..=4_480),
        ("rr loopback --transport udp --count 70 --payload 10", 70..=70, 700..=700),
        ("rr loopback --flows 5 --count 70", 70..=70, 4_480..=4_480),
        ("crr loopback --count 9", 9..=9, 576..=576),
        ("rr loopback --transport quic --flows 3 --count 70", 70..=72, 4_480..=4_608),
        ("rr loopback --path io-uring --flows 3 --count 70", 70..=72, 4_480..=4_608),
        (
            "stream loopback --transport quic --payload 64KiB -n 64MiB",
            1_024..=9_000,
            64 << 20..=65 << 20,
        ),
        (
            "stream loopback --path io-uring --payload 4KiB -n 64MiB",
            1..=39_999,
            64 << 20..=65 << 20,
        ),
        ("ping-pong loopback --pace fixed:10000/s --count 9", 9..=9, 576..=576),
    ] {
        let answer = json(&format!("{line} --warm-up 0s"));
        let record = completed(&answer);
        assert_eq!(record["outcome"]["kind"], "completed", "{line}: {}", record["outcome"]);
        let sent = &record["flows"][0]["sent"];
        let (sent_calls, sent_bytes) = (sent["calls"].as_u64(), sent["bytes"].as_u64());
        assert!(calls.contains(&sent_calls.unwrap()), "{line}: {sent}");
        assert!(bytes.contains(&sent_bytes.unwrap()), "{line}: {sent}");
    }
    expect("rr loopback --count 3", 0, &["ends after 3 payloads", "at most 3600s"]);
    let hint = ["64 bytes arrived in too short a time", "a larger amount"];
    expect("stream loopback --payload 64 --count 1 --warm-up 0s", 67, &hint);
    expect("rr loopback --count 0", 64, &["use a number of at least 1"]);
    expect("stream loopback --probe -n 1MiB", 64, &["a probe needs a load that ends by"]);
}

#[test]
fn what_is_omitted_does_not_count_and_is_added_to_the_run() {
    for pattern in ["stream", "rr", "crr", "burst", "rr --pace fixed:2000/s"] {
        let (pattern, rest) = pattern.split_once(' ').unwrap_or((pattern, ""));
        let line = format!("{pattern} loopback {rest} -O 200ms -t 500ms --warm-up 0s");
        let answer = json(&line);
        let flow = &answer["records"][0]["flows"][0];
        let counting = if pattern == "stream" { &flow["received"] } else { &flow["sent"] };
        let count = |name: &str| counting[name].as_u64().unwrap();
        assert!(count("ramp_calls") > 0 && count("ramp_bytes") > 0, "{line}: {counting}");
        assert!(count("calls") > count("ramp_calls"), "{line}: {counting}");
        if pattern != "stream" {
            let round_trips = flow["rtt_ns"]["count"].as_u64();
            let counted = count("calls") - count("ramp_calls");
            assert!(round_trips.is_none_or(|n| n == counted), "{line}: {counting}");
        }
    }
    expect("rr loopback -O 10ms -t 10ms", 0, &["duration 10ms", "omitted 10ms"]);
}

#[test]
fn an_open_loop_counts_the_silence_of_its_schedule() {
    let figure = |line: &str, name: &str| {
        let answer = json(&format!("{line} --warm-up 0s"));
        let record = completed(&answer);
        assert_eq!(record["outcome"]["kind"], "completed", "{line}: {}", record["outcome"]);
        record["figures"][name]["value"].as_f64().unwrap()
    };
    // Three bursts of 64 datagrams in 600 ms of the schedule, that take a few milliseconds each.
    let line = "stream loopback --transport udp --payload 1000 --pace burst:64KB/200ms -t 500ms";
    assert_eq!(figure(line, "goodput_bps"), 2.56e6);
    assert_eq!(figure(line, "sent_bps"), 2.56e6);
    assert_eq!(figure(line, "payloads_per_s"), 320.0);
    let line = "rr loopback --pace fixed:1/s -t 500ms";
    assert_eq!(figure(line, "transactions_per_s"), 1.0);
}

#[test]
fn intervals_are_told_while_a_run_lasts() {
    let line = "stream loopback -t 1s --interval 20ms";
    let text =
        expect(line, 0, &["0.00 to", "payloads/s", "retransmits", "srtt", "cwnd", "goodput"]);
    let told = text.lines().filter(|line| line.contains(" to ") && line.contains("payloads/s"));
    // Of 50 at least half: an interval is longer than asked for if the process had to wait for its CPU.
    assert!(told.count() >= 25, "{text}");
    let output = measure(&format!("{line} --json"));
    let lines = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let lines: Vec<Value> = lines.map(Result::unwrap).collect();
    let (last, intervals) = lines.split_last().unwrap();
    let schema = Published::named("interval");
    intervals.iter().for_each(|told| schema.holds(told));
    let bytes = |end: &str| -> u64 {
        let told = intervals.iter().filter(|told| told["end"] == end);
        told.map(|told| told["interval"]["bytes"].as_u64().unwrap()).sum()
    };
    let flow = &last["records"][0]["flows"][0];
    for end in ["client", "server"] {
        let told: Vec<&Value> = intervals.iter().filter(|told| told["end"] == end).collect();
        let times: Vec<[u64; 2]> = told
            .iter()
            .map(|told| ["start_ns", "end_ns"].map(|at| told["interval"][at].as_u64().unwrap()))
            .collect();
        assert!(
            times[0][0] == 0 && times.windows(2).all(|two| two[0][1] == two[1][0]),
            "{times:?}"
        );
        // The clock of the run is the client's; the series of the server may begin later.
        assert!(end == "server" || times.last().unwrap()[1] >= 1_000_000_000, "{times:?}");
    }
    assert_eq!(bytes("client"), flow["sent"]["bytes"].as_u64().unwrap());
    assert_eq!(bytes("server"), flow["received"]["bytes"].as_u64().unwrap());
    expect("stream loopback -t 1s --interval 1us", 64, &["an interval of 1us is out of range"]);
}

#[test]
fn settings_are_run_in_turn_and_judged_against_the_first() {
    let line = "rr loopback --transport tcp -t 200ms --runs 4 --warm-up 0s \
                --vs payload=64 --vs payload=1048576";
    let answer = json(line);
    let records = answer["records"].as_array().unwrap();
    let blocks: Vec<u64> = records.iter().map(|r| r["place"]["block"].as_u64().unwrap()).collect();
    // Both settings occur in each block, however many blocks there are: an invalid run is repeated.
    let expected: Vec<u64> = (0..records.len() as u64 / 2).flat_map(|block| [block; 2]).collect();
    assert!(blocks == expected && blocks.len() >= 8, "{blocks:?}");
    Published::named("measure").holds(&answer);
    // The payload is 16,384 times larger: slower even on a busy machine.
    assert_eq!(answer["settings"][1]["change"]["verdict"], "slower");
    assert!(answer["settings"][0]["change"].is_null());
    expect(line, 0, &["against payload=64", "payload=1048576", "slower"]);
}

#[test]
fn settings_take_turns_in_slices_unless_the_length_of_a_run_is_said() {
    let settings = "rr loopback --vs payload=64 --vs payload=16KiB --runs 3";
    for (more, slice_ns, duration_ns) in
        [("", Some(1_000_000), 120_000_000), (" -t 50ms", None, 50_000_000)]
    {
        let answer = json(&format!("{settings}{more}"));
        let runs = answer["records"].as_array().unwrap();
        assert!(runs.len() >= 6, "{answer}");
        for run in runs {
            assert_eq!(run["slice_ns"].as_u64(), slice_ns, "{run}");
            assert_eq!(run["duration_ns"], duration_ns, "{run}");
        }
    }
}

#[test]
fn a_threshold_decides_the_exit_code() {
    let line = "ping-pong loopback -t 50ms --warm-up 0s";
    expect(&format!("{line} --require rtt<=10s"), 0, &["rtt<=10s: kept"]);
    expect(&format!("{line} --require rtt<=1ns"), 1, &["rtt<=1ns: missed"]);
    let too_few = "rtt-p99<=10s: inconclusive: 2 runs of the 6 that an interval needs";
    expect(&format!("{line} --runs 2 --require rtt-p99<=10s"), 2, &[too_few]);
}

#[test]
fn an_interrupt_of_a_single_run_prints_what_was_measured_until_then() {
    // The first 5 % of a stream, 0.5 s, are not counted, nor the time until TCP has left loss recovery: a run whose count
    // is shorter than a quarter of it is invalid.
    for line in [
        "stream loopback -t 10s -i 100ms",
        "rr loopback -t 10s -i 100ms",
        "stream loopback -t 10s -i 100ms -R",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
        command.arg("measure").args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        (0..20).for_each(|_| assert_ne!(told.read_line(&mut text).unwrap(), 0));
        let id = Pid::from_raw(child.id().cast_signed()).unwrap();
        // A wrapper may forward the signal that the process group has got already.
        (0..2).for_each(|_| kill_process(id, Signal::INT).unwrap());
        told.read_to_string(&mut text).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{said}{text}");
        assert!(said.contains("the results so far are above"), "{said}");
        assert!(text.contains("goodput") || text.contains("mean RTT"), "{text}");
    }
}

/// A child of any thread of a process.
fn child_of(id: u32) -> Pid {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let lists =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap());
    let all = lists.collect::<String>();
    Pid::from_raw(all.split_whitespace().next().unwrap().parse().unwrap()).unwrap()
}

#[test]
fn the_runs_before_an_error_are_printed_with_it() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
    command.args("measure rr loopback -t 100ms --warm-up 0s --runs 40 -i 50ms".split(' '));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    (0..12).for_each(|_| assert_ne!(told.read_line(&mut text).unwrap(), 0));
    kill_process(child_of(child.id()), Signal::KILL).unwrap();
    told.read_to_string(&mut text).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(67), "{said}{text}");
    for part in ["killed by signal 9", "the results so far are above"] {
        assert!(said.contains(part), "no {part}: {said}");
    }
    assert!(text.contains("transactions/s") && text.contains("mean RTT"), "{text}");
}

#[test]
fn datagrams_are_told_with_their_loss_jitter_and_order() {
    let said = expect(
        "stream loopback --transport udp -b 20M -t 300ms -i 100ms",
        0,
        &["loss 0", "reordered datagrams 0 in 1 run", "duplicate datagrams 0 in 1 run"],
    );
    let intervals: Vec<&str> = said.lines().filter(|line| line.contains("lost 0 of ")).collect();
    assert!(intervals.len() >= 2, "{said}");
    assert!(intervals.iter().all(|line| line.contains("jitter")), "{said}");
    assert!(said.lines().any(|line| line.starts_with("jitter")), "{said}");
    expect("stream loopback --transport udp -b 20M -t 300ms --require loss<=1%", 0, &["loss<=1%"]);
    let each = ["fairness (Jain's index)", "flow 1 ", "flow 4 ", "% of all"];
    expect("stream loopback --flows 4 -t 200ms", 0, &each);
    expect("rr loopback --flows 2 -t 200ms", 0, &["flow 2 "]);
    let line = "stream loopback --transport udp --dscp EF -b 20M -t 100ms";
    expect(line, 0, &["dscp 46"]);
}

#[test]
fn a_buffer_that_is_not_granted_whole_is_a_note_with_the_limit() {
    // The error for an unprivileged user (socket(7)).
    let forced = |option| (libc::SYS_setsockopt, vec![(1, libc::SOL_SOCKET), (2, option)]);
    let forced = [forced(libc::SO_RCVBUFFORCE), forced(libc::SO_SNDBUFFORCE)];
    let line = "stream loopback --transport udp --window 1GiB -t 50ms";
    let output = refusing(&forced, libc::EPERM, line);
    let fragments = [
        "a receive buffer of 1073741824 bytes, got",
        "raise net.core.rmem_max",
        "a send buffer of 1073741824 bytes, got",
        "raise net.core.wmem_max",
    ];
    says(&output, 0, &fragments);
}

#[test]
fn a_level_that_cannot_be_run_is_shown_with_its_reason_beside_the_others() {
    let line = "stream loopback --vs congestion=cubic --vs congestion=warp --vs congestion=reno \
                -t 50ms --runs 2";
    let text = expect(
        line,
        67,
        &["no valid run of congestion=warp", "cannot use congestion control warp", "1 skipped"],
    );
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    assert!(row("congestion=warp").contains("skipped:"), "{text}");
    for name in ["congestion=cubic", "congestion=reno"] {
        assert!(row(name).contains('±'), "{text}");
    }
}

#[test]
fn a_level_that_fails_three_times_in_a_row_is_not_run_any_more_and_the_others_are() {
    // An IPv6 address has 28 bytes (ipv6(7)).
    let connect = [(libc::SYS_connect, vec![(2, 28)])];
    let line = "stream loopback --vs family=4 --vs family=6 -t 50ms --runs 6 --json";
    let output = refusing(&connect, libc::ECONNREFUSED, line);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(67), "{answer}");
    let outcomes = |family: u64| -> Vec<&str> {
        let runs = answer["records"].as_array().unwrap().iter();
        let own = runs.filter(|run| run["point"]["family"] == family);
        own.map(|run| run["outcome"]["kind"].as_str().unwrap()).collect()
    };
    // A run that the machine disturbed is repeated.
    let completed = outcomes(4).into_iter().filter(|&outcome| outcome == "completed");
    assert_eq!(completed.count(), 6, "{answer}");
    assert_eq!(outcomes(6), ["invalid", "invalid", "skipped"], "{answer}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("3 runs in a row gave no result") && message.contains("refused"));
}

#[test]
fn over_null_an_open_loop_has_the_senders_figure_and_ping_ping_is_refused() {
    let answer = json("stream loopback --transport null --pace fixed:1000/s -t 100ms");
    let record = &answer["records"][0];
    assert_eq!(record["outcome"]["kind"], "completed", "{record}");
    assert_eq!(record["figures"]["goodput_bps"], Value::Null);
    assert!(record["figures"]["sent_bps"]["value"].as_f64().unwrap() > 0.0, "{record}");
    expect(
        "ping-ping loopback --transport null -t 50ms",
        64,
        &["ping-ping is not supported with null"],
    );
}

#[test]
fn retransmitted_segments_are_printed_once_and_say_of_which_runs() {
    for (pattern, said) in [("stream", "a run"), ("stream --bidir", "a run"), ("rr", "in 2 runs")] {
        let line = format!("{pattern} loopback -t 50ms --runs 2");
        let text = expect(&line, 0, &[]);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("retransmit")).collect();
        assert!(matches!(lines.as_slice(), [line] if line.contains(said)), "{text}");
    }
}

#[test]
fn the_retransmitted_segments_of_a_stream_both_ways_are_those_of_both_directions() {
    let answer = json("stream loopback --bidir --flows 8 -t 200ms");
    let record = &answer["records"][0];
    let flows = record["flows"].as_array().unwrap();
    let sum: f64 = flows.iter().map(|flow| flow["tcp"]["retransmitted"].as_f64().unwrap()).sum();
    assert_eq!(record["figures"]["retransmitted_segments"]["value"], sum, "{answer}");
}

#[test]
fn the_links_of_a_topology_are_those_of_its_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/labs/dumbbell.toml");
    for options in ["--rtt 5ms", "--emulate loss=1%", "--vs rtt=5ms --vs rtt=9ms"] {
        let line = format!("stream lab:{file}:client1,server1 {options}");
        expect(&line, 64, &["cannot be set with a topology file: set it in the file"]);
    }
    let nobody = format!("stream lab:{file}:client1,nobody");
    expect(&nobody, 64, &["no path from `client1` to `nobody`"]);
}
