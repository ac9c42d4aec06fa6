//! Groups of flows that run at once over links of the emulator.

use std::collections::BTreeMap;
use std::fs;

use fabricmark_plan::Figure;
use fabricmark_record::{Interval, Record};
use fabricmark_tcpsim::{Windowed, shares_of_windows};
use fabricmark_units::{Bytes, Nanos};

use crate::support::{assert_unless_slowed, bench, counted, stdout};

/// The shipped plan of three nodes: links of 1G and of 100M with 4 ms, joined by a router, and two groups of flows.
#[test]
fn two_groups_of_flows_run_at_once_over_the_wires_of_a_plan() {
    let Some(bench) = bench("groups of flows") else { return };
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/three-nodes.toml"));
    let plan = text.unwrap().replace("\"2s\"", "\"600ms\"").replace("runs = 6", "runs = 2");
    bench.plan(&plan);
    let output = bench.carries_out(
        &["run", "plan.toml"],
        &["4 points in 1 comparison group", "2 groups of flows at once"],
    );
    let shown = stdout(&output);
    for words in ["bulk", "requests", "the links of the plan"] {
        assert!(shown.contains(words), "no {words} in {shown}");
    }
    let records = bench.records();
    assert_unless_slowed(shown.contains("4 counted (2.4 s)"), &records, &shown);
    for record in counted(&records) {
        let key = record.point.key();
        let names: Vec<_> = record.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["client", "server"], "{key}");
        let [flow] = record.flows.as_slice() else { panic!("one part of {key}") };
        assert_eq!(Some(&flow.group), record.point.group.as_ref());
        match flow.group.as_str() {
            "bulk" => {
                let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
                let share = record.figures.value(Figure::Goodput).unwrap() / bound_bps;
                assert!((94e6..95e6).contains(&bound_bps), "of the slower wire: {bound_bps}");
                assert!(share < 1.0002, "{key}: {share}");
                assert_unless_slowed(share >= 0.7, &records, &format!("{key}: {share}"));
            }
            _ => {
                let floor_ns = record.limits.rtt_floor.as_ref().unwrap().time_ns.as_f64();
                let rtt_ns = record.figures.value(Figure::Rtt).unwrap();
                // 4 ms, and 130 bytes over both links in each direction.
                assert!((4.02e6..4.03e6).contains(&floor_ns), "{floor_ns}");
                // Two thirds of the bulk transfer's 100 packets of 1,514 bytes.
                let told = format!("{key}: {rtt_ns} ns beside a full queue");
                assert_unless_slowed(rtt_ns > floor_ns + 4e6, &records, &told);
            }
        }
    }
    bench.carries_out(&["run", "plan.toml"], &["already has all"]);
}

/// The shipped plan in which one flow joins another, with shorter times.
#[test]
fn groups_that_start_one_after_the_other_count_the_time_in_which_all_run() {
    let Some(bench) = bench("a late group") else { return };
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/late-flow.toml"));
    let plan = text.unwrap().replace("\"3s\"", "\"600ms\"").replace("\"5s\"", "\"1s\"");
    let plan = plan.replace("\"100ms\"", "\"50ms\"").replace("runs = 6", "runs = 2");
    // Unlike BBR, every kernel has it.
    bench.plan(&plan.replace("\"bbr\"", "\"reno\""));
    bench.carries_out(&["run", "plan.toml"], &["2 groups of flows at once"]);
    let records = bench.records();
    let (mut best_alone_share, mut best_shared) = (0.0_f64, 0.0_f64);
    for run in counted(&records).chunks(2) {
        let [early, late] = run else { panic!("two groups in each run") };
        assert_eq!(early.place.block, late.place.block);
        let [ramp, apart] = [late.omit_ns.0, late.start_ns.0];
        assert_eq!((early.start_ns.0, apart), (0, 600_000_000));
        let congestion = [early, late].map(|run| run.point.congestion.as_deref());
        assert_eq!(congestion, [Some("cubic"), Some("reno")]);
        assert_eq!(early.omit_ns.0, apart + ramp);
        let alignment = early.alignment.unwrap();
        assert!(alignment.starts_apart_ns < ramp, "{alignment:?}");
        // The early flow fills the link until the late one starts; what counts is the time of both.
        let bound_bps = early.limits.ceilings[0].goodput_bps.as_f64();
        let series = early.flows[0].received_series.as_ref().unwrap();
        let alone =
            series.intervals.iter().filter(|one| one.start_ns > apart / 2 && one.end_ns < apart);
        let alone_bps: Vec<f64> = alone.filter_map(Interval::rate_bps).collect();
        let alone_bps = alone_bps.iter().sum::<f64>() / alone_bps.len() as f64;
        let both_bps = [early, late].map(|record| record.figures.value(Figure::Goodput).unwrap());
        let late_series = late.flows[0].sent_series.as_ref().unwrap();
        // A blocking write counts once the kernel has taken all of it, an RTT after its first segments have left.
        let has_begun = |one: &&Interval| {
            let tcp = one.tcp.as_ref().unwrap();
            tcp.bytes_sent.unwrap() > tcp.mss_bytes.unwrap()
        };
        let first = late_series.intervals.iter().find(has_begun).unwrap();
        assert!((apart - 50_000_000..apart + 50_000_000).contains(&first.start_ns), "{first:?}");
        let ends = [early, late]
            .map(|run| run.flows[0].sent_series.as_ref().unwrap().intervals.last().unwrap().end_ns);
        assert!(ends[0].abs_diff(ends[1]) < 100_000_000, "{ends:?}");
        assert!(both_bps.iter().sum::<f64>() < 1.05 * bound_bps, "{both_bps:?}");
        best_alone_share = best_alone_share.max(alone_bps / bound_bps);
        best_shared = best_shared.max(both_bps[0] / bound_bps);
    }
    // A pause of an end leaves the link idle while the early flow is alone, or to it while both run.
    let told = format!("{best_shared} beside {best_alone_share} alone");
    assert_unless_slowed(best_shared < 0.95 * best_alone_share, &records, &told);
    assert_unless_slowed(best_alone_share > 0.85, &records, &told);
}

