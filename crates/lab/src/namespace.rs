//! A network namespace, held by a descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::privilege;
use crate::sys;
use crate::tool::LabError;

/// A network namespace without a name. It lives as long as this value or a process in it.
#[derive(Debug)]
pub struct Namespace {
    descriptor: OwnedFd,
}

impl Namespace {
    /// A new namespace. The calling thread stays where it is.
    pub fn new() -> Result<Self, LabError> {
        let make = || {
            sys::unshare_network()?;
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

    /// A path by which other programs find the namespace while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor.as_raw_fd())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
