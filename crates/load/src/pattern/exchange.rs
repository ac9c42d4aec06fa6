//! Exchange: a request there, a response back; ping-pong is the exchange whose response is as long
//! as its request. Several requests of one flow may be under way.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use fabricmark_record::Counts;
use fabricmark_stats::Histogram;

use crate::clock::now_ns;
use crate::control::Control;
use crate::crowd::{Crowd, Interest};
use crate::transport::{Flow, Message, is_timeout};

/// A datagram on its way for longer counts as lost: round trips in a lab take 0.1 ms
/// (`docs/measured.md`).
pub(super) const LOST_AFTER_NS: u64 = 200_000_000;

/// Silence after which the other end counts as gone.
pub(super) const SILENT_MAX_NS: u64 = 5_000_000_000;

/// How often a crowd is searched for flows whose answer is lost.
pub(super) const SEARCH_EVERY_NS: u64 = 50_000_000;

/// Looks of a flow that does not block between two readings of the clock: 64 empty receive calls take
/// some 10 us.
const LOOKS: u32 = 64;

/// What the asking end found.
#[derive(Debug, Default)]
pub struct Asked {
    /// Answered exchanges, the bytes of their requests, and the time from first to last.
    pub counts: Counts,
    /// From request to response, in nanoseconds.
    pub rtt_ns: Histogram,
    /// Exchanges without an answer.
    pub lost: u64,
}

/// How a flow asks.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Requests under way at once.
    pub outstanding: usize,
    /// Whether every answer comes, and in order.
    pub is_reliable: bool,
}

/// The requests of one flow.
#[derive(Debug)]
struct Asker {
    asking: Asking,
    /// Number of the next request.
    next: u64,
    /// Numbers and departures of requests without an answer, oldest first.
    under_way: VecDeque<(u64, u64)>,
    heard_ns: u64,
    answered: u64,
    /// Whether a request has been handed over in part.
    is_sending: bool,
}

impl Asker {
    fn new(asking: Asking, now: u64) -> Self {
        let under_way = VecDeque::with_capacity(asking.outstanding);
        Self { asking, next: 0, under_way, heard_ns: now, answered: 0, is_sending: false }
    }

