//! Labs with more than links between two nodes, built from the shipped topologies.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::fabric::round_trips;
use crate::support::{Bench, bench, expect, stdout};

impl Bench {
    /// Brings a shipped topology up.
    fn up_shipped(&self, name: &str) {
        let file = format!("{}/../../../plans/labs/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        expect(&self.lab(&["up", &file]), 0, &["is up"]);
    }

    /// Minimum RTT of ten between two nodes' addresses, each given as network and host number.
    fn ping(&self, one: (&str, [u8; 2]), other: (&str, [u8; 2]), is_v6: bool) -> Duration {
        let [one, other] = [one, other].map(|(node, [network, host])| {
            let address: IpAddr = if is_v6 {
                [0xfd71, u16::from(network), 0, 0, 0, 0, 0, u16::from(host)].into()
            } else {
                [10, 71, network, host].into()
            };
            self.udp(node, address)
        });
        round_trips(&one, &other).0
    }

    /// Asserts packet conservation: in = out, for each direction and each shared element.
    fn assert_conservation(&self) {
        let report = self.report();
        let rows = ["paths", "shared"].map(|key| report[key].as_array().unwrap().clone());
        for row in rows.into_iter().flatten() {
            let count = |key: &str| row[key].as_u64().unwrap_or(0);
            let inside = count("arrived") + count("duplicated");
            let gone = count("departed") + count("refused") + count("dropped") + count("held");
            assert_eq!((inside, count("device_drops")), (gone, 0), "{row}");
        }
    }
}

#[test]
fn hosts_on_two_switches_are_in_one_network_and_a_link_between_may_change() {
    let Some(bench) = bench("a lab of two switches") else { return };
    bench.up_shipped("switch");
    for is_v6 in [false, true] {
        // access1, access2, leaf1 and leaf2 are hosts 1 to 4 of network 0.
        let client = ("client1", [0, 1]);
        assert!(bench.ping(client, ("server2", [0, 4]), is_v6) >= Duration::from_millis(2));
        bench.ping(client, ("client2", [0, 2]), is_v6);
    }
    expect(&bench.lab(&["link", "trunk", "rtt=20ms", "rate=100M"]), 0, &[]);
    let trip = bench.ping(("server1", [0, 3]), ("client1", [0, 1]), true);
    assert!(trip >= Duration::from_millis(20), "{trip:?}");
    // No host has this address.
    let stray = "echo > /dev/udp/10.71.0.99/9";
    expect(&bench.lab(&["exec", "client1", "--", "bash", "-c", stray]), 0, &[]);
    bench.assert_conservation();
    let report = bench.report();
    let left = &report["shared"][0];
    assert_eq!((left["name"].as_str(), left["dropped"].as_u64()), (Some("left"), Some(1)));
    let text = stdout(&bench.lab(&["show"]));
    assert!(text.contains("left     switch\n"), "{text}");
    assert!(text.contains("forwarding=cut-through delay=500ns"), "{text}");
    let tree = stdout(&bench.lab(&["show", "--tree"]));
    expect(&bench.lab(&["show", "--svg", "lab.svg"]), 0, &[]);
    let drawing = std::fs::read_to_string(bench.folder.path().join("lab.svg")).unwrap();
    assert!(drawing.starts_with("<svg"), "{drawing}");
    for node in ["client1", "client2", "left", "right", "server1", "server2"] {
        assert!(tree.contains(node) && drawing.contains(node), "{node}: {tree}{drawing}");
    }
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn stations_on_a_hub_share_its_rate() {
    let Some(bench) = bench("a lab with a hub") else { return };
    bench.up_shipped("hub");
    // Links one, three and two: hosts 1, 2 and 3.
    let (client, relay, server) = (("client", [0, 1]), ("relay", [0, 3]), ("server", [0, 2]));
    for is_v6 in [false, true] {
        bench.ping(client, server, is_v6);
        bench.ping(client, relay, is_v6);
    }
    expect(&bench.lab(&["link", "one", "rate=10M"]), 64, &["the hub `hub` sets the rate"]);
    expect(&bench.lab(&["link", "one", "rtt=10ms"]), 0, &[]);
    let trip = bench.ping(client, relay, false);
    assert!(trip >= Duration::from_millis(10), "{trip:?}");
    bench.assert_conservation();
    assert_eq!(bench.report()["shared"][0]["does"], "link=ethernet:100M");
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_dual_homed_host_sends_by_the_link_whose_address_it_uses() {
    let Some(bench) = bench("a lab with a dual-homed host") else { return };
    bench.up_shipped("dual-homed");
    for is_v6 in [false, true] {
        let server = ("server", [4, 2]);
        let [fast, slow] =
            [0, 1].map(|network| bench.ping(("client", [network, 1]), server, is_v6));
        assert!(fast >= Duration::from_millis(10), "{fast:?}");
        assert!(slow >= Duration::from_millis(30), "{slow:?}");
    }
    // Ten in each direction for each address family.
    let report = bench.report();
    for path in report["paths"].as_array().unwrap() {
        let [arrived, device] =
            [&path["arrived"], &path["device_drops"]].map(|n| n.as_u64().unwrap());
        assert!(arrived >= if path["link"] == "uplink" { 40 } else { 20 } && device == 0, "{path}");
    }
    bench.assert_conservation();
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn two_links_between_two_hosts_are_both_used() {
    let Some(bench) = bench("a lab with two links between two hosts") else { return };
    bench.up("[hosts.client]\n[hosts.server]\n[links.fast]\nbetween = ['client', 'server']\n\
         [links.slow]\nbetween = ['client', 'server']\noptions = 'rtt=20ms'\n");
    for is_v6 in [false, true] {
        let slow = bench.ping(("client", [1, 1]), ("server", [1, 2]), is_v6);
        assert!(slow >= Duration::from_millis(20), "{slow:?}");
        // From an address of one network to an address of the other.
        bench.ping(("client", [0, 1]), ("server", [1, 2]), is_v6);
    }
    bench.assert_conservation();
    expect(&bench.lab(&["down"]), 0, &[]);
}

/// A host with two links to two others.
const FORK: &str = "[hosts.one]\n[hosts.two]\n[hosts.client]\nbus = '20M'\n\
    [links.l0]\nbetween = ['client', 'one']\n[links.l1]\nbetween = ['client', 'two']\n";

#[test]
fn what_leaves_a_host_by_two_links_shares_its_bus() {
    let Some(bench) = bench("a lab with a host bus") else { return };
    bench.up(FORK);
    let sockets = [("one", 0), ("two", 1)].map(|(node, network)| {
        let [from, to] = [1, 2].map(|host| [10, 71, network, host].into());
        (bench.udp("client", from), bench.udp(node, to))
    });
    let begin = Instant::now();
    for _ in 0..60 {
        for (from, to) in &sockets {
            from.send_to(&[0; 1472], to.local_addr().unwrap()).unwrap();
        }
    }
    for (_, to) in &sockets {
        (0..60).for_each(|_| assert_eq!(to.recv(&mut [0; 2000]).unwrap(), 1472));
    }
    // 120 packets of 1500 bytes at 20 Mbit/s.
    assert!(begin.elapsed() >= Duration::from_millis(72), "{:?}", begin.elapsed());
    let (there, back) = (("client", [0, 1]), ("one", [0, 2]));
    bench.ping(there, back, true);
    bench.assert_conservation();
    let bus = bench.report()["shared"][0].clone();
    assert_eq!([&bus["name"], &bus["does"]], ["client", "bus=20M"]);
    // These packets, and ten RTTs in each direction.
    assert!(bus["departed"].as_u64().unwrap() >= 140, "{bus}");
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_link_that_pauses_stops_the_bus_before_it_and_not_the_other_link() {
    let Some(bench) = bench("a pause behind a bus") else { return };
    bench.up(&FORK
        .replace("'one']", "'one']\nforward = 'rate=5M queue=20p pause'")
        .replace("20M", "pcie:1x8"));
    let (one, two) =
        (bench.udp("one", [10, 71, 0, 2].into()), bench.udp("two", [10, 71, 1, 2].into()));
    let from = bench.udp("client", [10, 71, 0, 1].into());
    for _ in 0..60 {
        from.send_to(&[0; 1472], one.local_addr().unwrap()).unwrap();
    }
    // While the bus holds back the packets to `one`.
    round_trips(&bench.udp("client", [10, 71, 1, 1].into()), &two);
    (0..60).for_each(|_| assert_eq!(one.recv(&mut [0; 2000]).unwrap(), 1472));
    bench.assert_conservation();
    let report = bench.report();
    let path = &report["paths"][0];
    assert_eq!((path["from"].as_str(), path["dropped"].as_u64()), (Some("client"), Some(0)));
    assert!(path["paused_ns"].as_u64().unwrap() > 0, "{path}");
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_chain_of_routers_is_crossed_router_by_router() {
    let Some(bench) = bench("a lab with a chain") else { return };
    bench.up_shipped("chain");
    for is_v6 in [false, true] {
        let trip = bench.ping(("client", [0, 1]), ("server", [3, 2]), is_v6);
        assert!(trip >= Duration::from_millis(20), "{trip:?}");
    }
    bench.assert_conservation();
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_link_of_the_kernel_leads_to_hosts_at_a_switch_of_the_emulator() {
    let Some(bench) = bench("a lab of both backends") else { return };
    bench.up("[hosts.a]\n[routers.r]\n[hosts.b]\n[switches.s]\n\
         [links.l0]\nbetween = ['r', 's']\n[links.l1]\nbetween = ['s', 'b']\noptions = 'rtt=2ms'\n\
         [links.l2]\nbetween = ['a', 'r']\nbackend = 'tbf'\noptions = 'rate=100M'\n");
    for is_v6 in [false, true] {
        let trip = bench.ping(("a", [2, 1]), ("b", [0, 2]), is_v6);
        assert!(trip >= Duration::from_millis(2), "{trip:?}");
    }
    bench.assert_conservation();
    expect(&bench.lab(&["down"]), 0, &[]);
}
