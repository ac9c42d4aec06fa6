//! Request/response in an open loop: each request departs on schedule, whether or not earlier ones are answered.
//!
//! Latency counts from the intended departure, and so includes the time that a request waits at the client because
//! either end is behind. This avoids coordinated omission.

use std::io;

use fabricmark_record::Pacing;

use super::paced_requests::Requests;
use super::rr::{ClientParameters, ClientResults, SEARCH_EVERY_NS};
use crate::control::Control;
use crate::flow_set::{FlowSet, Interest};
use crate::pacer::Pacer;
use crate::transport::{Flow, Message, if_ready};
use fabricmark_telemetry::clock::now_ns;

/// Client state of one flow.
struct Requester {
    requests: Requests,
    /// Whether a request was sent in part.
    is_sending: bool,
    answered: u64,
}

impl Requester {
    fn has_room(&self) -> bool {
        !self.is_sending && self.requests.has_room()
    }

    /// Sends a request that was due at `due_ns`.
    fn depart(
        &mut self,
        flow: &mut impl Flow,
        request: &mut [u8],
        due_ns: u64,
        now_ns: u64,
    ) -> io::Result<()> {
        self.requests.depart(due_ns, now_ns);
        self.is_sending = true;
        self.push(flow, request)
    }

    /// Continues a request that was sent in part.
    fn push(&mut self, flow: &mut impl Flow, request: &mut [u8]) -> io::Result<()> {
        if self.is_sending {
            self.is_sending = if_ready(flow.send_message(request, self.requests.last()))?.is_none();
        }
        Ok(())
    }

    /// Receives responses until there are no more.
    fn hear(
        &mut self,
        flow: &mut impl Flow,
        response: &mut [u8],
        results: &mut ClientResults,
    ) -> io::Result<()> {
        while !self.requests.is_empty() {
            let number = match if_ready(flow.receive_message(response))? {
                Some(Message::Next) => None,
                Some(Message::Numbered(number)) => Some(number),
                Some(Message::End) => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => return Ok(()),
            };
            let heard_ns = now_ns();
            if let Some(latency_ns) = self.requests.answer(number, heard_ns) {
                let counts = results.take(heard_ns, latency_ns);
                self.answered += 1;
                flow.answered();
                if !counts {
                    flow.take_kernel_times();
                }
            }
        }
        Ok(())
    }
}

/// Sends requests by one schedule for all flows, which take turns; also returns the transactions of each flow. A flow
/// has at most [`ClientParameters::outstanding`] requests: when every flow has as many, the next departure waits for a
/// response.
///
/// The flows' calls do not block, whatever the point says: the pacer waits.
pub fn ask(
    flows: &mut [impl Flow],
    request: &mut [u8],
    response: &mut [u8],
    parameters: ClientParameters,
    mut pacer: Pacer<'_>,
    control: &Control,
) -> io::Result<(ClientResults, Vec<u64>, Pacing)> {
    let look_every_ns = Control::LOOK_EVERY.as_nanos() as u64;
    for flow in flows.iter() {
        if let Some(fd) = flow.fd() {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
    }
    let mut flow_set = FlowSet::of(flows, Interest::Change)?;
    let lost_after_ns = if parameters.is_reliable { u64::MAX } else { parameters.lost_after_ns() };
    let requests = || Requests::new(parameters.outstanding, lost_after_ns);
    let requester = || Requester { requests: requests(), is_sending: false, answered: 0 };
    let mut requesters: Vec<Requester> = flows.iter().map(|_| requester()).collect();
    let began = now_ns();
    let (mut results, mut turn) = (ClientResults::open_loop(pacer.start_ns(), parameters.ramp), 0);
    let (mut now, mut search_ns) = (began, began + SEARCH_EVERY_NS);
    loop {
        let next_ns = pacer.next_ns();
        if next_ns.is_none() && requesters.iter().all(|requester| requester.requests.is_empty()) {
            break;
        }
        // The flow whose turn it is, or the next one with room.
        let mut places = (turn..flows.len()).chain(0..turn.min(flows.len()));
        let place = next_ns.and_then(|_| places.find(|&place| requesters[place].has_room()));
        let mut wait_ns = look_every_ns;
        if let (Some(due_ns), Some(place)) = (next_ns, place) {
            if due_ns <= now {
                pacer.depart(now);
                let (flow, requester) = (&mut flows[place], &mut requesters[place]);
                requester.depart(flow, request, due_ns, now)?;
                if flow.fd().is_none() {
                    requester.hear(flow, response, &mut results)?;
                }
                if requester.is_sending {
                    flow_set.needs_room(place, flows)?;
                }
                turn = place + 1;
                wait_ns = 0;
            } else {
                wait_ns = pacer.sleep_until(now).map_or(0, |wake_ns| wake_ns - now);
            }
        }
        for ready in flow_set.wait_for(flows, wait_ns)? {
            requesters[ready].push(&mut flows[ready], request)?;
            requesters[ready].hear(&mut flows[ready], response, &mut results)?;
            if requesters[ready].requests.is_empty() {
                flows[ready].tend()?;
            }
        }
        now = now_ns();
        if now >= search_ns {
            search_ns = now + SEARCH_EVERY_NS;
            control.check().map_err(io::Error::other)?;
            for requester in &mut requesters {
                results.lost += requester.requests.expire(now);
                if requester.requests.silence_ns(now) > parameters.silent_max_ns() {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
                }
            }
        }
    }
    let last_ns =
        requesters.iter().map(|requester| requester.requests.heard_ns()).max().unwrap_or(0);
    let of_each = requesters.iter().map(|requester| requester.answered).collect();
    let pacing = pacer.finish();
    let results = results.until(last_ns, 1, request);
    Ok((results.in_overload(&pacing, parameters.ramp, parameters.least_rtt), of_each, pacing))
}
