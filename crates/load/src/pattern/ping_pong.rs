//! Ping-pong: one payload there, one payload back, one at a time.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::Counts;
use fabricmark_stats::Histogram;

use crate::clock::now_ns;
use crate::endpoint::Control;
use crate::transport::{Flow, is_timeout};

/// Consecutive round trips without an answer after which the peer counts as gone: 5 s at the
/// 200 ms time-out of an asking socket.
const SILENT_MAX: u32 = 25;

/// What the asking end found.
#[derive(Debug, Default)]
pub struct Asked {
    /// Answered round trips, their bytes in one direction, and the time from first to last.
    pub counts: Counts,
    /// Round trips in nanoseconds.
    pub rtt_ns: Histogram,
    /// Round trips without an answer.
    pub lost: u64,
}

/// Makes round trips until told to stop.
pub fn ask(flow: &mut impl Flow, payload: &mut [u8], control: &Control) -> io::Result<Asked> {
    let mut asked = Asked::default();
    let mut buffer = vec![0; payload.len()];
    let mut silent = 0;
    let began = now_ns();
    while !control.stop.load(Relaxed) {
        let sent = now_ns();
        match flow.ask(payload, &mut buffer) {
            Ok(()) => {
                asked.rtt_ns.record(now_ns() - sent);
                asked.counts.calls += 1;
                silent = 0;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && silent < SILENT_MAX => {
                asked.lost += 1;
                silent += 1;
            }
            Err(error) => return Err(error),
        }
    }
    asked.counts.bytes = asked.counts.calls * payload.len() as u64;
    asked.counts.elapsed_ns = now_ns() - began;
    Ok(asked)
}

/// Sends each payload back until the flow ends or the coordinator says that it has.
pub fn answer(flow: &mut impl Flow, buffer: &mut [u8], control: &Control) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let began = now_ns();
    loop {
        match flow.answer(buffer) {
            Ok(true) => counts.calls += 1,
            Ok(false) => break,
            Err(error) if is_timeout(&error) => {
                if control.is_drained(counts.calls, u64::MAX) {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    counts.bytes = counts.calls * buffer.len() as u64;
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}
