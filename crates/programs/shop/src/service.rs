//! A server program that is started again when it ends by itself, and killed with this process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::program::Error;
use crate::sys;

/// How often a server is looked at: short, so that a restart is a short gap.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// A server program. It is killed when this is dropped, or when this process ends in whatever way.
#[derive(Debug)]
pub struct Service {
    state: Arc<Mutex<State>>,
    watch: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    child: Child,
    /// CPU time of those that have ended.
    ended_cpu_ns: u64,
    /// CPU time of the present one when it was last seen.
    seen_cpu_ns: u64,
    restarts: u32,
    /// The watching task may wait for the lock while the service is dropped, and must not start the program again.
    is_dropped: bool,
}

impl Service {
    /// Starts a program.
    pub fn start(mut command: Command) -> io::Result<Self> {
        sys::kill_with_this_thread(&mut command);
        let child = command.spawn()?;
        let state =
            State { child, ended_cpu_ns: 0, seen_cpu_ns: 0, restarts: 0, is_dropped: false };
        let state = Arc::new(Mutex::new(state));
        let watched = state.clone();
        let watch = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                lock(&watched).look(&mut command);
            }
        });
        Ok(Self { state, watch: Some(watch) })
    }

    /// Waits until it listens at a port of this host.
    pub async fn listens(
        &self,
        port: u16,
        program: &'static str,
        log: impl Fn() -> String,
    ) -> Result<(), Error> {
        let until = Instant::now() + LISTENS_WITHIN;
        loop {
            let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
            // Another server may have taken the port.
            if self.counters().1 > 0 {
                return Err(Error::Failed { program, said: log() });
            }
            let Err(error) = connected else { return Ok(()) };
            if Instant::now() > until {
                let (within, error) = (LISTENS_WITHIN, error.to_string());
                return Err(Error::Silent { program, within, error });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// CPU time of its processes in nanoseconds, and how often it was started again.
    pub fn counters(&self) -> (u64, u32) {
        let state = lock(&self.state);
        (state.ended_cpu_ns + cpu_ns(state.child.id()), state.restarts)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn look(&mut self, command: &mut Command) {
        match self.child.try_wait() {
            Ok(Some(_)) if self.is_dropped => {}
            Ok(Some(_)) => {
                // If there is no process, the next look tries again.
                if let Ok(child) = command.spawn() {
                    self.child = child;
                    self.ended_cpu_ns += self.seen_cpu_ns;
                    self.restarts += 1;
                }
            }
            _ => self.seen_cpu_ns = cpu_ns(self.child.id()),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
        let mut state = lock(&self.state);
        state.is_dropped = true;
        let _ = state.child.kill();
        let _ = state.child.wait();
    }
}

/// CPU time of a process and its descendants, those included that have ended and were waited for.
fn cpu_ns(root: u32) -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats =
        ids.filter_map(|id| Some((id, fs::read_to_string(format!("/proc/{id}/stat")).ok()?)));
    let processes: BTreeMap<u32, Process> =
        stats.filter_map(|(id, stat)| Some((id, Process::read(&stat)?))).collect();
    let is_below = |mut id: u32| {
        // No chain is longer than there are processes.
        for _ in 0..processes.len() {
            if id == root {
                return true;
            }
            match processes.get(&id) {
                Some(process) => id = process.parent,
                None => return false,
            }
        }
        false
    };
    let ticks: u64 =
        processes.iter().filter(|(id, _)| is_below(**id)).map(|(_, process)| process.ticks).sum();
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

struct Process {
    parent: u32,
    ticks: u64,
}

impl Process {
    /// Fields 4 and 14 to 17 of `proc_pid_stat(5)`; the name in field 2 may have spaces and parentheses.
    fn read(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks =
            [14, 15, 16, 17].into_iter().filter_map(|number| field(number)?.parse::<u64>().ok());
        Some(Self { parent: field(4)?.parse().ok()?, ticks: ticks.sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194560 100 0 0 0 10 20 1 2 20 0 1 0 100 0 0";
        let process = Process::read(stat).unwrap();
        assert_eq!((process.parent, process.ticks), (3, 33));
    }

    #[tokio::test]
    async fn a_server_that_is_killed_is_started_again() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let service = Service::start(command).unwrap();
        let id = lock(&service.state).child.id();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(id as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        while service.counters().1 == 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let again = lock(&service.state).child.id();
        assert_ne!(again, id);
        drop(service);
        assert!(!std::path::Path::new(&format!("/proc/{again}")).exists());
    }

    #[tokio::test]
    async fn a_server_that_was_dropped_is_not_started_again() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let service = Service::start(command).unwrap();
        let state = service.state.clone();
        drop(service);
        // As the watching task does if it waited for the lock.
        lock(&state).look(&mut Command::new("true"));
        assert_eq!(lock(&state).restarts, 0);
    }

    #[tokio::test]
    async fn a_server_that_ends_before_it_listens_has_failed() {
        let service = Service::start(Command::new("false")).unwrap();
        let port = fabricmark_testkit::free_port();
        let said = || "the port is in use".to_owned();
        let error = service.listens(port, "false", said).await.unwrap_err();
        assert_eq!(error.to_string(), "false failed:\nthe port is in use");
    }
}
