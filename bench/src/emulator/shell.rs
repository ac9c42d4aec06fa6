//! A shell of mahimahi: its own network namespace, connected to the surrounding one by two TUN devices and a process
//! for each direction.
//!
//! mahimahi must be started by an unprivileged user and becomes root by setuid, so it is started as nobody. The
//! surrounding namespace is a new one, so that this machine's network is not changed.

use std::fs::{self, Permissions};
use std::io::{self, PipeWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fabricmark_lab::{Namespace, Role};
use tempfile::TempDir;

use crate::contender::{Failure, GRACE, with_reason, words};
use crate::emulation::QUEUE_MS;
use crate::peer::is_on_path;
use crate::place::{emulator_cpu, pinned};
use crate::process::{Running, command};

/// Setup of the surrounding namespace: what mahimahi's check_requirements demands, and loopback up.
const AROUND: &str = "ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_forward";

/// Runs inside until its input ends; prints its PID and the address of the other end.
const INSIDE: &str = "echo $$ $MAHIMAHI_BASE; exec cat";

/// nobody and nogroup of Debian (base-passwd).
const NOBODY: u32 = 65_534;

/// Name of the trace file, in its own folder.
const TRACE: &str = "trace";

/// A running shell. The client runs inside it, the server in the surrounding namespace.
#[derive(Debug)]
pub struct Shell {
    around: Namespace,
    running: Running,
    /// Standard input of the process inside; closing it ends the shell.
    input: Option<PipeWriter>,
    /// PID of the process inside.
    inside: u32,
    address: String,
    _folder: TempDir,
}

impl Shell {
    /// Starts one of mahimahi's programs, with a trace file if it needs one.
    pub fn start(line: &str, trace: Option<&str>) -> Result<Self, Failure> {
        let program = line.split(' ').next().unwrap_or_default();
        if !is_on_path(program) {
            return Err(Failure::NotOffered(format!("{program} is not on PATH")));
        }
        let folder = TempDir::new()?;
        if let Some(trace) = trace {
            write_for_all(folder.path(), trace)?;
        }
        let around = Namespace::new()?;
        let prepared = within(&around, &["sh", "-c", AROUND].map(str::to_owned)).status()?;
        if !prepared.success() {
            return Err(Failure::Failed("cannot prepare a namespace for mahimahi".to_owned()));
        }
        let mut line =
            words(&format!("setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups -- {line}"));
        line.extend(["sh", "-c", INSIDE].map(str::to_owned));
        let mut command = within(&around, &pinned(emulator_cpu().unwrap_or(0) as usize, &line));
        let (reader, writer) = io::pipe()?;
        command.stdin(reader).current_dir(folder.path());
        let running = Running::start(&mut command)?;
        // Close the read end here: only the process inside may hold it.
        drop(command);
        let Some((inside, address)) = await_inside(&running)? else {
            let failure = Failure::Failed(format!("{program} ended at once"));
            // A program that does not start here does not start in the next round either.
            let failure = with_reason(failure, &running.finish()?);
            return Err(Failure::NotOffered(failure.to_string()));
        };
        Ok(Self { around, running, input: Some(writer), inside, address, _folder: folder })
    }

    /// The server's address, as seen by the client.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A command at one end.
    pub fn command(&self, role: Role, line: &[String]) -> Command {
        match role {
            Role::Server => within(&self.around, line),
            Role::Client => {
                let enter = words(&format!("--target {} --net --", self.inside));
                command("nsenter", &[&enter, line].concat())
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // mahimahi ends its children, which lead their own process groups.
        drop(self.input.take());
        let _ = self.running.has_ended(GRACE);
    }
}

fn within(namespace: &Namespace, line: &[String]) -> Command {
    let mut command = command(&line[0], &line[1..]);
    namespace.enter(&mut command);
    command
}

/// Waits for the line printed inside: PID and address of the other end. `None` if the shell ends first.
fn await_inside(running: &Running) -> Result<Option<(u32, String)>, Failure> {
    const LOOK_EVERY: Duration = Duration::from_millis(2);
    for _ in 0..GRACE.as_millis() / LOOK_EVERY.as_millis() {
        if let Some(found) = said_inside(&running.printed()?) {
            return Ok(Some(found));
        }
        if running.has_ended(LOOK_EVERY)? {
            return Ok(None);
        }
    }
    Err(Failure::Failed(format!("mahimahi is not ready after {GRACE:?}")))
}

/// Parses `32606 10.0.0.1`, including the newline.
fn said_inside(text: &str) -> Option<(u32, String)> {
    let (line, _) = text.split_once('\n')?;
    let (process, address) = line.split_once(' ')?;
    Some((process.parse().ok()?, address.to_owned()))
}

fn write_for_all(folder: &Path, text: &str) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let file = folder.join(TRACE);
    fs::write(&file, text)?;
    fs::set_permissions(file, Permissions::from_mode(0o644))
}

/// Bits of an IP packet that uses a whole delivery opportunity of a trace: 1500 bytes, to which the TUN device adds a
/// header of 4 (PACKET_SIZE in mahimahi's `queued_packet.hh` is 1504).
const CHANCE_BITS: u64 = 12_000;

/// Period of a trace in milliseconds: a whole number of opportunities at multiples of 4 Mbit/s.
const PERIOD_MS: u64 = 3;

/// A trace with a constant rate: a line with the millisecond of each delivery opportunity, mahimahi's resolution.
pub fn trace(rate_mbps: u32) -> String {
    let chances = u64::from(rate_mbps) * 1000 * PERIOD_MS / CHANCE_BITS;
    (1..=chances).map(|chance| format!("{}\n", (PERIOD_MS * chance).div_ceil(chances))).collect()
}

/// The mm-link command with that trace in both directions, and a limited queue. The final `--` keeps it from parsing
/// the options of the inner command.
pub fn link(rate_mbps: u32) -> String {
    let waiting_bytes = u64::from(rate_mbps) * 1000 / 8 * u64::from(QUEUE_MS);
    format!(
        "mm-link {TRACE} {TRACE} --uplink-queue=droptail --uplink-queue-args=bytes={waiting_bytes} \
         --downlink-queue=droptail --downlink-queue-args=bytes={waiting_bytes} --"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_a_line_for_each_packet_of_its_rate() {
        let slow = trace(100);
        let lines: Vec<u64> = slow.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(lines.len(), 25, "100 Mbit/s are 25 packets of 1500 bytes in 3 ms");
        assert!(lines.is_sorted() && lines[0] == 1 && lines[24] == 3);
        let of = |millisecond| lines.iter().filter(|&&line| line == millisecond).count();
        assert_eq!([of(1), of(2), of(3)], [8, 8, 9]);
        assert_eq!(trace(1000).lines().count(), 250);
    }

    #[test]
    fn the_queue_of_a_link_is_50_ms_of_its_rate() {
        assert!(link(100).contains("--uplink-queue-args=bytes=625000"));
    }

    #[test]
    fn a_shell_says_where_it_is_in_a_whole_line() {
        assert_eq!(said_inside("32606 10.0.0.1\n"), Some((32_606, "10.0.0.1".to_owned())));
        assert_eq!(said_inside("32606 10.0."), None, "more is to come");
    }
}
