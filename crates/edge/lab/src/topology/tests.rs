use super::*;

const TWO: &str = "[hosts.client]\n[hosts.server]\n[links.wan]\nbetween = ['client', 'server']\n";

fn refused(text: &str) -> String {
    Topology::parse(text).unwrap_err().to_string()
}

#[test]
fn both_directions_do_what_is_said_of_the_link_and_of_them() {
    let topology =
        Topology::parse(&format!("{TWO}options = 'rtt=10ms rate=1G'\nreverse = 'rate=10M'"))
            .unwrap();
    let options = topology.links[0].options.clone().map(|options| options.to_string());
    assert_eq!(options, ["rtt=10ms rate=1G", "rtt=10ms rate=10M"]);
    let earlier = Topology::parse(&format!("{TWO}words = 'rtt=10ms rate=1G'\nback = 'rate=10M'"));
    assert_eq!(earlier.unwrap().links[0].options, topology.links[0].options);
    assert_eq!(topology.ends("server").collect::<Vec<_>>(), [(0, 1)]);
    let address = |family| topology.address(0, 1, family).to_string();
    assert_eq!([address(Family::V4), address(Family::V6)], ["10.71.0.2", "fd71::2"]);
}

#[test]
fn the_shipped_labs_are_sound() {
    let dumbbell =
        Topology::parse(include_str!("../../../../../plans/labs/dumbbell.toml")).unwrap();
    assert_eq!((dumbbell.nodes.len(), dumbbell.links.len()), (6, 5));
    let switch = Topology::parse(include_str!("../../../../../plans/labs/switch.toml")).unwrap();
    assert_eq!((switch.junctions.len(), switch.links.len()), (2, 5));
    let hub = Topology::parse(include_str!("../../../../../plans/labs/hub.toml")).unwrap();
    assert_eq!((hub.junctions.len(), hub.links.len()), (1, 3));
    let chain = Topology::parse(include_str!("../../../../../plans/labs/chain.toml")).unwrap();
    assert_eq!((chain.nodes.len(), chain.links.len()), (5, 4));
    assert_eq!(chain.links[3].between, ["hop-r3", "server"]);
    let dual = Topology::parse(include_str!("../../../../../plans/labs/dual-homed.toml")).unwrap();
    assert_eq!(dual.ends("client").count(), 2);
    let lfn = Topology::parse(include_str!("../../../../../plans/labs/lfn.toml")).unwrap();
    assert_eq!(lfn.links[0].options[1].mtu(), 9000);
    let kernel = Topology::parse(include_str!("../../../../../plans/labs/kernel.toml")).unwrap();
    let backends = [0, 1].map(|link| kernel.links[link].backend);
    assert_eq!(backends, [Backend::Htb, Backend::Tbf]);
}

#[test]
fn who_is_on_one_tree_of_switches_and_hubs_is_in_one_network() {
    let text = "[hosts.a]\n[hosts.b]\n[hosts.c]\n[switches.s]\n[hubs.h]\nlink='ethernet:100M,mtu=1400'\n\
                [links.l0]\nbetween=['a','b']\n[links.l1]\nbetween=['a','s']\n\
                [links.l2]\nbetween=['h','b']\n[links.l3]\nbetween=['s','h']\n\
                [links.l4]\nbetween=['c','h']\noptions='mtu=1300'\n";
    let topology = Topology::parse(text).unwrap();
    let address = |link, end| topology.address(link, end, Family::V4).to_string();
    assert_eq!([address(0, 0), address(0, 1)], ["10.71.0.1", "10.71.0.2"]);
    let shared = [address(1, 0), address(2, 1), address(4, 0)];
    assert_eq!(shared, ["10.71.1.1", "10.71.1.2", "10.71.1.3"]);
    let mtus = topology.links.iter().map(|link| link.options[0].mtu()).collect::<Vec<_>>();
    assert_eq!(mtus, [1500, 1500, 1400, 1400, 1300]);
}

#[test]
fn a_loss_behind_a_switch_is_one_of_single_packets_of_all_who_send_there() {
    let text = "[hosts.a]\n[hosts.b]\n[hosts.c]\n[switches.s]\n\
                [links.l0]\nbetween=['a','s']\noffload='on'\n[links.l1]\nbetween=['b','s']\n\
                [links.l2]\nbetween=['s','c']\nforward='loss=1%'\n";
    let topology = Topology::parse(text).unwrap();
    let offload = [(0, 0), (1, 0), (2, 1)].map(|(link, end)| topology.offload(link, end));
    assert_eq!(offload, [Offload::On, Offload::Hosts, Offload::On]);
}

#[test]
fn a_router_gets_no_joined_packets_that_it_would_forward_where_single_ones_are_needed() {
    let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n\
                [links.l0]\nbetween=['a','r']\noptions='loss=1%'\n[links.l1]\nbetween=['r','b']\n";
    for (more, expected) in [
        ("", Offload::Hosts),
        ("options='loss=1%'", Offload::Hosts),
        ("offload='hosts'", Offload::Hosts),
        ("offload='off'", Offload::Off),
        ("options='rate=1G queue=20p pause'", Offload::Off),
        ("options='rate=1G'\nbackend='tbf'", Offload::Off),
    ] {
        let topology = Topology::parse(&format!("{text}{more}")).unwrap();
        assert_eq!(topology.offload(0, 0), expected, "{more}");
    }
}

