//! `hosts show` in a namespace, against iproute2, and settings of hosts during runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;
use fabricmark_plan::Figure;
use fabricmark_record::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{assert_unless_slowed, bench, program};

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

/// Whether the loopback device of a namespace merges received packets.
fn has_gro(namespace: &Namespace, folder: &Path) -> bool {
    let mut show = Command::new(program());
    let shown = json(namespace, show.args(["hosts", "show", "--json"]).current_dir(folder));
    let interface = &shown["interfaces"][0];
    assert_eq!(interface["name"], "lo");
    interface["offloads"]["gro"]["is_on"].as_bool().unwrap()
}

fn wait_until_gro_is(is_on: bool, namespace: &Namespace, folder: &Path) {
    let started = Instant::now();
    while has_gro(namespace, folder) != is_on {
        assert!(started.elapsed() < Duration::from_secs(30), "GRO is never {is_on}");
    }
}

/// A command of the program in a namespace, and what it printed.
fn command(namespace: &Namespace, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(folder);
    namespace.enter(&mut command);
    command
}

/// A measurement with GRO off.
const WITHOUT_GRO: &[&str] = &[
    "measure",
    "rr",
    "loopback",
    "--payload",
    "64",
    "--congestion",
    "cubic",
    "--host-settings",
    "gro=off",
];

#[test]
fn settings_of_a_host_hold_for_a_run_and_are_put_back_after_it_and_after_a_kill() {
    let Some(bench) = bench("settings of a host") else { return };
    let folder = bench.folder.path();
    let namespace = Namespace::new().unwrap();
    let mut up = Command::new("ip");
    up.args(["link", "set", "lo", "up"]);
    namespace.enter(&mut up);
    assert!(up.status().unwrap().success());
    assert!(has_gro(&namespace, folder));
    let short = [WITHOUT_GRO, &["--duration", "300ms", "--runs", "2", "--json"]].concat();
    let output = command(&namespace, folder, &short).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found.to_string().contains("gro=off"), "{found}");
    assert!(has_gro(&namespace, folder), "put back after the run");

    let long = [WITHOUT_GRO, &["--duration", "60s", "--runs", "2"]].concat();
    let mut running = command(&namespace, folder, &long).stderr(Stdio::null()).spawn().unwrap();
    wait_until_gro_is(false, &namespace, folder);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(has_gro(&namespace, folder), "put back before an interrupted command ends");

    for kills_workers in [false, true] {
        let mut running = command(&namespace, folder, &long).stderr(Stdio::null()).spawn().unwrap();
        wait_until_gro_is(false, &namespace, folder);
        let process = Pid::from_child(&running);
        if kills_workers {
            let id = running.id();
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
            let workers = children.split_whitespace().map(|id| Pid::from_raw(id.parse().unwrap()));
            let all: Vec<Pid> = workers.flatten().chain([process]).collect();
            // None has time to put the setting back when another one is gone.
            for signal in [Signal::STOP, Signal::KILL] {
                all.iter().for_each(|&process| kill_process(process, signal).unwrap());
            }
        } else {
            kill_process(process, Signal::KILL).unwrap();
        }
        running.wait().unwrap();
        if kills_workers {
            let output = command(&namespace, folder, &["hosts", "restore"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("lo: gro=off: put back to "), "{text}");
            assert!(has_gro(&namespace, folder));
            continue;
        }
        // The workers see that their coordinator has gone, and put the setting back.
        wait_until_gro_is(true, &namespace, folder);
    }
}

#[test]
fn a_setting_that_a_device_refuses_skips_its_level_with_the_reason() {
    let Some(bench) = bench("a refused setting") else { return };
    bench.plan(
        "title = 't'\n[factors]\nhost_settings = ['none', 'rx-usecs=5', 'tso=off,gso=off']\npattern = 'stream'\n\
         transport = 'tcp'\nfamily = 4\npayload = 65536\n[settings]\nlink = 'veth'\ncongestion = 'cubic'\n\
         [run]\nduration = '200ms'\nwarm_up = '0s'\n[stop]\nruns = 2\n",
    );
    bench.carries_out(&["run", "plan.toml"], &[]);
    let records = bench.records();
    let goodput = |level: &str| -> Vec<f64> {
        let of_level = records
            .iter()
            .filter(|record| record.point.host_settings.as_deref().unwrap_or_default() == level);
        let of_level = of_level.filter(|record| record.counts());
        of_level.filter_map(|record| record.figures.value(Figure::Goodput)).collect()
    };
    assert!(goodput("rx-usecs=5").is_empty());
    let skipped = records.iter().find_map(|record| match &record.outcome {
        Outcome::Skipped(reason) => Some(reason),
        _ => None,
    });
    let reason = skipped.unwrap();
    assert!(
        reason.contains("cannot set rx-usecs=5 on ") && reason.contains("not supported"),
        "{reason}"
    );
    // A record has the settings that held during its run.
    for record in records.iter().filter(|record| !record.nodes.is_empty()) {
        let is_on = record.point.host_settings.is_none();
        for node in &record.nodes {
            assert_eq!(node.interface.as_ref().unwrap().offloads.tso, Some(is_on));
        }
    }
    // Segments of 1,500 bytes one by one are several times slower. A pause of a process makes single runs slower.
    let fastest = |level| goodput(level).into_iter().fold(0.0, f64::max);
    let [with, without] = ["", "tso=off,gso=off"].map(fastest);
    let holds = without > 0.0 && with > 1.5 * without;
    assert_unless_slowed(holds, &records, &format!("{with} and {without}"));
}
