//! Relays on other hosts.

use std::process::Output;

use fabricmark_plan::{Figure, RelayPath};
use fabricmark_record::{Carrier, Outcome, Record};

use super::{Agent, Keys, THREE_HOSTS};
use crate::support::{bench, expect, stdout};

/// A client here, the server and the relay on hosts of their own; then both ends here.
#[test]
fn a_relay_runs_on_a_host_of_its_own_if_its_agent_allows_it() {
    let Some(bench) = bench("a relay on another host") else { return };
    bench.up(THREE_HOSTS);
    let keys = Keys::more();
    let inside = |node: &str, words: &[&str]| keys.inside(&bench, node, words);
    let report = bench.report();
    let address = |name: &str| {
        let nodes = report["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["name"] == name).unwrap();
        node["addresses"][0][0].as_str().unwrap().to_owned()
    };
    let plan = |levels: &str| {
        bench.plan(&format!(
        "title = 't'\n[factors]\npattern = 'stream'\ntransport = 'tcp'\ncongestion = 'cubic'\nfamily = 4\n\
         payload = 8192\nlink = 'veth'\nrelay = [{levels}]\n\
         [run]\nduration = '200ms'\nwarm_up = '50ms'\n[stop]\nruns = 2\n"
    ))
    };
    let file = plan("'copy', 'splice', 'none'");
    let listen = ["agent", "--listen", "0.0.0.0:7477"];
    let server = Agent::start_by(inside("one", &listen));
    let refusing = Agent::start_by(inside("two", &listen));
    let to = [format!("server={}", address("one")), format!("relay={}", address("two"))];
    let out = bench.out();
    let line = [
        "run",
        file.to_str().unwrap(),
        "--link",
        "veth",
        "--fresh",
        "--out",
        out.to_str().unwrap(),
    ];
    let run = |to: &[&str]| -> Output {
        let to: Vec<&str> = to.iter().flat_map(|&to| ["--to", to]).collect();
        inside("desk", &[&line[..], &to].concat()).output().unwrap()
    };
    let both = [to[0].as_str(), to[1].as_str()];
    let output = run(&both);
    expect(&output, 0, &[]);
    let table = stdout(&output);
    let why = "the relay failed: the agent does not allow relays: start it with --allow-relay";
    assert!(table.contains(why), "{table}");
    drop(refusing);
    let ports = ["--allow-relay", "--ports", "7500-7509"];
    let relay = Agent::start_by(inside("two", &[&listen[..], &ports].concat()));
    let check = |to: &[&str], paths: &[Option<&str>], carriers: [Carrier; 2]| {
        expect(&run(to), 0, &[]);
        let records = bench.records();
        let counting: Vec<&Record> =
            records.iter().filter(|record| record.outcome == Outcome::Completed).collect();
        for &path in paths {
            let of_path = |record: &&&Record| record.point.relay.map(RelayPath::word) == path;
            let record = counting.iter().find(of_path).unwrap_or_else(|| panic!("{records:?}"));
            let is_timed = record.figures.get(Figure::SwitchingTime).is_some();
            assert_eq!(is_timed, path.is_some(), "{record:?}");
            assert_eq!([0, 1].map(|end| record.nodes[end].carrier), carriers);
        }
    };
    check(&both, &[Some("copy"), Some("splice"), None], [Carrier::LocalSocket, Carrier::Agent]);
    drop(server);
    // With the relay alone elsewhere, bytes leave this host and come back.
    expect(&run(&both[1..]), 64, &["have both ends on this host", "--to server=HOST"]);
    plan("'copy', 'splice'");
    check(
        &both[1..],
        &[Some("copy"), Some("splice")],
        [Carrier::LocalSocket, Carrier::LocalSocket],
    );
    drop(relay);
    // Both nodes on one host are of one coordinator, which does not wait for itself.
    let alone = ["--allow-relay", "--exclusive"];
    let agent = Agent::start_by(inside("one", &[&listen[..], &alone].concat()));
    let beside = format!("relay={}", address("one"));
    check(
        &[&to[0], &beside],
        &[Some("copy"), Some("splice")],
        [Carrier::LocalSocket, Carrier::Agent],
    );
    drop(agent);
    expect(&bench.lab(&["down"]), 0, &[]);
}
