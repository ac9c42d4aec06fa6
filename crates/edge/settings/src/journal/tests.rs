//! The journal over a folder in place of the kernel's files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::error::{JournalError, SettingError};

/// Files of a machine with one device and two frequency policies.
const FILES: [(&str, &str); 11] = [
    ("sys/class/net/eth0/ifindex", "2\n"),
    ("sys/class/net/eth0/mtu", "1500\n"),
    ("sys/class/net/eth0/mode", "connected\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000000\n"),
    ("sys/class/net/eth0/queues/rx-1/rps_cpus", "00000000,00000003\n"),
    ("sys/class/net/eth0/queues/tx-0/xps_cpus", "1\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "schedutil\n"),
    ("proc/sys/net/core/busy_poll", "0\n"),
    ("proc/sys/net/core/busy_read", "50\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
];

const ENTRY: &str = "journal/0000000001.entry";

struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        // In memory, like /run: each entry waits for the disk.
        let machine = Self(TempDir::new_in("/dev/shm").unwrap());
        for (path, text) in FILES {
            machine.write(path, text);
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap().trim().to_owned()
    }

    fn journal(&self) -> Journal {
        Journal::new(&self.path("journal"), System::below(self.0.path())).unwrap()
    }

    /// Whether all values are the old ones; a mask may be written in another form.
    fn is_as_before(&self) -> bool {
        let plain =
            |text: &str| crate::value::mask(text).unwrap_or_else(|| crate::value::words(text));
        FILES.iter().all(|(path, text)| plain(&self.read(path)) == plain(text))
    }

    fn entries(&self) -> usize {
        let journal = self.journal();
        journal.store.numbers(&journal.store.lock().unwrap()).unwrap().len()
    }

    /// Makes changes, and ends like a process that is killed.
    fn change_and_die(&self, changes: &[&str]) {
        let mut journal = self.journal();
        let mut applied = journal.begin();
        for change in changes {
            applied.change(Some("eth0"), &change.parse().unwrap()).unwrap();
        }
        applied.abandon();
    }

    /// What becomes of the entries that are there.
    fn outcomes(&self) -> Vec<Outcome> {
        self.journal().recover().unwrap().into_iter().map(|restored| restored.outcome).collect()
    }

    /// Replaces the entry by one that differs.
    fn edit(&self, edit: impl FnOnce(&mut Entry)) {
        let mut entry = Entry::decode(&fs::read(self.path(ENTRY)).unwrap()).unwrap();
        edit(&mut entry);
        fs::write(self.path(ENTRY), entry.encode().unwrap()).unwrap();
    }
}

fn refusal(journal: &mut Journal, change: &str) -> SettingError {
    journal.begin().change(Some("eth0"), &change.parse().unwrap()).unwrap_err()
}

/// A change, the files that it writes, and what they contain then.
const CHANGES: [(&str, &[(&str, &str)]); 7] = [
    ("mtu=9000", &[("sys/class/net/eth0/mtu", "9000")]),
    ("ipoib-mode=datagram", &[("sys/class/net/eth0/mode", "datagram")]),
    (
        "rps=ff,00000001",
        &[
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "ff,00000001"),
            ("sys/class/net/eth0/queues/rx-1/rps_cpus", "ff,00000001"),
        ],
    ),
    ("xps=3", &[("sys/class/net/eth0/queues/tx-0/xps_cpus", "3")]),
    (
        "busy-poll=75",
        &[("proc/sys/net/core/busy_poll", "75"), ("proc/sys/net/core/busy_read", "75")],
    ),
    (
        "governor=performance",
        &[
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance"),
            ("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "performance"),
        ],
    ),
    ("sysctl:net.ipv4.tcp_rmem=1 2 3", &[("proc/sys/net/ipv4/tcp_rmem", "1 2 3")]),
];

#[test]
fn each_setting_is_written_where_the_kernel_has_it_and_put_back_at_the_end() {
    for (change, files) in CHANGES {
        let machine = Machine::new();
        let mut journal = machine.journal();
        let mut applied = journal.begin();
        applied.change(Some("eth0"), &change.parse().unwrap()).unwrap();
        for (path, text) in files {
            assert_eq!(machine.read(path), *text, "{change}");
        }
        drop(applied);
        assert!(machine.is_as_before(), "{change}");
        assert_eq!(machine.entries(), 0, "{change}");
    }
}

#[test]
fn all_settings_of_an_owner_that_was_killed_are_put_back_in_the_reverse_order() {
    let machine = Machine::new();
    let changes = CHANGES.map(|(change, _)| change);
    machine.change_and_die(&changes);
    assert_eq!(machine.entries(), CHANGES.len());
    let restored = machine.journal().recover().unwrap();
    let order: Vec<String> = restored.iter().filter_map(|one| one.change.clone()).collect();
    let expected = changes.map(|change| change.parse::<Change>().unwrap().to_string());
    assert_eq!(order, expected.into_iter().rev().collect::<Vec<_>>());
    assert!(restored.iter().all(|one| matches!(one.outcome, Outcome::PutBack { .. })));
    assert!(machine.is_as_before());
    assert_eq!((machine.entries(), machine.outcomes()), (0, vec![]));
}

#[test]
fn an_entry_whose_change_was_not_made_is_harmless() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000"]);
    machine.write("sys/class/net/eth0/mtu", "1500\n");
    machine.edit(|entry| entry.state = State::Changing);
    assert_eq!(machine.outcomes(), [Outcome::Unchanged]);
    assert!(machine.is_as_before());
}

