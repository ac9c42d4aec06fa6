//! Storage of the calibration of this machine's emulator.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use fabricmark_record::Calibration;

use crate::exit::{Code, Failure};

/// Directory for state of this machine: `fabricmark` in XDG_STATE_HOME, or in `~/.local/state`.
pub fn folder() -> Result<PathBuf, Failure> {
    let [state, home] = ["XDG_STATE_HOME", "HOME"].map(env::var_os);
    folder_of(state.as_deref(), home.as_deref()).ok_or_else(|| {
        let message = "no folder for the calibration: set XDG_STATE_HOME or HOME";
        Failure::new(Code::Missing, message)
    })
}

/// Relative paths are ignored (XDG Base Directory Specification).
fn folder_of(state: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let absolute = |path: &OsStr| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let state = state.and_then(absolute);
    let state = state.or_else(|| Some(home.and_then(absolute)?.join(".local/state")))?;
    Some(state.join("fabricmark"))
}

/// The stored calibration, if it applies. Ignored if it cannot be read, or was made with another kernel, number of
/// CPUs or version of this program.
pub fn of_this_machine() -> Option<Calibration> {
    kept(&folder().ok()?).filter(|kept| {
        let host = fabricmark_host::facts();
        kept.counts_for(env!("CARGO_PKG_VERSION"), &host.kernel, host.cpus)
    })
}

/// The calibration in a folder, whether or not it applies to this machine.
pub fn kept(folder: &Path) -> Option<Calibration> {
    serde_json::from_slice(&fs::read(file(folder)).ok()?).ok()
}

/// Stores a calibration; replaces the earlier one.
pub fn keep(folder: &Path, calibration: &Calibration) -> Result<(), Failure> {
    let file = file(folder);
    let part = file.with_extension("part");
    let text = serde_json::to_vec_pretty(calibration).map_err(|error| {
        Failure::internal(format!("cannot write the calibration as JSON: {error}"))
    })?;
    // Written to a temporary file and renamed, so that readers never see a partial file.
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, &file))
        .map_err(Failure::output(file.display()))
}

/// Path of the calibration file.
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
