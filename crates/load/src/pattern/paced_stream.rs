//! The open loop of the stream: each payload departs when the pace says so.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::{Counts, Pacing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::stream::add;
use crate::clock::now_ns;
use crate::control::Control;
use crate::pacer::Pacer;
use crate::transport::{Flow, is_timeout};

/// Sends payloads by one schedule for all flows, which take them in turn; gives each flow's payloads.
///
/// A flow that cannot take its payload holds up the ones after it, whose departures slip; `polls`
/// says that its calls do not wait by themselves, and are not to be tried again and again.
pub fn send(
    flows: &mut [impl Flow],
    payload: &mut [u8],
    mut pacer: Pacer<'_>,
    polls: bool,
    control: &Control,
) -> io::Result<(Counts, Vec<u64>, Pacing)> {
    let mut counts = Counts::default();
    let mut of_each = vec![0; flows.len()];
    let mut turn = 0;
    let began = now_ns();
    while pacer.wait().is_some() {
        send_whole(&mut flows[turn], payload, polls, &mut counts, control)?;
        of_each[turn] += 1;
        turn = if turn + 1 < flows.len() { turn + 1 } else { 0 };
    }
    counts.elapsed_ns = now_ns() - began;
    Ok((counts, of_each, pacer.finish()))
}

/// Sends one payload, in several calls where a stream of bytes takes it in parts. What has departed is
/// sent; a stop ends only the wait for room.
fn send_whole(
    flow: &mut impl Flow,
    payload: &mut [u8],
    polls: bool,
    counts: &mut Counts,
    control: &Control,
) -> io::Result<()> {
    let mut left = payload.len() as u64;
    while left > 0 {
        match flow.send(payload) {
            Ok(moved) => {
                add(counts, moved);
                left = left.saturating_sub(moved.bytes);
            }
            Err(error) if is_timeout(&error) => {
                if control.stop.load(Relaxed) {
                    break;
                }
                if polls {
                    wait_for_room(flow)?;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait_for_room(flow: &impl Flow) -> io::Result<()> {
    let Some(fd) = flow.fd() else { return Ok(()) };
    let timeout = Timespec { tv_sec: 0, tv_nsec: Control::LOOK_EVERY.as_nanos() as i64 };
    match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
