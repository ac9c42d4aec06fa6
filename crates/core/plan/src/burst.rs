//! The burst: what it is where nobody says, and what no run could carry out.
//!
//! Its defaults and its limit are those of osu_bw (OSU Micro-Benchmarks, `c/util/osu_util.h` and
//! `c/mpi/pt2pt/osu_bw.c`): 64 messages of up to 4 MiB, then 4 bytes back.

use fabricmark_units::Bytes;

use crate::choice::Pattern;
use crate::contradiction::{Contradiction, contradiction};
use crate::factor::{Factor, Point};
use crate::numbering::NUMBERED;
use crate::pace::Pace;
use crate::transport::Transport;

/// Most bytes of a burst: osu_bw's largest, 64 messages of 4 MiB. A run does not end within a burst.
const BYTES_MAX: Bytes = Bytes(256 << 20);

/// Refuses what no burst could be.
pub(crate) fn check(point: &Point) -> Result<(), Contradiction> {
    if point.pattern != Pattern::Burst {
        return Ok(());
    }
    let refuse = |factor, message, help: String| Err(contradiction(factor, message, help));
    if point.pace != Pace::Closed {
        let message =
            format!("a burst departs when the last one is answered, not by {}", point.pace);
        let help = "use pace closed, or pattern stream with a pace burst:BYTES/PERIOD";
        return refuse(Factor::Pace, message, help.to_owned());
    }
    let payloads = point.payloads_per_request();
    let Bytes(payload) = point.payload;
    let bytes = u64::from(payloads).saturating_mul(payload);
    if Bytes(bytes) > BYTES_MAX {
        let message =
            format!("a burst of {payloads} payloads of {payload} bytes has {bytes} bytes");
        let help = format!("use less outstanding or payload, at most {BYTES_MAX} together");
        return refuse(Factor::Outstanding, message, help);
    }
    for (factor, bytes) in
        [(Factor::Payload, Some(point.payload)), (Factor::Response, point.response)]
    {
        if let Some(bytes) = bytes
            && point.transport == Transport::Udp
            && bytes < NUMBERED
        {
            let message =
                format!("a datagram of {bytes} bytes has no room for 32 bits of its number");
            let help = format!("use a {factor} of at least {NUMBERED} bytes, or another transport");
            return refuse(factor, message, help);
        }
    }
    Ok(())
}
