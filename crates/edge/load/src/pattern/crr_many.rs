//! Connect/request/response over many connections at once: a thread waits for all of them with epoll(7).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fabricmark_plan::Point;
use fabricmark_proto::Prepare;
use fabricmark_record::Counts;
use rustix::event::epoll::EventFlags;

use super::crr::{Departures, is_fatal};
use super::rr::{ClientResults, SEARCH_EVERY_NS};
use crate::control::Control;
use crate::flow_set::Ready;
use crate::opening::{Connection, FILTER, Listener, rounded, unconnected};
use crate::response_limit::ResponseLimit;
use crate::sockets::{BEYOND_FLOWS, peer_within};
use crate::transport::bytes::ByteFlow;
use crate::transport::{Flow, Message, if_ready};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Gauge;

/// Number by which epoll reports the listening socket.
const LISTENER: usize = usize::MAX;

/// Connections that are accepted before others are served again. An arbitrary choice: with several threads none takes all
/// that wait.
const ACCEPTED_AT_ONCE: usize = 16;

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
struct Transaction<C> {
    flow: ByteFlow<C>,
    step: Step,
    /// When it was due to depart.
    due_ns: u64,
    /// Step and bytes at the last check, and when they last changed.
    seen: (Step, usize),
    moved_ns: u64,
    is_client: bool,
    /// Whether epoll reports room for output.
    has_room_events: bool,
}

