//! Clients that are not authorised to use an agent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::{Agent, Keys, command};
use crate::support::{expect, program};

#[test]
fn without_a_key_nothing_listens() {
    let folder = tempfile::TempDir::new().unwrap();
    let key = folder.path().join("key.pem");
    let output = command(&["agent"], &key).output().unwrap();
    expect(&output, 66, &["there is no key at", "create one with `fabricmark agent --new-key`"]);
    expect(&command(&["agent", "--new-key"], &key).output().unwrap(), 0, &[]);
    let again = command(&["agent", "--new-key"], &key).output().unwrap();
    expect(&again, 66, &["already exists: remove it first"]);
}

#[test]
fn a_coordinator_with_another_key_is_refused_and_told_what_to_do() {
    let (keys, others) = (Keys::new(), Keys::more());
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    let output = others.command(&["measure", "stream", &at]).output().unwrap();
    expect(&output, 65, &["this host does not know its key: run fabricmark pair on both hosts"]);
    let output = others.command(&["hosts", "show", &at]).output().unwrap();
    expect(&output, 65, &["this host does not know its key: run fabricmark pair on both hosts"]);
    assert!(output.stdout.is_empty());
    assert_eq!(agent.workers(), [0; 0]);
    agent.ends_well();
}

#[test]
fn nobody_who_listens_is_an_unreachable_agent() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    agent.ends_well();
    let output = keys.command(&["measure", "stream", &at]).output().unwrap();
    expect(&output, 65, &["refused the connection to", "start `fabricmark agent` there"]);
}

/// Thousands of connections that send something other than TLS, or half of a ClientHello, and stay open.
#[test]
fn strangers_cost_bounded_memory_and_keep_nobody_out() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &["--exclusive"]);
    let at = agent.address.to_string();
    expect(&keys.command(&["measure", "stream", &at, "-t", "50ms"]).output().unwrap(), 0, &[]);
    let before = agent.memory_bytes();
    // It goes on meanwhile, and frees its place.
    let running = keys.command(&["measure", "ping-pong", &at, "-t", "2s"]).spawn().unwrap();
    agent.wait_for_workers(1);
    let mut kept = Vec::new();
    for number in 0..3_000u32 {
        let mut stranger = TcpStream::connect(agent.address).unwrap();
        let words: &[u8] = match number % 3 {
            0 => b"GET / HTTP/1.1\r\n\r\n",
            // A handshake record that announces 16 KiB and contains one byte.
            1 => &[0x16, 0x03, 0x01, 0x3f, 0xff, 0x01],
            _ => &[],
        };
        stranger.write_all(words).unwrap();
        kept.push(stranger);
        if kept.len() > 900 {
            kept.remove(0);
        }
    }
    let output = keys.command(&["measure", "stream", &at, "-t", "50ms"]).output().unwrap();
    expect(&output, 0, &[]);
    expect(&running.wait_with_output().unwrap(), 0, &[]);
    let grown = agent.memory_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes");
    // A client that does not speak TLS has been disconnected.
    let mut said = Vec::new();
    let mut first = TcpStream::connect(agent.address).unwrap();
    first.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = first.read_to_end(&mut said);
    drop(kept);
    agent.ends_well();
}

/// More half-open connections than the agent may have descriptors.
#[test]
fn strangers_leave_descriptors_for_those_who_are_known() {
    let keys = Keys::new();
    let mut command = Command::new("sh");
    let limited = "ulimit -n 128 && exec \"$0\" agent --listen 127.0.0.1:0";
    command.args(["-c", limited]).arg(program()).env("FABRICMARK_KEY_FILE", keys.file());
    command.stderr(Stdio::piped());
    let agent = Agent::start_by(command);
    let at = agent.address.to_string();
    let half_open = || {
        let mut stranger = TcpStream::connect(agent.address).unwrap();
        stranger.write_all(&[0x16, 0x03, 0x01, 0x3f, 0xff, 0x01]).unwrap();
        stranger
    };
    let kept: Vec<TcpStream> = (0..100).map(|_| half_open()).collect();
    let output = keys.command(&["measure", "stream", &at, "-t", "50ms"]).output().unwrap();
    expect(&output, 0, &[]);
    drop(kept);
    agent.ends_well();
}
