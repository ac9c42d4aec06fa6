//! Network namespaces, each held by a descriptor.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::privilege;
use crate::sys;
use crate::tool::LabError;

/// Memory for IP fragments of a namespace, in bytes: those of a tenth of a second at 10 Gbit/s.
const FRAGMENTS_BYTES: &str = "134217728";

/// A network namespace without a name. It exists as long as this value or a process in it.
#[derive(Debug)]
pub struct Namespace {
    descriptor: Arc<OwnedFd>,
}

impl Namespace {
    /// Creates a namespace. The calling thread does not enter it.
    pub fn new() -> Result<Self, LabError> {
        let make = || {
            sys::unshare(libc::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        // Until the descriptor exists, only the thread keeps the namespace alive.
        let file = thread::scope(|scope| scope.spawn(make).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| privilege::refused("create a network namespace", &error))?;
        Ok(Self { descriptor: Arc::new(file.into()) })
    }

    /// Runs `action` in this namespace, on a thread of its own. What it opens, such as sockets, stays in the namespace.
    pub fn within<T: Send>(&self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let entered = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.descriptor.as_fd(), kind)?;
            action()
        };
        thread::scope(|scope| scope.spawn(entered).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Makes a command run in this namespace.
    pub fn enter(&self, command: &mut Command) {
        sys::enter_on_exec(command, Arc::clone(&self.descriptor));
    }

    /// Sets a sysctl of the namespace, such as `net.ipv4.tcp_rmem`.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), LabError> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.within(|| fs::write(path, value))
            .map_err(|error| LabError::Input(format!("cannot set {key} to `{value}`: {error}")))
    }

    /// Makes the kernel drop incomplete datagrams after a second, and gives them more memory. By default the kernel
    /// keeps them for 30 s (IPv6: 60 s), and refuses every fragment while there are 4 MiB of them (ip-sysctl.rst),
    /// so that a run with losses would affect the next ones.
    pub(crate) fn forget_fragments(&self) -> Result<(), LabError> {
        if !Path::new("/proc/sys/net/ipv6/ip6frag_time").exists() {
            return Err(LabError::Lacks(
                "this kernel has no IPv6, which labs need: boot it without ipv6.disable=1"
                    .to_owned(),
            ));
        }
        for (version, prefix) in [("ipv4", "ipfrag"), ("ipv6", "ip6frag")] {
            self.set(&format!("net.{version}.{prefix}_time"), "1")?;
            self.set(&format!("net.{version}.{prefix}_high_thresh"), FRAGMENTS_BYTES)?;
        }
        Ok(())
    }

    pub(crate) fn sent(&self, device: &str) -> Result<Sent, LabError> {
        let text = self.within(|| fs::read_to_string("/proc/thread-self/net/dev"));
        Ok(sent(&text.map_err(LabError::system("read the counters of devices"))?, device))
    }

    /// Path by which other programs find the namespace while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor.as_raw_fd())
    }
}

/// Frames and bytes that a device sent, and packets that it dropped because the other end did not accept them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) drops: u64,
}

/// Fields 9, 10 and 12 after the name of a device (`proc_net_dev(5)`).
pub(crate) fn sent(text: &str, device: &str) -> Sent {
    let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    let fields =
        lines.filter(|(name, _)| *name == device).flat_map(|(_, fields)| fields.split_whitespace());
    let fields: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 1).copied().unwrap_or(0);
    Sent { bytes: field(9), packets: field(10), drops: field(12) }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_device_on_its_way_out() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n    \
                    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n   \
                    wan: 10245     149    1    2    3     4          5         6  2349807     153    0    7    0     0       0          0\n";
        let drops = |device| sent(text, device).drops;
        assert_eq!((drops("wan"), drops("lo"), drops("wa")), (7, 0, 0));
    }
}
