//! The process that changed a setting.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

/// A process: its id, and its start time, because ids are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of /proc/PID/stat, proc_pid_stat(5)).
    pub start: u64,
}

impl Owner {
    /// This process.
    pub fn here() -> Self {
        let pid = std::process::id();
        Self { pid, start: running(pid).unwrap_or(0) }
    }

    /// Whether the process still runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        running(self.pid) == Some(self.start)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        match name.trim() {
            "" => write!(f, "process {}", self.pid),
            name => write!(f, "process {} ({name})", self.pid),
        }
    }
}

/// Start time of a process that runs.
fn running(pid: u32) -> Option<u64> {
    start(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Start time in the text of /proc/PID/stat; `None` for a process that has ended (states Z and X).
fn start(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The state is field 3.
    let start = fields.nth(22 - 4)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_field_22_and_a_zombie_has_none() {
        let stat = |state| {
            format!("7 (a) b) {state} 1 7 7 0 -1 4194560 100 0 0 0 7 3 0 0 20 0 1 0 12345 9 9")
        };
        assert_eq!(start(&stat("S")), Some(12345));
        assert_eq!(start(&stat("Z")), None);
        assert_eq!(start("7 (x) S 1"), None);
    }

    #[test]
    fn this_process_runs_and_one_with_its_id_and_another_start_does_not() {
        let here = Owner::here();
        assert!(here.is_alive());
        assert!(!Owner { start: here.start + 1, ..here }.is_alive());
    }
}
