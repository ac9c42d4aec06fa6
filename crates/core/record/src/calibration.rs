//! The link emulator: its counters in a run, and its measured accuracy.

mod rows;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Record;
use rows::{Group, Kind, groups, rows};

/// Largest error of a delivered rate, as a share of what the wire allows, at which the rate counts as accurate.
pub const RATE_GOAL: f64 = 0.005;

/// Largest error of a delay in ns: the goal for its mean and its 99th percentile.
pub const DELAY_GOAL_NS: f64 = 100_000.0;

/// Largest share of the CPU time that others may have during a calibration; above it the machine was too busy to
/// measure its emulator.
pub const BUSY_SHARE: f64 = 0.1;

/// Accuracy of the emulator on a machine, requested against delivered: `fabricmark lab calibrate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Start of its last run, in RFC 3339.
    pub at: String,
    /// Version of the program.
    pub program: String,
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// CPUs that the program could use.
    pub cpus: u32,
    /// Confidence of the intervals, from 0 to 1.
    pub confidence: f64,
    /// Largest rate of a wire that was delivered within [`RATE_GOAL`], with super-packets, in bit/s; absent if no
    /// tested rate was.
    pub true_rate_bps: Option<f64>,
    /// The same with single packets.
    pub true_rate_single_bps: Option<f64>,
    /// Largest 99th percentile of the extra delay over an idle link, in ns.
    pub delay_error_p99_ns: Option<f64>,
    /// 99th percentile of the extra RTT beside a stream, in ns; includes the time of the hosts.
    pub loaded_delay_error_p99_ns: Option<f64>,
    /// Goodput of one TCP connection over a link without a rate, with super-packets, in bit/s.
    pub highest_rate_bps: Option<f64>,
    /// Largest share of the CPU time that others had: the hypervisor during a run, or other programs and the
    /// hypervisor just before a plan. Absent if unknown.
    #[serde(default)]
    pub busy_share: Option<f64>,
    /// Requested and delivered values.
    pub rows: Vec<CalibrationRow>,
}

/// One requested property of an emulated link, and what was delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationRow {
    /// The property.
    pub what: Quantity,
    /// Options of the link.
    #[serde(alias = "words")]
    pub options: String,
    /// Whether super-packets crossed the link unsegmented.
    pub offloaded: bool,
    /// Requested value; absent if none.
    pub asked: Option<f64>,
    /// Delivered value.
    pub delivered: f64,
    /// Lower end of its interval; absent if there are too few runs.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Unit of the four values.
    pub unit: Unit,
    /// Delivered minus requested: in ns for delays, else as a share of the requested value.
    pub error: Option<f64>,
    /// Whether the goal was met; absent without a goal.
    pub holds: Option<bool>,
}

/// Property in a row of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Baseline host RTT: mean RTT over a link without delay.
    HostTime,
    /// Mean RTT minus [`Self::HostTime`].
    Delay,
    /// 99th percentile of the RTT minus the mean of [`Self::HostTime`].
    DelayP99,
    /// 99th percentile of the emulator's lateness, in the later direction.
    LateP99,
    /// 99th percentile of the RTT beside a stream, host time included.
    LoadedDelayP99,
    /// [`Self::LateP99`] of that stream and its probe.
    LoadedLateP99,
    /// Goodput of that stream, against its pacing rate with headers.
    LoadedRate,
    /// Goodput of a stream, against what the wire allows.
    Rate,
    /// Share of lost packets.
    Loss,
    /// Standard deviation of the one-way delay.
    Jitter,
    /// Goodput of a stream over a link without a rate.
    HighestRate,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HostTime => "baseline host RTT",
            Self::Delay => "delay",
            Self::DelayP99 => "delay, p99",
            Self::LateP99 => "lateness, p99",
            Self::LoadedDelayP99 => "loaded delay, p99",
            Self::LoadedLateP99 => "loaded lateness, p99",
            Self::LoadedRate => "loaded rate",
            Self::Rate => "rate",
            Self::Loss => "loss",
            Self::Jitter => "jitter",
            Self::HighestRate => "highest rate",
        })
    }
}

/// Unit of requested and delivered values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// A share from 0 to 1.
    #[serde(rename = "share")]
    Share,
}

