//! Why a setting was not changed.

use std::io;
use std::path::PathBuf;

/// Why a setting was not changed. Whatever was changed on the way has been put back; if that failed, too, its entry is
/// still in the journal.
#[derive(Debug, thiserror::Error)]
#[error("cannot set {change}{on}: {cause}", on = on(.device.as_deref()))]
pub struct SettingError {
    /// The change, such as `mtu=9000`.
    pub change: String,
    /// The device; `None` for a setting of the namespace or of the machine.
    pub device: Option<String>,
    /// Why.
    pub cause: Cause,
}

fn on(device: Option<&str>) -> String {
    device.map(|device| format!(" on {device}")).unwrap_or_default()
}

/// Why a setting cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The setting belongs to a device, and none was named.
    #[error("this is a setting of a device: name one")]
    NeedsDevice,
    /// The network namespace has no such device.
    #[error("there is no such device in this network namespace")]
    NoDevice,
    /// The device, or this kernel, does not have the setting.
    #[error("there is no such setting: {0}")]
    NoSetting(String),
    /// The process lacks a right. The text is what was tried.
    #[error("missing privilege: {0}; run as root")]
    NoPrivilege(String),
    /// A program of the system is not installed.
    #[error(
        "the program `{0}` is missing: install iproute2 (Debian, Ubuntu: apt-get install iproute2)"
    )]
    NoProgram(&'static str),
    /// The kernel refused the value, with this message.
    #[error("refused: {0}")]
    Refused(String),
    /// The kernel accepted the value, but the device has another one.
    #[error("the device has {kept} after {wanted} was set; use a value that it supports")]
    Kept {
        /// What was set.
        wanted: String,
        /// What is read back.
        kept: String,
    },
    /// The old value could not be put back. The text says why.
    #[error("{0}")]
    NotRestorable(String),
    /// Another process, or an earlier change of this one, holds the setting.
    #[error("{owner} has set {change}: wait until it ends")]
    InUse {
        /// Name and id of the process.
        owner: String,
        /// What it has set, such as `mtu=9000`.
        change: String,
    },
    /// An ended process changed the setting, and that cannot be undone now. The text says why.
    #[error(
        "a process that has ended left {change} set ({reason}); run fabricmark hosts restore as root"
    )]
    NotRecovered {
        /// What was set, such as `mtu=9000`.
        change: String,
        /// Why it remains.
        reason: String,
    },
    /// The journal cannot be used, so nothing was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Cause {
    /// The cause for a failed call of the kernel. `doing` is what was tried, such as "write /sys/class/net/eth0/mtu".
    pub(crate) fn of(doing: &str, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENODEV) => Self::NoDevice,
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENXIO) => {
                Self::NoSetting(format!("{doing}: {error}"))
            }
            Some(libc::EPERM | libc::EACCES) => Self::NoPrivilege(format!("{doing}: {error}")),
            _ => Self::Refused(error.to_string()),
        }
    }
}

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file or folder cannot be used.
    #[error("journal of settings: cannot {doing} {path}: {source}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file system of the journal is full.
    #[error("journal of settings: the file system of {0} is full: free some space")]
    Full(PathBuf),
    /// Somebody else may write to the folder of the journal.
    #[error(
        "journal of settings: {0} is not a folder of this user that nobody else writes to: run the command as its \
             owner, or use another folder"
    )]
    NotOwn(PathBuf),
    /// The network namespace of this thread cannot be identified.
    #[error("journal of settings: cannot identify the network namespace: {0}")]
    Namespace(io::Error),
    /// The thread has entered another network namespace since the journal was opened.
    #[error("journal of settings: it was opened in another network namespace")]
    OtherNamespace,
}

impl JournalError {
    pub(crate) fn file(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path.into()),
            _ => Self::File { doing, path: path.into(), source },
        }
    }
}
