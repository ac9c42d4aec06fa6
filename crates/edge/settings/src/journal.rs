//! The undo journal: old values are on disk before settings change.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::applied::Applied;
use crate::entry::{Entry, State, Value};
use crate::error::{Cause, JournalError};
use crate::namespace::{Namespace, Presence};
use crate::owner::Owner;
use crate::place::Place;
use crate::setting::Change;
use crate::store::{Found, Held, Lock, Store};
use crate::system::{Device, System};
use crate::undo::{Outcome, Restored, judge, listed, put_back};

/// A journal of changed settings, in a folder that all processes of the machine share.
///
/// It belongs to the network namespace of the thread that opened it, and stays on that thread.
#[derive(Debug)]
pub struct Journal {
    store: Store,
    system: System,
    namespace: Namespace,
    boot: String,
    owner: Owner,
    _stays_on_its_thread: PhantomData<*const ()>,
}

/// Folder of the journal of this user. Root's is never one that others can create.
fn of_this_user() -> PathBuf {
    // In a user namespace root is an ordinary user outside (user_namespaces(7)).
    let maps = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_initial = maps.split_whitespace().eq(["0", "0", "4294967295"]);
    if rustix::process::geteuid().is_root() && is_initial {
        return PathBuf::from(Journal::FOLDER);
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("fabricmark-settings"),
        None => {
            let name = format!("fabricmark-settings-{}", rustix::process::getuid().as_raw());
            env::temp_dir().join(name)
        }
    }
}

impl Journal {
    /// The folder that fabricmark uses as root. /run is empty after a reboot, like the kernel's settings.
    pub const FOLDER: &str = "/run/fabricmark/settings";

