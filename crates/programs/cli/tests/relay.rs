//! `fabricmark relay` as a process: what it prints, its signals and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fabricmark_testkit::skip;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::Value;

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
    command.arg("relay").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A relay to a listening socket of the test; killed on drop.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    at: SocketAddr,
    target: TcpListener,
}

impl Running {
    fn start(words: &[&str]) -> Self {
        let target = TcpListener::bind("127.0.0.1:0").unwrap();
        // A connection that the relay does not open must fail the test, and not stop it.
        set_socket_timeout(&target, Timeout::Recv, Some(Duration::from_secs(20))).unwrap();
        let forward = target.local_addr().unwrap().to_string();
        let always = ["--listen", "127.0.0.1:0", "--forward", &forward];
        let mut child = command(&[&always[..], words].concat()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[0], words[2], words[3]), ("relaying", "to", &*format!("{forward},")));
        Self { child, out, at: words[1].parse().unwrap(), target }
    }

    /// Sends bytes through the relay, as a client that then ends the connection.
    fn transfer(&self, bytes: usize) {
        let mut client = TcpStream::connect(self.at).unwrap();
        let (mut server, _) = self.target.accept().unwrap();
        client.write_all(&vec![7; bytes]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.read_to_end(&mut Vec::new()).unwrap(), bytes);
        drop(server);
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended");
        line
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_transfer_is_logged_with_p5s_times_and_the_ratio_to_the_line() {
    let mut relay = Running::start(&["--json", "--log", "--line", "100M", "--buffer", "8192B"]);
    relay.transfer(7_990);
    let logged = relay.json();
    assert_eq!(logged["event"], "connection");
    assert_eq!(logged["outcome"], "ended");
    let (up, down) = (&logged["upstream"], &logged["downstream"]);
    assert_eq!((&up["bytes"], &down["bytes"]), (&7_990.into(), &0.into()));
    assert!(down["switching_ns"].is_null());
    let ns = |key: &str| up[key].as_f64().unwrap();
    assert!(ns("receiving_ns") <= ns("switching_ns") && ns("sending_ns") <= ns("switching_ns"));
    let bps = 8e9 * 7_990.0 / ns("switching_ns");
    assert!((ns("switching_bps") / bps - 1.0).abs() < 1e-9);
    assert!((ns("switching_to_line") / (bps / 1e8) - 1.0).abs() < 1e-9);
}

#[test]
fn counters_are_printed_at_a_signal_and_at_the_end_and_open_connections_are_awaited() {
    let mut relay = Running::start(&["--json"]);
    relay.transfer(100);
    let mut client = TcpStream::connect(relay.at).unwrap();
    let (server, _) = relay.target.accept().unwrap();
    relay.signal("USR1");
    let counters = relay.json();
    assert_eq!(counters["event"], "counters");
    assert_eq!((&counters["accepted"], &counters["open"]), (&2.into(), &1.into()));
    assert_eq!(counters["upstream"]["bytes"], 100);
    assert_eq!(counters["upstream"]["switching"]["count"], 1);
    relay.signal("TERM");
    // Once these counters are read, the relay has said on standard error that it waits; nobody reads that any more.
    relay.signal("USR1");
    assert_eq!(relay.json()["open"], 1);
    client.write_all(b"still here").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    drop(server);
    let counters = relay.json();
    assert_eq!(counters["open"], 0);
    assert_eq!(relay.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_signal_a_second_later_resets_open_connections_and_prints_the_counters() {
    let mut relay = Running::start(&["--json"]);
    let mut client = TcpStream::connect(relay.at).unwrap();
    let (mut server, _) = relay.target.accept().unwrap();
    relay.signal("TERM");
    // Once these counters are read, the relay knows of the first signal.
    relay.signal("USR1");
    assert_eq!(relay.json()["open"], 1);
    let later = Instant::now() + Duration::from_millis(1_200);
    while Instant::now() < later {
        std::thread::yield_now();
    }
    relay.signal("TERM");
    for end in [&mut client, &mut server] {
        let error = end.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(relay.json()["open"], 0);
    assert_eq!(relay.child.wait().unwrap().code(), Some(130));
}

#[test]
fn text_names_the_counts() {
    let mut relay = Running::start(&["--log"]);
    relay.transfer(1_000);
    let line = relay.line();
    for part in [" ended after ", "upstream 1000 bytes in ", "downstream 0 bytes"] {
        assert!(line.contains(part), "no {part:?} in {line}");
    }
    relay.signal("INT");
    let line = relay.line();
    assert!(line.starts_with("connections  1 accepted, 0 open, 1 ended"), "{line}");
    assert_eq!(relay.child.wait().unwrap().code(), Some(0));
}

/// CPU time of a process in seconds: fields 14 and 15 of /proc/PID/stat, in 1/100 s.
fn cpu_s(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
    [11, 12].iter().map(|&field| fields[field].parse::<f64>().unwrap() / 100.0).sum()
}

#[test]
fn a_relay_without_descriptors_waits_without_spinning_and_goes_on_when_it_has_some() {
    let mut relay = Running::start(&["--json"]);
    let pid = relay.child.id();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    // Room for two connections and a half.
    let limit = Rlimit { current: Some(open + 5), maximum: Some(open + 5) };
    prlimit(Pid::from_raw(pid as i32), Resource::Nofile, limit).unwrap();
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let client = TcpStream::connect(relay.at).unwrap();
        pairs.push((client, relay.target.accept().unwrap().0));
    }
    // The kernel accepts it; the relay can have its descriptor, and none for the target, or neither.
    let third = TcpStream::connect(relay.at).unwrap();
    third.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let before_s = cpu_s(pid);
    let is_waiting = (&third).read(&mut [0; 1]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
    let spent_s = cpu_s(pid) - before_s;
    assert!(spent_s < 0.3, "{spent_s} s of CPU time in a second");
    let (client, server) = &mut pairs[0];
    client.write_all(b"unharmed").unwrap();
    server.read_exact(&mut [0; 8]).unwrap();
    drop(pairs);
    if is_waiting {
        drop(relay.target.accept().unwrap());
    }
    drop(third);
    relay.transfer(1_000);
    relay.signal("TERM");
    let counters = relay.json();
    assert!(counters["exhausted"].as_u64().unwrap() >= 1, "{counters}");
    assert_eq!(counters["open"], 0);
}

#[test]
fn a_relay_without_descriptors_drains_without_spinning() {
    let mut relay = Running::start(&["--json"]);
    let pid = relay.child.id();
    let client = TcpStream::connect(relay.at).unwrap();
    let (server, _) = relay.target.accept().unwrap();
    // No descriptor below the limit is free.
    let is_open = |number: &u64| fs::exists(format!("/proc/{pid}/fd/{number}")).unwrap();
    let limit = (0..).find(|number| !is_open(number));
    let limit = Rlimit { current: limit, maximum: limit };
    prlimit(Pid::from_raw(pid as i32), Resource::Nofile, limit).unwrap();
    // It waits in the backlog.
    let second = TcpStream::connect(relay.at).unwrap();
    relay.signal("TERM");
    relay.signal("USR1");
    assert_eq!(relay.json()["open"], 1);
    let before_s = cpu_s(pid);
    client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!((&client).read(&mut [0; 1]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock));
    let spent_s = cpu_s(pid) - before_s;
    assert!(spent_s < 0.3, "{spent_s} s of CPU time in a second");
    drop((client, server, second));
    assert!(relay.json()["exhausted"].as_u64().unwrap() >= 1);
}

#[test]
fn thousands_of_connections_are_served_at_once() {
    // As many as the usual hard limits of CI machines allow: the test has two descriptors for each, as has the relay.
    const CONNECTIONS: usize = 4_000;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < 3 * CONNECTIONS as u64) {
        return skip("thousands of connections", "the limit of open files is too low");
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let connections = CONNECTIONS.to_string();
    let mut relay = Running::start(&["--json", "--threads", "2", "--connections", &connections]);
    let mut pairs = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = TcpStream::connect(relay.at).unwrap();
        pairs.push((client, relay.target.accept().unwrap().0));
    }
    // The order in which two threads connect to the target is not that of the clients: each client sends its number.
    for (number, (client, _)) in pairs.iter_mut().enumerate() {
        client.write_all(&(number as u32).to_be_bytes()).unwrap();
    }
    let mut seen = vec![false; CONNECTIONS];
    for (_, server) in &mut pairs {
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).unwrap();
        seen[u32::from_be_bytes(bytes) as usize] = true;
        server.write_all(&bytes).unwrap();
    }
    assert!(seen.iter().all(|&seen| seen));
    for (number, (client, _)) in pairs.iter_mut().enumerate() {
        let mut bytes = [0; 4];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(u32::from_be_bytes(bytes) as usize, number);
    }
    drop(pairs);
    relay.signal("TERM");
    let counters = relay.json();
    assert_eq!(counters["ended"], CONNECTIONS);
}

#[test]
fn what_cannot_be_relayed_is_refused_with_its_exit_code() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let refused = |words: &[&str]| -> Output { command(words).output().unwrap() };
    for (words, code, part) in [
        (&["--listen", "127.0.0.1:0"][..], 64, "--forward"),
        (&["--listen", "here", "--forward", "[::1]:9"], 64, "`here` is not an address"),
        (&["--listen", "127.0.0.1", "--forward", "[::1]:9"], 64, "write 127.0.0.1:9000"),
        (&["--listen", "::1", "--forward", "[::1]:9"], 64, "write [::1]:9000"),
        (&["--listen", "127.0.0.1:0", "--forward", "127.0.0.1"], 64, "has no port"),
        (
            &["--listen", "127.0.0.1:0", "--forward", "host.invalid:9"],
            65,
            "cannot resolve the name host.invalid",
        ),
        (&["--listen", &taken, "--forward", "[::1]:9"], 67, "cannot listen at"),
        (
            &["--listen", "127.0.0.1:0", "--forward", "[::1]:9", "--connections", "99999999999"],
            66,
            "99999999999 connections need 200000000065 descriptors",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--forward",
                "[::1]:9",
                "--transport",
                "udp",
                "--send-proxy",
            ],
            64,
            "PROXY headers are for TCP",
        ),
        (
            &["--listen", "127.0.0.1:0", "--forward", "[::1]:9", "--transport", "udp", "--log"],
            64,
            "--log and --line are for TCP",
        ),
        (
            &["--listen", "127.0.0.1:0", "--forward", "[::1]:9", "--idle-timeout", "0s"],
            64,
            "an idle timeout of 0",
        ),
        (
            &["--listen", "127.0.0.1:0", "--forward", "[::1]:9", "--buffer", "1GiB"],
            64,
            "use 1B to 16MiB",
        ),
    ] {
        let output = refused(words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: no {part:?} in {text}");
    }
}
