//! Folders of servers: data, sockets, logs. Each is locked by its process and removed with it; one that was left by a
//! process that was killed is removed by the next.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use tempfile::TempDir;

/// Where they are: on a disk, and kept by no cleaner while they are in use.
const PLACE: &str = "/var/tmp";

const PREFIX: &str = "fabricmark-shop-";

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Creates one, and removes those of processes that were killed.
    pub fn new() -> io::Result<Self> {
        loop {
            let folder = tempfile::Builder::new()
                .prefix(PREFIX)
                // Servers run as user nobody.
                .permissions(fs::Permissions::from_mode(0o755))
                .tempdir_in(PLACE)?;
            // Another process may have found it before it was locked.
            let Some(lock) = lock(folder.path())? else { continue };
            if lock.metadata()?.nlink() > 0 {
                remove_left(Path::new(PLACE));
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks a folder until the result is dropped; `None` if another process holds the lock, or has removed the folder.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    // Anyone may put something else there, such as a FIFO, whose opening waits for a writer.
    let kind = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = match rustix::fs::open(folder, kind, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened?),
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(lock)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn remove_left(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(PREFIX))
    };
    for path in entries.map(|entry| entry.path()).filter(is_ours) {
        // Kept until the folder is gone.
        if let Ok(Some(_lock)) = lock(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_its_value_and_what_killed_processes_left_by_the_next() {
        let left = Path::new(PLACE).join(format!("{PREFIX}left-{}", std::process::id()));
        fs::create_dir_all(left.join("files")).unwrap();
        let used = Folder::new().unwrap();
        let next = Folder::new().unwrap();
        assert!(!left.exists() && used.path().exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists() && used.path().exists());
    }
}
