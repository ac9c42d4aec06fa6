//! Models of message passing, fitted to the MPI benchmarks between two ranks, and what they predict for collective
//! operations.

use std::collections::BTreeMap;

use fabricmark_logp::{Model, predictions};
use fabricmark_plan::{Action, Benchmark, Figure, Point};
use fabricmark_record::{Outcome, Record};
use fabricmark_stats::{Estimate, StopRule};
use serde_json::{Value, json};

use crate::Experiment;
use crate::grid::{Side, grid};
use crate::number::fixed;

/// A table of modelled figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelTable {
    /// Heading.
    pub(crate) title: String,
    /// Headings of the columns; the first one is of words.
    pub(crate) columns: Vec<&'static str>,
    /// Cells.
    pub(crate) rows: Vec<Vec<String>>,
    /// What the figures are.
    pub(crate) note: &'static str,
}

/// Times by size in each block.
type Blocks = BTreeMap<u32, BTreeMap<u64, f64>>;

/// Benchmarks of one library over one transport and link.
#[derive(Default)]
struct Network {
    /// By benchmark and number of ranks.
    times: BTreeMap<(Benchmark, u32), Blocks>,
}

/// The models of an experiment: none without a PingPong of at least three sizes.
pub(crate) fn models(e: &Experiment<'_>) -> Vec<ModelTable> {
    let mut networks: BTreeMap<String, Network> = BTreeMap::new();
    for record in e.records.iter().filter(|record| counts(record)) {
        let point = &record.point;
        let (Some(benchmark), Some(ns)) =
            (point.benchmark, record.figures.value(Figure::OperationTime))
        else {
            continue;
        };
        let network = networks.entry(name(point)).or_default();
        let blocks = network.times.entry((benchmark, point.ranks())).or_default();
        blocks.entry(record.place.block).or_default().insert(point.payload.0, ns);
    }
    let rule = &e.plan.stop;
    networks.iter().flat_map(|(name, network)| network.tables(name, rule)).collect()
}

fn counts(record: &Record) -> bool {
    let point = &record.point;
    let is_default = point.buffers == Some(fabricmark_plan::Buffers::Warm)
        && point.root.is_none_or(|root| root == fabricmark_plan::Root::First)
        && point.in_place != Some(true)
        && point.sync.is_none_or(|sync| sync == fabricmark_plan::Sync::Barrier);
    record.outcome == Outcome::Completed && !record.place.warm_up && is_default
}

/// Name of the network between the ranks.
fn name(point: &Point) -> String {
    let library = point.mpi_library.map_or("", |library| library.word());
    let transport = point.mpi_transport.map_or("", |transport| transport.word());
    let rtt = point.rtt.map_or_else(String::new, |rtt| format!(", RTT {rtt}"));
    format!("MPI over {transport}, {library}, {}{rtt}", point.link)
}

/// Mean times by size.
fn means(blocks: &Blocks) -> Vec<(u64, f64)> {
    let mut sums: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for (&bytes, &ns) in blocks.values().flatten() {
        let sum = sums.entry(bytes).or_default();
        *sum = (sum.0 + ns, sum.1 + 1);
    }
    sums.into_iter().map(|(bytes, (sum, count))| (bytes, sum / f64::from(count))).collect()
}

impl Network {
    fn tables(&self, name: &str, rule: &StopRule) -> Vec<ModelTable> {
        let Some((model, fits)) = self.fitted(Benchmark::PingPong) else { return Vec::new() };
        let mut rows = parameters("PingPong: α = L + 2o, 1/β = G", &model, &fits, rule);
        if let Some((model, fits)) = self.fitted(Benchmark::Uniband) {
            rows.extend(parameters("Uniband: g, G", &model, &fits, rule));
        }
        let mut tables = vec![ModelTable {
            title: format!("Hockney and LogGP: {name}"),
            columns: vec![
                "fitted to",
                "bytes",
                "latency (µs)",
                "bandwidth (Mbit/s)",
                "n½ (B)",
                "largest error",
            ],
            rows,
            note: "modelled: time = latency + bytes / bandwidth, with the least relative errors; \
                   means and intervals over the blocks; n½: bytes at half of the bandwidth",
        }];
        let rows: Vec<Vec<String>> =
            self.times.iter().filter_map(|(key, blocks)| predicted(*key, blocks, &model)).collect();
        if !rows.is_empty() {
            tables.push(ModelTable {
                title: format!("Collective operations by that model: {name}"),
                columns: vec![
                    "operation",
                    "ranks",
                    "best of the algorithms",
                    "measured / predicted",
                    "from",
                    "to",
                ],
                rows,
                note: "modelled by messages that follow one another, without the time to add \
                       payloads; the median and range over the sizes",
            });
        }
        tables
    }

