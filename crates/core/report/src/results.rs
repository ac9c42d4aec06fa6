//! The data of `results.json`: base units, with the unit in the key. Its schema is `docs/results.schema.json`.

use std::collections::BTreeMap;

use fabricmark_plan::{Benchmark, Factor, Figure, Interaction, Level};
use fabricmark_record::{Alignment, Bottleneck, Drops, Instrument, Provenance};
use fabricmark_stats::{self as stats, Verdict};
use fabricmark_units::Nanos;
use fabricmark_wire::Kind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::Answer;

/// Results of an experiment: tables, cells and comparisons with all estimates, without single runs. Values are in the
/// base unit that their key names; counts have no unit, and changes and shares are fractions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Results {
    /// Name of the experiment.
    pub(crate) name: String,
    /// Title of its plan.
    pub(crate) title: String,
    /// Description in its plan.
    pub(crate) about: String,
    /// Start of the experiment, in RFC 3339.
    pub(crate) started: String,
    /// Command that reproduces the experiment.
    pub(crate) reproduce: String,
    /// Whether the plan's `[quick]` table was applied.
    pub(crate) quick: bool,
    /// Whether all planned runs have a record.
    pub(crate) complete: bool,
    /// Seed of the random order.
    pub(crate) seed: u64,
    /// Digest of the plan.
    pub(crate) plan_digest: String,
    /// Overhead of the program itself, if measured.
    pub(crate) instrument: Option<Instrument>,
    /// What the tables say, in sentences.
    pub(crate) answers: Vec<Answer>,
    /// Tables of the plan.
    pub(crate) tables: Vec<Table>,
    /// Gain by the number of flows, if it varies.
    pub(crate) scaling: Vec<Scaling>,
    /// Groups of flows that run at once.
    pub(crate) sharing: Vec<Sharing>,
    /// Models of message passing, fitted to MPI benchmarks.
    pub(crate) models: Vec<Model>,
    /// The bookstore.
    pub(crate) shop: Vec<Shop>,
    /// Settings and rules, as text.
    pub(crate) method: BTreeMap<String, String>,
}

/// A table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Table {
    /// Title.
    pub(crate) title: String,
    /// Figure in the cells.
    pub(crate) figure: Figure,
    /// Factors of the rows, outermost first.
    pub(crate) rows: Vec<Factor>,
    /// Published table beside it.
    pub(crate) published: Option<String>,
    /// Parts of the table.
    pub(crate) groups: Vec<Group>,
    /// Notes below the table.
    pub(crate) notes: Vec<String>,
}

/// The part of a table whose points share the levels of all factors but those of rows and of the innermost column.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Group {
    /// Title.
    pub(crate) title: String,
    /// Levels of the group.
    pub(crate) levels: Levels,
    /// Rows.
    pub(crate) rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Row {
    /// Levels of the row.
    pub(crate) levels: Levels,
    /// Cells from left to right.
    pub(crate) cells: Vec<Cell>,
    /// Comparisons of the plan.
    pub(crate) comparisons: Vec<RowComparison>,
}

/// Levels by factor, those of sizes as `FACTOR_bytes`; a factor that does not apply is absent.
pub(crate) type Levels = BTreeMap<String, LevelValue>;

/// A level.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum LevelValue {
    /// Of a size, in bytes.
    Bytes(u64),
    /// Of any other factor, as in plan files, where quantities have a unit: `4ms`.
    Text(Level),
}

/// A figure over the runs of a point. Further keys are the key of the figure (`goodput_bps`), `median_UNIT`, the
/// median of the runs, `limit_UNIT`, the ceiling or floor, `message_limit_UNIT`, the ceiling of TCP if each write has
/// segments of its own, and `published_UNIT`, the published value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Cell {
    /// Levels of the point, defaults included.
    pub(crate) levels: Levels,
    #[serde(flatten)]
    pub(crate) quantities: BTreeMap<String, Quantity>,
    /// Origin of the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provenance: Option<Provenance>,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
    /// Number of invalid runs, which do not count; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid_runs: Option<usize>,
    /// `true` if the kernel merged writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merged: Option<bool>,
    /// Writes per data segment of TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) writes_per_segment: Option<f64>,
    /// Retransmitted segments of TCP in all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retransmitted: Option<u64>,
    /// Packets that QUIC declared lost in all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost_packets: Option<u64>,
    /// Lost datagrams of a stream in all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) loss: Option<Loss>,
    /// What limited the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limited_by: Option<Bottleneck>,
}

