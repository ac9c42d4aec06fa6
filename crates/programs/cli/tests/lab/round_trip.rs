//! Paper P5's round-trip protocol between processes in hosts of a lab.

use std::process::Stdio;

use crate::agent::{Agent, Keys};
use crate::schema::Published;
use crate::support::{bench, expect, program, stdout};

#[test]
fn the_members_of_a_multicast_group_answer_across_two_switches() {
    let Some(bench) = bench("a multicast group") else { return };
    let file = format!("{}/../../../plans/labs/switch.toml", env!("CARGO_MANIFEST_DIR"));
    expect(&bench.lab(&["up", &file]), 0, &["is up"]);
    let program = program().to_str().unwrap();
    let keys = Keys::more();
    let key = keys.file();
    let groups = ["239.71.0.1", "ff15::71"];
    let agents = ["server1", "server2"].map(|host| {
        let exec = ["exec", host, "--", program, "agent", "--listen", "127.0.0.1:0", "--apdu"];
        let allowed = ["--allow", "10.71.0.0/16", "--allow", "fd71::/16"];
        let joined = ["--apdu-group", groups[0], "--apdu-group", groups[1]];
        let mut command = bench.lab_command(&[&exec[..], &allowed, &joined].concat());
        command.env("FABRICMARK_KEY_FILE", &key).stderr(Stdio::piped());
        Agent::start_by(command)
    });
    for group in groups {
        let exec = ["exec", "client1", "--", program, "rtt", group, "--protocol", "apdu", "--json"];
        let how = ["--device", "access1", "--count", "20", "--interval", "5ms", "--timeout", "1s"];
        let output = bench.lab(&[&exec[..], &how].concat());
        expect(&output, 0, &[]);
        let members: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        Published::named("rtt").holds(&members);
        let members = members.as_array().unwrap();
        assert_eq!(members.len(), 2, "{members:?}");
        for member in members {
            assert_eq!(member["sent"], 20, "{member}");
            // Until the members know the client's link-layer address, a few answers may be dropped.
            assert!(member["answered"].as_u64().unwrap() >= 15, "{member}");
            // The trunk delays by 1 ms each way.
            assert!(member["rtt"]["min_ns"].as_u64().unwrap() >= 2_000_000, "{member}");
        }
    }
    drop(agents);
    expect(&bench.lab(&["down"]), 0, &[]);
}
