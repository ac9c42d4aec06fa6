//! The folder of the sockets, and their file names: `NAME.ID.sock`.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use fabricmark_host::is_own_folder;
use serde::{Deserialize, Serialize};

use super::remnant;
use super::{HeldError, Lab};

/// The folder with the sockets of a user's labs.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
}

/// A lab, identified by its file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Named {
    /// Name that the user gave it.
    pub(crate) name: String,
    /// Unique id: 16 hexadecimal digits.
    pub(crate) id: String,
}

impl Place {
    /// `fabricmark` in XDG_RUNTIME_DIR, or in /run for root. It is created, for this user alone, if it does not exist.
    pub fn find() -> Result<Self, HeldError> {
        let runtime = match env::var_os("XDG_RUNTIME_DIR") {
            Some(folder) if !folder.is_empty() => PathBuf::from(folder),
            _ if rustix::process::geteuid().is_root() => PathBuf::from("/run"),
            _ => {
                let message = "no folder for the sockets of labs: set XDG_RUNTIME_DIR to a folder \
                               of your own, or run as root";
                return Err(HeldError::Missing(message.to_owned()));
            }
        };
        Self::in_folder(runtime.join("fabricmark"))
    }

    pub(crate) fn in_folder(folder: PathBuf) -> Result<Self, HeldError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(unusable(&folder))?;
        // Commands enter the namespaces that a socket there hands them.
        if !is_own_folder(&folder).map_err(unusable(&folder))? {
            return Err(HeldError::Missing(format!(
                "{} is not a folder of this user alone: set XDG_RUNTIME_DIR to one that is",
                folder.display()
            )));
        }
        Ok(Self { folder })
    }

    /// The folder, which only this user can enter.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn socket(&self, lab: &Named) -> PathBuf {
        self.folder.join(format!("{lab}.sock"))
    }

    /// The labs that are up, sorted by name. Ends what is left of others.
    pub fn labs(&self) -> Result<Vec<Lab>, HeldError> {
        use io::ErrorKind::{ConnectionRefused, NotFound};

        let mut labs = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(unusable(&self.folder))? {
            let file = entry.map_err(unusable(&self.folder))?.file_name();
            let Some(named) = file.to_str().and_then(Named::of_file) else { continue };
            let path = self.socket(&named);
            match UnixStream::connect(&path) {
                Ok(stream) => labs.push(Lab { named, stream }),
                Err(error) if matches!(error.kind(), ConnectionRefused | NotFound) => {
                    remnant::end(&named);
                    // Another call may have removed it.
                    let _ = fs::remove_file(path);
                }
                // It may be up, but is not this user's, or this process has no descriptor left.
                Err(_) => {}
            }
        }
        labs.sort_by(|one, other| one.named.cmp(&other.named));
        Ok(labs)
    }
}

/// The error for a folder or a socket that cannot be used.
pub(super) fn unusable(path: &Path) -> impl FnOnce(io::Error) -> HeldError {
    move |error| HeldError::Missing(format!("cannot use {}: {error}", path.display()))
}

impl Named {
    /// A lab of this name with a new id.
    pub(crate) fn new(name: &str) -> Result<Self, HeldError> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-';
        // With folder and id, the path of a socket has at most 107 bytes (unix(7)).
        if !(1..=40).contains(&name.len()) || !name.chars().all(is_good) {
            return Err(HeldError::Refused(format!(
                "`{name}` is not a lab name: use 1 to 40 letters, digits and dashes with --name"
            )));
        }
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty())
            .map_err(io::Error::from)?;
        Ok(Self { name: name.to_owned(), id: format!("{:016x}", u64::from_ne_bytes(id)) })
    }

    fn of_file(file: &str) -> Option<Self> {
        let (name, id) = file.strip_suffix(".sock")?.split_once('.')?;
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        (!name.is_empty() && is_id).then(|| Self { name: name.to_owned(), id: id.to_owned() })
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.name, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_says_the_lab_and_its_id() {
        let lab = Named::new("wan-2").unwrap();
        assert_eq!(Named::of_file(&format!("{lab}.sock")), Some(lab));
        for file in ["wan.sock", "wan.12.sock", ".0123456789abcdef.sock", "wan.0123456789abcdef"] {
            assert_eq!(Named::of_file(file), None, "{file}");
        }
        assert!(matches!(Named::new("a/b"), Err(HeldError::Refused(_))));
    }
}