/// A value whose key names its unit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Quantity {
    /// An estimate over runs.
    Estimate(Estimated),
    /// A ceiling or floor.
    Limit(Limit),
    /// A published value.
    Published(f64),
}

/// An estimate over runs, in the unit that its key names.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Estimated {
    /// Point estimate.
    value: f64,
    /// Lower end of the confidence interval; `null` for fewer than `n_needed` runs.
    low: Option<f64>,
    /// Upper end.
    high: Option<f64>,
    /// Number of runs.
    n: usize,
    /// Number of runs that an interval needs.
    n_needed: usize,
    /// Nominal coverage of the interval as a fraction.
    confidence: f64,
}

/// A ceiling or floor, in the unit that its key names.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Limit {
    /// Value.
    pub(crate) value: f64,
    /// How firmly it stands.
    pub(crate) kind: Kind,
    /// Formula, over the names of its inputs.
    pub(crate) formula: String,
    /// The figure divided by the limit: 0.94 is 94 % of a ceiling, 3 is three times a floor.
    pub(crate) measured_over_limit: f64,
}

/// Lost datagrams.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Loss {
    /// Datagrams sent.
    pub(crate) sent: u64,
    /// Lost datagrams as a share of them.
    pub(crate) share: f64,
    /// Where they were lost.
    pub(crate) drops: Drops,
}

/// Comparison of two levels in a row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RowComparison {
    /// The compared factor.
    pub(crate) factor: Factor,
    /// Level that is compared against.
    pub(crate) baseline: Level,
    /// Level that is judged.
    pub(crate) candidate: Level,
    /// The comparison; `null` if there are too few valid runs, or it is withheld.
    pub(crate) result: Option<Comparison>,
    /// Why it is withheld.
    pub(crate) withheld: Option<String>,
    /// Change of the limits, as a fraction: what the wire alone would cause.
    pub(crate) change_of_limits: Option<f64>,
}

/// A change from a baseline to a candidate, with its verdict and p-values.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Comparison {
    /// Change as a fraction of the baseline: -0.05 is 5 % less.
    change: Estimated,
    /// Verdict on the candidate, after correction for the family.
    verdict: Verdict,
    /// Two-sided p-value of the t test.
    p_t: f64,
    /// Two-sided p-value of the rank test, which does not affect the verdict.
    p_rank: f64,
    /// `p_t` with Holm's correction for the other comparisons.
    p_holm: f64,
    /// Minimum detectable effect (MDE) as a fraction.
    smallest_visible_change: Option<f64>,
    /// Change, as a fraction, up to which both count as the same.
    tie_band: f64,
}

/// The numbers of flows at one combination of all other levels.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Scaling {
    /// Levels that vary.
    pub(crate) levels: Levels,
    /// The compared figure.
    pub(crate) figure: Figure,
    /// The fewest flows.
    pub(crate) fewest: AtFlows,
    /// The number of flows with the highest figure.
    pub(crate) best: AtFlows,
    /// Change from the fewest to the best, as a fraction; `null` if they are the same.
    pub(crate) gain: Option<Estimated>,
    /// Fewest flows whose figure is below the best by no more than the tie band.
    pub(crate) saturates_at_flows: u32,
}

/// A figure, under its key, at a number of flows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct AtFlows {
    /// Number of flows.
    pub(crate) flows: u32,
    #[serde(flatten)]
    pub(crate) figure: BTreeMap<String, Estimated>,
}

