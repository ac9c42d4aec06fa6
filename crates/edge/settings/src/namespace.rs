//! The identity of a network namespace.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use fabricmark_telemetry::sys;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

/// A network namespace. The kernel uses the inode number of a namespace that has ended for the next one, so the cookie
/// is what tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Namespace {
    /// `st_dev` of /proc/thread-self/ns/net.
    pub device: u64,
    /// `st_ino` of it.
    pub inode: u64,
    /// Its cookie, which no other namespace gets until the machine reboots; `None` before Linux 5.14.
    pub cookie: Option<u64>,
}

impl Namespace {
    /// The namespace of the calling thread.
    pub fn here() -> io::Result<Self> {
        let file = fs::metadata("/proc/thread-self/ns/net")?;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let cookie = match sys::get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, 0u64) {
            Ok((cookie, _)) => Some(cookie),
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { device: file.dev(), inode: file.ino(), cookie })
    }

    /// The namespace behind a file, which a thread enters to ask for its cookie.
    fn at(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let enter = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Self::here()
        };
        thread::scope(|scope| scope.spawn(enter).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Where another namespace can be found.
    ///
    /// A namespace exists as long as a thread is in it, a descriptor is open for it, or it is mounted somewhere. All
    /// three are visible below /proc, for root. A descriptor that is under way in a socket message is not, nor are
    /// processes of a parent of this PID namespace: `Unknown` if this is not the first one.
    pub fn find(self) -> Presence {
        let name = format!("net:[{}]", self.inode);
        let found = |path: PathBuf| match Self::at(&path) {
            // The number is that of a later namespace, so this one has ended.
            Ok(other) if other != self => Presence::Gone,
            _ => Presence::At(path),
        };
        let mut is_complete = is_first_pid_namespace();
        for process in numbers(Path::new("/proc")).unwrap_or_default() {
            match holder(&process, &name) {
                Ok(Some(path)) => return found(path),
                Ok(None) => {}
                // A process that has ended meanwhile holds nothing.
                Err(_) if !process.exists() => {}
                Err(error) if is_gone(&error) => {}
                Err(_) => is_complete = false,
            }
        }
        if is_complete { Presence::Gone } else { Presence::Unknown }
    }
}

/// Whether a namespace exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A file by which it can be entered (`nsenter --net=FILE`).
    At(PathBuf),
    /// Nothing refers to it.
    Gone,
    /// This process does not see everything that may refer to it.
    Unknown,
}

/// Inode number of the first PID namespace (PROC_PID_INIT_INO in linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

fn is_first_pid_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new(FIRST_PID_NAMESPACE))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Entries of a folder of /proc whose names are numbers.
fn numbers(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The file of a process through which it holds the namespace with this name.
fn holder(process: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let is_it = |path: &Path| match fs::read_link(path) {
        Ok(target) => Ok(target == Path::new(name)),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    };
    for thread in numbers(&process.join("task"))? {
        let path = thread.join("ns/net");
        if is_it(&path)? {
            return Ok(Some(path));
        }
    }
    for path in numbers(&process.join("fd"))? {
        if is_it(&path)? {
            return Ok(Some(path));
        }
    }
    // `ROOT MOUNTPOINT` are fields 4 and 5 (proc_pid_mountinfo(5)); the root of such a mount is the namespace's name.
    let mounts = match fs::read_to_string(process.join("mountinfo")) {
        Ok(text) => text,
        // A zombie has no mounts.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        (fields.next()? == name).then(|| fields.next())?
    });
    Ok(mounted.map(|point| process.join("root").join(point.trim_start_matches('/'))))
}