impl<C: Connection> Transaction<C> {
    fn new(connection: C, is_client: bool, due_ns: u64, now_ns: u64) -> Self {
        Self {
            flow: ByteFlow::new(connection),
            step: Step::Keys,
            due_ns,
            seen: (Step::Keys, 0),
            moved_ns: now_ns,
            is_client,
            has_room_events: false,
        }
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
            self.receive(response)?;
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
            self.receive(request)?;
            self.step = Step::Response;
            limit.map_or(Ok(()), ResponseLimit::take)?;
        }
        if self.step == Step::Response {
            self.flow.send_message(response, 0)?;
            self.step = Step::End;
        }
        self.flow.stream_mut().try_finish()
    }

    /// Registers it with epoll, for output as well if its last call may have been a write that blocked.
    fn register(&mut self, place: usize, ready: &Ready) -> io::Result<()> {
        self.has_room_events = self.may_need_room();
        ready.add(self.flow.stream(), place, self.events())
    }

    /// Adds output events to a registered transaction whose write blocked.
    fn needs_room(&mut self, place: usize, ready: &Ready) -> io::Result<()> {
        if self.has_room_events || !self.may_need_room() {
            return Ok(());
        }
        self.has_room_events = true;
        ready.modify(self.flow.stream(), place, self.events())
    }

    fn events(&self) -> EventFlags {
        let room = if self.has_room_events { EventFlags::OUT } else { EventFlags::empty() };
        EventFlags::IN | EventFlags::ET | room
    }

    fn may_need_room(&self) -> bool {
        let is_sending = if self.is_client { Step::Request } else { Step::Response };
        C::HAS_KEYS || self.step == is_sending
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        match self.flow.receive_message(message)? {
            Message::End => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Whether nothing has been sent or received yet.
    fn is_connecting(&self) -> bool {
        self.step <= Step::Request && self.flow.moved_bytes() == 0
    }

    /// Adds the address of the server and the remedy to the error of a failed connect.
    fn failed(&self, error: io::Error, at: SocketAddr, prepare: &Prepare) -> io::Error {
        if self.is_connecting() && !C::HAS_KEYS {
            return io::Error::other(unconnected(at, peer_within(prepare))(error));
        }
        error
    }

    /// Time since the step or the number of bytes last changed, as of the previous check.
    fn silence_ns(&mut self, now_ns: u64) -> u64 {
        let at = (self.step, self.flow.moved_bytes());
        if at != self.seen {
            (self.seen, self.moved_ns) = (at, now_ns);
        }
        now_ns.saturating_sub(self.moved_ns)
    }
}

/// Makes transactions over at most `flows` connections at once until no more depart and all have ended; adds the results
/// to `results`, and returns the transactions of each flow. `connect` returns a connection whose calls do not block, and
/// which may not be established yet. A transaction lasts from its departure until the server has closed.
pub(crate) fn ask<C: Connection>(
    flows: usize,
    connect: impl Fn() -> io::Result<C>,
    (request, response): (&mut [u8], &mut [u8]),
    departures: &mut Departures<'_>,
    mut results: ClientResults,
    (prepare, control, at): (&Prepare, &Control, SocketAddr),
    gauge: &Gauge,
) -> io::Result<(ClientResults, Vec<u64>)> {
    let point = &prepare.point;
    let mut ready = Ready::new()?;
    let mut transactions: Vec<Option<Transaction<C>>> = (0..flows).map(|_| None).collect();
    let mut of_each = vec![0; flows];
    let mut free: VecDeque<usize> = (0..flows).collect();
    // A connect timeout needs wake-ups although no event arrives.
    let limit = point.connect_timeout.map(|_| Control::LOOK_EVERY);
    let at_most = limit.or(at_most(control));
    let mut now = now_ns();
    let (mut heard_ns, mut search_ns) = (now, now + SEARCH_EVERY_NS);
    loop {
        while let Some(&place) = free.front()
            && let Some(due_ns) = departures.take_due(now)
        {
            free.pop_front();
            let mut transaction = Transaction::new(connect()?, true, due_ns, now);
            let departed = if_ready(transaction.depart(request, point));
            departed.map_err(|error| transaction.failed(error, at, prepare))?;
            transaction.register(place, &ready)?;
            transactions[place] = Some(transaction);
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
            let Some(transaction) = &mut transactions[place] else { continue };
            let answered = if_ready(transaction.ask(request, response, point));
            if answered.map_err(|error| transaction.failed(error, at, prepare))?.is_some() {
                heard_ns = now_ns();
                results.take(heard_ns, heard_ns - transaction.due_ns);
                gauge.add(request.len() as u64, 1);
                of_each[place] += 1;
                transactions[place] = None;
                free.push_back(place);
            }
        }
        now = now_ns();
        if now >= search_ns {
            search_ns = now + SEARCH_EVERY_NS;
            transactions
                .iter_mut()
                .flatten()
                .try_for_each(|transaction| expire(transaction, now, prepare))?;
        }
    }
    Ok((results.until(heard_ns, 1, request), of_each))
}

/// Time limit of a wait for connections; `None` if orders interrupt this thread.
fn at_most(control: &Control) -> Option<Duration> {
    (!control.interrupter.interrupts_this_thread()).then_some(Control::LOOK_EVERY)
}

/// Fails if the other end has been silent for too long.
fn expire<C: Connection>(
    transaction: &mut Transaction<C>,
    now_ns: u64,
    prepare: &Prepare,
) -> io::Result<()> {
    let is_connecting = transaction.is_connecting();
    let limit = prepare.point.connect_timeout.filter(|_| is_connecting);
    let within = limit.map_or(peer_within(prepare), Duration::from);
    if u128::from(transaction.silence_ns(now_ns)) < within.as_nanos() {
        return Ok(());
    }
    let within = rounded(within);
    let message = match (is_connecting, C::HAS_KEYS) {
        (true, false) => format!("no connection within {within}; {FILTER}"),
        (true, true) => format!("no connection and TLS handshake within {within}; {FILTER}"),
        (false, _) => format!("no data from the other end for {within}"),
    };
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
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
    let mut listens = false;
    let mut transactions: Vec<Option<Transaction<C>>> = (0..most).map(|_| None).collect();
    let mut free: Vec<usize> = (0..most).rev().collect();
    let mut counts = Counts::default();
    let began = now_ns();
    let mut search_ns = began + SEARCH_EVERY_NS;
    let mut answer = |transaction: &mut Transaction<C>| match if_ready(
        transaction.answer(request, response, limit, point),
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
        // The listener is level-triggered: while no place is free, pending connections would wake this thread all the time.
        match (listens, free.is_empty()) {
            (false, false) => {
                ready.add(listener, LISTENER, EventFlags::IN | EventFlags::EXCLUSIVE)?;
            }
            (true, true) => ready.remove(listener)?,
            _ => {}
        }
        listens = !free.is_empty();
        let limit = if listens { at_most } else { Some(Control::LOOK_EVERY) };
        let places = ready.look(limit)?;
        let now = now_ns();
        for place in places {
            if let Some(transaction) = transactions.get_mut(place) {
                let Some(open) = transaction else { continue };
                if answer(open)? {
                    open.needs_room(place, &ready)?;
                } else {
                    *transaction = None;
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
                let mut transaction = Transaction::new(connection, false, now, now);
                // The request may have arrived already.
                if answer(&mut transaction)?
                    && let Some(place) = free.pop()
                {
                    transaction.register(place, &ready)?;
                    transactions[place] = Some(transaction);
                }
            }
        }
        if now >= search_ns {
            search_ns = now + SEARCH_EVERY_NS;
            for (place, transaction) in transactions.iter_mut().enumerate() {
                if transaction.as_mut().is_some_and(|open| open.silence_ns(now) >= within_ns) {
                    *transaction = None;
                    free.push(place);
                }
            }
        }
    }
    counts.bytes = counts.calls * response.len() as u64;
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}
