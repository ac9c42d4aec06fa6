//! Settings of a veth pair in a namespace of the test.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use fabricmark_lab::Namespace;
use fabricmark_settings::{Cause, Journal, JournalError, Outcome};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use tempfile::TempDir;

use support::{Readings, change, run, veth, with_journal};

/// Makes the change, checks that the settings contain `expected`, and that they are as before afterwards.
fn is_put_back(test: &str, text: &str, expected: &str) {
    let (Some(namespace), folder) = (veth(test), TempDir::new().unwrap()) else { return };
    let readings = Readings::of(&namespace);
    let before = readings.all(&namespace);
    assert!(!before.contains(expected), "{before}");
    with_journal(&namespace, folder.path(), |mut journal| {
        let mut applied = journal.begin();
        applied.change(Some("v0"), &change(text)).unwrap();
        assert!(readings.all(&namespace).contains(expected), "{}", readings.all(&namespace));
    });
    assert_eq!(readings.all(&namespace), before);
}

#[test]
fn an_mtu_is_put_back() {
    is_put_back("an_mtu_is_put_back", "mtu=9000", "mtu 9000\n");
}

#[test]
fn a_qdisc_is_put_back() {
    is_put_back("a_qdisc_is_put_back", "qdisc=pfifo", "qdisc pfifo ");
}

#[test]
fn a_value_that_is_there_already_is_accepted() {
    let test = "a_value_that_is_there_already_is_accepted";
    let (Some(namespace), folder) = (veth(test), TempDir::new().unwrap()) else { return };
    with_journal(&namespace, folder.path(), |mut journal| {
        let mut applied = journal.begin();
        for text in ["mtu=1500", "tso=on", "rps=0", "qdisc=default"] {
            applied.change(Some("v0"), &change(text)).unwrap();
        }
        let restored = applied.put_back().unwrap();
        assert!(restored.iter().all(|one| one.outcome == Outcome::Unchanged), "{restored:?}");
    });
}

#[test]
fn features_are_put_back() {
    let test = "features_are_put_back";
    is_put_back(test, "tso=off", "tx-tcp-segmentation false false\n");
    is_put_back(test, "gro=on", "rx-gro true true\n");
    // TSO needs checksums, and comes back with them.
    is_put_back(test, "tx-checksum=off", "tx-tcp-segmentation false true\n");
}

#[test]
fn a_sysctl_is_put_back() {
    let test = "a_sysctl_is_put_back";
    let text = "sysctl:net.ipv4.tcp_rmem=4096 65536 1000000";
    is_put_back(test, text, "net/ipv4/tcp_rmem 4096\t65536\t1000000\n");
}

#[test]
fn the_masks_of_all_queues_are_put_back() {
    let test = "the_masks_of_all_queues_are_put_back";
    is_put_back(test, "rps=1", "queues/rx-0/rps_cpus 1\nqueues/rx-1/rps_cpus 1\n");
    is_put_back(test, "xps=1", "queues/tx-1/xps_cpus 1\n");
}

#[test]
fn settings_that_affect_each_other_are_undone_in_the_reverse_order() {
    let test = "settings_that_affect_each_other_are_undone_in_the_reverse_order";
    let (Some(namespace), folder) = (veth(test), TempDir::new().unwrap()) else { return };
    let readings = Readings::of(&namespace);
    let before = readings.all(&namespace);
    with_journal(&namespace, folder.path(), |mut journal| {
        let mut applied = journal.begin();
        for text in ["tx-checksum=off", "tso=off", "mtu=2000", "gso=off"] {
            applied.change(Some("v0"), &change(text)).unwrap();
        }
        let restored = applied.put_back().unwrap();
        let changes: Vec<&str> = restored.iter().filter_map(|one| one.change.as_deref()).collect();
        assert_eq!(changes, ["gso=off", "mtu=2000", "tso=off", "tx-checksum=off"]);
    });
    assert_eq!(readings.all(&namespace), before);
}

#[test]
fn a_refusal_has_the_reason_of_the_kernel() {
    let test = "a_refusal_has_the_reason_of_the_kernel";
    let (Some(namespace), folder) = (veth(test), TempDir::new().unwrap()) else { return };
    let readings = Readings::of(&namespace);
    let before = readings.all(&namespace);
    with_journal(&namespace, folder.path(), |mut journal| {
        let mut refusal =
            |text: &str| journal.begin().change(Some("v0"), &change(text)).unwrap_err();
        assert_eq!(
            refusal("mtu=70000").to_string(),
            "cannot set mtu=70000 on v0: refused: Invalid argument: mtu greater than device maximum"
        );
        let error = refusal("qdisc=nosuch").to_string();
        assert!(error.ends_with("refused: Error: Specified qdisc kind is unknown."), "{error}");
        let error = refusal("sysctl:net.ipv4.tcp_congestion_control=nosuch");
        assert!(matches!(error.cause, Cause::Refused(_)), "{error}");
        // More CPUs than Linux is built for.
        let error = refusal(&format!("rps=1{}", "0".repeat(2000)));
        assert!(matches!(error.cause, Cause::Refused(_)), "{error}");
        for text in ["rx-usecs=3", "adaptive-tx=on", "ipoib-mode=datagram", "busy-poll=50"] {
            let error = refusal(text);
            assert!(matches!(error.cause, Cause::NoSetting(_)), "{error}");
        }
        assert_eq!(journal.recover().unwrap(), []);
    });
    assert_eq!(readings.all(&namespace), before);
}

