//! A coordinator, an agent and their workers joined in virtual time, over long, lossy and broken paths.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::VecDeque;

use fabricmark_plan::{Point, Role, Transport};
use fabricmark_proto::{
    Action, AdmissionQueue, AgentAction, Answer, Caller, Connection, Conversation,
    ConversationError, EndReport, Ends, Failure, News, Order, PROTOCOL_VERSION, Prepare, Quota,
    Report, Request, Turn, Welcome, Worker,
};
use fabricmark_record::{ApplicationTier, DatabaseTier, TierLine, TierOrder};
use fabricmark_units::{BitRate, Bytes, Instant, Nanos, Stream};

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
    queue: AdmissionQueue,
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
                    let turn = self.queue.ask(self.connection.session(), 1);
                    self.connection.on_turn(turn);
                }
                AgentAction::Hand(order) => self.order(Role::Server, order),
                AgentAction::Done => self.queue.done(self.connection.session()),
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

fn hello(version: u16) -> Vec<AgentAction> {
    let welcome = Welcome { version: PROTOCOL_VERSION, ..Welcome::default() };
    let mut connection = Connection::new(Instant(0), welcome, Nanos(0));
    connection.on_request(Instant(0), Request::Hello { version, session: SESSION });
    std::iter::from_fn(|| connection.poll_output()).collect()
}

/// A version mismatch gives a clear message.
#[test]
fn other_versions_are_refused_with_the_side_that_has_to_be_updated() {
    let ours = PROTOCOL_VERSION;
    for (theirs, update) in [(ours - 1, "this program"), (ours + 1, "the agent")] {
        let why = format!(
            "the agent uses protocol version {ours}, this program version {theirs}: update {update}"
        );
        assert_eq!(hello(theirs), [AgentAction::Say(Answer::Refused { why }), AgentAction::Close]);
    }
    assert!(matches!(hello(ours).as_slice(), [AgentAction::Say(Answer::Welcome(_))]));
}

/// A connection whose hello has been answered.
fn greeted(quota: Quota) -> Connection {
    let welcome = Welcome { quota, ..Welcome::default() };
    let mut connection = Connection::new(Instant(0), welcome, Nanos(0));
    let hello = Request::Hello { version: PROTOCOL_VERSION, session: SESSION };
    connection.on_request(Instant(0), hello);
    while connection.poll_output().is_some() {}
    connection
}

fn actions(connection: &mut Connection) -> Vec<AgentAction> {
    std::iter::from_fn(|| connection.poll_output()).collect()
}

fn order(connection: &mut Connection, order: Order) -> Vec<AgentAction> {
    connection.on_request(Instant(0), Request::Order { order });
    actions(connection)
}

fn failed(failure: Failure) -> AgentAction {
    AgentAction::Say(Answer::Report { report: Report::Failed { run: RUN, failure } })
}

#[test]
fn a_run_waits_for_its_turn_and_is_told_its_place() {
    let mut connection = greeted(Quota::default());
    let prepare = prepare(Role::Server, "");
    assert_eq!(
        order(&mut connection, Order::Prepare(Box::new(prepare.clone()))),
        [AgentAction::Ask]
    );
    for place in [2, 1] {
        connection.on_turn(Turn::Waits { place });
        let report = Report::Queued { run: RUN, place };
        assert_eq!(actions(&mut connection), [AgentAction::Say(Answer::Report { report })]);
    }
    connection.on_turn(Turn::Now);
    assert_eq!(actions(&mut connection), [AgentAction::Hand(Order::Prepare(Box::new(prepare)))]);
}

#[test]
fn a_run_that_is_given_up_leaves_the_queue() {
    let mut connection = greeted(Quota::default());
    order(&mut connection, Order::Prepare(Box::new(prepare(Role::Server, ""))));
    connection.on_turn(Turn::Waits { place: 1 });
    actions(&mut connection);
    let given_up = [AgentAction::Leave, failed(Failure::Aborted)];
    assert_eq!(order(&mut connection, Order::Abort { run: RUN }), given_up);
}

/// The next run is ordered before the worker has reported the abort of the previous one.
#[test]
fn a_run_that_follows_one_that_is_given_up_waits_for_its_end() {
    let mut connection = greeted(Quota::default());
    order(&mut connection, Order::Prepare(Box::new(prepare(Role::Server, ""))));
    connection.on_turn(Turn::Now);
    actions(&mut connection);
    let abort = Order::Abort { run: RUN };
    assert_eq!(order(&mut connection, abort.clone()), [AgentAction::Hand(abort)]);
    let next = Prepare { run: RUN + 1, ..prepare(Role::Server, "") };
    assert_eq!(order(&mut connection, Order::Prepare(Box::new(next))), []);
    let report = Report::Failed { run: RUN, failure: Failure::Aborted };
    connection.on_report(report.clone());
    let said = AgentAction::Say(Answer::Report { report });
    assert_eq!(actions(&mut connection), [AgentAction::Done, said, AgentAction::Ask]);
}

