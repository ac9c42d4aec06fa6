//! Models of message passing, fitted to the MPI benchmarks between two ranks, and what they predict for collective
//! operations.

use std::collections::BTreeMap;

use fabricmark_logp::{Line, Model, Piece, predictions};
use fabricmark_plan::{Action, Benchmark, Buffers, Figure, Point, Root, Sync};
use fabricmark_record::{Provenance, Record};
use fabricmark_stats::{Estimate, StopRule};

use crate::grid::PlainTable;
use crate::number::{fixed, is_symmetric};
use crate::{Experiment, results};

/// The models of a library over one transport and link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkModel {
    /// `MPI over tcp, openmpi, ethernet:1G`
    network: String,
    parameters: Vec<Parameters>,
    collectives: Vec<Collectives>,
}

/// A line that was fitted to the times of a benchmark.
#[derive(Clone, Debug, PartialEq)]
struct Parameters {
    benchmark: Benchmark,
    /// Smallest and largest size in bytes.
    bytes: [u64; 2],
    latency_ns: Option<Estimate>,
    bandwidth_bps: Option<Estimate>,
    /// Size at half of the bandwidth.
    half_bytes: Option<Estimate>,
    /// Largest relative error, as a share.
    error: f64,
}

/// How well algorithms predict the times of a collective operation.
#[derive(Clone, Debug, PartialEq)]
struct Collectives {
    benchmark: Benchmark,
    ranks: u32,
    /// The best one, and those that are the same with this number of ranks.
    algorithms: Vec<&'static str>,
    /// Measured / predicted over the sizes: median, smallest, largest.
    ratios: [f64; 3],
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
pub(crate) fn models(e: &Experiment<'_>) -> Vec<NetworkModel> {
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
    networks.iter().filter_map(|(name, network)| network.model(name, rule)).collect()
}

fn counts(record: &Record) -> bool {
    let point = &record.point;
    let is_default = point.buffers == Some(Buffers::Warm)
        && point.root.is_none_or(|root| root == Root::First)
        && point.in_place != Some(true)
        && point.datatype == Some(point.default_datatype())
        && point.sync.is_none_or(|sync| sync == Sync::Barrier);
    record.counts() && is_default
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
    fn model(&self, name: &str, rule: &StopRule) -> Option<NetworkModel> {
        let (model, fits) = self.fitted(Benchmark::PingPong)?;
        let mut rows = parameters(Benchmark::PingPong, &model, &fits, rule);
        if let Some((model, fits)) = self.fitted(Benchmark::Uniband) {
            rows.extend(parameters(Benchmark::Uniband, &model, &fits, rule));
        }
        let of_collective =
            |(key, blocks): (&(Benchmark, u32), &Blocks)| predicted(*key, blocks, &model);
        let collectives = self.times.iter().filter_map(of_collective).collect();
        Some(NetworkModel { network: name.to_owned(), parameters: rows, collectives })
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

/// The parameters of each piece of a model.
fn parameters(
    benchmark: Benchmark,
    model: &Model,
    fits: &[Model],
    rule: &StopRule,
) -> Vec<Parameters> {
    let of_piece = |(place, piece): (usize, &Piece)| {
        let over = |value: fn(&Line) -> Option<f64>| {
            let lines = fits.iter().map(|fit| &fit.pieces[place].line);
            rule.estimate(&lines.filter_map(value).collect::<Vec<f64>>())
        };
        Parameters {
            benchmark,
            bytes: [piece.from, piece.to],
            latency_ns: over(|line| Some(line.latency_ns)),
            bandwidth_bps: over(Line::bandwidth_bps),
            half_bytes: over(Line::half_bytes),
            error: piece.error,
        }
    };
    model.pieces.iter().enumerate().map(of_piece).collect()
}

/// A value with its interval, in a unit of `size` base units.
pub(crate) fn written(estimate: Option<&Estimate>, size: f64, decimals: usize) -> String {
    let Some(estimate) = estimate else { return "-".to_owned() };
    let in_unit = |value: f64| fixed(value / size, decimals);
    let value = in_unit(estimate.value);
    match (estimate.interval, estimate.half_width()) {
        (Some(interval), Some(half)) if is_symmetric(estimate.value, interval) => {
            format!("{value} ± {}", in_unit(half))
        }
        (Some(interval), _) => {
            format!("{value} [{}, {}]", in_unit(interval.low), in_unit(interval.high))
        }
        (None, _) => value,
    }
}

/// The algorithm that predicts the times of a collective operation best, and how well.
fn predicted(
    (benchmark, ranks): (Benchmark, u32),
    blocks: &Blocks,
    model: &Model,
) -> Option<Collectives> {
    let Action::Blocking(collective) = benchmark.traits().action else { return None };
    let times = means(blocks);
    // Ratios measured / predicted by algorithm, in the order of sizes.
    let mut ratios: BTreeMap<usize, (&'static str, Vec<f64>)> = BTreeMap::new();
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
    let mut known: Vec<(&'static str, Vec<f64>)> =
        ratios.into_values().filter(|(_, ratios)| !ratios.is_empty()).collect();
    let best = known.iter().map(|(_, ratios)| error(ratios)).fold(f64::INFINITY, f64::min);
    // Algorithms that are the same with this number of ranks are all named.
    known.retain(|(_, ratios)| error(ratios) <= best * (1.0 + 1e-9) + 1e-12);
    let algorithms = known.iter().map(|(name, _)| *name).collect();
    let mut ratios = known.first()?.1.clone();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    let middle = ratios[(ratios.len() - 1) / 2].midpoint(ratios[ratios.len() / 2]);
    let ratios = [middle, least, most];
    Some(Collectives { benchmark, ranks, algorithms, ratios })
}

/// The models as tables.
pub(crate) fn tables(models: &[NetworkModel]) -> Vec<PlainTable> {
    models.iter().flat_map(NetworkModel::tables).collect()
}

impl NetworkModel {
    fn tables(&self) -> Vec<PlainTable> {
        let row = |found: &Parameters| {
            let of = match found.benchmark {
                Benchmark::Uniband => "Uniband: g, G",
                _ => "PingPong: α = L + 2o, 1/β = G",
            };
            let [from, to] = found.bytes.map(|bytes| fixed(bytes as f64, 0));
            vec![
                of.to_owned(),
                format!("{from}-{to}"),
                written(found.latency_ns.as_ref(), 1e3, 2),
                written(found.bandwidth_bps.as_ref(), 1e6, 0),
                written(found.half_bytes.as_ref(), 1.0, 0),
                format!("{:.0} %", 100.0 * found.error),
            ]
        };
        let mut tables = vec![PlainTable {
            title: format!("Hockney and LogGP: {}", self.network),
            columns: vec![
                "fitted to",
                "bytes",
                "latency (µs)",
                "bandwidth (Mbit/s)",
                "n½ (B)",
                "largest error",
            ],
            rows: self.parameters.iter().map(row).collect(),
            notes: vec![
                "modelled: time = latency + bytes / bandwidth, with the least relative errors; \
                 means and intervals over the blocks; n½: bytes at half of the bandwidth"
                    .to_owned(),
            ],
        }];
        let row = |found: &Collectives| {
            let mut row = vec![
                found.benchmark.to_string(),
                found.ranks.to_string(),
                found.algorithms.join(" = "),
            ];
            row.extend(found.ratios.map(|ratio| format!("{ratio:.2}")));
            row
        };
        if !self.collectives.is_empty() {
            tables.push(PlainTable {
                title: format!("Collective operations by that model: {}", self.network),
                columns: vec![
                    "operation",
                    "ranks",
                    "best of the algorithms",
                    "measured / predicted",
                    "from",
                    "to",
                ],
                rows: self.collectives.iter().map(row).collect(),
                notes: vec![
                    "modelled by messages that follow one another, without the time to add \
                     payloads; the median and range over the sizes"
                        .to_owned(),
                ],
            });
        }
        tables
    }
}

/// The models in `results.json`.
pub(crate) fn results(models: &[NetworkModel]) -> Vec<results::Model> {
    let parameters = |found: &Parameters| results::ModelParameters {
        benchmark: found.benchmark,
        from_bytes: found.bytes[0],
        to_bytes: found.bytes[1],
        latency_ns: found.latency_ns.as_ref().map(Into::into),
        bandwidth_bps: found.bandwidth_bps.as_ref().map(Into::into),
        half_bandwidth_bytes: found.half_bytes.as_ref().map(Into::into),
        error_max_share: found.error,
    };
    let collectives = |found: &Collectives| {
        let [median, min, max] = found.ratios;
        results::PredictedCollective {
            benchmark: found.benchmark,
            ranks: found.ranks,
            algorithms: found.algorithms.clone(),
            measured_over_predicted: results::RatioRange { median, min, max },
        }
    };
    let of_network = |model: &NetworkModel| results::Model {
        network: model.network.clone(),
        provenance: Provenance::Modelled,
        parameters: model.parameters.iter().map(parameters).collect(),
        collectives: model.collectives.iter().map(collectives).collect(),
    };
    models.iter().map(of_network).collect()
}
