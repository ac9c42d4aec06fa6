//! Comparisons whose levels alternate in slices.

use std::collections::BTreeSet;

use fabricmark_plan::{Factor, Figure};
use fabricmark_record::{Outcome, Record};
use fabricmark_units::Nanos;

use crate::support::{Bench, assert_unless_slowed, bench};

/// A plan that compares two levels of a factor, with one counted slice of each in a run, and ends when it is decided.
fn plan(factors: &str, factor: &str, levels: [&str; 2]) -> String {
    let [baseline, candidate] = levels;
    format!(
        "title = 'slices'\n[factors]\n{factors}\n{factor} = ['{baseline}', '{candidate}']\n\
         [run]\nduration = '40ms'\nslices = true\n\
         [stop]\ndecide = true\nruns = {{ min = 3, max = 6 }}\n\
         [[compare]]\nfactor = '{factor}'\nbaseline = '{baseline}'\ncandidate = '{candidate}'\n\
         [[table]]\nfigure = 'goodput'\ncolumns = ['{factor}']\n"
    )
}

/// The blocks in which a level has valid runs.
fn blocks(records: &[Record], has: impl Fn(&Record) -> bool) -> BTreeSet<u32> {
    let counted = records.iter().filter(|record| record.outcome == Outcome::Completed);
    counted.filter(|record| has(record)).map(|record| record.place.block).collect()
}

fn records(bench: &Bench, plan: &str) -> Vec<Record> {
    bench.plan(plan);
    bench.carries_out(&["run", "plan.toml"], &["report.html"]);
    bench.records()
}

#[test]
fn levels_over_two_links_take_turns_and_a_known_difference_is_found() {
    let Some(bench) = bench("slices over two links") else { return };
    let factors = "pattern = 'stream'\ntransport = 'udp'\nfamily = 4\npayload = 1024";
    let plan = plan(factors, "link", ["ethernet:100M", "ethernet:200M"]);
    let records = records(&bench, &plan.replace("'40ms'", "'400ms'"));
    let is_expected = records.iter().all(|record| record.slice_ns == Some(Nanos(47_200_000)));
    let slices: Vec<_> = records.iter().map(|record| record.slice_ns).collect();
    assert_unless_slowed(is_expected, &records, &format!("{slices:?}"));
    let is = |record: &Record, text: &str| record.point.link.to_string().contains(text);
    let of = |text: &str| blocks(&records, |record| is(record, text));
    // Twice the rate is twice the goodput: decided at the first look, unless a run is invalid.
    let blocks = &of("100M") & &of("200M");
    assert_unless_slowed(blocks.len() >= 3, &records, &format!("valid in {blocks:?}"));
    let text = String::from_utf8(bench.run(&["report", "plan-1"]).stdout).unwrap();
    assert_unless_slowed(text.contains("faster"), &records, &text);
    let rates = |block: u32, text: &str| {
        let of_block = |record: &&Record| record.place.block == block && is(record, text);
        let record = records.iter().find(of_block).unwrap();
        record.sample(Figure::Goodput).unwrap().slices
    };
    // The pause of a process is in one of many rounds.
    let rounds = blocks.iter().flat_map(|&block| {
        rates(block, "100M").into_iter().zip(rates(block, "200M")).map(|(one, two)| two / one)
    });
    let mut ratios: Vec<f64> = rounds.collect();
    ratios.sort_unstable_by(f64::total_cmp);
    // Runs that were carried out whole have no slices.
    let Some(&median) = ratios.get(ratios.len() / 2) else {
        return assert_unless_slowed(false, &records, "no rounds");
    };
    // A sender does not fill the faster link while it waits for its CPU.
    let flows = records.iter().flat_map(|record| &record.flows);
    let threads = flows.flat_map(|flow| [flow.sent_thread, flow.received_thread]).flatten();
    let (waited_ns, all_ns) = threads.fold((0, 0), |(waited_ns, all_ns), thread| {
        (waited_ns + thread.run_delay_ns.unwrap_or(0), all_ns + thread.elapsed_ns)
    });
    let least = 1.96 - 2.0 * waited_ns as f64 / all_ns as f64;
    let told = format!("{ratios:?}, at least {least}");
    assert!(median < 2.04, "{told}");
    assert_unless_slowed(median >= least, &records, &told);
}

#[test]
fn a_level_that_cannot_be_run_leaves_the_other_to_be_measured() {
    let Some(bench) = bench("slices beside a failure") else { return };
    let factors =
        "pattern = 'stream'\ntransport = 'tcp'\nfamily = 4\npayload = 1024\nlink = 'veth'";
    let records = records(&bench, &plan(factors, "congestion", ["cubic", "warp"]));
    let is = |record: &Record, name: &str| record.point.has(Factor::Congestion, name);
    assert!(blocks(&records, |record| is(record, "warp")).is_empty());
    assert_eq!(blocks(&records, |record| is(record, "cubic")).first(), Some(&0));
    let mut refused = records.iter().filter(|record| is(record, "warp"));
    assert!(
        refused
            .any(|record| matches!(&record.outcome, Outcome::Skipped(why) if why.contains("warp")))
    );
}

#[test]
fn a_budget_ends_a_run_and_the_same_command_continues_it() {
    let Some(bench) = bench("a budget of slices") else { return };
    let factors = "pattern = 'ping-pong'\ntransport = 'tcp'\npayload = 64\nlink = 'veth'\ncongestion = 'cubic'";
    let plan =
        plan(factors, "family", ["4", "6"]).replace("min = 3, max = 6", "min = 64, max = 64");
    bench.plan(&plan.replace("goodput", "half-rtt").replace("'4'", "4").replace("'6'", "6"));
    let run = || {
        let output = bench.carries_out(&["run", "plan.toml", "--budget", "1s"], &["report.html"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("1 comparison is undecided; run the same command, without --fresh"),
            "{text}"
        );
        blocks(&bench.records(), |_| true)
    };
    let (first, second) = (run(), run());
    assert!(first.len() < 64 && first.is_subset(&second) && second.len() > first.len());
}

#[test]
fn a_path_whose_rtt_is_too_long_is_compared_in_whole_runs() {
    let Some(bench) = bench("a path of a topology") else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/labs/dumbbell.toml");
    let line =
        format!("ping-pong lab:{file}:client1,server2 --vs payload=64 --vs payload=128 --runs 2");
    let measured = bench.measure(&line);
    let records = measured["records"].as_array().unwrap().iter();
    let durations: BTreeSet<u64> = records
        .filter(|record| record["place"]["warm_up"] == false)
        .map(|record| record["duration_ns"].as_u64().unwrap())
        .collect();
    // Slices would last 120 ms in all, and whole runs in place of slices 1 s.
    assert_eq!(durations, BTreeSet::from([2_000_000_000]));
}
