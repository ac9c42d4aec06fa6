//! What the emulator of links did during a run, and was found to do when it measured itself.

mod rows;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Record;
use rows::{Group, Kind, groups, rows};

/// How far a delivered rate may be from what the wire allows, as a share of it, for the rate to count as
/// true.
pub const RATE_GOAL: f64 = 0.005;

/// How far a delay may be from what was asked for, in ns: the goal for its mean and its 99th percentile.
pub const DELAY_GOAL_NS: f64 = 100_000.0;

/// The share of the processors' time that others may have while a calibration is made; beyond it the
/// machine was too busy to say what its emulator can do.
pub const BUSY_SHARE: f64 = 0.1;

/// What the emulator did on a machine, asked against delivered: `fabricmark lab calibrate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// When the last of its runs began, in RFC 3339.
    pub at: String,
    /// Version of the program.
    pub program: String,
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Processors that the program could use.
    pub cpus: u32,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Largest rate of a wire that was delivered to [`RATE_GOAL`], with super-packets whole, in bit/s;
    /// absent where none of those tried was: nothing is known of others then.
    pub true_rate_bps: Option<f64>,
    /// The same in single packets.
    pub true_rate_single_bps: Option<f64>,
    /// Largest 99th percentile of how much later than asked packets came over an idle link, in ns.
    pub delay_error_p99_ns: Option<f64>,
    /// 99th percentile of how much longer than asked the round trip beside a stream was, in ns; what the
    /// hosts took for it is in it.
    pub loaded_delay_error_p99_ns: Option<f64>,
    /// Goodput of one TCP connection over a link without a rate, with super-packets whole, in bit/s.
    pub highest_rate_bps: Option<f64>,
    /// Largest share of the processors' time that others had meanwhile: what the hypervisor took in a
    /// run, or what other programs had and the hypervisor took just before one of the plans. Absent
    /// where it is not known.
    #[serde(default)]
    pub busy_share: Option<f64>,
    /// What was asked for and what came.
    pub rows: Vec<CalibrationRow>,
}

/// One thing that the emulator was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationRow {
    /// What it is.
    pub what: Quantity,
    /// The words of the link.
    pub words: String,
    /// Whether super-packets crossed it whole.
    pub offloaded: bool,
    /// What was asked for; absent where nothing was.
    pub asked: Option<f64>,
    /// What came.
    pub delivered: f64,
    /// Lower end of its interval; absent with too few runs for one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Unit of these four.
    pub unit: Unit,
    /// Delivered less asked: of delays in ns, else as a share of what was asked for.
    pub error: Option<f64>,
    /// Whether the goal was reached; absent where there is none.
    pub holds: Option<bool>,
}

/// What a row of a calibration is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Mean round trip over a link without a delay: the time that the hosts take.
    HostTime,
    /// Mean round trip less [`Self::HostTime`].
    Delay,
    /// 99th percentile of the round trips less the mean of [`Self::HostTime`].
    DelayP99,
    /// 99th percentile of how much later than due packets departed, of the later direction.
    LateP99,
    /// 99th percentile of the round trips beside a stream, the hosts' time in it.
    LoadedDelayP99,
    /// [`Self::LateP99`] of that stream and its probe.
    LoadedLateP99,
    /// Goodput of that stream, beside the rate of its pacing, headers included.
    LoadedRate,
    /// Goodput of a stream beside what the wire allows it.
    Rate,
    /// Share of packets that were lost.
    Loss,
    /// Standard deviation of the delay in one direction.
    Jitter,
    /// Goodput of a stream over a link without a rate.
    HighestRate,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HostTime => "hosts' own time",
            Self::Delay => "delay",
            Self::DelayP99 => "delay, p99",
            Self::LateP99 => "lateness, p99",
            Self::LoadedDelayP99 => "loaded delay, p99",
            Self::LoadedLateP99 => "loaded lateness, p99",
            Self::LoadedRate => "rate of that load",
            Self::Rate => "rate",
            Self::Loss => "loss",
            Self::Jitter => "jitter",
            Self::HighestRate => "highest rate",
        })
    }
}

/// Unit of what was asked for and delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// A share of 1.
    #[serde(rename = "share")]
    Share,
}

/// A calibration in short, as records carry it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// When its last run began, in RFC 3339.
    pub at: String,
    /// Largest rate of a wire that was true with super-packets whole, in bit/s; absent where none
    /// that was tried was.
    pub true_rate_bps: Option<f64>,
    /// The same in single packets.
    pub true_rate_single_bps: Option<f64>,
    /// Largest 99th percentile of how much later than asked packets came over an idle link, in
    /// ns.
    pub delay_error_p99_ns: Option<f64>,
    /// 99th percentile of how much longer than asked the round trip beside a stream was, in ns;
    /// what the hosts took for it is in it.
    pub loaded_delay_error_p99_ns: Option<f64>,
    /// Largest share of the processors' time that others had while it was made; absent where it is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_share: Option<f64>,
}

impl Calibrated {
    /// The share of the processors' time that others had while it was made, where that was too much:
    /// more than [`BUSY_SHARE`].
    pub fn too_busy(&self) -> Option<f64> {
        self.busy_share.filter(|&share| share > BUSY_SHARE)
    }
}

