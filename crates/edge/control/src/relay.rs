//! The relay of a part of a run: a process of this program, in the namespace of its node.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fabricmark_judge::RelayTimes;
use fabricmark_lab::Namespace;
use fabricmark_plan::{Direction, Pattern, Point};
use fabricmark_proto::OPENING_BYTES;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;

use crate::error::PlanError;

/// Where a relay runs.
pub(crate) struct RelayPlace<'a> {
    /// `None`: that of this process.
    pub(crate) namespace: Option<&'a Namespace>,
    /// Where it listens.
    pub(crate) address: IpAddr,
    /// From where it may connect to the server.
    pub(crate) sources: Vec<IpAddr>,
}

impl RelayPlace<'_> {
    /// A relay beside the server.
    pub(crate) fn at_server(server: IpAddr) -> Self {
        Self { namespace: None, address: server, sources: vec![server] }
    }
}

/// A relay that listens; killed on drop.
pub(crate) struct Relay {
    child: Child,
    at: SocketAddr,
    /// Key of the direction of the stream in its output.
    direction: &'static str,
    /// Bytes of a connection that counts; `None`: any.
    bytes: Option<u64>,
}

impl Relay {
    /// Starts a relay to the server of a point's flows, on any of `cpus`.
    pub(crate) fn start(
        program: &Path,
        place: &RelayPlace<'_>,
        cpus: impl Iterator<Item = u32>,
        point: &Point,
        server: SocketAddr,
    ) -> Result<Self, PlanError> {
        let failed = PlanError::system("start a relay");
        let path = point.relay.map_or_else(|| "copy".to_owned(), |path| path.to_string());
        let mut command = Command::new(program);
        command.args(["relay", "--json", "--log", "--drain-timeout", "5s", "--path", &path]);
        command.args(["--listen", &SocketAddr::new(place.address, 0).to_string()]);
        command.args(["--forward", &server.to_string()]);
        // The handshake of a flow is not part of its transfer. In crr the first connection has only the handshake, and
        // the others have none.
        let is_crr = point.pattern == Pattern::Crr;
        let untimed = if is_crr { 0 } else { OPENING_BYTES };
        command.args(["--untimed", &format!("{untimed}B")]);
        if let Some(buffer) = point.relay_buffer {
            command.args(["--buffer", &format!("{}B", buffer.0)]);
        }
        if let Some(pace) = &point.relay_pace {
            command.args(["--pace", &pace.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal reaches only the parent, which ends the run in order.
        command.process_group(0);
        if let Some(namespace) = place.namespace {
            namespace.enter(&mut command);
        }
        let mut child = command.spawn().map_err(failed)?;
        // Its threads inherit this: they start after it has said that it relays.
        let mut set = CpuSet::new();
        cpus.for_each(|cpu| set.set(cpu as usize));
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pinned = sched_setaffinity(pid, &set).map_err(io::Error::from);
        let mut said = String::new();
        let read = child.stderr.take().map(|out| BufReader::new(out).read_line(&mut said));
        let words: Vec<&str> = said.split_whitespace().collect();
        let at = match (read, words.as_slice()) {
            (Some(Ok(_)), ["relaying", at, ..]) => at.parse().ok(),
            _ => None,
        };
        let is_reverse = point.direction == Some(Direction::Reverse);
        let direction = if is_reverse { "downstream" } else { "upstream" };
        let bytes = is_crr.then_some(point.payload.0);
        let mut relay = Self { child, at: server, direction, bytes };
        pinned.map_err(PlanError::system("choose the CPUs of the relay"))?;
        relay.at =
            at.ok_or_else(|| PlanError::Failed(format!("the relay failed: {}", said.trim())))?;
        Ok(relay)
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.at
    }

    /// Stops the relay when its connections have ended; returns their times, if they moved bytes in the direction of
    /// the stream.
    pub(crate) fn finish(mut self) -> Option<RelayTimes> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).ok()?)?;
        kill_process(pid, Signal::TERM).ok()?;
        let mut lines = String::new();
        self.child.stdout.take()?.read_to_string(&mut lines).ok()?;
        times(&lines, self.direction, self.bytes)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Means over the connections in the output of a relay that moved bytes in a direction; this many, if they are given.
fn times(lines: &str, direction: &str, wanted: Option<u64>) -> Option<RelayTimes> {
    let mut sum = RelayTimes::default();
    let mut count = 0.0;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).ok()?;
        let transfer = &line[direction];
        let number = |key: &str| transfer[key].as_f64();
        let (Some(switching_ns), Some(receiving_ns), Some(bytes)) =
            (number("switching_ns"), number("receiving_ns"), number("bytes"))
        else {
            continue;
        };
        if wanted.is_some_and(|wanted| bytes != wanted as f64) {
            continue;
        }
        count += 1.0;
        sum.switching_ns += switching_ns;
        sum.receiving_ns += receiving_ns;
        sum.bytes += bytes;
    }
    (count > 0.0).then(|| RelayTimes {
        switching_ns: sum.switching_ns / count,
        receiving_ns: sum.receiving_ns / count,
        bytes: sum.bytes / count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_means_over_the_connections_that_moved_bytes() {
        let line = |bytes: u64, ns: &str| {
            format!(
                "{{\"event\":\"connection\",\"upstream\":{{\"bytes\":{bytes},\"switching_ns\":{ns},\
                 \"receiving_ns\":{ns}}},\"downstream\":{{\"bytes\":0,\"switching_ns\":null,\
                 \"receiving_ns\":null}}}}\n"
            )
        };
        let lines = [line(100, "30"), line(200, "50"), line(0, "null")].concat();
        let counters = "{\"event\":\"counters\",\"upstream\":{\"bytes\":300}}\n";
        let expected = RelayTimes { switching_ns: 40.0, receiving_ns: 40.0, bytes: 150.0 };
        assert_eq!(times(&(lines.clone() + counters), "upstream", None), Some(expected));
        let expected = RelayTimes { switching_ns: 50.0, receiving_ns: 50.0, bytes: 200.0 };
        assert_eq!(times(&lines, "upstream", Some(200)), Some(expected));
        assert_eq!(times(&lines, "downstream", None), None);
    }
}
