//! Request/response over datagrams: which response belongs to which request.

use std::net::UdpSocket;
use std::thread;

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::Role;
use fabricmark_proto::{OPENING_BYTES, Opening, Prepare};
use fabricmark_units::{Bytes, Nanos};

use crate::support::{accept_datagrams, both, prepare, token};

#[test]
fn a_late_answer_of_one_byte_to_a_request_given_up_is_not_taken_for_that_of_the_next() {
    let levels = "pattern=rr,transport=udp,payload=1,response=1";
    let minute = Nanos::from_secs(60);
    let interval_ns = Some(minute);
    // One second more to answer the later requests, in case this thread has to wait for its CPU.
    let patience_ns = Nanos::from_secs(1);
    let start = prepare(Role::Client, levels);
    let start = Prepare { duration_ns: minute, interval_ns, patience_ns, ..start };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let control = Control::default();
    let report = thread::scope(|scope| {
        let starting = scope.spawn(|| Endpoint::prepare(start).unwrap().run(Some(at), &control));
        accept_datagrams(&socket, Opening::new(1, 0, token(levels)));
        let hear = |number: u8| {
            let mut heard = [0; OPENING_BYTES];
            // The opening may have been repeated.
            while socket.recv(&mut heard).unwrap() == OPENING_BYTES {}
            assert_eq!(heard[0], number);
        };
        // The first request gets no response in time.
        hear(0);
        hear(1);
        // The response to the first is late, and the link duplicates that to the second.
        for number in [0, 1, 1] {
            socket.send(&[number]).unwrap();
        }
        hear(2);
        control.end();
        socket.send(&[2]).unwrap();
        starting.join().unwrap().unwrap()
    });
    assert_eq!((report.counts.calls, report.lost_round_trips), (2, 1));
    assert_eq!(report.rtt_ns.unwrap().len(), 2);
    assert_eq!(report.series.unwrap().calls(), 2);
}

#[test]
fn short_messages_find_their_requests_after_their_numbers_repeat() {
    for levels in [
        "payload=1",
        "payload=1,response=1000,outstanding=128",
        "payload=1000,response=2,outstanding=300,wait=spin",
        "payload=3,response=1,path=io-uring,outstanding=16",
        "payload=2,pace=fixed:20000/s,outstanding=512",
        "payload=1,flows=5,outstanding=64",
    ] {
        let levels = format!("pattern=rr,transport=udp,{levels}");
        let [start, answer] = [Role::Client, Role::Server].map(|role| {
            let of_time = prepare(role, &levels);
            let amount = Some(Bytes(600 * of_time.point.payload.0));
            Prepare { duration_ns: Nanos::from_secs(20), amount, ..of_time }
        });
        let (start, answer) = both(start, answer);
        let (start, answer) = (start.unwrap(), answer.unwrap());
        let asked = start.counts.calls + start.lost_round_trips;
        assert!(asked >= 600, "{levels}: {asked}");
        assert!((start.counts.calls..=asked).contains(&answer.counts.calls), "{levels}");
        assert_eq!(start.rtt_ns.unwrap().len(), start.counts.calls, "{levels}");
    }
}
