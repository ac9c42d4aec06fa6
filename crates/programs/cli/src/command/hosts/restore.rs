//! `fabricmark hosts restore`: settings that a killed process has changed.

use fabricmark_control::recover_settings;
use fabricmark_settings::{Journal, Outcome, Restored};
use serde_json::json;

use crate::exit::{Code, Failure};
use crate::options::hosts::Restore;
use crate::output::answer;

/// Puts back what killed processes have changed, and prints what has become of it.
pub fn restore(options: &Restore) -> Result<(), Failure> {
    let journal = match &options.state {
        None => Journal::existing()?,
        Some(folder) if matches!(folder.try_exists(), Ok(false)) => None,
        Some(folder) => Some(Journal::open(folder)?),
    };
    let restored = journal.map(|journal| journal.recover()).transpose()?.unwrap_or_default();
    let remaining = restored.iter().filter(|one| one.outcome.remains()).count();
    let json = || json!({ "settings": restored, "remaining": remaining });
    answer(options.json, json, || text(&restored))?;
    match remaining {
        0 => Ok(()),
        1 => Err(Failure::new(Code::RunFailed, "1 host setting was not put back")),
        _ => Err(Failure::new(
            Code::RunFailed,
            format!("{remaining} host settings were not put back"),
        )),
    }
}

/// Puts back what killed processes have changed, before a command measures, and says so. What belongs to others is theirs.
pub fn recover() {
    let is_news = |one: &Restored| {
        let is_of_others = matches!(
            one.outcome,
            Outcome::InUse { .. }
                | Outcome::OtherNamespace { .. }
                | Outcome::NoNamespace
                | Outcome::OtherBoot
        );
        !is_of_others
    };
    let restored: Vec<Restored> = recover_settings().into_iter().filter(is_news).collect();
    if !restored.is_empty() {
        note!("host settings that a killed run had changed:\n{}", text(&restored).trim_end());
    }
}

/// A line for each setting.
fn text(restored: &[Restored]) -> String {
    if restored.is_empty() {
        return "nothing to put back\n".to_owned();
    }
    let line = |one: &Restored| {
        let parts = [one.device.as_deref(), one.change.as_deref()];
        let name: String = parts.into_iter().flatten().map(|part| format!("{part}: ")).collect();
        format!("{name}{}\n", one.outcome)
    };
    restored.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_device_the_change_and_what_has_become_of_it() {
        let one = |device: Option<&str>, change: Option<&str>, outcome| Restored {
            device: device.map(str::to_owned),
            change: change.map(str::to_owned),
            outcome,
        };
        let restored = [
            one(Some("eth0"), Some("mtu=9000"), Outcome::PutBack { value: "1500".to_owned() }),
            one(None, Some("busy-poll=50"), Outcome::ChangedElsewhere { value: "9".to_owned() }),
            one(
                None,
                None,
                Outcome::Unreadable { file: "/j/1.damaged".into(), reason: "it is damaged".into() },
            ),
        ];
        assert_eq!(
            text(&restored),
            "eth0: mtu=9000: put back to 1500\n\
             busy-poll=50: left alone: somebody else has changed it to 9\n\
             the entry /j/1.damaged of the journal was not applied: it is damaged; check the \
             settings of this host, then remove the file\n"
        );
        assert_eq!(text(&[]), "nothing to put back\n");
    }
}
