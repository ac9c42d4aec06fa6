//! Nodes, wires and groups of flows that run at once.

use fabricmark_plan::{Factor, Outcomes, Plan, Point, Size, Topology, block, parse};
use fabricmark_units::Nanos;

const PLAN: &str = r#"title = "t"
[nodes.router]
forwards = true
[[wire]]
between = ["client", "router"]
link = "ethernet:1G"
[[wire]]
between = ["router", "server"]
link = "ethernet:100M"
rtt = "4ms"
emulate = "queue=100p"
[[group]]
name = "bulk"
pattern = "stream"
transport = "tcp"
payload = "64KiB"
flows = 2
[[group]]
name = "requests"
from = "server"
to = "client"
pattern = "rr"
transport = "udp"
payload = 64
[factors]
family = 4
congestion = ["cubic", "bbr"]
[stop]
runs = 2
"#;

fn read(text: &str) -> Plan {
    parse("p.toml", text, Size::Full, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn groups_that_start_later_end_with_the_others_and_count_the_same_time() {
    let late = PLAN.replace("name = \"requests\"", "name = \"requests\"\nstart = \"3s\"");
    let plan = read(&late);
    let [bulk, requests] = [&plan.points[0], &plan.points[1]];
    assert_eq!((plan.start(bulk), plan.start(requests)), (Nanos(0), Nanos::from_secs(3)));
    let ramp = plan.omitted(requests);
    assert_eq!(plan.omitted(bulk), ramp + Nanos::from_secs(3));
    // The ramp of a stream without `omit`, a twentieth of its time, is within what is omitted of either.
    let whole = |point| plan.omitted(point) + plan.duration_ns;
    assert!(plan.points.iter().all(|point| plan.omitted(point).0 * 20 >= whole(point).0));
    assert_eq!(plan.run_takes(bulk, false), plan.run_takes(requests, false));
    assert_ne!(plan.digest(), read(PLAN).digest());
    for (change, says) in [
        (("name = \"bulk\"", "name = \"bulk\"\nstart = \"1s\""), "no [[group]] starts at 0s"),
        (("[factors]", "[interference]\n[factors]"), "`start` of a group is not supported with"),
        (
            ("[stop]", "[run]\nbytes = 1000\n[stop]"),
            "`start` of a group is not supported with bytes",
        ),
    ] {
        let text = late.replace(change.0, change.1);
        let problems = parse("p.toml", &text, Size::Full, &[]).unwrap_err().to_string();
        assert!(problems.contains(says), "{problems}");
    }
}

#[test]
fn each_combination_is_a_point_for_each_group_and_these_run_at_once() {
    let plan = read(PLAN);
    let names: Vec<String> = plan.points.iter().map(Point::key).collect();
    let bulk = "pattern=stream transport=tcp family=4 payload=65536 flows=2 link=veth congestion=";
    let requests = "pattern=rr transport=udp family=4 payload=64 link=veth group=requests";
    assert_eq!(
        names,
        [
            format!("{bulk}cubic group=bulk"),
            format!("{requests} beside=congestion=cubic"),
            format!("{bulk}bbr group=bulk"),
            format!("{requests} beside=congestion=bbr"),
        ]
    );
    assert_eq!((plan.at_once(0), plan.at_once(3)), (0..2, 2..4));
    assert_eq!(plan.nodes(&plan.points[0]), ["client", "server"]);
    assert_eq!(plan.nodes(&plan.points[1]), ["server", "client"]);
}

#[test]
fn the_wires_of_a_plan_are_a_topology() {
    let Topology { file, client, server, text, .. } = read(PLAN).topology.unwrap();
    assert_eq!((&*file, &*client, &*server), ("", "client", "server"));
    assert_eq!(
        text,
        "[hosts.client]\n[hosts.server]\n[routers.router]\n\
         [links.wire0]\nbetween = ['client', 'router']\noptions = 'link=ethernet:1G '\n\
         [links.wire1]\nbetween = ['router', 'server']\noptions = 'link=ethernet:100M rtt=4ms queue=100p'\n"
    );
}

/// Two groups over a wire each, from a client with a bus.
const TWO_NETWORKS: &str = r#"title = "t"
[nodes.client]
bus = "pcie:1x8"
[[wire]]
name = "eth"
between = ["client", "server"]
link = "ethernet:10G"
[[wire]]
name = "ib"
between = ["client", "server"]
link = "ipoib:4X-DDR"
[[group]]
name = "ethernet"
via = "eth"
[[group]]
name = "ipoib"
via = "ib"
[interference]
[factors]
pattern = "stream"
transport = "tcp"
payload = "64KiB"
family = 4
flows = [1, 2]
[settings]
congestion = "cubic"
[stop]
runs = 2
"#;

#[test]
fn with_interference_each_group_runs_alone_and_all_run_together_in_the_same_blocks() {
    let plan = read(TWO_NETWORKS);
    let levels = |factor| -> Vec<String> {
        plan.points[..4].iter().map(|point| point.level(factor)).collect()
    };
    assert_eq!(levels(Factor::Interference), ["alone", "alone", "together", "together"]);
    assert_eq!(levels(Factor::Group), ["ethernet", "ipoib", "ethernet", "ipoib"]);
    let at_once: Vec<_> = (0..8).map(|point| plan.at_once(point)).collect();
    assert_eq!(at_once, [0..1, 1..2, 2..4, 2..4, 4..5, 5..6, 6..8, 6..8]);
    assert_eq!(plan.firsts().collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6]);
    assert_eq!(plan.comparison_groups, [[0, 1, 2, 3], [4, 5, 6, 7]]);
    let pairs: Vec<_> = plan
        .pairs_among(&plan.comparison_groups[0])
        .iter()
        .map(|pair| (pair.baseline, pair.candidate))
        .collect();
    assert_eq!(pairs, [(0, 2), (1, 3)]);
    let mut steps: Vec<_> =
        block(&plan, 1, &Outcomes::default()).into_iter().map(|step| step.points).collect();
    steps.sort();
    assert_eq!(steps, [vec![0], vec![1], vec![2, 3], vec![4], vec![5], vec![6, 7]]);
}

#[test]
fn a_group_leaves_its_node_by_the_wire_that_it_names() {
    let plan = read(TWO_NETWORKS);
    assert_eq!(plan.path_spec(&plan.points[1]).via.as_deref(), Some("ib"));
    assert_eq!(
        plan.topology.unwrap().text,
        "[hosts.client]\nbus = 'pcie:1x8'\n[hosts.server]\n\
         [links.eth]\nbetween = ['client', 'server']\noptions = 'link=ethernet:10G '\n\
         [links.ib]\nbetween = ['client', 'server']\noptions = 'link=ipoib:4X-DDR '\n"
    );
}

#[test]
fn what_two_networks_cannot_have_is_refused_with_the_remedy() {
    for (from, to, says) in [
        ("via = \"ib\"", "via = \"ipoib\"", "use a wire of node client: eth, ib"),
        ("name = \"ib\"", "name = \"eth\"", "duplicate wire name eth"),
        ("[interference]", "[interference]\nruns = 2", "unknown key `runs`"),
        ("bus = \"pcie:1x8\"", "bus = \"isa\"", "not a level of bus"),
        ("flows = [1, 2]", "interference = \"alone\"", "interference cannot be set"),
    ] {
        assert!(TWO_NETWORKS.contains(from), "{from}");
        let problems = parse("p.toml", &TWO_NETWORKS.replacen(from, to, 1), Size::Full, &[]);
        let problems = problems.expect_err(to).to_string();
        assert!(problems.contains(says), "no {says:?} in\n{problems}");
    }
    let one = "title = \"t\"\n[[group]]\nname = \"a\"\n[interference]\n[factors]\npattern = \"stream\"\n\
               transport = \"udp\"\npayload = 64\nfamily = 4\nlink = \"veth\"\n";
    let problems = parse("p.toml", one, Size::Full, &[]).unwrap_err().to_string();
    assert!(problems.contains("add at least two [[group]] tables"), "{problems}");
    let refusal = read(TWO_NETWORKS).to_host("server=h2", None).unwrap_err().to_string();
    assert!(refusal.contains("give each address of a host a node of its own"), "{refusal}");
    let by_node = TWO_NETWORKS.replace("via = \"eth\"\n", "").replace("via = \"ib\"\n", "");
    let refusal = read(&by_node).to_host("server=h2", None).unwrap_err().to_string();
    assert!(refusal.contains("bus = 'pcie:1x8' is not supported between hosts"), "{refusal}");
}

#[test]
fn one_run_has_a_place_for_each_group_and_what_one_group_cannot_is_not_run_for_the_others() {
    let plan = read(PLAN);
    let steps = |outcomes: &Outcomes, number| -> Vec<(u32, usize)> {
        let mut steps: Vec<_> = block(&plan, number, outcomes)
            .iter()
            .map(|step| (step.place, step.points[0]))
            .collect();
        steps.sort_unstable();
        steps
    };
    let first = steps(&Outcomes::default(), 0);
    assert_eq!(first.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 2, 4, 6]);
    assert!(first.iter().all(|(_, point)| [0, 2].contains(point)), "{first:?}");
    let mut outcomes = Outcomes::default();
    outcomes.skip(0, 1);
    assert_eq!(steps(&outcomes, 1), [(0, 2)]);
}