/// Killed between the writes of two queues.
#[test]
fn a_change_that_was_half_made_is_undone() {
    let machine = Machine::new();
    machine.change_and_die(&["rps=f"]);
    machine.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "3\n");
    machine.edit(|entry| entry.state = State::Changing);
    assert_eq!(machine.outcomes(), [Outcome::PutBack { value: "0, 3".to_owned() }]);
    assert!(machine.is_as_before());
}

/// Killed between the write and the reading of what the device made of it.
#[test]
fn a_value_that_the_device_rounded_is_undone() {
    let machine = Machine::new();
    machine.change_and_die(&["xps=f"]);
    machine.write("sys/class/net/eth0/queues/tx-0/xps_cpus", "3\n");
    machine.edit(|entry| entry.state = State::Changing);
    assert_eq!(machine.outcomes(), [Outcome::PutBack { value: "1".to_owned() }]);
    assert!(machine.is_as_before());
    // Of an incomplete list the kernel takes the first numbers.
    machine.change_and_die(&["sysctl:net.ipv4.tcp_rmem=8192"]);
    machine.write("proc/sys/net/ipv4/tcp_rmem", "8192\t131072\t6291456\n");
    machine.edit(|entry| entry.state = State::Changing);
    assert!(matches!(machine.outcomes()[..], [Outcome::PutBack { .. }]));
    assert!(machine.is_as_before());
    // An MTU is not rounded: somebody else has set this one.
    machine.change_and_die(&["mtu=9000"]);
    machine.write("sys/class/net/eth0/mtu", "8996\n");
    machine.edit(|entry| entry.state = State::Changing);
    assert_eq!(machine.outcomes(), [Outcome::ChangedElsewhere { value: "8996".to_owned() }]);
}

#[test]
fn a_value_that_somebody_else_has_set_meanwhile_is_left_alone() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000", "rps=f"]);
    machine.write("sys/class/net/eth0/mtu", "4000\n");
    machine.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "8\n");
    let elsewhere = |value: &str| Outcome::ChangedElsewhere { value: value.to_owned() };
    assert_eq!(machine.outcomes(), [elsewhere("8"), elsewhere("4000")]);
    assert_eq!(machine.read("sys/class/net/eth0/mtu"), "4000");
    assert_eq!(machine.read("sys/class/net/eth0/queues/rx-1/rps_cpus"), "8");
    assert_eq!(machine.read("sys/class/net/eth0/queues/rx-0/rps_cpus"), "0");
    assert_eq!(machine.entries(), 0);
}