#[test]
fn interfaces_are_listed_once_on_a_connection_idle_or_busy() {
    let request = |connection: &mut Connection| {
        connection.on_request(Instant(0), Request::Interfaces);
        actions(connection)
    };
    let refused = |why: &str| {
        let why = why.to_owned();
        [AgentAction::Say(Answer::Refused { why }), AgentAction::Close]
    };
    let mut strange = Connection::new(Instant(0), Welcome::default(), Nanos(0));
    let why = "unexpected request in this state of the protocol";
    assert_eq!(request(&mut strange), refused(why));

    let mut idle = greeted(Quota::default());
    assert_eq!(request(&mut idle), [AgentAction::ListInterfaces]);
    assert_eq!(request(&mut idle), refused("a connection may request the interfaces once"));

    let mut busy = greeted(Quota::default());
    order(&mut busy, Order::Prepare(Box::new(prepare(Role::Server, ""))));
    busy.on_turn(Turn::Now);
    actions(&mut busy);
    assert_eq!(request(&mut busy), [AgentAction::ListInterfaces]);
    assert!(busy.is_busy());
}

#[test]
fn a_run_beyond_the_quota_is_refused_with_the_quota() {
    let quota = Quota {
        flows_max: 10,
        rate_max: Some(BitRate(1_000_000_000)),
        duration_max: Nanos::from_secs(60),
        memory_max: Bytes(16 << 20),
        connections_max: 1,
        ports: None,
        allows_clients: false,
        allows_relays: false,
        allows_settings: false,
        allows_shop: false,
    };
    for (levels, says) in [
        ("flows=11", "the agent allows 10 flows, but the run has 11: use fewer flows"),
        ("", "the agent allows a rate of 1G, but the run has no rate: add --rate 1G or less"),
        ("pace=fixed:2G", "the agent allows a rate of 1G, but the run has 2G: use a lower rate"),
        (
            "pace=fixed:1G,receive_buffer=16MiB",
            "the agent allows 16MiB of memory, but the run needs 32897KiB: use fewer flows, or \
             smaller payloads or buffers",
        ),
        (
            // Both buffers of an end, each doubled by the kernel.
            "pace=fixed:1G,transport=tcp,congestion=cubic,window=16MiB",
            "the agent allows 16MiB of memory, but the run needs 65665KiB: use fewer flows, or \
             smaller payloads or buffers",
        ),
    ] {
        let mut connection = greeted(quota.clone());
        let prepare = prepare(Role::Server, levels);
        let found = order(&mut connection, Order::Prepare(Box::new(prepare)));
        assert_eq!(found, [failed(Failure::Missing(says.to_owned()))]);
    }
    let client = prepare(Role::Client, "");
    let refused = quota.check(&client).unwrap_err();
    assert!(refused.contains("--allow-client"), "{refused}");
    let allowing = Quota { allows_clients: true, ..quota.clone() };
    assert_eq!(allowing.check(&client), quota.check(&prepare(Role::Server, "")));
    let forward = Some(([192, 0, 2, 1], 22).into());
    let relay = Prepare { forward, ..prepare(Role::Server, "") };
    let refused = allowing.check(&relay).unwrap_err();
    assert!(refused.contains("--allow-relay"), "{refused}");
    let host_settings = vec!["mtu=9000".to_owned()];
    let setting = Prepare { host_settings, ..prepare(Role::Server, "pace=fixed:1G") };
    let why = quota.check(&setting).unwrap_err();
    assert!(why.contains("start it with --allow-settings"), "{why}");
    assert_eq!(Quota { allows_settings: true, ..quota.clone() }.check(&setting), Ok(()));
    let allowing = Quota { allows_relays: true, ..quota.clone() };
    assert!(allowing.check(&relay).unwrap_err().contains("a relay does not keep"));
    let allowing = Quota { rate_max: None, ..allowing };
    assert_eq!(allowing.check(&relay), Ok(()));
    let large =
        prepare(Role::Server, "transport=tcp,congestion=cubic,relay=copy,relay_buffer=8MiB");
    let large = Prepare { forward, ..large };
    assert!(allowing.check(&large).unwrap_err().contains("memory"));
    let long = Prepare { duration_ns: Nanos::from_secs(61), ..prepare(Role::Server, "") };
    let found = order(&mut greeted(quota.clone()), Order::Prepare(Box::new(long)));
    let says =
        "the agent allows runs of 60s, but this one takes 61s: use a shorter duration".to_owned();
    assert_eq!(found, [failed(Failure::Missing(says))]);
    let within = prepare(Role::Server, "pace=fixed:1000/s");
    assert_eq!(order(&mut greeted(quota), Order::Prepare(Box::new(within))), [AgentAction::Ask]);
}

