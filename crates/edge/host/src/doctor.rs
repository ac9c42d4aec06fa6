//! Checks for conditions on this machine that distort measurements: `fabricmark doctor`.
//!
//! Each submodule covers one subject. It reads the files it needs below a root directory and passes their text to
//! pure functions, which return findings. `docs/doctor.md` lists every check. Each check returns at least one
//! finding, even if only "not observable".

mod buffers;
mod clock;
mod counters;
pub(crate) mod cpus;
mod ethtool;
mod filter;
mod finding;
mod frequency;
mod guest;
mod idle;
pub(crate) mod interface;
pub(crate) mod interrupts;
mod limits;
mod neighbours;
mod steering;
mod tcp;
pub(crate) mod text;
pub(crate) mod tree;

use std::path::Path;
use std::time::{Duration, Instant};

pub use ethtool::Settings;
pub use finding::{Check, Evidence, Finding, Severity};
pub use text::text;

use tree::Tree;

/// All checks, in the order of `docs/doctor.md`.
pub const CHECKS: [Check; 31] = [
    frequency::GOVERNOR,
    frequency::TURBO,
    idle::IDLE_STATES,
    idle::SIBLINGS,
    clock::CLOCK_SOURCE,
    clock::CLOCK_COST,
    clock::TSC,
    guest::VIRTUAL_MACHINE,
    guest::STOLEN_TIME,
    neighbours::BUSY_PROCESSES,
    neighbours::LOAD_AVERAGE,
    neighbours::CPU_PRESSURE,
    limits::MEMORY,
    limits::MITIGATIONS,
    limits::OPEN_FILES,
    buffers::SOCKET_BUFFERS,
    buffers::TCP_BUFFERS,
    buffers::BACKLOG,
    tcp::CONGESTION,
    tcp::QDISC,
    tcp::LOCAL_PORTS,
    filter::CONNTRACK,
    filter::PACKET_FILTER,
    steering::IRQBALANCE,
    interface::LINK,
    interface::MTU,
    ethtool::OFFLOADS,
    ethtool::COALESCING,
    interrupts::PLACEMENT,
    steering::STEERING,
    counters::ERRORS,
];

/// Inputs of the checks that come from system calls rather than files.
#[derive(Clone, Debug)]
pub struct System {
    /// CPUs in this process's affinity mask. A run pins its client and server to the first two.
    pub cpus: Vec<u32>,
    /// RLIMIT_NOFILE as (soft, hard); `u64::MAX` means unlimited.
    pub open_files: (u64, u64),
    /// Time of one clock reading, in nanoseconds.
    pub clock_reading_ns: f64,
    /// Time between the two samples of running processes.
    pub interval: Duration,
    /// Reads the ethtool settings of an interface; the error is the reason that they cannot be read.
    pub settings: fn(&str) -> Result<Settings, String>,
}

impl System {
    /// Reads this machine. The sample takes 100 ms: ten ticks at the kernel's usual 100 Hz.
    pub fn here() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        Self {
            cpus: crate::cpus(),
            open_files: (files.current.unwrap_or(u64::MAX), files.maximum.unwrap_or(u64::MAX)),
            clock_reading_ns: clock_reading_ns(),
            interval: Duration::from_millis(100),
            settings: ethtool::settings,
        }
    }
}

/// The minimum of 20 averages, because interrupts and preemption only lengthen a reading.
fn clock_reading_ns() -> f64 {
    const READINGS: u32 = 1000;
    let times = (0..20).map(|_| {
        let began = Instant::now();
        let last = (0..READINGS).fold(began, |_, _| Instant::now());
        (last - began).as_secs_f64() * 1e9 / f64::from(READINGS)
    });
    times.fold(f64::INFINITY, f64::min)
}

/// Runs all checks on the machine whose files are below `root`; returns findings by decreasing severity.
pub fn examine(root: &Path, system: &System) -> Vec<Finding> {
    let tree = Tree(root.to_owned());
    let (interfaces, links) = interface::links(&tree);
    let mut findings: Vec<Finding> = [
        frequency::examine(&tree),
        idle::examine(&tree, system),
        clock::examine(&tree, system.clock_reading_ns),
        guest::examine(&tree),
        neighbours::examine(&tree, system.interval),
        limits::examine(&tree, system),
        buffers::examine(&tree),
        tcp::examine(&tree),
        filter::examine(&tree),
        links,
        interface::examine(&tree, system, &interfaces),
        interrupts::examine(&tree, system, &interfaces),
        steering::examine(&tree, &interfaces, &neighbours::processes(&tree)),
        counters::examine(&tree, &interfaces),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}