#[test]
fn an_mtu_that_the_ipoib_mode_changed_is_put_back_with_it() {
    let machine = Machine::new();
    machine.change_and_die(&["ipoib-mode=datagram"]);
    let is_mtu = |value: &&mut Value| value.place == Place::Mtu;
    machine.edit(|entry| {
        entry.values.iter_mut().find(is_mtu).unwrap().new = Some("2044".to_owned());
    });
    machine.write("sys/class/net/eth0/mtu", "2044\n");
    assert_eq!(machine.outcomes(), [Outcome::PutBack { value: "connected".to_owned() }]);
    assert!(machine.is_as_before());
    // Killed after the mode was put back, which set the MTU of that mode.
    machine.change_and_die(&["ipoib-mode=datagram"]);
    machine.edit(|entry| entry.state = State::Changing);
    machine.write("sys/class/net/eth0/mode", "connected\n");
    machine.write("sys/class/net/eth0/mtu", "65520\n");
    assert!(matches!(machine.outcomes().as_slice(), [Outcome::PutBack { .. }]));
    assert!(machine.is_as_before());
}

#[test]
fn an_mtu_may_be_set_after_the_ipoib_mode() {
    let machine = Machine::new();
    machine.change_and_die(&["ipoib-mode=datagram", "mtu=2044"]);
    machine.journal().recover().unwrap();
    assert!(machine.is_as_before());
}

#[test]
fn an_entry_of_another_boot_is_dropped_without_writing() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000"]);
    machine.edit(|entry| entry.boot = "another".to_owned());
    assert_eq!(machine.outcomes(), [Outcome::OtherBoot]);
    assert_eq!((machine.read("sys/class/net/eth0/mtu").as_str(), machine.entries()), ("9000", 0));
}

#[test]
fn an_entry_of_another_namespace_is_not_applied() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000"]);
    machine.edit(|entry| entry.namespace.inode = 1);
    // In a container, not all processes are visible.
    let outcomes = machine.outcomes();
    let dropped = matches!(outcomes.as_slice(), [Outcome::NoNamespace]);
    assert!(dropped || outcomes == [Outcome::OtherNamespace { file: None }]);
    assert_eq!(machine.read("sys/class/net/eth0/mtu"), "9000");
    assert_eq!(machine.entries(), usize::from(!dropped));
}

/// The kernel gives the number of a namespace that has ended to the next one.
#[test]
fn an_entry_of_a_namespace_whose_inode_number_is_used_again_is_dropped() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000"]);
    machine.edit(|entry| entry.namespace.cookie = Some(u64::MAX));
    assert_eq!(machine.outcomes(), [Outcome::NoNamespace]);
    assert_eq!((machine.read("sys/class/net/eth0/mtu").as_str(), machine.entries()), ("9000", 0));
}

#[test]
fn a_governor_is_put_back_in_any_namespace() {
    let machine = Machine::new();
    machine.change_and_die(&["governor=performance"]);
    machine.edit(|entry| entry.namespace.inode = 1);
    assert!(matches!(machine.outcomes().as_slice(), [Outcome::PutBack { .. }]));
    assert!(machine.is_as_before());
}

#[test]
fn a_renamed_device_is_found_and_a_new_one_of_its_name_is_left_alone() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000"]);
    let (old, new) = ("sys/class/net/eth0", "sys/class/net/lan0");
    fs::rename(machine.path(old), machine.path(new)).unwrap();
    machine.write("sys/class/net/eth0/ifindex", "3\n");
    machine.write("sys/class/net/eth0/mtu", "9000\n");
    assert_eq!(machine.outcomes(), [Outcome::PutBack { value: "1500".to_owned() }]);
    assert_eq!(machine.read("sys/class/net/lan0/mtu"), "1500");
    assert_eq!(machine.read("sys/class/net/eth0/mtu"), "9000");
}

#[test]
fn a_device_and_a_queue_that_have_disappeared_need_nothing() {
    let machine = Machine::new();
    machine.change_and_die(&["rps=f"]);
    fs::remove_dir_all(machine.path("sys/class/net/eth0/queues/rx-1")).unwrap();
    assert_eq!(machine.outcomes(), [Outcome::PutBack { value: "0".to_owned() }]);
    machine.change_and_die(&["mtu=9000"]);
    fs::remove_dir_all(machine.path("sys/class/net/eth0")).unwrap();
    assert_eq!(machine.outcomes(), [Outcome::NoDevice]);
    assert_eq!(machine.entries(), 0);
}

