//! The record of a run.

use fabricmark_plan::{Figure, Pattern, Point, Purpose, Testbed, Transport};
use fabricmark_stats::Sample;
use fabricmark_units::Nanos;
use fabricmark_wire::{Ceiling, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Bottleneck;
use crate::calibration::Emulation;
use crate::figure::{Figures, Limits};
use crate::flow::{Alignment, Flow, TcpCounters};
use crate::mpi::Mpi;
use crate::node::Node;
use crate::series::Steady;
use crate::shop::ShopRun;
use crate::warning::Warning;

fn is_at_once(start: &Nanos) -> bool {
    start.0 == 0
}

/// Version of the record format; readers reject newer versions.
pub const SCHEMA_VERSION: u32 = 1;

/// Share of invalid runs of a point above which no conclusion is drawn from its other runs.
pub const INVALID_SHARE_MAX: f64 = 0.1;

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of the record format.
    pub schema: u32,
    /// Version of the program.
    pub program: String,
    /// Position of the run in its experiment.
    pub place: Place,
    /// What was run, with all defaults filled in.
    pub point: Point,
    /// Where the ends were.
    pub testbed: Testbed,
    /// Requested duration.
    pub duration_ns: Nanos,
    /// Time at the start of the run, before the duration, that is left out of the results: `omit` (iperf3 -O), and at
    /// least TCP's slow start over an emulated round trip. If 0, a stream leaves out a twentieth of its duration.
    #[serde(default)]
    pub omit_ns: Nanos,
    /// When the senders were to start, after those of the groups that started first.
    #[serde(default, skip_serializing_if = "is_at_once")]
    pub start_ns: Nanos,
    /// Whether the rate was steady over the time that counts; absent if the plan does not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Length of a slice, if the run consists of slices that alternate with those of compared levels, or of other
    /// points of an MPI job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<Nanos>,
    /// Rate of each counted slice; absent if the run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_rates: Option<SliceRates>,
    /// Start of the run, in RFC 3339.
    pub started: String,
    /// Both ends of the run, with facts and usage.
    pub nodes: Vec<Node>,
    /// Flows; each names its group.
    pub flows: Vec<Flow>,
    /// When the groups of the run were active; absent for a single group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
    /// Figures measured.
    pub figures: Figures,
    /// Ceilings and floors of the wire.
    pub limits: Limits,
    /// Counters of the emulator, if the link was emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulation: Option<Emulation>,
    /// The job and its results, if ranks communicated by MPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<Mpi>,
    /// The run of the bookstore, if its browsers were the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shop: Option<ShopRun>,
    /// What limited the run; absent without evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// What may make the figures wrong or misleading.
    pub warnings: Vec<Warning>,
    /// Whether the run counts.
    pub outcome: Outcome,
}

/// Position of a run in its experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Digest of the resolved plan: its version, a dash, and 64 hexadecimal digits; in records of earlier versions of
    /// the program only the digits.
    pub plan_digest: String,
    /// Seed of the random order.
    pub seed: u64,
    /// Block number, from 0.
    pub block: u32,
    /// Position in the block, from 0.
    pub place: u32,
    /// Index of the point in the plan.
    pub point: u32,
    /// Whether the run is a warm-up, which does not count.
    pub warm_up: bool,
}

/// Whether a run counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "reason", rename_all = "kebab-case")]
pub enum Outcome {
    /// The run is complete and counts.
    Completed,
    /// The point is not run, or no longer, for this reason.
    Skipped(String),
    /// The run does not count, for this reason.
    Invalid(String),
}

/// Rate of each counted slice of a run, in order of rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SliceRates {
    /// Goodput of a stream or of bursts, in bit/s.
    GoodputBps(Vec<f64>),
    /// Transactions per second.
    TransactionsPerS(Vec<f64>),
    /// One of these, in a record of an earlier version.
    #[serde(untagged)]
    Unnamed(Vec<f64>),
}

impl SliceRates {
    /// Rates of slices of this pattern; `None` if there are none.
    pub fn of(pattern: Pattern, rates: Vec<f64>) -> Option<Self> {
        if rates.is_empty() {
            return None;
        }
        Some(match pattern {
            Pattern::Stream | Pattern::Burst => Self::GoodputBps(rates),
            _ => Self::TransactionsPerS(rates),
        })
    }