impl Calibration {
    /// What runs over emulated links say, plan after plan, with intervals of that confidence; `None`
    /// without a run that counts. The machine is that of the first of them.
    ///
    /// What a run was for follows from its point: losses and jitter from the words, rates and delays
    /// from the pattern.
    pub fn of(records: &[Record], confidence: f64) -> Option<Self> {
        let groups = groups(records);
        let first = *groups.first()?.runs.first()?;
        let machine = &first.nodes.first()?.host;
        let at = groups.iter().flat_map(|group| &group.runs).map(|run| run.started.clone()).max();
        let rows = rows(&groups, confidence);
        let true_rate = |offloaded: bool| {
            let is_true = |row: &CalibrationRow| {
                row.what == Quantity::Rate && row.offloaded == offloaded && row.holds == Some(true)
            };
            let held = |words: &str| rows.iter().any(|row| row.words == words && is_true(row));
            let rates =
                groups.iter().filter(|group| group.kind == Kind::Rate && held(&group.words));
            rates.filter_map(Group::rate_bps).max_by(f64::total_cmp)
        };
        let largest_error = |quantities: &[Quantity]| {
            let errors = rows.iter().filter(|row| quantities.contains(&row.what));
            errors.filter_map(|row| row.error).map(|error| error.max(0.0)).max_by(f64::total_cmp)
        };
        let highest = rows.iter().find(|row| row.what == Quantity::HighestRate && row.offloaded);
        Some(Self {
            at: at.unwrap_or_default(),
            program: first.program.clone(),
            hostname: machine.hostname.clone(),
            kernel: machine.kernel.clone(),
            cpus: machine.cpus,
            confidence,
            true_rate_bps: true_rate(true),
            true_rate_single_bps: true_rate(false),
            delay_error_p99_ns: largest_error(&[Quantity::DelayP99, Quantity::LateP99]),
            loaded_delay_error_p99_ns: largest_error(&[Quantity::LoadedDelayP99]),
            highest_rate_bps: highest.map(|row| row.delivered),
            busy_share: stolen_share(&groups),
            rows,
        })
    }

    /// Whether it says something about runs of this program on a machine of this kernel and so many
    /// processors.
    pub fn counts_for(&self, program: &str, kernel: &str, cpus: u32) -> bool {
        self.program == program && self.kernel == kernel && self.cpus == cpus
    }

    /// The largest rate that was true, with super-packets whole or in single packets.
    pub fn true_rate(&self, offloaded: bool) -> Option<f64> {
        if offloaded { self.true_rate_bps } else { self.true_rate_single_bps }
    }

    /// What records carry of it.
    pub fn in_short(&self) -> Calibrated {
        Calibrated {
            at: self.at.clone(),
            true_rate_bps: self.true_rate_bps,
            true_rate_single_bps: self.true_rate_single_bps,
            delay_error_p99_ns: self.delay_error_p99_ns,
            loaded_delay_error_p99_ns: self.loaded_delay_error_p99_ns,
            busy_share: self.busy_share,
        }
    }

    /// With what others had of the processors, as shares of their time, before its runs: the largest
    /// counts.
    pub fn beside(mut self, busy_shares: &[f64]) -> Self {
        let all = busy_shares.iter().copied().chain(self.busy_share);
        self.busy_share = all.max_by(f64::total_cmp);
        self
    }
}

/// The largest share of the time to run that the hypervisor took in a run.
fn stolen_share(groups: &[Group<'_>]) -> Option<f64> {
    let nodes = groups.iter().flat_map(|group| &group.runs).flat_map(|run| &run.nodes);
    let shares = nodes.filter_map(|node| node.usage.as_ref()?.stolen_share());
    shares.max_by(f64::total_cmp)
}

/// How reasons begin for which a run does not count and that are the emulator's.
pub const THE_EMULATOR: &str = "the emulator";

/// An emulated link during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Emulation {
    /// What it was asked to do in both directions, as link words.
    pub words: String,
    /// Whether super-packets crossed it whole, so that no single frame was seen.
    pub offloaded: bool,
    /// The processor that its thread was bound to.
    pub cpu: Option<u32>,
    /// How true the emulator is on this machine; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
    /// Time in which the emulator's thread took or delivered packets; absent in records of versions that did not count
    /// it, and of slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// From the node that opens flows.
    pub there: EmulatedWay,
    /// To it.
    pub back: EmulatedWay,
}

/// One direction of an emulated link during a run, in packets of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmulatedWay {
    /// Came from the sending device; segments of super-packets count each.
    pub arrived: u64,
    /// Written to the receiving device.
    pub departed: u64,
    /// Bytes of these; absent in records of versions that did not count them.
    #[serde(default)]
    pub departed_bytes: Option<u64>,
    /// Dropped as it was asked for: by loss, a full queue, an outage.
    pub dropped: u64,
    /// What was not asked for: dropped by the sending device before the emulator took it, or refused by
    /// the receiving one. 0 in a healthy run.
    pub missed: u64,
    /// Super-packets that came, of several segments each.
    pub super_packets: u64,
    /// Median of how much later than due they were written, in ns.
    pub late_p50_ns: Option<u64>,
    /// 99th percentile of it.
    pub late_p99_ns: Option<u64>,
    /// The latest of all.
    pub late_max_ns: Option<u64>,
}
