//! Limits of an agent for one coordinator.

use fabricmark_plan::{Direction, Point, Role};
use fabricmark_proto::{Prepare, Quota};
use fabricmark_units::{BitRate, Bytes, Nanos};

fn prepare(role: Role, levels: &str) -> Prepare {
    let defaults = "pattern=stream,transport=udp,family=4,payload=1024,link=veth";
    fabricmark_testkit::prepare(role, &format!("{defaults},{levels}"))
}

#[test]
fn a_probe_needs_no_rate() {
    let quota = Quota { rate_max: Some(BitRate(1_000_000)), ..Quota::default() };
    let check = |levels: &str| quota.check(&prepare(Role::Server, levels));
    assert_eq!(check("pattern=ping-pong,payload=64"), Ok(()));
    assert!(check("pattern=ping-pong,payload=65").is_err());
    assert!(check("pattern=rr,payload=64").is_err());
    // These do not wait for each answer.
    let with = |change: fn(&mut Point)| {
        let mut run = prepare(Role::Server, "pattern=ping-pong,payload=64");
        change(&mut run.point);
        quota.check(&run)
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert!(with(|point| point.outstanding = Some(65_536)).is_err());
    assert!(with(|point| point.pace = "fixed:1G".parse().unwrap()).is_err());
    assert!(with(|point| point.direction = Some(Direction::Reverse)).is_err());
}

#[test]
fn responses_are_limited_to_the_rate_and_those_of_probes_to_one_per_microsecond() {
    let limit = |rate_max, levels: &str| {
        let quota = Quota { rate_max, ..Quota::default() };
        quota.response_rate_max(&prepare(Role::Server, levels).point)
    };
    let rate = Some(BitRate(1_000_000));
    assert_eq!(limit(rate, "pattern=rr,payload=64,pace=fixed:1000/s"), rate);
    assert_eq!(limit(rate, "pattern=ping-pong,payload=64"), Some(BitRate(512_000_000)));
    assert_eq!(limit(None, "pattern=ping-pong,payload=64"), None);
}

#[test]
fn a_rate_counts_only_if_the_run_keeps_it_in_each_second() {
    let quota = Quota { rate_max: Some(BitRate(500_000_000)), ..Quota::default() };
    let check = |levels: &str| {
        let minute = Nanos::from_secs(60);
        quota.check(&Prepare { duration_ns: minute, ..prepare(Role::Server, levels) })
    };
    assert_eq!(check("direction=reverse,pace=burst:50MB/1s"), Ok(()));
    // The same rate on average, but all of it leaves at once.
    let why = check("direction=reverse,pace=burst:5TB/24h").unwrap_err();
    assert!(
        why.contains("the run has 40T: bursts count over their period, at most a second"),
        "{why}"
    );
    assert!(why.contains("here 60s; use smaller bursts, or a longer run"), "{why}");
    let paced = |levels: &str| {
        let mut run = prepare(Role::Server, &format!("{levels},congestion=cubic"));
        run.point.pacing_rate = Some(BitRate(100_000_000));
        quota.check(&run)
    };
    assert_eq!(paced("transport=tcp,direction=reverse"), Ok(()));
    // Without fq the kernel does not pace datagrams, and it never paces the first segments of a connection.
    for unpaced in ["direction=reverse", "pattern=crr,transport=tcp"] {
        let why = paced(unpaced).unwrap_err();
        assert!(why.contains("the run has no rate"), "{why}");
    }
    let read = "pattern=rr,transport=rc,operation=read,pace=fixed:1/s,link=rocev2:25G";
    let why = check(read).unwrap_err();
    assert!(why.contains("but not those of operation=read"), "{why}");
}

#[test]
fn what_leaves_at_the_start_of_a_run_or_slice_is_within_the_rate() {
    let quota = Quota { rate_max: Some(BitRate(80_000_000)), ..Quota::default() };
    let check = |levels: &str, ms| {
        let run = prepare(Role::Server, &format!("transport=tcp,congestion=cubic,{levels}"));
        quota.check(&Prepare { duration_ns: Nanos::from_millis(ms), ..run })
    };
    // 1 MB takes 100 ms.
    for levels in ["direction=reverse,payload=1MB", "pattern=rr,payload=64,response=1MB"] {
        assert_eq!(check(&format!("{levels},pace=fixed:1/s"), 100), Ok(()), "{levels}");
        let why = check(&format!("{levels},pace=fixed:1/s"), 99).unwrap_err();
        assert!(
            why.contains("at which 1000000 B take longer than the run or warm-up, here 99ms"),
            "{why}"
        );
    }
    assert_eq!(check("direction=reverse,payload=1000,pace=fixed:1/s", 1), Ok(()));
    let sliced = |levels: &str| {
        let mut run = prepare(Role::Server, &format!("transport=tcp,congestion=cubic,{levels}"));
        (run.slice_ns, run.duration_ns) = (Some(Nanos::from_millis(40)), Nanos::from_secs(1));
        run.point.pacing_rate = Some(BitRate(1_000_000));
        quota.check(&run)
    };
    let why = sliced("direction=reverse,pace=burst:1MB/1s").unwrap_err();
    assert!(why.contains("each slice sends its first payload or burst at once"), "{why}");
    for kept in ["direction=reverse", "direction=forward,pace=fixed:1/s"] {
        assert_eq!(sliced(kept), Ok(()), "{kept}");
    }
}

#[test]
fn each_datagram_of_a_batch_has_a_buffer() {
    let quota = Quota { memory_max: Bytes(16 << 20), ..Quota::default() };
    let check = |path: &str| {
        let levels = format!("payload=60000,flows=20,receive_buffer=1KiB,path={path}");
        quota.check(&prepare(Role::Server, &levels))
    };
    assert_eq!(check("copy"), Ok(()));
    let why = check("mmsg").unwrap_err();
    assert!(why.contains("of memory, but the run needs"), "{why}");
}

#[test]
fn lists_and_threads_of_a_run_are_bounded() {
    let quota = Quota { memory_max: Bytes(560 << 20), ..Quota::default() };
    let many = Prepare { more_cpus: vec![0; 1025], ..prepare(Role::Server, "") };
    assert_eq!(
        quota.check(&many),
        Err("a run may list at most 1024 addresses, CPUs or settings: use fewer".into())
    );
    let threads = |count| quota.check(&prepare(Role::Server, &format!("flows=64,threads={count}")));
    assert_eq!(threads(8), Ok(()));
    assert!(threads(33).unwrap_err().contains("of memory, but the run needs"));
}

#[test]
fn ports_of_servers_are_those_that_the_owner_allows() {
    let check = |ports, port| {
        let run = Prepare { port, ..prepare(Role::Server, "") };
        Quota { ports, ..Quota::default() }.check(&run)
    };
    for (ports, port) in [(None, 0), (None, 1024), (Some((7500, 7509)), 7509), (Some((53, 53)), 53)]
    {
        assert_eq!(check(ports, port), Ok(()));
    }
    let why = check(Some((7500, 7509)), 22).unwrap_err();
    assert!(why.starts_with("the agent allows ports 7500 to 7509, but the run asks for"), "{why}");
    let why = check(None, 53).unwrap_err();
    assert!(why.starts_with("the agent does not allow port 53"), "{why}");
    let privileged = prepare(Role::Client, "source_port=53");
    let allowed = Quota { allows_clients: true, ..Quota::default() };
    let why = allowed.check(&privileged).unwrap_err();
    assert!(why.starts_with("the agent does not allow port 53"), "{why}");
    let client = Prepare { port: 22, ..prepare(Role::Client, "") };
    let allowing = Quota { allows_clients: true, ..Quota::default() };
    assert_eq!(allowing.check(&client), Ok(()));
    let relay = Prepare { forward: Some("127.0.0.1:80".parse().unwrap()), ..client };
    let relaying = Quota { allows_relays: true, ..allowing };
    let why = relaying.check(&relay).unwrap_err();
    assert!(why.starts_with("the agent does not allow port 22"), "{why}");
}

#[test]
fn a_run_that_starts_later_is_held_to_the_quota_until_its_end() {
    let quota = Quota { duration_max: Nanos::from_secs(60), ..Quota::default() };
    let run = |start_ns| Prepare {
        start_ns: Nanos::from_secs(start_ns),
        duration_ns: Nanos::from_secs(10),
        ..prepare(Role::Server, "")
    };
    assert_eq!(quota.check(&run(50)), Ok(()));
    let why = quota.check(&run(51)).unwrap_err();
    assert!(why.contains("allows runs of 60s, but this one takes 61s"), "{why}");
}

#[test]
fn a_run_that_ends_by_its_amount_is_told_to_limit_its_duration() {
    let quota = Quota { duration_max: Nanos::from_secs(60), ..Quota::default() };
    let duration_ns = Nanos::from_secs(3600);
    let run = Prepare { amount: Some(Bytes(1)), duration_ns, ..prepare(Role::Server, "") };
    let why = quota.check(&run).unwrap_err();
    assert!(why.ends_with("may take up to 3600s: add --duration 60s or less"), "{why}");
}