/// Summary of a calibration, as part of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// Start of its last run, in RFC 3339.
    pub at: String,
    /// Largest rate of a wire that was accurate with super-packets, in bit/s; absent if no tested rate was.
    pub true_rate_bps: Option<f64>,
    /// The same with single packets.
    pub true_rate_single_bps: Option<f64>,
    /// Largest 99th percentile of the extra delay over an idle link, in ns.
    pub delay_error_p99_ns: Option<f64>,
    /// 99th percentile of the extra RTT beside a stream, in ns; includes the time of the hosts.
    pub loaded_delay_error_p99_ns: Option<f64>,
    /// Largest share of the CPU time that others had during the calibration; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_share: Option<f64>,
}

impl Calibrated {
    /// Share of the CPU time that others had during the calibration, if it was above [`BUSY_SHARE`].
    pub fn too_busy(&self) -> Option<f64> {
        self.busy_share.filter(|&share| share > BUSY_SHARE)
    }
}

impl Calibration {
    /// Computes a calibration from runs over emulated links, in the order of their plans; `None` without a valid run.
    /// The machine is that of the first run.
    ///
    /// The purpose of a run follows from its point: loss and jitter from the link options, rate and delay from the
    /// pattern.
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
            let held =
                |options: &str| rows.iter().any(|row| row.options == options && is_true(row));
            let rates =
                groups.iter().filter(|group| group.kind == Kind::Rate && held(&group.options));
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

    /// Whether the calibration applies to this version of the program, kernel and number of CPUs.
    pub fn counts_for(&self, program: &str, kernel: &str, cpus: u32) -> bool {
        self.program == program && self.kernel == kernel && self.cpus == cpus
    }

    /// The largest accurate rate with super-packets (`offloaded`) or single packets, in bit/s.
    pub fn true_rate(&self, offloaded: bool) -> Option<f64> {
        if offloaded { self.true_rate_bps } else { self.true_rate_single_bps }
    }

    /// Summary for records.
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

    /// Adds the shares of CPU time that others had before its runs; the largest one is kept.
    pub fn beside(mut self, busy_shares: &[f64]) -> Self {
        let all = busy_shares.iter().copied().chain(self.busy_share);
        self.busy_share = all.max_by(f64::total_cmp);
        self
    }
}

/// Largest share of the runnable time that the hypervisor took in a run.
fn stolen_share(groups: &[Group<'_>]) -> Option<f64> {
    let nodes = groups.iter().flat_map(|group| &group.runs).flat_map(|run| &run.nodes);
    let shares = nodes.filter_map(|node| node.usage.as_ref()?.stolen_share());
    shares.max_by(f64::total_cmp)
}

/// Prefix of the reasons for which the emulator made a run invalid.
pub const THE_EMULATOR: &str = "the emulator";

/// An emulated link during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Emulation {
    /// Options of both directions.
    #[serde(alias = "words")]
    pub options: String,
    /// Whether super-packets crossed the link unsegmented, so that no single frame was seen.
    pub offloaded: bool,
    /// CPU that the emulator's thread was bound to.
    pub cpu: Option<u32>,
    /// Accuracy of the emulator on this machine; absent if not calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
    /// Time in which the emulator's thread received or delivered packets. Absent in slices and in records of versions
    /// that did not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// CPU time of the emulator's thread, which includes polling. Absent in slices and in records of versions that did not
    /// read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Run delay of the emulator's thread: time on a run queue, waiting for a CPU. Absent as `cpu_ns` is, and if the kernel
    /// does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Direction from the client.
    #[serde(alias = "there")]
    pub forward: EmulatedWay,
    /// Direction to the client.
    #[serde(alias = "back")]
    pub reverse: EmulatedWay,
}

/// One direction of an emulated link during a run, in IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmulatedWay {
    /// Packets from the sending device; segments of super-packets count.
    pub arrived: u64,
    /// Packets written to the receiving device.
    pub departed: u64,
    /// Bytes of `departed`; absent in records of versions that did not count them.
    #[serde(default)]
    pub departed_bytes: Option<u64>,
    /// Packets dropped as requested: by loss, a full queue or an outage.
    pub dropped: u64,
    /// Packets lost unintentionally: dropped by the sending device before the emulator read them, or refused by the
    /// receiving device. 0 in a healthy run.
    pub missed: u64,
    /// Super-packets of several segments that arrived.
    pub super_packets: u64,
    /// Mean lateness: time from due to the start of the write, in ns. Absent in records of versions that stored the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_mean_ns: Option<u64>,
    /// 99th percentile of the lateness in ns.
    pub late_p99_ns: Option<u64>,
    /// Maximum lateness in ns.
    pub late_max_ns: Option<u64>,
}
