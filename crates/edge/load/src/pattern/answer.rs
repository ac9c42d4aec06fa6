//! Server of request/response, ping-pong and burst: sends a response to each complete request.

use std::io;

use fabricmark_proto::Reassembly;
use fabricmark_record::Counts;

use crate::control::Control;
use crate::flow_set::{FlowSet, Interest};
use crate::pattern::stream::peer_has_closed;
use crate::response_limit::ResponseLimit;
use crate::transport::{Flow, Message, is_timeout};
use fabricmark_telemetry::clock::now_ns;

/// Server state of one flow.
#[derive(Debug)]
struct Responder {
    reassembly: Reassembly,
    /// Number of a request whose response was not sent yet.
    owed: Option<u64>,
    /// Whether [`Self::advance`] returns after each response: the client sends its next request only after that, and epoll
    /// reports it.
    takes_turns: bool,
}

impl Responder {
    fn new(payloads: u32) -> Self {
        Self { reassembly: Reassembly::new(payloads), owed: None, takes_turns: false }
    }

    /// Answers until the flow would block; returns false at the end of a reliable flow.
    fn advance(
        &mut self,
        flow: &mut impl Flow,
        payload: &mut [u8],
        response: &mut [u8],
        limit: Option<&ResponseLimit<'_>>,
        counts: &mut Counts,
    ) -> io::Result<bool> {
        loop {
            if let Some(number) = self.owed {
                flow.send_message(response, number)?;
                self.owed = None;
                counts.calls += 1;
                if self.takes_turns {
                    return Ok(true);
                }
            }
            self.owed = match flow.receive_message(payload)? {
                Message::Next => self.reassembly.arrive_in_order(),
                Message::Numbered(number) => self.reassembly.arrive(number),
                Message::End => return Ok(false),
            };
            if let Some(limit) = limit.filter(|_| self.owed.is_some()) {
                limit.take()?;
            }
        }
    }
}

/// Answers requests of `payloads` payloads each, until the flow ends or the coordinator reports that it has ended.
pub fn answer(
    flow: &mut impl Flow,
    payloads: u32,
    payload: &mut [u8],
    response: &mut [u8],
    limit: Option<&ResponseLimit<'_>>,
    control: &Control,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut responder = Responder::new(payloads);
    let began = now_ns();
    loop {
        match responder.advance(flow, payload, response, limit, &mut counts) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if is_timeout(&error) || peer_has_closed(flow, &error) => {
                if !flow.has_end() && control.is_drained(0, u64::MAX) {
                    break;
                }
                control.check().map_err(io::Error::other)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answered(counts, response, began))
}

/// As [`answer`] over many flows, until all of them have ended. `outstanding`: requests of a client per flow.
pub fn answer_many(
    flows: &mut [impl Flow],
    (payloads, outstanding): (u32, usize),
    payload: &mut [u8],
    response: &mut [u8],
    limit: Option<&ResponseLimit<'_>>,
    control: &Control,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut responders: Vec<Responder> = flows
        .iter()
        .map(|flow| Responder {
            // The client of a lossy flow gives requests up, and then sends before it has the response. A transport in
            // user space may have received the next request already.
            takes_turns: outstanding == 1 && flow.has_end() && flow.ready_fd().is_none(),
            ..Responder::new(payloads)
        })
        .collect();
    // What arrived before is reported at once.
    let mut flow_set = FlowSet::of(flows, Interest::Change)?.until_interrupted(control);
    let began = now_ns();
    let (mut open, has_end) = (flows.len(), flows.iter().all(Flow::has_end));
    while open > 0 {
        let ready = flow_set.wait(flows)?;
        control.check().map_err(io::Error::other)?;
        if ready.is_empty() && !has_end && control.is_drained(0, u64::MAX) {
            break;
        }
        for ready in ready {
            let flow = &mut flows[ready];
            match responders[ready].advance(flow, payload, response, limit, &mut counts) {
                Ok(true) => {}
                Ok(false) => {
                    flow_set.forget(ready, flows)?;
                    open -= 1;
                }
                Err(error) if is_timeout(&error) || peer_has_closed(flow, &error) => {
                    if responders[ready].owed.is_some() {
                        flow_set.needs_room(ready, flows)?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(answered(counts, response, began))
}

fn answered(mut counts: Counts, response: &[u8], began: u64) -> Counts {
    counts.bytes = counts.calls * response.len() as u64;
    counts.elapsed_ns = now_ns() - began;
    counts
}