#[test]
fn a_damaged_entry_is_reported_once_and_the_others_are_undone() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000", "busy-poll=75", "xps=3"]);
    let middle = machine.path("journal/0000000002.entry");
    let bytes = fs::read(&middle).unwrap();
    fs::write(&middle, &bytes[..bytes.len() / 2]).unwrap();
    let outcomes = machine.outcomes();
    let file = machine.path("journal/0000000002.damaged");
    let reason = "it is damaged".to_owned();
    assert_eq!(outcomes[1], Outcome::Unreadable { file: file.clone(), reason });
    assert!(outcomes[1].remains());
    assert_eq!(machine.read("sys/class/net/eth0/mtu"), "1500");
    assert_eq!(machine.read("sys/class/net/eth0/queues/tx-0/xps_cpus"), "1");
    assert_eq!(machine.read("proc/sys/net/core/busy_poll"), "75");
    assert_eq!(machine.outcomes(), []);
    assert!(file.exists());
}

#[test]
fn a_journal_in_a_folder_that_others_can_write_to_is_refused() {
    let folder = TempDir::new().unwrap();
    let journal = folder.path().join("journal");
    let refused = |journal: &Path| matches!(Journal::open(journal), Err(JournalError::NotOwn(path)) if path == *journal);
    fs::create_dir(&journal).unwrap();
    assert!(!refused(&journal));
    fs::set_permissions(&journal, Permissions::from_mode(0o777)).unwrap();
    assert!(refused(&journal));
    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    assert!(refused(&link));
}

#[test]
fn an_entry_that_is_no_file_does_not_keep_others_from_being_undone() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000", "xps=3"]);
    let last = machine.path("journal/0000000002.entry");
    fs::remove_file(&last).unwrap();
    fs::create_dir(&last).unwrap();
    let outcomes = machine.outcomes();
    assert!(matches!(&outcomes[0], Outcome::Failed { reason } if reason.contains("cannot read")));
    assert_eq!(outcomes[1], Outcome::PutBack { value: "1500".to_owned() });
}

#[test]
fn an_entry_of_a_newer_version_stays() {
    let machine = Machine::new();
    machine.write(ENTRY, "fabricmark-setting 2 00000000 {}\n");
    let reason = "another version of fabricmark wrote it".to_owned();
    let expected = [Outcome::Unreadable { file: machine.path(ENTRY), reason }];
    assert_eq!(machine.outcomes(), expected);
    assert_eq!(machine.outcomes(), expected);
}

#[test]
fn what_was_left_of_an_entry_that_was_being_written_is_removed() {
    let machine = Machine::new();
    machine.write("journal/0000000007.part", "fabricmark-sett");
    assert_eq!(machine.outcomes(), []);
    assert!(!machine.path("journal/0000000007.part").exists());
}

#[test]
fn a_setting_in_use_is_refused_with_its_owner_and_other_settings_are_not() {
    let machine = Machine::new();
    let (mut first, mut second) = (machine.journal(), machine.journal());
    let mut applied = first.begin();
    applied.change(Some("eth0"), &"mtu=9000".parse().unwrap()).unwrap();
    applied.change(None, &"busy-poll=75".parse().unwrap()).unwrap();
    let error = refusal(&mut second, "mtu=4000");
    let pid = std::process::id();
    assert!(matches!(&error.cause, Cause::InUse { change, .. } if change == "mtu=9000"));
    assert!(error.to_string().contains(&format!("process {pid} (")), "{error}");
    // The same value by another name.
    let error = refusal(&mut second, "sysctl:net.core.busy_read=1");
    assert!(matches!(&error.cause, Cause::InUse { change, .. } if change == "busy-poll=75"));
    assert_eq!(second.recover().unwrap()[0].outcome, Outcome::InUse { pid });
    second.begin().change(Some("eth0"), &"xps=3".parse().unwrap()).unwrap();
    drop(applied);
    second.begin().change(Some("eth0"), &"mtu=4000".parse().unwrap()).unwrap();
    assert!(machine.is_as_before());
}

