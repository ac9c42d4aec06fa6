//! Stream: one end writes without pause, the other reads.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::Counts;
use fabricmark_units::Nanos;

use crate::clock::now_ns;
use crate::endpoint::Control;
use crate::transport::{Flow, is_timeout};

/// Sends payloads until told to stop.
pub fn send(flow: &mut impl Flow, payload: &mut [u8], control: &Control) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let began = now_ns();
    while !control.stop.load(Relaxed) {
        match flow.send(payload) {
            Ok(bytes) => {
                counts.calls += 1;
                counts.bytes += bytes as u64;
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}

/// Receives until the stream ends: at its end where it has one, else when all that was sent has
/// arrived, or nothing for the time that the coordinator allows. What arrives within `ramp` of the
/// first arrival does not count towards the rate.
pub fn receive(
    flow: &mut impl Flow,
    buffer: &mut [u8],
    ramp: Nanos,
    control: &Control,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let (mut ramp_ends_ns, mut first_ns, mut last_ns) = (u64::MAX, 0, 0);
    loop {
        match flow.receive(buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                last_ns = now_ns();
                counts.calls += 1;
                counts.bytes += bytes as u64;
                if first_ns == 0 {
                    ramp_ends_ns = ramp_ends_ns.min(last_ns + ramp.0);
                    if last_ns >= ramp_ends_ns {
                        first_ns = last_ns;
                        counts.ramp_bytes = counts.bytes;
                    }
                }
                if counts.calls == control.expected.load(Relaxed) {
                    break;
                }
            }
            Err(error) if is_timeout(&error) => {
                if control.is_drained(counts.calls, now_ns().saturating_sub(last_ns)) {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    counts.elapsed_ns = if first_ns == 0 { 0 } else { last_ns - first_ns };
    Ok(counts)
}
