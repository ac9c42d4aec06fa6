//! Bursts: several payloads per request, and one response when all of them have arrived.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::Role;
use fabricmark_proto::{DatagramHeader, OPENING_BYTES, Opening, Prepare};
use fabricmark_units::Nanos;

use crate::support::{QUIC_WAITS, WAITS, accept_datagrams, open_datagrams, prepare, run, token};

#[test]
fn each_burst_is_answered_once_and_recorded_once() {
    for transport in ["tcp", "udp", "mptcp", "tls", "quic", "unix"] {
        for (payload, response, outstanding, wait) in [
            (64, 4, 64, "block"),
            (1000, 1000, 7, "spin"),
            (4, 64, 65, "epoll"),
            (16, 4, 1, "busy-poll"),
        ] {
            if transport == "quic" && !QUIC_WAITS.contains(&wait) {
                continue;
            }
            let levels = format!(
                "pattern=burst,transport={transport},payload={payload},response={response},\
                 outstanding={outstanding},wait={wait}"
            );
            let (start, answer) = run(&levels);
            let (rtt, bursts) = (start.rtt_ns.unwrap(), start.counts.calls);
            assert!(bursts > 0, "{levels}");
            assert_eq!((rtt.len(), answer.counts.calls), (bursts, bursts), "{levels}");
            assert_eq!(start.counts.bytes, bursts * outstanding * payload, "{levels}");
            assert_eq!(answer.counts.bytes, bursts * response, "{levels}");
            assert_eq!(start.lost_round_trips, 0, "{levels}");
            // One burst is outstanding at a time.
            let sum_ns = rtt.mean_ns().unwrap() * rtt.len() as f64;
            assert!(sum_ns <= start.counts.elapsed_ns as f64, "{levels}");
        }
    }
}

#[test]
fn a_burst_that_fills_every_buffer_is_answered_whole() {
    for transport in ["tcp", "mptcp", "tls", "quic", "unix"] {
        for wait in WAITS {
            if transport == "quic" && !QUIC_WAITS.contains(&wait) {
                continue;
            }
            let levels = format!(
                "pattern=burst,transport={transport},payload=300000,outstanding=20,wait={wait},\
                 send_buffer=65536"
            );
            let (start, answer) = run(&levels);
            assert!(start.counts.calls > 0, "{levels}");
            assert_eq!(start.counts.calls, answer.counts.calls, "{levels}");
        }
    }
}

#[test]
fn bursts_pass_through_a_ring() {
    for transport in ["tcp", "udp", "mptcp", "unix"] {
        // More payloads than a chain of sends.
        for (wait, outstanding) in [("block", 64), ("spin", 150)] {
            let levels = format!(
                "pattern=burst,transport={transport},path=io-uring,wait={wait},\
                 outstanding={outstanding}"
            );
            let (start, answer) = run(&levels);
            assert!(start.counts.calls > 0, "{levels}");
            assert_eq!(start.counts.calls, answer.counts.calls, "{levels}");
        }
    }
}

#[test]
fn many_flows_of_datagrams_answer_bursts_or_count_them_as_lost() {
    let (start, answer) = run("pattern=burst,transport=udp,payload=100,outstanding=8,flows=20");
    assert!(start.counts.calls > 0);
    // A response may be lost, too.
    let asked = start.counts.calls + start.lost_round_trips;
    assert!((start.counts.calls..=asked).contains(&answer.counts.calls), "{answer:?}");
}

#[test]
fn tcp_counts_each_payload_of_a_burst_as_a_write() {
    let (start, _) = run("pattern=burst,transport=tcp,payload=100,outstanding=16");
    let tcp = start.tcp.unwrap();
    let writes = tcp.writes_per_segment * tcp.data_segments as f64;
    assert!(writes >= (16 * start.counts.calls) as f64, "{writes} {}", start.counts.calls);
}

/// A datagram with this number.
fn datagram(number: u64) -> [u8; 16] {
    let mut datagram = [0; 16];
    DatagramHeader { sequence: number, sent_ns: 0 }.emit(&mut datagram);
    datagram
}

const LEVELS: &str = "pattern=burst,transport=udp,payload=16,response=16,outstanding=3";

#[test]
fn a_burst_of_which_a_datagram_is_missing_is_not_answered_and_a_late_one_does_not_complete_the_next()
 {
    let answering = Endpoint::prepare(prepare(Role::Server, LEVELS)).unwrap();
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), answering.port());
    let control = Control::default();
    let report = thread::scope(|scope| {
        let answering = scope.spawn(|| answering.run(None, &control));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(at).unwrap();
        open_datagrams(&socket, opening());
        // Datagram 1 is missing, and arrives late.
        for number in [0, 2, 3, 4, 1, 5] {
            socket.send(&datagram(number)).unwrap();
        }
        let mut response = [0; 16];
        assert_eq!(socket.recv(&mut response).unwrap(), 16);
        assert_eq!(response, datagram(5));
        control.drain(0, 0);
        answering.join().unwrap().unwrap()
    });
    assert_eq!((report.counts.calls, report.counts.bytes), (1, 16));
}

#[test]
fn a_burst_without_an_answer_is_given_up_and_its_late_answer_is_none_of_the_next() {
    let minute = Nanos::from_secs(60);
    // One second more to answer the second burst, in case this thread has to wait for its CPU.
    let patience_ns = Nanos::from_secs(1);
    let start = Prepare { duration_ns: minute, patience_ns, ..prepare(Role::Client, LEVELS) };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let control = Control::default();
    let report = thread::scope(|scope| {
        let starting = scope.spawn(|| Endpoint::prepare(start).unwrap().run(Some(at), &control));
        accept_datagrams(&socket, opening());
        let hear = |number: u64| {
            let mut heard = [0; OPENING_BYTES];
            // The opening may have been repeated.
            while socket.recv(&mut heard).unwrap() == OPENING_BYTES {}
            assert_eq!(heard[..16], datagram(number), "{number}");
        };
        // The first burst gets no response.
        for number in 0..=4 {
            hear(number);
        }
        socket.send(&datagram(2)).unwrap();
        hear(5);
        control.end();
        socket.send(&datagram(5)).unwrap();
        starting.join().unwrap().unwrap()
    });
    assert_eq!((report.counts.calls, report.lost_round_trips), (1, 1));
    assert_eq!(report.rtt_ns.unwrap().len(), 1);
}

/// The opening of the flow of [`LEVELS`].
fn opening() -> Opening {
    Opening::new(1, 0, token(LEVELS))
}