#[test]
fn a_setting_of_an_owner_that_was_killed_is_put_back_before_it_is_changed_again() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000"]);
    machine.change_and_die(&["mtu=4000"]);
    machine.journal().recover().unwrap();
    assert!(machine.is_as_before());
}

/// A program that the owner started has the lock, and would change the value after it was put back.
#[test]
fn a_setting_is_not_put_back_while_a_program_of_a_killed_owner_runs() {
    let machine = Machine::new();
    machine.change_and_die(&["mtu=9000"]);
    machine.edit(|entry| entry.owner.start += 1);
    let inherited = fs::File::open(machine.path(ENTRY)).unwrap();
    inherited.lock().unwrap();
    assert_eq!(machine.outcomes(), [Outcome::InUse { pid: std::process::id() }]);
    assert_eq!(machine.read("sys/class/net/eth0/mtu"), "9000");
    drop(inherited);
    assert_eq!(machine.outcomes(), [Outcome::PutBack { value: "1500".to_owned() }]);
}

#[test]
fn a_value_that_the_device_silently_keeps_is_refused_with_both() {
    let machine = Machine::new();
    let mtu = machine.path("sys/class/net/eth0/mtu");
    fs::remove_file(&mtu).unwrap();
    symlink("/dev/null", &mtu).unwrap();
    let error = refusal(&mut machine.journal(), "mtu=9000");
    assert!(
        matches!(&error.cause, Cause::Kept { wanted, kept } if wanted == "9000" && kept.is_empty())
    );
    assert_eq!(machine.entries(), 0);
}

#[test]
fn refusals_are_told_apart() {
    let machine = Machine::new();
    let mut journal = machine.journal();
    let mut cause = |device: Option<&str>, change: &str| {
        journal.begin().change(device, &change.parse().unwrap()).unwrap_err().cause
    };
    assert!(matches!(cause(None, "mtu=9000"), Cause::NeedsDevice));
    for name in ["eth1", "", "..", "eth0/../eth0"] {
        assert!(matches!(cause(Some(name), "mtu=9000"), Cause::NoDevice), "{name}");
    }
    assert!(matches!(cause(None, "sysctl:net.core.rmem_none=1"), Cause::NoSetting(_)));
    fs::remove_file(machine.path("sys/class/net/eth0/mode")).unwrap();
    assert!(matches!(cause(Some("eth0"), "ipoib-mode=datagram"), Cause::NoSetting(_)));
    fs::remove_dir_all(machine.path("sys/devices/system/cpu/cpufreq")).unwrap();
    assert!(matches!(cause(None, "governor=performance"), Cause::NoSetting(_)));
    assert_eq!(machine.entries(), 0);
}

/// Each line of if_inet6 ends with the device.
#[test]
fn an_mtu_that_would_remove_ipv6_addresses_is_refused() {
    let machine = Machine::new();
    let line = "fe80000000000000540fbdfffe249eca 02 40 20 80     eth0\n";
    machine.write("proc/thread-self/net/if_inet6", line);
    let mut journal = machine.journal();
    assert!(matches!(refusal(&mut journal, "mtu=1279").cause, Cause::NotRestorable(_)));
    journal.begin().change(Some("eth0"), &"mtu=1280".parse().unwrap()).unwrap();
    machine.write("proc/thread-self/net/if_inet6", &line.replace("eth0", "eth01"));
    journal.begin().change(Some("eth0"), &"mtu=1279".parse().unwrap()).unwrap();
    assert!(machine.is_as_before());
}

proptest! {
    #[test]
    fn no_bytes_in_an_entry_change_anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let machine = Machine::new();
        machine.write(ENTRY, "");
        fs::write(machine.path(ENTRY), bytes).unwrap();
        let is_reported = matches!(machine.outcomes().as_slice(), [Outcome::Unreadable { .. }]);
        prop_assert!(is_reported);
        prop_assert!(machine.is_as_before());
    }
}
