//! Benchmarks of MPI operations, each declared once: names and conventions of the Intel MPI Benchmarks (IMB).
//!
//! Conventions are those of IMB 2021.11 (`src_c/IMB_parse_name_mpi1.c`, `IMB_init.c`): which time is printed, and by
//! which factor the payload is multiplied for its column `Mbytes/sec`. The operations are those of MPI 3.1.

use std::fmt;

use fabricmark_units::Bytes;
use fabricmark_wire::Family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Choice, Pattern, choices};
use crate::factor::{Factor, Point, Section};
use crate::problem::{Contradiction, refuse};

/// Collective operations (MPI 3.1, chapter 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// MPI_Barrier.
    Barrier,
    /// MPI_Bcast.
    Bcast,
    /// MPI_Reduce.
    Reduce,
    /// MPI_Allreduce.
    Allreduce,
    /// MPI_Reduce_scatter: each rank keeps a payload, as in IMB.
    ReduceScatter,
    /// MPI_Reduce_scatter_block: each rank keeps a payload.
    ReduceScatterBlock,
    /// MPI_Gather.
    Gather,
    /// MPI_Gatherv.
    Gatherv,
    /// MPI_Scatter.
    Scatter,
    /// MPI_Scatterv.
    Scatterv,
    /// MPI_Allgather.
    Allgather,
    /// MPI_Allgatherv.
    Allgatherv,
    /// MPI_Alltoall.
    Alltoall,
    /// MPI_Alltoallv.
    Alltoallv,
}

/// What a benchmark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Rank 0 sends a payload to rank 1, which sends it back.
    PingPong,
    /// Ranks 0 and 1 send each other a payload at once.
    PingPing,
    /// Each rank sends to its right neighbour in a ring and receives from its left one.
    Sendrecv,
    /// Each rank sends to both neighbours in a ring and receives from both.
    Exchange,
    /// Each rank of the first half sends [`WINDOW`] payloads to its partner in the second half, which then responds.
    Uniband,
    /// As uniband, with payloads in both directions at once.
    Biband,
    /// A collective operation, which returns when it is done.
    Blocking(Collective),
    /// A collective operation that is started, and later waited for: alone, and during a computation.
    NonBlocking(Collective),
    /// Rank 0 writes into the memory of rank 1 (MPI_Put, MPI_Win_flush).
    Put,
    /// Rank 0 reads from the memory of rank 1 (MPI_Get, MPI_Win_flush).
    Get,
    /// Rank 0 adds to the memory of rank 1 (MPI_Accumulate, MPI_Win_flush).
    Accumulate,
}

/// Payloads per operation of uniband and biband, as in IMB (`MAX_WIN_SIZE`).
pub const WINDOW: u32 = 64;

/// Properties of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// What it does.
    pub action: Action,
    /// Payloads that a rank receives per operation time, for its goodput; 0: none is defined.
    pub received: u32,
    /// IMB's column `Mbytes/sec` is this times the payload over the operation time; 0: IMB prints none.
    pub imb_factor: u32,
}

