//! The agent's side of one connection from an authenticated coordinator.
//!
//! ```text
//!   coordinator              connection                 worker
//!       |-- hello ------------>|                     |
//!       |<- welcome -----------|                     |
//!       |-- prepare ---------->|  its turn?          |
//!       |<- queued, place -----|                     |
//!       |                      |-- prepare --------->|
//!       |<- ready -------------|<- ready ------------|
//!       |-- ping ------------->|                     |
//!       |<- pong --------------|                     |
//! ```

use std::collections::VecDeque;

use fabricmark_plan::check_order;
use fabricmark_record::{TierLine, TierOrder};
use fabricmark_units::{Bytes, Instant, Nanos};

use crate::PROTOCOL_VERSION;
use crate::agent::admission::Turn;
use crate::agent::keepalive::Keepalive;
use crate::agent::message::{Answer, Request, SessionId, Welcome};
use crate::agent::quota::{Quota, memory_of};
use crate::control::message::{Failure, Order, Prepare, Report};

/// Time that a coordinator has to disconnect after its last run when the agent stops: it has a record to store.
const LEAVE_WITHIN: Nanos = Nanos::from_secs(1);

const STOPPING: &str = "the agent is shutting down and accepts no more runs";

/// What the agent must do for a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAction {
    /// Send this message to the coordinator.
    Say(Answer),
    /// Ask the admission queue, and pass its answer to [`Connection::on_turn`].
    Ask,
    /// Pass this order to the worker or the tier; the first order starts its process.
    Hand(Order),
    /// The run has ended: tell the queue.
    Done,
    /// The waiting run is aborted: tell the queue.
    Leave,
    /// List the network interfaces, and send [`Answer::Interfaces`].
    ListInterfaces,
    /// Close the connection after sending what is queued.
    Close,
}

#[derive(Debug)]
enum State {
    /// No hello has arrived.
    Greeting,
    Idle,
    /// The run waits for its turn.
    Waiting(Box<Prepare>),
    /// The run is under way.
    Busy(u64),
    /// The run was aborted and has not ended yet; holds the next run if it was already ordered.
    Ending(u64, Option<Box<Prepare>>),
    /// A tier of the bookstore waits for its turn.
    TierWaiting(Box<TierOrder>),
    /// A tier runs here, until the connection ends.
    Tier,
    Closed,
}

/// One connection of a coordinator.
#[derive(Debug)]
pub struct Connection {
    state: State,
    session: SessionId,
    quota: Quota,
    /// Number of the latest run that has begun. A report of a run is told from those of others by its number.
    begun: Option<u64>,
    /// Memory of the latest run.
    memory: Bytes,
    welcome: Option<Box<Welcome>>,
    keepalive: Keepalive,
    /// The coordinator has requested the interfaces.
    has_listed: bool,
    /// The agent accepts no more runs.
    is_draining: bool,
    /// When the agent then closes the connection.
    leaves: Option<Instant>,
    output: VecDeque<AgentAction>,
}

impl Connection {
    /// A new connection; `welcome` will answer its hello, and `rtt` comes from its handshake.
    pub fn new(now: Instant, welcome: Welcome, rtt: Nanos) -> Self {
        Self {
            state: State::Greeting,
            session: [0; 16],
            quota: welcome.quota.clone(),
            begun: None,
            memory: Bytes(0),
            welcome: Some(Box::new(welcome)),
            keepalive: Keepalive::new(now, rtt),
            has_listed: false,
            is_draining: false,
            leaves: None,
            output: VecDeque::new(),
        }
    }

    /// Handles a request.
    pub fn on_request(&mut self, now: Instant, request: Request) {
        self.keepalive.heard = now;
        match (request, &self.state) {
            (_, State::Closed) => {}
            (Request::Hello { version, session }, State::Greeting) => {
                self.on_hello(version, session);
            }
            (Request::Ping { sent_ns, rtt_ns }, _) => {
                self.keepalive.rtt = Nanos(rtt_ns);
                self.say(Answer::Pong { sent_ns, agent_ns: now.0 });
            }
            (Request::Hello { .. }, _)
            | (Request::Order { .. } | Request::Interfaces, State::Greeting) => {
                self.refuse("unexpected request in this state of the protocol".to_owned());
            }
            (Request::Order { order }, _) => self.on_order(order),
            // An answer takes the agent milliseconds, and may be long.
            (Request::Interfaces, _) if self.has_listed => {
                self.refuse("a connection may request the interfaces once".to_owned());
            }
            (Request::Interfaces, _) => {
                self.has_listed = true;
                self.output.push_back(AgentAction::ListInterfaces);
            }
        }
    }

