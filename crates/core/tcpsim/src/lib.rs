//! Simulates one TCP connection with unlimited data over a network in virtual time: what Reno and CUBIC do on paths
//! beyond the capacity of this machine.
//!
//! ```
//! use fabricmark_link::LinkOptions;
//! use fabricmark_tcpsim::{Path, Settings, simulate};
//! use fabricmark_units::Nanos;
//!
//! let options: LinkOptions = "rtt=100ms rate=100M".parse()?;
//! let path = Path::new(options.build(1, "there")?, options.build(1, "back")?);
//! let outcome = simulate(&Settings::default(), path, Nanos::from_secs(10), Nanos::from_secs(1))?;
//! // 1460 of 1500 bytes are payload.
//! assert!((outcome.intervals[9].goodput_bps() / 97.3e6 - 1.0).abs() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Modelled: slow start, congestion avoidance, SACK-based loss detection and recovery (RFC 6675) with proportional
//! rate reduction (RFC 6937), the retransmission timeout (RFC 6298), delayed acknowledgements, the receive window,
//! ECN, pacing at a fixed rate, HyStart++ (RFC 9406) and Linux's HyStart.
//!
//! **Trains.** A window of more segments than [`Settings::trains`] moves in at most that many trains, so that a round
//! trip costs some thousand steps at any window: at 400 Gbit/s and 400 ms, 13 million segments are in flight. A train
//! is a super-packet; losses and full queues still remove single segments. Limits of this approximation:
//!
//! - A train arrives with its last bit. This adds the wire time of a train to the RTT: `1 / trains` of that of the
//!   window.
//! - Queues see bursts of a train, so one that holds less than a few trains overflows too early.
//! - One acknowledgement replaces those of a train, and the window grows by all of them at once: effects within
//!   `rtt / trains` are not visible, and acknowledgements do not load the return path.
//!
//! Windows of up to `trains` segments move segment by segment without these limits.
//!
//! Deliberately absent: path elements (see [`fabricmark_link`]), the host (its copies, interrupts and buffers), and
//! tail loss probes.

mod cubic;
mod hystart;
mod path;
mod receiver;
mod recovery;
mod scoreboard;
mod sender;
mod shared;
mod simulation;
mod timeout;
mod usage;
mod window;

use fabricmark_link::{Invalid, some};
use fabricmark_units::{BitRate, Nanos};
use fabricmark_wire::lfn::{Acks, WINDOW_MAX};

pub use path::{Ack, Path, Segment};
pub use shared::{Windowed, shares_of_windows};
pub use simulation::{Interval, Outcome, simulate};

/// Parameters of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Payload of each segment in bytes; all segments are full.
    pub mss_bytes: u16,
    /// Bytes of the IP and TCP headers of a segment, and of a whole acknowledgement.
    pub header_bytes: u16,
    /// Receive window: the most unacknowledged payload in bytes.
    pub window_bytes: u64,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_segments: u64,
    /// Congestion control.
    pub congestion: Congestion,
    /// Segments per acknowledgement; the window grows per acknowledgement (RFC 5681). A stack that counts bytes, such
    /// as Linux, grows as with [`Acks::Each`].
    pub acks: Acks,
    /// Pacing rate in bit/s of IP packets; `None`: no pacing.
    pub pacing: Option<BitRate>,
    /// Whether packets are ECN-capable, so that queues may mark instead of drop them (RFC 3168).
    pub ecn: bool,
    /// Minimum retransmission timeout: 1 s in RFC 6298, 200 ms in Linux.
    pub timeout_least: Nanos,
    /// Maximum number of trains per window.
    pub trains: u64,
}

/// Congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic {
        /// How slow start ends before a loss; `None`: only by a loss or at the receive window.
        hystart: Option<HyStart>,
        /// Releases part of the window if it did not reach the previous maximum (RFC 9438, section 4.7).
        fast_convergence: bool,
    },
}

/// How slow start ends when the path is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HyStart {
    /// HyStart++ (RFC 9406): when the RTT grows, after five rounds of slower growth.
    PlusPlus,
    /// HyStart of Linux's CUBIC (net/ipv4/tcp_cubic.c, after Ha and Rhee 2011): at once when the RTT grows, or when
    /// acknowledgements arrive without a gap for half an RTT.
    Linux,
    /// The same by RTT growth only, as on hosts whose acknowledgements have gaps of more than 2 ms: busy hosts, and
    /// those that acknowledge super-packets of 64 KiB below 262 Mbit/s.
    LinuxDelay,
}

impl Default for Settings {
    /// CUBIC with Linux's defaults: 1500-byte IPv4 packets without options, the largest window, 10 segments.
    fn default() -> Self {
        Self {
            mss_bytes: 1460,
            header_bytes: 40,
            window_bytes: WINDOW_MAX,
            initial_segments: 10,
            congestion: Congestion::Cubic { hystart: Some(HyStart::Linux), fast_convergence: true },
            acks: Acks::Each,
            pacing: None,
            ecn: false,
            timeout_least: Nanos::from_secs(1),
            trains: 1000,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Invalid> {
        some("the payload of a segment", self.mss_bytes.into())?;
        some("the number of segments in the first flight", self.initial_segments)?;
        some("the number of segments in the window", self.window_segments())?;
        some("the number of trains", self.trains)?;
        some("the pacing rate", self.pacing.map_or(1, |rate| rate.0))
    }

    /// Receive window in whole segments.
    fn window_segments(&self) -> u64 {
        self.window_bytes.checked_div(self.mss_bytes.into()).unwrap_or(0)
    }
}
