//! Worker processes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;

use crate::settings::recover_settings;

/// How long a worker may take to exit after its socket has closed: it puts settings of its host back.
const EXITS_WITHIN: Duration = Duration::from_secs(3);

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
        let until = Instant::now() + within;
        let status = loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
                ended => break ended.ok().flatten(),
            }
        };
        match status.map(|status| (status.signal(), status.code())) {
            Some((Some(signal), _)) => format!("killed by signal {signal}"),
            Some((None, code)) => format!("exit code {}", code.unwrap_or_default()),
            None => "still running".to_owned(),
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let until = Instant::now() + EXITS_WITHIN;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                recover_settings();
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
