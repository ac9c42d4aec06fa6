//! Results of MPI jobs, and the messages between `fabricmark` and `fabricmark-mpi`.

use fabricmark_plan::Point;
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node::{ClockFacts, HostFacts};

/// Environment variable `NAME=VALUE,VALUE` of an MPI job: each rank of `fabricmark-mpi` starts itself again with the
/// variable NAME set to the value for its rank, in turn. So ranks of one host have devices of their own, which settings of
/// the libraries cannot express.
pub const MPI_BY_RANK: &str = "FABRICMARK_MPI_BY_RANK";

/// What an MPI job measures: the points, which take turns in slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MpiJob {
    /// What is measured. All points have the same library and transport, and at most as many ranks as the job.
    pub points: Vec<Point>,
    /// Length of a slice.
    pub slice_ns: Nanos,
    /// Number of rounds; in each, every point has a slice, in random order.
    pub rounds: u32,
    /// Seed of the order.
    pub seed: u64,
}

/// A line that rank 0 of an MPI job prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MpiLine {
    /// The ranks have started.
    Started(MpiFacts),
    /// A round is complete.
    Round {
        /// Number of complete rounds, the warm-up included.
        done: u32,
        /// Number of all rounds.
        of: u32,
    },
    /// Results of a point.
    Measured {
        /// Index of the point in the job.
        point: usize,
        /// What the ranks measured.
        result: Box<MpiResult>,
    },
    /// The job has ended, and all points that have results were reported.
    Ended {
        /// Whether a signal ended it early.
        is_interrupted: bool,
        /// As in [`MpiFacts`], over all rounds.
        clock_error_ns: u64,
    },
    /// The job ends early.
    Failed {
        /// What failed.
        message: String,
        /// Whether a result of an operation was wrong.
        is_wrong: bool,
    },
}

/// Facts about an MPI job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MpiFacts {
    /// First line of MPI_Get_library_version.
    pub library: String,
    /// Version of the MPI standard that it supports, such as 3.1.
    pub standard: String,
    /// Hosts of the ranks.
    pub hosts: Vec<HostFacts>,
    /// Where each rank runs, by rank.
    pub ranks: Vec<RankPlace>,
    /// RDMA ports of the hosts, with the kinds of their addresses: `rxe0/1: RoCE v2 on v0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdma: Vec<String>,
    /// Clock of rank 0.
    pub clock: ClockFacts,
    /// Maximum error of the difference of two ranks' synchronised clocks in ns: for each of them half the shortest RTT to
    /// rank 0, or the error of the extrapolated drift if that is larger; 0 if all ranks read the clock of one host.
    pub clock_error_ns: u64,
}

/// Where a rank runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankPlace {
    /// Index of its host in `hosts`.
    pub host: u32,
    /// CPUs on which it may run, as a list such as `0-3,8`.
    pub cpus: String,
}

/// Results of a point of an MPI job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MpiResult {
    /// Counted operations.
    pub operations: u64,
    /// Operations between two readings of the clock, of which the times are means; 1 if each has a time of its own.
    pub batch: u32,
    /// Time of an operation in each slice, in ns. Times of [`fabricmark_plan::Figure::OperationTime`].
    pub slices_ns: Vec<f64>,
    /// Times of single operations, or means of batches.
    pub times_ns: Histogram,
    /// Each rank's own mean time of an operation in ns: shortest, mean and longest over the ranks, as IMB prints
    /// them. Half of it for PingPong.
    pub ranks_ns: RankTimes,
    /// Times from the first to the last rank's start of an operation; absent if operations follow one another without
    /// synchronisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imbalance_ns: Option<Histogram>,
    /// Times of a non-blocking operation beside a computation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Operations that were left out, because a rank missed their common start.
    #[serde(default)]
    pub late: u64,
    /// Elements of received payloads that were compared with a serial computation.
    pub verified_elements: u64,
    /// What the devices of the hosts sent during the slices.
    pub traffic: Vec<Traffic>,
}

/// Mean times of an operation over the ranks, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankTimes {
    /// Shortest.
    pub min_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Longest.
    pub max_ns: f64,
}

/// Mean times of a non-blocking operation and of a computation, in ns; of the rank that takes longest for both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overlap {
    /// Operation alone.
    pub pure_ns: f64,
    /// Computation.
    pub computation_ns: f64,
    /// Both together.
    pub both_ns: f64,
}

impl Overlap {
    /// Time that both together save, as a share of the longer of the two, from 0 to 1 (IMB-NBC, `IMB_output.c`).
    pub fn share(&self) -> f64 {
        let saved = self.pure_ns + self.computation_ns - self.both_ns;
        (saved / self.pure_ns.max(self.computation_ns)).clamp(0.0, 1.0)
    }
}

/// Bytes that a device of a host sent, by the counters of the kernel or the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Index of the host.
    pub host: u32,
    /// Network device, or RDMA device and port such as `rxe0/1`.
    pub device: String,
    /// Whether it is an RDMA device, whose packets a network device may count, too.
    pub is_rdma: bool,
    /// Whether it is an InfiniBand port, whose counter includes IP over InfiniBand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_ip: bool,
    /// Bytes; of an RDMA device without a counter of bytes the packets times 256, the smallest path MTU.
    pub bytes: u64,
}

impl Traffic {
    /// Whether both are of the same device of the same host.
    pub fn is_device_of(&self, other: &Self) -> bool {
        let device = |traffic: &Self| (traffic.host, traffic.is_rdma);
        device(self) == device(other) && self.device == other.device
    }
}

/// What a record of an MPI run contains besides its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mpi {
    /// Library, hosts and ranks of the job.
    pub facts: MpiFacts,
    /// What the ranks measured at the point.
    pub result: MpiResult,
    /// Command that started the job, with the variables that select the transport.
    pub launcher: String,
}
