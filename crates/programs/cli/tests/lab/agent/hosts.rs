//! Two namespaces that represent two hosts.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use fabricmark_lab::{Lab, Namespace, Wiring};
use fabricmark_plan::Testbed;
use fabricmark_record::{Carrier, Outcome, Record, Technology};
use fabricmark_units::Nanos;
use serde_json::Value;

use super::{Agent, Keys, THREE_HOSTS};
use crate::support::{PLAN, bench, expect, stderr, stdout};

/// Namespaces `client` and `server` with a veth pair `link0` between them.
fn two_hosts() -> Lab {
    let veth: fabricmark_wire::Link = "veth".parse().unwrap();
    Lab::of_link(&veth.into(), 1, None).unwrap()
}

#[test]
fn several_addresses_of_a_host_are_those_of_its_families() {
    let keys = Keys::new();
    let agent = Agent::start_at("[::]:0", &keys, &[], None);
    let at = format!("127.0.0.1:{0},[::1]:{0}", agent.address.port());
    let families = ["--vs", "family=4", "--vs", "family=6"];
    let words = [&["measure", "rr", &at, "-t", "50ms", "--runs", "2", "--json"][..], &families];
    let output = keys.command(&words.concat()).output().unwrap();
    expect(&output, 0, &[]);
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for record in told["records"].as_array().unwrap() {
        let expected = if record["point"]["family"] == 4 { "127.0.0.1" } else { "::1" };
        assert_eq!(record["nodes"][1]["address"], expected, "{record}");
    }
    agent.ends_well();
}

/// The server's host drops what arrives for these ports and says nothing, as a firewall does.
#[test]
fn data_ports_behind_a_filter_are_named_with_the_remedy() {
    let keys = Keys::new();
    let lab = two_hosts();
    let [client, server] = ["client", "server"].map(|name| lab.namespace(name).unwrap());
    // Rules apply in their order, and the first one is that of local addresses.
    let rules = "set -e
        ip rule add pref 2 table local
        ip rule del pref 0
        for protocol in tcp udp; do
            ip rule add pref 1 ipproto $protocol dport 7500-7509 blackhole
        done";
    let mut filter = Command::new("sh");
    filter.args(["-c", rules]);
    server.enter(&mut filter);
    assert!(filter.status().unwrap().success());
    let words = ["--ports", "7500-7509"];
    let agent = Agent::start_at("10.71.0.2:7477", &keys, &words, Some(server));
    for transport in [&["--connect-timeout", "300ms"][..], &["-u", "-b", "1M"]] {
        let words = [&["measure", "stream", "10.71.0.2", "-t", "100ms"], transport].concat();
        let mut command = keys.command(&words);
        client.enter(&mut command);
        let remedy = "a firewall may drop packets to this port: let the agent use ports that it passes (agent --ports)";
        expect(&command.output().unwrap(), 65, &["10.71.0.2:75", remedy]);
    }
    let mut command = keys.command(&["measure", "stream", "10.71.0.2", "--port", "22"]);
    client.enter(&mut command);
    let why = "the agent allows ports 7500 to 7509, but the run asks for port 22";
    expect(&command.output().unwrap(), 66, &[why]);
    agent.ends_well();
}

