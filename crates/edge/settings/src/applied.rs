//! Changes that are undone when they go out of scope.

use crate::error::{JournalError, SettingError};
use crate::journal::Journal;
use crate::setting::Change;
use crate::store::Held;
use crate::undo::Restored;

/// Changes of this process. They are undone, the last one first, when this value is dropped; [`put_back`] also says what
/// has become of them.
///
/// [`put_back`]: Self::put_back
#[derive(Debug)]
pub struct Applied<'a> {
    journal: &'a Journal,
    held: Vec<Held>,
}

impl<'a> Applied<'a> {
    pub(crate) fn new(journal: &'a Journal) -> Self {
        Self { journal, held: Vec::new() }
    }

    /// Makes a change, after its entry has reached the disk, and reads the new value back. The device is that of a
    /// setting of a device; other settings ignore it.
    ///
    /// # Errors
    ///
    /// The setting has its old value, or its entry is in the journal.
    pub fn change(&mut self, device: Option<&str>, change: &Change) -> Result<(), SettingError> {
        match self.journal.change(device, change) {
            Ok(held) => {
                self.held.push(held);
                Ok(())
            }
            Err(cause) => {
                let device = device.filter(|_| change.setting().is_of_device());
                let (change, device) = (change.to_string(), device.map(str::to_owned));
                Err(SettingError { change, device, cause })
            }
        }
    }

    /// Undoes all changes, the last one first.
    ///
    /// # Errors
    ///
    /// The journal cannot be used. Entries of what was not put back stay in it.
    pub fn put_back(mut self) -> Result<Vec<Restored>, JournalError> {
        let mut restored = Vec::new();
        while let Some(held) = self.held.pop() {
            restored.push(self.journal.end(held)?);
        }
        Ok(restored)
    }

    /// Ends like a process that is killed: the entries stay, and nobody holds them.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        self.held.clear();
    }
}

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        while let Some(held) = self.held.pop() {
            // An entry that could not be undone stays in the journal, for the next process.
            let _ = self.journal.end(held);
        }
    }
}