#[test]
fn a_missing_capability_is_told_from_a_refused_value() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let test = "a_missing_capability_is_told_from_a_refused_value";
    let folder = TempDir::new().unwrap();
    for (missing, changes) in [
        (CapabilitySet::NET_ADMIN, &["mtu=9000", "tso=off", "rps=1"][..]),
        // To mount sysfs.
        (CapabilitySet::SYS_ADMIN, &["mtu=9000"]),
    ] {
        let Some(namespace) = veth(test) else { return };
        with_journal(&namespace, folder.path(), |mut journal| {
            let mut held = capabilities(None).unwrap();
            held.effective.remove(missing);
            // Of this thread.
            set_capabilities(None, held).unwrap();
            for text in changes {
                let error = journal.begin().change(Some("v0"), &change(text)).unwrap_err();
                assert!(matches!(error.cause, Cause::NoPrivilege(_)), "{error}");
            }
        });
    }
}

#[test]
fn a_qdisc_that_somebody_has_set_is_refused() {
    let test = "a_qdisc_that_somebody_has_set_is_refused";
    let (Some(namespace), folder) = (veth(test), TempDir::new().unwrap()) else { return };
    run(&namespace, "tc qdisc add dev v0 root pfifo limit 7");
    with_journal(&namespace, folder.path(), |mut journal| {
        let error = journal.begin().change(Some("v0"), &change("qdisc=bfifo")).unwrap_err();
        assert!(matches!(error.cause, Cause::NotRestorable(_)), "{error}");
    });
}

/// Ends like a process that is killed, by leaving the journal's thread without undoing anything.
fn change_and_leave(namespace: &Namespace, folder: &std::path::Path, text: &str) {
    with_journal(namespace, folder, |journal| {
        let journal: &'static mut Journal = Box::leak(Box::new(journal));
        let mut applied = journal.begin();
        applied.change(Some("v0"), &change(text)).unwrap();
        std::mem::forget(applied);
    });
}

#[test]
fn an_entry_of_another_namespace_is_left_for_a_process_in_it() {
    let test = "an_entry_of_another_namespace_is_left_for_a_process_in_it";
    let folder = TempDir::new().unwrap();
    let (Some(here), Some(there)) = (veth(test), veth(test)) else { return };
    let (readings, before) = (Readings::of(&there), Readings::of(&there).all(&there));
    // A copy of the journal has no living owner: its files are not locked.
    let copy = folder.path().join("copy");
    change_and_leave(&there, &folder.path().join("original"), "mtu=9000");
    fs::create_dir(&copy).unwrap();
    let entry = "0000000001.entry";
    fs::copy(folder.path().join("original").join(entry), copy.join(entry)).unwrap();
    let restored = with_journal(&here, &copy, |journal| journal.recover().unwrap());
    let Outcome::OtherNamespace { file: Some(file) } = &restored[0].outcome else {
        panic!("{restored:?}");
    };
    assert!(file.starts_with("/proc"), "{file:?}");
    assert_eq!(readings.file("v0/mtu"), "9000");
    let restored = with_journal(&there, &copy, |journal| journal.recover().unwrap());
    assert_eq!(restored[0].outcome, Outcome::PutBack { value: "1500".to_owned() });
    assert_eq!(readings.all(&there), before);
}

#[test]
fn a_thread_that_has_entered_another_namespace_changes_nothing() {
    let test = "a_thread_that_has_entered_another_namespace_changes_nothing";
    let folder = TempDir::new().unwrap();
    let (Some(here), Some(there)) = (veth(test), veth(test)) else { return };
    let readings = Readings::of(&there);
    with_journal(&here, folder.path(), |mut journal| {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&there), kind).unwrap();
        let error = journal.begin().change(Some("v0"), &change("mtu=9000")).unwrap_err();
        assert!(matches!(error.cause, Cause::Journal(JournalError::OtherNamespace)), "{error}");
    });
    assert_eq!(readings.file("v0/mtu"), "1500");
}

/// A disk of one page, as a folder that disappears with its descriptor.
fn small_disk() -> (std::os::fd::OwnedFd, PathBuf) {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    fsconfig_set_string(&context, "size", "4096").unwrap();
    fsconfig_set_string(&context, "mode", "0700").unwrap();
    fsconfig_create(&context).unwrap();
    let disk = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).unwrap();
    // The folder itself, not the link to it.
    let folder = PathBuf::from(format!("/proc/self/fd/{}/.", disk.as_raw_fd()));
    (disk, folder)
}

#[test]
fn a_full_disk_is_an_error_and_nothing_is_changed() {
    let Some(namespace) = veth("a_full_disk_is_an_error_and_nothing_is_changed") else { return };
    let readings = Readings::of(&namespace);
    let (_disk, folder) = small_disk();
    with_journal(&namespace, &folder, |mut journal| {
        let mut filler = fs::File::create(folder.join("filler")).unwrap();
        filler.write_all(&[0; 4096]).unwrap();
        let error = journal.begin().change(Some("v0"), &change("mtu=9000")).unwrap_err();
        assert!(matches!(error.cause, Cause::Journal(JournalError::Full(_))), "{error}");
        assert!(error.to_string().contains("is full: free some space"), "{error}");
        assert_eq!(readings.file("v0/mtu"), "1500");
        fs::remove_file(folder.join("filler")).unwrap();
        // The page that is free is enough for an entry, but not for its replacement after the change.
        let error = journal.begin().change(Some("v0"), &change("mtu=9000")).unwrap_err();
        assert!(matches!(error.cause, Cause::Journal(JournalError::Full(_))), "{error}");
        assert_eq!(readings.file("v0/mtu"), "1500");
        assert_eq!(journal.recover().unwrap(), []);
    });
}
