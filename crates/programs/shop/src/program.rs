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

/// As whom servers run. None of the databases runs as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// As the user of this process.
    Same,
    /// This process is root: as user and group nobody.
    Nobody,
    /// This process is root of a user namespace that has no other user: in one below it, where the user is nobody.
    Mapped,
}

impl Owner {
    /// That of servers which this process starts.
    pub fn of_servers() -> Self {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        match rustix::process::geteuid().is_root() {
            true if is_mapped(&map, NOBODY) => Self::Nobody,
            true => Self::Mapped,
            false => Self::Same,
        }
    }
}

/// Whether a user namespace has this user (user_namespaces(7)): lines of first id, first id outside, number of ids.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let fields: Vec<u64> =
            line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        matches!(fields[..], [first, _, count] if (first..first + count).contains(&u64::from(id)))
    })
}

/// Gives folders to the user of servers, who has to be able to enter the folders above the first one.
pub fn hand_over(folders: &[&Path]) -> Result<(), Error> {
    let Some(first) = folders.first().filter(|_| Owner::of_servers() == Owner::Nobody) else {
        return Ok(());
    };
    let is_closed = |path: &&Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 == 0);
    if let Some(closed) = first.ancestors().skip(1).find(is_closed) {
        return Err(Error::Closed(closed.to_owned()));
    }
    for folder in folders {
        chown(folder, Some(NOBODY), Some(NOBODY))
            .map_err(|error| Error::Folder(folder.to_path_buf(), error))?;
    }
    Ok(())
}

/// A command that runs in a folder as the user of servers.
pub fn unprivileged(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    match Owner::of_servers() {
        Owner::Same => {}
        Owner::Nobody => {
            command.uid(NOBODY).gid(NOBODY);
        }
        Owner::Mapped => {
            command = Command::new("unshare");
            let nobody = NOBODY.to_string();
            command.args(["--user", "--map-user", &nobody, "--map-group", &nobody, "--"]);
            command.arg(program);
        }
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
    let (programs, mut packages): (Vec<&str>, Vec<&str>) = missing.into_iter().copied().unzip();
    packages.dedup();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_mapped_if_a_line_has_its_number() {
        assert!(is_mapped("         0          0 4294967295\n", NOBODY));
        assert!(!is_mapped("         0       1000          1\n", NOBODY));
        assert!(is_mapped("0 1000 1\n1 100000 65536\n", NOBODY));
        assert!(!is_mapped("", NOBODY));
    }
}
