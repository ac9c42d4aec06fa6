//! A veth pair in a namespace, and its settings as the kernel shows them.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use fabricmark_ethtool::Ethtool;
use fabricmark_lab::Namespace;
use fabricmark_settings::{Change, Journal};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Sysctls that the tests change.
const SYSCTLS: [&str; 2] = ["net/ipv4/tcp_rmem", "net/core/somaxconn"];

/// A namespace with the veth pair v0 and v1; `None` if namespaces cannot be created, and the test is counted as
/// skipped.
pub fn veth(test: &str) -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => {
            run(&namespace, "ip link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1");
            Some(namespace)
        }
        Err(error) => {
            fabricmark_testkit::skip(test, &error.to_string());
            None
        }
    }
}

/// Runs a command in the namespace.
pub fn run(namespace: &Namespace, command: &str) {
    let mut words = command.split(' ');
    let mut process = Command::new(words.next().unwrap());
    process.args(words);
    namespace.enter(&mut process);
    assert!(process.status().unwrap().success(), "{command}");
}

/// Runs an action with the journal of the namespace.
pub fn with_journal<T: Send>(
    namespace: &Namespace,
    folder: &Path,
    action: impl FnOnce(Journal) -> T + Send,
) -> T {
    let within = || io::Result::Ok(action(Journal::open(folder).unwrap()));
    namespace.within(within).unwrap()
}

pub fn change(text: &str) -> Change {
    text.parse().unwrap()
}

/// The settings of the namespace, read without the crate under test.
pub struct Readings {
    sysfs: OwnedFd,
}

impl Readings {
    pub fn of(namespace: &Namespace) -> Self {
        let mount = || {
            let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            let none = MountAttrFlags::empty();
            Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, none)?)
        };
        Self { sysfs: namespace.within(mount).unwrap() }
    }

    pub fn file(&self, path: &str) -> String {
        let path = format!("/proc/self/fd/{}/class/net/{path}", self.sysfs.as_raw_fd());
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// All settings that the tests change, as one text.
    pub fn all(&self, namespace: &Namespace) -> String {
        let mut text = String::new();
        for file in ["mtu", "queues/rx-0/rps_cpus", "queues/rx-1/rps_cpus", "queues/tx-1/xps_cpus"]
        {
            text += &format!("{file} {}\n", self.file(&format!("v0/{file}")));
        }
        text += &namespace.within(within).unwrap();
        text
    }
}

fn within() -> io::Result<String> {
    let mut text = String::new();
    for sysctl in SYSCTLS {
        text += &format!("{sysctl} {}", fs::read_to_string(format!("/proc/sys/{sysctl}"))?);
    }
    let tc = Command::new("tc").args("qdisc show dev v0 root".split(' ')).output()?;
    text += &String::from_utf8_lossy(&tc.stdout);
    for feature in Ethtool::open().unwrap().features("v0").unwrap() {
        text += &format!("{} {} {}\n", feature.name, feature.is_on, feature.is_requested);
    }
    Ok(text)
}