/// No part of this plan says which share each group gets: it follows from windows, RTTs and the queue that they fill.
#[test]
fn groups_with_different_windows_and_rtts_have_the_shares_that_the_model_predicts() {
    let Some(bench) = bench("shares of windows") else { return };
    bench.plan(
        "title = 't'\n[nodes.far]\n[nodes.router]\nforwards = true\n\
         [[wire]]\nbetween = ['client', 'router']\nlink = 'ethernet:1G'\nrtt = '4ms'\n\
         [[wire]]\nbetween = ['far', 'router']\nlink = 'ethernet:1G'\nrtt = '20ms'\n\
         [[wire]]\nbetween = ['router', 'server']\nlink = 'ethernet:25M'\nemulate = 'queue=1000p'\n\
         [[group]]\nname = 'near'\nwindow = '32KiB'\n\
         [[group]]\nname = 'far'\nfrom = 'far'\nwindow = '128KiB'\n\
         [factors]\npattern = 'stream'\ntransport = 'tcp'\npayload = 65536\nfamily = 4\n\
         [settings]\ncongestion = 'cubic'\n[run]\nduration = '5s'\n[stop]\nruns = 2\n",
    );
    bench.carries_out(&["run", "plan.toml"], &[]);
    let windowed =
        |window, rtt_ms| Windowed { window: Bytes(window), rtt: Nanos::from_millis(rtt_ms) };
    // 1,448 bytes of payload in a frame of 1,538.
    let capacity = 25e6 / 8.0 * 1448.0 / 1538.0;
    let rates = shares_of_windows(&[windowed(32 << 10, 4), windowed(128 << 10, 20)], capacity);
    let predicted = rates[0] / (rates[0] + rates[1]);
    assert!((0.25..0.26).contains(&predicted), "{predicted}");
    let records = bench.records();
    let is_near = |record: &&Record| record.point.key().contains("group=near");
    let counted = counted(&records);
    for near in counted.iter().copied().filter(is_near) {
        let is_beside = |record: &&Record| {
            record.place.block == near.place.block && record.point.key().contains("group=far")
        };
        let far = counted.iter().copied().find(is_beside).unwrap();
        let bps = [near, far].map(|record| record.figures.value(Figure::Goodput).unwrap());
        let share = bps[0] / (bps[0] + bps[1]);
        assert!((share / predicted - 1.0).abs() < 0.1, "{share}, predicted {predicted}");
    }
}