#[test]
fn what_cannot_be_built_is_refused_with_the_remedy() {
    let renamed = TWO.replace("'server']", "'sever']");
    for (text, message) in [
        (
            &*renamed,
            "link `wan`: `sever` is not a host, router, switch or hub: did you mean `server`?",
        ),
        (
            "[hosts.a]\n[links.l]\nbetween=['a','a']",
            "link `l` has both ends at one node: use two nodes",
        ),
        (
            "[hosts.a]\n[hosts.b]\n[links.all]\nbetween=['a','b']",
            "link `all`: the kernel reserves this name; use another one",
        ),
        ("[hosts.a]\n[routers.a]", "`a` is both a host and a router: keep one of the two"),
        (
            "[hosts.a]\nsysctl.\"kernel.panic\" = '1'",
            "node `a`: `kernel.panic` is not a setting of a node: use only `net.` keys",
        ),
        (
            "[hosts.a]\nsysctl.\"net.../x\" = '1'",
            "node `a`: `net.../x` is not a setting of a node: use only `net.` keys",
        ),
        ("[hosts.a]\n[switches.a]", "duplicate name `a`: use a different name for each"),
        (
            "[switches.s]\n[switches.t]\n[hubs.h]\nlink='ethernet:10M'\n[links.l0]\nbetween=['s','t']\n\
             [links.l1]\nbetween=['t','h']\n[links.l2]\nbetween=['h','s']",
            "link `l2` creates a loop of switches and hubs: leave it out",
        ),
        (
            "[hosts.a]\n[hubs.h]\nlink='ethernet:10M'\n[links.l]\nbetween=['a','h']\noptions='rate=1M'",
            "link `l`: the hub `h` sets the rate: leave out rate, link, schedule and trace",
        ),
        (
            "[hosts.a]\n[hosts.b]\n[chains.twelve-chars]\nbetween=['a','b']\nrouters=10",
            "router of a chain `twelve-chars-r10`: use a name of 1 to 15 letters, digits and dashes",
        ),
        (
            "[hosts.a]\n[hosts.b]\n[routers.c-r1]\n[chains.c]\nbetween=['a','b']\nrouters=1",
            "duplicate name `c-r1`: use a different name for each",
        ),
        (
            "[hosts.a]\n[hosts.b]\n[chains.c]\nbetween=['a','b']\nrouters=256",
            "the lab has 257 links: use at most 256",
        ),
        (
            "[hosts.a]\nbus='isa'",
            "`a`: `bus`: `isa` is not a bus: give pci-x:133, pcie:1x8 or the like, or a rate such \
             as 8.53G",
        ),
        ("[hubs.h]\nlink='veth'", "`h`: `link`: veth has no rate: give one such as ethernet:100M"),
        (
            "[hosts.a]\n[switches.s]\n[links.l]\nbetween=['a','s']\noptions='rate=1G pause'",
            "link `l`: `pause` would stop all traffic through `s`: set it for the other direction \
             only, with `forward` or `reverse`",
        ),
        (
            "[hosts.a]\n[switches.s]\n[links.l]\nbetween=['a','s']\noptions='rate=1G'\nbackend='htb'",
            "link `l`: switch `s` needs backend `emulator`, not `htb`: leave out `backend`",
        ),
        (
            "[hosts.a]\nbus='1G'\n[hosts.b]\n[links.l]\nbetween=['b','a']\nbackend='netem'",
            "link `l`: the bus of `a` needs backend `emulator`, not `netem`: leave out `backend`",
        ),
        ("[hosts.\"a b\"]", "node `a b`: use a name of 1 to 15 letters, digits and dashes"),
    ] {
        assert_eq!(refused(text), message);
    }
    assert!(
        refused(&format!("{TWO}options = 'rat=1G'")).starts_with("link `wan`: unknown option `rat")
    );
    assert!(
        refused(&format!("{TWO}options = 'rate=1G queue=1p pause'")).contains("four packets or")
    );
    assert!(
        refused(&format!("{TWO}options = 'pause'")).contains("has no effect without rate or link")
    );
    assert_eq!(
        refused(&format!("{TWO}options = 'rate=1G pause'\nbackend = 'tbf'")),
        "link `wan`: backend `tbf` does not support `pause`: use backend `emulator`, or leave it out"
    );
    assert_eq!(
        refused(&format!("{TWO}options = 'rate=1G loss=every:10'\nbackend = 'tbf'")),
        "link `wan`: backend `tbf` does not support `loss=every:10`: use backend `emulator`, or leave it out"
    );
    let beside_single = "[routers.r]\n[links.l1]\nbetween=['r','server']\noffload='off'";
    for other in [
        beside_single,
        "backend = 'veth'",
        "backend = 'tbf'\noptions = 'rate=1G'",
        "options = 'rate=1G queue=20p pause'",
    ] {
        let text = refused(&format!("{TWO}offload = 'hosts'\n{other}"));
        assert!(text.contains("`offload = \"hosts\"` needs backend `emulator`"), "{other}: {text}");
    }
    assert!(refused(&format!("{TWO}backend = 'fq'")).contains("unknown variant `fq`"));
    assert!(refused("[host.a]").contains("unknown field `host`"));
}

#[test]
fn queues_that_count_super_packets_as_one_get_none_from_any_host() {
    let text = "[hosts.a]\n[routers.r]\n[hosts.b]\n[links.l0]\nbetween = ['a', 'r']\n\
                [links.l1]\nbetween = ['r', 'b']\noptions = 'rate=1G'\n";
    for (backend, single) in
        [("emulator", [false; 2]), ("tbf", [false, true]), ("htb", [true; 2]), ("netem", [true; 2])]
    {
        let topology = Topology::parse(&format!("{text}backend = '{backend}'")).unwrap();
        assert_eq!([0, 1].map(|link| topology.is_single(link, 0)), single, "{backend}");
    }
}
