//! Real packets of the kernel through the emulator: two namespaces with a TUN device each.
//!
//! Tests are counted as skipped, with the reason, if namespaces cannot be created.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_lab::{Emulator, Lab, LinkEnd, Namespace, Topology, Tun};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

mod namespaces;

use namespaces::round_trip;

/// One lab at a time: two would share the CPUs.
static ALONE: Mutex<()> = Mutex::new(());

const LEFT: usize = 0;
const RIGHT: usize = 1;

struct Pair {
    namespaces: [Namespace; 2],
    emulator: Emulator,
    _alone: MutexGuard<'static, ()>,
}

/// Two hosts and a link with the same options in both directions.
fn pair(test: &str, options: &str, mtu: u16) -> Option<Pair> {
    both_ways(test, [options, options], mtu)
}

fn both_ways(test: &str, options: [&str; 2], mtu: u16) -> Option<Pair> {
    between(test, options, mtu, false)
}

/// As [`pair`], with adapters that segment and join super-packets.
fn segmented(test: &str, options: &str) -> Option<Pair> {
    between(test, [options, options], 1500, true)
}

fn between(test: &str, options: [&str; 2], mtu: u16, does_segment: bool) -> Option<Pair> {
    if !namespaces::may_make(test) {
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let namespaces = [Namespace::new().unwrap(), Namespace::new().unwrap()];
    let ends = [LEFT, RIGHT].map(|end| {
        let tun = Tun::new(&namespaces[end], "wan").unwrap();
        let (v4, v6) = (address(end, 4), address(end, 6));
        let commands = format!(
            "link set dev wan mtu {mtu} txqueuelen 10000\naddr add {v4}/24 dev wan\n\
             addr add {v6}/64 dev wan nodad\nlink set dev wan up\n"
        );
        let mut ip = Command::new("ip");
        ip.args(["-batch", "-"]).stdin(Stdio::piped());
        namespaces[end].enter(&mut ip);
        let mut child = ip.spawn().unwrap();
        child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        let name = format!("wan:{end}");
        LinkEnd { tun: Some(tun), name, options: options[end].parse().unwrap(), does_segment }
    });
    let emulator = Emulator::start(ends.into(), Topology::default(), 1, None).unwrap();
    Some(Pair { namespaces, emulator, _alone: alone })
}

fn address(end: usize, family: u8) -> IpAddr {
    let host = end as u8 + 1;
    if family == 4 {
        [10, 71, 0, host].into()
    } else {
        [0xfd71, 0, 0, 0, 0, 0, 0, u16::from(host)].into()
    }
}

/// The ends of a TCP connection.
fn tcp(namespaces: [&Namespace; 2], family: u8) -> (TcpStream, TcpStream) {
    let server = SocketAddr::new(address(RIGHT, family), 7000);
    let listener = namespaces[RIGHT].within(|| TcpListener::bind(server)).unwrap();
    let client = namespaces[LEFT].within(|| TcpStream::connect(server)).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Sends `bytes` from left to right.
fn stream(namespaces: [&Namespace; 2], family: u8, bytes: usize) {
    let (mut client, mut server) = tcp(namespaces, family);
    thread::scope(|scope| {
        let send = move || {
            let block: Vec<u8> = (0..1 << 18).map(|i| (i % 251) as u8).collect();
            let mut left = bytes;
            while left > 0 {
                let part = left.min(block.len());
                client.write_all(&block[..part]).unwrap();
                left -= part;
            }
        };
        scope.spawn(send);
        let (mut block, mut got) = (vec![0; 1 << 18], 0);
        while got < bytes {
            let length = server.read(&mut block).unwrap();
            assert!(length > 0, "it ended after {got} bytes");
            for (i, &byte) in block[..length].iter().enumerate().step_by(509) {
                assert_eq!(byte, ((got + i) % (1 << 18) % 251) as u8);
            }
            got += length;
        }
    });
}

impl Pair {
    fn udp(&self, end: usize, family: u8) -> UdpSocket {
        namespaces::udp(&self.namespaces[end], address(end, family))
    }

    /// Sends `bytes` from left to right.
    fn stream(&self, family: u8, bytes: usize) {
        stream(self.namespaces.each_ref(), family, bytes);
    }

    /// Each packet that entered has left, was dropped, or is in flight.
    fn assert_conservation(&self) {
        for way in self.emulator.traffic().unwrap() {
            let dropped: u64 = way.dropped.iter().map(|count| count.packets).sum();
            let out = way.departed.packets + way.refused.packets + dropped + way.held.packets;
            assert_eq!(way.arrived.packets + way.duplicated.packets, out, "{way:?}");
        }
    }
}

#[test]
fn a_round_trip_takes_as_long_as_was_asked_for() {
    let Some(pair) = pair("a round trip", "rtt=20ms", 1500) else { return };
    for family in [4, 6] {
        let (left, right) = (pair.udp(LEFT, family), pair.udp(RIGHT, family));
        let times: Vec<_> = (0..10).map(|_| round_trip(&left, &right)).collect();
        assert!(times.iter().all(|&time| time >= Duration::from_millis(20)), "{times:?}");
        // The fastest of ten: others may have waited for a CPU.
        assert!(*times.iter().min().unwrap() < Duration::from_millis(22), "{times:?}");
    }
    pair.assert_conservation();
}

#[test]
fn super_packets_pass_whole_and_are_counted() {
    let Some(pair) = pair("super-packets", "", 1500) else { return };
    for family in [4, 6] {
        pair.stream(family, 8 << 20);
    }
    let way = &pair.emulator.traffic().unwrap()[0];
    // 16 MiB are more than 11,000 packets of 1500 bytes.
    assert!(way.arrived.packets > 11_000 && way.trains > 0, "{way:?}");
    assert_eq!((way.pieces, way.refused.packets), (0, 0));
    pair.assert_conservation();
}

#[test]
fn super_packets_that_hosts_segment_cross_as_single_packets() {
    let Some(pair) = segmented("segmentation by hosts", "rtt=1ms") else { return };
    for family in [4, 6] {
        pair.stream(family, 8 << 20);
    }
    let way = &pair.emulator.traffic().unwrap()[0];
    assert!(way.arrived.packets > 11_000 && way.trains > 0, "{way:?}");
    // Each was due for itself, although most were written with others.
    assert_eq!(way.lateness.len(), way.departed.packets);
    assert!(way.pieces < way.departed.packets / 2, "{way:?}");
    assert_eq!(way.refused.packets, 0);
    pair.assert_conservation();
}

#[test]
fn what_hosts_segment_survives_losses_jitter_copies_and_wrong_bits() {
    for options in ["loss=every:97", "delay=1ms jitter=200us", "duplicate=0.01", "corrupt=0.01"] {
        let Some(pair) = segmented("segmentation by hosts", options) else { return };
        for family in [4, 6] {
            pair.stream(family, 1 << 20);
        }
        pair.assert_conservation();
        let way = &pair.emulator.traffic().unwrap()[0];
        assert!(way.trains > 0 && way.refused.packets == 0, "{options}: {way:?}");
    }
}

#[test]
fn hosts_segment_as_long_as_a_link_of_a_lab_loses_packets() {
    if !namespaces::may_make("a link that changes") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let text = "[hosts.left]\n[hosts.right]\n[links.wan]\nbetween = ['left', 'right']\n\
                options = 'rtt=1ms'\n";
    let mut lab = Lab::build(Topology::parse(text).unwrap(), 1, None).unwrap();
    // Packets that left the link, and times at which one or a super-packet of them was due.
    let mut counted = (0, 0);
    for (change, is_single) in [("", false), ("loss=every:1000000", true), ("loss=none", false)] {
        lab.change(0, None, &change.parse().unwrap()).unwrap();
        stream(["left", "right"].map(|node| lab.namespace(node).unwrap()), 4, 4 << 20);
        let way = &lab.traffic().unwrap()[LEFT];
        let now = (way.departed.packets, way.lateness.len());
        let (packets, due) = (now.0 - counted.0, now.1 - counted.1);
        assert_eq!(due == packets, is_single, "{change}: {packets} packets, due {due} times");
        counted = now;
    }
}

#[test]
fn a_rate_is_that_of_the_wire() {
    const DATAGRAMS: u32 = 8_000;
    // A packet of 1500 bytes takes 1538 on the wire, the last one without its gap of 12.
    let wire = DATAGRAMS * Duration::from_nanos(1_538 * 8 * 10) - Duration::from_nanos(12 * 8 * 10);
    let Some(pair) = both_ways("a rate", ["link=ethernet:100M queue=10000p", ""], 1500) else {
        return;
    };
    for (family, payload) in [(4, 1472), (6, 1452)] {
        let (left, right) = (pair.udp(LEFT, family), pair.udp(RIGHT, family));
        set_socket_recv_buffer_size_force(&right, 64 << 20).unwrap();
        let to = right.local_addr().unwrap();
        let waited = || pair.emulator.traffic().unwrap()[LEFT].run_delay.unwrap_or_default().0;
        let before_ns = waited();
        let took = thread::scope(|scope| {
            let begin = Instant::now();
            scope.spawn(move || {
                for _ in 0..DATAGRAMS {
                    left.send_to(&vec![0; payload], to).unwrap();
                }
            });
            for _ in 0..DATAGRAMS {
                assert_eq!(right.recv(&mut [0; 2000]).unwrap(), payload);
            }
            begin.elapsed()
        });
        let late = &pair.emulator.traffic().unwrap()[LEFT].lateness;
        let late = |share| Duration::from_nanos(late.quantile(share).unwrap());
        assert!(took >= wire && took < wire.mul_f64(1.01) + late(1.0), "IPv{family}: {took:?}");
        // A pause of the machine delays single packets, an emulator that is too slow most of them.
        let is_late = late(0.5) >= Duration::from_millis(1);
        let waited = Duration::from_nanos(waited() - before_ns);
        if is_late && waited > took / 10 {
            let why = format!("the emulator waited for a CPU for {waited:?} of {took:?}");
            fabricmark_testkit::skip("a_rate_is_that_of_the_wire", &why);
            continue;
        }
        assert!(!is_late, "IPv{family}: late by {:?}", late(0.5));
    }
    pair.assert_conservation();
}

#[test]
fn a_loss_cuts_super_packets_and_the_stream_survives_it() {
    let Some(pair) = pair("a loss", "rtt=1ms loss=every:97", 1500) else { return };
    for family in [4, 6] {
        pair.stream(family, 4 << 20);
    }
    pair.assert_conservation();
    let way = &pair.emulator.traffic().unwrap()[0];
    assert!(way.pieces > 0 && way.elements[0].arrived.packets / 97 >= 50, "{way:?}");
    let lost: u64 = way.dropped.iter().map(|count| count.packets).sum();
    assert_eq!(lost, way.arrived.packets / 97);
}

#[test]
fn a_wrong_bit_is_found_by_the_receiver() {
    let Some(pair) = pair("a wrong bit", "rtt=1ms corrupt=0.01", 1500) else { return };
    for family in [4, 6] {
        pair.stream(family, 1 << 20);
    }
    assert!(pair.emulator.traffic().unwrap()[0].corrupted.packets > 0);
    pair.assert_conservation();
}

#[test]
fn a_queue_that_pauses_its_sender_loses_nothing() {
    let options = ["rate=50M queue=100p pause", ""];
    let Some(pair) = both_ways("a pause", options, 1500) else { return };
    let (left, right) = (pair.udp(LEFT, 4), pair.udp(RIGHT, 4));
    // Room for all of them, if the receiver has to wait for a CPU.
    set_socket_recv_buffer_size_force(&right, 64 << 20).unwrap();
    let to = right.local_addr().unwrap();
    // Six times the queue, as fast as possible.
    for _ in 0..600 {
        left.send_to(&[0; 1472], to).unwrap();
    }
    left.send_to(b"last", to).unwrap();
    for _ in 0..600 {
        assert_eq!(right.recv(&mut [0; 2000]).unwrap(), 1472);
    }
    assert_eq!(right.recv(&mut [0; 2000]).unwrap(), 4);
    let way = &pair.emulator.traffic().unwrap()[0];
    assert!(way.departed.packets > 600 && way.pauses > 0 && way.paused.0 > 0, "{way:?}");
    assert_eq!(way.dropped.map(|count| count.packets), [0; 5]);
    pair.assert_conservation();
}

#[test]
fn a_link_changes_while_it_is_used() {
    let Some(pair) = pair("a change", "rtt=2ms", 1500) else { return };
    let (left, right) = (pair.udp(LEFT, 4), pair.udp(RIGHT, 4));
    assert!(round_trip(&left, &right) >= Duration::from_millis(2));
    pair.emulator.change(LEFT, "rtt=60ms".parse().unwrap()).unwrap();
    assert!(round_trip(&left, &right) >= Duration::from_millis(31));
    // The kernel's IPv6 sends packets of its own, too.
    assert!(pair.emulator.traffic().unwrap()[0].departed.packets >= 2);
    pair.assert_conservation();
}

#[test]
fn a_direction_is_settled_when_all_that_was_sent_has_come_out() {
    let Some(pair) = pair("settled", "rate=10M delay=20ms", 1500) else { return };
    // IPv6 would send packets of its own, which wake the emulator.
    for namespace in &pair.namespaces {
        let off = || fs::write("/proc/sys/net/ipv6/conf/wan/disable_ipv6", "1");
        namespace.within(off).unwrap();
    }
    let (from, _to) = (pair.udp(LEFT, 4), pair.udp(RIGHT, 4));
    let target = SocketAddr::new(address(RIGHT, 4), 7000);
    for _ in 0..20 {
        from.send_to(&[0; 1000], target).unwrap();
    }
    assert!(!pair.emulator.settle(LEFT, Duration::ZERO).unwrap());
    // They need 17 ms on the wire and 20 ms on the way. No event follows the last one.
    assert!(pair.emulator.settle(LEFT, Duration::from_secs(1)).unwrap());
    let there = &pair.emulator.traffic().unwrap()[LEFT];
    assert!(there.departed.packets >= 20, "{there:?}");
    assert_eq!(there.held.packets, 0);
}