/// Declares every benchmark: description, name, and traits.
macro_rules! benchmarks {
    ($(#[doc = $about:literal] $variant:ident = $word:literal, $action:expr, $received:expr, $imb:expr;)*) => {
        choices! {
            /// A benchmark of MPI operations, by its name in the Intel MPI Benchmarks.
            Benchmark {
                $(#[doc = $about] $variant = $word,)*
            }
        }

        impl Benchmark {
            /// Its properties.
            pub const fn traits(self) -> &'static Traits {
                const TRAITS: &[Traits] = &[
                    $(Traits { action: $action, received: $received, imb_factor: $imb }),*
                ];
                &TRAITS[self as usize]
            }
        }
    };
}

use Action::{Blocking, NonBlocking};

benchmarks! {
    /// half the round trip of a payload between two ranks
    PingPong = "PingPong", Action::PingPong, 1, 1;
    /// two ranks send each other a payload at once
    PingPing = "PingPing", Action::PingPing, 1, 1;
    /// each rank sends to the right and receives from the left
    Sendrecv = "Sendrecv", Action::Sendrecv, 1, 2;
    /// each rank exchanges payloads with both neighbours
    Exchange = "Exchange", Action::Exchange, 2, 4;
    /// 64 payloads one way between pairs of ranks, then a response
    Uniband = "Uniband", Action::Uniband, 1, 1;
    /// 64 payloads both ways at once between pairs of ranks
    Biband = "Biband", Action::Biband, 1, 2;
    /// from the root to all ranks
    Bcast = "Bcast", Blocking(Collective::Bcast), 0, 0;
    /// the sum of all ranks' payloads, at the root
    Reduce = "Reduce", Blocking(Collective::Reduce), 0, 0;
    /// the sum of all ranks' payloads, at all ranks
    Allreduce = "Allreduce", Blocking(Collective::Allreduce), 0, 0;
    /// as Reduce_scatter_block, by MPI_Reduce_scatter
    ReduceScatter = "Reduce_scatter", Blocking(Collective::ReduceScatter), 0, 0;
    /// the sum of as many payloads per rank as there are ranks; each rank keeps one
    ReduceScatterBlock = "Reduce_scatter_block", Blocking(Collective::ReduceScatterBlock), 0, 0;
    /// a payload of each rank, to the root
    Gather = "Gather", Blocking(Collective::Gather), 0, 0;
    /// as Gather, by MPI_Gatherv
    Gatherv = "Gatherv", Blocking(Collective::Gatherv), 0, 0;
    /// a payload for each rank, from the root
    Scatter = "Scatter", Blocking(Collective::Scatter), 0, 0;
    /// as Scatter, by MPI_Scatterv
    Scatterv = "Scatterv", Blocking(Collective::Scatterv), 0, 0;
    /// a payload of each rank, to all ranks
    Allgather = "Allgather", Blocking(Collective::Allgather), 0, 0;
    /// as Allgather, by MPI_Allgatherv
    Allgatherv = "Allgatherv", Blocking(Collective::Allgatherv), 0, 0;
    /// a payload from each rank to each rank
    Alltoall = "Alltoall", Blocking(Collective::Alltoall), 0, 0;
    /// as Alltoall, by MPI_Alltoallv
    Alltoallv = "Alltoallv", Blocking(Collective::Alltoallv), 0, 0;
    /// no rank leaves before all have arrived; without payload
    Barrier = "Barrier", Blocking(Collective::Barrier), 0, 0;
    /// Bcast, non-blocking
    Ibcast = "Ibcast", NonBlocking(Collective::Bcast), 0, 0;
    /// Reduce, non-blocking
    Ireduce = "Ireduce", NonBlocking(Collective::Reduce), 0, 0;
    /// Allreduce, non-blocking
    Iallreduce = "Iallreduce", NonBlocking(Collective::Allreduce), 0, 0;
    /// Reduce_scatter, non-blocking
    IreduceScatter = "Ireduce_scatter", NonBlocking(Collective::ReduceScatter), 0, 0;
    /// Gather, non-blocking
    Igather = "Igather", NonBlocking(Collective::Gather), 0, 0;
    /// Gatherv, non-blocking
    Igatherv = "Igatherv", NonBlocking(Collective::Gatherv), 0, 0;
    /// Scatter, non-blocking
    Iscatter = "Iscatter", NonBlocking(Collective::Scatter), 0, 0;
    /// Scatterv, non-blocking
    Iscatterv = "Iscatterv", NonBlocking(Collective::Scatterv), 0, 0;
    /// Allgather, non-blocking
    Iallgather = "Iallgather", NonBlocking(Collective::Allgather), 0, 0;
    /// Allgatherv, non-blocking
    Iallgatherv = "Iallgatherv", NonBlocking(Collective::Allgatherv), 0, 0;
    /// Alltoall, non-blocking
    Ialltoall = "Ialltoall", NonBlocking(Collective::Alltoall), 0, 0;
    /// Alltoallv, non-blocking
    Ialltoallv = "Ialltoallv", NonBlocking(Collective::Alltoallv), 0, 0;
    /// Barrier, non-blocking
    Ibarrier = "Ibarrier", NonBlocking(Collective::Barrier), 0, 0;
    /// write into the memory of another rank
    Put = "Put", Action::Put, 1, 1;
    /// read from the memory of another rank
    Get = "Get", Action::Get, 1, 1;
    /// add to the memory of another rank
    Accumulate = "Accumulate", Action::Accumulate, 1, 1;
}

choices! {
    /// MPI library.
    MpiLibrary {
        /// Open MPI (Debian: openmpi-bin)
        OpenMpi = "openmpi",
        /// MPICH (Debian: mpich)
        Mpich = "mpich",
    }
}

choices! {
    /// How the MPI library moves messages between ranks.
    MpiTransport {
        /// the library chooses
        Auto = "auto",
        /// shared memory, between ranks of one host
        Shm = "shm",
        /// TCP
        Tcp = "tcp",
        /// verbs over reliable connections, by UCX
        Rc = "rc",
        /// verbs over unreliable datagrams, by UCX
        Ud = "ud",
        /// libfabric
        Ofi = "ofi",
    }
}

choices! {
    /// Whether the buffers of an operation are in the cache.
    Buffers {
        /// each operation uses the same buffers (IMB's default)
        Warm = "warm",
        /// each operation uses other parts of buffers that are larger than the cache (IMB's -off_cache)
        OffCache = "off-cache",
    }
}

choices! {
    /// The root of collective operations that have one.
    Root {
        /// rank 0
        First = "first",
        /// the next rank in each operation (IMB's -root_shift)
        Rotate = "rotate",
    }
}

choices! {
    /// When the ranks start a collective operation.
    Sync {
        /// after a barrier (IMB's default)
        Barrier = "barrier",
        /// at a common time by synchronised clocks
        Window = "window",
        /// at once after the previous operation; ranks may run ahead of others
        None = "back-to-back",
    }
}

choices! {
    /// Type of the elements of a payload.
    Datatype {
        /// bytes (MPI_BYTE, MPI_UINT8_T where values are added)
        Byte = "byte",
        /// 32-bit integers (MPI_INT32_T)
        Int = "int",
        /// 32-bit floating-point numbers (MPI_FLOAT)
        Float = "float",
        /// 64-bit floating-point numbers (MPI_DOUBLE)
        Double = "double",
    }
}

impl Datatype {
    /// Size of an element in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Int | Self::Float => 4,
            Self::Double => 8,
        }
    }
}

