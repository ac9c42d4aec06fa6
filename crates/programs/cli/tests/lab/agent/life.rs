//! Sharing, stopping and restarting of agents.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use super::{Agent, Keys};
use crate::support::{PLAN, bench, expect, program, signal, stderr, stdout, wait_until};

#[test]
fn with_exclusive_the_second_client_waits_and_is_told_its_place() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &["--exclusive"]);
    let at = agent.address.to_string();
    let words = ["measure", "ping-pong", &at, "-t", "2s", "--warm-up", "0s"];
    let first = keys.command(&words).spawn().unwrap();
    agent.wait_for_workers(1);
    let words = ["measure", "ping-pong", &at, "-t", "100ms", "--warm-up", "0s"];
    let second = keys.command(&words).output().unwrap();
    expect(&second, 0, &["the agent is busy with other runs: position 1 in its queue"]);
    let first: Output = first.wait_with_output().unwrap();
    expect(&first, 0, &[]);
    assert!(!stderr(&first).contains("queue"));
    agent.ends_well();
}

#[test]
fn a_run_beyond_the_quota_is_refused_with_the_quota() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &["--flows", "4", "--rate", "10M", "--duration", "1s"]);
    let at = agent.address.to_string();
    for (words, says) in [
        (vec!["-P", "5"], "the agent allows 4 flows, but the run has 5"),
        (
            vec!["-t", "2s", "-b", "1M", "-l", "1KiB"],
            "the agent allows runs of 1s, but this one takes 2s: use a \
                                        shorter duration",
        ),
        (vec!["-t", "100ms"], "the agent allows a rate of 10M, but the run has no rate"),
        (
            vec!["-t", "100ms", "-b", "11M"],
            "the agent allows a rate of 10M, but the run has 11M: \
                                            use a lower rate",
        ),
        (
            vec!["-t", "1s", "-b", "1M", "-l", "128KiB", "--warm-up", "100ms"],
            "131072 B take longer than the run or warm-up, here 100ms: use smaller payloads",
        ),
    ] {
        let mut command = keys.command(&["measure", "stream", &at]);
        expect(&command.args(words).output().unwrap(), 66, &[says]);
    }
    let words = ["measure", "stream", &at, "-t", "100ms", "-b", "9M", "-P", "4", "-l", "1KiB"];
    expect(&keys.command(&words).output().unwrap(), 0, &[]);
    agent.ends_well();
}

#[test]
fn a_polite_stop_lets_the_run_under_way_end() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    let words = ["measure", "ping-pong", &at, "-t", "1s", "--warm-up", "0s"];
    let client = keys.command(&words).spawn().unwrap();
    agent.wait_for_workers(1);
    agent.ends_well();
    expect(&client.wait_with_output().unwrap(), 0, &[]);
}

/// As an upgrade of the package does, which replaces the file of a running agent.
#[test]
fn an_agent_whose_program_was_replaced_starts_workers_of_its_own_version() {
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    let installed = folder.path().join("fabricmark");
    assert!(Command::new("cp").arg(program()).arg(&installed).status().unwrap().success());
    let mut command = Command::new(&installed);
    command.args(["agent", "--listen", "127.0.0.1:0"]).env("FABRICMARK_KEY_FILE", keys.file());
    command.stderr(Stdio::piped());
    let agent = Agent::start_by(command);
    let other = folder.path().join("other");
    fs::write(&other, "#!/bin/sh\nexit 1\n").unwrap();
    fs::rename(&other, &installed).unwrap();
    let at = agent.address.to_string();
    let words = ["measure", "ping-pong", &at, "-t", "500ms", "--warm-up", "0s"];
    let client = keys.command(&words).spawn().unwrap();
    agent.wait_for_workers(1);
    let worker = format!("/proc/{}", agent.workers()[0]);
    let line = format!("{}\0worker\0", installed.display());
    wait_until(|| fs::read_to_string(format!("{worker}/cmdline")).unwrap() == line);
    wait_until(|| fs::read_to_string(format!("{worker}/comm")).unwrap().trim() == "fabricmark");
    expect(&client.wait_with_output().unwrap(), 0, &[]);
    agent.ends_well();
}

#[test]
fn a_run_that_is_lost_with_its_agent_is_repeated_and_listed() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    let words = ["measure", "ping-pong", &at, "-t", "1s", "--warm-up", "0s", "--runs", "2"];
    let mut client = keys.command(&words).spawn().unwrap();
    let mut told = BufReader::new(client.stderr.take().unwrap()).lines().map(Result::unwrap);
    agent.wait_for_workers(1);
    signal(agent.id(), "KILL");
    drop(agent);
    // Before another agent is there.
    let lost = "this run is lost; trying to connect again for up to 30 s";
    assert!(told.any(|line| line.contains(lost)));
    let agent = Agent::start_at(&at, &keys, &[], None);
    told.for_each(drop);
    let output = client.wait_with_output().unwrap();
    expect(&output, 0, &[]);
    let shown = stdout(&output);
    let invalid = shown.lines().find(|line| line.starts_with("invalid")).unwrap_or_default();
    let words: Vec<&str> = invalid.split_whitespace().collect();
    assert_eq!(words[..5], ["invalid", "1", "of", "3", "runs"], "{shown}");
    assert!(invalid.contains("the agent at"), "{shown}");
    agent.ends_well();
}

#[test]
fn a_plan_goes_on_when_its_agent_was_killed_and_started_anew() {
    let Some(bench) = bench("a_plan_goes_on_when_its_agent_was_killed_and_started_anew") else {
        return;
    };
    let keys = Keys::more();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    let plan = bench.plan(&PLAN.replace("duration = \"30ms\"", "duration = \"100ms\""));
    let words = ["run", plan.to_str().unwrap(), "--to", &at, "--link", "loopback"];
    let mut command = bench.command(&words);
    command.env("FABRICMARK_KEY_FILE", keys.file()).stderr(Stdio::piped());
    let mut client = command.spawn().unwrap();
    bench.wait_for_records(&mut client, 4);
    signal(agent.id(), "KILL");
    drop(agent);
    let agent = Agent::start_at(&at, &keys, &[], None);
    let said = client.wait_with_output().unwrap();
    expect(&said, 0, &["this run is lost; trying to connect again for up to 30 s"]);
    let lost = bench.records().iter().filter(|record| {
        matches!(&record.outcome, fabricmark_record::Outcome::Invalid(why) if why.contains("the agent at"))
    }).count();
    assert!((1..=2).contains(&lost), "{lost}");
    wait_until(|| agent.workers().is_empty());
    agent.ends_well();
}
