//! The coordinator's side of the control conversation of one run, with both of its ends.
//!
//! The *sender* is the end that sends the stream or the requests, `active` in the code; the other end is `passive`.
//!
//! ```text
//!   coordinator              server                  client
//!       |-- prepare ------------>|                      |
//!       |-- prepare ----------------------------------->|
//!       |<- ready, port ---------|                      |
//!       |<- ready --------------------------------------|
//!       |-- begin, address and port ------------------->|
//!       |                        |<======= open ========>|
//!       |<- begun, from the sender --------------------|
//!       |                        |<====== payloads =====>|
//!       |<- interval, if requested, from either end ----|
//!       |<- holds -------------|  a segment is missing where counting should start
//!       |-- hold ------------------------------------->|  so the sender continues
//!       |<- counts ------------|  until that segment has arrived
//!       |-- stop, a duration later ------------------->|
//!       |<- finished, counts ---------------------------|
//!       |-- drain, sent count -->|                      |
//!       |<- finished, counts ----|                      |
//! ```
//!
//! A run in slices keeps its flows open between them. After `begun` no data flow until a slice is ordered:
//!
//! ```text
//!       |-- slice ------------------------------------->|
//!       |                        |<====== payloads =====>|
//!       |<- slice, counts ------------------------------|
//!       |-- end slice, sent count|                      |  the receiver of a stream
//!       |<- slice, counts -------|                      |
//!       |-- stop, after the last slice ---------------->|
//! ```
//!
//! If several conversations have to start at the same time, each sender waits when its flows are open:
//!
//! ```text
//!       |<- opened, from the sender -------------------|
//!       |-- start, time ------------------------------>|
//!       |<- begun, from the sender --------------------|
//! ```
//!
//! Each step has a deadline. If one end fails, both get an abort.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fabricmark_plan::{CONTROL_RTT_MAX, Pattern, Role};
use fabricmark_record::{Counts, Interval};
use fabricmark_units::{Instant, Nanos};

use super::message::{EndReport, Failure, Order, Prepare, Report};

/// Time limit for an order that involves no data: a millisecond over a local socket, so it only detects a stuck peer.
const ANSWER_WITHIN: Nanos = Nanos::from_secs(5);

/// Time limit in a queue since the last report of the position: earlier runs may take hours, and the connection's
/// keepalive detects a lost queue.
const QUEUE_WITHIN: Nanos = Nanos::from_secs(24 * 3600);

/// Extra time after the run's duration for the last data to arrive.
const FINISH_WITHIN: Nanos = Nanos::from_secs(10);

/// Time limit for each flow to open, one after the other: an RTT of 10 ms. Over loopback 10,000 flows take 1.2 s.
const OPENING_WITHIN: Nanos = Nanos::from_millis(10);

/// Silence, in addition to two RTTs, that ends a datagram stream. Datagrams queued behind a 1 Gbit/s link with a 4
/// MiB buffer take 34 ms, but each arrival restarts the timer.
const IDLE_BEYOND_TWO_RTT: Nanos = Nanos::from_millis(20);

/// A slice of datagrams ends after a silence of two RTTs and its length divided by this. The plan puts at least 40
/// datagrams into a slice, so the silence is four times the mean time between two of them.
const SLICE_IDLE_DIVISOR: u64 = 10;

/// Shortest such silence beyond two RTTs: an arbitrary choice, longer than the wake-up of a thread.
const SLICE_IDLE_MIN: Nanos = Nanos(500_000);

/// Results of both ends of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends {
    /// The end that opened the flows.
    pub client: EndReport,
    /// The end that listened.
    pub server: EndReport,
}

/// Why a run has no result; `role` is the end that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each error explains its fields")]
pub enum ConversationError {
    /// An end reported a failure.
    #[error("the {} failed: {failure}", role.name())]
    Failed { role: Role, failure: Failure },
    /// The relay between the ends could not relay.
    #[error("the relay failed: {failure}")]
    Relay { failure: Failure },
    /// An end did not answer in time; `is_ending`: the flows were open, and the end had to finish the run.
    #[error("the {} did not answer within {:.1} s{}", role.name(), within.as_secs_f64(), help(*is_ending))]
    Silent { role: Role, within: Nanos, is_ending: bool },
    /// An end's connection closed.
    #[error("lost the connection to the {}", role.name())]
    Vanished { role: Role },
}

