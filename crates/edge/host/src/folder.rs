//! Folders of this user alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether this is a folder, and no link to one, that belongs to this user and that nobody else may write.
///
/// # Errors
/// If it does not exist or cannot be inspected.
pub fn is_own_folder(path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    let is_owner = found.uid() == rustix::process::geteuid().as_raw();
    Ok(found.is_dir() && is_owner && found.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_may_write_and_a_link_are_not_this_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let is_own = |mode| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            is_own_folder(folder.path()).unwrap()
        };
        assert_eq!([0o700, 0o755, 0o770, 0o777].map(is_own), [true, true, false, false]);
        let link = tempfile::tempdir().unwrap().path().with_extension("link");
        symlink(std::env::temp_dir(), &link).unwrap();
        assert!(!is_own_folder(&link).unwrap());
        fs::remove_file(link).unwrap();
    }
}
