//! Programs of this machine.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Path of a program. Searches also `/usr/sbin` and `/sbin`, which are not in an ordinary user's `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Runs a program with `input` on its standard input, and returns what it wrote. A program that does not read all of its
/// input first may write only as much as a pipe holds until then (64 KiB, pipe(7)).
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] if it has not ended `within` this time; it is killed then.
pub fn output_within(command: &mut Command, input: &[u8], within: Duration) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).inspect_err(|_| {
        let _ = child.kill();
        let _ = child.wait();
    })?;
    let (to, ended) = mpsc::channel();
    let input = input.to_owned();
    let await_end = move || {
        if let Some(mut stdin) = child.stdin.take() {
            // A program that exits before it reads reports the reason itself.
            let _ = stdin.write_all(&input);
        }
        // The caller may have stopped waiting.
        let _ = to.send(child.wait_with_output());
    };
    let kill = || pidfd_send_signal(&process, Signal::KILL);
    if let Err(error) = thread::Builder::new().spawn(await_end) {
        kill()?;
        return Err(error);
    }
    ended.recv_timeout(within).unwrap_or_else(|_| {
        kill()?;
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {within:?}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut command = Command::new("sleep");
        let error = output_within(command.arg("60"), &[], Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "no answer within 50ms");
    }

    #[test]
    fn what_a_program_writes_may_be_longer_than_a_pipe_holds() {
        let mut command = Command::new("sh");
        let command = command.args(["-c", "cat >&2; head -c 1000000 /dev/zero"]);
        let output = output_within(command, b"text", Duration::from_secs(60)).unwrap();
        assert_eq!((output.stdout.len(), output.stderr.as_slice()), (1_000_000, &b"text"[..]));
    }
}
