//! Child processes that are killed on drop.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::contender::Failure;

/// Exit status, standard output and standard error of an ended process.
#[derive(Clone, Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// A running process that leads its own process group. Dropping it kills the whole group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Exit status once it has been reaped, when its PID may be reused.
    status: Option<ExitStatus>,
    group: Pid,
    exit: OwnedFd,
    out: File,
    err: File,
}

impl Running {
    /// Starts a command. Its output goes to memory files, so that no thread has to read it.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let memory = || io::Result::Ok(File::from(memfd_create("output", MemfdFlags::CLOEXEC)?));
        let (out, err) = (memory()?, memory()?);
        command.process_group(0).stdout(out.try_clone()?).stderr(err.try_clone()?);
        let mut child = command.spawn()?;
        let group = Pid::from_child(&child);
        match pidfd_open(group, PidfdFlags::empty()) {
            Ok(exit) => Ok(Self { child, status: None, group, exit, out, err }),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(error.into())
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ends within this time. Waits without CPU use.
    pub fn has_ended(&self, within: Duration) -> Result<bool, Failure> {
        let within = Timespec::try_from(within).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.exit, PollFlags::IN)], Some(&within)) {
            Ok(ready) => Ok(ready > 0),
            // A signal: the caller checks its flag.
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Failure::Failed(format!("cannot wait for a process: {error}"))),
        }
    }

    pub fn wait(&self, within: Duration, stop: &AtomicBool) -> Result<(), Failure> {
        const LOOK_EVERY: Duration = Duration::from_millis(250);
        let ends = Instant::now() + within;
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            if self.has_ended(left.min(LOOK_EVERY))? {
                return Ok(());
            }
            if stop.load(Relaxed) {
                return Err(Failure::Interrupted);
            }
            if left.is_zero() {
                return Err(Failure::Late(within));
            }
        }
    }

    /// Standard output so far.
    pub fn printed(&self) -> io::Result<String> {
        text(&self.out)
    }

    /// Sends SIGINT to the group.
    pub fn interrupt(&self) {
        // Ignore errors: the group may have ended.
        let _ = kill_process_group(self.group, Signal::INT);
    }

    /// Ends the group and returns its output.
    pub fn finish(mut self) -> io::Result<Output> {
        let status = self.end()?;
        Ok(Output { status, out: text(&self.out)?, err: text(&self.err)? })
    }

    /// Kills what is left of the group. Its ID stays valid until its leader is reaped.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // Ignore errors: the group may have ended.
        let _ = kill_process_group(self.group, Signal::KILL);
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }
}

fn text(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
    // The process writes at the shared file offset, so read at an explicit one.
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Drop for Running {
    fn drop(&mut self) {
        // Drop cannot report an error.
        let _ = self.end();
    }
}

/// A command with empty standard input.
pub fn command(program: &str, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn shell(script: &str) -> Running {
        Running::start(&mut command("sh", &["-c".to_owned(), script.to_owned()])).unwrap()
    }

    #[test]
    fn what_an_ended_process_printed_is_there_with_its_status() {
        let running = shell("echo 1; echo 2 >&2; exit 3");
        running.wait(Duration::from_secs(10), &AtomicBool::new(false)).unwrap();
        let output = running.finish().unwrap();
        assert_eq!((output.out.as_str(), output.err.as_str()), ("1\n", "2\n"));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_process_past_its_time_is_told_apart_from_an_interruption() {
        let running = shell("sleep 60");
        let (go_on, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        assert!(matches!(running.wait(Duration::ZERO, &go_on), Err(Failure::Late(_))));
        let asked = running.wait(Duration::from_secs(60), &stop);
        assert!(matches!(asked, Err(Failure::Interrupted)));
    }

    #[test]
    fn a_whole_group_ends_with_its_value() {
        // The read returns 0 when every process that holds the write end has ended.
        let (mut reader, writer) = io::pipe().unwrap();
        let mut sleepers = command("sh", &["-c".to_owned(), "sleep 60 & sleep 60".to_owned()]);
        let running = Running::start(sleepers.stdin(writer)).unwrap();
        drop(sleepers);
        drop(running);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