    fn on_hello(&mut self, version: u16, session: SessionId) {
        if version != PROTOCOL_VERSION {
            // The message is shown at the coordinator, where "this program" is the coordinator's.
            let ours = PROTOCOL_VERSION;
            let update = if version > ours { "the agent" } else { "this program" };
            self.refuse(format!(
                "the agent uses protocol version {ours}, this program version {version}: update \
                 {update}"
            ));
            return;
        }
        // Zeros mean that no hello has arrived: such connections do not count towards the limit of a coordinator.
        if session == [0; 16] {
            return self.refuse("a session of zeros is reserved: use a random one".to_owned());
        }
        self.session = session;
        self.state = State::Idle;
        if let Some(welcome) = self.welcome.take() {
            self.say(Answer::Welcome(welcome));
        }
    }

    fn on_order(&mut self, order: Order) {
        match (order, &self.state) {
            (Order::Prepare(prepare), State::Idle) => self.on_prepare(prepare),
            (Order::Abort { run }, State::Waiting(_)) => {
                self.state = State::Idle;
                self.output.push_back(AgentAction::Leave);
                self.fail(run, Failure::Aborted);
            }
            (Order::Prepare(prepare), &State::Ending(run, None)) => {
                self.state = State::Ending(run, Some(prepare));
            }
            (Order::Abort { run }, &State::Busy(busy)) if run == busy => {
                self.state = State::Ending(run, None);
                self.output.push_back(AgentAction::Hand(Order::Abort { run }));
            }
            (Order::Abort { run }, State::Ending(ending, Some(next))) if next.run == run => {
                self.state = State::Ending(*ending, None);
                self.fail(run, Failure::Aborted);
            }
            (Order::Tier { task, .. }, State::Idle | State::Tier) => self.on_tier_order(task),
            (Order::Tier { .. }, _) => self.fail_tier("a run is in progress".to_owned(), false),
            (Order::Prepare(prepare), _) => {
                self.fail(prepare.run, Failure::Protocol("another run is in progress".to_owned()));
            }
            (order, &State::Busy(run)) if order.run() == Some(run) => {
                self.output.push_back(AgentAction::Hand(order));
            }
            (Order::Begin { run, .. }, _) => {
                self.fail(run, Failure::Protocol("no such run is prepared".to_owned()));
            }
            // Orders for another run, such as one that has ended, are ignored; the worker's hello comes from the agent
            // itself.
            (
                Order::Abort { .. }
                | Order::Drain { .. }
                | Order::Start { .. }
                | Order::Hold { .. }
                | Order::Stop { .. }
                | Order::Slice { .. }
                | Order::EndSlice { .. }
                | Order::Hello { .. },
                _,
            ) => {}
        }
    }

    fn on_prepare(&mut self, prepare: Box<Prepare>) {
        // The run is repeated once the agent is back.
        if self.is_draining {
            return self.refuse(STOPPING.to_owned());
        }
        // Before any arithmetic with its numbers.
        if let Err(problem) = check_order(&prepare.point) {
            return self.fail(prepare.run, Failure::Protocol(problem.to_string()));
        }
        if self.begun.is_some_and(|begun| prepare.run <= begun) {
            let why = "the number of a run must be above those of earlier runs";
            return self.fail(prepare.run, Failure::Protocol(why.to_owned()));
        }
        if let Err(why) = self.quota.check(&prepare) {
            return self.fail(prepare.run, Failure::Missing(why));
        }
        self.memory = memory_of(&prepare);
        self.state = State::Waiting(prepare);
        self.output.push_back(AgentAction::Ask);
    }

    fn on_tier_order(&mut self, task: Box<TierOrder>) {
        if let Err(why) = self.quota.check_tier(&task) {
            self.fail_tier(why, true);
        } else if matches!(self.state, State::Tier) {
            self.output.push_back(AgentAction::Hand(Order::Tier { task, ports: None }));
        } else if self.is_draining {
            self.refuse(STOPPING.to_owned());
        } else {
            self.state = State::TierWaiting(task);
            self.output.push_back(AgentAction::Ask);
        }
    }

    /// Handles the queue's answer to [`AgentAction::Ask`], and each later change of it.
    pub fn on_turn(&mut self, turn: Turn) {
        match (turn, std::mem::replace(&mut self.state, State::Idle)) {
            (Turn::Now, State::Waiting(prepare)) => {
                self.state = State::Busy(prepare.run);
                self.begun = Some(prepare.run);
                self.output.push_back(AgentAction::Hand(Order::Prepare(prepare)));
            }
            (Turn::Waits { place }, State::Waiting(prepare)) => {
                let report = Report::Queued { run: prepare.run, place };
                self.state = State::Waiting(prepare);
                self.say(Answer::Report { report });
            }
            (Turn::Now, State::TierWaiting(task)) => {
                self.state = State::Tier;
                self.say_of_tier(TierLine::Queued { place: 0 });
                self.output.push_back(AgentAction::Hand(Order::Tier { task, ports: None }));
            }
            (Turn::Waits { place }, State::TierWaiting(task)) => {
                self.state = State::TierWaiting(task);
                self.say_of_tier(TierLine::Queued { place });
            }
            // It waits no more: the slot is free again.
            (Turn::Now, state) => {
                self.state = state;
                self.output.push_front(AgentAction::Done);
            }
            (Turn::Waits { .. }, state) => self.state = state,
        }
    }

