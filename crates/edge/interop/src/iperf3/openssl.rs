//! RSA by the system's `openssl` program: the Rust crates for it have an open timing advisory, or need a C
//! toolchain.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::authentication::{AuthenticationError, Padding};

/// Longest time for an operation, which takes milliseconds.
const WITHIN: Duration = Duration::from_secs(5);

/// Encrypt with a public key in PEM, as written by `openssl rsa -pubout`.
pub(super) const ENCRYPT: &[&str] = &["-encrypt", "-pubin"];

/// Decrypt with a private key; the empty password prevents a prompt.
pub(super) const DECRYPT: &[&str] = &["-decrypt", "-passin", "pass:"];

/// Runs `openssl pkeyutl`; `way` is [`ENCRYPT`] or [`DECRYPT`].
pub(super) fn pkeyutl(
    way: &[&str],
    key: &Path,
    padding: Padding,
    input: &[u8],
) -> Result<Vec<u8>, AuthenticationError> {
    let padding = match padding {
        Padding::Oaep => "rsa_padding_mode:oaep",
        Padding::Pkcs1 => "rsa_padding_mode:pkcs1",
    };
    let mut command = Command::new("openssl");
    command.args(["pkeyutl", "-pkeyopt", padding]).args(way).arg("-inkey").arg(key);
    run(&mut command, input)
}

/// Fails if `openssl` cannot be run.
pub(super) fn find() -> Result<(), AuthenticationError> {
    run(Command::new("openssl").arg("version"), &[]).map(drop)
}

fn missing(error: &io::Error) -> AuthenticationError {
    match error.kind() {
        io::ErrorKind::NotFound => AuthenticationError::NoProgram,
        _ => AuthenticationError::Program(error.to_string()),
    }
}

/// Runs `command` with `input` for at most [`WITHIN`]. Input and output must be shorter than a pipe's buffer.
fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, AuthenticationError> {
    run_within(WITHIN, command, input)
}

fn run_within(
    within: Duration,
    command: &mut Command,
    input: &[u8],
) -> Result<Vec<u8>, AuthenticationError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| missing(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that exits before it reads reports the reason itself.
        let _ = stdin.write_all(input);
    }
    let ended = has_ended(&child, within);
    if !matches!(ended, Ok(true)) {
        let _ = child.kill();
        let _ = child.wait();
        let why = ended
            .map_or_else(|error| error.to_string(), |_| format!("no answer within {within:?}"));
        return Err(AuthenticationError::Program(why));
    }
    let output = child.wait_with_output().map_err(|error| missing(&error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(AuthenticationError::Program(first.trim().to_owned()))
}

/// Waits until a process has ended, and says whether it has.
fn has_ended(child: &Child, within: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Ok(ended) => return Ok(ended > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut command = Command::new("sleep");
        let error = run_within(Duration::from_millis(50), command.arg("60"), &[]).unwrap_err();
        assert_eq!(error, AuthenticationError::Program("no answer within 50ms".to_owned()));
        assert_eq!(run_within(WITHIN, &mut Command::new("cat"), b"text").unwrap(), b"text");
    }
}
