//! `hosts show` in a namespace, against iproute2.

use std::process::Command;

use fabricmark_lab::Namespace;
use serde_json::Value;

use crate::support::{bench, program};

/// The answer of a command in a namespace as JSON.
fn json(namespace: &Namespace, command: &mut Command) -> Value {
    namespace.enter(command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn hosts_show_agrees_with_iproute2() {
    let Some(bench) = bench("hosts_show_agrees_with_iproute2") else { return };
    let namespace = Namespace::new().unwrap();
    let script = "set -e
        ip link add v0 type veth peer name v1
        ip link add br0 type bridge
        ip link set v1 master br0
        ip tuntap add tun0 mode tun
        ip tuntap add tap0 mode tap
        ip link set v0 mtu 9000
        ip addr add 10.0.0.1/24 dev v0
        ip addr add fd00::1/64 dev v0 nodad
        ip link set v0 up
        tc qdisc add dev v0 root tbf rate 1gbit burst 1mb latency 1ms";
    let mut setup = Command::new("sh");
    setup.args(["-c", script]);
    namespace.enter(&mut setup);
    assert!(setup.status().unwrap().success());
    let mut show = Command::new(program());
    let shown =
        json(&namespace, show.args(["hosts", "show", "--json"]).current_dir(bench.folder.path()));
    let shown = shown["interfaces"].as_array().unwrap();
    let links = json(&namespace, Command::new("ip").args(["-details", "-json", "addr", "show"]));
    let links = links.as_array().unwrap();
    assert_eq!((shown.len(), links.len()), (6, 6));
    for link in links {
        let name = link["ifname"].as_str().unwrap();
        let interface = shown.iter().find(|interface| interface["name"] == name).unwrap();
        for (ours, theirs) in [
            ("index", "ifindex"),
            ("mtu_bytes", "mtu"),
            ("mtu_min_bytes", "min_mtu"),
            ("qdisc", "qdisc"),
            ("rx_queues", "num_rx_queues"),
            ("tx_queues", "num_tx_queues"),
        ] {
            assert_eq!(interface[ours], link[theirs], "{name}: {ours}");
        }
        // A maximum of 0 is no limit.
        let max = &link["max_mtu"];
        let max = if *max == 0 { &Value::Null } else { max };
        assert_eq!(&interface["mtu_max_bytes"], max, "{name}");
        assert_eq!(interface["kind"], link["linkinfo"]["info_kind"], "{name}");
        assert_eq!(interface["master"], link["master"], "{name}");
        if interface["technology"] == "veth" {
            assert_eq!(interface["lower"], link["link"], "{name}");
        }
        let addresses = link["addr_info"].as_array().unwrap().iter();
        let addresses: Vec<Value> = addresses
            .map(|address| {
                let (ip, bits) = (address["local"].as_str().unwrap(), &address["prefixlen"]);
                format!("{ip}/{bits}").into()
            })
            .collect();
        // The link-local address appears when the link is up, which takes a moment.
        let is_local = |address: &&Value| address.as_str().unwrap().starts_with("fe80:");
        let fixed =
            |all: &[Value]| all.iter().filter(|one| !is_local(one)).cloned().collect::<Vec<_>>();
        assert_eq!(fixed(interface["addresses"].as_array().unwrap()), fixed(&addresses), "{name}");
        let flags = link["flags"].as_array().unwrap();
        assert_eq!(interface["is_up"], flags.contains(&"UP".into()), "{name}");
    }
    let technology = |name: &str| {
        shown.iter().find(|interface| interface["name"] == name).unwrap()["technology"].clone()
    };
    let names = ["lo", "v0", "v1", "br0", "tun0", "tap0"];
    let expected = ["loopback", "veth", "veth", "bridge", "tun", "tap"];
    assert_eq!(names.map(technology), expected);
}
