//! Moves the bytes of many connections at once: their receives are one system call, and their sends another
//! (io_uring(7)).
//!
//! epoll reports which sockets are ready, as for the other paths. No request waits in the kernel: those that would block
//! fail at once, so that a ring is empty between two calls.

#[expect(unsafe_code, reason = "requests that point into a buffer")]
mod sys;

use std::ops::Range;
use std::{io, mem};

use crate::direction::{RECEIVES_PER_TURN, Receive, Step, Turn};
use crate::session::{CLIENT, Next, TARGET};
use crate::worker::Worker;

pub(crate) use sys::Ring;

/// Buffer of all receives of one call, if that of a single one is not larger. With 1 MiB, 256 bulk streams had half of the
/// rate of [`Path::Copy`](crate::Path), which uses one buffer again and again (`fabricmark-bench-relay`, two virtual CPUs).
pub(crate) const BUFFER_BYTES: usize = 512 << 10;

/// Most requests of one call.
pub(crate) const REQUESTS: usize = 64;

/// Least part of the buffer for a receive.
const RECEIVE_BYTES_MIN: usize = BUFFER_BYTES / REQUESTS;

/// A receive of a session's direction, and the part of the buffer for it.
struct Job {
    session: usize,
    number: usize,
    receive: Receive,
    part: Range<usize>,
}

/// Gives parts of the buffer to the first jobs; returns their number, at least 1.
fn share(jobs: &mut [Job], bytes: usize) -> usize {
    let mut at = 0;
    for (place, job) in jobs.iter_mut().take(REQUESTS).enumerate() {
        job.part = at..at + job.receive.most;
        at = job.part.end;
        if at > bytes {
            return place;
        }
    }
    jobs.len().min(REQUESTS)
}

impl Worker<'_> {
    /// Serves the sessions in the queue together; those that can go on are in it again.
    pub(crate) fn advance_together(&mut self) {
        let mut active = Vec::new();
        for index in mem::take(&mut self.queue) {
            match self.open_session(index) {
                Some(next) => self.settle(index, next),
                None => active.push((index, [Step::Waits; 2])),
            }
        }
        for _ in 0..RECEIVES_PER_TURN {
            let mut jobs = Vec::new();
            active.retain_mut(|(index, steps)| {
                let begun = self.begin(*index, steps, &mut jobs);
                begun.inspect_err(|_| self.settle(*index, Next::RESET)).is_ok()
            });
            if jobs.is_empty() {
                break;
            }
            let known = self.ended.len();
            let mut rest = jobs.as_mut_slice();
            while !rest.is_empty() {
                let count = share(rest, self.mover.buffer.len());
                let (together, others) = rest.split_at_mut(count);
                self.carry(together);
                rest = others;
            }
            let broken = &self.ended[known..];
            active.retain(|(index, _)| !broken.iter().any(|(ended, _)| ended == index));
        }
        for (index, steps) in active {
            let Some(session) = self.sessions.get_mut(index) else { continue };
            for number in [CLIENT, TARGET].into_iter().filter(|&number| steps[number] == Step::More)
            {
                session.way(number).0.stamp();
            }
            let next = session.next(steps);
            self.settle(index, next);
        }
    }

    /// Collects the receives of a session.
    fn begin(
        &mut self,
        index: usize,
        steps: &mut [Step; 2],
        jobs: &mut Vec<Job>,
    ) -> io::Result<()> {
        let Some(session) = self.sessions.get_mut(index) else { return Ok(()) };
        for number in [CLIENT, TARGET] {
            let (direction, source, sink, is_last) = session.way(number);
            match direction.begin(source, sink, &mut self.mover, is_last)? {
                Turn::Pauses(step) => steps[number] = step,
                Turn::Receive(mut receive) => {
                    steps[number] = Step::More;
                    // A receive that fills its part is followed by one with a larger part.
                    let part = direction.expected().next_power_of_two().max(RECEIVE_BYTES_MIN);
                    receive.most = receive.most.min(part);
                    // What the sink may not take counts from now on.
                    self.mover.held += receive.most;
                    jobs.push(Job { session: index, number, receive, part: 0..0 });
                }
            }
        }
        Ok(())
    }

    /// Receives and sends once for each job.
    fn carry(&mut self, jobs: &mut [Job]) {
        let Some(mut ring) = self.mover.ring.take() else { return };
        let mut buffer = mem::take(&mut self.mover.buffer);
        let sessions = &self.sessions;
        let calls = jobs.iter().map(|job| (sessions[job.session].fd(job.number), &job.part));
        let results = ring.receive(calls, &mut buffer);
        for (job, result) in jobs.iter_mut().zip(results) {
            self.mover.held -= job.receive.most;
            let (direction, source, ..) = self.sessions[job.session].way(job.number);
            let received =
                direction.received(job.receive, result, source, &mut self.mover, job.number);
            match received {
                Ok(bytes) => job.part.end = job.part.start + bytes,
                Err(_) => {
                    job.part.end = job.part.start;
                    self.settle(job.session, Next::RESET);
                }
            }
        }
        let jobs: Vec<&Job> = jobs.iter().filter(|job| !job.part.is_empty()).collect();
        let sessions = &self.sessions;
        let calls = jobs.iter().map(|job| (sessions[job.session].fd(1 - job.number), &job.part));
        let results = ring.send(calls, &buffer);
        for (job, result) in jobs.into_iter().zip(results) {
            let (direction, ..) = self.sessions[job.session].way(job.number);
            let sent = match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                result => result,
            };
            match sent {
                Ok(bytes) => {
                    let rest = &buffer[job.part.start + bytes..job.part.end];
                    direction.hold(rest, &mut self.mover.held);
                    direction.stamp_end();
                }
                Err(_) => self.settle(job.session, Next::RESET),
            }
        }
        (self.mover.buffer, self.mover.ring) = (buffer, Some(ring));
    }
}
