//! Both ends of each transport and pattern over loopback, with the real kernel in between.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod burst;
mod interrupts;
mod intervals;
mod many_flows;
mod pace;
mod refusals;
mod rr;
mod slices;
mod stamps;
mod strangers;
mod support;
mod threads;

use std::net::UdpSocket;

use fabricmark_load::Endpoint;
use fabricmark_plan::Role;
use fabricmark_proto::Prepare;
use fabricmark_record::Counts;
use fabricmark_units::{Bytes, Nanos};
use proptest::prelude::*;

use crate::support::{QUIC_WAITS, RELIABLE, WAITS, prepare, run, run_with};

#[test]
fn every_reliable_stream_delivers_every_byte_that_was_sent() {
    // A run whose first bytes are late has none in its ramp, but not all of these are late.
    let mut has_ramp = false;
    for transport in RELIABLE {
        for wait in WAITS {
            for direction in ["forward", "reverse"] {
                let levels = format!(
                    "pattern=stream,transport={transport},wait={wait},direction={direction}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
                let (active, passive) = match direction {
                    "forward" => (start, answer),
                    _ => (answer, start),
                };
                assert_eq!(active.tcp.is_some(), transport != "unix", "{levels}");
                assert_eq!(active.counts.ramp_bytes, 0, "{levels}");
                has_ramp |= passive.counts.ramp_bytes > 0;
            }
        }
    }
    assert!(has_ramp);
}

#[test]
fn a_quic_stream_delivers_every_byte_under_each_of_its_congestion_controls() {
    for congestion in ["cubic", "reno", "bbr"] {
        for wait in QUIC_WAITS {
            for (direction, family) in [("forward", 4), ("reverse", 6)] {
                let levels = format!(
                    "pattern=stream,transport=quic,congestion={congestion},wait={wait},\
                     direction={direction},family={family}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
                assert_eq!((start.tcp, answer.tcp), (None, None), "{levels}");
                let (active, passive) = match direction {
                    "forward" => (start.quic, answer.quic),
                    _ => (answer.quic, start.quic),
                };
                assert_eq!(passive, None, "{levels}");
                let counted = active.unwrap();
                // RFC 9000: a packet is not longer than its datagram, and the MTU is at least 1,200.
                let bytes = answer.counts.bytes;
                assert!(counted.sent_packets >= bytes / counted.mtu_bytes, "{levels} {counted:?}");
                assert!(counted.lost_packets < counted.sent_packets, "{levels} {counted:?}");
                assert!(counted.mtu_bytes >= 1_200 && counted.srtt_ns > 0, "{levels} {counted:?}");
            }
        }
    }
}

#[test]
fn tcp_counts_its_segments_under_the_congestion_control_that_was_asked_for() {
    for family in [4, 6] {
        let (start, _) = run(&format!("pattern=stream,transport=tcp,family={family}"));
        let tcp = start.tcp.unwrap();
        assert_eq!(tcp.congestion, "cubic");
        assert!(tcp.data_segments > 0 && tcp.writes_per_segment > 0.0);
    }
}

#[test]
fn every_path_of_tcp_delivers_every_byte_that_was_sent() {
    for path in ["copy", "trunc", "zerocopy", "sendfile", "splice", "io-uring", "io-uring-zc"] {
        for payload in [1, 1000, 100_000] {
            for wait in ["block", "spin"] {
                let levels = format!(
                    "pattern=stream,transport=tcp,path={path},payload={payload},wait={wait}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn every_reliable_stream_passes_through_a_ring_in_both_directions() {
    for transport in ["tcp", "mptcp", "unix"] {
        for direction in ["forward", "reverse"] {
            // The send buffer is smaller than what is sent at once.
            for payload in [1, 1000, 300_000] {
                let levels = format!(
                    "pattern=stream,transport={transport},path=io-uring,payload={payload},\
                     direction={direction},send_buffer=65536"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.bytes > 0, "{levels}");
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn socket_options_let_every_byte_pass() {
    for (transport, family, options) in [
        ("tcp", 4, "cork=true"),
        ("mptcp", 4, "cork=true,nodelay=false"),
        ("tcp", 4, "quickack=true"),
        ("tcp", 4, "quickack=false,wait=epoll,flows=3"),
        ("tcp", 4, "receive_lowat=128KiB"),
        ("tcp", 4, "receive_lowat=1GiB,window=64KiB"),
        ("tcp", 4, "receive_lowat=128KiB,wait=epoll,flows=3"),
        ("tcp", 4, "receive_lowat=128KiB,path=io-uring"),
        ("tcp", 6, "dont_fragment=true,flow_label=74565"),
        ("udp", 6, "dont_fragment=false,flow_label=1"),
        ("tcp", 4, "source=127.0.0.2,connect_timeout=1s"),
        ("udp", 4, "source=127.0.0.3,dont_fragment=true"),
        ("tcp", 4, "device=lo"),
        ("udp", 6, "device=lo"),
    ] {
        for pattern in ["stream", "rr"] {
            let levels =
                format!("pattern={pattern},transport={transport},family={family},{options}");
            let (start, answer) = run(&levels);
            assert!(start.counts.calls > 0, "{levels}");
            if pattern == "stream" && transport != "udp" {
                assert_eq!(start.counts.bytes, answer.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn a_receiver_wakes_up_for_as_many_bytes_as_were_asked_for() {
    for wait in ["block", "epoll", "busy-poll"] {
        let levels =
            format!("pattern=stream,transport=tcp,payload=64,receive_lowat=128KiB,wait={wait}");
        let (start, answer) = run_with(&levels, |prepare| Prepare {
            amount: Some(Bytes(8 << 20)),
            duration_ns: Nanos::from_secs(60),
            ..prepare
        });
        let Counts { bytes, calls, .. } = answer.counts;
        assert_eq!(start.counts.bytes, bytes, "{levels}");
        // Each call reads 128 KiB, except while the window is smaller and at the end, where orders interrupt calls.
        assert!((64..=128).contains(&calls), "{levels}: {calls} calls for {bytes} bytes");
    }
}

#[test]
fn a_flow_is_opened_from_the_port_that_was_asked_for() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let start = prepare(Role::Client, &format!("pattern=stream,transport=udp,source_port={port}"));
    let error = Endpoint::prepare(start).unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    drop(taken);
    run(&format!("pattern=ping-pong,transport=udp,source_port={port}"));
}

#[test]
fn round_trips_pass_through_a_ring() {
    for transport in ["tcp", "udp", "mptcp", "unix"] {
        for wait in ["block", "spin"] {
            for (payload, response, outstanding) in [(1, 1, 1), (1000, 30_000, 1), (300, 7, 100)] {
                let levels = format!(
                    "pattern=rr,transport={transport},path=io-uring,wait={wait},\
                     payload={payload},response={response},outstanding={outstanding}"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.calls > 0, "{levels}");
                assert_eq!(start.rtt_ns.unwrap().len(), start.counts.calls, "{levels}");
                assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
                assert_eq!(start.lost_round_trips, 0, "{levels}");
            }
        }
        let payload = if transport == "udp" { 20_000 } else { 200_000 };
        let (start, answer) = run(&format!(
            "pattern=ping-pong,transport={transport},path=io-uring,payload={payload}"
        ));
        assert!(start.counts.calls > 0, "{transport}");
        assert_eq!(answer.counts.calls, start.counts.calls, "{transport}");
    }
}

#[test]
fn datagrams_of_a_stream_arrive_or_are_counted_as_dropped() {
    for path in ["copy", "trunc", "mmsg", "gso", "io-uring", "io-uring-zc"] {
        for (family, payload) in [(4, 16), (6, 512), (4, 8000)] {
            for wait in ["block", "spin"] {
                let levels = format!(
                    "pattern=stream,transport=udp,path={path},family={family},payload={payload},\
                     wait={wait}"
                );
                let (start, answer) = run(&levels);
                let sequence = answer.sequence.unwrap();
                assert!(sequence.unique > 0, "{levels}");
                let sent = start.counts.calls;
                assert!(sequence.unique <= sent, "{levels}: sent {sent}, {sequence:?}");
                let lost = start.counts.calls - sequence.unique;
                // One drop of the path gso is a buffer of up to 64 datagrams.
                let most = answer.socket_drops * if path == "gso" { 64 } else { 1 };
                assert!((answer.socket_drops..=most).contains(&lost), "{levels}: {lost} lost");
                assert_eq!(start.counts.bytes, payload * start.counts.calls, "{levels}");
                assert_eq!((sequence.reordered, sequence.duplicates), (0, 0), "{levels}");
            }
        }
    }
}

#[test]
fn each_round_trip_is_recorded_once() {
    for pattern in ["ping-pong", "rr"] {
        for transport in ["tcp", "udp", "mptcp", "tls", "quic", "unix", "seqpacket"] {
            for (payload, wait) in [(1, "block"), (64, "spin"), (512, "epoll"), (3, "busy-poll")] {
                if transport == "quic" && !QUIC_WAITS.contains(&wait) {
                    continue;
                }
                let levels = format!(
                    "pattern={pattern},transport={transport},payload={payload},wait={wait}"
                );
                let (start, answer) = run(&levels);
                let rtt = start.rtt_ns.unwrap();
                assert!(start.counts.calls > 0, "{levels}");
                assert_eq!(rtt.len(), start.counts.calls, "{levels}");
                assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
                // The sum of the RTTs cannot exceed the elapsed time.
                let sum = rtt.mean_ns().unwrap() * rtt.len() as f64;
                assert!(sum <= start.counts.elapsed_ns as f64, "{levels}");
            }
        }
    }
}

#[test]
fn several_requests_may_be_under_way_and_differ_from_their_responses() {
    for transport in ["tcp", "udp", "tls", "quic", "unix", "seqpacket"] {
        for wait in ["block", "epoll", "spin"] {
            if transport == "quic" && !QUIC_WAITS.contains(&wait) {
                continue;
            }
            for (payload, response) in [(1, 1000), (1000, 1), (5, 5)] {
                let levels = format!(
                    "pattern=rr,transport={transport},wait={wait},payload={payload},\
                     response={response},outstanding=8"
                );
                let (start, answer) = run(&levels);
                assert!(start.counts.calls > 0, "{levels}");
                assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
                assert_eq!(start.lost_round_trips, 0, "{levels}");
            }
        }
    }
}

#[test]
fn sequenced_packets_keep_their_boundaries() {
    for payload in [1, 1000, 131_072] {
        let levels = format!("pattern=stream,transport=seqpacket,payload={payload}");
        let (start, answer) = run(&levels);
        assert_eq!(start.counts.calls, answer.counts.calls, "{levels}");
        assert_eq!(answer.counts.bytes, payload * answer.counts.calls, "{levels}");
    }
}

#[test]
fn many_flows_share_a_thread() {
    for (pattern, transport, flows) in [
        ("stream", "tcp", 20),
        ("stream", "unix", 20),
        ("stream", "seqpacket", 20),
        ("stream", "udp", 20),
        ("stream", "tls", 20),
        ("rr", "tcp", 200),
        ("rr", "udp", 50),
        ("rr", "tls", 10),
        ("ping-pong", "unix", 50),
        ("burst", "tcp", 50),
        ("burst", "unix", 10),
        ("ping-pong", "seqpacket", 50),
        ("burst", "seqpacket", 10),
        ("burst", "tls", 5),
    ] {
        for direction in ["forward", "reverse"] {
            let levels = format!(
                "pattern={pattern},transport={transport},flows={flows},direction={direction}"
            );
            // A turn of a flow is at most 16 payloads of a stream, a burst of 64, or one request: at least four turns of
            // all flows, however long they take.
            let payloads = if matches!(pattern, "stream" | "burst") { 64 } else { 1 };
            let (start, answer) = run_with(&levels, |prepare| Prepare {
                amount: Some(Bytes(4 * flows * payloads * 512)),
                duration_ns: Nanos::from_secs(60),
                ..prepare
            });
            let is_reverse = pattern == "stream" && direction == "reverse";
            let (active, passive) = if is_reverse { (answer, start) } else { (start, answer) };
            let fairness = active.fairness.unwrap();
            assert!(fairness.fewest > 0, "{levels}: a flow had nothing");
            assert!(fairness.jain > 0.0 && fairness.jain <= 1.0, "{levels}");
            // Of a stream whole payloads of each flow, which have 512 bytes.
            let whole = active.counts.bytes / 512;
            let (least, most) = match pattern {
                "stream" => (whole.saturating_sub(flows), whole),
                _ => (active.counts.calls, active.counts.calls),
            };
            // More than 128 are not listed.
            let listed = if flows > 128 { 0..=0 } else { least..=most };
            assert!(listed.contains(&fairness.each.iter().sum::<u64>()), "{levels}");
            if pattern == "stream" && transport != "udp" {
                assert_eq!(active.counts.bytes, passive.counts.bytes, "{levels}");
            }
        }
    }
}

#[test]
fn each_connect_exchange_has_a_connection_of_its_own() {
    for transport in ["tcp", "mptcp", "tls", "quic", "unix"] {
        let levels = format!("pattern=crr,transport={transport},payload=1,response=9");
        let (start, answer) = run(&levels);
        assert!(start.counts.calls > 0, "{levels}");
        assert_eq!(start.counts.calls, answer.counts.calls, "{levels}");
        assert_eq!(start.rtt_ns.unwrap().len(), start.counts.calls, "{levels}");
    }
}

#[test]
fn many_connections_at_once_are_each_answered() {
    for transport in ["tcp", "mptcp", "tls", "unix"] {
        for (flows, wait, threads) in
            [(1, "epoll", 1), (5, "epoll", 1), (5, "epoll", 2), (2, "block", 2)]
        {
            let threads = if threads > 1 { format!(",threads={threads}") } else { String::new() };
            let levels = format!(
                "pattern=crr,transport={transport},payload=9000,response=99000,flows={flows},\
                 wait={wait}{threads}"
            );
            let (client, server) = many_flows::run(&levels);
            assert!(client.counts.calls > 0, "{levels}");
            assert_eq!(client.counts.calls, server.counts.calls, "{levels}");
            assert_eq!(client.rtt_ns.unwrap().len(), client.counts.calls, "{levels}");
            if flows > 1 {
                let fairness = client.fairness.unwrap();
                assert_eq!(fairness.each.len(), flows, "{levels}");
                assert!(fairness.fewest > 0, "{levels}: {fairness:?}");
                assert_eq!(fairness.each.iter().sum::<u64>(), client.counts.calls, "{levels}");
            }
        }
    }
}

#[test]
fn responses_that_fill_the_send_buffers_of_many_connections_arrive_whole() {
    for transport in ["tcp", "tls"] {
        let levels =
            format!("pattern=crr,transport={transport},payload=1,response=9000000,flows=3");
        let (client, server) = many_flows::run(&levels);
        assert!(client.counts.calls >= 3, "{levels}");
        assert_eq!(client.counts.calls, server.counts.calls, "{levels}");
    }
}

#[test]
fn the_null_transport_carries_streams_and_exchanges() {
    let (start, _) = run("pattern=stream,transport=null");
    assert!(start.counts.calls > 0);
    for pattern in ["ping-pong", "burst"] {
        let (start, _) = run(&format!("pattern={pattern},transport=null"));
        assert!(!start.rtt_ns.unwrap().is_empty(), "{pattern}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_reliable_pair_of_transport_and_pattern_loses_no_byte_of_any_payload(
        payload in 1u64..200 << 10,
        wait in prop::sample::select(&WAITS[..]),
    ) {
        for transport in RELIABLE.into_iter().chain(["quic", "seqpacket"]) {
            let wait = if transport == "quic" && wait == "busy-poll" { "block" } else { wait };
            let payload = if transport == "seqpacket" { payload.min(128 << 10) } else { payload };
            for pattern in ["stream", "rr", "ping-pong", "burst"] {
                let burst = if pattern == "burst" { ",outstanding=5" } else { "" };
                let levels = format!(
                    "pattern={pattern},transport={transport},wait={wait},payload={payload}{burst}"
                );
                let (start, answer) = run(&levels);
                prop_assert!(start.counts.bytes > 0, "{}", levels);
                if pattern == "burst" {
                    prop_assert_eq!(start.counts.calls, answer.counts.calls, "{}", levels);
                } else {
                    prop_assert_eq!(start.counts.bytes, answer.counts.bytes, "{}", levels);
                }
            }
        }
    }
}
