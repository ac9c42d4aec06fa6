//! What one run leaves, as data.
//!
//! A record is self-contained: the resolved point, the seed and place in the order, the nodes with
//! their facts, what each flow counted, the figures with their provenance, the ceilings with their
//! inputs, and warnings. It travels as one line of JSON; its schema is `docs/record.schema.json`.
//! Reports and comparisons are functions from records.
//!
//! JSON carries base units with the unit in the key (`goodput_bps`, `rtt_ns`); counts are bare.

mod bottleneck;
mod calibration;
mod figure;
mod flow;
mod kernel;
mod node;
mod pacing;
mod record;
mod series;
mod usage;
mod warning;

pub use bottleneck::Bottleneck;
pub use calibration::{
    BUSY_SHARE, Calibrated, Calibration, CalibrationRow, DELAY_GOAL_NS, EmulatedWay, Emulation,
    Quantity, RATE_GOAL, THE_EMULATOR, Unit,
};
pub use figure::{Figures, Limits, Provenance, Sourced};
pub use flow::{Counts, Drops, Fairness, Flow, KernelTimes, QuicCounters, TcpCounters, ThreadTime};
pub use kernel::{KernelCounters, UdpCounters};
pub use node::{Carrier, ClockFacts, ClockOffset, HostFacts, Node, Side};
pub use pacing::Pacing;
pub use record::{INVALID_SHARE_MAX, Instrument, Outcome, Place, Record, SCHEMA_VERSION, schema};
pub use series::{Interval, Series, TcpSample};
pub use usage::{
    CpuShares, CpuUsage, EventCount, Events, MachineUsage, ProcessUsage, Usage,
    service_demand_us_per_kib, service_demand_us_per_transaction,
};
pub use warning::Warning;
