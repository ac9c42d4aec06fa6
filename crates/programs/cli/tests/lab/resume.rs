//! Finished runs are never lost, and an interrupted experiment continues in the same order.

use std::fs;
use std::path::Path;

use fabricmark_plan::{Outcome as RunOutcome, Outcomes, Size, block, parse};
use fabricmark_record::Outcome;

use crate::support::{Bench, PLAN, POINTS, bench, expect, signal, stderr, stdout};

/// Asserts that the records are in the order of an uninterrupted experiment with this plan.
fn assert_in_order(bench: &Bench, plan: &str) {
    let plan = parse("plan.toml", plan, Size::Full, &[]).unwrap();
    let records = bench.records();
    let mut outcomes = Outcomes::default();
    let mut expected = Vec::new();
    for number in 0.. {
        let steps = block(&plan, number, &outcomes);
        if steps.is_empty() {
            break;
        }
        for step in steps {
            expected.push((step.block, step.place, step.points[0] as u32, step.warm_up));
        }
        for record in records.iter().filter(|r| r.place.block == number && !r.place.warm_up) {
            let (point, value) = (record.place.point as usize, record.deciding_sample());
            match record.outcome {
                Outcome::Skipped(_) => outcomes.skip(number, point),
                _ => outcomes.add(RunOutcome {
                    block: number,
                    point,
                    value,
                    has_figure: record.measured_value().is_some(),
                    fills_link: true,
                    is_whole: record.slice_ns.is_none(),
                }),
            }
        }
    }
    let found: Vec<_> = records
        .iter()
        .map(|record| &record.place)
        .map(|place| (place.block, place.place, place.point, place.warm_up))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_killed_coordinator_loses_at_most_the_run_in_flight() {
    let Some(bench) = bench("kill -9") else { return };
    bench.plan(PLAN);
    let mut child = bench.start(&["run", "plan.toml"]);
    bench.wait_for_records(&mut child, 5);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = bench.records().len();
    assert!((5..POINTS * 4).contains(&kept));
    bench.carries_out(&["run", "plan.toml"], &["resuming plan-1", "runs of this plan are stored"]);
    assert_in_order(&bench, PLAN);
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_says_how_to_go_on() {
    let Some(bench) = bench("ctrl-c") else { return };
    bench.plan(PLAN);
    let mut child = bench.start(&["run", "plan.toml", "--fresh"]);
    bench.wait_for_records(&mut child, 3);
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let again = "run the same command without --fresh to continue";
    expect(&output, 130, &["interrupted", "are stored", again]);
    bench.carries_out(&["run", "plan.toml"], &["resuming plan-1"]);
    assert_in_order(&bench, PLAN);
}

/// How often a point runs depends on all its values, also on those that an earlier process stored.
#[test]
fn an_adaptive_stopping_rule_goes_on_with_the_values_before_an_interrupt() {
    let Some(bench) = bench("adaptive stopping rule") else { return };
    let plan = PLAN.replace("runs = 3", "runs = { min = 3, max = 6 }");
    bench.plan(&plan);
    let mut child = bench.start(&["run", "plan.toml"]);
    // The second block has begun; the first one has warm-ups. After the third block the rule decides for the first time.
    bench.wait_for_records(&mut child, 2 * POINTS + 1);
    signal(child.id(), "INT");
    expect(&child.wait_with_output().unwrap(), 130, &["are stored"]);
    let stored = bench.records().len();
    assert!(stored < 4 * POINTS, "{stored}: the rule has decided before the interrupt");
    bench.carries_out(&["run", "plan.toml"], &["resuming plan-1"]);
    assert_in_order(&bench, &plan);
}

#[test]
fn a_finished_plan_is_shown_and_measured_anew_only_on_request() {
    let Some(bench) = bench("finished plan") else { return };
    bench.plan(&PLAN.replace("runs = 3", "runs = 2"));
    bench.carries_out(&["run", "plan.toml"], &["plan-1:"]);
    let again = bench.run(&["run", "plan.toml"]);
    let all = format!("already has all {} runs", bench.records().len());
    expect(&again, 0, &[&all, "--fresh"]);
    // Its title is no part of the experiment.
    let titled = PLAN.replace("runs = 3", "runs = 2").replace("\"test\"", "\"Another title\"");
    bench.plan(&titled);
    bench.carries_out(&["run", "plan.toml"], &[&all]);
    let shown = bench.run(&["report", "plan-1"]);
    assert!(stdout(&shown).contains("Another title"), "{}", stderr(&shown));
    bench.carries_out(&["run", "plan.toml", "--fresh"], &["plan-2:"]);
}

/// The store was written by a version with another digest and other names of patterns and keys.
#[test]
fn an_experiment_begun_by_an_earlier_version_goes_on_where_it_was() {
    let Some(bench) = bench("earlier version") else { return };
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores");
    fs::create_dir_all(bench.out()).unwrap();
    fs::copy(stores.join("digest-1.sqlite"), bench.out().join("store.sqlite")).unwrap();
    let text = fs::read_to_string(stores.join("digest-1.toml")).unwrap();
    bench.plan(&text);
    bench.carries_out(&["run", "plan.toml"], &["resuming old-1: 24 runs"]);
    let records = bench.records();
    let plan = parse("plan.toml", &text, Size::Full, &[]).unwrap();
    assert_eq!(records.len(), 32);
    for record in &records {
        assert_eq!(record.point, plan.points[record.place.point as usize]);
    }
    bench.carries_out(&["run", "plan.toml"], &["old-1 already has all 32 runs"]);
}

#[test]
fn a_plan_that_runs_anothers_points_is_not_resumed() {
    let Some(bench) = bench("other plan") else { return };
    bench.plan(&PLAN.replace("runs = 3", "runs = 2"));
    bench.carries_out(&["run", "plan.toml"], &["plan-1:"]);
    bench.plan(&PLAN.replace("runs = 3", "runs = 2").replace("[512]", "[513]"));
    let output = bench.carries_out(&["run", "plan.toml"], &["plan-2:"]);
    assert!(!stderr(&output).contains("resuming"));
}

#[test]
fn two_coordinators_do_not_measure_at_once() {
    let Some(bench) = bench("two coordinators") else { return };
    bench.plan(PLAN);
    let mut child = bench.start(&["run", "plan.toml"]);
    bench.wait_for_records(&mut child, 1);
    expect(&bench.run(&["run", "plan.toml"]), 67, &["another fabricmark", "wait for it"]);
    signal(child.id(), "INT");
    child.wait().unwrap();
}