    /// Asks and hears until the flow would block, or the run stops and every request has its answer.
    fn advance(
        &mut self,
        flow: &mut impl Flow,
        request: &mut [u8],
        response: &mut [u8],
        asked: &mut Asked,
        control: &Control,
    ) -> io::Result<()> {
        // The time of the last arrival is that of the next departure.
        let mut now = None;
        loop {
            let is_stopped = control.stop.load(Relaxed);
            while self.is_sending || (!is_stopped && self.under_way.len() < self.asking.outstanding)
            {
                let departed_ns = *now.get_or_insert_with(now_ns);
                match flow.send_message(request, self.next) {
                    Ok(()) => self.under_way.push_back((self.next, departed_ns)),
                    Err(error) if is_timeout(&error) => {
                        self.is_sending = self.asking.is_reliable;
                        break;
                    }
                    Err(error) => return Err(error),
                }
                self.is_sending = false;
                self.next += 1;
            }
            if self.is_done(is_stopped) {
                return Ok(());
            }
            let departed = match flow.receive_message(response) {
                Ok(Message::Next) => self.under_way.pop_front(),
                Ok(Message::Numbered(number)) => self.take(number),
                Ok(Message::End) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if is_timeout(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.heard_ns = now_ns();
            now = Some(self.heard_ns);
            if let Some((_, departed_ns)) = departed {
                asked.rtt_ns.record(self.heard_ns - departed_ns);
                asked.counts.calls += 1;
                self.answered += 1;
            }
        }
    }

    /// Whether nothing is left to be sent or heard.
    fn is_done(&self, is_stopped: bool) -> bool {
        is_stopped && self.under_way.is_empty() && !self.is_sending
    }

    /// The request of this number; nothing for one that was given up before.
    fn take(&mut self, number: u64) -> Option<(u64, u64)> {
        let place = self.under_way.iter().position(|&(asked, _)| asked == number)?;
        self.under_way.remove(place)
    }

    /// Gives requests up that have waited too long; an error when the other end is silent.
    fn expire(&mut self, now: u64, asked: &mut Asked) -> io::Result<()> {
        if now.saturating_sub(self.heard_ns) > SILENT_MAX_NS {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
        }
        while let Some(&(_, departed_ns)) = self.under_way.front()
            && !self.asking.is_reliable
            && now.saturating_sub(departed_ns) > LOST_AFTER_NS
        {
            self.under_way.pop_front();
            asked.lost += 1;
        }
        Ok(())
    }
}

/// Makes exchanges over one flow until told to stop.
pub fn ask(
    flow: &mut impl Flow,
    request: &mut [u8],
    response: &mut [u8],
    asking: Asking,
    does_block: bool,
    control: &Control,
) -> io::Result<Asked> {
    let mut asked = Asked::default();
    let began = now_ns();
    let mut asker = Asker::new(asking, began);
    let mut looks = 0;
    while !asker.is_done(control.stop.load(Relaxed)) {
        asker.advance(flow, request, response, &mut asked, control)?;
        control.check().map_err(io::Error::other)?;
        looks += 1;
        if does_block || looks % LOOKS == 0 {
            asker.expire(now_ns(), &mut asked)?;
        }
    }
    Ok(finish(asked, request, asker.heard_ns - began))
}

/// Makes exchanges over many flows until told to stop; gives each flow's exchanges.
pub fn ask_crowd(
    flows: &mut [impl Flow],
    request: &mut [u8],
    response: &mut [u8],
    asking: Asking,
    control: &Control,
) -> io::Result<(Asked, Vec<u64>)> {
    let mut asked = Asked::default();
    let mut crowd = Crowd::of(flows, Interest::Change)?;
    let began = now_ns();
    let mut askers: Vec<Asker> = flows.iter().map(|_| Asker::new(asking, began)).collect();
    for (flow, asker) in flows.iter_mut().zip(&mut askers) {
        asker.advance(flow, request, response, &mut asked, control)?;
    }
    let mut search_ns = began + SEARCH_EVERY_NS;
    loop {
        let is_stopped = control.stop.load(Relaxed);
        if is_stopped && askers.iter().all(|asker| asker.is_done(true)) {
            break;
        }
        control.check().map_err(io::Error::other)?;
        for ready in crowd.wait(flows)? {
            askers[ready].advance(&mut flows[ready], request, response, &mut asked, control)?;
        }
        let now = now_ns();
        if now >= search_ns {
            search_ns = now + SEARCH_EVERY_NS;
            for (flow, asker) in flows.iter_mut().zip(&mut askers) {
                let lost = asked.lost;
                asker.expire(now, &mut asked)?;
                if asked.lost > lost {
                    asker.advance(flow, request, response, &mut asked, control)?;
                }
            }
        }
    }
    let of_each = askers.iter().map(|asker| asker.answered).collect();
    let last_ns = askers.iter().map(|asker| asker.heard_ns).max().unwrap_or(began);
    Ok((finish(asked, request, last_ns - began), of_each))
}

pub(super) fn finish(mut asked: Asked, request: &[u8], elapsed_ns: u64) -> Asked {
    asked.counts.bytes = asked.counts.calls * request.len() as u64;
    asked.counts.elapsed_ns = elapsed_ns;
    asked
}

/// The answers of one flow.
#[derive(Debug, Default)]
struct Answerer {
    /// Number of a request whose response is not sent yet.
    owed: Option<u64>,
}

impl Answerer {
    /// Answers until the flow would block; false at the end of a reliable flow.
    fn advance(
        &mut self,
        flow: &mut impl Flow,
        request: &mut [u8],
        response: &mut [u8],
        counts: &mut Counts,
    ) -> io::Result<bool> {
        loop {
            if let Some(number) = self.owed {
                flow.send_message(response, number)?;
                self.owed = None;
                counts.calls += 1;
            }
            self.owed = match flow.receive_message(request)? {
                Message::Next => Some(0),
                Message::Numbered(number) => Some(number),
                Message::End => return Ok(false),
            };
        }
    }
}

/// Answers until the flow ends or the coordinator says that it has.
pub fn answer(
    flow: &mut impl Flow,
    request: &mut [u8],
    response: &mut [u8],
    control: &Control,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut answerer = Answerer::default();
    let began = now_ns();
    loop {
        match answerer.advance(flow, request, response, &mut counts) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if is_timeout(&error) => {
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

/// Answers many flows until all of them have ended or the coordinator says that they have.
pub fn answer_crowd(
    flows: &mut [impl Flow],
    request: &mut [u8],
    response: &mut [u8],
    control: &Control,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut answerers: Vec<Answerer> = flows.iter().map(|_| Answerer::default()).collect();
    // What arrived before is told at once.
    let mut crowd = Crowd::of(flows, Interest::Change)?;
    let began = now_ns();
    let (mut open, has_end) = (flows.len(), flows.iter().all(Flow::has_end));
    while open > 0 {
        let ready = crowd.wait(flows)?;
        control.check().map_err(io::Error::other)?;
        if ready.is_empty() && !has_end && control.is_drained(0, u64::MAX) {
            break;
        }
        for ready in ready {
            let flow = &mut flows[ready];
            match answerers[ready].advance(flow, request, response, &mut counts) {
                Ok(true) => {}
                Ok(false) => {
                    crowd.forget(ready, flows)?;
                    open -= 1;
                }
                Err(error) if is_timeout(&error) => {}
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
