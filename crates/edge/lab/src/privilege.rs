//! The right to make networks: as root, or through a user namespace of one's own.

use std::fs;
use std::io;

use crate::sys;
use crate::tool::LabError;

/// How the right to make networks was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// The user has CAP_NET_ADMIN and CAP_SYS_ADMIN.
    Held,
    /// The process is root in a user namespace of its own.
    UserNamespace,
}

/// Gets the right to make networks. Must be called while the process has one thread.
pub fn acquire() -> Result<Privilege, LabError> {
    if holds_capabilities() {
        return Ok(Privilege::Held);
    }
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    sys::unshare_user().map_err(|error| refused("make a user namespace", &error))?;
    // A single-uid map needs no helper program; setgroups must be denied first (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {uid} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {gid} 1")))
        .map_err(|error| refused("map the user into its namespace", &error))?;
    Ok(Privilege::UserNamespace)
}

fn holds_capabilities() -> bool {
    const CAP_NET_ADMIN: u64 = 1 << 12;
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    effective & CAP_NET_ADMIN != 0 && effective & CAP_SYS_ADMIN != 0
}

/// The cause and the remedies, as far as the system tells.
pub(crate) fn refused(doing: &str, error: &io::Error) -> LabError {
    let setting = |name: &str| {
        fs::read_to_string(format!("/proc/sys/{name}")).map(|text| text.trim().to_owned()).ok()
    };
    let is = |name, value: &str| setting(name).as_deref() == Some(value);
    let (why, how) = if is("user/max_user_namespaces", "0") {
        (
            "user namespaces are switched off (user.max_user_namespaces is 0)",
            "sysctl user.max_user_namespaces=10000",
        )
    } else if is("user/max_net_namespaces", "0") {
        (
            "network namespaces are switched off (user.max_net_namespaces is 0)",
            "sysctl user.max_net_namespaces=10000",
        )
    } else if is("kernel/unprivileged_userns_clone", "0") {
        (
            "ordinary users may not make user namespaces (kernel.unprivileged_userns_clone is 0)",
            "sysctl kernel.unprivileged_userns_clone=1",
        )
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        (
            "AppArmor restricts user namespaces \
          (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        )
    } else if error.raw_os_error() == Some(libc::ENOSPC) {
        (
            "the limit of namespaces is reached",
            "raise user.max_user_namespaces and \
          user.max_net_namespaces with sysctl",
        )
    } else {
        (
            "the kernel or a container's seccomp profile forbids it",
            "in a container, add --privileged or --cap-add=SYS_ADMIN,NET_ADMIN",
        )
    };
    LabError::Refused {
        cause: format!("the lab cannot {doing}: {error}: {why}"),
        remedy: format!("either run as root, or as root allow it once: {how}"),
    }
}

/// Why `/dev/net/tun` was not opened, and the remedy.
pub(crate) fn no_tun(error: &io::Error) -> LabError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES) => {
            "either run as root, or as root allow it once: chmod 666 /dev/net/tun"
        }
        // What the devices of a control group refuse, root may not open either.
        Some(libc::EPERM) => "in a container, add --device /dev/net/tun",
        _ => "as root: modprobe tun; in a container, add --device /dev/net/tun",
    };
    let cause = format!("the lab cannot open /dev/net/tun: {error}");
    LabError::Refused { cause, remedy: remedy.to_owned() }
}
