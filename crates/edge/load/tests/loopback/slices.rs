//! Runs in slices: the flows stay open between them.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::thread;

use fabricmark_load::{Control, Endpoint, Event};
use fabricmark_plan::Role;
use fabricmark_proto::{EndReport, Prepare};
use fabricmark_record::Counts;
use fabricmark_units::Nanos;

use crate::support::prepare;

const SLICES: u64 = 5;

/// Events that an end has reported.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    Begun,
    Slice(Counts),
}

/// Carries out one slice that does not count, then [`SLICES`] that do. Returns the totals of the active and the
/// passive end, and what was sent and received in each slice.
fn run(levels: &str) -> (EndReport, EndReport, Vec<[Counts; 2]>) {
    let slice_ns = Some(Nanos::from_millis(4));
    let [start, answer] = [Role::Client, Role::Server].map(|role| {
        let patience_ns = Prepare::PATIENCE_MAX;
        Prepare { slice_ns, patience_ns, ..prepare(role, levels) }
    });
    let is_reverse = answer.is_active();
    let has_receiver = start.own_slice() == answer.own_slice();
    let address = answer.address;
    let answering = Endpoint::prepare(answer).unwrap();
    let starting = Endpoint::prepare(start).unwrap();
    let peer = SocketAddr::new(address, answering.port());
    let ends = [Role::Client, Role::Server].map(|_| {
        let (say, said) = channel();
        let control = Control::telling(move |event| {
            let _ = match event {
                Event::Begun => say.send(Said::Begun),
                Event::Slice(counts) => say.send(Said::Slice(counts)),
                _ => Ok(()),
            };
        });
        (control, said)
    });
    let [(start_control, start_said), (answer_control, answer_said)] = &ends;
    let ((active, active_said), (passive, passive_said)) = match is_reverse {
        false => ((start_control, start_said), (answer_control, answer_said)),
        true => ((answer_control, answer_said), (start_control, start_said)),
    };
    let counted = |said: Said| match said {
        Said::Slice(counts) => counts,
        Said::Begun => panic!("{levels}: it began once more"),
    };
    let mut slices = Vec::new();
    thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, answer_control));
        let starting = scope.spawn(|| starting.run(Some(peer), start_control));
        assert_eq!(active_said.recv().unwrap(), Said::Begun, "{levels}");
        for number in 0..=SLICES {
            active.slice(number > 0);
            let sent = counted(active_said.recv().unwrap());
            if has_receiver {
                let idle_ns = if levels.contains("udp") { 2_000_000 } else { u64::MAX };
                passive.end_slice(sent.bytes, idle_ns, number > 0);
                slices.push([sent, counted(passive_said.recv().unwrap())]);
            }
        }
        active.end();
        passive.drain(0, 20_000_000);
        let (start, answer) =
            (starting.join().unwrap().unwrap(), answering.join().unwrap().unwrap());
        if is_reverse { (answer, start, slices) } else { (start, answer, slices) }
    })
}

#[test]
fn all_that_a_stream_sends_in_a_slice_arrives_in_it() {
    for transport in ["tcp", "mptcp", "unix", "seqpacket"] {
        for more in ["", ",direction=reverse", ",wait=epoll", ",flows=3"] {
            let levels = format!("pattern=stream,transport={transport},payload=1KiB{more}");
            let (active, passive, slices) = run(&levels);
            assert_eq!(active.counts.bytes, passive.counts.bytes, "{levels}");
            for [sent, received] in &slices {
                assert_eq!(sent.bytes, received.bytes, "{levels}: {slices:?}");
            }
            let sum: u64 = slices.iter().map(|[_, received]| received.bytes).sum();
            assert_eq!((sum, slices.len()), (passive.counts.bytes, 6), "{levels}");
            // The first slice is a warm-up, and so is a quarter of each other.
            assert!(passive.counts.ramp_bytes > slices[0][1].bytes, "{levels}");
            let counted_ns: u64 = slices[1..].iter().map(|[_, received]| received.elapsed_ns).sum();
            assert_eq!(passive.counts.elapsed_ns, counted_ns, "{levels}");
        }
    }
}

#[test]
fn what_udp_loses_in_a_slice_is_not_waited_for() {
    let (active, passive, slices) = run("pattern=stream,transport=udp");
    assert!((1..=active.counts.bytes).contains(&passive.counts.bytes));
    for [sent, received] in &slices {
        assert!(received.bytes <= sent.bytes, "{slices:?}");
        assert_eq!(received.bytes > 0, sent.bytes > 0, "{slices:?}");
    }
    assert_eq!(passive.sequence.unwrap().duplicates, 0);
}

#[test]
fn each_request_of_a_slice_has_its_answer_before_the_slice_is_over() {
    for pattern in ["rr,outstanding=4", "ping-pong", "rr,flows=3", "burst,outstanding=4"] {
        for transport in ["tcp", "udp", "mptcp", "tls", "unix", "seqpacket"] {
            for more in ["", ",wait=epoll"] {
                let levels = format!("pattern={pattern},transport={transport}{more}");
                let (active, passive, _) = run(&levels);
                let counts = active.counts;
                assert_eq!(counts.calls, passive.counts.calls, "{levels}");
                assert!(counts.ramp_calls > 0 && counts.calls > counts.ramp_calls, "{levels}");
                let times = active.rtt_ns.unwrap().len();
                assert!(times > 0 && times <= counts.calls - counts.ramp_calls, "{levels}");
                assert_eq!(active.lost_round_trips, 0, "{levels}");
            }
        }
    }
}

#[test]
fn both_payloads_of_a_ping_ping_are_under_way_in_each_slice() {
    for transport in ["tcp", "mptcp", "tls", "unix", "seqpacket"] {
        let (active, passive, _) = run(&format!("pattern=ping-ping,transport={transport}"));
        // The last payload of the follower is received, too.
        let calls = active.counts.calls;
        assert!(
            (calls..=calls + 1).contains(&passive.counts.calls),
            "{transport}: {calls} {passive:?}"
        );
        assert!(!active.rtt_ns.unwrap().is_empty(), "{transport}");
    }
}

#[test]
fn an_open_loop_keeps_its_schedule_in_each_slice() {
    const GAP_NS: u64 = 200_000;
    for pattern in ["stream,transport=udp", "rr,transport=tcp"] {
        let (active, passive, _) = run(&format!("pattern={pattern},pace=fixed:5000/s"));
        let pacing = active.pacing.unwrap();
        // The schedule covers what counts: at the receiver of a stream everything, else the answers.
        let counted = match pattern.starts_with("stream") {
            true => passive.counts.calls,
            false => active.counts.calls - active.counts.ramp_calls,
        };
        assert_eq!(pacing.departures, counted, "{pattern}");
        assert!(pacing.departures >= 6, "{pattern}: {pacing:?}");
        // A slice may end between two departures.
        let off_ns = pacing.covered_ns.abs_diff(pacing.departures * GAP_NS);
        assert!(off_ns <= (1 + SLICES) * GAP_NS, "{pattern}: {pacing:?}");
        assert_eq!(pacing.departures, pacing.slip_ns.len(), "{pattern}");
    }
}
