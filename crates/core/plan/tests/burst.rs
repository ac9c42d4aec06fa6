//! Points with the pattern `burst`.

use fabricmark_plan::{Contradiction, Factor, Figure, Pattern, Point};
use fabricmark_units::Bytes;

fn point(levels: &str) -> Result<Point, Contradiction> {
    let defaults =
        "pattern=burst,transport=tcp,family=4,payload=512,link=loopback,congestion=cubic";
    fabricmark_testkit::try_point(&format!("{defaults},{levels}"))
}

#[test]
fn a_burst_is_a_window_of_osu_bw_unless_told_otherwise() {
    let default = point("").unwrap();
    assert_eq!((default.outstanding, default.response), (Some(64), Some(Bytes(4))));
    assert_eq!(default.payloads_per_request(), 64);
    assert_eq!(default.nodelay, Some(true));
    let other = point("outstanding=3,response=512").unwrap();
    assert_eq!((other.payloads_per_request(), other.response), (3, Some(Bytes(512))));
}

#[test]
fn only_a_burst_asks_with_several_payloads() {
    let exchange = point("pattern=rr,outstanding=8").unwrap();
    assert_eq!(exchange.payloads_per_request(), 1);
    assert_eq!(point("pattern=stream").unwrap().payloads_per_request(), 1);
}

#[test]
fn a_burst_is_judged_by_its_goodput_and_has_round_trips() {
    assert_eq!(Figure::deciding(&point("").unwrap()), Figure::Goodput);
    for (figure, is_one) in [
        (Figure::Goodput, true),
        (Figure::PayloadRate, true),
        (Figure::TransactionRate, true),
        (Figure::RttP99, true),
        (Figure::ClientDemand, true),
        (Figure::SenderDemand, false),
        (Figure::HalfRtt, false),
    ] {
        assert_eq!(figure.spec().patterns.contains(&Pattern::Burst), is_one, "{figure:?}");
    }
}

#[test]
fn what_no_burst_could_be_is_refused_with_what_could() {
    for (levels, factor, words) in [
        ("pace=poisson:10/s", Factor::Pace, ["pace=poisson:10/s", "burst:BYTES/PERIOD"]),
        (
            "outstanding=65,payload=4MiB",
            Factor::Outstanding,
            ["65 payloads of 4194304 bytes has 272629760", "at most 256MiB"],
        ),
        (
            "transport=udp,payload=3",
            Factor::Payload,
            ["payload=3 is too small", "at least 4 bytes"],
        ),
        (
            "transport=udp,response=1",
            Factor::Response,
            ["response=1 is too small", "at least 4 bytes"],
        ),
        ("transport=udp,path=gso", Factor::Path, ["not burst", "path=copy"]),
        (
            "pattern=stream,pace=follow-delivery,flows=2,wait=epoll",
            Factor::Pace,
            ["needs flows=1: it follows one TCP connection", "use flows=1"],
        ),
        (
            "pattern=rr,pace=follow-rtt",
            Factor::Pace,
            ["needs pattern=stream and transport=tcp", "or another pace"],
        ),
    ] {
        let refused = point(levels).unwrap_err();
        assert_eq!(refused.factor, factor, "{levels}");
        for word in words {
            assert!(refused.to_string().contains(word), "{levels}: no {word:?} in {refused}");
        }
    }
    for levels in ["outstanding=64,payload=4MiB", "payload=1", "transport=udp,payload=4"] {
        assert!(point(levels).is_ok(), "{levels}");
    }
}
