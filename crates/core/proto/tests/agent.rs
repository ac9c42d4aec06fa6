//! A coordinator, an agent and their workers joined in virtual time, over long, lossy and broken paths.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::VecDeque;

use fabricmark_plan::Role;
use fabricmark_proto::{
    Action, AdmissionQueue, AgentAction, Answer, Caller, Connection, Conversation,
    ConversationError, EndReport, Ends, News, Order, PROTOCOL_VERSION, Prepare, Report, Request,
    SessionId, Welcome, Worker,
};
use fabricmark_units::{Instant, Nanos, Stream};

const RUN: u64 = 7;
const DURATION: Nanos = Nanos::from_secs(10);
const SESSION: [u8; 16] = [9; 16];

fn prepare(role: Role, levels: &str) -> Prepare {
    let defaults = "pattern=stream,transport=udp,family=4,payload=1024,link=veth";
    let prepare = fabricmark_testkit::prepare(role, &format!("{defaults},{levels}"));
    Prepare { run: RUN, duration_ns: DURATION, token: [1; 16], ..prepare }
}

/// A TCP connection over a path: bytes arrive in order, and a lost segment delays what follows until it is
/// retransmitted. Since pings follow all the time, the sender detects the loss of a segment or of its
/// retransmission by later arrivals (RFC 8985), not by a timer with exponential backoff.
struct Path {
    one_way: Nanos,
    loss: f64,
    random: Stream,
    /// Arrival time of the latest message in each direction.
    busy: [Instant; 2],
    is_cut: bool,
}

impl Path {
    fn new(rtt: Nanos, loss: f64, seed: u64) -> Self {
        let one_way = Nanos(rtt.0 / 2);
        Self {
            one_way,
            loss,
            random: Stream::new(seed, "path"),
            busy: [Instant(0); 2],
            is_cut: false,
        }
    }

    fn chance(&mut self) -> f64 {
        self.random.next_u64() as f64 / u64::MAX as f64
    }

    /// When a message sent now arrives; `None`: never.
    fn carry(&mut self, now: Instant, direction: usize) -> Option<Instant> {
        if self.is_cut {
            return None;
        }
        let mut left = now;
        // 1.5 RTTs: one RTT, and the time to the next ping with its share of an RTT.
        let repeated_after = Nanos(3 * self.one_way.0);
        while self.chance() < self.loss {
            left = left + repeated_after;
        }
        let at = (left + self.one_way).max(self.busy[direction]);
        self.busy[direction] = at;
        Some(at)
    }
}

enum Event {
    Request(Request),
    Answer(Answer),
    /// To the coordinator's local worker, and from it.
    Order(Order),
    Report(Report),
    /// A worker's load has ended.
    Finish(Role),
}

/// A coordinator with a local worker and a connection to an agent.
struct World {
    now: Instant,
    path: Path,
    conversation: Conversation,
    caller: Caller,
    connection: Connection,
    queue: AdmissionQueue<u8, SessionId>,
    workers: [Worker; 2],
    events: VecDeque<(Instant, Event)>,
    /// Longest time between two requests arriving at the agent.
    silence: Nanos,
    heard_at: Instant,
    /// When the agent had freed all resources.
    freed: Option<Instant>,
    gone: Option<News>,
}

impl World {
    fn new(path: Path) -> Self {
        let now = Instant(0);
        let rtt = Nanos(path.one_way.0 * 2);
        let caller = Caller::new(now, SESSION, rtt);
        let prepare = |role| Prepare { patience_ns: caller.patience(), ..prepare(role, "") };
        let (start, answer) = (prepare(Role::Client), prepare(Role::Server));
        let welcome = Welcome { version: PROTOCOL_VERSION, ..Welcome::default() };
        Self {
            now,
            conversation: Conversation::new(now, start, answer),
            caller,
            connection: Connection::new(now, welcome, rtt),
            queue: AdmissionQueue::new(1),
            path,
            workers: [Worker::default(), Worker::default()],
            events: VecDeque::new(),
            silence: Nanos(0),
            heard_at: now,
            freed: None,
            gone: None,
        }
    }

    fn at(&mut self, at: Instant, event: Event) {
        let place = self.events.partition_point(|(other, _)| *other <= at);
        self.events.insert(place, (at, event));
    }

    fn send(&mut self) {
        while let Some((role, order)) = self.conversation.poll_output() {
            match role {
                Role::Client => self.at(self.now, Event::Order(order)),
                Role::Server => self.caller.on_order(order),
            }
        }
        while let Some(request) = self.caller.poll_output() {
            if let Some(at) = self.path.carry(self.now, 0) {
                self.at(at, Event::Request(request));
            }
        }
        while let Some(action) = self.connection.poll_output() {
            match action {
                AgentAction::Say(answer) => {
                    if let Some(at) = self.path.carry(self.now, 1) {
                        self.at(at, Event::Answer(answer));
                    }
                }
                AgentAction::Ask => {
                    let turn = self.queue.ask((1, self.connection.session()), 1);
                    self.connection.on_turn(turn);
                }
                AgentAction::Hand(order) => self.order(Role::Server, order),
                AgentAction::Done => self.queue.done((1, self.connection.session())),
                AgentAction::Leave => self.queue.leave(1),
                AgentAction::ListInterfaces => unreachable!("nobody requests the interfaces"),
                AgentAction::Close => self.freed = Some(self.now),
            }
        }
        for role in [Role::Client, Role::Server] {
            while let Some(report) = self.workers[role as usize].poll_output() {
                match role {
                    Role::Client => self.at(self.now, Event::Report(report)),
                    Role::Server => self.connection.on_report(report),
                }
            }
        }
    }

