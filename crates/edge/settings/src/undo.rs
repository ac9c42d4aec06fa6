//! Puts the values of an entry back.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use serde::Serialize;

use crate::entry::{State, Value};
use crate::error::Cause;
use crate::system::{Device, System};

/// A setting whose owner has ended, or ends, and what has become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The device; `None` for a setting of the namespace or of the machine, or if the entry cannot be read.
    pub device: Option<String>,
    /// The change that was made, such as `mtu=9000`; `None` if the entry cannot be read.
    pub change: Option<String>,
    /// What has become of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What has become of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It has its old value again.
    PutBack {
        /// The old value; of several equal ones once.
        value: String,
    },
    /// It had its old value.
    Unchanged,
    /// Somebody else has changed it meanwhile, to a value that was left alone. Its entry was removed.
    ChangedElsewhere {
        /// What it is now.
        value: String,
    },
    /// The device does not exist any more. Its entry was removed.
    NoDevice,
    /// The machine has been rebooted since, which resets all these settings. Its entry was removed.
    OtherBoot,
    /// The network namespace does not exist any more. Its entry was removed.
    NoNamespace,
    /// It belongs to another network namespace, which may still exist.
    OtherNamespace {
        /// A file by which the namespace can be entered (`nsenter --net=FILE`), if it is known.
        file: Option<PathBuf>,
    },
    /// The process that changed it still runs.
    InUse {
        /// Id of the process.
        pid: u32,
    },
    /// Its value could not be put back.
    Failed {
        /// Why.
        reason: String,
    },
    /// The entry in the journal is damaged, or another version wrote it. Nothing was applied.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why it cannot be read.
        reason: String,
    },
}

impl Outcome {
    /// Whether the setting may still differ from what it was before.
    pub fn remains(&self) -> bool {
        match self {
            Self::PutBack { .. }
            | Self::Unchanged
            | Self::ChangedElsewhere { .. }
            | Self::NoDevice
            | Self::OtherBoot
            | Self::NoNamespace => false,
            Self::OtherNamespace { .. }
            | Self::InUse { .. }
            | Self::Failed { .. }
            | Self::Unreadable { .. } => true,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PutBack { value } => write!(f, "put back to {value}"),
            Self::Unchanged => f.write_str("had its old value"),
            Self::ChangedElsewhere { value } => {
                write!(f, "left alone: somebody else has changed it to {value}")
            }
            Self::NoDevice => f.write_str("the device does not exist any more"),
            Self::OtherBoot => f.write_str("reset by a reboot"),
            Self::NoNamespace => f.write_str("its network namespace does not exist any more"),
            Self::OtherNamespace { file: Some(file) } => {
                let file = file.display();
                write!(
                    f,
                    "left alone: it belongs to another network namespace: enter it with nsenter --net={file}"
                )
            }
            Self::OtherNamespace { file: None } => {
                f.write_str("left alone: it belongs to another network namespace")
            }
            Self::InUse { pid } => write!(f, "left alone: process {pid} still uses it"),
            Self::Failed { reason } => write!(f, "not put back: {reason}"),
            Self::Unreadable { file, reason } => {
                let file = file.display();
                write!(
                    f,
                    "the entry {file} of the journal was not applied: {reason}; check the settings of \
                     this host, then remove the file"
                )
            }
        }
    }
}

/// Which values of an entry are to be put back.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Those of the owner of the entry, and those that are the old ones, in the order of the entry.
    pub ours: Vec<Value>,
    /// Whether one of them differs from the old one.
    pub is_changed: bool,
    /// Values that somebody else has set.
    pub elsewhere: Vec<String>,
}

/// Compares current values with those of an entry.
pub(crate) fn judge(
    system: &System,
    device: &str,
    state: State,
    values: &[Value],
) -> Result<Judged, Cause> {
    let mut judged = Judged::default();
    for value in values {
        let now = match value.place.read(system, device) {
            Ok(now) => now,
            // A queue that has disappeared.
            Err(Cause::NoSetting(_)) if !value.place.exists(system, device) => continue,
            // A tree of qdiscs has no name to compare.
            Err(Cause::NotRestorable(now)) => now,
            Err(cause) => return Err(cause),
        };
        let is_old = now == value.old;
        let is_any = state == State::Changing && (value.place.is_rounded() || !value.is_written);
        let is_owners = is_any || value.new.as_ref() == Some(&now);
        if is_old || is_owners {
            judged.ours.push(value.clone());
            judged.is_changed |= !is_old;
        } else {
            judged.elsewhere.push(now);
        }
    }
    Ok(judged)
}

/// Writes old values, the last one first, and checks that they are there.
pub(crate) fn put_back(
    system: &System,
    device: &Device,
    values: &[Value],
    lock: &File,
) -> Result<(), Cause> {
    for Value { place, old, .. } in values.iter().rev() {
        // A value that cannot be read is replaced, too.
        if place.read(system, &device.name).ok().as_ref() != Some(old) {
            match place.write(system, device, old, lock) {
                // What a device really has is read below.
                Ok(()) | Err(Cause::Kept { .. }) => {}
                Err(cause) => return Err(cause),
            }
        }
    }
    for Value { place, old, .. } in values {
        let kept = place.read(system, &device.name)?;
        if kept != *old {
            return Err(Cause::Kept { wanted: old.clone(), kept });
        }
    }
    Ok(())
}

/// Values without repetitions, for messages.
pub(crate) fn listed<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = values.collect();
    all.dedup();
    all.join(", ")
}
