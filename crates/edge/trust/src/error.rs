//! Errors of keys, trusted hosts and connections.

use std::io;
use std::path::{Path, PathBuf};

use rustls::{AlertDescription, CertificateError};
use thiserror::Error;

/// Why there is no key, no list of trusted keys, or no connection.
#[derive(Debug, Error)]
#[expect(
    missing_docs,
    reason = "`path` is the file, `why` what is wrong; other fields are explained"
)]
pub enum TrustError {
    /// The environment names no folder for configuration files.
    #[error(
        "no folder for the key: set XDG_CONFIG_HOME or HOME, or give the key file with --key-file"
    )]
    NoHome,
    /// This host has no key yet.
    #[error("there is no key at {}: create one with `fabricmark agent --new-key`, or with `fabricmark pair` on both hosts", .0.display())]
    NoKey(PathBuf),
    /// A new key would overwrite an existing one.
    #[error("{} already exists: remove it first to replace the key", .0.display())]
    KeyExists(PathBuf),
    /// Others than the owner may read the key, or modify a file that decides who is trusted.
    #[error("{} is accessible to other users: run chmod {mode} {}", path.display(), path.display())]
    Exposed {
        path: PathBuf,
        /// Argument of chmod(1) that fixes it.
        mode: &'static str,
    },
    /// A key, or a file that decides who is trusted, belongs to another user, or the folder of one does.
    #[error("{} belongs to user {owner}: run as that user, or use a file and folder of your own", path.display())]
    Foreign {
        path: PathBuf,
        /// Its user ID.
        owner: u32,
    },
    /// The file does not contain a certificate and its private key.
    #[error("{} is not a key file: {why}", path.display())]
    NotAKey { path: PathBuf, why: String },
    /// A file exceeds the limit of `max` bytes.
    #[error("{} is longer than {max} bytes", path.display())]
    TooLarge { path: PathBuf, max: u64 },
    /// A line of the file of trusted keys, counted from 1, is invalid.
    #[error("{}, line {line}: {why}", path.display())]
    BadLine { path: PathBuf, line: usize, why: String },
    /// Invalid host name, see [`crate::HostName`].
    #[error("{0:?} is not a host name: use 1 to 64 ASCII letters, digits and signs")]
    BadName(String),
    /// A system call for a file or folder failed; `doing` is a verb.
    #[error("cannot {doing} {}: {source}", path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    /// The other end's key is not trusted by this host.
    #[error("this host does not know its key: run fabricmark pair on both hosts")]
    Stranger,
    /// The other end does not trust the key of this host.
    #[error("it does not know this host's key: run fabricmark pair on both hosts")]
    StrangerThere,
    /// The other end proved its key but speaks another protocol, or did not finish the handshake.
    #[error("it does not speak {}", String::from_utf8_lossy(crate::PROTOCOL))]
    OtherProtocol,
    /// Any other error of a TLS connection or of its setup.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// No key could be generated.
    #[error("cannot make a key: {0}")]
    Generate(String),
}

impl TrustError {
    /// The error of a system call on `path`.
    pub(crate) fn file(doing: &'static str, path: &Path, source: io::Error) -> TrustError {
        TrustError::File { doing, path: path.to_owned(), source }
    }

    /// The error that rustls wrapped into an I/O error; `None` if the error is the socket's.
    pub fn from_io(error: &io::Error) -> Option<TrustError> {
        let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(TrustError::from(inner.clone()))
    }
}

/// Distinguishes a refusal from other errors. Both ends detect it: the refusing one by the error of its verifier,
/// the other by the alert that rustls sends for that error, `access_denied` ("a valid certificate was received, but
/// access control was applied": RFC 8446, section 6.2).
impl From<rustls::Error> for TrustError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
                Self::Stranger
            }
            rustls::Error::AlertReceived(AlertDescription::AccessDenied) => Self::StrangerThere,
            error => Self::Tls(error),
        }
    }
}
