//! Links of the kernel: real packets through tbf, htb and, if the kernel has them, netem, CoDel and RED. A test of the
//! program runs the tests that need these in a guest kernel, which has them all.
//!
//! Tests are counted as skipped, with the reason, if namespaces cannot be created.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_lab::{Lab, LabError, Topology, Traffic};
use fabricmark_link::Reason;
use fabricmark_wire::Family;

mod namespaces;

fn topology(backend: &str, options: &str) -> Topology {
    Topology::parse(&format!(
        "[hosts.client]\n[hosts.server]\n[links.wan]\nbetween = ['client', 'server']\n\
         backend = '{backend}'\noptions = '{options}'"
    ))
    .unwrap()
}

fn udp(lab: &Lab, node: &str, address: IpAddr) -> UdpSocket {
    namespaces::udp(lab.namespace(node).unwrap(), address)
}

/// RTT of a datagram.
fn round_trip(lab: &Lab, family: Family) -> Duration {
    let [left, right] = [0, 1].map(|end| lab.topology().address(0, end, family));
    namespaces::round_trip(&udp(lab, "client", left), &udp(lab, "server", right))
}

/// Sends `bytes` from client to server by TCP; returns bit/s from the first call to the last byte.
fn stream(lab: &Lab, family: Family, bytes: usize) -> f64 {
    let server = SocketAddr::new(lab.topology().address(0, 1, family), 7000);
    let [left, right] = ["client", "server"].map(|node| lab.namespace(node).unwrap());
    let listener = right.within(|| TcpListener::bind(server)).unwrap();
    let mut client = left.within(|| TcpStream::connect(server)).unwrap();
    let mut accepted = listener.accept().unwrap().0;
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || client.write_all(&vec![7; bytes]).unwrap());
        let (mut block, mut got) = (vec![0; 1 << 16], 0);
        while got < bytes {
            let length = accepted.read(&mut block).unwrap();
            assert!(length > 0, "it ended after {got} bytes");
            got += length;
        }
    });
    8.0 * bytes as f64 / begin.elapsed().as_secs_f64()
}

/// IP packets that a node handed to its device: OutRequests of IPv4 and IPv6.
fn sent_by(lab: &Lab, node: &str) -> u64 {
    let namespace = lab.namespace(node).unwrap();
    let read = |path: &str| namespace.within(|| fs::read_to_string(path)).unwrap();
    let v4 = read("/proc/thread-self/net/snmp");
    let mut rows = v4.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let place = names.split(' ').position(|name| name == "OutRequests").unwrap();
    let v4: u64 = values.split(' ').nth(place).unwrap().parse().unwrap();
    let v6 = read("/proc/thread-self/net/snmp6");
    let v6 = v6.lines().find_map(|line| line.strip_prefix("Ip6OutRequests")).unwrap();
    v4 + v6.trim().parse::<u64>().unwrap()
}

fn assert_sum(way: &Traffic) {
    let dropped: u64 = way.dropped.iter().map(|count| count.packets).sum();
    let out = way.departed.packets + way.refused.packets + dropped + way.held.packets;
    assert_eq!(way.arrived.packets, out, "{way:?}");
}

#[test]
fn shapers_of_the_kernel_carry_packets_at_the_rate_of_the_wire_and_count_them() {
    for backend in ["tbf", "htb"] {
        if !namespaces::may_make(backend) {
            return;
        }
        let mut lab =
            Lab::build(topology(backend, "link=ethernet:100M queue=1000p"), 1, None).unwrap();
        for (family, payload) in [(Family::V4, 1448.0), (Family::V6, 1428.0)] {
            round_trip(&lab, family);
            // Packets of 1500 bytes take 1538 on the wire; the bucket of 6,553 is full at the beginning.
            let ceiling = 1e8 * payload / 1538.0;
            let ratio = stream(&lab, family, 3_000_000) / ceiling;
            assert!(ratio < 1.01, "{backend}, {family:?}: {ratio}");
        }
        lab.change(0, Some(0), &"link=ethernet:1G".parse().unwrap()).unwrap();
        assert_eq!(lab.topology().links[0].options[0].to_string(), "link=ethernet:1G queue=1000p");
        round_trip(&lab, Family::V6);
        // IPv6 may send packets of its own between the two.
        let sent = || ["client", "server"].map(|node| sent_by(&lab, node));
        let before = sent();
        let ways = lab.traffic().unwrap();
        let after = sent();
        assert!(ways.iter().all(|way| way.device_drops == 0));
        for (end, way) in ways.iter().enumerate() {
            assert_sum(way);
            let sent = before[end]..=after[end];
            assert!(sent.contains(&way.arrived.packets), "{backend}: {sent:?} {way:?}");
        }
        assert_eq!((ways[0].name.as_str(), ways[0].refused.packets), ("wan:client>server", 0));
        // Both streams, in packets of at most 1500 bytes: no super-packet passed as one.
        assert!(ways[0].arrived.packets >= 2 * 3_000_000 / 1448, "{:?}", ways[0]);
        assert!(ways[0].departed.bytes > 6_000_000, "{:?}", ways[0]);
    }
}