#[test]
fn a_point_that_no_plan_can_have_is_refused_before_its_numbers_are_used() {
    let run = prepare(Role::Server, "");
    let point =
        Point { transport: Transport::Ud, payload: Bytes(u64::MAX - 39), ..run.point.clone() };
    let run = Prepare { point, ..run };
    let found = order(&mut greeted(Quota::default()), Order::Prepare(Box::new(run)));
    let [AgentAction::Say(Answer::Report { report: Report::Failed { failure, .. } })] = &found[..]
    else {
        panic!("{found:?}")
    };
    assert!(failure.to_string().contains("invalid payload"), "{failure}");
}

fn tier(connection: &mut Connection, task: TierOrder) -> Vec<AgentAction> {
    order(connection, Order::Tier { task: Box::new(task), ports: None })
}

fn of_tier(line: TierLine) -> AgentAction {
    AgentAction::Say(Answer::Report { report: Report::Tier { line: Box::new(line) } })
}

#[test]
fn a_tier_waits_for_its_turn_and_has_it_until_the_connection_ends() {
    let usage = || Order::Tier { task: Box::new(TierOrder::Usage), ports: None };
    let mut connection = greeted(Quota { allows_shop: true, ..Quota::default() });
    assert_eq!(tier(&mut connection, TierOrder::Usage), [AgentAction::Ask]);
    connection.on_turn(Turn::Waits { place: 2 });
    assert_eq!(actions(&mut connection), [of_tier(TierLine::Queued { place: 2 })]);
    connection.on_turn(Turn::Now);
    let its_turn = of_tier(TierLine::Queued { place: 0 });
    assert_eq!(actions(&mut connection), [its_turn, AgentAction::Hand(usage())]);
    connection.on_report(Report::Tier { line: Box::new(TierLine::Found) });
    assert_eq!(actions(&mut connection), [of_tier(TierLine::Found)]);
    assert_eq!(tier(&mut connection, TierOrder::Usage), [AgentAction::Hand(usage())]);
    let run = Order::Prepare(Box::new(prepare(Role::Server, "")));
    let busy = Failure::Protocol("another run is in progress".to_owned());
    assert_eq!(order(&mut connection, run), [failed(busy)]);
    connection.on_closed();
    assert_eq!(actions(&mut connection), [AgentAction::Done, AgentAction::Close]);
}

#[test]
fn a_tier_that_ends_or_an_agent_that_is_stopped_ends_the_connection() {
    let quota = Quota { allows_shop: true, ..Quota::default() };
    let serving = || {
        let mut connection = greeted(quota.clone());
        tier(&mut connection, TierOrder::Usage);
        connection.on_turn(Turn::Now);
        actions(&mut connection);
        connection
    };
    let refused = |why: &str| AgentAction::Say(Answer::Refused { why: why.to_owned() });
    let mut connection = serving();
    connection.on_worker_lost("ended (killed by signal 9)");
    let said = refused("the agent's tier ended (killed by signal 9)");
    assert_eq!(actions(&mut connection), [said, AgentAction::Done, AgentAction::Close]);
    let mut connection = serving();
    connection.drain();
    let said = refused("the agent is shutting down and accepts no more runs");
    assert_eq!(actions(&mut connection), [said, AgentAction::Done, AgentAction::Close]);
    let mut waiting = greeted(quota.clone());
    tier(&mut waiting, TierOrder::Usage);
    waiting.on_closed();
    assert_eq!(actions(&mut waiting), [AgentAction::Leave, AgentAction::Close]);
}

#[test]
fn a_turn_that_comes_too_late_is_given_back() {
    let quota = Quota { allows_shop: true, ..Quota::default() };
    let run = || Order::Prepare(Box::new(prepare(Role::Server, "")));
    let task = || Order::Tier { task: Box::new(TierOrder::Usage), ports: None };
    for order in [run(), task()] {
        let mut connection = greeted(quota.clone());
        connection.on_request(Instant(1), Request::Order { order });
        connection.on_closed();
        assert_eq!(connection.poll_output(), Some(AgentAction::Ask));
        connection.on_turn(Turn::Now);
        let rest = [AgentAction::Done, AgentAction::Leave, AgentAction::Close];
        assert_eq!(actions(&mut connection), rest);
    }
}

