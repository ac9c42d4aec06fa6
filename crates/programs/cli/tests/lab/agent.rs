//! Agents: real daemons on loopback, and in namespaces that represent hosts.

mod demands;
mod hosts;
mod life;
mod others;
mod relays;
mod service;
mod strangers;
mod trusted;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::MutexGuard;

use fabricmark_lab::Namespace;
use fabricmark_trust::Identity;
use tempfile::TempDir;

use crate::support::{Bench, alone, children, program, signal, wait_until};

/// Three hosts on a switch.
const THREE_HOSTS: &str = "[hosts.desk]\n[hosts.one]\n[hosts.two]\n[switches.middle]\n\
    [links.a]\nbetween = ['desk', 'middle']\n[links.b]\nbetween = ['one', 'middle']\n\
    [links.c]\nbetween = ['two', 'middle']\n";

/// A folder with the key that an agent and its coordinators share.
pub struct Keys {
    folder: TempDir,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Keys {
    /// Also locks the CPUs for this test.
    pub fn new() -> Self {
        let alone = alone();
        Self { _alone: Some(alone), ..Self::more() }
    }

    /// For a test that already holds the lock.
    pub fn more() -> Self {
        let keys = Self { folder: TempDir::new().unwrap(), _alone: None };
        Identity::generate().unwrap().save_new(&keys.file()).unwrap();
        keys
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// The program in a node of the lab of a bench, with these arguments and this key.
    pub fn inside(&self, bench: &Bench, node: &str, words: &[&str]) -> Command {
        let words = [&["exec", node, "--", program().to_str().unwrap()], words].concat();
        let mut command = bench.lab_command(&words);
        command.env("FABRICMARK_KEY_FILE", self.file()).env("XDG_STATE_HOME", bench.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The program with these arguments and this key.
    pub fn command(&self, words: &[&str]) -> Command {
        command(words, &self.file())
    }
}

fn command(words: &[&str], key: &Path) -> Command {
    let mut command = Command::new(program());
    command.args(words).env("FABRICMARK_KEY_FILE", key);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running agent; killed on drop.
pub struct Agent {
    child: Child,
    said: BufReader<ChildStderr>,
    pub address: SocketAddr,
}

impl Agent {
    /// Starts an agent on loopback, at a port that the kernel chooses.
    pub fn start(keys: &Keys, words: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", keys, words, None)
    }

    pub fn start_at(
        listen: &str,
        keys: &Keys,
        words: &[&str],
        namespace: Option<&Namespace>,
    ) -> Self {
        let mut command = keys.command(&["agent", "--listen", listen]);
        command.args(words);
        if let Some(namespace) = namespace {
            namespace.enter(&mut command);
        }
        Self::start_by(command)
    }

    /// Starts an agent by this command.
    pub fn start_by(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // Other services print first that they are ready.
        while !line.starts_with("listening at ") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
        }
        let address = line.trim_start_matches("listening at ").trim().parse().unwrap();
        Self { child, said, address }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// PIDs of its workers.
    pub fn workers(&self) -> Vec<u32> {
        children(self.id())
    }

    pub fn wait_for_workers(&self, count: usize) {
        wait_until(|| self.workers().len() == count);
    }

    /// Resident memory in bytes (proc(5)).
    pub fn memory_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.id())).unwrap();
        4096 * text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    }

    /// Stops the agent by SIGTERM; returns its exit status and the rest of its output.
    pub fn stop(mut self) -> (ExitStatus, String) {
        signal(self.id(), "TERM");
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        (status, rest)
    }

    /// Stops the agent; asserts that it exits with 0 and has printed nothing more.
    pub fn ends_well(self) {
        let (status, rest) = self.stop();
        assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