#[test]
fn a_full_queue_of_the_kernel_drops_and_says_so() {
    for backend in ["tbf", "htb"] {
        if !namespaces::may_make("a full queue") {
            return;
        }
        let lab = Lab::build(topology(backend, "rate=10K queue=5p"), 1, None).unwrap();
        let [left, right] = [0, 1].map(|end| lab.topology().address(0, end, Family::V4));
        let (client, server) = (udp(&lab, "client", left), udp(&lab, "server", right));
        // 10 kbit/s take 1.2 s for each; the bucket has 3,200 bytes.
        for _ in 0..100 {
            client.send_to(&[0; 1472], server.local_addr().unwrap()).unwrap();
        }
        let before = sent_by(&lab, "client");
        let way = &lab.traffic().unwrap()[0];
        let sent = before..=sent_by(&lab, "client");
        assert_sum(way);
        let dropped = way.dropped[Reason::Overflow as usize].packets;
        assert!(dropped >= 90, "{backend}: {way:?}");
        assert!((5..=6).contains(&way.held.packets), "{backend}: {way:?}");
        // Bytes of IP, where the rate is one of IP packets too.
        assert_eq!(way.held.bytes, 1500 * way.held.packets, "{backend}: {way:?}");
        assert!(sent.contains(&way.arrived.packets), "{backend}: {sent:?} {way:?}");
    }
}

