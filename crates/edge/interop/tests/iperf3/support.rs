//! Our server, the iperf3 server and the iperf3 client as fixtures.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use fabricmark_interop::Guard;
use fabricmark_interop::iperf3::{Authentication, serve};
use fabricmark_testkit::skip;
use serde_json::Value;

pub const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Whether the programs exist; if not, the test is reported as skipped.
pub fn has(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        let argument = if **program == "openssl" { "version" } else { "--version" };
        Command::new(program).arg(argument).output().is_err()
    });
    if let Some(program) = missing {
        skip(test, &format!("there is no program {program}"));
    }
    missing.is_none()
}

/// Whether network namespaces can be created; if not, the test is reported as skipped.
pub fn may_unshare(test: &str) -> bool {
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    let may = probe.is_ok_and(|output| output.status.success());
    if !may {
        skip(test, "network namespaces need root");
    }
    may
}

/// A TCP listener whose port is also free for UDP.
pub fn listener(address: IpAddr) -> TcpListener {
    loop {
        let listener = TcpListener::bind((address, 0)).unwrap();
        if UdpSocket::bind(listener.local_addr().unwrap()).is_ok() {
            return listener;
        }
    }
}

/// Our server; stops on drop.
pub struct Ours {
    pub at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ours {
    pub fn new(address: IpAddr, guard: Guard, authentication: Option<Authentication>) -> Self {
        let listener = listener(address);
        let at = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            serve(&listener, &guard, authentication, &stopping).unwrap();
        });
        Self { at, stop, thread: Some(thread) }
    }

    /// Stops it and waits for its end.
    pub fn stop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Runs the iperf3 client with these arguments to its end.
    pub fn client(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The iperf3 client with these arguments, not started.
    pub fn command(&self, arguments: &str) -> Command {
        let (ip, port) = (self.at.ip().to_string(), self.at.port().to_string());
        let mut command = Command::new("timeout");
        command.args(["30", "iperf3", "-c", &ip, "-p", &port, "-J"]);
        command.args(arguments.split_whitespace());
        command
    }

    /// `end` of the JSON that the iperf3 client prints; the client must succeed.
    pub fn end(&self, arguments: &str) -> Value {
        let output = self.client(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut json: Value = serde_json::from_str(&text).unwrap();
        assert!(output.status.success(), "{arguments}: {}", json["error"]);
        assert_eq!(json["error"], Value::Null, "{arguments}");
        json["end"].take()
    }

    /// The error that the iperf3 client prints; the client must fail.
    pub fn error(&self, arguments: &str) -> String {
        error_of(&self.client(arguments))
    }
}

/// The error in the client's JSON; iperf3 up to 3.12 exits with 0 after an error in JSON mode.
pub fn error_of(output: &Output) -> String {
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["error"].as_str().unwrap().to_owned()
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An iperf3 server; ends on drop.
pub struct Theirs {
    pub at: SocketAddr,
    child: Child,
}

impl Theirs {
    /// Returns when the server listens.
    pub fn new(address: IpAddr, arguments: &[&str]) -> Self {
        let at = listener(address).local_addr().unwrap();
        let (ip, port) = (at.ip().to_string(), at.port().to_string());
        let mut child = Command::new("timeout")
            .args(["60", "iperf3", "-s", "-B", &ip, "-p", &port, "--forceflush"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("Server listening")));
        // The rest of the output is discarded, but the pipe must stay open.
        thread::spawn(move || lines.for_each(drop));
        Self { at, child }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // `timeout` forwards SIGTERM to iperf3.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").arg(id).status();
        let _ = self.child.wait();
    }
}