    /// The model of a benchmark's mean times, and of its times in each block.
    fn fitted(&self, benchmark: Benchmark) -> Option<(Model, Vec<Model>)> {
        let blocks = self.times.get(&(benchmark, 2))?;
        let model = Model::fit(&means(blocks))?;
        let times = |block: &BTreeMap<u64, f64>| {
            let times: Vec<(u64, f64)> = block.iter().map(|(&bytes, &ns)| (bytes, ns)).collect();
            model.refit(&times)
        };
        let fits = blocks.values().filter_map(times).collect();
        Some((model, fits))
    }
}

/// Rows of parameters, one for each piece of a model.
fn parameters(of: &str, model: &Model, fits: &[Model], rule: &StopRule) -> Vec<Vec<String>> {
    let pieces = model.pieces.iter().enumerate();
    let row = |(place, piece): (usize, &fabricmark_logp::Piece)| {
        let over = |value: fn(&fabricmark_logp::Line) -> Option<f64>| {
            let values: Vec<f64> =
                fits.iter().filter_map(|fit| value(&fit.pieces[place].line)).collect();
            rule.estimate(&values)
        };
        vec![
            of.to_owned(),
            format!("{}-{}", fixed(piece.from as f64, 0), fixed(piece.to as f64, 0)),
            written(over(|line| Some(line.latency_ns / 1e3)), 2),
            written(over(|line| Some(line.bandwidth_bps()? / 1e6)), 0),
            written(over(fabricmark_logp::Line::half_bytes), 0),
            format!("{:.0} %", 100.0 * piece.error),
        ]
    };
    pieces.map(row).collect()
}

/// A mean with its half-width.
fn written(estimate: Option<Estimate>, decimals: usize) -> String {
    let Some(estimate) = estimate else { return "-".to_owned() };
    let value = fixed(estimate.value, decimals);
    match estimate.half_width() {
        Some(half) => format!("{value} ± {}", fixed(half, decimals)),
        None => value,
    }
}

/// The algorithm that predicts the times of a collective operation best, and how well.
fn predicted(
    (benchmark, ranks): (Benchmark, u32),
    blocks: &Blocks,
    model: &Model,
) -> Option<Vec<String>> {
    let Action::Blocking(collective) = benchmark.traits().action else { return None };
    let times = means(blocks);
    // Ratios measured / predicted by algorithm, in the order of sizes.
    let mut ratios: BTreeMap<usize, (&str, Vec<f64>)> = BTreeMap::new();
    for &(bytes, ns) in &times {
        let all = predictions(collective, bytes, ranks, model);
        for (place, prediction) in all.into_iter().enumerate() {
            let entry = ratios.entry(place).or_insert((prediction.algorithm, Vec::new()));
            if prediction.ns > 0.0 {
                entry.1.push(ns / prediction.ns);
            }
        }
    }
    let error = |ratios: &[f64]| {
        ratios.iter().map(|ratio| ratio.ln().abs()).sum::<f64>() / ratios.len().max(1) as f64
    };
    let mut known: Vec<(&str, Vec<f64>)> =
        ratios.into_values().filter(|(_, ratios)| !ratios.is_empty()).collect();
    let best = known.iter().map(|(_, ratios)| error(ratios)).fold(f64::INFINITY, f64::min);
    // Algorithms that are the same with this number of ranks are all named.
    known.retain(|(_, ratios)| error(ratios) <= best * (1.0 + 1e-9) + 1e-12);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let mut ratios = known.first()?.1.clone();
    ratios.sort_by(f64::total_cmp);
    let at =
        |place: usize| ratios.get(place).map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    Some(vec![
        benchmark.to_string(),
        ranks.to_string(),
        names.join(" = "),
        at(ratios.len() / 2),
        at(0),
        at(ratios.len() - 1),
    ])
}

/// The tables as text.
pub(crate) fn text(tables: &[ModelTable]) -> String {
    let mut out = String::new();
    for table in tables {
        let side = |place| if place == 0 { Side::Left } else { Side::Right };
        let columns: Vec<(&str, Side)> =
            table.columns.iter().enumerate().map(|(place, name)| (*name, side(place))).collect();
        out.push_str(&format!("\n{}\n{}", table.title, grid(&columns, &table.rows)));
        out.push_str(&format!("  {}\n", table.note));
    }
    out
}

/// The tables as JSON.
pub(crate) fn json(tables: &[ModelTable]) -> Value {
    let table = |table: &ModelTable| {
        json!({
            "title": table.title,
            "columns": table.columns,
            "rows": table.rows,
            "note": table.note,
            "provenance": "modelled",
        })
    };
    tables.iter().map(table).collect()
}
