//! RTTs split by packet timestamps.

use std::net::UdpSocket;
use std::os::fd::AsFd;

use fabricmark_load::Endpoint;
use fabricmark_plan::Role;
use fabricmark_proto::{Failure, Prepare};
use fabricmark_telemetry::stamp::{enable, recv_with_stamp};
use fabricmark_units::Nanos;
use rustix::net::RecvFlags;

use crate::support::{both, prepare, run};

/// A socket whose packets get receive timestamps. The kernel starts these a moment after it is asked; while this
/// socket is open, other sockets need not wait for that.
fn stamping() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    enable(socket.as_fd(), false).unwrap();
    loop {
        socket.send(&[0; 10]).unwrap();
        let received = recv_with_stamp(socket.as_fd(), &mut [0; 10], RecvFlags::empty());
        if let (10, Some(_)) = received.unwrap() {
            return socket;
        }
    }
}

#[test]
fn the_parts_of_a_round_trip_between_and_beside_the_stamps_are_no_longer_than_the_whole() {
    let _stamping = stamping();
    for levels in [
        "pattern=ping-pong,transport=udp",
        "pattern=ping-pong,transport=udp,family=6,wait=spin",
        // Numbers of 8 bits repeat.
        "pattern=ping-pong,transport=udp,payload=1",
        "pattern=rr,transport=udp,response=20000,wait=epoll,flows=5",
        "pattern=rr,transport=udp,pace=fixed:1000/s,outstanding=1",
        "pattern=ping-pong,transport=tcp",
        "pattern=ping-pong,transport=tcp,wait=spin,family=6",
        // The response comes in many segments.
        "pattern=rr,transport=tcp,payload=1,response=1000000",
        "pattern=rr,transport=tcp,payload=1000000,response=1,wait=epoll,flows=2",
    ] {
        let (start, answer) = run(&format!("{levels},timestamps=software"));
        assert_eq!(answer.kernel_times, None, "{levels}");
        let times = start.kernel_times.unwrap();
        let stamped = times.rtt_ns.len();
        assert_eq!(stamped + times.unstamped, start.counts.calls, "{levels}");
        assert_eq!(stamped, times.application_ns.len(), "{levels}");
        assert!(stamped > 0, "{levels}: {} trips without stamps", times.unstamped);
        let whole_ns = start.rtt_ns.unwrap().mean_ns().unwrap() * start.counts.calls as f64;
        let mean_ns = times.rtt_ns.mean_ns().unwrap() + times.application_ns.mean_ns().unwrap();
        assert!(mean_ns * stamped as f64 <= whole_ns, "{levels}: {mean_ns} of {whole_ns}");
    }
}

#[test]
fn connections_of_crr_have_stamps_at_both_ends() {
    let _stamping = stamping();
    for levels in ["family=4", "family=6,payload=7990,response=1"] {
        let (start, answer) =
            run(&format!("pattern=crr,transport=tcp,nodelay=true,{levels},timestamps=software"));
        let times = start.kernel_times.unwrap();
        let stamped = times.rtt_ns.len();
        assert_eq!(stamped + times.unstamped, start.counts.calls, "{levels}");
        assert!(stamped > 0, "{levels}: {} connections without stamps", times.unstamped);
        // Nearly all have stamps in the queueing discipline, and no part takes milliseconds over loopback, except in
        // pauses of a process.
        assert!(times.access_ns.len() * 10 >= stamped * 9, "{levels}");
        for part in [&times.access_ns, &times.packetisation_ns, &times.reassembly_ns] {
            let median_ns = part.quantile(0.5).unwrap();
            assert!((1..1_000_000).contains(&median_ns), "{levels}: {part:?}");
        }
        // The parts of the application's time: request and response are one write and one read each.
        let sum_ns = [&times.access_ns, &times.packetisation_ns, &times.reassembly_ns]
            .map(|part| part.mean_ns().unwrap() * part.len() as f64)
            .iter()
            .sum::<f64>();
        let whole_ns = times.application_ns.mean_ns().unwrap() * stamped as f64;
        assert!(sum_ns <= whole_ns + 100.0 * stamped as f64, "{levels}: {sum_ns} of {whole_ns}");
        let arrivals = answer.kernel_times.unwrap().reassembly_ns;
        assert!(!arrivals.is_empty() && arrivals.len() <= start.counts.calls, "{levels}");
    }
}

#[test]
fn intervals_and_stamps_go_together() {
    let _stamping = stamping();
    let levels = "pattern=ping-pong,transport=udp,timestamps=software,label=intervals";
    let mut start = prepare(Role::Client, levels);
    start.interval_ns = Some(Nanos::from_millis(10));
    let (start, _) = both(start, prepare(Role::Server, levels));
    let start = start.unwrap();
    assert!(start.series.is_some() && !start.kernel_times.unwrap().rtt_ns.is_empty());
}

#[test]
fn the_stamps_of_the_omitted_part_do_not_count() {
    let _stamping = stamping();
    for levels in ["wait=block", "wait=epoll,flows=2", "pace=fixed:2000/s,outstanding=1"] {
        let levels = format!("pattern=rr,transport=udp,timestamps=software,{levels},label=omit");
        let [start, answer] = [Role::Client, Role::Server]
            .map(|role| Prepare { omit_ns: Nanos::from_millis(20), ..prepare(role, &levels) });
        let start = both(start, answer).0.unwrap();
        assert!(start.counts.ramp_calls > 0, "{levels}");
        let (times, rtts) = (start.kernel_times.unwrap(), start.rtt_ns.unwrap().len());
        assert_eq!(times.rtt_ns.len() + times.unstamped, rtts, "{levels}");
    }
}

#[test]
fn who_asks_for_no_stamps_has_none() {
    for transport in ["udp", "tcp"] {
        let (start, _) = run(&format!("pattern=ping-pong,transport={transport},label=plain"));
        assert_eq!(start.kernel_times, None);
    }
}

#[test]
fn a_device_without_hardware_stamps_is_refused_before_the_run() {
    let levels = "pattern=ping-pong,transport=udp,timestamps=hardware";
    let refused = Endpoint::prepare(prepare(Role::Client, levels)).unwrap_err();
    let Failure::Missing(said) = refused else { panic!("{refused:?}") };
    assert!(said.starts_with("lo has no hardware timestamps: "), "{said}");
    assert!(Endpoint::prepare(prepare(Role::Server, levels)).is_ok(), "it stamps nothing");
}
