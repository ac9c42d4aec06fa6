//! RSA by the system's `openssl` program: the Rust crates for it have an open timing advisory, or need a C
//! toolchain.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fabricmark_host::output_within;

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

fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, AuthenticationError> {
    let output = output_within(command, input, WITHIN).map_err(|error| missing(&error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(AuthenticationError::Program(first.trim().to_owned()))
}
