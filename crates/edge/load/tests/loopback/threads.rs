//! Several load threads at each end.

use fabricmark_load::Endpoint;
use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Prepare};
use fabricmark_units::{Bytes, Nanos};

use crate::many_flows::{
    every_byte_arrives, every_datagram_is_accounted_for, every_request_is_answered, run,
};
use crate::pace::{departures, run_trace};
use crate::support::{prepare, run_with};

#[test]
fn flows_on_several_threads_are_counted_together() {
    for (flows, threads) in [(2, 2), (5, 2), (7, 3)] {
        let levels = format!("flows={flows},threads={threads}");
        every_byte_arrives(&format!("transport=tcp,payload=1000,{levels}"));
        every_request_is_answered(&format!("pattern=rr,transport=tcp,payload=64,{levels}"));
        every_request_is_answered(&format!("pattern=rr,transport=udp,payload=64,{levels}"));
        let (sender, receiver) =
            run(&format!("pattern=stream,transport=udp,payload=1000,{levels}"));
        let unique = receiver.sequence.unwrap().unique;
        assert!(unique > 0 && unique + receiver.socket_drops >= sender.counts.calls, "{levels}");
        let active = sender.active.unwrap();
        assert!(active.ended_ns - active.began_ns >= 140_000_000, "{levels}: {active:?}");
        for end in [sender, receiver] {
            let of_all = |count: fn(&fabricmark_record::ThreadShare) -> u64| -> u64 {
                end.threads.iter().map(count).sum()
            };
            assert_eq!(end.threads.len(), threads, "{levels}");
            assert_eq!(of_all(|thread| thread.flows), flows, "{levels}");
            assert_eq!(of_all(|thread| thread.counts.bytes), end.counts.bytes, "{levels}");
            assert!(end.threads.iter().all(|thread| thread.time.is_some()), "{levels}");
        }
    }
    let (sender, _) = run("pattern=stream,transport=tcp,flows=2");
    assert!(sender.threads.is_empty(), "a single thread is the end");
}

#[test]
fn several_threads_carry_every_transport_path_and_way_to_wait_of_sockets() {
    for levels in [
        "transport=mptcp",
        "transport=unix",
        "transport=seqpacket",
        "transport=tls",
        "transport=quic",
        "transport=tcp,path=trunc",
        "transport=tcp,path=zerocopy",
        "transport=tcp,path=sendfile",
        "transport=tcp,path=splice",
        "transport=tcp,path=io-uring",
        "transport=tcp,path=io-uring,wait=block",
        "transport=tcp,path=io-uring-zc",
        "transport=tcp,window=65536",
        "transport=tcp,quickack=true",
        "transport=tcp,wait=block",
        "transport=tcp,wait=spin",
        "transport=tls,wait=block",
        "transport=quic,wait=block",
    ] {
        every_byte_arrives(&format!("{levels},payload=1000,flows=2,threads=2"));
    }
    for levels in [
        "transport=unix",
        "transport=tls",
        "transport=quic",
        "transport=tcp,wait=block",
        "transport=udp,wait=block",
        "transport=udp,wait=spin",
        "transport=tcp,path=io-uring",
        "transport=tcp,path=io-uring,wait=block",
        "transport=udp,path=io-uring",
        "transport=tcp,timestamps=software",
        "transport=udp,timestamps=software",
    ] {
        every_request_is_answered(&format!("pattern=rr,{levels},flows=2,threads=2"));
    }
    for path in ["mmsg", "gso", "io-uring", "io-uring-zc"] {
        let levels = format!("transport=udp,path={path},payload=1000,flows=3,threads=2");
        every_datagram_is_accounted_for(&levels);
    }
}

#[test]
fn threads_keep_one_schedule_in_which_all_flows_take_turns() {
    let count = departures().len() as u64;
    for (transport, threads) in [("tcp", 2), ("udp", 2), ("unix", 5), ("quic", 3)] {
        for pattern in ["stream", "rr"] {
            let levels =
                format!("pattern={pattern},transport={transport},flows=5,threads={threads}");
            let (client, server) = run_trace(&levels, &departures());
            let pacing = client.pacing.unwrap();
            assert_eq!((pacing.departures, pacing.slip_ns.len()), (count, count), "{levels}");
            assert_eq!(server.counts.bytes, 512 * count, "{levels}");
            if pattern == "stream" {
                let fairness = client.fairness.unwrap();
                assert_eq!((fairness.fewest, fairness.most), (5, 6), "{levels}");
            } else {
                assert_eq!(client.rtt_ns.unwrap().len(), count, "{levels}");
            }
        }
    }
}

/// Runs both ends on two threads.
fn on_two_threads(levels: &str, with: impl Fn(Prepare) -> Prepare) -> (EndReport, EndReport) {
    let levels = format!("{levels},flows=3,threads=2");
    run_with(&levels, with)
}

#[test]
fn the_intervals_of_several_threads_add_up_to_what_the_end_counted() {
    for levels in [
        "pattern=stream,transport=tcp",
        "pattern=stream,transport=udp",
        "pattern=rr,transport=tcp",
        "pattern=rr,transport=udp,pace=fixed:5000/s",
        "pattern=crr,transport=tcp",
    ] {
        let (client, server) = on_two_threads(levels, |prepare| Prepare {
            interval_ns: Some(Nanos::from_millis(5)),
            ..prepare
        });
        for end in [client, server] {
            let series = end.series.unwrap();
            let counted = (end.counts.bytes, end.counts.calls);
            assert!(series.bytes() > 0, "{levels}");
            assert_eq!((series.bytes(), series.calls()), counted, "{levels}");
        }
    }
}

#[test]
fn an_amount_is_that_of_all_threads_together() {
    const BYTES: u64 = 10_000_100;
    for pattern in ["stream", "rr", "crr"] {
        let levels = format!("pattern={pattern},transport=tcp,payload=100000");
        let (client, _) = on_two_threads(&levels, |prepare| Prepare {
            duration_ns: Nanos::from_secs(60),
            amount: Some(Bytes(BYTES)),
            ..prepare
        });
        // Each thread may exceed it by less than one call, and each flow has one request under way.
        let sent = client.counts.bytes;
        assert!((BYTES..BYTES + 400_000).contains(&sent), "{pattern}: {sent}");
    }
}

#[test]
fn several_threads_and_a_receiver_that_waits_for_bytes_are_refused_with_slices() {
    for (levels, refused) in [
        ("flows=2,threads=2", "several threads do not support slices"),
        ("receive_lowat=128KiB", "receive_lowat does not support slices"),
    ] {
        let client = Prepare {
            slice_ns: Some(Nanos::from_millis(1)),
            ..prepare(Role::Client, &format!("pattern=stream,transport=tcp,{levels}"))
        };
        let refusal = Endpoint::prepare(client).unwrap_err();
        assert!(refusal.to_string().contains(refused), "{refusal}");
    }
}