    fn all(&self) -> &[f64] {
        match self {
            Self::GoodputBps(rates) | Self::TransactionsPerS(rates) | Self::Unnamed(rates) => rates,
        }
    }
}

/// Overhead of the program itself, measured with two patterns over the `null` transport.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instrument {
    /// Mean time of a send call of the stream pattern.
    pub stream_call_ns: f64,
    /// Mean RTT of the ping-pong pattern, including its two clock readings.
    pub ping_pong_ns: f64,
}

impl Record {
    /// Whether the run counts: it was completed and is not a warm-up.
    pub fn counts(&self) -> bool {
        self.outcome == Outcome::Completed && !self.place.warm_up
    }

    /// Flows of the load, without probes.
    pub fn load(&self) -> impl Iterator<Item = &Flow> {
        let probes = [Purpose::ProbeIdle.word(), Purpose::Probe.word()];
        self.flows.iter().filter(move |flow| !probes.contains(&flow.group.as_str()))
    }

    /// The figure that decides when a point has enough runs, see [`Self::measured_value`]; `None` if the run does not
    /// count.
    pub fn deciding_value(&self) -> Option<f64> {
        (self.outcome == Outcome::Completed).then(|| self.measured_value())?
    }

    /// A figure of the run and of each slice, if it follows from the rates of the slices.
    pub fn sample(&self, figure: Figure) -> Option<Sample> {
        let value = self.figures.value(figure).filter(|value| value.is_finite())?;
        let rates = self.slice_rates.as_ref().map(SliceRates::all).unwrap_or_default();
        let slices = rates.iter().filter_map(|&rate| figure.at_rate(&self.point, rate)).collect();
        Some(Sample { value, slices })
    }

    /// [`Self::deciding_value`] and its value in each slice.
    pub fn deciding_sample(&self) -> Option<Sample> {
        let value = self.deciding_value()?;
        self.sample(Figure::deciding(&self.point)).or(Some(value.into()))
    }

    /// Shares of the ceilings of the wire that the goodput of a stream or of bursts reached.
    pub fn ceiling_shares(&self) -> impl Iterator<Item = f64> {
        let is_goodput = Figure::deciding(&self.point) == Figure::Goodput;
        let goodput_bps = self.figures.value(Figure::Goodput).filter(|_| is_goodput);
        let merges = self.load().any(|flow| flow.tcp.as_ref().is_some_and(TcpCounters::is_merged));
        let is_of_wire = move |ceiling: &&Ceiling| {
            !ceiling.inputs.contains_key("window_bytes")
                // The ceiling of single writes says nothing about merged ones.
                && (ceiling.kind == Kind::Bound || !merges)
        };
        let ceilings = self.limits.ceilings.iter().filter(is_of_wire);
        ceilings.filter_map(move |ceiling| Some(goodput_bps? / ceiling.goodput_bps.as_f64()))
    }

    /// Main result of the run, whether it counts or not: goodput of streams and bursts, mean RTT of ping-pong, send
    /// rate over `null`, where nothing arrives.
    pub fn measured_value(&self) -> Option<f64> {
        let deciding = Figure::deciding(&self.point);
        // The null transport delivers nothing, so its send rate is used.
        let is_null = self.point.transport == Transport::Null;
        let sent = self.figures.get(Figure::SendRate).filter(|_| is_null);
        let figure = self.figures.get(deciding).or(sent)?;
        Some(figure.value).filter(|value| value.is_finite() && *value > 0.0)
    }
}

/// The JSON Schema of a type, such as [`Record`], ending in a newline.
pub fn schema<T: JsonSchema>() -> String {
    let schema = schemars::schema_for!(T);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_slices_have_a_unit_in_their_key_which_earlier_versions_lacked() {
        let rates = SliceRates::of(Pattern::Stream, vec![1.5, 2.0]);
        assert_eq!(serde_json::to_string(&rates).unwrap(), r#"{"goodput_bps":[1.5,2.0]}"#);
        let read = |text| serde_json::from_str::<SliceRates>(text).unwrap();
        let named = SliceRates::TransactionsPerS(vec![5.0]);
        assert_eq!(read(r#"{"transactions_per_s":[5.0]}"#), named);
        assert_eq!(read("[5.0]").all(), named.all());
    }
}
