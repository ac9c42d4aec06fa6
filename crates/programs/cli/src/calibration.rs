//! Where the calibration of this machine's emulator is kept.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use fabricmark_record::Calibration;

use crate::exit::{Code, Failure};

/// The folder for what is known of this machine: `fabricmark` in XDG_STATE_HOME, else in
/// `.local/state` of the user's home.
pub fn folder() -> Result<PathBuf, Failure> {
    let [state, home] = ["XDG_STATE_HOME", "HOME"].map(env::var_os);
    folder_of(state.as_deref(), home.as_deref()).ok_or_else(|| {
        let message = "neither XDG_STATE_HOME nor HOME is set: nowhere to keep a calibration";
        Failure::new(Code::Missing, message)
    })
}

/// Only absolute paths count (XDG Base Directory Specification).
fn folder_of(state: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let absolute = |path: &OsStr| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = state.and_then(absolute);
    let state = state.or_else(|| Some(home.and_then(absolute)?.join(".local/state")))?;
    Some(state.join("fabricmark"))
}

/// The calibration that is kept and counts here. One that cannot be read, or that another kernel, another
/// number of processors or another version of this program made, is as good as none.
pub fn of_this_machine() -> Option<Calibration> {
    kept(&folder().ok()?).filter(|kept| {
        let host = fabricmark_host::facts();
        kept.counts_for(env!("CARGO_PKG_VERSION"), &host.kernel, host.cpus)
    })
}

/// The calibration in a folder, whatever it is of.
pub fn kept(folder: &Path) -> Option<Calibration> {
    serde_json::from_slice(&fs::read(file(folder)).ok()?).ok()
}

/// Keeps a calibration instead of the one before.
pub fn keep(folder: &Path, calibration: &Calibration) -> Result<(), Failure> {
    let file = file(folder);
    let part = file.with_extension("part");
    let text = serde_json::to_vec_pretty(calibration)
        .map_err(|error| Failure::internal(format!("no JSON of a calibration: {error}")))?;
    // Who reads meanwhile finds a whole one.
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, &file))
        .map_err(|error| Failure::output(file.display(), &error))
}

/// The file of the calibration.
pub fn file(folder: &Path) -> PathBuf {
    folder.join("calibration.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_that_for_state_else_in_the_home() {
        let of = |state: &str, home: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| OsStr::new(text).to_owned());
            folder_of(some(state).as_deref(), some(home).as_deref())
        };
        assert_eq!(of("/s", "/h"), Some("/s/fabricmark".into()));
        assert_eq!(of("", "/h"), Some("/h/.local/state/fabricmark".into()));
        assert_eq!(of("s", "/h"), Some("/h/.local/state/fabricmark".into()));
        assert_eq!(of("", ""), None);
    }
}
