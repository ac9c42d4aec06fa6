//! Open loops: payloads and requests depart on schedule.

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::{Role, Trace};
use fabricmark_proto::{EndReport, Prepare};
use fabricmark_units::Nanos;

use crate::support::{prepare, run, run_with};

/// Runs both ends with these departures; the run ends with the last of them.
pub fn run_trace(levels: &str, departures: &[u64]) -> (EndReport, EndReport) {
    let levels = format!("{levels},pace=trace:file");
    run_with(&levels, |prepare| Prepare {
        duration_ns: Nanos::from_secs(60),
        trace: Some(Trace::try_from(departures.to_vec()).unwrap()),
        ..prepare
    })
}

/// A departure every 0.2 ms and three in a burst at 5 ms.
pub fn departures() -> Vec<u64> {
    (0..25).map(|k| k * 200_000).chain([5_000_000; 3]).collect()
}

#[test]
fn a_stream_sends_one_payload_at_each_departure_of_its_schedule() {
    let count = departures().len() as u64;
    for transport in ["udp", "tcp", "mptcp", "quic", "unix"] {
        for (wait, flows) in [("block", 1), ("spin", 1), ("epoll", 1), ("epoll", 5)] {
            for direction in ["forward", "reverse"] {
                let levels = format!(
                    "pattern=stream,transport={transport},wait={wait},flows={flows},\
                     direction={direction}"
                );
                let (start, answer) = run_trace(&levels, &departures());
                let (active, passive) =
                    if direction == "forward" { (start, answer) } else { (answer, start) };
                let pacing = active.pacing.unwrap();
                assert_eq!((pacing.departures, pacing.slip_ns.len()), (count, count), "{levels}");
                assert_eq!(active.counts.bytes, 512 * count, "{levels}");
                assert_eq!(passive.counts.bytes, 512 * count, "{levels}");
                assert_eq!(passive.pacing, None, "{levels}");
                // Flows take turns.
                let fairness = active.fairness.map(|fairness| (fairness.fewest, fairness.most));
                assert_eq!(fairness, (flows > 1).then_some((5, 6)), "{levels}");
            }
        }
    }
}

#[test]
fn every_path_of_tcp_and_the_null_transport_keep_a_pace() {
    let count = departures().len() as u64;
    for levels in [
        "transport=tcp,path=trunc",
        "transport=tcp,path=zerocopy",
        "transport=tcp,path=sendfile",
        "transport=tcp,path=splice",
        "transport=udp,path=trunc",
        "transport=null",
    ] {
        let (start, _) = run_trace(&format!("pattern=stream,{levels}"), &departures());
        assert_eq!(start.pacing.unwrap().departures, count, "{levels}");
        assert_eq!(start.counts.bytes, 512 * count, "{levels}");
    }
}

#[test]
fn batches_take_what_is_due_and_each_datagram_departs_once() {
    // Bursts of 100, more than a call sends, and single datagrams.
    let bursts: Vec<u64> = (0..300).map(|k| k / 100 * 1_000_000).collect();
    for path in ["mmsg", "gso"] {
        for (flows, wait) in [(1, "block"), (5, "epoll")] {
            for departures in [&bursts, &departures()] {
                let levels = format!("transport=udp,path={path},flows={flows},wait={wait}");
                let (start, answer) = run_trace(&format!("pattern=stream,{levels}"), departures);
                let (pacing, count) = (start.pacing.unwrap(), departures.len() as u64);
                assert_eq!((pacing.departures, pacing.slip_ns.len()), (count, count), "{levels}");
                assert_eq!(start.counts.bytes, 512 * count, "{levels}");
                assert_eq!(answer.sequence.unwrap().unique, count, "{levels}");
                // However late they are, the bursts take five calls of at most 64 datagrams.
                let fewest = start.fairness.map_or(1, |fairness| fairness.fewest);
                let has_turns = fewest > 0 || count < bursts.len() as u64;
                assert!(has_turns, "{levels}: all flows have their turn");
            }
        }
    }
}

#[test]
fn no_payload_departs_before_the_pace_allows_it() {
    for pace_wait in ["sleep", "sleep-spin", "spin"] {
        let levels =
            format!("pattern=stream,transport=udp,pace=fixed:1000/s,pace_wait={pace_wait}");
        let (start, answer) = run(&levels);
        let pacing = start.pacing.unwrap();
        assert!(pacing.departures > 0, "{levels}");
        assert_eq!(pacing.departures, start.counts.calls, "{levels}");
        assert!((pacing.departures - 1) * 1_000_000 <= pacing.elapsed_ns, "{levels}");
        assert_eq!(answer.counts.calls, start.counts.calls, "{levels}");
    }
}

