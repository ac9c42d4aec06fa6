//! Facts of a report: how and on what it was measured, and how to reproduce it.

mod emulator;
mod interfaces;

use std::collections::{BTreeMap, BTreeSet};

use fabricmark_plan::{Factor, Figure, Point, Testbed};
use fabricmark_record::{HostFacts, Outcome, Provenance, Record};
use fabricmark_stats::{LATENCY_TIE, PEEKING_SURCHARGE, THROUGHPUT_TIE};
use fabricmark_units::{Nanos, Percent};

use crate::Experiment;
use crate::number::{count, fixed};
use crate::{answer, label, select};

/// Name and text of a fact.
pub(crate) type Fact = (&'static str, String);

/// Characters of the plan digest that are shown: its version, and enough digits to compare by eye.
const DIGEST_DIGITS: usize = 14;

/// Facts at the end of every report.
pub(crate) fn footer(e: &Experiment<'_>) -> Vec<Fact> {
    let emulator = emulator::line(e.records).map(|line| ("emulator", line));
    let confidence = Percent(e.plan.stop.confidence);
    let certainty =
        format!("{confidence} intervals; verdicts with Holm's correction over each table");
    [("instrument", instrument(e))]
        .into_iter()
        .chain(emulator)
        .chain([("runs", runs(e)), ("certainty", certainty), ("hosts", hosts(e))])
        .chain(interfaces::line(e.records).map(|line| ("interfaces", line)))
        .chain([
            ("seed", e.plan.seed.to_string()),
            ("digest", digest(e).chars().take(DIGEST_DIGITS).collect()),
            ("started", e.started.to_owned()),
            ("reproduce", e.reproduce.to_owned()),
        ])
        .collect()
}

/// The resolved settings, and the rules for verdicts.
pub(crate) fn method(e: &Experiment<'_>) -> Vec<Fact> {
    let stop = &e.plan.stop;
    let confidence = Percent(stop.confidence);
    let runs = match stop.half_width {
        _ if stop.decides => format!(
            "Compared points run {} to {} times, until each comparison is decided or the budget is \
             spent. A comparison is checked after {0} runs, after twice as many and so on, at most \
             {} times; its p-value is multiplied by that number, and its interval is widened by the \
             factor {PEEKING_SURCHARGE}.",
            stop.runs_min,
            stop.runs_max,
            stop.looks()
        ),
        None => format!("Each point runs {} times.", stop.runs_max),
        Some(width) => format!(
            "Each point runs {} to {} times, until the {confidence} interval of the mean is within \
             ±{} of it. Between the first and the last check intervals are widened by the factor \
             {PEEKING_SURCHARGE}, because repeated checks favour intervals that are narrow by \
             chance.",
            stop.runs_min,
            stop.runs_max,
            Percent(width)
        ),
    };
    let testbed = match e.plan.testbed {
        Testbed::Lab => match label::topology(e.plan) {
            Some(topology) => format!("Network namespaces on one machine, {topology}"),
            None => "Network namespaces on one machine".to_owned(),
        },
        Testbed::Mpi => mpi_testbed(e),
        Testbed::Tiers => tiers(e),
        Testbed::Hosts => match (e.plan.own_ends(), e.plan.hosts_of_nodes().as_slice()) {
            (Some((one, other)), _) => format!("Two addresses of this machine, {one} and {other}"),
            (None, []) => {
                let peer = e.plan.peer.as_deref().unwrap_or("another host");
                format!("This host and the agent at {peer}")
            }
            (None, nodes) => format!("Hosts with agents: {}", named(nodes)),
        },
    };
    // Slices have no warm-up run.
    let warm_up = match e.records.iter().any(|record| record.place.warm_up) {
        true => format!(" after one warm-up of {} each", e.plan.warm_up_ns),
        false => String::new(),
    };
    vec![
        (
            "Settings",
            format!(
                "{}; {} in {}; runs of {}{}.",
                testbed,
                count(e.plan.points.len(), "point"),
                count(e.plan.comparison_groups.len(), "comparison group"),
                e.plan.duration_ns,
                warm_up
            ),
        ),
        ("Factors", factors(e)),
        (
            "Order",
            format!(
                "Randomised blocks from seed {}. Compared points run in the same block, in random \
                 order, so that drift of the machine affects all of them alike.{}",
                e.plan.seed,
                slices(e)
            ),
        ),
        ("Runs", runs),
        (
            "Figures",
            format!(
                "Goodput is the application bytes received per second after the first 5 % of a \
                 run{}, or after the first quarter of a slice; for bursts, the bytes of answered \
                 bursts over the whole run. An RTT lasts from the first byte of a request or burst \
                 until the whole response has arrived. RTT/2 is half of the mean RTT, not a \
                 one-way delay. Percentiles are medians over runs with order-statistic intervals. \
                 Service demand is the CPU time of the whole machine per KiB or transaction; if \
                 both ends run on one machine, it includes both. In an open loop an RTT counts \
                 from the scheduled departure; the departure lag is how much later payloads or \
                 requests departed. The RTT between kernel timestamps contains the wire and the \
                 whole server; the rest of an RTT is application time: system calls and wake-up.",
                omitted(e)
            ),
        ),
        (
            "Verdicts",
            format!(
                "Comparisons are paired by block: t test on the logarithms of the ratios at \
                 {confidence}, with Holm's correction over each table. Same: the whole interval is \
                 within ±{} (latency ±{}). Inconclusive: the runs neither show a difference nor \
                 exclude one; the MDE (minimum detectable effect) is the smallest true difference \
                 that they would have detected with a probability of 80 %.",
                Percent(THROUGHPUT_TIE),
                Percent(LATENCY_TIE)
            ),
        ),
        (
            "Limits",
            "Ceilings and floors are computed from frame formats when a run is recorded. A bound \
             cannot be exceeded; a conditional ceiling holds only if each write has packets of its \
             own."
                .to_owned(),
        ),
        ("Provenance", provenance(e)),
    ]
}

/// The omitted part of the runs: that of the plan, or TCP's slow start over an emulated RTT. Empty if there is none.
fn omitted(e: &Experiment<'_>) -> String {
    let runs = e.records.iter().filter(|record| !record.place.warm_up);
    let omitted: BTreeSet<Nanos> = runs.map(|record| record.omit_ns).collect();
    let up_to = if omitted.len() > 1 { "up to " } else { "" };
    match omitted.last() {
        Some(&most) if most > Nanos(0) => {
            format!(" (here {up_to}the first {}, if that is longer)", span(most))
        }
        _ => String::new(),
    }
}

/// A sentence about runs in slices; empty if there are none.
fn slices(e: &Experiment<'_>) -> String {
    let of_slices: Vec<Nanos> = e.records.iter().filter_map(|record| record.slice_ns).collect();
    let (Some(least), Some(most)) = (of_slices.iter().min(), of_slices.iter().max()) else {
        return String::new();
    };
    let lengths = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let runs = e.records.iter().filter(|record| !record.place.warm_up).count();
    let which = match of_slices.len() == runs {
        true => "All runs".to_owned(),
        false => format!("{} of {}", of_slices.len(), count(runs, "run")),
    };
    let others = match of_slices.len() == runs {
        true => String::new(),
        false => format!(" The other runs last {}.", e.plan.whole_run()),
    };
    format!(
        " {which} consist of slices of {lengths}: the connections of all compared levels stay \
         open, and the levels take turns in random order. Each block opens new connections, and \
         intervals are computed over blocks. A stream that a CPU limits is slower in slices than \
         in a whole run; the changes between levels agree.{others}"
    )
}

/// All factors with their resolved levels, constant ones included.
fn factors(e: &Experiment<'_>) -> String {
    let points: Vec<&Point> = e.plan.points.iter().collect();
    let words: Vec<String> = Factor::ALL
        .into_iter()
        .filter_map(|factor| {
            let mut levels = select::levels(&points, factor);
            levels.retain(|level| !level.is_empty());
            let heading = label::heading(factor);
            let levels: Vec<String> =
                levels.iter().map(|level| label::row(factor, level)).collect();
            (!levels.is_empty()).then(|| format!("{heading}: {}", levels.join(" · ")))
        })
        .collect();
    sentence_list(&words)
}

fn provenance(e: &Experiment<'_>) -> String {
    let completed = e.records.iter().filter(|record| record.outcome == Outcome::Completed);
    let figures = completed
        .flat_map(|run| [run.figures.get(Figure::Goodput), run.figures.time_mean()])
        .flatten();
    let meaning = |provenance| match provenance {
        Provenance::Measured => "real sockets over a real path",
        Provenance::Emulated => "real sockets over an emulated link",
        Provenance::Modelled => "computed",
        Provenance::Published => "from a paper",
    };
    let words: Vec<String> = label::distinct(figures.map(|figure| figure.provenance))
        .into_iter()
        .map(|provenance| format!("{}: {}", label::provenance(provenance), meaning(provenance)))
        .collect();
    sentence_list(&words)
}

/// Joins parts with semicolons, with a capital and a full stop.
fn sentence_list(words: &[String]) -> String {
    if words.is_empty() {
        return "No figures.".to_owned();
    }
    answer::sentence(&words.join("; "))
}

fn instrument(e: &Experiment<'_>) -> String {
    let cost = e.instrument.map_or_else(
        || "overhead not measured".to_owned(),
        |cost| {
            format!(
                "null transport: {} ns per send call, {} ns per round trip",
                fixed(cost.stream_call_ns, 1),
                fixed(cost.ping_pong_ns, 1)
            )
        },
    );
    [cost].into_iter().chain(clocks(e)).collect::<Vec<_>>().join("; ")
}

/// Highest cost and uncertainty of each clock used: `TSC: 15.2 ns a reading, within 0.5 ppm of CLOCK_MONOTONIC`.
fn clocks(e: &Experiment<'_>) -> Vec<String> {
    let mut worst: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let nodes = e.records.iter().flat_map(|record| &record.nodes);
    for clock in nodes.filter_map(|node| node.side.clock.as_ref()) {
        let (cost_ns, ppm) = worst.entry(&clock.name).or_default();
        *cost_ns = cost_ns.max(clock.read_cost_ns);
        *ppm = ppm.max(clock.uncertainty_ppm.unwrap_or(0.0));
    }
    let words = |(name, (cost_ns, ppm)): (&str, (f64, f64))| {
        let cost = format!("{name}: {} ns per reading", fixed(cost_ns, 1));
        match ppm > 0.0 {
            true => format!("{cost}, within {} ppm of CLOCK_MONOTONIC", fixed(ppm, 2)),
            false => cost,
        }
    };
    worst.into_iter().map(words).collect()
}

fn runs(e: &Experiment<'_>) -> String {
    let (mut completed, mut warm_ups, mut skipped, mut invalid) = (0, 0, 0, 0);
    let mut time = Nanos(0);
    let is_first = |record: &&Record| e.plan.is_first_of_run(record.place.point as usize);
    for record in e.records.iter().filter(is_first) {
        match (&record.outcome, record.place.warm_up) {
            (_, true) => warm_ups += 1,
            (Outcome::Completed, false) => {
                completed += 1;
                // A run that ends with an amount is shorter than it might be.
                let flows =
                    record.load().map(|flow| flow.sent.elapsed_ns.max(flow.received.elapsed_ns));
                let took = e.plan.amount.and(flows.max()).map_or(record.duration_ns, Nanos);
                time = time + took.min(record.duration_ns);
            }
            (Outcome::Skipped(_), false) => skipped += 1,
            (Outcome::Invalid(_), false) => invalid += 1,
        }
    }
    let state = if e.planned_complete { "" } else { ", more planned" };
    format!(
        "{} counted ({}), {}, {skipped} skipped, {invalid} invalid{state}",
        fixed(f64::from(completed), 0),
        span(time),
        count(warm_ups, "warm-up")
    )
}

/// A duration for people: `36 s`, `2.5 s`, `50 ms`.
fn span(time: Nanos) -> String {
    match time.0 {
        0 => "0 s".to_owned(),
        1..1_000_000 => format!("{} µs", fixed(time.0 as f64 / 1e3, 0)),
        1_000_000..1_000_000_000 => format!("{} ms", fixed(time.0 as f64 / 1e6, 0)),
        1_000_000_000..10_000_000_000 => format!("{} s", fixed(time.as_secs_f64(), 1)),
        _ => format!("{} s", fixed(time.as_secs_f64(), 0)),
    }
}

/// Digest of the plan.
pub(crate) fn digest(e: &Experiment<'_>) -> String {
    // The digest in the records covers traces, which the plan file only names.
    let kept = e.records.first().map(|record| record.place.plan_digest.clone());
    kept.unwrap_or_else(|| e.plan.digest())
}

fn hosts(e: &Experiment<'_>) -> String {
    let of_nodes = e.records.iter().flat_map(|record| &record.nodes).map(|node| &node.host);
    let jobs = e.records.iter().filter_map(|record| record.mpi.as_ref());
    let of_ranks = jobs.flat_map(|mpi| &mpi.facts.hosts);
    let runs = e.records.iter().filter_map(|record| record.shop.as_ref());
    let of_tiers = runs.flat_map(|run| &run.tiers).map(|tier| &tier.host);
    let found: BTreeSet<String> = of_nodes.chain(of_ranks).chain(of_tiers).map(host).collect();
    if found.is_empty() {
        return "unknown".to_owned();
    }
    found.into_iter().collect::<Vec<_>>().join("; ")
}

fn host(host: &HostFacts) -> String {
    // A server of another program tells nothing of its host.
    if host.kernel.is_empty() {
        return format!("{} (unknown)", host.hostname);
    }
    let mut words = vec![
        host.hostname.clone(),
        host.os.clone(),
        format!("kernel {}", host.kernel),
        format!("{} × {}", host.cpus, host.cpu),
        format!("{} GiB", fixed(host.memory_bytes as f64 / f64::from(1 << 30), 0)),
    ];
    words.extend(host.governor.as_ref().map(|governor| format!("governor {governor}")));
    words.extend(host.clock_source.as_ref().map(|clock| format!("clock {clock}")));
    if host.is_virtual {
        words.push("virtual machine".to_owned());
    }
    words.retain(|word| !word.is_empty());
    words.join(", ")
}

/// Hosts with the names of their nodes.
fn named(nodes: &[(&str, &str)]) -> String {
    let name = |node: &str| node.replacen('@', " over ", 1);
    let nodes = nodes.iter().map(|(node, host)| format!("{host} ({})", name(node)));
    let nodes: Vec<String> = nodes.collect();
    nodes.join(" and ")
}

/// Libraries and hosts of the MPI jobs.
fn mpi_testbed(e: &Experiment<'_>) -> String {
    let jobs = || e.records.iter().filter_map(|record| record.mpi.as_ref());
    let mut libraries: Vec<&str> = jobs().map(|mpi| mpi.facts.library.as_str()).collect();
    libraries.sort_unstable();
    libraries.dedup();
    let hosts = jobs().map(|mpi| mpi.facts.hosts.len()).max().unwrap_or(0);
    let place = match hosts {
        0 | 1 => "one host".to_owned(),
        hosts => format!("{hosts} hosts"),
    };
    let rdma: BTreeSet<&str> = jobs().flat_map(|mpi| &mpi.facts.rdma).map(String::as_str).collect();
    let rdma = match rdma.is_empty() {
        true => String::new(),
        false => format!(", RDMA ports {}", rdma.into_iter().collect::<Vec<_>>().join("; ")),
    };
    match libraries.as_slice() {
        [] => "MPI jobs".to_owned(),
        names => format!("MPI jobs of {} on {place}{rdma}", names.join(" and ")),
    }
}

/// Programs of the bookstore's tiers.
fn tiers(e: &Experiment<'_>) -> String {
    let runs = e.records.iter().filter_map(|record| record.shop.as_ref());
    let programs = runs.flat_map(|run| &run.tiers).map(|tier| tier.program.as_str());
    // Browsers and application server are parts of fabricmark.
    let is_foreign = |program: &&str| !program.starts_with("fabricmark");
    let programs: BTreeSet<&str> = programs.filter(is_foreign).collect();
    let programs: Vec<&str> = programs.into_iter().collect();
    let place = match e.plan.hosts_of_nodes().as_slice() {
        [] => "in network namespaces on one machine".to_owned(),
        nodes => format!("on {}, the others on this host", named(nodes)),
    };
    format!(
        "The tiers of a bookstore derived from TPC-W, not comparable with published TPC results, \
         with {}, {place}",
        programs.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_tells_nothing_of_itself_is_unknown() {
        let silent = HostFacts { hostname: "node3".to_owned(), ..HostFacts::default() };
        assert_eq!(host(&silent), "node3 (unknown)");
    }

    #[test]
    fn the_time_of_short_runs_is_told_in_parts_of_a_second() {
        for (ns, said) in [
            (0, "0 s"),
            (50_000, "50 µs"),
            (50_000_000, "50 ms"),
            (1_000_000_000, "1.0 s"),
            (2_500_000_000, "2.5 s"),
            (36_000_000_000, "36 s"),
        ] {
            assert_eq!(span(Nanos(ns)), said);
        }
    }
}
