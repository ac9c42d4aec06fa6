//! `fabricmark lab calibrate`: the emulator measures its own accuracy.

use std::fs;
use std::process::{Child, Command, Stdio};

use fabricmark_record::{Calibration, Outcome, Quantity, Record};
use fabricmark_store::Store;
use serde_json::Value;

use crate::support::{Bench, bench, expect, program, signal, stderr, stdout, wait_until};

impl Bench {
    /// A short calibration with its state in this bench's folder.
    fn calibrate(&self) -> Child {
        let mut command = Command::new(program());
        command.args(["lab", "calibrate", "--quick", "--json"]).current_dir(self.folder.path());
        command.env("XDG_STATE_HOME", self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// A command with its state in this bench's folder.
    fn command_at_home(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).env("XDG_STATE_HOME", self.folder.path());
        command
    }

    /// The records of calibrations, one list per experiment.
    fn calibrating(&self) -> Vec<Vec<Record>> {
        let file = self.folder.path().join("fabricmark/calibration.sqlite");
        let records = || -> Option<Vec<Vec<Record>>> {
            let store = Store::open_existing(&file).ok()?;
            let all = store.experiments().ok()?;
            all.iter().map(|experiment| store.records(experiment).ok()).collect()
        };
        records().unwrap_or_default()
    }
}

const PLAN: &str = r#"
title = "test"
[factors]
link = ["ethernet:100M", "ethernet:2.5G"]
[settings]
pattern = "stream"
transport = "tcp"
family = 6
payload = 1428
congestion = "cubic"
rtt = "0ms"
[run]
duration = "50ms"
warm_up = "10ms"
[stop]
runs = 2
"#;

#[test]
fn a_calibration_goes_on_where_it_was_and_is_what_later_runs_carry() {
    let Some(bench) = bench("lab calibrate") else { return };
    let first = bench.calibrate();
    wait_until(|| bench.calibrating().iter().flatten().count() >= 2);
    signal(first.id(), "INT");
    let output = first.wait_with_output().unwrap();
    expect(&output, 130, &["are stored; run the same command to continue"]);
    let before = bench.calibrating()[0].clone();

    let output = bench.calibrate().wait_with_output().unwrap();
    expect(&output, 0, &["8 of 8", "saved in"]);
    let all = bench.calibrating();
    assert_eq!(all.len(), 8, "an experiment for each plan");
    assert_eq!(all[0][..before.len()], before);

    let calibration: Calibration = serde_json::from_str(&stdout(&output)).unwrap();
    let file = bench.folder.path().join("fabricmark/calibration.json");
    let kept: Calibration = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(kept, calibration);
    let count = |what| calibration.rows.iter().filter(|row| row.what == what).count();
    for (what, rows) in [
        (Quantity::HostTime, 1),
        (Quantity::Delay, 2),
        (Quantity::DelayP99, 1),
        (Quantity::LateP99, 1),
        (Quantity::LoadedDelayP99, 1),
        (Quantity::LoadedLateP99, 1),
        (Quantity::LoadedRate, 1),
        (Quantity::Rate, 7),
        (Quantity::Loss, 2),
        (Quantity::Jitter, 1),
        (Quantity::HighestRate, 2),
    ] {
        assert_eq!(count(what), rows, "{what}");
    }
    for row in &calibration.rows {
        assert!(row.delivered.is_finite() && !row.words.is_empty(), "{row:?}");
        let is_judged =
            !matches!(row.what, Quantity::HostTime | Quantity::LoadedRate | Quantity::HighestRate);
        assert_eq!(row.holds.is_some(), is_judged, "{row:?}");
    }

    let busy = calibration.busy_share.unwrap();
    assert!((0.0..=1.0).contains(&busy), "{busy}");
    let doctor = bench.command_at_home(&["doctor"]).output().unwrap();
    let said = format!("calibrated {}", calibration.at);
    for words in ["Link emulator", &said, "delay within"] {
        assert!(stdout(&doctor).contains(words), "no {words} in {}", stdout(&doctor));
    }

    // A known limit must not forbid a plan, whatever this machine achieves.
    let known = Calibration { true_rate_bps: Some(1e9), ..calibration };
    fs::write(&file, serde_json::to_vec(&known).unwrap()).unwrap();
    let plan = bench.plan(PLAN);
    let output = bench.run(&["run", plan.to_str().unwrap()]);
    expect(&output, 0, &[]);
    let text = stdout(&output);
    assert!(text.contains("emulated by fabricmark: accurate up to 1 Gbit/s"), "{text}");
    let records = bench.records();
    let skipped = |record: &&Record| matches!(record.outcome, Outcome::Skipped(_));
    assert_eq!(records.iter().find(skipped), None);
    let fast = |record: &&Record| record.point.link == "ethernet:2.5G".parse().unwrap();
    assert!(records.iter().filter(fast).count() >= 3, "{}", stderr(&output));
    let carried = records.iter().filter_map(|run| run.emulation.as_ref());
    assert!(carried.clone().count() > 0);
    assert!(carried.clone().all(|run| run.calibration == Some(known.in_short())));
    let line = "measure stream lab:ethernet:2.5G --rtt 0ms -t 50ms --payload 1428 --json";
    let words: Vec<&str> = line.split(' ').collect();
    let measured = bench.command_at_home(&words).output().unwrap();
    let answer: Value = serde_json::from_slice(&measured.stdout).unwrap();
    let run = &answer["records"][0];
    assert_ne!(run["outcome"]["kind"], "skipped", "{answer}");
    assert_eq!(run["emulation"]["calibration"]["true_rate_bps"], 1e9, "{answer}");
}