impl Collective {
    /// Whether one rank is its root.
    pub const fn has_root(self) -> bool {
        matches!(
            self,
            Self::Bcast
                | Self::Reduce
                | Self::Gather
                | Self::Gatherv
                | Self::Scatter
                | Self::Scatterv
        )
    }

    /// Whether it adds payloads.
    pub const fn reduces(self) -> bool {
        matches!(
            self,
            Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::ReduceScatterBlock
        )
    }

    /// Whether MPI_IN_PLACE is defined for it.
    pub const fn has_in_place(self) -> bool {
        !matches!(self, Self::Barrier | Self::Bcast)
    }
}

impl Benchmark {
    /// The collective operation; `None` for others.
    pub const fn collective(self) -> Option<Collective> {
        match self.traits().action {
            Blocking(collective) | NonBlocking(collective) => Some(collective),
            _ => None,
        }
    }

    /// Whether it adds payloads.
    pub const fn reduces(self) -> bool {
        match self.traits().action {
            Action::Accumulate => true,
            Blocking(collective) | NonBlocking(collective) => collective.reduces(),
            _ => false,
        }
    }

    /// Whether it has exactly two active ranks.
    pub const fn is_between_two(self) -> bool {
        matches!(
            self.traits().action,
            Action::PingPong | Action::PingPing | Action::Put | Action::Get | Action::Accumulate
        )
    }

    /// Operations between two readings of the clock at least: a ping-pong is two messages, and a burst [`WINDOW`].
    pub const fn operations(self) -> u32 {
        match self.traits().action {
            Action::PingPong => 2,
            Action::Uniband | Action::Biband => WINDOW,
            _ => 1,
        }
    }

    /// Payload bits that each rank receives per second, in one direction, if an operation takes `operation_ns`; `None`
    /// if the benchmark defines no goodput.
    pub fn goodput_bps(self, payload: Bytes, operation_ns: f64) -> Option<f64> {
        let received = self.traits().received;
        let has_goodput = received > 0 && payload.0 > 0;
        has_goodput.then(|| 8e9 * f64::from(received) * payload.0 as f64 / operation_ns)
    }

