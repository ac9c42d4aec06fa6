//! A coordinator and two workers joined in virtual time.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::iter::from_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use fabricmark_plan::{Direction, Role};
use fabricmark_proto::{
    Action, Conversation, ConversationError, EndReport, Ends, Failure, Order, PROTOCOL_VERSION,
    Prepare, Report, Worker,
};
use fabricmark_record::{Counts, Interval};
use fabricmark_units::{Instant, Nanos};

const RUN: u64 = 7;
const DURATION: Nanos = Nanos::from_millis(400);
/// One-way delay of a message: a bad satellite link.
const DELAY: Nanos = Nanos::from_millis(300);

fn prepare(role: Role) -> Prepare {
    let levels = "pattern=stream,transport=udp,family=4,payload=64,link=veth";
    let prepare = fabricmark_testkit::prepare(role, levels);
    Prepare { run: RUN, duration_ns: DURATION, token: [1; 16], ..prepare }
}

/// A quarter of the run, numbered from 1.
fn interval(quarter: u64) -> Interval {
    let length_ns = DURATION.0 / 4;
    let (start_ns, end_ns) = ((quarter - 1) * length_ns, quarter * length_ns);
    Interval { start_ns, end_ns, bytes: 100 * quarter, ..Interval::default() }
}

/// Behaviour of the ends.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Sound,
    /// The server detects the end of the flow by itself, before any order to drain.
    EndsByItself,
    /// The server detects the end of its flow at once, as over the `null` transport.
    EndsAtOnce,
    /// Both ends report an interval after each quarter of the run.
    TellsOfIntervals,
    NeverReady,
    NeverFinishes,
    Refuses,
    Vanishes,
}

enum Event {
    Order(Role, Order),
    Report(Role, Report),
    Interval(Role, Box<Interval>),
    Finish(Role),
    Close(Role),
}

struct World {
    now: Instant,
    conversation: Conversation,
    workers: [Worker; 2],
    manners: [Manner; 2],
    events: VecDeque<(Instant, Event)>,
    /// Intervals that the coordinator received.
    told: Rc<RefCell<Vec<(Role, Interval)>>>,
}

fn index(role: Role) -> usize {
    usize::from(role == Role::Server)
}

impl World {
    fn new(start: Manner, answer: Manner) -> Self {
        let now = Instant(0);
        Self {
            now,
            conversation: Conversation::new(now, prepare(Role::Client), prepare(Role::Server)),
            workers: [Worker::default(), Worker::default()],
            manners: [start, answer],
            events: VecDeque::new(),
            told: Rc::default(),
        }
    }

    fn after(&mut self, delay: Nanos, event: Event) {
        let at = self.now + delay;
        let place = self.events.partition_point(|(other, _)| *other <= at);
        self.events.insert(place, (at, event));
    }

    /// Runs until there is an outcome, for at most 1,000 events.
    fn drive(mut self) -> (Result<Ends, ConversationError>, Instant, [Worker; 2]) {
        for _ in 0..1000 {
            while let Some((role, order)) = self.conversation.poll_output() {
                self.after(DELAY, Event::Order(role, order));
            }
            self.told.borrow_mut().extend(from_fn(|| self.conversation.poll_interval()));
            if let Some(outcome) = self.conversation.outcome() {
                let at = self.now;
                self.deliver_the_rest();
                return (outcome, at, self.workers);
            }
            let deadline = self.conversation.deadline();
            match (self.events.front().map(|(at, _)| *at), deadline) {
                (Some(at), Some(deadline)) if deadline < at => self.now = deadline,
                (Some(at), _) => {
                    self.now = at;
                    let (_, event) = self.events.pop_front().unwrap();
                    self.deliver(event);
                }
                (None, Some(deadline)) => self.now = deadline,
                (None, None) => panic!("nothing will ever happen"),
            }
            self.conversation.on_timeout(self.now);
        }
        panic!("no outcome after a thousand events");
    }

    fn deliver_the_rest(&mut self) {
        while let Some((role, order)) = self.conversation.poll_output() {
            self.after(DELAY, Event::Order(role, order));
        }
        while let Some((at, event)) = self.events.pop_front() {
            self.now = at;
            self.deliver(event);
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Order(role, order) => self.order(role, order),
            Event::Report(role, report) => self.conversation.on_message(self.now, role, report),
            Event::Interval(role, interval) => {
                self.workers[index(role)].on_progress(|run| Report::Interval { run, interval });
                self.say(role);
            }
            Event::Close(role) => self.conversation.on_closed(role),
            Event::Finish(role) => {
                let counts = Counts {
                    calls: 5,
                    bytes: 320,
                    elapsed_ns: 1,
                    ramp_bytes: 64,
                    ramp_calls: 1,
                    ..Counts::default()
                };
                let end = EndReport { counts, opening_rtt_ns: 600, ..EndReport::default() };
                self.workers[index(role)].on_finished(Ok(end));
                self.say(role);
            }
        }
    }