#[test]
fn interfaces_of_a_host_are_those_of_its_agent() {
    let Some(bench) = bench("interfaces_of_a_host_are_those_of_its_agent") else { return };
    let keys = Keys::more();
    let lab = two_hosts();
    let [client, server] = ["client", "server"].map(|name| lab.namespace(name).unwrap());
    let agent = Agent::start_at("10.71.0.2:7477", &keys, &["--exclusive"], Some(server));
    let show = |namespace: &Namespace, words: &[&str]| {
        let mut command = keys.command(&[&["hosts", "show"], words].concat());
        namespace.enter(&mut command);
        command.output().unwrap()
    };
    let json = |output: Output| -> Value { serde_json::from_str(&stdout(&output)).unwrap() };
    let shown = || json(show(client, &["10.71.0.2", "--json"]));
    let here = json(show(server, &["--json"]));
    assert_eq!(here["interfaces"][1]["name"], "link0");
    assert_eq!(here["interfaces"][1]["addresses"][0], "10.71.0.2/24");
    assert_eq!(shown(), here);

    // A run does not delay the answer, and the answer does not end the run.
    let words = ["measure", "stream", "10.71.0.2", "--duration", "5s", "--runs", "1", "--json"];
    let mut run = keys.command(&words);
    run.env("XDG_STATE_HOME", bench.folder.path());
    client.enter(&mut run);
    let run = run.spawn().unwrap();
    agent.wait_for_workers(1);
    assert_eq!(shown(), here);
    assert_eq!(agent.workers().len(), 1, "the run was over");
    expect(&run.wait_with_output().unwrap(), 0, &[]);

    let one = show(client, &["10.71.0.2", "--interface", "link0"]);
    let text = stdout(&one);
    assert!(text.starts_with("link0: veth, up\n") && !text.contains("lo: "), "{text}");
    let unknown = show(client, &["10.71.0.2", "--interface", "eth9"]);
    expect(&unknown, 64, &["there is no network interface `eth9`; use one of lo, link0"]);
    agent.ends_well();
    let gone = show(client, &["10.71.0.2"]);
    expect(&gone, 65, &["the agent at 10.71.0.2 refused the connection to 10.71.0.2:7477"]);
}

