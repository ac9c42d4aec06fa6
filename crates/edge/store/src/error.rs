//! Errors of the store.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system is full.
    #[error("no space is left for {}: {source}", path.display())]
    Full {
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file or its folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file was written by a newer version of this program.
    #[error("{} was written by a newer fabricmark: update this one", path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
    },
    /// Another process is writing to the file.
    #[error("{} is in use by another fabricmark: wait for it, or use another --store", path.display())]
    Busy {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is not a store, or is damaged.
    #[error("{} is not a usable store: {message}", path.display())]
    Unusable {
        /// The store's file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// There is no such experiment.
    #[error("there is no experiment `{name}` in {}; it has: {known}", path.display())]
    NoSuchExperiment {
        /// The name asked for.
        name: String,
        /// The store's file.
        path: PathBuf,
        /// The names that exist, separated by commas.
        known: String,
    },
}

impl StoreError {
    /// Classifies SQLite's errors by what the user can do about them.
    pub(crate) fn from_sqlite(path: &Path) -> impl Fn(rusqlite::Error) -> Self + '_ {
        move |source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Self::Full { path, source },
                Some(ErrorCode::SystemIoFailure) if has_no_room(&path) => {
                    Self::Full { path, source }
                }
                Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                    Self::ReadOnly { path, source }
                }
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
                _ => Self::Unusable { path, message: source.to_string() },
            }
        }
    }
}

/// Whether the file system lacks room for SQLite's shared-memory file, which SQLite reports as an input/output error:
/// it grows by 32 KiB (WALINDEX_PGSZ in sqlite3.c).
fn has_no_room(path: &Path) -> bool {
    const SHARED_MEMORY_BYTES: u64 = 32 << 10;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    rustix::fs::statvfs(folder.unwrap_or(Path::new(".")))
        .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < SHARED_MEMORY_BYTES)
}