/// Groups of flows that run at once, at one combination of levels.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Sharing {
    /// Levels that vary.
    pub(crate) levels: Levels,
    /// Origins of the figures.
    pub(crate) provenance: Vec<Provenance>,
    /// The groups.
    pub(crate) groups: Vec<FlowGroup>,
    /// All groups together; `null` if one has no goodput.
    pub(crate) sum: Option<Sum>,
    /// Over all runs: the largest distances, and the smallest overlap.
    pub(crate) alignment: Option<Alignment>,
    /// CPU time of the client's machine with all groups.
    pub(crate) cpu: Option<Cpu>,
}

/// A group of flows. Further keys are `together_KEY` and `alone_KEY`, with the key of its figure: with all groups, and
/// of this group alone, `null` without `[interference]`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FlowGroup {
    /// Name.
    pub(crate) group: String,
    /// The figure.
    pub(crate) figure: Figure,
    #[serde(flatten)]
    pub(crate) estimates: BTreeMap<String, Option<Estimated>>,
    /// Change from alone to together, as a fraction.
    pub(crate) change: Option<Estimated>,
    /// Part of the sum of all goodputs.
    pub(crate) share: Option<Estimated>,
    /// CPU time of the client's machine with this group alone.
    pub(crate) cpu_alone: Option<Cpu>,
}

/// All groups together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Sum {
    /// Sum of the goodputs.
    pub(crate) goodput_bps: Estimated,
    /// Change from each group alone to the sum.
    pub(crate) against_alone: Vec<AgainstAlone>,
    /// Jain's index of the goodputs.
    pub(crate) jain: Estimated,
    /// Largest goodput over smallest.
    pub(crate) ratio: GroupRatio,
    /// What the groups share, if known.
    pub(crate) medium: Option<SharedMedium>,
}

/// Change from a group alone to the sum.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct AgainstAlone {
    /// The group.
    pub(crate) group: String,
    /// Change as a fraction.
    pub(crate) change: Estimated,
}

/// Ratio of the goodputs of two groups.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct GroupRatio {
    /// Group with the largest goodput.
    pub(crate) of: String,
    /// Group with the smallest.
    pub(crate) to: String,
    /// The ratio.
    pub(crate) value: Estimated,
}

/// What all groups cross.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SharedMedium {
    /// Its name.
    pub(crate) shared: String,
    /// Share of it that was used.
    pub(crate) used_share: Estimated,
}

/// CPU time of a machine, as shares: means over runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Cpu {
    /// Of all CPUs' time, busy.
    pub(crate) busy_share: f64,
    /// Of the busiest CPU's time, busy.
    pub(crate) busiest_cpu_share: f64,
    /// Of a CPU's time, soft interrupts: the largest of all CPUs.
    pub(crate) softirq_max_share: f64,
}

/// Models of the messages of an MPI library over a transport and a link.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Model {
    /// Transport, library and link.
    pub(crate) network: String,
    /// Origin of the figures: always `modelled`.
    pub(crate) provenance: Provenance,
    /// Fitted parameters: time = latency + bytes / bandwidth.
    pub(crate) parameters: Vec<ModelParameters>,
    /// How well algorithms predict collective operations.
    pub(crate) collectives: Vec<PredictedCollective>,
}

/// A line fitted to the times of a benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ModelParameters {
    /// The benchmark.
    pub(crate) benchmark: Benchmark,
    /// Smallest size.
    pub(crate) from_bytes: u64,
    /// Largest size.
    pub(crate) to_bytes: u64,
    /// Latency.
    pub(crate) latency_ns: Option<Estimated>,
    /// Bandwidth.
    pub(crate) bandwidth_bps: Option<Estimated>,
    /// Size at half of the bandwidth.
    pub(crate) half_bandwidth_bytes: Option<Estimated>,
    /// Largest relative error.
    pub(crate) error_max_share: f64,
}

/// A collective operation beside the prediction of its best algorithm.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PredictedCollective {
    /// The operation.
    pub(crate) benchmark: Benchmark,
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// The best algorithm, and those that are the same with this number of ranks.
    pub(crate) algorithms: Vec<&'static str>,
    /// Measured time over predicted time, over the sizes.
    pub(crate) measured_over_predicted: RatioRange,
}

