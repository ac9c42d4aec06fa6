//! The files of the kernel in which settings are, in the network namespace of the calling thread.

use std::cell::{OnceCell, RefCell};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fabricmark_ethtool::Ethtool;
use fabricmark_ethtool::netlink::{Netlink, NetlinkError, encoded, put};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use serde::{Deserialize, Serialize};

use crate::error::Cause;

/// Longest value that is read, in bytes. A file of sysfs has at most a page (Documentation/filesystems/sysfs.rst).
const VALUE_MAX: u64 = 4096;

/// Where settings are read and written.
#[derive(Debug, Default)]
pub(crate) struct System {
    /// A folder with `sys` and `proc` in place of the kernel's, for tests.
    root: Option<PathBuf>,
    sysfs: OnceCell<OwnedFd>,
    ethtool: RefCell<Option<Ethtool>>,
}

/// A device of the namespace. The index stays the same when the device is renamed, and no later device gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    pub name: String,
    pub index: u32,
}

impl Device {
    /// In place of a device for settings that belong to none.
    pub fn none() -> Self {
        Self { name: String::new(), index: 0 }
    }
}

impl System {
    /// The files below a folder, for tests.
    #[cfg(test)]
    pub fn below(root: &Path) -> Self {
        Self { root: Some(root.to_owned()), ..Self::default() }
    }

    /// The folder of sysfs that shows the devices of this network namespace.
    ///
    /// /sys shows those of the namespace in which it was mounted, which may be another one. So sysfs is mounted again
    /// here, without a place in the file tree: it disappears with its descriptor.
    fn sys(&self) -> Result<PathBuf, Cause> {
        if let Some(root) = &self.root {
            return Ok(root.join("sys"));
        }
        let descriptor = match self.sysfs.get() {
            Some(descriptor) => descriptor,
            None => {
                let mounted = mount().map_err(|error| match Cause::of("mount sysfs", &error) {
                    Cause::NoPrivilege(doing) => Cause::NoPrivilege(doing),
                    _ => Cause::NoSetting(format!("cannot mount sysfs (Linux 5.2): {error}")),
                })?;
                self.sysfs.get_or_init(|| mounted)
            }
        };
        Ok(PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd())))
    }

    /// The folder with the files of a device.
    pub fn device_folder(&self, device: &str) -> Result<PathBuf, Cause> {
        let is_name = !device.is_empty() && !device.contains('/') && !device.starts_with('.');
        let folder = self.sys()?.join("class/net").join(device);
        if is_name && folder.is_dir() { Ok(folder) } else { Err(Cause::NoDevice) }
    }

    /// The folder of the CPUs' frequency policies.
    pub fn policies(&self) -> Result<PathBuf, Cause> {
        Ok(self.sys()?.join("devices/system/cpu/cpufreq"))
    }

    /// The file of a sysctl of this thread's network namespace.
    pub fn sysctl(&self, name: &str) -> PathBuf {
        self.proc().join("sys").join(name.replace('.', "/"))
    }

    fn proc(&self) -> PathBuf {
        self.root.as_ref().map_or_else(|| "/proc".into(), |root| root.join("proc"))
    }

    /// The device with this name.
    pub fn device(&self, name: &str) -> Result<Device, Cause> {
        let index = self.device_folder(name)?.join("ifindex");
        let index = read(&index)?.parse().map_err(|_| Cause::NoDevice)?;
        Ok(Device { name: name.to_owned(), index })
    }

    /// The device with this index, whatever its name is now.
    pub fn device_of(&self, index: u32) -> Result<Device, Cause> {
        let folder = self.sys()?.join("class/net");
        let entries = fs::read_dir(&folder).map_err(|error| Cause::of("list devices", &error))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut devices = names.filter_map(|name| self.device(&name).ok());
        devices.find(|device| device.index == index).ok_or(Cause::NoDevice)
    }

    /// Runs an action with the socket of ethtool netlink, which belongs to the namespace in which it was opened.
    pub fn ethtool<T>(
        &self,
        action: impl FnOnce(&mut Ethtool) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let mut open = self.ethtool.borrow_mut();
        match open.as_mut() {
            Some(ethtool) => action(ethtool),
            None => action(open.insert(Ethtool::open()?)),
        }
    }

    /// Sets the MTU. The kernel's answer to rtnetlink has the reason of a refusal; that of sysfs has none.
    pub fn set_mtu(&self, device: &str, index: u32, mtu: &str) -> Result<(), Cause> {
        if self.root.is_some() {
            return write(&self.device_folder(device)?.join("mtu"), mtu);
        }
        let number: u32 = mtu.parse().map_err(|_| Cause::Refused(format!("{mtu} is no MTU")))?;
        // `struct ifinfomsg` of linux/rtnetlink.h: the index is its third word, all else is 0.
        let mut request = [0; 16];
        request[4..8].copy_from_slice(&index.to_ne_bytes());
        let request =
            [&request[..], &encoded(&[put(libc::IFLA_MTU, &number.to_ne_bytes())])].concat();
        let answer = Netlink::open(libc::NETLINK_ROUTE)
            .and_then(|mut netlink| netlink.request(libc::RTM_SETLINK, 0, &request));
        answer.map(drop).map_err(|error| match &error {
            NetlinkError::Rejected { errno: libc::ENODEV, .. } => Cause::NoDevice,
            NetlinkError::Rejected { errno: libc::EPERM, .. } => {
                Cause::NoPrivilege(format!("set an MTU: {error}"))
            }
            _ => Cause::Refused(error.to_string()),
        })
    }

    /// Whether a device has an IPv6 address. The name is the last field of its lines in if_inet6 (net/ipv6/addrconf.c).
    pub fn has_ipv6(&self, device: &str) -> bool {
        let text = fs::read_to_string(self.proc().join("thread-self/net/if_inet6"));
        let text = text.unwrap_or_default();
        text.lines().any(|line| line.split_whitespace().last() == Some(device))
    }
}

/// Mounts sysfs for the network namespace of the calling thread.
fn mount() -> io::Result<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Names in a folder that are `prefix` and a number, as these numbers in ascending order.
pub(crate) fn numbers(folder: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u32> =
        names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Reads a file of the kernel, trimmed.
pub(crate) fn read(path: &Path) -> Result<String, Cause> {
    let text = || {
        let mut text = Vec::new();
        fs::File::open(path)?.take(VALUE_MAX).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = text().map_err(|error| match Cause::of(&doing("read", path), &error) {
        // The reading of a setting that a device does not have fails in many ways.
        Cause::Refused(reason) => Cause::NoSetting(reason),
        cause => cause,
    })?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// Writes a file of the kernel, in one call.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Cause> {
    let write = || {
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(value.as_bytes())
    };
    write().map_err(|error| match Cause::of(&doing("write", path), &error) {
        Cause::NoPrivilege(_) if is_read_only(path) => {
            Cause::Refused("the kernel does not let this value be changed here".to_owned())
        }
        // ENOENT can also be the answer of the kernel to a value, such as the name of an unknown algorithm.
        Cause::NoSetting(_) if path.exists() => Cause::Refused(error.to_string()),
        cause => cause,
    })
}

fn is_read_only(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o222 == 0)
}

/// The path without the descriptor of the mount.
fn doing(verb: &str, path: &Path) -> String {
    let path = path.display().to_string();
    let tail = path.strip_prefix("/proc/self/fd/").and_then(|rest| rest.split_once('/'));
    match tail {
        Some((_, tail)) => format!("{verb} /sys/{tail}"),
        None => format!("{verb} {path}"),
    }
}