impl ConversationError {
    /// Whether an end lacks what the run needs, so that a retry cannot succeed.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Failed { failure: Failure::Missing(_), .. }
                | Self::Relay { failure: Failure::Missing(_) }
        )
    }
}

/// Remedy for an end that does not answer.
fn help(is_ending: bool) -> &'static str {
    match is_ending {
        true => {
            ": it has stopped, or its send buffers need longer to drain; use fewer flows or a \
             smaller send buffer"
        }
        false => ": it has stopped, or its machine is overloaded",
    }
}

#[derive(Debug)]
enum State {
    Preparing {
        port: Option<u16>,
        is_starter_ready: bool,
        /// Report of a flow of the `null` transport, which ended before the run began.
        passive: Option<Box<EndReport>>,
    },
    /// The receiver of a reliable flow sees its end, and may therefore report first.
    Running {
        passive: Option<Box<EndReport>>,
    },
    Draining {
        active: Box<EndReport>,
    },
    Over,
}

/// Parameters of a run in slices.
#[derive(Clone, Copy, Debug)]
struct Slices {
    /// Length of a slice.
    length: Nanos,
    /// Whether the passive end counts, too: the receiver of a stream.
    has_receiver: bool,
    /// Silence after which missing data of a slice count as lost.
    idle: Nanos,
}

/// State of a slice.
#[derive(Clone, Copy, Debug)]
enum Slice {
    /// The sender runs the pattern.
    Active { counts: bool },
    /// The sender has finished, and the receiver waits for data in flight.
    Draining { active: Counts },
    /// Both ends have reported their counts.
    Over { active: Counts, passive: Counts },
}

/// Control conversation of one run with its two ends.
#[derive(Debug)]
pub struct Conversation {
    run: u64,
    duration: Nanos,
    /// Time limit for all flows to open.
    opening: Nanos,
    /// Extra time for every step.
    patience: Nanos,
    /// How long the receiver may still defer its count, `None` after it did; and how long the count lasts.
    hold: Option<Nanos>,
    counted: Nanos,
    /// When to stop a sender that continues because its receiver deferred the count.
    stops: Option<Instant>,
    /// The slice under way, in a run in slices.
    slice: Option<Slice>,
    /// `None`: the run is not in slices.
    slices: Option<Slices>,
    /// Address of the server, without its port.
    answer_at: SocketAddr,
    /// The end that sends the stream or the requests; it finishes first.
    active: Role,
    /// Positions of the client's and the server's part in the queues of their agents.
    places: [Option<u32>; 2],
    /// The order to prepare that waits for the other end to be ready.
    later: Option<(Role, Order)>,
    state: State,
    /// Whether the sender has opened its flows and waits for its start; `None`: it is not to wait.
    has_opened: Option<bool>,
    has_begun: bool,
    deadline: Option<(Instant, Nanos)>,
    output: VecDeque<(Role, Order)>,
    intervals: VecDeque<(Role, Interval)>,
    /// Intervals that are still accepted: no more than fit into the time limits.
    intervals_left: u64,
    outcome: Option<Result<Ends, ConversationError>>,
}

