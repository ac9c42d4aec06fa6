//! Compares runs in the lab with the same runs between two namespaces that represent two hosts.

use std::error::Error;
use std::path::Path;

use fabricmark_lab::{Lab, Namespace};
use fabricmark_record::Record;
use fabricmark_stats::{
    Better, Comparison, LATENCY_TIE, StopRule, THROUGHPUT_TIE, Verdict, holm, paired,
};
use fabricmark_wire::Link;
use serde_json::Value;

use crate::agent::{Agent, CONFIDENCE, command, told};

/// The links of `plans/ipv6-vs-ipv4.toml`.
const LINKS: [&str; 3] = ["veth", "ethernet:1G", "ethernet:10G,mtu=9000"];

/// The agent's address in the second namespace: that of the lab.
const AT: &str = "10.71.0.2";

/// A pattern and transport of that plan with one of its payloads, and how its figure is compared.
struct Setting {
    pattern: &'static str,
    transport: &'static str,
    payload: &'static str,
    better: Better,
    tie: f64,
}

const SETTINGS: [Setting; 4] =
    [stream("tcp", "32KiB"), stream("udp", "1KiB"), ping_pong("tcp", "64"), ping_pong("udp", "64")];

const fn stream(transport: &'static str, payload: &'static str) -> Setting {
    let (better, tie) = (Better::Higher, THROUGHPUT_TIE);
    Setting { pattern: "stream", transport, payload, better, tie }
}

const fn ping_pong(transport: &'static str, payload: &'static str) -> Setting {
    let (better, tie) = (Better::Lower, LATENCY_TIE);
    Setting { pattern: "ping-pong", transport, payload, better, tie }
}

/// Runs each setting over each link in pairs of adjacent runs, one in the lab and one between hosts; returns the exit
/// code of the comparison (`docs/exit-codes.md`). The runs are not divided into slices: slices of two levels need one
/// coordinator, and the lab and the hosts have one each.
pub fn hosts(program: &Path, pairs: usize, seconds: f64) -> Result<u8, Box<dyn Error>> {
    let rule = StopRule::of_runs(CONFIDENCE, pairs);
    let (mut names, mut comparisons) = (Vec::new(), Vec::<Comparison>::new());
    for link in LINKS {
        let lab = Lab::of_link(&link.parse::<Link>()?.into(), 1, None)?;
        let [client, server] = ["client", "server"].map(|node| lab.namespace(node));
        let agent = Agent::start(program, &format!("{AT}:7477"), server)?;
        for setting in &SETTINGS {
            let name = format!("{} {}, {link}", setting.transport, setting.pattern);
            let (mut in_lab, mut between_hosts) = (Vec::new(), Vec::new());
            for turn in 0..2 * pairs {
                // ABBA: a drift affects both alike.
                let is_hosts = (turn % 2 == 0) == (turn % 4 < 2);
                let lab = format!("lab:{link}");
                let (target, namespace, values) = match is_hosts {
                    true => (AT, client, &mut between_hosts),
                    false => (lab.as_str(), None, &mut in_lab),
                };
                let value = measure(program, &agent, setting, target, namespace, seconds);
                values.push(value.map_err(|error| format!("{name}, {target}: {error}"))?);
            }
            eprintln!("{name}: {pairs} pairs");
            let Setting { better, tie, .. } = *setting;
            let comparison = paired(&in_lab, &between_hosts, &rule, better, tie);
            comparisons.push(comparison.ok_or("--pairs must be at least 2")?);
            names.push(name);
        }
    }
    holm(&mut comparisons);
    println!("hosts / lab in {pairs} pairs of {seconds} s:");
    for (name, comparison) in names.iter().zip(&comparisons) {
        let (ratio, verdict) = (told(Some(&comparison.ratio())), comparison.verdict);
        println!("  {name:40} {ratio:26} {verdict}");
    }
    let some = |verdict| comparisons.iter().any(|one| one.verdict == verdict);
    Ok(match () {
        () if some(Verdict::Faster) || some(Verdict::Slower) => 1,
        () if some(Verdict::Inconclusive) => 2,
        () => 0,
    })
}

/// The deciding figure of one run.
fn measure(
    program: &Path,
    agent: &Agent,
    setting: &Setting,
    target: &str,
    namespace: Option<&Namespace>,
    seconds: f64,
) -> Result<f64, Box<dyn Error>> {
    let Setting { pattern, transport, payload, .. } = setting;
    let duration = format!("{}ms", 1e3 * seconds);
    let mut words = vec!["measure", pattern, target, "--transport", transport];
    words.extend(["--payload", payload, "--duration", &duration, "--json"]);
    let mut command = command(program, &agent.key(), &words);
    if let Some(namespace) = namespace {
        namespace.enter(&mut command);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let mut answer: Value = serde_json::from_slice(&output.stdout)?;
    let records: Vec<Record> = serde_json::from_value(answer["records"].take())?;
    let counted = records.iter().filter(|record| !record.place.warm_up);
    counted.filter_map(Record::deciding_value).next().ok_or_else(|| "no valid run".into())
}
