//! `fabricmark lab calibrate`: the emulator measures its own accuracy.

use std::fs;
use std::process::{Child, Command, Stdio};

use fabricmark_plan::Figure;
use fabricmark_record::{Calibration, CalibrationRow, Outcome, Quantity, Record, THE_EMULATOR};
use fabricmark_stats::THROUGHPUT_TIE;
use fabricmark_store::Store;
use serde_json::Value;

use crate::support::{Bench, bench, expect, program, signal, skip, stderr, stdout, wait_until};

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

/// The second link is faster than any that a short calibration tries.
const PLAN: &str = r#"
title = "test"
[factors]
link = ["ethernet:100M", "ethernet:20G"]
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
        assert!(row.delivered.is_finite() && !row.options.is_empty(), "{row:?}");
        let is_judged =
            !matches!(row.what, Quantity::HostTime | Quantity::LoadedRate | Quantity::HighestRate);
        assert_eq!(row.holds.is_some(), is_judged, "{row:?}");
        assert_measured(row, &calibration, &all.concat());
    }

    let busy = calibration.busy_share.unwrap();
    assert!((0.0..=1.0).contains(&busy), "{busy}");
    let doctor = bench.command_at_home(&["doctor"]).output().unwrap();
    let said = format!("calibrated {}", calibration.at);
    for words in ["Link emulator", &said, "delay within"] {
        assert!(stdout(&doctor).contains(words), "no {words} in {}", stdout(&doctor));
    }

    // The limit must not forbid a plan.
    let plan = bench.plan(PLAN);
    let output = bench.run(&["run", plan.to_str().unwrap()]);
    expect(&output, 0, &[]);
    let text = stdout(&output);
    let up_to = calibration.true_rate_bps.map_or("at no tested rate".to_owned(), |bps| match bps {
        1e9.. => format!("up to {} Gbit/s", bps / 1e9),
        _ => format!("up to {} Mbit/s", bps / 1e6),
    });
    let emulator = format!("emulated by fabricmark: accurate {up_to} (");
    assert!(text.contains(&emulator), "no {emulator:?} in {text}");
    let records = bench.records();
    let skipped = |record: &&Record| matches!(record.outcome, Outcome::Skipped(_));
    assert_eq!(records.iter().find(skipped), None);
    let fast = |record: &&Record| record.point.link == "ethernet:20G".parse().unwrap();
    assert!(records.iter().filter(fast).count() >= 3, "{}", stderr(&output));
    let carried = records.iter().filter_map(|run| run.emulation.as_ref());
    assert!(carried.clone().count() > 0);
    assert!(carried.clone().all(|run| run.calibration == Some(calibration.in_short())));
    let line = "measure stream lab:ethernet:20G --rtt 0ms -t 50ms --payload 1428 --json";
    let words: Vec<&str> = line.split(' ').collect();
    let measured = bench.command_at_home(&words).output().unwrap();
    let answer: Value = serde_json::from_slice(&measured.stdout).unwrap();
    let run = &answer["records"][0];
    assert_ne!(run["outcome"]["kind"], "skipped", "{answer}");
    let short = serde_json::to_value(calibration.in_short()).unwrap();
    assert_eq!(run["emulation"]["calibration"], short, "{answer}");
}

/// The value that a row summarises, in each of its runs.
fn values(row: &CalibrationRow, records: &[Record]) -> Vec<f64> {
    let value = |run: &Record| {
        let emulation = run.emulation.as_ref()?;
        let is_of_row = emulation.options == row.options && emulation.offloaded == row.offloaded;
        let counts = match &run.outcome {
            Outcome::Completed => !run.place.warm_up,
            Outcome::Invalid(reason) => !run.place.warm_up && reason.starts_with(THE_EMULATOR),
            Outcome::Skipped(_) => false,
        };
        if !is_of_row || !counts {
            return None;
        }
        match row.what {
            Quantity::HostTime | Quantity::Delay => run.figures.value(Figure::Rtt),
            Quantity::DelayP99 => run.figures.value(Figure::RttP99),
            Quantity::LoadedDelayP99 => run.figures.value(Figure::LoadedRttP99),
            Quantity::LateP99 | Quantity::LoadedLateP99 => {
                Some(emulation.forward.late_p99_ns.max(emulation.reverse.late_p99_ns)? as f64)
            }
            Quantity::Rate | Quantity::LoadedRate | Quantity::HighestRate => {
                run.figures.value(Figure::Goodput)
            }
            Quantity::Loss => {
                let flow = &run.flows[0];
                Some((flow.drops.lost - flow.drops.socket) as f64 / flow.sent.calls as f64)
            }
            Quantity::Jitter => {
                let rtt_ns = run.flows[0].rtt_ns.as_ref()?.deviation_ns()?;
                Some(rtt_ns / std::f64::consts::SQRT_2)
            }
        }
    };
    records.iter().filter_map(value).collect()
}

/// Asserts that a row is what its runs measured, and that the emulator did what was asked of it, as far as a slow machine
/// can tell.
fn assert_measured(row: &CalibrationRow, calibration: &Calibration, records: &[Record]) {
    let ends = |values: &[f64]| {
        let lowest = values.iter().copied().reduce(f64::min).unwrap();
        (lowest, values.iter().copied().reduce(f64::max).unwrap())
    };
    let runs = values(row, records);
    let (lowest, highest) = ends(&runs);
    let host = calibration.rows.iter().find(|row| row.what == Quantity::HostTime).unwrap();
    // Delays are without the hosts' own time.
    let own_ns = match row.what {
        Quantity::Delay | Quantity::DelayP99 => ends(&values(host, records)),
        _ => (0.0, 0.0),
    };
    let told = format!("{row:?}: {runs:?}");
    let found = row.delivered;
    // A mean of equal values may differ from them in its last digits.
    assert!(found >= (lowest - own_ns.1) * (1.0 - 1e-9), "{told}");
    assert!(found <= (highest - own_ns.0) * (1.0 + 1e-9), "{told}");
    let asked = row.asked.unwrap_or_default();
    // What a machine whose CPUs are its own does.
    let is_near = match row.what {
        // One stall of a CPU among the 50 round trips of a run is their p99.
        Quantity::DelayP99 => found < 1.5 * asked || row.holds == Some(false),
        Quantity::Delay => found < 1.5 * asked,
        // Any CPU fills a slow link.
        Quantity::Rate => found > 0.9 * asked || asked > 1e8,
        _ => true,
    };
    if !is_near && row.holds == Some(false) && calibration.busy_share > Some(THROUGHPUT_TIE) {
        skip(&row.what.to_string(), "others took this machine's CPUs meanwhile");
    } else {
        assert!(is_near, "{told}");
    }
    match row.what {
        Quantity::Delay | Quantity::DelayP99 | Quantity::LoadedDelayP99 => {
            assert!(lowest >= asked, "{told}");
        }
        Quantity::Rate => assert!(found < 1.002 * asked, "{told}"),
        Quantity::Loss => {
            // 20,000 datagrams/s for 0.5 s in each run, and five standard deviations of their share.
            let deviation = (asked * (1.0 - asked) / 10_000.0 / runs.len() as f64).sqrt();
            assert!((found - asked).abs() < 5.0 * deviation, "{told}");
        }
        // What the machine delays adds to it. 3,000 round trips tell it within 1.3 %.
        Quantity::Jitter => assert!(found > 0.9 * asked, "{told}"),
        _ => {}
    }
}
