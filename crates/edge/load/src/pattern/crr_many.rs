//! Connect/request/response over many connections at once: a thread waits for all of them with epoll(7).

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use fabricmark_plan::Point;
use fabricmark_proto::Prepare;
use fabricmark_record::Counts;
use rustix::event::epoll::EventFlags;

use super::crr::{Departures, is_fatal};
use super::rr::{Asked, SEARCH_EVERY_NS};
use crate::control::Control;
use crate::flow_set::Ready;
use crate::opening::{Connection, FILTER, Listener, rounded};
use crate::response_limit::ResponseLimit;
use crate::sockets::peer_within;
use crate::transport::bytes::ByteFlow;
use crate::transport::{Flow, Message, if_ready};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Gauge;

/// Number of the listening socket among what is ready.
const LISTENER: usize = usize::MAX;

/// Connections that are accepted before others are served again. An arbitrary choice: with several threads none takes all
/// that wait.
const ACCEPTED_AT_ONCE: usize = 16;

/// Connections that a server has beyond one per flow. An arbitrary choice: they may be of strangers, who must not occupy
/// memory without end.
const BEYOND_FLOWS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Step {
    /// The TLS handshake, if there is one.
    Keys,
    Request,
    Response,
    /// The server closes.
    End,
}

/// A request and its response over a connection of their own, whose calls do not block.
struct Exchange<C> {
    flow: ByteFlow<C>,
    step: Step,
    /// When it was due to depart.
    due_ns: u64,
    /// How far it was when it was last looked at, and when that had changed.
    seen: (Step, usize),
    moved_ns: u64,
}

impl<C: Connection> Exchange<C> {
    fn new(connection: C, due_ns: u64, now_ns: u64) -> Self {
        let seen = (Step::Keys, 0);
        Self { flow: ByteFlow::new(connection), step: seen.0, due_ns, seen, moved_ns: now_ns }
    }

    fn shake_hands(&mut self, point: &Point) -> io::Result<()> {
        if self.step == Step::Keys {
            self.flow.stream_mut().shake_hands(point)?;
            self.step = Step::Request;
        }
        Ok(())
    }

    /// Sends the request.
    fn depart(&mut self, request: &mut [u8], point: &Point) -> io::Result<()> {
        self.shake_hands(point)?;
        if self.step == Step::Request {
            self.flow.send_message(request, 0)?;
            self.step = Step::Response;
        }
        Ok(())
    }

    /// Sends the request, and receives the response and the end of the connection.
    fn ask(&mut self, request: &mut [u8], response: &mut [u8], point: &Point) -> io::Result<()> {
        self.depart(request, point)?;
        if self.step == Step::Response {
            self.hear(response)?;
            self.step = Step::End;
        }
        match self.flow.receive_message(&mut [0])? {
            Message::End => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the response is too long")),
        }
    }

    /// Receives the request, sends the response and ends the connection.
    fn answer(
        &mut self,
        request: &mut [u8],
        response: &mut [u8],
        limit: Option<&ResponseLimit<'_>>,
        point: &Point,
    ) -> io::Result<()> {
        self.shake_hands(point)?;
        if self.step == Step::Request {
            self.hear(request)?;
            self.step = Step::Response;
            limit.map_or(Ok(()), ResponseLimit::take)?;
        }
        if self.step == Step::Response {
            self.flow.send_message(response, 0)?;
            self.step = Step::End;
        }
        self.flow.finish()
    }

