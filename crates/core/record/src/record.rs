//! The record itself.

use fabricmark_plan::{Figure, Point, Purpose, Testbed, Transport};
use fabricmark_stats::Sample;
use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Bottleneck;
use crate::calibration::Emulation;
use crate::figure::{Figures, Limits};
use crate::flow::Flow;
use crate::node::Node;
use crate::warning::Warning;

/// Version of the record's form; readers refuse a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// The share of invalid runs of a point beyond which nothing is concluded from its other runs.
pub const INVALID_SHARE_MAX: f64 = 0.1;

/// What one run leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of this form.
    pub schema: u32,
    /// Version of the program that wrote it.
    pub program: String,
    /// Where the run stands in its experiment.
    pub place: Place,
    /// What was run, every default filled in.
    pub point: Point,
    /// Where it was run.
    pub testbed: Testbed,
    /// Length asked for.
    pub duration_ns: Nanos,
    /// Time at the start of the run, before the duration, that is left out of the results: `omit` (iperf3 -O), and at
    /// least TCP's slow start over an emulated round trip. If 0, a stream leaves out a twentieth of its duration.
    #[serde(default)]
    pub omit_ns: Nanos,
    /// Length of a slice, where the run consists of slices between which the levels that it is compared with had the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<Nanos>,
    /// What was moved in each slice that counts, in the order of their rounds: of a stream or bursts the goodput in bit/s, else the
    /// answers each second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slice_rates: Vec<f64>,
    /// When it began, in RFC 3339.
    pub started: String,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The flows; each names its group.
    pub flows: Vec<Flow>,
    /// What was found.
    pub figures: Figures,
    /// What the wire allows.
    pub limits: Limits,
    /// What the emulator did, where the link was emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulation: Option<Emulation>,
    /// What kept it from being faster; absent where nothing shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// What to know before trusting it.
    pub warnings: Vec<Warning>,
    /// Whether the run counts.
    pub outcome: Outcome,
}

/// Where a run stands in its experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Digest of the resolved plan: its version, a dash, and 64 hexadecimal digits; of earlier versions of the program the
    /// digits alone.
    pub plan_digest: String,
    /// Seed of the order.
    pub seed: u64,
    /// Block, from 0.
    pub block: u32,
    /// Place in the block, from 0.
    pub place: u32,
    /// Index of the point in the plan.
    pub point: u32,
    /// Whether the run only warmed up and does not count.
    pub warm_up: bool,
}

/// Whether a run counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "reason", rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran to its end.
    Completed,
    /// The point is not run, or not any more, for this reason.
    Skipped(String),
    /// It ran but does not count, for this reason.
    Invalid(String),
}

/// What the instrument itself costs: both patterns over the `null` transport.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instrument {
    /// Mean time of one send of the stream pattern.
    pub stream_call_ns: f64,
    /// Mean round trip of the ping-pong pattern, its two clock readings included.
    pub ping_pong_ns: f64,
}

impl Record {
    /// The flows of the load: those that probe beside it are left out.
    pub fn load(&self) -> impl Iterator<Item = &Flow> {
        let probes = [Purpose::ProbeIdle.word(), Purpose::Probe.word()];
        self.flows.iter().filter(move |flow| !probes.contains(&flow.group.as_str()))
    }

    /// The figure that decides when a point has been run often enough, see [`Self::measured_value`];
    /// nothing where the run does not count.
    pub fn deciding_value(&self) -> Option<f64> {
        (self.outcome == Outcome::Completed).then(|| self.measured_value())?
    }

    /// A figure of the run with that of each slice, where the rate of the slices says it.
    pub fn sample(&self, figure: Figure) -> Option<Sample> {
        let value = self.figures.value(figure).filter(|value| value.is_finite())?;
        let slices = match figure.of_rate() {
            Some(true) => self.slice_rates.clone(),
            Some(false) => self.slice_rates.iter().map(|rate| 1.0 / rate).collect(),
            None => Vec::new(),
        };
        Some(Sample { value, slices })
    }

    /// [`Self::deciding_value`] with that of each slice.
    pub fn deciding_sample(&self) -> Option<Sample> {
        let value = self.deciding_value()?;
        self.sample(Figure::deciding(&self.point)).or(Some(value.into()))
    }

    /// What the run measured, whether it counts or not: goodput for streams and bursts, mean round trip
    /// for ping-pong, the rate of sending over `null`, where nothing arrives.
    pub fn measured_value(&self) -> Option<f64> {
        let deciding = Figure::deciding(&self.point);
        // A null transport delivers nothing, and is judged by what was handed to it.
        let is_null = self.point.transport == Transport::Null;
        let sent = self.figures.get(Figure::SendRate).filter(|_| is_null);
        let figure = self.figures.get(deciding).or(sent)?;
        Some(figure.value).filter(|value| value.is_finite() && *value > 0.0)
    }
}

/// The JSON Schema of a record, as text that ends in a newline.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Record);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    text.push('\n');
    text
}
