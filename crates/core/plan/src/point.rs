//! What follows from the levels of a point.

use fabricmark_units::Bytes;

use crate::choice::{Path, Pattern};
use crate::factor::{Factor, Filter, Point};
use crate::level::NONE;
use crate::transport::Transport;

impl Point {
    /// Most flows at once.
    pub const FLOWS_MAX: u64 = 10_000;

    /// Payloads of a burst: WINDOW_SIZE_LARGE of osu_bw.
    pub(crate) const BURST_PAYLOADS: u32 = 64;

    /// Bytes of the response of a burst: those that osu_bw sends back after a window.
    pub(crate) const BURST_RESPONSE: Bytes = Bytes(4);

    /// Most flows of a transport by a path: each path of io_uring has a ring and receive buffers a flow.
    pub const fn flows_max(transport: Transport, path: Path) -> u32 {
        if path.is_uring() { 1_000 } else { transport.traits().flows_max }
    }

    /// Most requests under way in one flow, and most payloads of a burst: netperf's bursts end below
    /// it, and what is under way is remembered.
    pub const OUTSTANDING_MAX: u32 = 65_536;

    /// Payloads that are answered together: those of a burst, and else a request alone.
    pub fn payloads_per_request(&self) -> u32 {
        match self.pattern {
            Pattern::Burst => self.outstanding.unwrap_or(1),
            _ => 1,
        }
    }

    /// Whether it has a level of a factor; `none` is that of a point to which the factor does not apply.
    pub fn has(&self, factor: Factor, level: &str) -> bool {
        let own = self.level(factor);
        own == level || own.is_empty() && factor.has_none() && level == NONE
    }

    /// Whether it has of each factor one of these levels.
    pub fn is_among(&self, filter: &Filter) -> bool {
        filter.iter().all(|(&factor, levels)| levels.iter().any(|level| self.has(factor, level)))
    }

    /// Datagrams that one buffer of the path holds when all are full: what a single drop may cost.
    /// Kernels since 4.18 cut a buffer into at most 64 (linux/udp.h, UDP_MAX_SEGMENTS of that time),
    /// and its payload is at most the 65,507 bytes of an IPv4 datagram (RFC 791, RFC 768).
    pub fn datagrams_per_buffer(&self) -> u64 {
        match self.path {
            Path::Gso => (65_507 / self.payload.0.max(1)).clamp(1, 64),
            _ => 1,
        }
    }

    /// The levels that differ from the defaults in one line, `factor=level` each: the name of this point in stores and
    /// messages. A factor that is added with a default that changes nothing changes no name.
    pub fn key(&self) -> String {
        let differs = |&(factor, ref level): &(Factor, String)| {
            !level.is_empty() && factor.default(self).as_ref() != Some(level)
        };
        let levels = Factor::ALL.iter().map(|&factor| (factor, self.level(factor)));
        let words = levels.filter(differs).map(|(factor, level)| format!("{factor}={level}"));
        words.collect::<Vec<_>>().join(" ")
    }
}