#[test]
fn a_plan_runs_to_a_host_over_both_families_by_one_address() {
    let Some(bench) = bench("a_plan_runs_to_a_host_over_both_families_by_one_address") else {
        return;
    };
    let keys = Keys::more();
    let lab = two_hosts();
    let server = lab.namespace("server").unwrap();
    let agent = Agent::start_at("10.71.0.2:7477", &keys, &[], Some(server));
    let plan = bench.plan(PLAN);
    let to = ["run", plan.to_str().unwrap(), "--to", "peer=10.71.0.2"];
    let run = |words: &[&str]| {
        let mut command = bench.command(words);
        lab.namespace("client").unwrap().enter(&mut command);
        command.env("FABRICMARK_KEY_FILE", keys.file()).output().unwrap()
    };
    // A network between hosts is one link, but the plan has two.
    expect(&run(&to), 64, &["the plan has several links (veth, ethernet:1G)", "--link"]);
    let output = run(&[&to[..], &["--link", "veth"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = bench.records();
    // Eight points with a warm-up and three runs each; invalid runs are repeated.
    assert!(records.len() >= 8 * 4);
    for record in &records {
        assert_eq!(record.testbed, Testbed::Hosts);
        let [client, server] = record.nodes.as_slice() else { panic!("two nodes") };
        assert_eq!((client.carrier, server.carrier), (Carrier::LocalSocket, Carrier::Agent));
        let wanted =
            if record.point.family.to_string().ends_with('4') { "10.71.0.2" } else { "fd71::2" };
        assert_eq!(server.address, Some(wanted.parse().unwrap()));
        assert_eq!(server.device.as_deref(), Some("link0"));
        for node in [client, server] {
            let interface = node.interface.as_ref().unwrap();
            assert_eq!((interface.technology, interface.mtu_bytes), (Technology::Veth, Some(1500)));
            assert_eq!(interface.offloads.tso, Some(true));
        }
        // Both ends run on one machine and share its clock.
        let clock = server.clock_offset.unwrap();
        assert!(clock.offset_ns.unsigned_abs() <= clock.uncertainty_ns, "{clock:?}");
    }
    agent.ends_well();
}

/// A plan that compares two families in slices.
const SLICES: &str = "title = 'slices'\n[factors]\npattern = 'ping-pong'\ntransport = 'udp'\n\
    payload = 64\nfamily = [4, 6]\nlink = 'ethernet:1G'\n[run]\nduration = '100ms'\nslices = true\n\
    [stop]\nruns = 2\n[[compare]]\nfactor = 'family'\nbaseline = 4\ncandidate = 6\n";

/// Records of [`SLICES`] between two hosts with a link between them.
fn records_of_slices(link: &Wiring) -> Vec<Record> {
    let Some(bench) = bench("slices between hosts") else { return Vec::new() };
    let keys = Keys::more();
    let lab = Lab::of_link(link, 1, None).unwrap();
    let agent = Agent::start_at("10.71.0.2:7477", &keys, &[], lab.namespace("server"));
    let plan = bench.plan(SLICES);
    let mut command = bench.command(&["run", plan.to_str().unwrap(), "--to", "peer=10.71.0.2"]);
    lab.namespace("client").unwrap().enter(&mut command);
    let output = command.env("FABRICMARK_KEY_FILE", keys.file()).output().unwrap();
    expect(&output, 0, &[]);
    agent.ends_well();
    let records = bench.records();
    assert!(records.len() >= 4, "two runs of two levels: {}", records.len());
    records
}

#[test]
fn levels_take_turns_between_two_hosts() {
    let veth: fabricmark_wire::Link = "veth".parse().unwrap();
    for record in records_of_slices(&veth.into()) {
        assert_eq!(record.slice_ns, Some(Nanos::from_millis(20)), "{:?}", record.outcome);
    }
}

#[test]
fn levels_run_one_after_the_other_if_orders_to_the_other_host_take_long() {
    let veth: fabricmark_wire::Link = "veth".parse().unwrap();
    let link = Wiring { options: Some("delay=4ms".parse().unwrap()), ..veth.into() };
    for record in records_of_slices(&link) {
        assert_eq!((record.slice_ns, record.duration_ns), (None, Nanos::from_secs(1)));
        assert_eq!(record.outcome, Outcome::Completed);
    }
}

/// Two hosts with two links, the slow one of which has the host's address by default.
#[test]
fn two_networks_between_two_hosts_are_compared_in_one_plan() {
    let Some(bench) = bench("two networks between two hosts") else { return };
    bench.up("[hosts.client]\n[hosts.server]\n\
         [links.a-slow]\nbetween = ['client', 'server']\noptions = 'link=ethernet:100M'\n\
         [links.b-fast]\nbetween = ['client', 'server']\noptions = 'link=ethernet:1G'\n");
    let keys = Keys::more();
    let inside = |node: &str, words: &[&str]| keys.inside(&bench, node, words);
    let agent = Agent::start_by(inside("server", &["agent", "--listen", "0.0.0.0:7477"]));
    let plan = bench.plan(
        &SLICES
            .replace("family = [4, 6]", "family = 4")
            .replace("link = 'ethernet:1G'", "link = ['ethernet:100M', 'ethernet:1G']")
            .replace("payload = 64", "payload = 1400")
            .replace(
                "'family'\nbaseline = 4\ncandidate = 6",
                "'link'\nbaseline = 'ethernet:100M'\ncandidate = 'ethernet:1G'",
            ),
    );
    let out = bench.out();
    let line = ["run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let run = |to: &[&str]| inside("client", &[&line[..], to].concat()).output().unwrap();
    let host = ["--to", "10.71.0.2"];
    expect(&run(&host), 64, &["several links", "--to NODE@LINK=ADDRESS"]);
    let fast = ["--to", "server@ethernet:1G=10.71.1.2"];
    expect(&run(&fast), 64, &["the host of this node is missing"]);
    let both = [host, fast].concat();
    for (more, says) in [
        (["--to", "server@ethernet:2G=10.71.1.2"], "no level of link is ethernet:2G; use one of"),
        (["--to", "client=10.71.0.1"], "but not that of client: add --to client@ethernet:1G"),
        (["--link", "veth"], "use either --link or --to NODE@LINK=ADDRESS"),
    ] {
        expect(&run(&[&both[..], &more].concat()), 64, &[says]);
    }
    let output = run(&both);
    expect(&output, 0, &[]);
    let records = bench.records();
    // Where orders take long, and on a busy machine, whole runs take turns instead of slices.
    for link in ["ethernet:100M", "ethernet:1G"] {
        let counts = |record: &&Record| {
            record.point.link == link.parse().unwrap() && record.outcome == Outcome::Completed
        };
        assert!(records.iter().filter(counts).count() >= 2, "{link}");
    }
    for record in &records {
        let is_fast = record.point.link == "ethernet:1G".parse().unwrap();
        let (network, device) = if is_fast { (1, "b-fast") } else { (0, "a-slow") };
        let addresses = record.nodes.iter().map(|node| node.address.unwrap().to_string());
        let expected = [1, 2].map(|host| format!("10.71.{network}.{host}"));
        assert_eq!(Vec::from_iter(addresses), expected, "{}", record.point.key());
        for node in &record.nodes {
            assert_eq!(node.device.as_deref(), Some(device), "{}", record.point.key());
            assert_eq!(node.interface.as_ref().unwrap().technology, Technology::Tun);
        }
    }
    // A report reads the plan again, with its hosts.
    let report = inside("client", &["report", "--out", out.to_str().unwrap()]).output().unwrap();
    expect(&report, 0, &[]);
    agent.ends_well();
    expect(&bench.lab(&["down"]), 0, &[]);
}

/// Three hosts on a switch: one is the coordinator, the others measure.
#[test]
fn both_ends_run_on_other_hosts_than_the_one_that_conducts() {
    let Some(bench) = bench("both ends on other hosts") else { return };
    bench.up(THREE_HOSTS);
    let keys = Keys::more();
    let inside = |node: &str, words: &[&str]| keys.inside(&bench, node, words);
    let listen = ["agent", "--listen", "0.0.0.0:7477"];
    let agent_of_client = Agent::start_by(inside("one", &listen));
    let agent_of_server = Agent::start_by(inside("two", &listen));
    let report = bench.report();
    let address = |node: &str| {
        let text = report.to_string();
        let nodes = report["nodes"].as_array().unwrap_or_else(|| panic!("{text}"));
        let found = nodes.iter().find(|one| one["name"] == node).unwrap();
        let both = [0, 1].map(|family| found["addresses"][0][family].as_str());
        both.map(|one| one.unwrap_or_else(|| panic!("{text}")).to_owned())
    };
    let [client, server] = ["one", "two"].map(address);
    let plan = bench.plan(&PLAN.replace("runs = 3", "runs = 2"));
    let out = bench.out();
    let to = [format!("client={}", client[0]), format!("server={}", server[0])];
    let line = ["run", plan.to_str().unwrap(), "--link", "veth", "--out", out.to_str().unwrap()];
    let run = |hosts: &[&str]| inside("desk", &[&line[..], hosts].concat()).output().unwrap();
    let nobody = format!("nobody={}", client[0]);
    expect(
        &run(&["--to", &nobody]),
        64,
        &["node `nobody` is neither an end of a flow", "server=HOST"],
    );
    expect(&run(&["--to", &to[1], "--to", &to[1]]), 64, &["the host of server twice"]);
    let both = ["--to", &to[0], "--to", &to[1]];
    expect(&run(&both), 66, &["the agent does not allow clients", "--allow-client"]);
    drop(agent_of_client);
    let allowing = Agent::start_by(inside("one", &[&listen[..], &["--allow-client"]].concat()));
    expect(&run(&[&both[..], &["--fresh"]].concat()), 0, &[]);
    let records = bench.records();
    assert!(records.iter().any(|record| record.outcome == Outcome::Completed));
    for record in &records {
        let [one, two] = record.nodes.as_slice() else { panic!("two nodes: {record:?}") };
        assert_eq!((one.carrier, two.carrier), (Carrier::Agent, Carrier::Agent));
        for (node, own) in [(one, &client), (two, &server)] {
            assert!(own.contains(&node.address.unwrap().to_string()), "{:?}", node.address);
        }
    }
    // Groups between any two of the three hosts, including the coordinator's.
    let groups = "title = 't'\n[nodes.desk]\n\
         [[wire]]\nbetween = ['client', 'server']\nlink = 'ethernet:400G'\n\
         [[wire]]\nbetween = ['desk', 'server']\nlink = 'ethernet:100G'\n\
         [[group]]\nname = 'away'\n[[group]]\nname = 'out'\nfrom = 'desk'\n\
         [[group]]\nname = 'home'\nto = 'desk'\n\
         [factors]\npattern = 'stream'\ntransport = 'udp'\nfamily = 4\npayload = 1000\npace = 'fixed:1000/s'\n\
         [run]\nduration = '200ms'\nwarm_up = '50ms'\n[stop]\nruns = 2\n";
    bench.plan(
        &groups.replace("server']\nlink = 'ethernet:100G'", "client']\nlink = 'ethernet:100G'"),
    );
    expect(&run(&both), 64, &["no path from `desk` to `server`", "forwards = true"]);
    bench.plan(&groups.replace("[nodes.desk]", "[nodes.desk]\nforwards = true").replace(
        "[[group]]\nname = 'away'",
        "[[wire]]\nbetween = ['desk', 'client']\nlink = 'ethernet:1G'\n[[group]]\nname = 'away'",
    ));
    let line = ["run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let output = inside("desk", &[&line[..], &both].concat()).output().unwrap();
    expect(&output, 0, &["3 groups of flows at once"]);
    let kept = bench.records();
    for (group, wire, nodes) in [
        ("away", 400e9, [(Carrier::Agent, "client"), (Carrier::Agent, "server")]),
        ("out", 100e9, [(Carrier::LocalSocket, "desk"), (Carrier::Agent, "server")]),
        ("home", 1e9, [(Carrier::Agent, "client"), (Carrier::LocalSocket, "desk")]),
    ] {
        let own = kept.iter().filter(|record| record.point.group.as_deref() == Some(group));
        let own: Vec<_> = own.filter(|record| record.outcome == Outcome::Completed).collect();
        assert!(!own.is_empty(), "{group}");
        for record in own {
            let found = record.nodes.iter().map(|node| (node.carrier, node.name.as_str()));
            assert_eq!(found.collect::<Vec<_>>(), nodes);
            let bound_bps = record.limits.ceilings[0].goodput_bps.as_f64();
            // 1,000 bytes of a frame's 1,066.
            assert!(
                (bound_bps / (wire * 1000.0 / 1066.0) - 1.0).abs() < 1e-9,
                "{group}: {bound_bps}"
            );
        }
    }
    drop((agent_of_server, allowing));
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_host_is_reached_by_an_address_of_its_link() {
    let Some(_bench) = bench("a_host_is_reached_by_an_address_of_its_link") else { return };
    let keys = Keys::more();
    let lab = two_hosts();
    let (client, server) = (lab.namespace("client").unwrap(), lab.namespace("server").unwrap());
    for (namespace, address) in [(client, "fe80::1/64"), (server, "fe80::2/64")] {
        let mut add = Command::new("ip");
        add.args(["addr", "add", address, "dev", "link0", "nodad"]);
        namespace.enter(&mut add);
        assert!(add.status().unwrap().success());
    }
    let agent = Agent::start_at("[::]:7477", &keys, &[], Some(server));
    for transport in ["tcp", "udp", "quic"] {
        let words =
            ["measure", "stream", "fe80::2%link0", "--transport", transport, "-t", "100ms", "-R"];
        let mut command = keys.command(&words);
        client.enter(&mut command);
        expect(&command.output().unwrap(), 0, &[]);
    }
    agent.ends_well();
}

/// A link specification of the user sets ceilings, but does not mean that the network is emulated.
#[test]
fn figures_between_hosts_are_measured_whatever_link_is_named() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    let words = ["measure", "ping-pong", &at, "--link", "ethernet:400G", "-t", "50ms", "--json"];
    let output = keys.command(&words).output().unwrap();
    expect(&output, 0, &[]);
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let figure = &told["records"][0]["figures"]["rtt_mean_ns"];
    assert_eq!(figure["provenance"], "measured", "{told}");
    agent.ends_well();
}

#[test]
fn what_a_coordinator_held_is_free_within_5_s_after_its_cable_was_pulled() {
    let Some(_bench) =
        bench("what_a_coordinator_held_is_free_within_5_s_after_its_cable_was_pulled")
    else {
        return;
    };
    let keys = Keys::more();
    let lab = two_hosts();
    let (client, server) = (lab.namespace("client").unwrap(), lab.namespace("server").unwrap());
    let agent = Agent::start_at("10.71.0.2:7477", &keys, &[], Some(server));
    let mut command = keys.command(&["measure", "stream", "10.71.0.2", "-t", "60s"]);
    client.enter(&mut command);
    let mut measuring = command.spawn().unwrap();
    agent.wait_for_workers(1);
    let mut pull = Command::new("ip");
    pull.args(["link", "set", "link0", "down"]);
    client.enter(&mut pull);
    assert!(pull.status().unwrap().success());
    let pulled = Instant::now();
    agent.wait_for_workers(0);
    let took = pulled.elapsed();
    assert!(took <= Duration::from_secs(5), "{took:?}");
    measuring.kill().unwrap();
    measuring.wait().unwrap();
    agent.ends_well();
}
