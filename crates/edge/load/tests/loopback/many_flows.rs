//! Many flows on one thread, over transports and paths that wait for more than their sockets.

use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Prepare};
use fabricmark_units::Nanos;

use crate::support::{prepare, run_with};

/// Runs both ends for as long as many flows may need to start.
pub fn run(levels: &str) -> (EndReport, EndReport) {
    run_with(levels, |prepare| Prepare { duration_ns: Nanos::from_millis(500), ..prepare })
}

/// The reports of the active end and of the passive one.
fn active_first(levels: &str) -> (EndReport, EndReport) {
    let is_reverse = levels.contains("direction=reverse");
    let (start, answer) = run(levels);
    if is_reverse { (answer, start) } else { (start, answer) }
}

/// Runs a stream in both directions, and checks that every byte arrives.
pub fn every_byte_arrives(levels: &str) {
    for direction in ["forward", "reverse"] {
        let levels = format!("pattern=stream,{levels},direction={direction}");
        let (active, passive) = active_first(&levels);
        assert!(active.fairness.is_some() && active.counts.bytes > 0, "{levels}");
        assert_eq!(active.counts.bytes, passive.counts.bytes, "{levels}");
    }
}

/// Runs a stream of datagrams; those that do not arrive are in the counters of drops.
pub fn every_datagram_is_accounted_for(levels: &str) {
    let levels = format!("pattern=stream,{levels}");
    let (start, answer) = run(&levels);
    let sequence = answer.sequence.unwrap();
    assert!(sequence.unique > 0, "{levels}");
    let point = prepare(Role::Client, &levels).point;
    let payload = point.payload.0;
    assert_eq!(start.counts.bytes, payload * start.counts.calls, "{levels}");
    let lost = start.counts.calls - sequence.unique;
    // An overloaded loopback device drops, too (net.core.netdev_max_backlog).
    let elsewhere = answer.kernel.and_then(|kernel| kernel.softnet_dropped).unwrap_or(0);
    let most = (answer.socket_drops + elsewhere) * point.datagrams_per_buffer();
    assert!((answer.socket_drops..=most).contains(&lost), "{levels}: {lost} lost");
    assert_eq!((sequence.reordered, sequence.duplicates), (0, 0), "{levels}");
}

/// Checks that every request gets its response.
pub fn every_request_is_answered(levels: &str) {
    let (start, answer) = run(levels);
    assert!(start.fairness.is_some() && start.counts.calls > 0, "{levels}");
    assert_eq!(start.rtt_ns.unwrap().len(), start.counts.calls, "{levels}");
    assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
    assert_eq!(start.lost_round_trips, 0, "{levels}");
}

#[test]
fn many_streams_pass_through_rings_in_both_directions() {
    for (transport, flows, payload) in [
        ("tcp", 1, 1000),
        ("tcp", 20, 1),
        ("tcp", 20, 1000),
        ("tcp", 5, 300_000),
        ("mptcp", 5, 1000),
        ("unix", 20, 1000),
    ] {
        every_byte_arrives(&format!(
            "transport={transport},path=io-uring,flows={flows},payload={payload},wait=epoll,\
             send_buffer=65536"
        ));
    }
    for (flows, payload) in [(1, 1000), (10, 1), (10, 100_000)] {
        every_byte_arrives(&format!(
            "transport=tcp,path=io-uring-zc,flows={flows},payload={payload},wait=epoll"
        ));
    }
}

#[test]
fn every_path_of_tcp_carries_many_flows_without_a_copy() {
    for path in ["trunc", "zerocopy", "sendfile", "splice"] {
        for (flows, payload) in [(1, 1000), (3, 1), (20, 1000), (5, 300_000)] {
            every_byte_arrives(&format!(
                "transport=tcp,path={path},flows={flows},payload={payload},wait=epoll"
            ));
        }
    }
}

#[test]
fn over_loopback_the_kernel_copies_every_zero_copy_send_and_says_so() {
    for levels in ["flows=1", "flows=3", "flows=4,threads=2"] {
        let levels =
            format!("pattern=stream,transport=tcp,path=zerocopy,payload=64KiB,wait=epoll,{levels}");
        let sends = run(&levels).0.zero_copy.unwrap();
        assert!(sends.sends > 0 && sends.copied == sends.sends, "{levels}: {sends:?}");
    }
}

#[test]
fn batches_of_many_flows_arrive_or_are_counted_as_dropped() {
    for path in ["mmsg", "gso"] {
        for (flows, payload) in [(1, 512), (20, 16), (10, 1400)] {
            every_datagram_is_accounted_for(&format!(
                "transport=udp,path={path},flows={flows},payload={payload},wait=epoll"
            ));
        }
    }
}

#[test]
fn datagrams_of_many_flows_pass_through_rings_or_are_counted_as_dropped() {
    for path in ["io-uring", "io-uring-zc"] {
        for (flows, payload) in [(1, 512), (20, 16), (10, 8000)] {
            every_datagram_is_accounted_for(&format!(
                "transport=udp,path={path},flows={flows},payload={payload},wait=epoll"
            ));
        }
    }
}

#[test]
fn round_trips_of_many_flows_pass_through_rings() {
    for transport in ["tcp", "udp", "mptcp", "unix"] {
        for (flows, payload, response, outstanding) in
            [(1, 64, 64, 1), (50, 1, 1, 1), (10, 1000, 30_000, 1), (10, 300, 7, 40)]
        {
            every_request_is_answered(&format!(
                "pattern=rr,transport={transport},path=io-uring,flows={flows},wait=epoll,\
                 payload={payload},response={response},outstanding={outstanding}"
            ));
        }
    }
    for payload in [1, 200_000] {
        every_request_is_answered(&format!(
            "pattern=ping-pong,transport=tcp,path=io-uring,flows=10,payload={payload}"
        ));
    }
}

#[test]
fn hundreds_of_rings_share_a_thread() {
    every_request_is_answered("pattern=ping-pong,transport=tcp,path=io-uring,flows=300,payload=64");
}

#[test]
fn many_connections_of_quic_deliver_every_byte_in_both_directions() {
    for (flows, payload, congestion) in
        [(2, 512, "cubic"), (10, 1, "cubic"), (10, 100_000, "bbr"), (30, 1000, "reno")]
    {
        every_byte_arrives(&format!(
            "transport=quic,flows={flows},payload={payload},congestion={congestion}"
        ));
    }
    every_byte_arrives("transport=quic,flows=5,family=6");
}

#[test]
fn round_trips_of_many_connections_of_quic_are_answered() {
    for (flows, payload, response, outstanding) in
        [(20, 1, 1, 1), (10, 64, 30_000, 1), (5, 300_000, 7, 4), (10, 300, 7, 40)]
    {
        every_request_is_answered(&format!(
            "pattern=rr,transport=quic,flows={flows},payload={payload},\
             response={response},outstanding={outstanding}"
        ));
    }
    every_request_is_answered("pattern=ping-pong,transport=quic,flows=100,payload=64");
}
