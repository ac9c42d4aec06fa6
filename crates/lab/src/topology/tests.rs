use super::*;

const TWO: &str = "[hosts.client]\n[hosts.server]\n[links.wan]\nbetween = ['client', 'server']\n";

fn refused(text: &str) -> String {
    Topology::parse(text).unwrap_err().to_string()
}

#[test]
fn both_directions_do_what_is_said_of_the_link_and_of_them() {
    let topology =
        Topology::parse(&format!("{TWO}words = 'rtt=10ms rate=1G'\nback = 'rate=10M'")).unwrap();
    let words = topology.links[0].words.clone().map(|words| words.to_string());
    assert_eq!(words, ["rtt=10ms rate=1G", "rtt=10ms rate=10M"]);
    assert_eq!(topology.ends("server").collect::<Vec<_>>(), [(0, 1)]);
    let address = |family| Topology::address(3, 1, family).to_string();
    assert_eq!([address(Family::V4), address(Family::V6)], ["10.71.3.2", "fd71:3::2"]);
}

#[test]
fn the_shipped_labs_are_sound() {
    let dumbbell = Topology::parse(include_str!("../../../../plans/labs/dumbbell.toml")).unwrap();
    assert_eq!((dumbbell.nodes.len(), dumbbell.links.len()), (6, 5));
    let lfn = Topology::parse(include_str!("../../../../plans/labs/lfn.toml")).unwrap();
    assert_eq!(lfn.links[0].words[1].mtu(), 9000);
    let kernel = Topology::parse(include_str!("../../../../plans/labs/kernel.toml")).unwrap();
    let backends = [0, 1].map(|link| kernel.links[link].backend);
    assert_eq!(backends, [Backend::Htb, Backend::Tbf]);
}

#[test]
fn what_cannot_be_built_is_refused_with_the_remedy() {
    let renamed = TWO.replace("'server']", "'sever']");
    for (text, message) in [
        (
            &*renamed,
            "link `wan` ends at `sever`, which is no host or router: did you mean `server`?",
        ),
        (
            "[hosts.a]\n[links.l]\nbetween=['a','a']",
            "both ends of link `l` are at one node: name two",
        ),
        (
            "[hosts.a]\n[routers.a]",
            "`a` is a host and a router: a router is a host that forwards; name it once",
        ),
        (
            "[hosts.a]\nsysctl.\"kernel.panic\" = '1'",
            "node `a`: `kernel.panic` is a setting of this machine, not of a node: only `net.` ones are",
        ),
        (
            "[hosts.a]\nsysctl.\"net.../x\" = '1'",
            "node `a`: `net.../x` is a setting of this machine, not of a node: only `net.` ones are",
        ),
        (
            "[hosts.\"a b\"]",
            "node `a b`: names have 1 to 15 letters, digits and dashes, as network devices do",
        ),
    ] {
        assert_eq!(refused(text), message);
    }
    assert!(
        refused(&format!("{TWO}words = 'rat=1G'")).starts_with("link `wan`: unknown word `rat")
    );
    assert!(refused(&format!("{TWO}words = 'rate=1G pause'")).contains("would stop nobody"));
    assert_eq!(
        refused(&format!("{TWO}words = 'rate=1G loss=every:10'\nbackend = 'tbf'")),
        "link `wan`: backend `tbf` cannot do `loss=every:10`: use backend `emulator`, or leave it out"
    );
    assert!(refused(&format!("{TWO}backend = 'fq'")).contains("unknown variant `fq`"));
    assert!(refused("[host.a]").contains("unknown field `host`"));
}

#[test]
fn queues_that_count_super_packets_as_one_get_none_from_any_host() {
    let text = "[hosts.a]\n[routers.r]\n[hosts.b]\n[links.l0]\nbetween = ['a', 'r']\n\
                [links.l1]\nbetween = ['r', 'b']\nwords = 'rate=1G'\n";
    for (backend, single) in
        [("emulator", [false; 2]), ("tbf", [false, true]), ("htb", [true; 2]), ("netem", [true; 2])]
    {
        let topology = Topology::parse(&format!("{text}backend = '{backend}'")).unwrap();
        assert_eq!([0, 1].map(|link| topology.is_single(link)), single, "{backend}");
    }
}
