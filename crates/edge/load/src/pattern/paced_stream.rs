//! Stream in an open loop: each payload departs on schedule.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::{Counts, Pacing};
use rustix::event::{PollFd, PollFlags};

use super::stream::add;
use crate::control::Control;
use crate::flow_set::poll_briefly;
use crate::pacer::{Follow, Pacer};
use crate::transport::{Flow, if_ready};
use fabricmark_telemetry::{clock::now_ns, tcp_info};

/// Sends payloads by one schedule for all flows, which take turns; also returns the payloads of each flow. A call sends
/// up to `most` payloads that are due.
///
/// A flow without room delays the departures of those after it. `follow` sets the period of the bursts by the connection
/// of the flow whose turn it is. `polls`: its calls do not block, so wait with poll(2)
/// instead of retrying.
pub fn send(
    flows: &mut [impl Flow],
    payload: &mut [u8],
    mut pacer: Pacer<'_>,
    mut follow: Option<Follow>,
    (polls, most): (bool, u64),
    control: &Control,
) -> io::Result<(Counts, Vec<u64>, Pacing)> {
    let mut counts = Counts::default();
    let mut of_each = vec![0; flows.len()];
    let mut turn = 0;
    let began = now_ns();
    while let Some(now_ns) = pacer.wait_until_due() {
        let due = if most > 1 { pacer.due(now_ns, most) } else { 1 };
        let sent = send_due(&mut flows[turn], payload, (polls, due), &mut counts, control)?;
        if sent > 0 {
            if let (Some(follow), Some(tcp)) = (&mut follow, flows[turn].tcp()) {
                let period = follow.period(now_ns, &tcp_info::sample(tcp.as_fd())?);
                period.into_iter().for_each(|period| pacer.follow(now_ns, period));
            }
            (0..sent).for_each(|_| pacer.depart(now_ns));
            of_each[turn] += sent;
            turn = if turn + 1 < flows.len() { turn + 1 } else { 0 };
        }
    }
    counts.elapsed_ns = now_ns() - began;
    Ok((counts, of_each, pacer.finish()))
}

/// Sends up to `due` payloads in one call, or one in several calls if a byte stream accepts it in parts; returns how many
/// have departed, 0 if nothing was sent. A stop ends only the wait for room.
fn send_due(
    flow: &mut impl Flow,
    payload: &mut [u8],
    (polls, due): (bool, u64),
    counts: &mut Counts,
    control: &Control,
) -> io::Result<u64> {
    let whole = payload.len() as u64;
    let (mut left, mut departed) = (whole, 0);
    while left > 0 {
        if let Some(moved) = if_ready(flow.send_most(payload, due))? {
            add(counts, moved);
            left = left.saturating_sub(moved.bytes);
            departed = moved.payloads;
        } else if control.stop.load(Relaxed) {
            break;
        } else if let Some(fd) = flow.fd().filter(|_| polls) {
            poll_briefly(&mut [PollFd::new(&fd, PollFlags::OUT)])?;
        }
    }
    Ok(departed)
}

#[cfg(test)]
mod tests {
    use std::slice::from_mut;

    use fabricmark_plan::Pace;
    use fabricmark_units::{Bytes, Stream};

    use super::*;
    use crate::pacer::Waiting;
    use crate::scripted::Scripted;

    #[test]
    fn a_payload_that_finds_no_room_before_the_end_has_not_departed() {
        let control = Control::default();
        let mut flow = Scripted { room: 3, control: Some(&control), ..Scripted::default() };
        let pace: Pace = "fixed:100000/s".parse().unwrap();
        let schedule = pace.schedule(Bytes(64), Stream::new(1, "pace"), None).unwrap().unwrap();
        let pacer = Pacer::start(schedule, Waiting::Spin, &control.stop).unwrap();
        let (counts, of_each, pacing) =
            send(from_mut(&mut flow), &mut [0; 64], pacer, None, (false, 1), &control).unwrap();
        assert_eq!((counts.calls, counts.bytes, of_each), (3, 192, vec![3]));
        assert_eq!((pacing.departures, pacing.slip_ns.len()), (3, 3));
    }
}
