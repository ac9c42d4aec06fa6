//! The agent's side of one connection: turns, quotas and refusals.

use fabricmark_plan::{Point, Role, Transport};
use fabricmark_proto::{
    AgentAction, Answer, Connection, Failure, Order, PROTOCOL_VERSION, Prepare, Quota, Report,
    Request, Turn, Welcome,
};
use fabricmark_record::{ApplicationTier, DatabaseTier, TierLine, TierOrder};
use fabricmark_units::{BitRate, Bytes, Instant, Nanos};

const RUN: u64 = 7;
const SESSION: [u8; 16] = [9; 16];

fn prepare(role: Role, levels: &str) -> Prepare {
    let defaults = "pattern=stream,transport=udp,family=4,payload=1024,link=veth";
    let prepare = fabricmark_testkit::prepare(role, &format!("{defaults},{levels}"));
    Prepare { run: RUN, duration_ns: Nanos::from_secs(10), token: [1; 16], ..prepare }
}

fn hello(version: u16, session: [u8; 16]) -> Vec<AgentAction> {
    let welcome = Welcome { version: PROTOCOL_VERSION, ..Welcome::default() };
    let mut connection = Connection::new(Instant(0), welcome, Nanos(0));
    connection.on_request(Instant(0), Request::Hello { version, session });
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
        assert_eq!(
            hello(theirs, SESSION),
            [AgentAction::Say(Answer::Refused { why }), AgentAction::Close]
        );
    }
    assert!(matches!(hello(ours, SESSION).as_slice(), [AgentAction::Say(Answer::Welcome(_))]));
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
fn only_orders_of_the_run_under_way_reach_its_worker() {
    let mut connection = greeted(Quota::default());
    order(&mut connection, Order::Prepare(Box::new(prepare(Role::Server, ""))));
    connection.on_turn(Turn::Now);
    actions(&mut connection);
    let stop = Order::Stop { run: RUN };
    assert_eq!(order(&mut connection, stop.clone()), [AgentAction::Hand(stop)]);
    assert_eq!(order(&mut connection, Order::Stop { run: RUN + 1 }), []);
    assert_eq!(order(&mut connection, Order::Hello { version: PROTOCOL_VERSION }), []);
}

#[test]
fn a_run_that_the_agent_has_no_memory_for_fails_and_frees_its_slot() {
    let mut connection = greeted(Quota::default());
    let run = prepare(Role::Server, "receive_buffer=16MiB");
    let ordered = order(&mut connection, Order::Prepare(Box::new(run.clone())));
    assert_eq!(ordered, [AgentAction::Ask]);
    // The kernel doubles the buffer (socket(7)).
    assert!(connection.needed() > Bytes(32 << 20), "{}", connection.needed());
    assert_eq!(connection.used(), Bytes(0));
    connection.decline("no memory".to_owned());
    let failure = failed(Failure::Peer("no memory".to_owned()));
    assert_eq!(actions(&mut connection), [AgentAction::Done, failure]);
    // It may ask again, and then uses what it needs.
    assert_eq!(order(&mut connection, Order::Prepare(Box::new(run))), [AgentAction::Ask]);
    let needed = connection.needed();
    connection.on_turn(Turn::Now);
    assert_eq!((connection.used(), connection.needed()), (needed, Bytes(0)));
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

/// A worker answers each order that is out of place, also after the end of its run.
#[test]
fn a_report_of_an_earlier_run_ends_no_other_and_its_number_is_not_used_again() {
    let mut connection = greeted(Quota::default());
    order(&mut connection, Order::Prepare(Box::new(prepare(Role::Server, ""))));
    connection.on_turn(Turn::Now);
    let report = Report::Failed { run: RUN, failure: Failure::Aborted };
    connection.on_report(report.clone());
    assert!(!connection.is_busy());
    actions(&mut connection);
    let again = order(&mut connection, Order::Prepare(Box::new(prepare(Role::Server, ""))));
    let why = "the number of a run must be above those of earlier runs".to_owned();
    assert_eq!(again, [failed(Failure::Protocol(why))]);
    let next = Prepare { run: RUN + 1, ..prepare(Role::Server, "") };
    assert_eq!(order(&mut connection, Order::Prepare(Box::new(next))), [AgentAction::Ask]);
    connection.on_turn(Turn::Now);
    connection.on_report(report);
    assert!(connection.is_busy());
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
        // 1000 requests of 1,024 B a second, and as many responses of 1 MiB.
        (
            "pattern=rr,transport=tcp,congestion=cubic,response=1MiB,pace=fixed:1000/s",
            "the agent allows a rate of 1G, but the run has 8388608K: use a lower rate",
        ),
        (
            "pace=fixed:1G,receive_buffer=16MiB",
            "the agent allows 16MiB of memory, but the run needs 34945KiB: use fewer flows, or \
             smaller payloads or buffers",
        ),
        (
            // Both buffers of an end, each doubled by the kernel.
            "pace=fixed:1G,transport=tcp,congestion=cubic,window=16MiB",
            "the agent allows 16MiB of memory, but the run needs 67713KiB: use fewer flows, or \
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
    let refused = AgentAction::Say(Answer::Refused { why });
    let mut waiting = greeted(Quota::default());
    order(&mut waiting, prepare());
    waiting.drain();
    assert_eq!(actions(&mut waiting), [refused.clone(), AgentAction::Leave, AgentAction::Close]);
    let mut idle = greeted(Quota::default());
    idle.drain();
    assert_eq!(order(&mut idle, prepare()), [refused, AgentAction::Close]);
}

#[test]
fn orders_before_the_greeting_close_the_connection() {
    let mut connection = Connection::new(Instant(0), Welcome::default(), Nanos(0));
    let found = order(&mut connection, Order::Abort { run: RUN });
    let why = "unexpected request in this state of the protocol".to_owned();
    assert_eq!(found, [AgentAction::Say(Answer::Refused { why }), AgentAction::Close]);
}

#[test]
fn sentences_of_another_host_have_one_line() {
    let text =
        r#"{"report":"failed","run":7,"failure":{"system":"lost\n\nrequired    goodput: kept\r"}}"#;
    let report: Report = serde_json::from_str(text).unwrap();
    let failure = Failure::System("lost; required    goodput: kept".to_owned());
    assert_eq!(report, Report::Failed { run: RUN, failure });
    let text = r#"{"answer":"refused","why":"full\nreally"}"#;
    let answer: Answer = serde_json::from_str(text).unwrap();
    assert_eq!(answer, Answer::Refused { why: "full; really".to_owned() });
}

#[test]
fn a_session_of_zeros_is_refused() {
    let why = "a session of zeros is reserved: use a random one".to_owned();
    let refused = [AgentAction::Say(Answer::Refused { why }), AgentAction::Close];
    assert_eq!(hello(PROTOCOL_VERSION, [0; 16]), refused);
}
