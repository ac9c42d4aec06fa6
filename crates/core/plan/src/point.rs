//! Values derived from the levels of a point.

use fabricmark_units::Bytes;

use crate::choice::{Path, Pattern};
use crate::factor::{Factor, Filter, Point, Where};
use crate::level::{Level, NONE};
use crate::resolve::fill;
use crate::transport::Transport;

impl Point {
    /// Largest number of flows of a point.
    pub const FLOWS_MAX: u64 = 10_000;

    /// Largest number of load threads at an end, against typing errors.
    pub(crate) const THREADS_MAX: u64 = 64;

    /// Most datagrams per call of sendmmsg(2) or recvmmsg(2), each with a buffer: beyond some 32, the system call is a
    /// small part of what the kernel spends on each datagram. If a thread has several flows, fewer: 1,000 flows of 64 KiB
    /// datagrams then have buffers of 1 GiB.
    pub fn mmsg_batch(&self) -> u32 {
        if self.flows > 1 { 16 } else { 64 }
    }

    /// Payloads per burst: WINDOW_SIZE_LARGE of osu_bw.
    pub(crate) const BURST_PAYLOADS: u32 = 64;

    /// Bytes of the response to a burst: those that osu_bw sends back after a window.
    pub(crate) const BURST_RESPONSE: Bytes = Bytes(4);

    /// Largest number of flows of a transport by a path. Most paths have buffers, pipes or rings for each flow.
    pub const fn flows_max(transport: Transport, path: Path) -> u32 {
        match path {
            Path::Copy | Path::Trunc => transport.traits().flows_max,
            _ => 1_000,
        }
    }

    /// Largest number of requests in flight per flow, and of payloads per burst. netperf's bursts are smaller; each
    /// request in flight takes memory.
    pub const OUTSTANDING_MAX: u32 = 65_536;

    /// Number of load threads at each end.
    pub fn load_threads(&self) -> u32 {
        self.threads.unwrap_or(1)
    }

    /// Payloads per response: those of a burst, otherwise 1.
    pub fn payloads_per_request(&self) -> u32 {
        match self.pattern {
            Pattern::Burst => self.outstanding.unwrap_or(1),
            _ => 1,
        }
    }

    /// Requests of all flows of a closed loop that are in flight; bursts for [`Pattern::Burst`].
    pub fn in_flight(&self) -> u32 {
        let of_flow = match self.pattern {
            Pattern::Rr => self.outstanding.unwrap_or(1),
            _ => 1,
        };
        self.flows.saturating_mul(of_flow)
    }

    /// Whether the point has this level of a factor; `none` also matches if the factor does not apply to the point.
    pub fn has(&self, factor: Factor, level: &str) -> bool {
        let own = self.level(factor);
        own == level || own.is_empty() && factor.has_none() && level == NONE
    }

    /// Whether the point has one of the listed levels of each listed factor.
    pub fn is_among(&self, filter: &Filter) -> bool {
        filter.iter().all(|(&factor, levels)| levels.iter().any(|level| self.has(factor, level)))
    }

    /// Datagrams in a full buffer of the path, all of which a single drop may lose. Kernels since 4.18 split a
    /// buffer into at most 64 (linux/udp.h, UDP_MAX_SEGMENTS of that time), and its payload is at most the 65,507
    /// bytes of an IPv4 datagram (RFC 791, RFC 768).
    pub fn datagrams_per_buffer(&self) -> u64 {
        match self.path {
            Path::Gso => (65_507 / self.payload.0.max(1)).clamp(1, 64),
            _ => 1,
        }
    }

    /// Levels that differ from the defaults as `factor=level`, separated by spaces: the name of this point in
    /// stores and messages. A new factor whose default leaves runs unchanged changes no name.
    pub fn key(&self) -> String {
        let words = self.chosen().map(|(factor, level)| format!("{factor}={level}"));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Levels of all factors that have one.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (Factor, Level)> {
        let levels = Factor::ALL.into_iter().map(move |factor| (factor, self.level(factor)));
        levels.filter(|(_, level)| !level.is_empty())
    }

    /// Levels that differ from the defaults.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = (Factor, Level)> {
        self.levels().filter(move |(factor, level)| factor.default(self).as_ref() != Some(level))
    }

    /// The point with another level of one factor. All other levels stay as they are.
    pub(crate) fn with(&self, factor: Factor, level: &str) -> Self {
        let mut point = self.clone();
        point.put(factor, if level == NONE && factor.has_none() { "" } else { level });
        point
    }

    /// The point with this level of one factor, these levels of others where they apply, and otherwise the defaults. `None`
    /// if a level cannot hold. Whether a run can carry it out is not checked.
    pub(crate) fn resolved_with(
        factor: Factor,
        level: &str,
        levels: impl Iterator<Item = (Factor, Level)>,
    ) -> Option<Self> {
        let mut levels: Where = levels.collect();
        levels.insert(factor, level.to_owned());
        let point = fill(&levels).ok()?;
        let holds = |(factor, level): (&Factor, &Level)| {
            let own = point.level(*factor);
            own.is_empty() || own == *level
        };
        (point.has(factor, level) && levels.iter().all(holds)).then_some(point)
    }
}