/// Two networks of one client, whose bus carries less than both together.
#[test]
fn two_networks_at_once_get_the_bus_of_their_host_and_each_alone_its_own_ceiling() {
    let Some(bench) = bench("two networks at once") else { return };
    bench.plan(
        "title = 't'\n[nodes.client]\nbus = '100M'\n\
         [[wire]]\nname = 'eth'\nbetween = ['client', 'server']\nlink = 'ethernet:1G'\n\
         [[wire]]\nname = 'ib'\nbetween = ['server', 'client']\nlink = 'ipoib:1X-SDR'\n\
         [[group]]\nname = 'ethernet'\nvia = 'eth'\n[[group]]\nname = 'ipoib'\nvia = 'ib'\n[interference]\n\
         [factors]\npattern = 'stream'\ntransport = 'tcp'\nfamily = 4\npayload = '64KiB'\n\
         [settings]\ncongestion = 'cubic'\n[run]\nduration = '500ms'\n[stop]\nruns = 3\n",
    );
    let output = bench.carries_out(&["run", "plan.toml"], &["2 groups of flows at once"]);
    let text = stdout(&output);
    let records = bench.records();
    let holds =
        text.contains("Groups at once") && text.contains("utilisation of the shared host bus: 9");
    assert_unless_slowed(holds, &records, &text);
    // Of each group, alone and together: goodput by block. What is invalid is repeated in a later block.
    let mut runs: BTreeMap<(String, bool), BTreeMap<u32, f64>> = BTreeMap::new();
    for record in counted(&records) {
        let key = record.point.key();
        if let Some(alignment) = record.alignment {
            assert!(alignment.overlap_ns > 450_000_000, "{key}: {alignment:?}");
        }
        let group = record.point.group.clone().unwrap();
        let via = if group == "ipoib" { "ib" } else { "eth" };
        assert_eq!(record.nodes[0].device.as_deref(), Some(via), "{key}");
        let goodput_bps = record.figures.value(Figure::Goodput).unwrap();
        // That of the bus: 100 Mbit/s of packets of 1,500 or 2,044 bytes, less 40 bytes of headers.
        let payload_share = if group == "ipoib" { 2_004.0 / 2_044.0 } else { 1_460.0 / 1_500.0 };
        let bound_bps = record.limits.bound_bps().unwrap();
        assert!((bound_bps / (1e8 * payload_share) - 1.0).abs() < 1e-9, "{key}: {bound_bps}");
        let of_part = runs.entry((group, record.alignment.is_some())).or_default();
        of_part.insert(record.place.block, goodput_bps);
    }
    let of = |group: &str, is_together| &runs[&(group.to_owned(), is_together)];
    assert!(runs.len() == 4 && runs.values().all(|blocks| blocks.len() >= 3), "{runs:?}");
    for group in ["ethernet", "ipoib"] {
        let mut alone_bps: Vec<f64> = of(group, false).values().copied().collect();
        alone_bps.sort_by(f64::total_cmp);
        // With TCP timestamps packets have 52 bytes of headers, and acknowledgements take some of the bus.
        let (median_bps, best_bps) =
            (alone_bps[alone_bps.len() / 2], alone_bps[alone_bps.len() - 1]);
        assert!(median_bps < 0.975e8, "{group}: {runs:?}");
        assert_unless_slowed(best_bps >= 0.93e8, &records, &format!("{group}: {runs:?}"));
    }
    let together = of("ethernet", true).iter();
    let mut sums_bps: Vec<f64> =
        together.map(|(block, ethernet_bps)| ethernet_bps + of("ipoib", true)[block]).collect();
    sums_bps.sort_by(f64::total_cmp);
    // The pause of an end leaves the bus idle in a single run.
    let (median_bps, best_bps) = (sums_bps[sums_bps.len() / 2], sums_bps[sums_bps.len() - 1]);
    assert!(best_bps < 0.985e8, "{sums_bps:?}");
    assert_unless_slowed(median_bps >= 0.93e8, &records, &format!("{sums_bps:?}"));
}

/// Flows of three hosts share the link between two routers, in both directions.
#[test]
fn groups_that_share_a_part_of_their_ways_count() {
    let Some(bench) = bench("groups that share a wire") else { return };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plans/labs/dumbbell.toml");
    bench.plan(&format!(
        "title = 't'\ntestbed = 'lab:{file}'\n\
         [[group]]\nname = 'up'\nfrom = 'client1'\nto = 'server1'\n\
         [[group]]\nname = 'down'\nfrom = 'client2'\nto = 'server2'\ndirection = 'reverse'\n\
         [[group]]\nname = 'aside'\nfrom = 'client1'\nto = 'client2'\n\
         [factors]\npattern = 'stream'\ntransport = 'udp'\nfamily = 6\npayload = 1000\npace = 'fixed:1000/s'\n\
         [run]\nduration = '400ms'\nwarm_up = '50ms'\n[stop]\nruns = 2\n"
    ));
    bench.carries_out(&["run", "plan.toml"], &["3 groups of flows at once"]);
    let records = bench.records();
    for record in counted(&records) {
        let key = record.point.key();
        // 1,000 datagrams of 1,048 bytes a second for 0.4 s, whatever the other groups send.
        assert!((6e6..9e6).contains(&record.figures.value(Figure::Goodput).unwrap()), "{key}");
        let emulation = record.emulation.as_ref().unwrap();
        let way = if key.contains("reverse") { emulation.reverse } else { emulation.forward };
        assert!(way.departed_bytes.unwrap() >= 300 * 1_048, "{key}: {way:?}");
    }
}
