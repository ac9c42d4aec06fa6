//! The factor `pace`.

use fabricmark_plan::{Factor, Figure, Pace, PaceWait, Point, Size, parse};
use fabricmark_units::BitRate;

fn point(levels: &str) -> Point {
    let defaults = "family=4,payload=512,link=loopback,congestion=cubic";
    fabricmark_testkit::point(&format!("{defaults},{levels}"))
}

#[test]
fn a_closed_loop_is_the_default_and_waits_for_no_departure() {
    let point = point("pattern=stream,transport=udp,pace_wait=spin");
    assert_eq!((&point.pace, point.pace_wait), (&Pace::Closed, None));
    assert_eq!(
        (point.level(Factor::Pace), point.level(Factor::PaceWait)),
        ("closed".into(), "".into())
    );
}

#[test]
fn an_open_loop_sleeps_and_spins_unless_told_otherwise() {
    let open =
        |wait: &str| point(&format!("pattern=stream,transport=udp,pace=fixed:1Gbit/s{wait}"));
    assert_eq!(open("").pace_wait, Some(PaceWait::SleepSpin));
    assert_eq!(open(",pace_wait=sleep").pace_wait, Some(PaceWait::Sleep));
    assert_eq!(open("").level(Factor::Pace), "fixed:1G");
}

#[test]
fn an_open_loop_holds_no_request_back_unless_told_how_many_may_be_under_way() {
    let outstanding = |levels: &str| point(&format!("transport=tcp,{levels}")).outstanding;
    assert_eq!(outstanding("pattern=rr"), Some(1));
    assert_eq!(outstanding("pattern=rr,pace=poisson:1000/s"), Some(65_536));
    assert_eq!(outstanding("pattern=rr,pace=poisson:1000/s,outstanding=4"), Some(4));
    assert_eq!(outstanding("pattern=ping-pong,pace=poisson:1000/s"), None);
}

#[test]
fn the_kernels_pacing_is_that_of_tcp() {
    let rate = |transport: &str| {
        let levels = format!("pattern=stream,transport={transport},pacing_rate=100M");
        point(&levels).pacing_rate
    };
    assert_eq!(rate("tcp"), Some(BitRate(100_000_000)));
    for transport in ["udp", "unix", "mptcp"] {
        assert_eq!(rate(transport), None, "{transport}");
    }
}

#[test]
fn exchanges_are_judged_by_their_rate_only_where_it_is_not_given() {
    let deciding = |levels: &str| Figure::deciding(&point(levels));
    assert_eq!(deciding("pattern=rr,transport=tcp"), Figure::TransactionRate);
    assert_eq!(deciding("pattern=rr,transport=tcp,pace=fixed:10/s"), Figure::Rtt);
}

#[test]
fn a_point_from_before_there_were_paces_is_a_closed_loop() {
    let closed = point("pattern=stream,transport=tcp");
    let mut json = serde_json::to_value(&closed).unwrap();
    assert!(json.as_object_mut().unwrap().remove("pace").is_some());
    assert_eq!(serde_json::from_value::<Point>(json).unwrap(), closed);
}

#[test]
fn a_plan_says_which_traces_it_needs_and_a_changed_one_makes_another_plan() {
    let text = "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'udp'\nfamily = [4, 6]\n\
                payload = 64\nlink = 'loopback'\npace = ['closed', 'trace:a.txt', 'trace:b.txt']\n";
    let mut plan = parse("p.toml", text, Size::Full, &[]).unwrap();
    assert_eq!(plan.trace_files().into_iter().collect::<Vec<_>>(), ["a.txt", "b.txt"]);
    let mut digest = |trace: &str| {
        plan.traces.insert("a.txt".to_owned(), fabricmark_plan::Trace::parse(trace).unwrap());
        plan.digest()
    };
    assert_eq!(digest("0\n5us"), digest("0\n5000"));
    assert_ne!(digest("0\n5us"), digest("0\n6us"));
}
