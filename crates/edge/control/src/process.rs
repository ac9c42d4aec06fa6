//! Worker processes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;

use crate::settings::{LINK_WITHIN, recover_settings};

/// How long a worker may take to exit after its socket has closed: it puts settings of its host back, and waits for the
/// link. What one that is killed leaves is put back from the journal.
const EXITS_WITHIN: Duration = LINK_WITHIN;

/// A worker process. When this is dropped, after the socket to it, it has to exit; one that hangs is killed.
pub(crate) struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// Starts `program worker`, in the namespace if one is given; also returns the socket to it.
    pub(crate) fn start(
        program: &Path,
        namespace: Option<&Namespace>,
    ) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.arg("worker").stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        // Ctrl-C in a terminal reaches only the parent, which ends the run in order.
        command.process_group(0);
        if let Some(namespace) = namespace {
            namespace.enter(&mut command);
        }
        Ok((Self { child: command.spawn()? }, ours))
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
        let status = self.ended(EXITS_WITHIN);
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