#[test]
fn each_request_of_an_open_loop_departs_once_and_is_answered() {
    let count = departures().len() as u64;
    for pattern in ["rr", "ping-pong"] {
        for transport in ["udp", "tcp", "mptcp", "quic", "unix"] {
            for (wait, flows) in [("block", 1), ("spin", 1), ("epoll", 5)] {
                for pace_wait in ["sleep", "sleep-spin", "spin"] {
                    let levels = format!(
                        "pattern={pattern},transport={transport},wait={wait},flows={flows},\
                         pace_wait={pace_wait}"
                    );
                    let (start, answer) = run_trace(&levels, &departures());
                    assert_eq!(start.pacing.unwrap().departures, count, "{levels}");
                    assert_eq!(start.rtt_ns.unwrap().len(), count, "{levels}");
                    assert_eq!(start.lost_round_trips, 0, "{levels}");
                    assert_eq!(answer.counts.calls, count, "{levels}");
                }
            }
        }
    }
    for transport in [
        "tcp",
        "unix",
        "tcp,flows=5",
        "tls,flows=5",
        "tcp,flows=2,threads=2",
        "tcp,flows=5,threads=2",
    ] {
        let levels = format!("pattern=crr,transport={transport}");
        let (start, answer) = run_trace(&levels, &departures());
        assert_eq!(start.pacing.unwrap().departures, count, "{levels}");
        assert_eq!(start.rtt_ns.unwrap().len(), count, "{levels}");
        assert_eq!(answer.counts.calls, count, "{levels}");
    }
    let (start, _) = run_trace("pattern=rr,transport=null", &departures());
    assert_eq!(start.rtt_ns.unwrap().len(), count);
}

#[test]
fn a_request_that_waits_for_its_departure_has_that_in_its_latency() {
    // All are due at once and one may be outstanding, so the last one waits for all the others.
    for levels in [
        "pattern=rr,outstanding=1,transport=tcp",
        "pattern=ping-pong,transport=udp",
        "pattern=crr,transport=tcp",
        "pattern=crr,transport=tcp,wait=epoll",
    ] {
        let (start, _) = run_trace(levels, &[0; 50]);
        let (rtt, pacing) = (start.rtt_ns.unwrap(), start.pacing.unwrap());
        assert_eq!((rtt.len(), pacing.departures), (50, 50), "{levels}");
        assert!(rtt.max() >= Some(start.counts.elapsed_ns), "{levels}");
        assert!(pacing.slip_ns.max() > pacing.slip_ns.quantile(0.1), "{levels}");
    }
}

#[test]
fn large_requests_that_fill_the_socket_buffers_are_all_answered() {
    let levels = "pattern=rr,transport=tcp,payload=1000000,response=1000000";
    for flows in [1, 3] {
        let (start, answer) = run_trace(&format!("{levels},flows={flows}"), &[0; 20]);
        assert_eq!(start.rtt_ns.unwrap().len(), 20);
        assert_eq!(answer.counts.calls, 20);
    }
}

#[test]
fn the_kernels_pacing_is_granted_as_asked_for() {
    let (start, answer) = run("pattern=stream,transport=tcp,pacing_rate=80M");
    assert_eq!(start.side.pacing_rate_bps, Some(80_000_000));
    assert_eq!(answer.side.pacing_rate_bps, Some(80_000_000));
    for levels in ["pattern=stream,transport=tcp", "pattern=stream,transport=udp"] {
        assert_eq!(run(levels).0.side.pacing_rate_bps, None, "{levels}");
    }
}

#[test]
fn both_ends_say_which_clock_they_read_and_what_that_costs() {
    let (start, answer) = run("pattern=ping-pong,transport=udp");
    for end in [start, answer] {
        let clock = end.side.clock.unwrap();
        assert_eq!((clock.name.as_str(), clock.uncertainty_ppm), ("CLOCK_MONOTONIC", None));
        assert!(clock.read_cost_ns > 0.0);
    }
}

#[test]
fn a_trace_pace_without_its_departures_is_refused() {
    let levels = "pattern=stream,transport=null,pace=trace:file";
    let start = Endpoint::prepare(prepare(Role::Client, levels)).unwrap();
    let error = start.run(None, &Control::default()).unwrap_err();
    assert!(error.to_string().contains("departures of the trace are missing"), "{error}");
}
