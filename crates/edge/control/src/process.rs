//! Worker processes.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;

use crate::settings::{LINK_WITHIN, recover_settings};

/// How long a worker may take to exit after its socket has closed: it puts settings of its host back, and waits for the
/// link. What one that is killed leaves is put back from the journal.
const WORKER_EXITS_WITHIN: Duration = LINK_WITHIN;

/// How long a tier of the bookstore may take to end its servers and remove their folder.
const TIER_EXITS_WITHIN: Duration = Duration::from_secs(20);

/// What a worker process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// `fabricmark worker`: ends of runs.
    Load,
    /// `fabricmark-shop tier`: a tier of the bookstore.
    Tier,
}

impl Duty {
    /// Path of the program, as seen from that of `fabricmark`, and its subcommand.
    fn program(self, fabricmark: &Path) -> (PathBuf, &'static str) {
        match self {
            Self::Load => (fabricmark.to_owned(), "worker"),
            Self::Tier => (in_file_system(fabricmark).with_file_name("fabricmark-shop"), "tier"),
        }
    }
}

/// This program, also if its file was replaced or removed since it was started (proc_pid_exe(5)). A process that runs for
/// long starts workers of its own version with it.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// The path of a program; of [`THIS_PROGRAM`] the one from which it was started.
fn in_file_system(program: &Path) -> PathBuf {
    let started = fs::read_link(program).ok().filter(|_| program == Path::new(THIS_PROGRAM));
    let Some(path) = started else { return program.to_owned() };
    // What the kernel adds when the file was replaced.
    match path.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(text) => text.into(),
        None => path,
    }
}

/// A worker process. When this is dropped, after the socket to it, it has to exit; one that hangs is killed.
pub(crate) struct WorkerProcess {
    duty: Duty,
    child: Child,
}

impl WorkerProcess {
    /// Starts a process for a duty, in the namespace if one is given; also returns the socket to it.
    pub(crate) fn start(
        duty: Duty,
        fabricmark: &Path,
        namespace: Option<&Namespace>,
    ) -> io::Result<(Self, UnixStream)> {
        let (program, subcommand) = duty.program(fabricmark);
        if duty == Duty::Tier && !program.is_file() {
            let message = format!("{} is missing: build it with `make shop`", program.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&program);
        command.arg0(in_file_system(&program));
        command.arg(subcommand).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        // Ctrl-C in a terminal reaches only the parent, which ends the run in order.
        command.process_group(0);
        if let Some(namespace) = namespace {
            namespace.enter(&mut command);
        }
        Ok((Self { duty, child: command.spawn()? }, ours))
    }

    /// What it does.
    pub(crate) fn duty(&self) -> Duty {
        self.duty
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; waits for at most `within`, since its socket closes a moment before it exits.
    pub(crate) fn fate(&mut self, within: Duration) -> String {
        match self.ended(within).map(|status| (status.signal(), status.code())) {
            Some((Some(signal), _)) => format!("killed by signal {signal}"),
            Some((None, code)) => format!("exit code {}", code.unwrap_or_default()),
            None => "still running".to_owned(),
        }
    }

    /// Its exit status; `None` if it still runs after `within`.
    fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
                ended => return ended.ok().flatten(),
            }
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let within = match self.duty {
            Duty::Load => WORKER_EXITS_WITHIN,
            Duty::Tier => TIER_EXITS_WITHIN,
        };
        let status = self.ended(within);
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // One that was killed has put nothing back.
        if !status.is_some_and(|status| status.success()) {
            recover_settings();
        }
    }
}