#[test]
fn a_change_that_a_queue_cannot_do_leaves_the_link_as_it_was() {
    if !namespaces::may_make("a change that cannot be") {
        return;
    }
    let mut lab = Lab::build(topology("htb", "link=ethernet:100M"), 1, None).unwrap();
    let mut refused =
        |options: &str| lab.change(0, None, &options.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(
        refused("loss=every:10"),
        "link `wan`: backend `htb` does not support `loss=every:10`: use backend `emulator`, or leave it out"
    );
    assert!(refused("framing=none").contains("the framing of an htb qdisc cannot change"));
    assert!(refused("jitter=1ms").contains("`jitter` has no effect without delay"));
    assert_eq!(lab.topology().links[0].options[0].to_string(), "link=ethernet:100M");
    round_trip(&lab, Family::V4);
}

/// Whether the kernel has a queueing discipline, by trying it. With FABRICMARK_EVERY_QUEUE in the environment it must.
fn kernel_has(queue: &str) -> bool {
    let add = format!("ip link add d0 type veth peer name d1 && tc qdisc add dev d0 root {queue}");
    let output = Command::new("unshare").args(["--net", "sh", "-c", &add]).output();
    let has = output.unwrap().status.success();
    assert!(has || env::var_os("FABRICMARK_EVERY_QUEUE").is_none(), "{queue}");
    has
}

#[test]
fn every_queue_is_built_or_its_absence_is_named_with_the_remedy() {
    if !namespaces::may_make("queues of the kernel") {
        return;
    }
    let codel = ("codel", "codel limit 1");
    let red = ("red", "red limit 900000 min 75000 max 225000 avpkt 1500 burst 85 bandwidth 1gbit");
    let netem = ("netem", "netem limit 1");
    for ((kind, probe), backend, options) in [
        (codel, "tbf", "rate=1G discipline=codel queue=50ms"),
        (codel, "htb", "rate=1G discipline=codel:1ms,20ms ecn"),
        (red, "tbf", "rate=1G discipline=red queue=600p"),
        (red, "htb", "rate=1G discipline=red ecn"),
        (netem, "netem", ""),
        (netem, "netem", "rtt=20ms"),
        (netem, "netem", "link=ethernet:10G rtt=400ms jitter=1ms"),
        (netem, "netem", "rate=100M queue=50ms loss=1e-6"),
        (netem, "netem", "delay=1500us jitter=1ms dist=pareto order=free loss=ge:0.01,0.1"),
        (netem, "netem", "corrupt=1e-6 duplicate=1% reorder=1%:5ms"),
        (netem, "tbf", "rate=100M rtt=20ms jitter=1ms"),
        (netem, "htb", "rate=100M rtt=20ms loss=1%"),
    ] {
        let built = Lab::build(topology(backend, options), 1, None);
        if kernel_has(probe) {
            let lab = built.unwrap();
            let has = lab.topology().address(0, 0, Family::V4);
            udp(&lab, "client", has);
            continue;
        }
        let error = built.unwrap_err();
        assert!(error.is_missing(), "{options}: {error}");
        assert_eq!(
            error.to_string(),
            format!(
                "link `wan`: this kernel has no {kind} qdisc: run `modprobe sch_{kind}` as root, \
                 or use a kernel with this module, or backend `emulator`"
            )
        );
    }
}

#[test]
fn netem_delays_and_loses_or_the_link_stays_as_it_was() {
    if !namespaces::may_make("netem") {
        return;
    }
    if !kernel_has("netem limit 1") {
        let mut lab = Lab::build(topology("tbf", "rate=100M"), 1, None).unwrap();
        let error = lab.change(0, None, &"rtt=10ms rate=1G".parse().unwrap()).unwrap_err();
        assert!(matches!(error, LabError::NoQdisc { kind: "netem", .. }), "{error}");
        round_trip(&lab, Family::V6);
        assert_eq!(lab.topology().links[0].options[0].to_string(), "rate=100M");
        return;
    }
    for (backend, options) in [("netem", "rtt=20ms"), ("netem", BOTH), ("tbf", BOTH), ("htb", BOTH)]
    {
        let mut lab = Lab::build(topology(backend, options), 1, None).unwrap();
        for family in [Family::V4, Family::V6] {
            assert!(round_trip(&lab, family) >= Duration::from_millis(20));
        }
        lab.change(0, None, &"loss=1 rtt=none".parse().unwrap()).unwrap();
        let [left, right] = [0, 1].map(|end| lab.topology().address(0, end, Family::V4));
        let (client, server) = (udp(&lab, "client", left), udp(&lab, "server", right));
        for _ in 0..10 {
            client.send_to(b"lost", server.local_addr().unwrap()).unwrap();
        }
        let way = &lab.traffic().unwrap()[0];
        assert_sum(way);
        assert_eq!(way.dropped[Reason::Loss as usize].packets, 10, "{way:?}");
    }
    for (options, is_kept) in [("", true), ("order=free", false)] {
        let options = format!("delay=20ms jitter=4ms duplicate=1 {options}");
        let lab = Lab::build(topology("netem", &options), 1, None).unwrap();
        let numbers = numbers(&lab, 100);
        assert_eq!(numbers.is_sorted(), is_kept, "{options}: {numbers:?}");
        let way = &lab.traffic().unwrap()[0];
        assert_sum(way);
        assert!(way.departed.packets >= 200, "a copy arrives like others: {way:?}");
    }
}

/// Sends `count` numbers from client to server, each of which arrives twice; returns them in the order of arrival.
fn numbers(lab: &Lab, count: u8) -> Vec<u8> {
    let [left, right] = [0, 1].map(|end| lab.topology().address(0, end, Family::V6));
    let (client, server) = (udp(lab, "client", left), udp(lab, "server", right));
    for number in 0..count {
        client.send_to(&[number], server.local_addr().unwrap()).unwrap();
    }
    let receive = |_| {
        let mut byte = [0];
        server.recv(&mut byte).unwrap();
        byte[0]
    };
    (0..2 * usize::from(count)).map(receive).collect()
}

/// Options with a rate and a delay.
const BOTH: &str = "rate=100M rtt=20ms";
