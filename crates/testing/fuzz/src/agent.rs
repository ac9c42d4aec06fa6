//! Both ends of a connection between a coordinator and an agent.

use fabricmark_plan::{Direction, Role};
use fabricmark_proto::{
    Action, AdmissionQueue, AgentAction, Answer, Caller, Connection, Conversation, EndReport,
    FrameReader, News, Order, PROTOCOL_VERSION, Prepare, Quota, Report, Request, SessionId, Turn,
    Welcome, Worker,
};
use fabricmark_units::{Instant, Nanos};

use crate::control::{check_round_trip, messages};

const OWN: SessionId = [2; 16];

/// Session of another coordinator that measures now and then, so that others must wait.
const STRANGER: SessionId = [1; 16];

/// Number of this connection in the admission queue; the stranger's is one higher.
const CONNECTION: u64 = 1;

/// Time between two messages.
const STEP: Nanos = Nanos::from_secs(1);

/// Maximum keepalive time-out: 4 s plus 16 RTTs of 5 s.
const SILENCE_MAX: Nanos = Nanos::from_secs(84);

/// Longest time that a coordinator waits for admission: a day plus allowance for the longest path.
const WAIT_MAX: Nanos = Nanos::from_secs(24 * 3600 + 120);

/// Longest silence that ends a stream: allowance for the longest path, plus one second.
const IDLE_MAX: Nanos = Nanos::from_secs(121);

/// The prepare order of a run for its client.
const PREPARE: &[u8] = br#"{"run":7,"role":"client","point":{"pattern":"stream","transport":"udp","family":4,"payload_bytes":64,"direction":"forward","link":"veth","path":"copy"},"duration_ns":400000000,"token":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"address":"127.0.0.1","port":0,"device":"lo","interval_ns":100000000,"seed":1}
"#;

/// Requests to an agent: fed as they are, and after a valid hello.
pub fn agent_request(bytes: &[u8]) {
    let requests = messages::<Request>(bytes);
    serve(&requests);
    let hello = Request::Hello { version: PROTOCOL_VERSION, session: OWN };
    serve(&[vec![hello], requests].concat());
}

fn serve(requests: &[Request]) {
    let mut agent = Agent::new();
    let mut now = Instant(0);
    for request in requests {
        now = now + STEP;
        agent.connection.on_timeout(now);
        agent.connection.on_request(now, request.clone());
        agent.act();
        if matches!(request, Request::Ping { .. }) {
            agent.let_in();
            agent.act();
        }
        assert_eq!(agent.is_busy, agent.connection.is_busy());
        assert_eq!(agent.is_closed, agent.connection.deadline().is_none());
        assert!(agent.connection.deadline().is_none_or(|deadline| deadline - now <= SILENCE_MAX));
    }
    // When the agent stops, a running run may end, but nothing else may be waited for.
    agent.connection.drain();
    for now in [now, now + STEP] {
        agent.connection.on_timeout(now);
        agent.act();
    }
    assert_ne!(agent.is_closed, agent.is_busy);
    agent.connection.on_closed();
    agent.act();
    assert!(agent.is_closed && !agent.is_busy && !agent.has_asked, "something is still held");
}

/// An agent with one connection, whose worker always succeeds at once.
struct Agent {
    connection: Connection,
    queue: AdmissionQueue<u8, SessionId>,
    worker: Worker,
    /// Runs requested so far.
    runs: u32,
    stranger_measures: bool,
    has_asked: bool,
    has_listed: bool,
    is_busy: bool,
    is_closed: bool,
}

impl Agent {
    fn new() -> Self {
        Self {
            connection: Connection::new(Instant(0), Welcome::default(), Nanos(0)),
            queue: AdmissionQueue::new(1),
            worker: Worker::default(),
            runs: 0,
            stranger_measures: false,
            has_asked: false,
            has_listed: false,
            is_busy: false,
            is_closed: false,
        }
    }

    /// Executes the actions of the connection.
    fn act(&mut self) {
        while let Some(action) = self.connection.poll_output() {
            assert!(!self.is_closed, "{action:?} after the connection is closed");
            match action {
                AgentAction::Say(answer) => check_round_trip(&answer),
                AgentAction::Ask => self.ask(),
                AgentAction::Hand(order) => self.hand(order),
                AgentAction::Done => {
                    assert!(std::mem::take(&mut self.is_busy), "no run was under way");
                    self.queue.done((1, self.connection.session()));
                }
                AgentAction::ListInterfaces => {
                    assert!(!std::mem::replace(&mut self.has_listed, true), "listed twice");
                }
                AgentAction::Leave => {
                    assert!(std::mem::take(&mut self.has_asked), "no run waited");
                    self.queue.leave(CONNECTION);
                }
                AgentAction::Close => self.is_closed = true,
            }
        }
    }

    /// Requests admission. Every second run has to wait.
    fn ask(&mut self) {
        self.runs += 1;
        if self.runs.is_multiple_of(2) && !self.stranger_measures {
            self.stranger_measures = self.queue.ask((2, STRANGER), CONNECTION + 1) == Turn::Now;
        }
        self.has_asked = true;
        let turn = self.queue.ask((1, self.connection.session()), CONNECTION);
        self.connection.on_turn(turn);
    }

    /// Ends the stranger's run.
    fn let_in(&mut self) {
        if std::mem::take(&mut self.stranger_measures) {
            self.queue.done((2, STRANGER));
        }
        if self.queue.call() == Some(CONNECTION) {
            self.connection.on_turn(Turn::Now);
        }
    }

