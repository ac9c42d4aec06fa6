//! Stream: one end sends continuously, the other receives.

use std::sync::atomic::Ordering::Relaxed;
use std::{io, slice};

use fabricmark_record::Counts;

use super::arrivals::{Arrivals, Window};
use crate::control::Control;
use crate::flow_set::{FlowSet, Interest};
use crate::transport::{Flow, Moved, if_ready, is_timeout};
use fabricmark_telemetry::clock::now_ns;

/// Writes of one flow before it is the next one's turn, if several share a thread.
const TURN: u32 = 16;

/// Sends payloads until told to stop.
pub fn send(flow: &mut impl Flow, payload: &mut [u8], control: &Control) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let began = now_ns();
    while !control.stop.load(Relaxed) {
        if let Some(moved) = if_ready(flow.send(payload))? {
            add(&mut counts, moved);
        }
    }
    flow.stop()?;
    add(&mut counts, flow.settle()?);
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}

/// As [`send`] over many flows, in turn while they have room; also returns the payloads of each flow by their bytes: a
/// call may take a part of one.
pub fn send_many(
    flows: &mut [impl Flow],
    payload: &mut [u8],
    control: &Control,
) -> io::Result<(Counts, Vec<u64>)> {
    let mut counts = Counts::default();
    let mut bytes_of_each = vec![0; flows.len()];
    let mut flow_set = FlowSet::of(flows, Interest::Write)?.until_interrupted(control);
    let began = now_ns();
    while !control.stop.load(Relaxed) {
        for ready in flow_set.wait(flows)? {
            for _ in 0..TURN {
                // A turn of long writes takes a millisecond.
                if control.stop.load(Relaxed) {
                    break;
                }
                let Some(moved) = if_ready(flows[ready].send(payload))? else { break };
                add(&mut counts, moved);
                bytes_of_each[ready] += moved.bytes;
            }
        }
    }
    flows.iter_mut().try_for_each(Flow::stop)?;
    for (flow, bytes) in flows.iter_mut().zip(&mut bytes_of_each) {
        let moved = flow.settle()?;
        add(&mut counts, moved);
        *bytes += moved.bytes;
    }
    counts.elapsed_ns = now_ns() - began;
    let payload_bytes = payload.len().max(1) as u64;
    Ok((counts, bytes_of_each.iter().map(|bytes| bytes / payload_bytes).collect()))
}

pub(super) fn add(counts: &mut Counts, moved: Moved) {
    counts.calls += moved.payloads;
    counts.bytes += moved.bytes;
}

/// Receives until the stream ends: at the end of the flow if the transport signals it, otherwise when all that was
/// sent has arrived, or nothing for the time that the coordinator allows.
pub fn receive(
    flow: &mut impl Flow,
    buffer: &mut [u8],
    window: Window,
    control: &Control,
) -> io::Result<Counts> {
    let mut arrivals = Arrivals::new(window);
    let has_end = flow.has_end() && window.ends_with_flow();
    loop {
        match flow.receive(buffer) {
            Ok(moved) if moved.bytes == 0 => break,
            Ok(moved) => {
                arrivals.arrive(moved, slice::from_mut(flow), 0, control)?;
                if !has_end && arrivals.counts.bytes == control.expected_bytes.load(Relaxed) {
                    break;
                }
            }
            Err(error) if is_timeout(&error) || peer_has_closed(flow, &error) => {
                if !has_end && arrivals.is_drained(control) && flow.waiting_bytes()? == 0 {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
        control.check().map_err(io::Error::other)?;
    }
    Ok(arrivals.end())
}

/// As [`receive`] over many flows, until all of them have ended.
pub fn receive_many(
    flows: &mut [impl Flow],
    buffer: &mut [u8],
    window: Window,
    control: &Control,
) -> io::Result<Counts> {
    let mut arrivals = Arrivals::new(window);
    let mut flow_set = FlowSet::of(flows, Interest::Read)?.until_interrupted(control);
    let has_end = flows.iter().all(Flow::has_end) && window.ends_with_flow();
    let mut open = flows.len();
    while open > 0 {
        let ready = flow_set.wait(flows)?;
        control.check().map_err(io::Error::other)?;
        if ready.is_empty()
            && !has_end
            && arrivals.is_drained(control)
            && is_nothing_waiting(flows)?
        {
            break;
        }
        for ready in ready {
            match flows[ready].receive(buffer) {
                Ok(moved) if moved.bytes == 0 => {
                    flow_set.forget(ready, flows)?;
                    open -= 1;
                }
                Ok(moved) => arrivals.arrive(moved, flows, ready, control)?,
                Err(error) if is_timeout(&error) || peer_has_closed(&flows[ready], &error) => {}
                Err(error) => return Err(error),
            }
        }
        if !has_end && arrivals.counts.bytes == control.expected_bytes.load(Relaxed) {
            break;
        }
    }
    Ok(arrivals.end())
}

/// Whether an error of a datagram socket only says that the peer has closed its own (ICMP port unreachable). Datagrams
/// that it sent before may still be in flight.
pub(super) fn peer_has_closed(flow: &impl Flow, error: &io::Error) -> bool {
    !flow.has_end() && error.kind() == io::ErrorKind::ConnectionRefused
}

fn is_nothing_waiting(flows: &mut [impl Flow]) -> io::Result<bool> {
    for flow in flows {
        if flow.waiting_bytes()? > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::transport::bytes::ByteFlow;
    use crate::transport::{Message, passes_on};

    /// A flow that takes at most `most` bytes in a call, and `left` bytes in all. The last one to be full ends the run.
    struct Portions<'a> {
        flow: ByteFlow<UnixStream>,
        most: usize,
        left: usize,
        open: &'a Cell<u32>,
        control: &'a Control,
    }

    impl Flow for Portions<'_> {
        passes_on!();

        fn send(&mut self, payload: &mut [u8]) -> io::Result<Moved> {
            if self.left == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let moved = self.flow.send(&mut payload[..self.most])?;
            self.left -= moved.bytes as usize;
            if self.left == 0 {
                self.open.set(self.open.get() - 1);
                if self.open.get() == 0 {
                    self.control.end();
                }
            }
            Ok(moved)
        }

        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
            self.flow.receive(buffer)
        }

        fn send_message(&mut self, message: &mut [u8], number: u64) -> io::Result<()> {
            self.flow.send_message(message, number)
        }
    }

    #[test]
    fn flows_that_sent_the_same_bytes_in_unlike_calls_sent_the_same_payloads() {
        let (control, open) = (Control::default(), Cell::new(2));
        let mut peers = Vec::new();
        let mut flows = [4096, 1024].map(|most| {
            let (stream, peer) = UnixStream::pair().unwrap();
            stream.set_nonblocking(true).unwrap();
            peers.push(peer);
            let flow = ByteFlow::new(stream);
            Portions { flow, most, left: 16_384, open: &open, control: &control }
        });
        let (counts, of_each) = send_many(&mut flows, &mut [0; 4096], &control).unwrap();
        assert_eq!((counts.calls, counts.bytes, of_each), (4 + 16, 32_768, vec![4, 4]));
    }
}