impl Conversation {
    /// Starts a run: prepares the client with `start` and the server with `answer`.
    pub fn new(now: Instant, start: Prepare, answer: Prepare) -> Self {
        let opening = Nanos(u64::from(start.point.flows) * OPENING_WITHIN.0);
        let finish = FINISH_WITHIN + start.patience();
        let longest = start.start_ns + start.duration_ns + opening + finish + finish;
        // Two ends, each with a shorter last interval.
        let intervals = |Nanos(interval)| 2 * (longest.0 / interval.max(1) + 1);
        let mut conversation = Self {
            run: start.run,
            duration: start.duration_ns,
            opening,
            patience: start.patience(),
            hold: Some(start.hold()).filter(|&hold| hold > Nanos(0)),
            counted: Nanos(start.duration_ns.0.saturating_sub(start.omit_ns.0)),
            stops: None,
            slice: None,
            slices: start.slice_ns.map(|length| Slices {
                length,
                has_receiver: start.point.pattern == Pattern::Stream,
                idle: match start.point.transport.is_lossy() {
                    true => {
                        let is_known = start.least_rtt_ns.is_some();
                        let unknown = if is_known { Nanos(0) } else { CONTROL_RTT_MAX };
                        let rtt = start.point.rtt.unwrap_or(unknown);
                        rtt + rtt + SLICE_IDLE_MIN.max(Nanos(length.0 / SLICE_IDLE_DIVISOR))
                    }
                    false => FINISH_WITHIN,
                },
            }),
            answer_at: start.reaches(answer.address, 0),
            active: if start.is_active() { Role::Client } else { Role::Server },
            places: [None; 2],
            later: None,
            state: State::Preparing { port: None, is_starter_ready: false, passive: None },
            has_opened: start.waits_for_start.then_some(false),
            has_begun: false,
            deadline: None,
            intervals_left: start.interval_ns.map_or(0, intervals),
            output: VecDeque::from([
                (Role::Server, Order::Prepare(Box::new(answer))),
                (Role::Client, Order::Prepare(Box::new(start))),
            ]),
            intervals: VecDeque::new(),
            outcome: None,
        };
        conversation.wait(now, ANSWER_WITHIN);
        conversation
    }

    /// Prepares one end first, and the other one when that is ready. Call it before [`Self::poll_output`]. Coordinators
    /// that take their agents in the same order cannot wait for each other (deadlock).
    pub fn prepare_first(&mut self, first: Role) {
        let place = self.output.iter().position(|(role, _)| *role != first);
        self.later = place.and_then(|place| self.output.remove(place));
    }

    /// Number of the run.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Handles a report from one end.
    pub fn on_message(&mut self, now: Instant, from: Role, report: Report) {
        match report {
            Report::Queued { run, place } if run == self.run => self.on_queued(now, from, place),
            Report::Ready { run, port } if run == self.run => self.on_ready(now, from, port),
            Report::Finished { run, end } if run == self.run => self.on_finished(now, from, end),
            Report::Failed { run, failure } if run == self.run => {
                self.fail(ConversationError::Failed { role: from, failure });
            }
            Report::Opened { run }
                if run == self.run && from == self.active && self.has_opened == Some(false) =>
            {
                self.has_opened = Some(true);
                // Others may wait in a queue.
                self.wait(now, QUEUE_WITHIN);
            }
            Report::Begun { run } if run == self.run => self.has_begun |= from == self.active,
            Report::Holds { run } if run == self.run && from != self.active => self.on_held(now),
            Report::Counts { run } if run == self.run && from != self.active => {
                self.stops = self.stops.map(|latest| latest.min(now + self.counted));
            }
            Report::Slice { run, counts } if run == self.run => self.on_slice(now, from, counts),
            Report::Interval { run, interval } if run == self.run => {
                self.on_interval(from, *interval);
            }
            // A late report of an earlier run is ignored.
            _ => {}
        }
    }

    /// Handles the end of one end's connection.
    pub fn on_closed(&mut self, from: Role) {
        self.fail(ConversationError::Vanished { role: from });
    }