    fn hear(&mut self, message: &mut [u8]) -> io::Result<()> {
        match self.flow.receive_message(message)? {
            Message::End => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Whether nothing has been sent or received yet.
    fn is_connecting(&self) -> bool {
        self.step <= Step::Request && self.flow.moved_bytes() == 0
    }

    /// For how long nothing has moved, as far as this was looked at.
    fn silence_ns(&mut self, now_ns: u64) -> u64 {
        let at = (self.step, self.flow.moved_bytes());
        if at != self.seen {
            (self.seen, self.moved_ns) = (at, now_ns);
        }
        now_ns.saturating_sub(self.moved_ns)
    }
}

/// Makes transactions over at most `flows` connections at once until no more depart and all have ended; adds the results
/// to `asked`, and returns the transactions of each flow. `connect` returns a connection whose calls do not block, and
/// which may not be established yet. A transaction lasts from its departure until the server has closed.
pub(crate) fn ask<C: Connection>(
    flows: usize,
    connect: impl Fn() -> io::Result<C>,
    (request, response): (&mut [u8], &mut [u8]),
    departures: &mut Departures<'_>,
    mut asked: Asked,
    (prepare, control): (&Prepare, &Control),
    gauge: &Gauge,
) -> io::Result<(Asked, Vec<u64>)> {
    let point = &prepare.point;
    let mut ready = Ready::new()?;
    let mut exchanges: Vec<Option<Exchange<C>>> = (0..flows).map(|_| None).collect();
    let mut of_each = vec![0; flows];
    let mut free: VecDeque<usize> = (0..flows).collect();
    let at_most = at_most(control);
    let mut now = now_ns();
    let (mut heard_ns, mut search_ns) = (now, now + SEARCH_EVERY_NS);
    loop {
        while let Some(&place) = free.front()
            && let Some(due_ns) = departures.take_due(now)
        {
            free.pop_front();
            let mut exchange = Exchange::new(connect()?, due_ns, now);
            let is_sent = if_ready(exchange.depart(request, point))?.is_some();
            let room = if is_sent { EventFlags::empty() } else { EventFlags::OUT };
            ready.add(exchange.flow.stream(), place, EventFlags::IN | EventFlags::ET | room)?;
            exchanges[place] = Some(exchange);
            now = now_ns();
        }
        let is_over = departures.is_over();
        if is_over && free.len() == flows {
            break;
        }
        let has_turn = !is_over && !free.is_empty();
        let places = match departures.pause(now) {
            Some(pause) if has_turn => ready.look_for(Some(pause.min(Control::LOOK_EVERY)))?,
            Some(_) => ready.look(Some(Control::LOOK_EVERY))?,
            None => ready.look(at_most)?,
        };
        control.check().map_err(io::Error::other)?;
        for place in places {
            let Some(exchange) = &mut exchanges[place] else { continue };
            if if_ready(exchange.ask(request, response, point))?.is_some() {
                heard_ns = now_ns();
                asked.take(heard_ns, heard_ns - exchange.due_ns);
                gauge.add(request.len() as u64, 1);
                of_each[place] += 1;
                exchanges[place] = None;
                free.push_back(place);
            }
        }
        now = now_ns();
        if now >= search_ns {
            search_ns = now + SEARCH_EVERY_NS;
            exchanges
                .iter_mut()
                .flatten()
                .try_for_each(|exchange| expire(exchange, now, prepare))?;
        }
    }
    Ok((asked.until(heard_ns, 1, request), of_each))
}

/// Time limit of a wait for connections; `None` if orders interrupt this thread.
fn at_most(control: &Control) -> Option<Duration> {
    (!control.interrupter.interrupts_this_thread()).then_some(Control::LOOK_EVERY)
}

/// Fails if the other end has been silent for too long.
fn expire<C: Connection>(
    exchange: &mut Exchange<C>,
    now_ns: u64,
    prepare: &Prepare,
) -> io::Result<()> {
    let within = peer_within(prepare);
    let silence_ns = u128::from(exchange.silence_ns(now_ns));
    let message = if exchange.is_connecting() {
        let within = prepare.point.connect_timeout.map_or(within, Duration::from);
        (silence_ns >= within.as_nanos())
            .then(|| format!("no connection within {}; {FILTER}", rounded(within)))
    } else {
        (silence_ns >= within.as_nanos())
            .then(|| format!("no data from the other end for {}", rounded(within)))
    };
    message.map_or(Ok(()), |message| Err(io::Error::new(io::ErrorKind::TimedOut, message)))
}

/// Answers one request per connection until the coordinator reports that all were made. Failed connections are ignored:
/// they may be foreign, and the client reports its own.
pub(crate) fn answer<C: Connection>(
    listener: &Listener<'_>,
    (request, response): (&mut [u8], &mut [u8]),
    limit: Option<&ResponseLimit<'_>>,
    (prepare, control): (&Prepare, &Control),
    gauge: &Gauge,
) -> io::Result<Counts> {
    let point = &prepare.point;
    let within_ns = peer_within(prepare).as_nanos() as u64;
    let most = point.flows as usize + BEYOND_FLOWS;
    let mut ready = Ready::new()?;
    ready.add(listener, LISTENER, EventFlags::IN | EventFlags::EXCLUSIVE)?;
    let mut exchanges: Vec<Option<Exchange<C>>> = (0..most).map(|_| None).collect();
    let mut free: Vec<usize> = (0..most).rev().collect();
    let mut counts = Counts::default();
    let began = now_ns();
    let mut search_ns = began + SEARCH_EVERY_NS;
    let mut answer = |exchange: &mut Exchange<C>| match if_ready(
        exchange.answer(request, response, limit, point),
    ) {
        Ok(Some(())) => {
            counts.calls += 1;
            gauge.add(response.len() as u64, 1);
            Ok(false)
        }
        Ok(None) => Ok(true),
        Err(error) if is_fatal(&error) => Err(error),
        Err(_) => Ok(false),
    };
    let at_most = at_most(control);
    while !control.is_drained(0, u64::MAX) {
        let places = ready.look(at_most)?;
        let now = now_ns();
        for place in places {
            if let Some(exchange) = exchanges.get_mut(place) {
                if let Some(open) = exchange
                    && !answer(open)?
                {
                    *exchange = None;
                    free.push(place);
                }
                continue;
            }
            for _ in 0..ACCEPTED_AT_ONCE.min(free.len()) {
                let connection: C = match listener.accept_waiting() {
                    Ok(connection) => connection,
                    Err(error) if is_fatal(&error) => return Err(error),
                    Err(_) => break,
                };
                if rustix::io::ioctl_fionbio(&connection, true).is_err() {
                    continue;
                }
                let mut exchange = Exchange::new(connection, now, now);
                // The request may have arrived already.
                if answer(&mut exchange)?
                    && let Some(place) = free.pop()
                {
                    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                    ready.add(exchange.flow.stream(), place, flags)?;
                    exchanges[place] = Some(exchange);
                }
            }
        }
        if now >= search_ns {
            search_ns = now + SEARCH_EVERY_NS;
            for (place, exchange) in exchanges.iter_mut().enumerate() {
                if exchange.as_mut().is_some_and(|open| open.silence_ns(now) >= within_ns) {
                    *exchange = None;
                    free.push(place);
                }
            }
        }
    }
    counts.bytes = counts.calls * response.len() as u64;
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}
