//! Other tools against an agent, and this program against other tools. `crates/edge/interop` tests the protocols; these
//! tests check that the command line reaches them.

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{Agent, Keys};
use crate::schema::Published;
use crate::support::{expect, skip, stdout, wait_until};

/// A port that is free for both TCP and UDP.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn has_iperf3(test: &str) -> bool {
    let is_there = Command::new("iperf3").arg("--version").output().is_ok();
    if !is_there {
        skip(test, "iperf3 is not installed");
    }
    is_there
}

/// An agent that also serves another tool's protocol, on its own port.
fn agent_with(keys: &Keys, service: &str, words: &[&str]) -> (Agent, u16) {
    let port = free_port();
    let option = format!("--{service}={port}");
    let words: Vec<&str> = [option.as_str()].into_iter().chain(words.iter().copied()).collect();
    (Agent::start(keys, &words), port)
}

#[test]
fn an_iperf3_client_measures_to_an_agent() {
    if !has_iperf3("an_iperf3_client_measures_to_an_agent") {
        return;
    }
    let keys = Keys::new();
    let (agent, port) = agent_with(&keys, "iperf3", &[]);
    for host in ["127.0.0.1", "::1"] {
        let words = ["-c", host, "-p", &port.to_string(), "-t", "1", "-J"];
        let output = Command::new("iperf3").args(words).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let received = told["end"]["sum_received"]["bits_per_second"].as_f64();
        assert!(received.is_some_and(|bps| bps > 1e6), "{host}: {told}");
    }
    drop(agent);
}

struct Iperf3(Child, u16);

impl Iperf3 {
    fn serve(words: &[&str]) -> Self {
        let port = free_port();
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-p", &port.to_string()]).args(words);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let listens = format!(":{port:04X} ");
        wait_until(|| {
            let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
            tables.iter().any(|table| std::fs::read_to_string(table).unwrap().contains(&listens))
        });
        Self(child, port)
    }
}

impl Drop for Iperf3 {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_of_iperf3_is_the_other_end_of_a_measurement() {
    if !has_iperf3("a_server_of_iperf3_is_the_other_end_of_a_measurement") {
        return;
    }
    let keys = Keys::new();
    for (host, options) in [
        ("127.0.0.1", &["--transport", "tcp"][..]),
        ("127.0.0.1", &["--transport", "udp", "--rate", "20M"]),
        ("[::1]", &["--transport", "udp", "--rate", "20M", "-R"]),
    ] {
        let server = Iperf3::serve(&[]);
        let target = format!("{host}:{}", server.1);
        let words =
            ["measure", "stream", &target, "--peer", "iperf3", "-t", "1s", "--warm-up", "0s"];
        let mut command = keys.command(&words);
        let output = command.args(options).arg("--json").output().unwrap();
        expect(&output, 0, &[]);
        let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert!(told.to_string().contains(r#""carrier":"iperf3""#), "{told}");
        // By the server's report if this host sends, or by the time stamps that it receives.
        let jitter = &told["settings"][0]["figures"]["jitter_ns"]["value"];
        assert_eq!(jitter.is_number(), options.contains(&"udp"), "{options:?}: {jitter}");
    }
    // What iperf3 does not support is refused before anything is sent.
    let words = ["measure", "ping-pong", "127.0.0.1:1", "--peer", "iperf3", "-t", "1s"];
    let output = keys.command(&words).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn a_client_of_iperf3_prints_its_own_intervals_in_both_directions_at_once() {
    let keys = Keys::new();
    let (agent, port) = agent_with(&keys, "iperf3", &[]);
    let target = format!("127.0.0.1:{port}");
    let line = format!("measure stream {target} --peer iperf3 --warm-up 0s -i 400ms -t 1s --bidir");
    let output = keys.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
    expect(&output, 0, &[]);
    let text = stdout(&output);
    for direction in ["forward", "reverse"] {
        // 0.4, 0.8 and 1 s.
        let of = |line: &&str| line.contains(" s  ") && line.contains(direction);
        let lines: Vec<&str> = text.lines().filter(of).collect();
        assert_eq!(lines.len(), 3, "{direction}: {text}");
        // This host knows its own sockets.
        let has_tcp =
            |line: &&str| ["retransmits", "srtt", "cwnd"].iter().all(|word| line.contains(word));
        assert_eq!(lines.iter().all(has_tcp), direction == "forward", "{text}");
        assert!(text.contains(&format!("{direction} goodput")), "{text}");
    }
    let host = format!("{target} (unknown); ");
    assert!(text.contains(&host), "{text}");
    // The intervals have the omitted part, too.
    let line = format!("measure stream {target} --peer iperf3 --warm-up 0s -i 400ms -t 1s -O 1s");
    let output = keys.command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
    expect(&output, 0, &[]);
    assert!(stdout(&output).contains("goodput"), "{}", stdout(&output));
    drop(agent);
}

#[test]
fn a_reflector_of_an_agent_answers_who_has_its_key() {
    let (keys, folder) = (Keys::new(), TempDir::new().unwrap());
    let key = folder.path().join("stamp.key");
    std::fs::write(&key, "a secret of some length\n").unwrap();
    let key = key.display().to_string();
    let (agent, port) = agent_with(&keys, "stamp", &["--stamp-key", &key]);
    let target = format!("127.0.0.1:{port}");
    let words = ["rtt", &target, "-c", "20", "-i", "1ms", "--timeout", "300ms", "--json"];
    let known = keys.command(&words).args(["--stamp-key", &key]).output().unwrap();
    expect(&known, 0, &[]);
    let told: Value = serde_json::from_str(&stdout(&known)).unwrap();
    Published::named("rtt").holds(&told);
    assert_eq!((&told["sent"], &told["answered"]), (&Value::from(20), &Value::from(20)), "{told}");
    let stranger = keys.command(&words).output().unwrap();
    expect(&stranger, 65, &["no reply to 20 packets"]);
    drop(agent);
}
