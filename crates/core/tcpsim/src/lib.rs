//! One TCP connection with endless data over a net, in virtual time: what Reno and CUBIC would do on
//! a path that no machine here carries.
//!
//! ```
//! use fabricmark_link::LinkWords;
//! use fabricmark_tcpsim::{Path, Settings, simulate};
//! use fabricmark_units::Nanos;
//!
//! let words: LinkWords = "rtt=100ms rate=100M".parse()?;
//! let path = Path::new(words.build(1, "there")?, words.build(1, "back")?);
//! let outcome = simulate(&Settings::default(), path, Nanos::from_secs(10), Nanos::from_secs(1))?;
//! // 1460 of 1500 bytes are payload.
//! assert!((outcome.intervals[9].goodput_bps() / 97.3e6 - 1.0).abs() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is modelled: slow start, congestion avoidance, loss found by selective acknowledgements and
//! repaired in a round trip (RFC 6675, with the proportional rate reduction of RFC 6937), the retransmission time-out (RFC 6298), delayed
//! acknowledgements, the receiver's window, ECN, pacing at a fixed rate, HyStart++ (RFC 9406) and the
//! HyStart of Linux.
//!
//! **Trains.** A window of more segments than [`Settings::trains`] moves in so many trains, so that a
//! round trip costs some thousand steps whatever the window: 13 million segments are in flight at
//! 400 Gbit/s over 400 ms. A train is a super-packet; losses and full queues still cut single segments
//! out of it. What that loses:
//!
//! - A train arrives with its last bit, so the round trip is longer by the time of a train on the
//!   wire: `1 / trains` of what the whole window takes.
//! - Queues see bursts of a train, so one that holds less than a few of them overflows too early.
//! - One acknowledgement stands for those of a train, and the window grows by all of them at once:
//!   what happens within `rtt / trains` is not seen, and acknowledgements are no load on the way back.
//!
//! Windows of up to `trains` segments move segment by segment, and nothing of this holds.
//!
//! Deliberately not here: the elements of the path, which are [`fabricmark_link`]'s, a host (its copies,
//! its interrupts, its buffers), and tail loss probes.

mod cubic;
mod hystart;
mod path;
mod receiver;
mod recovery;
mod scoreboard;
mod sender;
mod simulation;
mod timeout;
mod usage;
mod window;

use fabricmark_link::{Invalid, some};
use fabricmark_units::{BitRate, Nanos};
use fabricmark_wire::lfn::{Acks, WINDOW_MAX};

pub use path::{Ack, Path, Segment};
pub use simulation::{Interval, Outcome, simulate};

/// How a connection behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Payload of a full segment in bytes; there are no others.
    pub mss_bytes: u16,
    /// IP and TCP header of each segment, and the whole of an acknowledgement, in bytes.
    pub header_bytes: u16,
    /// The most unanswered payload that the receiver allows, in bytes.
    pub window_bytes: u64,
    /// Segments of the first flight (RFC 6928: 10).
    pub initial_segments: u64,
    /// How the window answers acknowledgements and losses.
    pub congestion: Congestion,
    /// Segments for each acknowledgement; the window grows by acknowledgements (RFC 5681). A stack that
    /// counts bytes instead, as Linux does, grows as by [`Acks::Each`].
    pub acks: Acks,
    /// Rate in bit/s of IP packets beyond which nothing is sent; `None` sends as the window allows.
    pub pacing: Option<BitRate>,
    /// Whether packets may be marked instead of dropped (RFC 3168).
    pub ecn: bool,
    /// The shortest retransmission time-out: 1 s in RFC 6298, 200 ms in Linux.
    pub timeout_least: Nanos,
    /// Into how many trains a window is cut at most.
    pub trains: u64,
}

/// How a window answers acknowledgements and losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic {
        /// How it leaves slow start before a loss; `None` where only a loss or the receiver's window
        /// ends it.
        hystart: Option<HyStart>,
        /// Gives up part of a window that did not reach the one before (RFC 9438, section 4.7).
        fast_convergence: bool,
    },
}

/// How slow start ends where the path shows that it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HyStart {
    /// HyStart++ (RFC 9406): where the round trip grows, after five rounds of slower growth.
    PlusPlus,
    /// What CUBIC of Linux has (net/ipv4/tcp_cubic.c, after Ha and Rhee 2011): at once where the round
    /// trip grows, or where answers come without a gap for half a round trip.
    Linux,
    /// The same where the round trip grows alone. So it is on hosts whose answers have gaps of more than
    /// 2 ms: busy ones, and those that answer super-packets of 64 KiB below 262 Mbit/s.
    LinuxDelay,
}

impl Default for Settings {
    /// CUBIC as Linux begins: 1500-byte IPv4 packets without options, the largest window, 10 segments.
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

    /// Whole segments that the receiver's window holds.
    fn window_segments(&self) -> u64 {
        self.window_bytes.checked_div(self.mss_bytes.into()).unwrap_or(0)
    }
}