#[test]
fn a_tier_whose_program_is_missing_frees_its_turn() {
    let mut connection = greeted(Quota { allows_shop: true, ..Quota::default() });
    tier(&mut connection, TierOrder::Usage);
    connection.on_turn(Turn::Now);
    actions(&mut connection);
    connection.on_tier_missing("build it with `make shop`".to_owned());
    let message = "build it with `make shop`".to_owned();
    let failed = of_tier(TierLine::Failed { message, is_missing: true });
    assert_eq!(actions(&mut connection), [failed, AgentAction::Done]);
    assert_eq!(tier(&mut connection, TierOrder::Usage), [AgentAction::Ask]);
}

#[test]
fn a_tier_beyond_the_quota_is_refused() {
    let allowing = Quota { allows_shop: true, ..Quota::default() };
    let database = |items, customers_for| {
        let engine = fabricmark_plan::Engine::MariaDb;
        TierOrder::Database(DatabaseTier { engine, items, customers_for, seed: 1 })
    };
    let application = |password: &str, pool| {
        TierOrder::Application(ApplicationTier {
            engine: fabricmark_plan::Engine::MariaDb,
            database: ([192, 0, 2, 1], 3306).into(),
            password: password.to_owned(),
            pool,
        })
    };
    for (task, says) in [
        (database(u32::MAX, 1), "items=4294967295: "),
        (database(100, u32::MAX), "customers_for=4294967295: "),
        (application("", 0), "pool=0: "),
        (application("x@192.0.2.2/", 1), "a password has letters and digits only"),
    ] {
        let found = tier(&mut greeted(allowing.clone()), task);
        let [AgentAction::Say(Answer::Report { report: Report::Tier { line } })] = &found[..]
        else {
            panic!("{found:?}")
        };
        let TierLine::Failed { message, is_missing: true } = &**line else { panic!("{line:?}") };
        assert!(message.starts_with(says), "{message}");
    }
    for (quota, says) in [
        (Quota::default(), "start it with --allow-shop"),
        (Quota { rate_max: Some(BitRate(1)), ..allowing.clone() }, "start it without --rate"),
    ] {
        let why = quota.check_tier(&TierOrder::Usage).unwrap_err();
        assert!(why.ends_with(says), "{why}");
    }
    assert_eq!(allowing.check_tier(&database(1000, 20)), Ok(()));
}

/// The agent may be stopped at any moment without leaving anything undone.
#[test]
fn an_agent_that_is_stopped_ends_the_run_under_way_and_begins_no_other() {
    let prepare = || Order::Prepare(Box::new(prepare(Role::Server, "")));
    let left = |connection: &mut Connection| {
        connection.on_timeout(Instant(0));
        let at_once = actions(connection);
        connection.on_timeout(Instant(1_000_000_000));
        (at_once, actions(connection))
    };
    let mut busy = greeted(Quota::default());
    order(&mut busy, prepare());
    busy.on_turn(Turn::Now);
    actions(&mut busy);
    busy.drain();
    assert_eq!(left(&mut busy), (vec![], vec![]));
    let report = Report::Failed { run: RUN, failure: Failure::Aborted };
    busy.on_report(report.clone());
    let said = AgentAction::Say(Answer::Report { report });
    assert_eq!(actions(&mut busy), [AgentAction::Done, said]);
    assert_eq!(left(&mut busy), (vec![], vec![AgentAction::Close]));

    let why = "the agent is shutting down and accepts no more runs".to_owned();
    let mut waiting = greeted(Quota::default());
    order(&mut waiting, prepare());
    waiting.drain();
    let refused = failed(Failure::Missing(why.clone()));
    assert_eq!(actions(&mut waiting), [AgentAction::Leave, refused.clone()]);
    assert_eq!(order(&mut waiting, prepare()), [refused]);
    assert_eq!(left(&mut waiting), (vec![], vec![AgentAction::Close]));
}

#[test]
fn orders_before_the_greeting_close_the_connection() {
    let mut connection = Connection::new(Instant(0), Welcome::default(), Nanos(0));
    let found = order(&mut connection, Order::Abort { run: RUN });
    let why = "unexpected request in this state of the protocol".to_owned();
    assert_eq!(found, [AgentAction::Say(Answer::Refused { why }), AgentAction::Close]);
}
