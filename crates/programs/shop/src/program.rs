//! Programs of others that the tiers start.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("missing: {programs} (Debian, Ubuntu: apt-get install {packages})")]
    Missing { programs: String, packages: String },
    #[error("{0}: {1}")]
    Folder(PathBuf, io::Error),
    #[error(
        "user nobody, as whom the server runs, cannot enter {0}: choose a folder elsewhere, such as below /var/tmp"
    )]
    Closed(PathBuf),
    #[error("{program} failed:\n{said}")]
    Failed { program: &'static str, said: String },
    #[error("{program} does not answer within {} s: {error}", within.as_secs())]
    Silent { program: &'static str, within: Duration, error: String },
}

/// User and group `nobody` of Debian.
const NOBODY: u32 = 65_534;

/// The user and group of servers: nobody, if this process runs as root; `None`: that of this process.
pub fn unprivileged_owner() -> Option<u32> {
    rustix::process::geteuid().is_root().then_some(NOBODY)
}

/// Gives folders to the user of servers, who has to be able to enter the folders above the first one.
pub fn hand_over(folders: &[&Path]) -> Result<(), Error> {
    let (Some(owner), Some(first)) = (unprivileged_owner(), folders.first()) else { return Ok(()) };
    let is_closed = |path: &&Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 == 0);
    if let Some(closed) = first.ancestors().skip(1).find(is_closed) {
        return Err(Error::Closed(closed.to_owned()));
    }
    for folder in folders {
        chown(folder, Some(owner), Some(owner))
            .map_err(|error| Error::Folder(folder.to_path_buf(), error))?;
    }
    Ok(())
}

/// A command that runs in a folder as the user of servers.
pub fn unprivileged(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(owner) = unprivileged_owner() {
        command.uid(owner).gid(owner);
    }
    command.stdin(Stdio::null()).current_dir(folder);
    command
}

/// Path of a program; Debian keeps those of PostgreSQL apart, by version.
pub fn find(program: &'static str, package: &'static str) -> Result<PathBuf, Error> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        path.split(':').chain(["/usr/sbin", "/sbin"]).map(PathBuf::from).collect();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let found = folders.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file());
    let missing = || Error::Missing { programs: program.to_owned(), packages: package.to_owned() };
    found.ok_or_else(missing)
}

/// Checks that all programs are there, each with its package; the error names all that are missing.
pub fn find_all(wanted: &[(&'static str, &'static str)]) -> Result<(), Error> {
    let is_missing =
        |(program, package): &&(&'static str, &'static str)| find(program, package).is_err();
    let missing: Vec<_> = wanted.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (programs, packages): (Vec<&str>, Vec<&str>) = missing.into_iter().copied().unzip();
    Err(Error::Missing { programs: programs.join(", "), packages: packages.join(" ") })
}

/// Runs a program to its end; returns what it printed.
pub fn run(program: &'static str, command: &mut Command) -> Result<String, Error> {
    let failed = |said: String| Error::Failed { program, said };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() { Ok(said) } else { Err(failed(said)) }
}
