//! Tables of results: with intervals, or with the columns of the Intel MPI Benchmarks.

use std::fmt::Write;

use fabricmark_plan::{Action, Benchmark, Point, Sync};
use fabricmark_record::{MpiFacts, MpiJob, MpiResult};
use fabricmark_report::{Side, grid};
use fabricmark_stats::{Histogram, mean};

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Results of the points that are shown in one table.
type Rows<'a> = Vec<(&'a Point, &'a MpiResult)>;

/// Groups results by benchmark and number of ranks, in the order of the job.
fn groups<'a>(
    points: &'a [Point],
    results: &'a [(usize, MpiResult)],
) -> Vec<(Benchmark, u32, Rows<'a>)> {
    let mut groups: Vec<(Benchmark, u32, Rows<'a>)> = Vec::new();
    for (index, result) in results {
        let point = &points[*index];
        let Some(benchmark) = point.benchmark else { continue };
        let ranks = point.ranks();
        let row = (point, result);
        match groups.iter_mut().find(|(known, of, _)| (*known, *of) == (benchmark, ranks)) {
            Some((_, _, rows)) => rows.push(row),
            None => groups.push((benchmark, ranks, vec![row])),
        }
    }
    groups
}

/// A time in microseconds with at least three digits.
fn us(ns: f64) -> String {
    let us = ns / 1e3;
    match us {
        ..10.0 => format!("{us:.3}"),
        10.0..100.0 => format!("{us:.2}"),
        100.0..1000.0 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    }
}

fn quantile(times: &Histogram, q: f64) -> String {
    times.quantile(q).map_or_else(|| "-".to_owned(), |ns| us(ns as f64))
}

/// Our table of each benchmark.
pub fn text(job: &MpiJob, facts: &MpiFacts, results: &[(usize, MpiResult)]) -> String {
    let mut out = String::new();
    for (benchmark, ranks, rows) in groups(&job.points, results) {
        let has_goodput = benchmark.traits().received > 0;
        let is_non_blocking = matches!(benchmark.traits().action, Action::NonBlocking(_));
        let has_imbalance = rows.iter().any(|(_, result)| result.imbalance_ns.is_some());
        let _ = writeln!(out, "\n{benchmark}, {ranks} ranks: {}", about(benchmark, &rows));
        let mut lines = Vec::new();
        let mut header = vec!["bytes", "operations", "time [us]", "95% interval", "p50", "p99"];
        header.extend(has_goodput.then_some("goodput [Mbit/s]"));
        header.extend(is_non_blocking.then_some("overlap"));
        header.extend(has_imbalance.then_some("imbalance [us]"));
        header.push("ranks min-max [us]");
        for (point, result) in rows {
            let Some(estimate) = mean(&result.slices_ns, CONFIDENCE) else {
                let why = if result.late > 0 { "all late" } else { "not measured" };
                lines.push(vec![point.payload.0.to_string(), "0".to_owned(), why.to_owned()]);
                continue;
            };
            let half = estimate.half_width().map_or_else(
                || "one slice".to_owned(),
                |half| format!("± {} ({:.1} %)", us(half), 100.0 * half / estimate.value),
            );
            let mut row = vec![
                point.payload.0.to_string(),
                result.operations.to_string(),
                us(estimate.value),
                half,
                quantile(&result.times_ns, 0.5),
                quantile(&result.times_ns, 0.99),
            ];
            if has_goodput {
                let bps = benchmark.goodput_bps(point.payload, estimate.value);
                row.push(bps.map_or_else(|| "-".to_owned(), |bps| format!("{:.1}", bps / 1e6)));
            }
            if is_non_blocking {
                let share = result.overlap.map(|overlap| 100.0 * overlap.share());
                row.push(share.map_or_else(|| "-".to_owned(), |share| format!("{share:.0} %")));
            }
            if has_imbalance {
                let mean_ns = result.imbalance_ns.as_ref().and_then(Histogram::mean_ns);
                row.push(mean_ns.map_or_else(|| "-".to_owned(), us));
            }
            let times = result.ranks_ns;
            row.push(format!("{}-{}", us(times.min_ns), us(times.max_ns)));
            lines.push(row);
        }
        let columns: Vec<(&str, Side)> =
            header.into_iter().map(|name| (name, Side::Right)).collect();
        out.push_str(&grid(&columns, &lines));
    }
    let _ = write!(out, "\n{}", footer(job, facts, results));
    out
}

/// What the times of a benchmark are.
fn about(benchmark: Benchmark, rows: &Rows<'_>) -> &'static str {
    let sync = rows.first().and_then(|(point, _)| point.sync);
    match benchmark.traits().action {
        Action::PingPong => "half the round trip",
        Action::Uniband | Action::Biband => "time per payload, of bursts of 64",
        Action::Put | Action::Get | Action::Accumulate => "operation with flush",
        _ => match sync {
            Some(Sync::Barrier) => "from the first start to the last end, after a barrier",
            Some(Sync::Window) => "from the first start to the last end, started at common times",
            _ => "operations back to back",
        },
    }
}

/// Facts about the job.
fn footer(job: &MpiJob, facts: &MpiFacts, results: &[(usize, MpiResult)]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} (MPI {}), {} ranks on {} host{}; CPUs by rank: {}",
        facts.library,
        facts.standard,
        facts.ranks.len(),
        facts.hosts.len(),
        if facts.hosts.len() == 1 { "" } else { "s" },
        cpus(facts),
    );
    let clock = match facts.clock_error_ns {
        0 => "one clock for all ranks".to_owned(),
        ns => format!("clocks of ranks synchronised to {} us", us(ns as f64)),
    };
    let batches: Vec<u32> = results.iter().map(|(_, result)| result.batch).collect();
    let batch = match (batches.iter().min(), batches.iter().max()) {
        (Some(1), Some(1)) => String::new(),
        (Some(least), Some(most)) if least == most => {
            format!("; p50 and p99 are of means of {least} operations")
        }
        (Some(least), Some(most)) => {
            format!("; p50 and p99 are of means of {least} to {most} operations")
        }
        _ => String::new(),
    };
    let _ = writeln!(out, "{clock}, {:.0} ns a reading{batch}", facts.clock.read_cost_ns);
    let _ = writeln!(
        out,
        "intervals are over {} rounds in random order within this job; other jobs may differ by \
         more",
        job.rounds
    );
    let late: u64 = results.iter().map(|(_, result)| result.late).sum();
    if late > 0 {
        let _ =
            writeln!(out, "left out: {late} operations, for whose common start a rank was late");
    }
    let elements: u64 = results.iter().map(|(_, result)| result.verified_elements).sum();
    let _ = writeln!(out, "verified: {elements} elements equal a serial computation");
    let mut devices: Vec<(String, u64)> = Vec::new();
    for traffic in results.iter().flat_map(|(_, result)| &result.traffic) {
        match devices.iter_mut().find(|(device, _)| *device == traffic.device) {
            Some((_, bytes)) => *bytes += traffic.bytes,
            None => devices.push((traffic.device.clone(), traffic.bytes)),
        }
    }
    let sent: Vec<String> = devices
        .iter()
        .map(|(device, bytes)| format!("{device} {:.1} MB", *bytes as f64 / 1e6))
        .collect();
    let sent = if sent.is_empty() { "nothing".to_owned() } else { sent.join(", ") };
    let _ = writeln!(out, "devices sent during the slices: {sent}");
    out
}