    /// The benchmark with this name, in any case.
    pub fn named_loosely(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|benchmark| benchmark.word().eq_ignore_ascii_case(name))
    }
}

/// Largest payload of an MPI operation: 1 GiB, since MPI 3.1 counts elements in 32 bits.
pub(crate) const MESSAGE_MAX: Bytes = Bytes(1 << 30);

impl Point {
    /// Largest number of ranks of a job.
    pub(crate) const RANKS_MAX: u64 = 65_536;

    /// Number of ranks that take part in its benchmark.
    pub fn ranks(&self) -> u32 {
        self.ranks.unwrap_or(2)
    }

    /// Whether each operation of its benchmark starts after a synchronisation of the ranks.
    pub fn is_synchronised(&self) -> bool {
        self.sync.is_some_and(|sync| sync != Sync::None)
    }

    /// Whether one MPI job measures both points: they have the same library, transport, ranks and link.
    pub(crate) fn shares_job(&self, other: &Self) -> bool {
        let job = |point: &Self| {
            let link = (point.link, point.family, point.rtt, point.emulate.clone());
            (point.mpi_library, point.mpi_transport, point.ranks(), link)
        };
        job(self) == job(other)
    }

    /// The collective operation of its benchmark; `None` for others.
    pub(crate) fn collective(&self) -> Option<Collective> {
        self.benchmark?.collective()
    }

    /// The default type of elements: as in IMB, numbers where they are added, otherwise bytes.
    pub fn default_datatype(&self) -> Datatype {
        let adds = self.benchmark.is_some_and(Benchmark::reduces);
        let is_whole = self.payload.0.is_multiple_of(Datatype::Float.bytes());
        if adds && is_whole { Datatype::Float } else { Datatype::Byte }
    }
}

/// Sets the levels that follow from the benchmark: a barrier has no payload, and some benchmarks have two ranks.
pub(crate) fn settle(point: &mut Point) {
    let Some(benchmark) = point.benchmark else { return };
    if benchmark.collective() == Some(Collective::Barrier) {
        point.payload = Bytes(0);
    }
    if benchmark.is_between_two() {
        point.ranks = Some(2);
    }
}

/// Rejects levels that the benchmark does not support.
pub(crate) fn check(point: &Point) -> Result<(), Contradiction> {
    if point.pattern != Pattern::Mpi {
        return Ok(());
    }
    let Some(benchmark) = point.benchmark else {
        let message = "pattern=mpi needs a benchmark";
        return refuse(Factor::Pattern, message, "add benchmark = [\"PingPong\"] to [factors]");
    };
    // The library chooses addresses, sockets and calls.
    let is_foreign = |factor: &Factor| {
        let spec = factor.spec();
        let level = point.level(*factor);
        let is_own = matches!(spec.section, Section::Required | Section::Mpi | Section::Group);
        let is_default = level.is_empty() || factor.default(point).as_ref() == Some(&level);
        !is_own && *factor != Factor::Label && !is_default
    };
    if let Some(factor) = Factor::ALL.into_iter().find(is_foreign) {
        let message = format!("{factor} has no effect on MPI");
        return refuse(factor, message, format!("leave out {factor}"));
    }
    if point.family != Family::V4 {
        let message = "MPI libraries choose their addresses: family has no effect";
        return refuse(Factor::Family, message, "leave out family");
    }
    let ranks = point.ranks();
    let is_in_pairs = matches!(benchmark.traits().action, Action::Uniband | Action::Biband);
    if is_in_pairs && !ranks.is_multiple_of(2) {
        let message = format!("{benchmark} is between pairs of ranks, and ranks={ranks} is odd");
        return refuse(Factor::Ranks, message, "use an even number of ranks");
    }
    if let Some(datatype) = point.datatype
        && !point.payload.0.is_multiple_of(datatype.bytes())
    {
        let message = format!(
            "payload={} is not a multiple of the {} bytes of datatype={datatype}",
            point.payload.0,
            datatype.bytes()
        );
        return refuse(Factor::Payload, message, "use a multiple, or leave out datatype");
    }
    Ok(())
}