    fn order(&mut self, role: Role, order: Order) {
        let manner = self.manners[index(role)];
        if manner == Manner::Vanishes {
            return self.after(DELAY, Event::Close(role));
        }
        let worker = &mut self.workers[index(role)];
        match worker.on_order(order) {
            Some(Action::Prepare(_)) if manner == Manner::Refuses => {
                worker.on_finished(Err(Failure::System("cannot bind".to_owned())));
            }
            Some(Action::Prepare(_)) if manner == Manner::EndsAtOnce => {
                worker.on_prepared(5301);
                self.after(Nanos(0), Event::Finish(role));
            }
            Some(Action::Prepare(_)) if manner != Manner::NeverReady => worker.on_prepared(5301),
            Some(Action::Begin(peer)) => {
                assert_eq!(peer, "127.0.0.1:5301".parse().unwrap());
                if self.manners[1] == Manner::EndsByItself {
                    self.after(Nanos::from_millis(1), Event::Finish(Role::Server));
                }
                if manner == Manner::TellsOfIntervals {
                    self.tell_of_intervals();
                }
                if manner != Manner::NeverFinishes {
                    self.after(DURATION, Event::Finish(role));
                }
            }
            Some(Action::Drain { bytes, idle }) => {
                assert_eq!((bytes, idle), (320, Nanos(1200) + Nanos::from_millis(20)));
                if manner == Manner::Sound {
                    self.after(idle, Event::Finish(role));
                }
            }
            _ => {}
        }
        self.say(role);
    }

    fn tell_of_intervals(&mut self) {
        for quarter in 1..=4 {
            for role in [Role::Server, Role::Client] {
                let interval = interval(quarter);
                self.after(Nanos(interval.end_ns), Event::Interval(role, Box::new(interval)));
            }
        }
    }

    fn say(&mut self, role: Role) {
        while let Some(report) = self.workers[index(role)].poll_output() {
            self.after(DELAY, Event::Report(role, report));
        }
    }
}

#[test]
fn a_sound_run_ends_with_the_counts_of_both_ends() {
    let (outcome, at, _) = World::new(Manner::Sound, Manner::Sound).drive();
    let ends = outcome.unwrap();
    assert_eq!((ends.client.counts.calls, ends.server.counts.calls), (5, 5));
    // Prepare and begin, then the run, then its report and the drain: three round trips.
    let idle = Nanos(1200) + Nanos::from_millis(20);
    assert_eq!(at, Instant(6 * DELAY.0 + DURATION.0 + idle.0));
}