#[test]
fn what_runs_at_once_is_compared_together() {
    let compared = |factor: &str, baseline: &str, candidate: &str| {
        let text = format!(
            "{PLAN}[[compare]]\nfactor = '{factor}'\nbaseline = '{baseline}'\ncandidate = '{candidate}'\n"
        );
        read(&text).comparison_groups
    };
    assert_eq!(compared("congestion", "cubic", "bbr"), [[0, 1, 2, 3]]);
    assert_eq!(compared("beside", "congestion=cubic", "congestion=bbr"), [[0, 1, 2, 3]]);
    assert_eq!(compared("group", "bulk", "requests"), [[0, 1], [2, 3]]);
}

#[test]
fn a_group_or_a_wire_that_cannot_be_is_refused_with_the_remedy() {
    for (from, to, says) in [
        ("name = \"bulk\"\n", "", "a [[group]] has no name"),
        ("name = \"requests\"", "name = \"bulk\"", "duplicate group name bulk"),
        ("to = \"client\"", "to = \"server\"", "node server at both ends"),
        ("to = \"client\"", "to = \"clinet\"", "did you mean `client`?"),
        ("flows = 2", "flows = [1, 2]", "flows has several levels in a [[group]]"),
        ("flows = 2", "rtt = \"1ms\"", "groups share the links"),
        ("flows = 2", "probe = \"udp\"", "pattern=ping-pong"),
        ("flows = 2", "group = \"x\"", "group cannot be set in a [[group]]"),
        ("pattern = \"rr\"\n", "", "the plan has no pattern"),
        (
            "family = 4",
            "family = 4\nlink = \"veth\"",
            "link cannot be set in a plan with a topology",
        ),
        ("family = 4", "family = 4\nbeside = \"x\"", "beside cannot be set"),
        (
            "\"router\", \"server\"",
            "\"router\"",
            "a [[wire]] needs two different nodes in `between`",
        ),
        ("link = \"ethernet:100M\"\n", "", "a [[wire]] needs a link"),
        (
            "link = \"ethernet:100M\"",
            "link = \"loopback\"",
            "link=loopback cannot connect two nodes",
        ),
        ("forwards", "routes", "unknown key `routes` in a node"),
        ("[nodes.router]", "[nodes.\"a b\"]", "letters, digits and dashes"),
        ("[nodes", "testbed = \"lab:a.toml\"\n[nodes", "add the link to the file"),
    ] {
        assert!(PLAN.contains(from), "{from}");
        let problems = parse("p.toml", &PLAN.replacen(from, to, 1), Size::Full, &[]);
        let problems = problems.expect_err(to).to_string();
        assert!(problems.contains(says), "no {says:?} in\n{problems}");
    }
}

#[test]
fn wires_without_delays_and_losses_may_be_those_between_hosts() {
    let peer = "router=h1 server=h2";
    let refusal = read(PLAN).to_host(peer, None).unwrap_err().to_string();
    assert!(refusal.contains("rtt=4ms queue=100p between router and server"), "{refusal}");
    let plain = PLAN.replace("rtt = \"4ms\"\nemulate = \"queue=100p\"\n", "");
    let plan = read(&plain).to_host(peer, None).unwrap();
    assert_eq!(plan.hosts_of_nodes(), [("router", "h1"), ("server", "h2")]);
    for (peer, link) in [(peer, Some("ethernet:10G")), ("ends=10.9.0.1,10.9.0.2", None)] {
        let link = link.map(|link| link.parse().unwrap());
        let refusal = read(&plain).to_host(peer, link).unwrap_err().to_string();
        assert!(refusal.contains("supports neither --link nor --ends"), "{refusal}");
    }
    assert_eq!(plan.points.len(), 4);
    assert_eq!(plan.points[1].level(Factor::Group), "requests");
}
