//! A network namespace, held by a descriptor.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::privilege;
use crate::sys;
use crate::tool::LabError;

/// Memory for fragments of a namespace: those of a tenth of a second at 10 Gbit/s.
const FRAGMENTS_BYTES: &str = "134217728";

/// A network namespace without a name. It lives as long as this value or a process in it.
#[derive(Debug)]
pub struct Namespace {
    descriptor: OwnedFd,
}

impl Namespace {
    /// A new namespace. The calling thread stays where it is.
    pub fn new() -> Result<Self, LabError> {
        let make = || {
            sys::unshare(libc::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        // The namespace belongs to the thread that made it until the descriptor holds it.
        let file = thread::scope(|scope| scope.spawn(make).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| privilege::refused("make a network namespace", &error))?;
        Ok(Self { descriptor: file.into() })
    }

    /// Does something in this namespace, on a thread of its own that ends with it: what is opened
    /// there belongs to the namespace for ever.
    pub fn within<T: Send>(&self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let entered = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.descriptor.as_fd(), kind)?;
            action()
        };
        thread::scope(|scope| scope.spawn(entered).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Lets a command run in this namespace.
    pub fn enter(&self, command: &mut Command) {
        sys::enter_on_exec(command, self.descriptor.as_fd());
    }

    /// Sets what holds for the whole namespace, such as `net.ipv4.tcp_rmem`.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), LabError> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.within(|| fs::write(path, value))
            .map_err(|error| LabError::Input(format!("cannot set {key} to `{value}`: {error}")))
    }

    /// Lets what is left of datagrams with a lost fragment go after a second, and gives it room. The kernel keeps it for
    /// 30 s (IPv6: 60 s) and refuses every fragment meanwhile once there are 4 MiB of it (ip-sysctl.rst), so that
    /// a run with losses would cost the next ones everything.
    pub(crate) fn forget_fragments(&self) -> Result<(), LabError> {
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

    /// A path by which other programs find the namespace while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor.as_raw_fd())
    }
}

/// What a device sent, in frames, and what it dropped on the way out: what the other end did not
/// take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) drops: u64,
}

/// Fields 9, 10 and 12 behind the name of a device (`proc_net_dev(5)`).
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