/// CPUs of the ranks: `0 1 2`, shortened if there are many.
fn cpus(facts: &MpiFacts) -> String {
    const SHOWN: usize = 16;
    let mut cpus: Vec<&str> = facts.ranks.iter().map(|place| place.cpus.as_str()).collect();
    let more = cpus.len().saturating_sub(SHOWN);
    cpus.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", cpus.join(" "))
}

/// The tables of IMB 2021.11 (`src_c/IMB_output.c`).
pub fn as_imb(points: &[Point], results: &[(usize, MpiResult)]) -> String {
    let rule = "#-----------------------------------------------------------------------------\n";
    let mut out = String::new();
    for (benchmark, ranks, rows) in groups(points, results) {
        let _ = write!(out, "\n{rule}# Benchmarking {benchmark} \n# #processes = {ranks} \n{rule}");
        let action = benchmark.traits().action;
        let columns: &[&str] = match action {
            Action::Uniband | Action::Biband => {
                &["#bytes", "#repetitions", "Mbytes/sec", "Msg/sec"]
            }
            Action::PingPong
            | Action::PingPing
            | Action::Put
            | Action::Get
            | Action::Accumulate => &["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"],
            Action::Sendrecv | Action::Exchange => &[
                "#bytes",
                "#repetitions",
                "t_min[usec]",
                "t_max[usec]",
                "t_avg[usec]",
                "Mbytes/sec",
            ],
            Action::NonBlocking(fabricmark_plan::Collective::Barrier) => {
                &["#repetitions", "t_ovrl[usec]", "t_pure[usec]", "t_CPU[usec]", "overlap[%]"]
            }
            Action::NonBlocking(_) => &[
                "#bytes",
                "#repetitions",
                "t_ovrl[usec]",
                "t_pure[usec]",
                "t_CPU[usec]",
                "overlap[%]",
            ],
            Action::Blocking(fabricmark_plan::Collective::Barrier) => {
                &["#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"]
            }
            Action::Blocking(_) => {
                &["#bytes", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"]
            }
        };
        let header: Vec<String> = columns.iter().map(|column| format!("{column:>13}")).collect();
        let _ = writeln!(out, "{}", header.concat());
        for (point, result) in rows.into_iter().filter(|(_, result)| !result.slices_ns.is_empty()) {
            let _ = writeln!(out, "{}", imb_row(columns, benchmark, ranks, point, result));
        }
    }
    out
}

fn imb_row(
    columns: &[&str],
    benchmark: Benchmark,
    ranks: u32,
    point: &Point,
    result: &MpiResult,
) -> String {
    let times = result.ranks_ns;
    let pairs = match benchmark.traits().action {
        Action::Uniband | Action::Biband => f64::from(ranks / 2),
        _ => 1.0,
    };
    let overlap = result.overlap.unwrap_or_default();
    let per_s = pairs * f64::from(benchmark.traits().imb_factor) * 1e9 / times.max_ns;
    let us = |ns: f64| format!("{:>13.2}", ns / 1e3);
    let cell = |column: &&str| match *column {
        "#bytes" => format!("{:>13}", point.payload.0),
        "#repetitions" => {
            format!("{:>13}", result.operations / u64::from(benchmark.operations()))
        }
        "t[usec]" | "t_max[usec]" => us(times.max_ns),
        "t_min[usec]" => us(times.min_ns),
        "t_avg[usec]" => us(times.mean_ns),
        "Mbytes/sec" => format!("{:>13.2}", per_s * point.payload.0 as f64 / 1e6),
        "Msg/sec" => format!("{per_s:>13.0}"),
        "t_ovrl[usec]" => us(overlap.both_ns),
        "t_pure[usec]" => us(overlap.pure_ns),
        "t_CPU[usec]" => us(overlap.computation_ns),
        _ => format!("{:>13.2}", 100.0 * overlap.share()),
    };
    columns.iter().map(cell).collect()
}
