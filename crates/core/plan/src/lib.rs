//! Experiment plans: the plan file, factors and their levels, the matrix of points, the order of runs, and which
//! run comes next.
//!
//! Everything here is a pure function of values. A plan and the outcomes so far determine the next block of runs,
//! so that adaptive stopping and resuming agree.
//!
//! Out of scope: how a point is run (`load`), where (`lab`), and by which processes (`control`).

mod choice;
mod cpus;
mod digest;
mod emulation;
mod factor;
mod figure;
mod file;
mod host_settings;
mod invalid;
mod level;
mod matrix;
mod mpi;
mod nodes;
mod numbering;
mod order;
mod pace;
mod pair;
mod part;
mod plan;
mod point;
mod presentation;
mod problem;
mod reading;
mod resolve;
mod settings;
mod shop;
mod shown;
mod slice;
mod transport;
mod verbs;
mod window;

pub use choice::{
    Choice, Cm, Direction, Interference, Offload, Operation, PaceWait, Path, Pattern, Probe,
    RelayPath, Timestamps, Wait,
};
pub use cpus::Cpus;
pub use factor::{Factor, Filter, Point, Section, Spec, Where};
pub use figure::{Figure, FigureSpec, Limit, Unit};
pub use file::{Size, parse, steady_interval};
pub use invalid::Invalid;
pub use level::{Kind, Level, NONE};
pub use mpi::{
    Action, Benchmark, Buffers, Collective, Datatype, MpiLibrary, MpiTransport, Root, Sync, WINDOW,
};
pub use nodes::{DEVICE_NAME_MAX, is_device_name};
pub use order::{Outcome, Outcomes, Step, block, comparisons, unfinished_groups};
pub use pace::{Law, Lengths, Pace, Rate, Schedule, Trace};
pub use pair::Pair;
pub use part::{PROBE_BYTES, Purpose, Role};
pub use plan::{
    Amount, Compare, Group, INTERVAL_MIN, INTERVALS_MAX, PathSpec, Plan, RAMP_SHARE, RELAY,
    STEADY_INTERVALS_MIN, Testbed, Topology, TopologyPath, Wire,
};
pub use presentation::{
    Chart, ChartKind, Course, CourseChart, CourseOf, Drawing, Presentation, Table,
};
pub use problem::{Contradiction, Problem, Problems};
pub use resolve::{check_order, resolve};
pub use settings::{overlay, settings};
pub use shop::{Engine, Interaction, Mix, SEGMENTS, Tier};
pub use slice::CONTROL_RTT_MAX;
pub use transport::{Congestion, Delivery, Headers, Network, Socket, Traits, Transport};
pub use window::Window;