    /// Stops the sender and fails the run, each when it is due.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.stops.take_if(|stops| *stops <= now).is_some()
            && matches!(self.state, State::Running { .. })
        {
            self.output.push_back((self.active, Order::Stop { run: self.run }));
        }
        let Some((deadline, within)) = self.deadline else {
            return;
        };
        if now < deadline {
            return;
        }
        let role = match (&self.state, &self.later) {
            (State::Preparing { .. }, Some((later, _))) => later.other(),
            (State::Preparing { port: None, .. }, None) => Role::Server,
            (State::Preparing { .. }, None) => Role::Client,
            (State::Draining { .. }, _) => self.active.other(),
            _ if matches!(self.slice, Some(Slice::Draining { .. })) => self.active.other(),
            _ => self.active,
        };
        let is_ending = !matches!(self.state, State::Preparing { .. });
        self.fail(ConversationError::Silent { role, within, is_ending });
    }

    /// Ends a run that has begun before its time: what was measured until now counts.
    pub fn stop_early(&mut self, now: Instant) {
        self.output.push_back((self.active, Order::Stop { run: self.run }));
        self.wait(now, FINISH_WITHIN);
    }

    /// Aborts the run; its outcome is [`Failure::Aborted`].
    pub fn abort(&mut self) {
        self.fail(ConversationError::Failed { role: Role::Client, failure: Failure::Aborted });
    }

    /// Handles a failure of the relay between the ends.
    pub fn on_relay_failed(&mut self, failure: Failure) {
        self.fail(ConversationError::Relay { failure });
    }

    /// The next order to send, and its addressee.
    pub fn poll_output(&mut self) -> Option<(Role, Order)> {
        self.output.pop_front()
    }

    /// Whether the flows are open and the sender waits for its start.
    pub fn has_opened(&self) -> bool {
        self.has_opened == Some(true)
    }

    /// Lets a sender that [`Self::has_opened`] start at a time of its machine's CLOCK_MONOTONIC, `lead` from now; `None`:
    /// at once.
    pub fn start(&mut self, now: Instant, at_ns: Option<u64>, lead: Nanos) {
        self.output.push_back((self.active, Order::Start { run: self.run, at_ns }));
        self.wait(now, lead + self.duration + FINISH_WITHIN);
    }

    /// The end that sends the stream or the requests.
    pub fn sender(&self) -> Role {
        self.active
    }

    /// Whether the flows are open and the sender has started.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The next interval report, and the end that sent it.
    pub fn poll_interval(&mut self) -> Option<(Role, Interval)> {
        self.intervals.pop_front()
    }

    /// Position of the run in a queue; `None` if it does not wait.
    pub fn place(&self) -> Option<u32> {
        self.places.into_iter().flatten().max()
    }

    /// When to call [`Self::on_timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.deadline.map(|(deadline, _)| deadline), self.stops];
        deadlines.into_iter().flatten().min()
    }

    /// Starts a slice; requires a run in slices that [`Self::has_begun`], with no slice under way.
    pub fn begin_slice(&mut self, now: Instant, counts: bool) {
        let Some(Slices { length, .. }) = self.slices else { return };
        self.slice = Some(Slice::Active { counts });
        self.output.push_back((self.active, Order::Slice { run: self.run, counts }));
        self.wait(now, length + FINISH_WITHIN);
    }

    /// Counts of the sender and of the other end in the current slice, once it has ended.
    pub fn poll_slice(&mut self) -> Option<(Counts, Counts)> {
        let Some(Slice::Over { active, passive }) = self.slice else { return None };
        self.slice = None;
        Some((active, passive))
    }

    /// Ends a run in slices after the last one.
    pub fn end_slices(&mut self, now: Instant) {
        self.output.push_back((self.active, Order::Stop { run: self.run }));
        self.wait(now, FINISH_WITHIN);
    }

    fn on_slice(&mut self, now: Instant, from: Role, counted: Counts) {
        let (Some(Slices { has_receiver, idle, .. }), Some(slice)) = (self.slices, self.slice)
        else {
            return;
        };
        match slice {
            Slice::Active { .. } if from == self.active && !has_receiver => {
                self.slice = Some(Slice::Over { active: counted, passive: Counts::default() });
            }
            Slice::Active { counts } if from == self.active => {
                let order =
                    Order::EndSlice { run: self.run, bytes: counted.bytes, idle_ns: idle, counts };
                self.output.push_back((self.active.other(), order));
                self.slice = Some(Slice::Draining { active: counted });
                self.wait(now, FINISH_WITHIN);
            }
            Slice::Draining { active } if from != self.active => {
                self.slice = Some(Slice::Over { active, passive: counted });
            }
            _ => {}
        }
    }

    /// The result; returned once.
    pub fn outcome(&mut self) -> Option<Result<Ends, ConversationError>> {
        self.outcome.take()
    }

    fn wait(&mut self, now: Instant, within: Nanos) {
        let within = within + self.patience;
        self.deadline = Some((now + within, within));
    }

    fn on_queued(&mut self, now: Instant, from: Role, place: u32) {
        if matches!(self.state, State::Preparing { .. }) {
            self.places[at(from)] = Some(place);
            self.wait(now, QUEUE_WITHIN);
        }
    }

    fn on_ready(&mut self, now: Instant, from: Role, ready_port: u16) {
        let State::Preparing { port, is_starter_ready, passive } = &mut self.state else {
            return;
        };
        match from {
            Role::Server => *port = Some(ready_port),
            Role::Client => *is_starter_ready = true,
        }
        // The other end may still wait in the queue of its agent.
        self.places[at(from)] = None;
        if let Some(later) = self.later.take() {
            self.output.push_back(later);
            return self.wait(now, ANSWER_WITHIN);
        }
        if let (Some(port), true) = (*port, *is_starter_ready) {
            let mut peer = self.answer_at;
            peer.set_port(port);
            self.output.push_back((Role::Client, Order::Begin { run: self.run, peer }));
            self.state = State::Running { passive: passive.take() };
            self.wait(now, self.duration + FINISH_WITHIN + self.opening);
        }
    }

    /// Lets the sender continue, at most for the deferral and the count that follows.
    fn on_held(&mut self, now: Instant) {
        if let (State::Running { .. }, Some(hold)) = (&self.state, self.hold.take()) {
            self.output.push_back((self.active, Order::Hold { run: self.run }));
            self.stops = Some(now + hold + self.counted);
            self.wait(now, hold + self.duration + FINISH_WITHIN + self.opening);
        }
    }

    /// Queues an interval report, which does not change the state of the run.
    fn on_interval(&mut self, from: Role, interval: Interval) {
        if !matches!(self.state, State::Over) && self.intervals_left > 0 {
            self.intervals_left -= 1;
            self.intervals.push_back((from, interval));
        }
    }

    fn on_finished(&mut self, now: Instant, from: Role, end: Box<EndReport>) {
        let is_active = from == self.active;
        match (std::mem::replace(&mut self.state, State::Over), is_active) {
            (State::Running { passive: Some(passive) }, true) => self.conclude(*end, *passive),
            (State::Running { passive: None }, true) => {
                // Capped, since the number may come from a network.
                let two_rtt =
                    Nanos(end.opening_rtt_ns.saturating_mul(2)).min(Prepare::PATIENCE_MAX);
                let idle_ns = two_rtt + IDLE_BEYOND_TWO_RTT;
                // The receiver of slices already has all data.
                let bytes = if self.slices.is_some() { 0 } else { end.counts.bytes };
                let drain = Order::Drain { run: self.run, bytes, idle_ns };
                self.output.push_back((self.active.other(), drain));
                self.state = State::Draining { active: end };
                self.wait(now, FINISH_WITHIN + idle_ns);
            }
            (State::Preparing { port: port @ Some(_), is_starter_ready, passive: None }, false) => {
                self.state = State::Preparing { port, is_starter_ready, passive: Some(end) };
            }
            (State::Running { passive: None }, false) => {
                self.state = State::Running { passive: Some(end) };
            }
            (State::Draining { active }, false) => self.conclude(*active, *end),
            (State::Over, _) => {}
            (_, _) => {
                let failure = Failure::Protocol("unexpected end of the run".to_owned());
                self.fail(ConversationError::Failed { role: from, failure });
            }
        }
    }

    fn conclude(&mut self, active: EndReport, passive: EndReport) {
        self.deadline = None;
        self.outcome = Some(Ok(match self.active {
            Role::Client => Ends { client: active, server: passive },
            Role::Server => Ends { client: passive, server: active },
        }));
    }

    fn fail(&mut self, error: ConversationError) {
        if self.outcome.is_some() || (matches!(self.state, State::Over) && self.deadline.is_none())
        {
            return;
        }
        self.output.clear();
        self.later = None;
        for role in [Role::Client, Role::Server] {
            self.output.push_back((role, Order::Abort { run: self.run }));
        }
        self.state = State::Over;
        self.deadline = None;
        self.outcome = Some(Err(error));
    }
}

/// Place of an end in [`Conversation::places`].
fn at(role: Role) -> usize {
    usize::from(role == Role::Server)
}