    fn order(&mut self, role: Role, order: Order) {
        let (now, worker) = (self.now, &mut self.workers[role as usize]);
        match worker.on_order(order) {
            Some(Action::Prepare(_)) => worker.on_prepared(1),
            Some(Action::Begin(_)) => {
                worker.on_progress(|run| Report::Begun { run });
                self.at(now + DURATION, Event::Finish(Role::Client));
            }
            Some(Action::Drain { idle, .. }) => self.at(now + idle, Event::Finish(Role::Server)),
            Some(
                Action::Hold
                | Action::Stop
                | Action::Abort
                | Action::Start { .. }
                | Action::Slice { .. }
                | Action::EndSlice { .. },
            )
            | None => {}
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Request(request) => {
                self.silence = self.silence.max(self.now - self.heard_at);
                self.heard_at = self.now;
                self.connection.on_request(self.now, request);
            }
            Event::Answer(answer) => match self.caller.on_answer(self.now, answer) {
                Some(News::Report(report)) => {
                    self.conversation.on_message(self.now, Role::Server, report);
                }
                Some(News::Welcome(_) | News::Interfaces(_)) | None => {}
                Some(gone) => self.gone = Some(gone),
            },
            Event::Order(order) => self.order(Role::Client, order),
            Event::Report(report) => self.conversation.on_message(self.now, Role::Client, report),
            Event::Finish(role) => {
                let end =
                    EndReport { opening_rtt_ns: self.path.one_way.0 * 2, ..EndReport::default() };
                self.workers[role as usize].on_finished(Ok(end));
            }
        }
    }

    /// Advances by one event or deadline; false when nothing is left to happen.
    fn step(&mut self) -> bool {
        self.send();
        self.send();
        let deadlines =
            [self.conversation.deadline(), self.caller.deadline(), self.connection.deadline()];
        let event = self.events.front().map(|(at, _)| *at);
        let Some(next) = deadlines.into_iter().chain([event]).flatten().min() else { return false };
        self.now = self.now.max(next);
        match self.events.front() {
            Some(&(at, _)) if at <= self.now => {
                let (_, event) = self.events.pop_front().unwrap();
                self.happen(event);
            }
            _ => {
                self.conversation.on_timeout(self.now);
                if let Some(gone) = self.caller.on_timeout(self.now) {
                    self.gone = Some(gone);
                    self.conversation.on_closed(Role::Server);
                }
                self.connection.on_timeout(self.now);
            }
        }
        true
    }

    fn until_outcome(&mut self) -> Result<Ends, ConversationError> {
        for _ in 0..100_000 {
            assert!(self.step(), "nothing will happen any more");
            if let Some(outcome) = self.conversation.outcome() {
                return outcome;
            }
        }
        panic!("no outcome after 100,000 events at {:?}", self.now);
    }
}

fn seconds(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

#[test]
fn a_run_with_an_agent_ends_well() {
    let mut world = World::new(Path::new(seconds(0.001), 0.0, 1));
    world.until_outcome().unwrap();
    assert!(world.now - Instant(0) < DURATION + seconds(0.1), "{:?}", world.now);
    assert_eq!(world.queue.busy(), 0);
}

/// The end of a test survives slow and lossy paths.
#[test]
fn runs_end_well_over_a_path_of_2_s_that_loses_a_fifth_each_way() {
    for seed in 0..200 {
        let mut world = World::new(Path::new(seconds(2.0), 0.2, seed));
        let outcome = world.until_outcome();
        assert!(outcome.is_ok(), "seed {seed}, after {}: {outcome:?}", world.now - Instant(0));
    }
}

/// An agent is not kept busy by a peer that vanished.
#[test]
fn what_a_vanished_coordinator_held_is_free_within_5_s() {
    let mut world = World::new(Path::new(seconds(0.02), 0.0, 1));
    while world.now < Instant(3_000_000_000) {
        assert!(world.step());
    }
    assert!(world.connection.is_busy());
    let cut = world.now;
    world.path.is_cut = true;
    while world.freed.is_none() {
        assert!(world.step());
    }
    let took = world.freed.unwrap() - cut;
    assert!(took <= seconds(5.0), "{took}");
    assert_eq!(world.queue.busy(), 0);
}

#[test]
fn a_vanished_agent_ends_the_run_within_5_s() {
    let mut world = World::new(Path::new(seconds(0.02), 0.0, 1));
    while world.now < Instant(3_000_000_000) {
        assert!(world.step());
    }
    let cut = world.now;
    world.path.is_cut = true;
    let outcome = world.until_outcome();
    assert_eq!(outcome, Err(ConversationError::Vanished { role: Role::Server }));
    assert_eq!(world.gone, Some(News::Vanished));
    assert!(world.now - cut <= seconds(5.0));
}

/// The control connection survives NATs and firewalls that drop idle connections.
#[test]
fn an_agent_that_answers_pings_and_nothing_else_is_given_up_within_5_s() {
    let mut caller = Caller::new(Instant(0), SESSION, Nanos(0));
    let mut now = Instant(0);
    loop {
        now = now + seconds(0.1);
        if caller.on_timeout(now) == Some(News::Vanished) {
            break;
        }
        assert!(now <= Instant(0) + seconds(5.0));
        assert_eq!(caller.on_answer(now, Answer::Pong { sent_ns: 0, agent_ns: 0 }), None);
    }
}

#[test]
fn an_idle_connection_is_never_silent_for_longer_than_2_s() {
    let mut world = World::new(Path::new(seconds(0.1), 0.0, 1));
    world.until_outcome().unwrap();
    let end = world.now + Nanos::from_secs(3600);
    while world.now < end {
        assert!(world.step());
    }
    assert!(world.silence <= seconds(2.0), "{}", world.silence);
    assert_eq!((world.freed, world.gone.is_none()), (None, true));
}
