//! Records: the result of one run, as data.
//!
//! A record is self-contained: the resolved point, seed and place in the order, nodes and facts about them, counts of
//! each flow, figures with their provenance, ceilings with their inputs, and warnings. It is one line of JSON; its
//! schema is `docs/record.schema.json`. Reports and comparisons are functions of records.
//!
//! JSON uses base units and names them in the key (`goodput_bps`, `rtt_ns`); counts have no unit.

mod bottleneck;
mod calibration;
mod figure;
mod flow;
mod interface;
mod kernel;
mod mpi;
mod node;
mod pacing;
mod record;
mod relay;
mod series;
mod shop;
mod text;
mod usage;
mod warning;

pub use bottleneck::{AT_CEILING, Bottleneck};
pub use calibration::{
    BUSY_SHARE, Calibrated, Calibration, CalibrationRow, DELAY_GOAL_NS, EmulatedWay, Emulation,
    Quantity, RATE_GOAL, THE_EMULATOR, Unit,
};
pub use figure::{Figures, Limits, Provenance, Sourced};
pub use flow::{
    ActiveTime, Alignment, Counts, Drops, Fairness, Flow, KernelTimes, QuicCounters, TcpCounters,
    ThreadShare, ThreadTime,
};
pub use interface::{
    Channels, Coalescing, EnabledOffloads, Host, Interface, InterfaceFacts, Ipoib, Irq,
    OffloadState, Offloads, Pci, RdmaPort, Rings, Technology,
};
pub use kernel::{KernelCounters, UdpCounters};
pub use mpi::{
    MPI_BY_RANK, Mpi, MpiFacts, MpiJob, MpiLine, MpiResult, Overlap, RankPlace, RankTimes, Traffic,
};
pub use node::{Carrier, ClockFacts, ClockOffset, HostFacts, Node, Side};
pub use pacing::Pacing;
pub use record::{
    INVALID_SHARE_MAX, Instrument, Outcome, Place, Record, SCHEMA_VERSION, SliceRates, schema,
};
pub use relay::RelayTimes;
pub use series::{Interval, Series, Steady, TcpSample};
pub use shop::{
    ApplicationTier, Audit, Browsed, BrowserLoad, DatabaseTier, InteractionResult, LoadResult,
    ShopRun, TierCounters, TierFacts, TierLine, TierOrder,
};
pub use text::one_line;
pub use usage::{
    CpuShares, CpuUsage, MachineUsage, ProcessUsage, Usage, service_demand_us_per_kib,
    service_demand_us_per_transaction,
};
pub use warning::Warning;