    fn hand(&mut self, order: Order) {
        if let Order::Prepare(prepare) = &order {
            assert!(std::mem::take(&mut self.has_asked), "a run begins that did not ask");
            assert_eq!(prepare.role, Role::Server);
            assert_eq!(Quota::default().check(prepare), Ok(()));
            self.is_busy = true;
        }
        assert!(self.is_busy, "{order:?} without a run");
        match self.worker.on_order(order) {
            Some(Action::Prepare(prepare)) => {
                self.worker.on_prepared(prepare.port);
                self.worker.on_progress(|run| Report::Begun { run });
            }
            Some(Action::Drain { .. }) => self.worker.on_finished(Ok(EndReport::default())),
            _ => {}
        }
        while let Some(report) = self.worker.poll_output() {
            self.connection.on_report(report);
        }
    }
}

/// Answers of an agent to a coordinator, in a forward and a reverse run. The coordinator's own worker always succeeds
/// at once.
pub fn agent_answer(bytes: &[u8]) {
    let answers = messages::<Answer>(bytes);
    for direction in [Direction::Forward, Direction::Reverse] {
        measure(&answers, direction);
    }
}

fn measure(answers: &[Answer], direction: Direction) {
    let mut coordinator = Coordinator::new(direction);
    for answer in answers {
        let now = coordinator.now + STEP;
        coordinator.now = now;
        match coordinator.caller.on_answer(now, answer.clone()) {
            Some(News::Report(report)) => {
                coordinator.conversation.on_message(now, Role::Server, report);
            }
            Some(News::Refused(_)) => coordinator.conversation.on_closed(Role::Server),
            Some(News::Vanished) => panic!("it was heard just now"),
            Some(News::Welcome(_) | News::Interfaces(_)) | None => {}
        }
        coordinator.caller.on_timeout(now);
        coordinator.conversation.on_timeout(now);
        coordinator.act();
    }
    assert!(coordinator.outcomes <= 1);
}

struct Coordinator {
    now: Instant,
    caller: Caller,
    conversation: Conversation,
    /// The worker of the client.
    worker: Worker,
    /// Whether the client sends; a sender finishes as soon as it begins.
    sends: bool,
    outcomes: u32,
}

impl Coordinator {
    fn new(direction: Direction) -> Self {
        let now = Instant(0);
        let mut reader = FrameReader::default();
        assert!(reader.push(PREPARE).is_ok());
        let Ok(Some(mut start)) = reader.next_message::<Prepare>() else { panic!("no run") };
        start.point.direction = Some(direction);
        let answer = Prepare { role: Role::Server, ..start.clone() };
        Self {
            now,
            caller: Caller::new(now, OWN, Nanos(0)),
            conversation: Conversation::new(now, start, answer),
            worker: Worker::default(),
            sends: direction == Direction::Forward,
            outcomes: 0,
        }
    }

    fn act(&mut self) {
        let now = self.now;
        while let Some((role, order)) = self.conversation.poll_output() {
            match role {
                Role::Server => self.caller.on_order(order),
                Role::Client => self.work(order),
            }
        }
        while let Some(request) = self.caller.poll_output() {
            check_round_trip(&request);
        }
        while self.conversation.poll_interval().is_some() {}
        self.outcomes += u32::from(self.conversation.outcome().is_some());
        let (run, line) = (self.conversation.deadline(), self.caller.deadline());
        assert!(run.is_none_or(|deadline| deadline - now <= WAIT_MAX), "it waits until {run:?}");
        assert!(line.is_none_or(|deadline| deadline - now <= SILENCE_MAX));
        assert!(self.outcomes == 0 || run.is_none());
        // The clock offset comes from untrusted answers; computing it must not panic.
        let _ = self.caller.clock(now);
    }

    fn work(&mut self, order: Order) {
        match self.worker.on_order(order) {
            Some(Action::Prepare(_)) => self.worker.on_prepared(0),
            Some(Action::Begin(_)) => self.worker.on_progress(|run| Report::Begun { run }),
            Some(Action::Drain { idle, .. }) => {
                assert!(idle <= IDLE_MAX, "it would wait {idle} for nothing");
                self.worker.on_finished(Ok(EndReport::default()));
            }
            Some(Action::Slice { .. } | Action::EndSlice { .. }) => {
                self.worker.on_progress(|run| Report::Slice { run, counts: Default::default() });
            }
            Some(Action::Start { .. } | Action::Hold | Action::Stop | Action::Abort) | None => {}
        }
        while let Some(report) = self.worker.poll_output() {
            let has_begun = matches!(report, Report::Begun { .. });
            self.conversation.on_message(self.now, Role::Client, report);
            if has_begun && self.sends {
                self.worker.on_finished(Ok(EndReport::default()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_verbs_are_read_and_only_those_that_can_be_carried_out_ask_for_a_turn() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/agent_request");
        for (name, is_sound) in
            [("verbs-rc", true), ("verbs-uc", true), ("verbs-ud", true), ("verbs-ud-wraps", false)]
        {
            let requests = messages::<Request>(&std::fs::read(format!("{seeds}/{name}")).unwrap());
            assert_eq!(requests.len(), 2, "{name}");
            let mut agent = Agent::new();
            let hello = Request::Hello { version: PROTOCOL_VERSION, session: OWN };
            for request in [hello, requests[0].clone()] {
                agent.connection.on_request(Instant(0), request);
                agent.act();
            }
            assert_eq!(agent.is_busy, is_sound, "{name}");
        }
    }
}
