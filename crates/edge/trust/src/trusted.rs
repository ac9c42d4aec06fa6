//! The file of keys that this host trusts.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::identity::read_guarded;
use crate::{Fingerprint, HostName, TrustError};

/// Largest file, in bytes: some 2,000 hosts. It is read for every handshake.
const FILE_MAX: u64 = 256 * 1024;

/// A file with a line for each trusted key: its fingerprint and the name of its host. Empty lines and lines that
/// begin with `#` are skipped; without a file no key is trusted.
///
/// The file is read for each query, so changes apply at once; a handshake costs more than a short file.
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

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Name of the host with this key; `None` if the key is not trusted. A file that others may write, or that has
    /// an invalid line, is an error.
    pub fn knows(&self, fingerprint: &Fingerprint) -> Result<Option<HostName>, TrustError> {
        let hosts = self.hosts()?;
        Ok(hosts.into_iter().find(|(known, _)| known == fingerprint).map(|(_, name)| name))
    }

    /// All trusted keys with the names of their hosts, in the order of the file.
    pub fn hosts(&self) -> Result<Vec<(Fingerprint, HostName)>, TrustError> {
        let text = self.text()?;
        let read = whole(&text).lines().zip(1..).filter_map(|(line, number)| {
            let bad = |why| TrustError::BadLine { path: self.path.clone(), line: number, why };
            parse(line).map_err(bad).transpose()
        });
        read.collect()
    }

    /// Adds a key. Returns `false`, and keeps the name, if the key is already trusted.
    ///
    /// The file is locked meanwhile (flock(2)), so that two programs that add at the same time lose nothing.
    pub fn add(&self, fingerprint: &Fingerprint, name: &HostName) -> Result<bool, TrustError> {
        let failed = |error| TrustError::file("write", &self.path, error);
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
        let mut file = file.map_err(failed)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        if self.knows(fingerprint)?.is_some() {
            return Ok(false);
        }
        let text = self.text()?;
        let whole = whole(&text);
        // A last line without a newline, as some editors leave it, is terminated first.
        let end = if whole.is_empty() || whole.ends_with('\n') { "" } else { "\n" };
        let line = format!("{end}{fingerprint} {name}\n");
        let bytes = whole.len() as u64;
        if bytes + line.len() as u64 > FILE_MAX {
            // A longer list is not read: nobody would be trusted any more.
            return Err(TrustError::TooLarge { path: self.path.clone(), max: FILE_MAX });
        }
        let added = file.set_len(bytes).and_then(|()| {
            if file.write(line.as_bytes())? < line.len() {
                file.set_len(bytes)?;
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.sync_all()
        });
        added.map_err(failed)?;
        Ok(true)
    }

    /// Content of the file; empty if it does not exist.
    fn text(&self) -> Result<String, TrustError> {
        let content = read_guarded(&self.path, 0o022, "go-w", FILE_MAX)?.unwrap_or_default();
        let not_text = |_| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8");
            TrustError::file("read", &self.path, error)
        };
        String::from_utf8(content).map_err(not_text)
    }
}

/// A line of the file: a key and the name of its host; `None` for an empty line or a comment.
fn parse(line: &str) -> Result<Option<(Fingerprint, HostName)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (fingerprint, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let fingerprint = fingerprint.parse().map_err(|error| format!("{error}"))?;
    let name = name.trim_start().parse().map_err(|error| format!("{error}"))?;
    Ok(Some((fingerprint, name)))
}

/// The text without a last line that a full disk or a power failure has cut off: it is neither terminated nor valid, and
/// has no name.
fn whole(text: &str) -> &str {
    let complete = text.rfind('\n').map_or(0, |end| end + 1);
    let last = &text[complete..];
    let is_cut = parse(last).is_err() && last.split_whitespace().count() < 2;
    if is_cut { &text[..complete] } else { text }
}
