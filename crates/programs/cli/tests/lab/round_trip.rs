//! Paper P5's round-trip protocol between processes in hosts of a lab.

use std::process::Stdio;

use crate::agent::{Agent, Keys};
use crate::support::{bench, expect, program, stdout};

#[test]
fn a_member_of_a_multicast_group_answers_across_a_link() {
    let Some(bench) = bench("a multicast group") else { return };
    bench.up(
        "[hosts.one]\n[hosts.two]\n[links.wire]\nbetween = ['one', 'two']\nwords = 'rtt=2ms'\n",
    );
    let program = program().to_str().unwrap();
    let keys = Keys::more();
    let groups = ["239.71.0.1", "ff15::71"];
    let exec = ["exec", "two", "--", program, "agent", "--listen", "127.0.0.1:0", "--apdu"];
    let allowed = ["--allow", "10.71.0.0/16", "--allow", "fd71::/16"];
    let joined = ["--apdu-group", groups[0], "--apdu-group", groups[1]];
    let mut command = bench.lab_command(&[&exec[..], &allowed, &joined].concat());
    command.env("FABRICMARK_KEY_FILE", keys.file()).stderr(Stdio::piped());
    let agent = Agent::start_by(command);
    for group in groups {
        let exec = ["exec", "one", "--", program, "rtt", group, "--protocol", "apdu", "--json"];
        let how = ["--device", "wire", "--count", "20", "--interval", "5ms", "--timeout", "1s"];
        let output = bench.lab(&[&exec[..], &how].concat());
        expect(&output, 0, &[]);
        let members: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let members = members.as_array().unwrap();
        assert_eq!(members.len(), 1, "{members:?}");
        let member = &members[0];
        assert_eq!((&member["sent"], &member["answered"]), (&20.into(), &20.into()), "{member}");
        assert!(member["rtt"]["min_ns"].as_u64().unwrap() >= 2_000_000, "{member}");
    }
    drop(agent);
}