    /// Opens the journal in a folder, which is created if it does not exist. Puts nothing back: see [`recover`].
    ///
    /// # Errors
    ///
    /// The folder cannot be created, or /proc is not mounted.
    ///
    /// [`recover`]: Self::recover
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        Self::new(folder, System::default())
    }

    /// Opens root's journal in [`Self::FOLDER`], or that of another user in XDG_RUNTIME_DIR, or else in the folder for
    /// temporary files.
    ///
    /// # Errors
    ///
    /// The folder cannot be created, or belongs to somebody else.
    pub fn of_this_user() -> Result<Self, JournalError> {
        Self::open(&of_this_user())
    }

    /// The journal of [`Self::of_this_user`], if it exists.
    ///
    /// # Errors
    ///
    /// As of [`Self::of_this_user`].
    pub fn existing() -> Result<Option<Self>, JournalError> {
        let folder = of_this_user();
        if folder.exists() { Self::open(&folder).map(Some) } else { Ok(None) }
    }

    pub(crate) fn new(folder: &Path, system: System) -> Result<Self, JournalError> {
        Ok(Self {
            store: Store::open(folder)?,
            system,
            namespace: Namespace::here().map_err(JournalError::Namespace)?,
            boot: fabricmark_host::boot(),
            owner: Owner::here(),
            _stays_on_its_thread: PhantomData,
        })
    }

    /// Begins a list of changes. They are undone in the reverse order when it is dropped; therefore there is only one
    /// at a time.
    pub fn begin(&mut self) -> Applied<'_> {
        Applied::new(self)
    }

    /// Puts back what processes have changed that have ended without doing so, the last change first. Settings of a
    /// process that still runs, and of other network namespaces, are only listed.
    ///
    /// # Errors
    ///
    /// The journal cannot be opened. What cannot be put back is no error but an [`Outcome`].
    pub fn recover(&self) -> Result<Vec<Restored>, JournalError> {
        self.check_namespace()?;
        let lock = self.store.lock()?;
        let mut restored = Vec::new();
        for number in self.store.numbers(&lock)?.into_iter().rev() {
            // One that cannot be read or removed does not keep the others from being undone.
            restored.push(self.recover_entry(&lock, number).unwrap_or_else(|error| Restored {
                device: None,
                change: None,
                outcome: Outcome::Failed { reason: error.to_string() },
            }));
        }
        Ok(restored)
    }

    fn recover_entry(&self, lock: &Lock, number: u64) -> Result<Restored, JournalError> {
        match self.store.find(lock, number)? {
            Found::Left(held) => self.undo(lock, held),
            Found::Owned(entry) => {
                let outcome = Outcome::InUse { pid: entry.owner.pid };
                Ok(restored(&entry, outcome))
            }
            Found::Unreadable(file, why) => {
                let outcome = Outcome::Unreadable { file, reason: why.to_string() };
                Ok(Restored { device: None, change: None, outcome })
            }
        }
    }

    /// Puts the values of an entry back, and removes it unless it remains.
    fn undo(&self, lock: &Lock, mut held: Held) -> Result<Restored, JournalError> {
        let outcome = self.outcome(lock, &mut held)?;
        let restored = restored(&held.entry, outcome);
        if !restored.outcome.remains() {
            self.store.remove(lock, &held)?;
        }
        Ok(restored)
    }

    fn outcome(&self, lock: &Lock, held: &mut Held) -> Result<Outcome, JournalError> {
        let entry = &held.entry;
        if entry.boot != self.boot {
            return Ok(Outcome::OtherBoot);
        }
        let is_of_machine = entry.values.iter().all(|value| value.place.is_of_machine());
        if entry.namespace != self.namespace && !is_of_machine {
            return Ok(match entry.namespace.find() {
                Presence::Gone => Outcome::NoNamespace,
                Presence::At(file) => Outcome::OtherNamespace { file: Some(file) },
                Presence::Unknown => Outcome::OtherNamespace { file: None },
            });
        }
        let device = match &entry.device {
            Some(device) => match self.system.device_of(device.index) {
                Ok(device) => device,
                Err(cause) => return Ok(failed(&cause)),
            },
            None => Device::none(),
        };
        let judged = match judge(&self.system, &device.name, entry.state, &entry.values) {
            Ok(judged) => judged,
            Err(cause) => return Ok(failed(&cause)),
        };
        if judged.is_changed && entry.affects_others() {
            // From here on the kernel may change the other values, too: they are ours if this process is killed.
            let entry =
                Entry { state: State::Changing, values: judged.ours.clone(), ..entry.clone() };
            // A full disk does not keep them from being put back.
            if let Ok(written) = self.store.write(lock, held.number, entry) {
                *held = written;
            }
        }
        if judged.is_changed
            && let Err(cause) = put_back(&self.system, &device, &judged.ours, &held.file)
        {
            return Ok(failed(&cause));
        }
        if !judged.elsewhere.is_empty() {
            let value = listed(judged.elsewhere.iter().map(String::as_str));
            return Ok(Outcome::ChangedElsewhere { value });
        }
        let written = judged.ours.iter().filter(|value| value.is_written);
        Ok(match judged.is_changed {
            true => Outcome::PutBack { value: listed(written.map(|value| value.old.as_str())) },
            false => Outcome::Unchanged,
        })
    }

    /// Undoes a change of this process.
    pub(crate) fn end(&self, held: Held) -> Result<Restored, JournalError> {
        self.check_namespace()?;
        let lock = self.store.lock()?;
        self.undo(&lock, held)
    }

    /// Makes a change.
    pub(crate) fn change(&self, device: Option<&str>, change: &Change) -> Result<Held, Cause> {
        self.check_namespace()?;
        let device = match device {
            _ if !change.setting().is_of_device() => None,
            Some(name) => Some(self.system.device(name)?),
            None => return Err(Cause::NeedsDevice),
        };
        let mut held = self.announce(device.as_ref(), change)?;
        let made = self.make(&mut held).and_then(|()| {
            let lock = self.store.lock()?;
            held.entry.state = State::Changed;
            Ok(self.store.write(&lock, held.number, held.entry.clone())?)
        });
        if made.is_err() {
            held.entry.state = State::Changing;
            // If this fails, too, the entry stays, and the next process undoes it.
            let _ = self.end(held);
        }
        made
    }

    /// Claims the values of a setting: writes the entry.
    fn announce(&self, device: Option<&Device>, change: &Change) -> Result<Held, Cause> {
        let none = Device::none();
        let name = &device.unwrap_or(&none).name;
        let setting = change.setting();
        let places = setting.places(&self.system, name)?;
        let lock = self.store.lock()?;
        let affected = setting.affects().iter().cloned().map(|place| (place, false));
        let mut values = Vec::new();
        for (place, is_written) in affected.chain(places.into_iter().map(|place| (place, true))) {
            let device = place.is_of_device().then_some(device).flatten();
            self.check_claims(&lock, &place, is_written, device)?;
            let old = place.read(&self.system, name)?;
            let new = match is_written {
                true => Some(place.resolve(&self.system, name, change.value())?),
                false => None,
            };
            if let Some(new) = &new {
                place.check(&self.system, device.unwrap_or(&none), &old, new)?;
            }
            values.push(Value { place, old, new, is_written });
        }
        let number = self.store.numbers(&lock)?.last().map_or(1, |last| last + 1);
        let entry = Entry {
            boot: self.boot.clone(),
            namespace: self.namespace,
            owner: self.owner,
            device: device.cloned(),
            change: change.to_string(),
            state: State::Changing,
            values,
        };
        Ok(self.store.write(&lock, number, entry)?)
    }

    /// Refuses a value that another process holds, or that this one has already changed. A value that an ended process
    /// changed is put back first.
    fn check_claims(
        &self,
        lock: &Lock,
        place: &Place,
        is_written: bool,
        device: Option<&Device>,
    ) -> Result<(), Cause> {
        for number in self.store.numbers(lock)?.into_iter().rev() {
            match self.store.find(lock, number)? {
                Found::Owned(entry) if entry.has(place, &self.namespace, device) => {
                    let is_written_there =
                        entry.values.iter().any(|value| value.place == *place && value.is_written);
                    if entry.owner != self.owner || (is_written && is_written_there) {
                        let owner = entry.owner.to_string();
                        return Err(Cause::InUse { owner, change: entry.change });
                    }
                }
                Found::Left(held) if held.entry.has(place, &self.namespace, device) => {
                    let restored = self.undo(lock, held)?;
                    if restored.outcome.remains() {
                        return Err(Cause::NotRecovered {
                            change: restored.change.unwrap_or_default(),
                            reason: restored.outcome.to_string(),
                        });
                    }
                }
                Found::Owned(_) | Found::Left(_) | Found::Unreadable(..) => {}
            }
        }
        Ok(())
    }

    /// Writes the new values, and reads them back.
    fn make(&self, held: &mut Held) -> Result<(), Cause> {
        let device = held.entry.device.clone().unwrap_or_else(Device::none);
        for value in &held.entry.values {
            // An offload may be requested, and not be in use.
            let is_there =
                |new: &String| *new == value.old && !matches!(value.place, Place::Offload(_));
            if let Some(new) = value.new.as_ref().filter(|new| !is_there(new)) {
                value.place.write(&self.system, &device, new, &held.file)?;
            }
        }
        for value in &mut held.entry.values {
            let kept = value.place.read(&self.system, &device.name)?;
            match &value.new {
                Some(wanted) if *wanted != kept => {
                    return Err(Cause::Kept { wanted: wanted.clone(), kept });
                }
                _ => value.new = Some(kept),
            }
        }
        Ok(())
    }

    fn check_namespace(&self) -> Result<(), JournalError> {
        let here = Namespace::here().map_err(JournalError::Namespace)?;
        if here == self.namespace { Ok(()) } else { Err(JournalError::OtherNamespace) }
    }
}

fn failed(cause: &Cause) -> Outcome {
    match cause {
        Cause::NoDevice => Outcome::NoDevice,
        cause => Outcome::Failed { reason: cause.to_string() },
    }
}

fn restored(entry: &Entry, outcome: Outcome) -> Restored {
    let device = entry.device.as_ref().map(|device| device.name.clone());
    Restored { device, change: Some(entry.change.clone()), outcome }
}

#[cfg(test)]
mod tests;