/// Ratios.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RatioRange {
    /// Median.
    pub(crate) median: f64,
    /// Smallest.
    pub(crate) min: f64,
    /// Largest.
    pub(crate) max: f64,
}

/// Runs of the bookstore at one combination of levels.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Shop {
    /// Levels that vary.
    pub(crate) levels: Levels,
    /// Number of emulated browsers.
    pub(crate) browsers: u32,
    /// Web interactions per second.
    pub(crate) interactions_per_s: Option<Estimated>,
    /// Mean response time.
    pub(crate) response_mean_ns: Option<Estimated>,
    /// Mean think time; 0 in an open loop.
    pub(crate) think_time_ns: f64,
    /// Interactions per second that no closed loop exceeds, N / (Z + R); `null` in an open loop.
    pub(crate) bound_per_s: Option<f64>,
    /// CPU time of the emulated browsers, as a share of the time.
    pub(crate) emulator_cpu_share: f64,
    /// Mean-value analysis.
    pub(crate) model: Option<ShopModel>,
    /// The tiers.
    pub(crate) tiers: Vec<Tier>,
    /// The interactions.
    pub(crate) interactions: Vec<ShopInteraction>,
    /// Errors of pages.
    pub(crate) errors: Vec<String>,
}

/// Mean-value analysis from the measured service demands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ShopModel {
    /// Origin of the figures: always `modelled`.
    pub(crate) provenance: Provenance,
    /// Web interactions per second.
    pub(crate) interactions_per_s: f64,
    /// Mean response time.
    pub(crate) response_mean_ns: f64,
    /// Largest number of interactions per second.
    pub(crate) capacity_per_s: f64,
    /// What limits it first.
    pub(crate) bottleneck: String,
    /// Share of the bottleneck's CPUs in use.
    pub(crate) utilisation_share: f64,
}

/// A tier: means over runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Tier {
    /// Its node.
    pub(crate) node: String,
    /// Program and version.
    pub(crate) program: String,
    /// CPU time over the time of the load.
    pub(crate) cpu_share: Option<Estimated>,
    /// CPU time per web interaction.
    pub(crate) demand_us_per_interaction: Option<Estimated>,
    /// Rate of sent data.
    pub(crate) sent_bps: Option<Estimated>,
    /// Rate of received data.
    pub(crate) received_bps: Option<Estimated>,
}

/// A web interaction: means over runs, and the median of percentiles.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ShopInteraction {
    /// The interaction.
    pub(crate) interaction: Interaction,
    /// Number of pages.
    pub(crate) pages: u64,
    /// Number of failed pages.
    pub(crate) errors: u64,
    /// 90th percentile of the response time.
    pub(crate) p90_ns: Option<Estimated>,
    /// TPC-W's limit of it.
    pub(crate) limit_ns: Nanos,
    /// Share of the pages above the limit.
    pub(crate) over_limit_share: Option<Estimated>,
    /// Mean time in the application server.
    pub(crate) app_mean_ns: f64,
    /// Mean time in the database.
    pub(crate) database_mean_ns: f64,
    /// Mean time of the images.
    pub(crate) images_mean_ns: f64,
    /// Rest of the mean response time: web server and network.
    pub(crate) rest_mean_ns: f64,
    /// Statements per page.
    pub(crate) statements: f64,
}

impl From<&stats::Estimate> for Estimated {
    fn from(estimate: &stats::Estimate) -> Self {
        let &stats::Estimate { value, interval, n, n_needed, confidence } = estimate;
        Self {
            value,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            n,
            n_needed,
            confidence,
        }
    }
}

impl From<&stats::Comparison> for Comparison {
    fn from(comparison: &stats::Comparison) -> Self {
        Self {
            change: (&comparison.change).into(),
            verdict: comparison.verdict,
            p_t: comparison.p_t,
            p_rank: comparison.p_rank,
            p_holm: comparison.p_adjusted,
            smallest_visible_change: comparison.smallest_visible,
            tie_band: comparison.tie_band,
        }
    }
}