#[test]
fn an_end_that_sees_the_end_of_the_flow_by_itself_may_report_first() {
    let (outcome, _, _) = World::new(Manner::Sound, Manner::EndsByItself).drive();
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn an_end_whose_flow_is_over_before_the_other_end_is_ready_is_no_fault() {
    let (outcome, _, _) = World::new(Manner::Sound, Manner::EndsAtOnce).drive();
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn a_stream_in_reverse_is_drained_at_the_end_that_opened_it() {
    let reverse = |role| {
        let mut prepare = prepare(role);
        prepare.point.direction = Some(Direction::Reverse);
        prepare
    };
    let mut conversation =
        Conversation::new(Instant(0), reverse(Role::Client), reverse(Role::Server));
    let counted = |bytes| {
        let counts = Counts { bytes, ..Counts::default() };
        Box::new(EndReport { counts, ..EndReport::default() })
    };
    for role in [Role::Client, Role::Server] {
        conversation.on_message(Instant(1), role, Report::Ready { run: RUN, port: 9 });
    }
    let sent = Report::Finished { run: RUN, end: counted(640) };
    conversation.on_message(Instant(2), Role::Server, sent);
    let drain = from_fn(|| conversation.poll_output()).last();
    let expected = Order::Drain { run: RUN, bytes: 640, idle_ns: Nanos::from_millis(20) };
    assert_eq!(drain, Some((Role::Client, expected)));
    let received = Report::Finished { run: RUN, end: counted(576) };
    conversation.on_message(Instant(3), Role::Client, received);
    let ends = conversation.outcome().unwrap().unwrap();
    assert_eq!((ends.client.counts.bytes, ends.server.counts.bytes), (576, 640));
}

#[test]
fn a_long_opening_that_an_end_tells_of_does_not_make_the_coordinator_wait_for_years() {
    let reverse = |role| {
        let mut prepare = prepare(role);
        prepare.point.direction = Some(Direction::Reverse);
        prepare
    };
    let mut conversation =
        Conversation::new(Instant(0), reverse(Role::Client), reverse(Role::Server));
    for role in [Role::Client, Role::Server] {
        conversation.on_message(Instant(0), role, Report::Ready { run: RUN, port: 9 });
    }
    let end = Box::new(EndReport { opening_rtt_ns: u64::MAX, ..EndReport::default() });
    conversation.on_message(Instant(0), Role::Server, Report::Finished { run: RUN, end });
    let idle_ns = Prepare::PATIENCE_MAX + Nanos::from_millis(20);
    let drain = from_fn(|| conversation.poll_output()).last();
    let expected = Order::Drain { run: RUN, bytes: 0, idle_ns };
    assert_eq!(drain, Some((Role::Client, expected)));
    assert_eq!(conversation.deadline(), Some(Instant(0) + Nanos::from_secs(10) + idle_ns));
}

#[test]
fn a_failure_at_one_end_is_the_outcome_and_frees_the_other() {
    let (outcome, _, mut workers) = World::new(Manner::Sound, Manner::Refuses).drive();
    let failure = Failure::System("cannot bind".to_owned());
    assert_eq!(outcome, Err(ConversationError::Failed { role: Role::Server, failure }));
    for worker in &mut workers {
        let again = Order::Prepare(Box::new(prepare(Role::Client)));
        assert!(worker.on_order(again).is_some(), "ready for the next run");
    }
}

#[test]
fn silence_ends_at_its_deadline_and_names_the_silent_end() {
    let finish = DURATION + Nanos::from_millis(10_010);
    for (start, answer, role, within, is_ending) in [
        (Manner::Sound, Manner::NeverReady, Role::Server, Nanos::from_secs(5), false),
        (Manner::NeverReady, Manner::Sound, Role::Client, Nanos::from_secs(5), false),
        (Manner::NeverFinishes, Manner::Sound, Role::Client, finish, true),
    ] {
        let (outcome, _, _) = World::new(start, answer).drive();
        assert_eq!(outcome, Err(ConversationError::Silent { role, within, is_ending }));
    }
}

#[test]
fn an_end_that_vanishes_ends_the_run() {
    let (outcome, _, _) = World::new(Manner::Vanishes, Manner::Sound).drive();
    assert_eq!(outcome, Err(ConversationError::Vanished { role: Role::Client }));
}

#[test]
fn a_run_that_is_given_up_is_given_up_at_both_ends() {
    let mut conversation =
        Conversation::new(Instant(0), prepare(Role::Client), prepare(Role::Server));
    conversation.abort();
    let orders: Vec<_> = from_fn(|| conversation.poll_output()).collect();
    let abort = Order::Abort { run: RUN };
    assert_eq!(orders, [(Role::Client, abort.clone()), (Role::Server, abort)]);
}

#[test]
fn orders_out_of_turn_are_refused_with_the_reason() {
    let begin = Order::Begin { run: RUN, peer: "127.0.0.1:1".parse().unwrap() };
    let drain = Order::Drain { run: RUN, bytes: 0, idle_ns: Nanos(0) };
    for order in [begin, drain] {
        let mut worker = Worker::default();
        assert_eq!(worker.on_order(order), None);
        let report = worker.poll_output();
        assert!(matches!(report, Some(Report::Failed { failure: Failure::Protocol(_), .. })));
    }
}

/// The agent frees the slot of a run when its worker reports a failure, so the load must not continue.
#[test]
fn an_order_out_of_turn_ends_the_active_run_and_no_other() {
    let begin = |run| Order::Begin { run, peer: "127.0.0.1:1".parse().unwrap() };
    let again = Order::Prepare(Box::new(prepare(Role::Server)));
    let slice = Order::Slice { run: RUN, counts: true };
    for (is_ready, order, ends) in [
        (true, begin(RUN), true),
        (true, begin(RUN + 1), false),
        (true, again.clone(), true),
        (false, again, true),
        (false, slice, true),
    ] {
        let mut worker = Worker::default();
        worker.on_order(Order::Prepare(Box::new(prepare(Role::Server))));
        if is_ready {
            worker.on_prepared(1);
            worker.poll_output();
        }
        assert_eq!(worker.on_order(order), ends.then_some(Action::Abort));
        assert!(matches!(worker.poll_output(), Some(Report::Failed { .. })));
        worker.on_finished(Ok(EndReport::default()));
        let finished = worker.poll_output();
        assert_eq!(finished.is_none(), ends, "{finished:?}");
    }
}

#[test]
fn an_order_to_drain_that_crosses_the_report_is_no_fault() {
    let mut worker = Worker::default();
    worker.on_order(Order::Prepare(Box::new(prepare(Role::Server))));
    worker.on_prepared(1);
    worker.on_finished(Ok(EndReport::default()));
    while worker.poll_output().is_some() {}
    let drain = Order::Drain { run: RUN, bytes: 320, idle_ns: Nanos(0) };
    assert_eq!(worker.on_order(drain), None);
    assert_eq!(worker.poll_output(), None);
}

#[test]
fn another_version_is_answered_with_our_own_and_refused() {
    let mut worker = Worker::default();
    worker.on_order(Order::Hello { version: PROTOCOL_VERSION + 1 });
    assert_eq!(worker.poll_output(), Some(Report::Hello { version: PROTOCOL_VERSION }));
    assert!(matches!(worker.poll_output(), Some(Report::Failed { .. })));
}

#[test]
fn a_run_has_begun_when_its_active_end_says_so() {
    let now = Instant(0);
    let mut conversation = Conversation::new(now, prepare(Role::Client), prepare(Role::Server));
    for (from, run, has_begun) in
        [(Role::Server, RUN, false), (Role::Client, RUN - 1, false), (Role::Client, RUN, true)]
    {
        conversation.on_message(now, from, Report::Begun { run });
        assert_eq!(conversation.has_begun(), has_begun, "{from:?} {run}");
    }
}

#[test]
fn intervals_pass_through_in_their_order_and_disturb_nothing() {
    let (expected, expected_at, _) = World::new(Manner::Sound, Manner::Sound).drive();
    let mut world = World::new(Manner::TellsOfIntervals, Manner::Sound);
    let in_intervals = |role| {
        let interval_ns = Some(Nanos(DURATION.0 / 4));
        Prepare { interval_ns, ..prepare(role) }
    };
    world.conversation =
        Conversation::new(world.now, in_intervals(Role::Client), in_intervals(Role::Server));
    let told = world.told.clone();
    let (outcome, at, _) = world.drive();
    assert_eq!((outcome, at), (expected, expected_at));
    let told = told.take();
    for role in [Role::Client, Role::Server] {
        let of_role: Vec<Interval> =
            told.iter().filter(|(from, _)| *from == role).map(|(_, told)| told.clone()).collect();
        assert_eq!(of_role, (1..=4).map(interval).collect::<Vec<_>>());
    }
}

#[test]
fn intervals_that_nobody_asked_for_or_of_another_run_are_dropped() {
    let told_of = |interval_ns: Option<Nanos>, run: u64, count: usize| {
        let in_intervals = |role| Prepare { interval_ns, ..prepare(role) };
        let (start, answer) = (in_intervals(Role::Client), in_intervals(Role::Server));
        let mut conversation = Conversation::new(Instant(0), start, answer);
        for _ in 0..count {
            let report = Report::Interval { run, interval: Box::default() };
            conversation.on_message(Instant(1), Role::Client, report);
        }
        from_fn(|| conversation.poll_interval()).count()
    };
    assert_eq!(told_of(None, RUN, 1), 0);
    assert_eq!(told_of(Some(Nanos::from_millis(100)), RUN - 1, 1), 0);
    // A run of 0.4 s, 10 ms to open, and twice 10 s of extra time, at each of two ends.
    assert_eq!(told_of(Some(Nanos::from_millis(100)), RUN, 1_000), 2 * 205);
}

#[test]
fn a_worker_without_a_run_tells_of_no_interval() {
    let mut worker = Worker::default();
    worker.on_progress(|run| Report::Interval { run, interval: Box::default() });
    assert_eq!(worker.poll_output(), None);
}

#[test]
fn an_order_without_the_newer_fields_is_one_that_asks_for_none_of_them() {
    let mut order = serde_json::to_value(Order::Prepare(Box::new(prepare(Role::Server)))).unwrap();
    for field in ["scope_id", "ports", "from", "patience_ns"] {
        assert!(order.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    let read: Order = serde_json::from_value(order).unwrap();
    assert_eq!(read, Order::Prepare(Box::new(prepare(Role::Server))));
}

#[test]
fn the_scope_of_an_address_survives_the_way_to_the_starting_end() {
    let address: IpAddr = "fe80::1".parse().unwrap();
    let start = Prepare { scope_id: 7, ..prepare(Role::Client) };
    let answer = Prepare { address, scope_id: 3, ..prepare(Role::Server) };
    let now = Instant(0);
    let mut conversation = Conversation::new(now, start, answer);
    conversation.on_message(now, Role::Client, Report::Ready { run: RUN, port: 0 });
    conversation.on_message(now, Role::Server, Report::Ready { run: RUN, port: 9 });
    let orders: Vec<_> = from_fn(|| conversation.poll_output()).collect();
    let (Role::Client, begin @ Order::Begin { .. }) = orders.last().unwrap() else {
        panic!("{orders:?}")
    };
    let begin: Order = serde_json::from_str(&serde_json::to_string(begin).unwrap()).unwrap();
    let Order::Begin { peer: SocketAddr::V6(peer), .. } = begin else { panic!("{begin:?}") };
    assert_eq!((IpAddr::from(*peer.ip()), peer.port(), peer.scope_id()), (address, 9, 7));
}

#[test]
fn patience_lengthens_every_wait_and_has_a_limit() {
    for (asked, expected) in [(0, 5), (30, 35), (120, 125), (u64::MAX / 1_000_000_000, 125)] {
        let patience_ns = Nanos::from_secs(asked);
        let start = Prepare { patience_ns, ..prepare(Role::Client) };
        let conversation = Conversation::new(Instant(0), start, prepare(Role::Server));
        assert_eq!(conversation.deadline(), Some(Instant(0) + Nanos::from_secs(expected)));
    }
}

#[test]
fn flows_are_admitted_from_the_addresses_named_however_they_are_written() {
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    let anyone = prepare(Role::Server);
    assert!(anyone.admits(ip("192.0.2.1")));
    let some = Prepare { from: vec![ip("::ffff:192.0.2.1"), ip("2001:db8::1")], ..anyone };
    for (from, is_admitted) in [
        ("192.0.2.1", true),
        ("::ffff:192.0.2.1", true),
        ("2001:db8::1", true),
        ("192.0.2.2", false),
        ("2001:db8::2", false),
    ] {
        assert_eq!(some.admits(ip(from)), is_admitted, "{from}");
    }
}

/// Orders up to `now` to a sender whose receiver may defer its count for 2 s.
fn orders_to_sender(conversation: &mut Conversation, now: Instant) -> Vec<Order> {
    conversation.on_timeout(now);
    let orders = from_fn(|| conversation.poll_output());
    orders.filter_map(|(role, order)| (role == Role::Client).then_some(order)).collect()
}

#[test]
fn a_sender_goes_on_until_its_receiver_has_counted_for_the_whole_duration() {
    let hold = |role| Prepare { hold_ns: Nanos::from_secs(2), ..prepare(role) };
    let ms = |ms| Instant(Nanos::from_millis(ms).0);
    // Counting starts after 1 s, or never.
    for (counts_at, stops_at) in [(Some(ms(1_000)), ms(1_400)), (None, ms(2_500))] {
        let mut conversation = Conversation::new(ms(0), hold(Role::Client), hold(Role::Server));
        for role in [Role::Client, Role::Server] {
            conversation.on_message(ms(1), role, Report::Ready { run: RUN, port: 9 });
        }
        while conversation.poll_output().is_some() {}
        conversation.on_message(ms(90), Role::Client, Report::Holds { run: RUN });
        assert_eq!(orders_to_sender(&mut conversation, ms(90)), [], "the sender counts nothing");
        conversation.on_message(ms(100), Role::Server, Report::Holds { run: RUN });
        assert_eq!(orders_to_sender(&mut conversation, ms(100)), [Order::Hold { run: RUN }]);
        conversation.on_message(ms(200), Role::Server, Report::Holds { run: RUN });
        assert_eq!(orders_to_sender(&mut conversation, ms(200)), [], "it is told once");
        if let Some(at) = counts_at {
            conversation.on_message(at, Role::Server, Report::Counts { run: RUN });
        }
        assert_eq!(conversation.deadline(), Some(stops_at));
        assert_eq!(orders_to_sender(&mut conversation, Instant(stops_at.0 - 1)), []);
        assert_eq!(orders_to_sender(&mut conversation, stops_at), [Order::Stop { run: RUN }]);
        assert!(conversation.outcome().is_none());
    }
}

#[test]
fn a_sender_whose_flows_are_open_waits_until_it_may_start() {
    let ms = |ms| Instant(Nanos::from_millis(ms).0);
    let waits = |role| Prepare { waits_for_start: true, ..prepare(role) };
    let mut conversation = Conversation::new(ms(0), waits(Role::Client), waits(Role::Server));
    for role in [Role::Client, Role::Server] {
        conversation.on_message(ms(1), role, Report::Ready { run: RUN, port: 9 });
    }
    while conversation.poll_output().is_some() {}
    conversation.on_message(ms(2), Role::Server, Report::Opened { run: RUN });
    assert!(!conversation.has_opened(), "the server is not the sender");
    conversation.on_message(ms(2), Role::Client, Report::Opened { run: RUN });
    assert!(conversation.has_opened() && !conversation.has_begun());
    // Another conversation may wait in a queue for an hour.
    assert_eq!(orders_to_sender(&mut conversation, ms(3_600_000)), []);
    assert!(conversation.outcome().is_none());
    conversation.start(ms(3_600_000), Some(7), Nanos::from_millis(5));
    let start = Order::Start { run: RUN, at_ns: Some(7) };
    assert_eq!(orders_to_sender(&mut conversation, ms(3_600_000)), [start]);
    // 5 ms, the duration, and 10 s.
    let deadline = ms(3_610_005) + DURATION;
    assert_eq!(conversation.deadline(), Some(deadline));
    conversation.on_message(ms(3_600_006), Role::Client, Report::Begun { run: RUN });
    assert!(conversation.has_begun());
    conversation.on_timeout(deadline);
    assert!(matches!(conversation.outcome(), Some(Err(ConversationError::Silent { .. }))));
}

#[test]
fn nobody_who_was_not_allowed_to_makes_a_sender_go_on() {
    let mut conversation =
        Conversation::new(Instant(0), prepare(Role::Client), prepare(Role::Server));
    for role in [Role::Client, Role::Server] {
        conversation.on_message(Instant(1), role, Report::Ready { run: RUN, port: 9 });
    }
    while conversation.poll_output().is_some() {}
    conversation.on_message(Instant(2), Role::Server, Report::Holds { run: RUN });
    assert_eq!(conversation.poll_output(), None);
}

#[test]
fn an_order_to_go_on_or_to_stop_after_the_end_of_a_run_is_late_and_no_fault() {
    let mut worker = Worker::default();
    for order in [Order::Hold { run: RUN }, Order::Stop { run: RUN }] {
        assert_eq!(worker.on_order(order), None);
    }
    assert_eq!(worker.poll_output(), None);
}

#[test]
fn an_end_that_is_queued_stays_so_when_the_other_one_is_ready() {
    let mut world = World::new(Manner::Sound, Manner::Sound);
    let mut told = |from, report| {
        world.conversation.on_message(world.now, from, report);
        world.conversation.place()
    };
    assert_eq!(told(Role::Client, Report::Queued { run: RUN, place: 1 }), Some(1));
    assert_eq!(told(Role::Server, Report::Ready { run: RUN, port: 9 }), Some(1));
    assert_eq!(told(Role::Client, Report::Ready { run: RUN, port: 0 }), None);
}

#[test]
fn an_end_that_is_prepared_later_waits_for_the_first_one_however_long_that_is_queued() {
    let mut conversation =
        Conversation::new(Instant(0), prepare(Role::Client), prepare(Role::Server));
    conversation.prepare_first(Role::Client);
    let prepared = |conversation: &mut Conversation| {
        from_fn(|| conversation.poll_output()).map(|(role, _)| role).collect::<Vec<_>>()
    };
    assert_eq!(prepared(&mut conversation), [Role::Client]);
    let queued = Report::Queued { run: RUN, place: 1 };
    conversation.on_message(Instant(0), Role::Client, queued);
    let later = Instant(0) + Nanos::from_secs(3600);
    conversation.on_timeout(later);
    conversation.on_message(later, Role::Client, Report::Ready { run: RUN, port: 0 });
    assert_eq!(prepared(&mut conversation), [Role::Server]);
    conversation.on_message(later, Role::Server, Report::Ready { run: RUN, port: 9 });
    let Some((Role::Client, Order::Begin { .. })) = conversation.poll_output() else {
        panic!("the client does not begin")
    };
}
