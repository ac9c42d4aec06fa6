//! Folders of servers: data, sockets, logs. Each is removed with its process; one that was left by a process that was
//! killed is removed by the next.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// Where they are: on a disk, and kept by no cleaner while they are in use.
const PLACE: &str = "/var/tmp";

const PREFIX: &str = "fabricmark-shop-";

/// File that its process has locked.
const LOCK: &str = "lock";

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Creates one, and removes those of processes that were killed.
    pub fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            // Servers run as user nobody.
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir_in(PLACE)?;
        let lock = File::create(folder.path().join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        remove_left(Path::new(PLACE));
        Ok(Self { folder, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn remove_left(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(PREFIX))
    };
    for path in entries.map(|entry| entry.path()).filter(is_ours) {
        // One without a lock file is just being made.
        let lock = File::open(path.join(LOCK));
        if lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()) {
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
        fs::create_dir(&left).unwrap();
        File::create(left.join(LOCK)).unwrap();
        let used = Folder::new().unwrap();
        let next = Folder::new().unwrap();
        assert!(!left.exists() && used.path().exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists() && used.path().exists());
    }
}
