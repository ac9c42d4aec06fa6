//! A relay under clients that close and reset at random, for as long as is asked: whether it loses a byte, and whether
//! its memory and its descriptors stay as they are. Results are in `docs/relay.md`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program: it prints")]

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use rand_core::Rng;
use rustix::process::{Pid, Signal, kill_process};

/// Longest payload of a connection in bytes: more than fits into the buffers of the sockets and of the relay.
const PAYLOAD_MAX: u32 = 3 << 20;

/// No client waits longer for a socket.
const PATIENCE: Duration = Duration::from_secs(30);

/// Memory that may be gained after the first minute, in KiB: a histogram per kind of time, allocated on first use.
const GAIN_MAX_KIB: u64 = 1024;

/// Descriptors besides those of open connections: its own, and the 64 pipes that each of its two threads keeps.
const DESCRIPTORS_BESIDE: usize = 300;

/// A relay under clients that close and reset at random
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Options {
    /// The program to judge [default: the fabricmark beside this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// How long
    #[arg(long, default_value_t = 2)]
    minutes: u64,
    /// Clients at a time
    #[arg(long, default_value_t = 16)]
    clients: u64,
    /// How bytes pass through the relay
    #[arg(long, default_value = "copy")]
    path: String,
}

fn main() -> ExitCode {
    match harass(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fabricmark-bench-chaos: {error}");
            // RunFailed of docs/exit-codes.md.
            67.into()
        }
    }
}

fn harass(options: &Options) -> Result<(), Box<dyn Error>> {
    let here = env::current_exe()?;
    let beside = here.parent().ok_or("this program has no folder")?.join("fabricmark");
    let program = options.program.clone().unwrap_or(beside);
    let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut relay = Relay::start(&program, &options.path, target.local_addr()?)?;
    thread::spawn(move || echo(&target));
    let until = Instant::now() + Duration::from_secs(60 * options.minutes);
    let (at, count) = (relay.at, &AtomicU64::new(0));
    let mut first_kib = None;
    let outcome: Result<(), String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..options.clients)
            .map(|client| {
                scope.spawn(move || {
                    let mut random = rand_pcg::Pcg64Mcg::new(u128::from(client) << 1 | 1);
                    while Instant::now() < until {
                        connection(at, &mut random)
                            .map_err(|error| format!("client {client}: {error}"))?;
                        count.fetch_add(1, Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        for minute in 1..=options.minutes {
            let next = until - Duration::from_secs(60 * (options.minutes - minute));
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let (kib, descriptors) = relay.holds().map_err(|error| error.to_string())?;
            let first = *first_kib.get_or_insert(kib);
            // Connections that are open, and pipes that are kept for the next ones.
            if descriptors > DESCRIPTORS_BESIDE + 6 * options.clients as usize {
                return Err(format!("the relay has {descriptors} descriptors"));
            }
            let connections = count.load(Relaxed);
            println!(
                "{minute} min: {connections} connections, {kib} KiB, {descriptors} descriptors"
            );
            if kib > first + GAIN_MAX_KIB {
                return Err(format!("the relay gained {} KiB", kib - first));
            }
        }
        clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| Err("panic".to_owned())))
    });
    outcome?;
    let counters = relay.finish()?;
    println!("{counters}");
    let counters: serde_json::Value = serde_json::from_str(&counters)?;
    let expected = count.load(Relaxed);
    if counters["accepted"] != expected || counters["open"] != 0 || counters["aborted"] != 0 {
        return Err(format!("{expected} connections were made and ended").into());
    }
    Ok(())
}

/// A running relay; killed on drop.
struct Relay {
    child: Child,
    out: BufReader<ChildStdout>,
    at: SocketAddr,
}

impl Relay {
    fn start(program: &PathBuf, path: &str, target: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(program)
            .args(["relay", "--json", "--threads", "2", "--listen", "127.0.0.1:0", "--path", path])
            .args(["--forward", &target.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (out, errors) = pipes.ok_or("the relay has no pipes")?;
        let mut line = String::new();
        BufReader::new(errors).read_line(&mut line)?;
        let at = line.split_whitespace().nth(1).ok_or("the relay did not start")?.parse()?;
        Ok(Self { child, out: BufReader::new(out), at })
    }

    /// Resident memory in KiB, and open descriptors.
    fn holds(&self) -> Result<(u64, usize), Box<dyn Error>> {
        let folder = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{folder}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let kib = kib.ok_or("no VmRSS in /proc/PID/status")?;
        Ok((kib, fs::read_dir(format!("{folder}/fd"))?.count()))
    }

    /// Ends it in order; its counters.
    fn finish(&mut self) -> Result<String, Box<dyn Error>> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).ok_or("no process")?;
        kill_process(pid, Signal::TERM)?;
        let mut counters = String::new();
        self.out.read_line(&mut counters)?;
        Ok(counters.trim_end().to_owned())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends back what each connection sends. A connection that is reset ends its thread only.
fn echo(target: &TcpListener) {
    for server in target.incoming().flatten() {
        thread::spawn(move || {
            let _ = server.try_clone().and_then(|mut from| io::copy(&mut from, &mut &server));
        });
    }
}

/// A connection: one of three sends all and must receive the same, one closes early, one resets.
fn connection(at: SocketAddr, random: &mut impl Rng) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let mut stream = TcpStream::connect(at).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(text)?;
    let mut sent = vec![0; 1 + (random.next_u32() % PAYLOAD_MAX) as usize];
    random.fill_bytes(&mut sent);
    let part = random.next_u32() as usize % sent.len();
    match random.next_u32() % 3 {
        0 => {
            let write = || -> io::Result<()> {
                (&stream).write_all(&sent)?;
                stream.shutdown(Shutdown::Write)
            };
            let mut received = Vec::with_capacity(sent.len());
            let (written, read) = thread::scope(|scope| {
                let writer = scope.spawn(write);
                let read = (&stream).read_to_end(&mut received);
                (writer.join(), read)
            });
            written.map_err(|_| "panic")?.map_err(text)?;
            read.map_err(text)?;
            if received != sent {
                let (was, is) = (sent.len(), received.len());
                return Err(format!("{was} bytes were sent, and {is} others came back"));
            }
        }
        1 => {
            let _ = stream.write(&sent[..part]);
        }
        _ => {
            let _ = stream.write(&sent[..part]);
            let socket: socket2::Socket = stream.into();
            socket.set_linger(Some(Duration::ZERO)).map_err(text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_documents_are_accepted() {
        fabricmark_testkit::documents::assert_accepted("fabricmark-bench-chaos", |words| {
            Options::try_parse_from(words)
        });
    }
}
