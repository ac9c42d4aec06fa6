//! The file of keys that this host trusts.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::identity::read_guarded;
use crate::{Fingerprint, HostName, TrustError};

/// Largest file, in bytes: some 2,000 hosts. It is read for every handshake.
const FILE_MAX: u64 = 256 * 1024;

/// A file with a line for each trusted key: its fingerprint and what its host is called. Empty lines
/// and lines that begin with `#` are passed over; a missing file trusts nobody.
///
/// The file is read anew for each question, so that a running program sees at once what was added or
/// removed: a handshake costs more than a short file.
#[derive(Debug, Clone)]
pub struct Trusted {
    path: PathBuf,
}

impl Trusted {
    /// The file at `path`, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Trusted {
        Trusted { path: path.into() }
    }

    /// The file `trusted` in the folder of a key file.
    pub fn beside(key_file: &Path) -> Trusted {
        Trusted::at(key_file.with_file_name("trusted"))
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the host with this key is called, if it is trusted. A file that others may write, or with
    /// a line that is none, trusts nobody and is an error.
    pub fn knows(&self, fingerprint: &Fingerprint) -> Result<Option<HostName>, TrustError> {
        let hosts = self.hosts()?;
        Ok(hosts.into_iter().find(|(known, _)| known == fingerprint).map(|(_, name)| name))
    }

    /// All trusted keys and what their hosts are called, in the order of the file.
    pub fn hosts(&self) -> Result<Vec<(Fingerprint, HostName)>, TrustError> {
        let mut hosts = Vec::new();
        for (line, number) in self.text()?.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad =
                |why: String| TrustError::BadLine { path: self.path.clone(), line: number, why };
            let (fingerprint, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let fingerprint: Fingerprint =
                fingerprint.parse().map_err(|error| bad(format!("{error}")))?;
            let name = name.trim_start().parse().map_err(|error| bad(format!("{error}")))?;
            hosts.push((fingerprint, name));
        }
        Ok(hosts)
    }

    /// Trusts a key; `false` where it is trusted already, and keeps its name.
    ///
    /// The line is one write at the end of the file, so that two programs that add at once lose
    /// nothing (O_APPEND, open(2)); at worst a key stands there twice.
    pub fn add(&self, fingerprint: &Fingerprint, name: &HostName) -> Result<bool, TrustError> {
        if self.knows(fingerprint)?.is_some() {
            return Ok(false);
        }
        // A last line that an editor left without its end stays a line of its own.
        let text = self.text()?;
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let line = format!("{end}{fingerprint} {name}\n");
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
        let written = file.and_then(|mut file| {
            if file.write(line.as_bytes())? < line.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
            file.sync_all()
        });
        written.map_err(|error| TrustError::file("write", &self.path, error))?;
        Ok(true)
    }

    /// The content of the file; empty where there is none.
    fn text(&self) -> Result<String, TrustError> {
        let content = read_guarded(&self.path, 0o022, "go-w", FILE_MAX)?.unwrap_or_default();
        let not_text = |_| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8");
            TrustError::file("read", &self.path, error)
        };
        String::from_utf8(content).map_err(not_text)
    }
}
