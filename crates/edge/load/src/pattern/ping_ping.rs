//! Ping-ping (IMB's PingPing): each end sends a payload, then receives the other's, and so on. Nothing of it may be
//! lost. The end that measures stops; the other has then sent one payload more, which is received, too.
//!
//! The ends do not start at the same time. An end that starts half an RTT later finds the other's payload waiting,
//! then waits a whole RTT for the next, and so on in alternation. So a time is the mean of two consecutive steps,
//! which cancels the offset of the ends.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::Counts;

use super::rr::{ClientParameters, ClientResults, LOOKS};
use crate::control::Control;
use crate::transport::{Flow, Message, if_ready};
use fabricmark_telemetry::clock::now_ns;

/// One payload to send and one to receive.
#[derive(Debug, Default)]
struct Step {
    is_sent: bool,
    is_received: bool,
}

impl Step {
    /// Continues until the flow would block; returns whether both payloads have moved. At the end of the flow it
    /// returns false and sets `has_ended`.
    fn advance(
        &mut self,
        flow: &mut impl Flow,
        payload: &mut [u8],
        buffer: &mut [u8],
        number: u64,
        has_ended: &mut bool,
    ) -> io::Result<bool> {
        if !self.is_sent {
            self.is_sent = if_ready(flow.send_message(payload, number))?.is_some();
        }
        if !self.is_received {
            match if_ready(flow.receive_message(buffer))? {
                Some(Message::End) => *has_ended = true,
                Some(_) => {
                    self.is_received = true;
                    flow.answered();
                }
                None => {}
            }
        }
        Ok(self.is_sent && self.is_received)
    }
}

/// Makes steps until told to stop. A step lasts from the departure of its payload to the arrival of the other's;
/// times are of two steps each, halved.
pub(crate) fn lead(
    flow: &mut impl Flow,
    payload: &mut [u8],
    buffer: &mut [u8],
    parameters: ClientParameters,
    does_block: bool,
    control: &Control,
) -> io::Result<ClientResults> {
    let began = now_ns();
    let mut results = ClientResults::closed_loop(began, parameters.ramp);
    // In a later slice the first payload only goes: the last slice has received what the other end sent beside it.
    let first = control.next_request.load(Relaxed);
    let (mut heard_ns, mut looks, mut number) = (began, 0_u32, first);
    let mut first_of_pair_ns = None;
    loop {
        let is_last = number > first && control.stop.load(Relaxed);
        let is_again = number == first && first > 0;
        let mut step = Step { is_sent: is_last, is_received: is_again };
        let mut has_ended = false;
        let departed_ns = heard_ns;
        while !step.advance(flow, payload, buffer, number, &mut has_ended)? {
            if has_ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            control.check().map_err(io::Error::other)?;
            looks = looks.wrapping_add(1);
            if (does_block || looks.is_multiple_of(LOOKS))
                && now_ns().saturating_sub(heard_ns) > parameters.silent_max_ns()
            {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
            }
        }
        if is_last {
            control.next_request.store(number, Relaxed);
            return Ok(results.until(heard_ns, 1, payload));
        }
        heard_ns = now_ns();
        if is_again {
            results.precede(heard_ns);
        } else if results.hear(heard_ns) {
            match first_of_pair_ns.take() {
                None => first_of_pair_ns = Some(departed_ns),
                Some(first_ns) => results.rtt_ns.record((heard_ns - first_ns) / 2),
            }
        }
        number += 1;
    }
}

/// Makes steps until the other end has ended.
pub(crate) fn follow(
    flow: &mut impl Flow,
    payload: &mut [u8],
    buffer: &mut [u8],
    control: &Control,
) -> io::Result<Counts> {
    let began = now_ns();
    let (mut counts, mut has_ended) = (Counts::default(), false);
    while !has_ended {
        let mut step = Step::default();
        while !has_ended && !step.advance(flow, payload, buffer, counts.calls, &mut has_ended)? {
            control.check().map_err(io::Error::other)?;
        }
        counts.calls += u64::from(!has_ended);
    }
    counts.bytes = counts.calls * payload.len() as u64;
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}
