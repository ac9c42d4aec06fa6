//! The files of a journal: one entry each, written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_host::is_own_folder;

use crate::entry::{Entry, Unreadable};
use crate::error::JournalError;

/// Extension of entries; their names are numbers, which grow in the order of the changes.
const ENTRY: &str = "entry";

/// Extension of an entry that is being written.
const PART: &str = "part";

/// Extension of an entry that could not be read.
const DAMAGED: &str = "damaged";

/// Longest file that is read as an entry, in bytes. The longest entries, CPU masks of 2048 CPUs for each of 1024
/// queues, are shorter.
const ENTRY_MAX: u64 = 4 << 20;

/// Longest wait for a program that a dead owner had started. `tc` takes some milliseconds.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 2000 });
const PAUSE: Duration = Duration::from_millis(1);

/// The folder of a journal.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// The right to read and write entries, which one thread of one process has at a time.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// An entry and its file, which is locked as long as its setting is held. The lock disappears with the process, so it
/// tells whether the owner lives, whatever PID namespace it is in.
#[derive(Debug)]
pub(crate) struct Held {
    pub number: u64,
    pub entry: Entry,
    pub file: File,
}

/// A file of the journal.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its owner has ended, and now this process holds it.
    Left(Held),
    /// Its owner holds it.
    Owned(Entry),
    /// It cannot be read; the path is where it is now.
    Unreadable(PathBuf, Unreadable),
}

impl Store {
    /// Opens a folder, and creates it if it does not exist, for this user only.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(JournalError::file("create", folder))?;
        // An entry says what is written to this host, so nobody else may write one.
        if !is_own_folder(folder).map_err(JournalError::file("inspect", folder))? {
            return Err(JournalError::NotOwn(folder.to_owned()));
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Waits until no other thread or process uses the journal.
    pub fn lock(&self) -> Result<Lock, JournalError> {
        let path = self.folder.join("lock");
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(JournalError::file("open", &path))?;
        file.lock().map_err(JournalError::file("lock", &path))?;
        Ok(Lock { _file: file })
    }

    fn path(&self, number: u64, extension: &str) -> PathBuf {
        self.folder.join(format!("{number:010}.{extension}"))
    }

    /// The numbers of all entries, in ascending order. Removes what processes have left that were killed while they
    /// wrote an entry, and thus before they changed anything.
    pub fn numbers(&self, _: &Lock) -> Result<Vec<u64>, JournalError> {
        let failed = || JournalError::file("list", &self.folder);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let number = stem.and_then(|stem| stem.parse::<u64>().ok());
            match (path.extension().and_then(|extension| extension.to_str()), number) {
                (Some(ENTRY), Some(number)) => numbers.push(number),
                (Some(PART), Some(_)) => {
                    fs::remove_file(&path).map_err(JournalError::file("remove", &path))?;
                }
                _ => {}
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Writes an entry, or writes it anew, so that it survives a crash from the return of this function on. On an
    /// error the entry is what it was before.
    pub fn write(&self, _: &Lock, number: u64, entry: Entry) -> Result<Held, JournalError> {
        let (part, path) = (self.path(number, PART), self.path(number, ENTRY));
        let written = || {
            // A part that is there was left by a process that was killed: the lock is ours.
            let file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(&part)?;
            file.lock()?;
            (&file).write_all(&entry.encode()?)?;
            file.sync_all()?;
            fs::rename(&part, &path)?;
            Ok(file)
        };
        match written() {
            Ok(file) => {
                self.sync()?;
                Ok(Held { number, entry, file })
            }
            Err(error) => {
                // What is left of it is no entry, and the next one of this number replaces it.
                let _ = fs::remove_file(&part);
                Err(JournalError::file("write", &path)(error))
            }
        }
    }

    /// Removes an entry.
    pub fn remove(&self, _: &Lock, held: &Held) -> Result<(), JournalError> {
        let path = self.path(held.number, ENTRY);
        fs::remove_file(&path).map_err(JournalError::file("remove", &path))?;
        self.sync()
    }

    /// Makes the names in the folder survive a crash.
    fn sync(&self) -> Result<(), JournalError> {
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(JournalError::file("write", &self.folder))
    }

    /// Reads an entry, and takes it over if its owner has ended. An entry that is damaged gets another name, so that
    /// nothing reads it again.
    pub fn find(&self, _: &Lock, number: u64) -> Result<Found, JournalError> {
        let path = self.path(number, ENTRY);
        let failed = || JournalError::file("read", &path);
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed())?;
        let is_ours = is_free(&file).map_err(failed())?;
        let mut bytes = Vec::new();
        (&file).take(ENTRY_MAX).read_to_end(&mut bytes).map_err(failed())?;
        match Entry::decode(&bytes) {
            Ok(entry) if is_ours => Ok(Found::Left(Held { number, entry, file })),
            Ok(entry) if entry.owner.is_alive() => Ok(Found::Owned(entry)),
            // The owner has ended, but not a program that it started to change the setting.
            Ok(entry) if await_free(&file).map_err(failed())? => {
                Ok(Found::Left(Held { number, entry, file }))
            }
            Ok(entry) => Ok(Found::Owned(entry)),
            Err(Unreadable::Damaged) if is_ours => {
                let aside = self.path(number, DAMAGED);
                fs::rename(&path, &aside).map_err(JournalError::file("rename", &path))?;
                Ok(Found::Unreadable(aside, Unreadable::Damaged))
            }
            Err(why) => Ok(Found::Unreadable(path, why)),
        }
    }
}

/// Whether nobody else holds the file; if so, this process does now.
fn is_free(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn await_free(file: &File) -> io::Result<bool> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if is_free(file)? {
            return Ok(true);
        }
        thread::sleep(PAUSE);
    }
    Ok(false)
}