    /// Fails the run whose turn it is because other runs use too much memory; the coordinator tries again.
    pub fn decline(&mut self, why: String) {
        if let State::Waiting(prepare) = &self.state {
            let run = prepare.run;
            self.state = State::Idle;
            self.fail(run, Failure::Peer(why));
        }
        self.output.push_front(AgentAction::Done);
    }

    /// Handles a report of the worker.
    pub fn on_report(&mut self, report: Report) {
        if matches!((&report, &self.state), (Report::Tier { .. }, State::Tier)) {
            return self.say(Answer::Report { report });
        }
        let (State::Busy(under_way) | State::Ending(under_way, _)) = self.state else { return };
        match report {
            Report::Finished { run, .. } | Report::Failed { run, .. } if run == under_way => {
                self.end(report);
            }
            report => self.say(Answer::Report { report }),
        }
    }

    /// Handles the loss of the worker, or of the tier: what it served is lost with it.
    pub fn on_worker_lost(&mut self, why: &str) {
        if matches!(self.state, State::Tier) {
            return self.refuse(format!("the agent's tier {why}"));
        }
        let (State::Busy(run) | State::Ending(run, _)) = self.state else { return };
        let failure = Failure::System(format!("the agent's worker {why}"));
        self.end(Report::Failed { run, failure });
    }

    /// Handles a tier whose program is not on this host.
    pub fn on_tier_missing(&mut self, why: String) {
        if matches!(self.state, State::Tier) {
            self.state = State::Idle;
            self.fail_tier(why, true);
            self.output.push_back(AgentAction::Done);
        }
    }

    /// Ends the run with this report; starts the next one if it was already ordered.
    fn end(&mut self, report: Report) {
        self.output.push_back(AgentAction::Done);
        let ended = std::mem::replace(&mut self.state, State::Idle);
        self.say(Answer::Report { report });
        if let State::Ending(_, Some(next)) = ended {
            self.on_prepare(next);
        }
    }

    /// Handles the end of the connection, or ends it.
    pub fn on_closed(&mut self) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Waiting(_) | State::TierWaiting(_) => self.output.push_back(AgentAction::Leave),
            State::Busy(_) | State::Ending(..) | State::Tier => {
                self.output.push_back(AgentAction::Done);
            }
            State::Greeting | State::Idle => {}
            State::Closed => return,
        }
        self.output.push_back(AgentAction::Close);
    }

    /// Prepares the agent's stop: a run under way may end, no other starts. A tier, which serves many runs, ends.
    pub fn drain(&mut self) {
        self.is_draining = true;
        if matches!(self.state, State::Waiting(_) | State::TierWaiting(_) | State::Tier) {
            self.refuse(STOPPING.to_owned());
        }
    }

    /// Closes the connection if the coordinator was silent for too long, or has no run while the agent stops.
    pub fn on_timeout(&mut self, now: Instant) {
        let is_left = self.is_draining && !self.is_busy();
        let leaves = *self.leaves.get_or_insert(now + LEAVE_WITHIN);
        if !is_left {
            self.leaves = None;
        }
        if now >= self.keepalive.gives_up() || (is_left && now >= leaves) {
            self.on_closed();
        }
    }

    /// When to call [`Self::on_timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        (!matches!(self.state, State::Closed)).then(|| self.keepalive.gives_up())
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Option<AgentAction> {
        self.output.pop_front()
    }

    /// Session of the coordinator; zeros before its hello.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Memory that the run in progress may use.
    pub fn used(&self) -> Bytes {
        if self.is_busy() { self.memory } else { Bytes(0) }
    }

    /// Memory that the waiting run needs.
    pub fn needed(&self) -> Bytes {
        if matches!(self.state, State::Waiting(_)) { self.memory } else { Bytes(0) }
    }

    /// Whether a run is under way.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy(_) | State::Ending(..))
    }

    fn say(&mut self, answer: Answer) {
        self.output.push_back(AgentAction::Say(answer));
    }

    fn say_of_tier(&mut self, line: TierLine) {
        self.say(Answer::Report { report: Report::Tier { line: Box::new(line) } });
    }

    fn fail_tier(&mut self, message: String, is_missing: bool) {
        self.say_of_tier(TierLine::Failed { message, is_missing });
    }

    fn fail(&mut self, run: u64, failure: Failure) {
        self.say(Answer::Report { report: Report::Failed { run, failure } });
    }

    /// Sends the reason and closes the connection.
    pub fn refuse(&mut self, why: String) {
        self.say(Answer::Refused { why });
        self.on_closed();
    }
}
