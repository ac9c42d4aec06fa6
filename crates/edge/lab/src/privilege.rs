//! The right to create networks: as root, or through a user namespace.

use std::fs;
use std::io;

use rustix::thread::{CapabilitySet, capabilities};

use crate::sys;
use crate::tool::LabError;

/// Acquires the right to create networks: for a user without CAP_NET_ADMIN and CAP_SYS_ADMIN in a new user
/// namespace of the process. Must be called while the process has one thread.
pub fn acquire() -> Result<(), LabError> {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    if capabilities(None).is_ok_and(|held| held.effective.contains(needed)) {
        return Ok(());
    }
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    sys::unshare(libc::CLONE_NEWUSER)
        .map_err(|error| refused("create a user namespace", &error))?;
    // A single-uid map needs no helper program; setgroups must be denied first (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {uid} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {gid} 1")))
        .map_err(|error| refused("map the user into its namespace", &error))
}

/// Sysctls that forbid namespaces: name, value that forbids them, value that allows them, and meaning.
const FORBIDDING: [(&str, &str, &str, &str); 4] = [
    ("user.max_user_namespaces", "0", "10000", "user namespaces are disabled"),
    ("user.max_net_namespaces", "0", "10000", "network namespaces are disabled"),
    (
        "kernel.unprivileged_userns_clone",
        "0",
        "1",
        "unprivileged users may not create user \
                                                    namespaces",
    ),
    (
        "kernel.apparmor_restrict_unprivileged_userns",
        "1",
        "0",
        "AppArmor restricts user namespaces",
    ),
];

/// The error for a failed operation, with the cause and the remedies as far as the system shows them.
pub(crate) fn refused(doing: &str, error: &io::Error) -> LabError {
    if has_no_files(error) {
        return LabError::Lacks(format!("the lab cannot {doing}: {error}\n{FEWER_FILES}"));
    }
    let is_set = |&&(name, value, ..): &&(&str, &str, _, _)| {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::read_to_string(file).is_ok_and(|text| text.trim() == value)
    };
    let (why, how) = match FORBIDDING.iter().find(is_set) {
        Some((name, value, other, meaning)) => {
            (format!("{meaning} ({name} is {value})"), format!("sysctl {name}={other}"))
        }
        None if error.raw_os_error() == Some(libc::ENOSPC) => (
            "the maximum number of namespaces is reached".to_owned(),
            "raise user.max_user_namespaces and user.max_net_namespaces with sysctl".to_owned(),
        ),
        None => (
            "the kernel or a container's seccomp profile forbids it".to_owned(),
            "in a container, add --privileged or --cap-add=SYS_ADMIN,NET_ADMIN".to_owned(),
        ),
    };
    LabError::Lacks(format!(
        "the lab cannot {doing}: {error}: {why}\neither run as root, or as root allow it once: {how}"
    ))
}

/// The remedy for a lab that needs more files than this process may open: ten for each link.
const FEWER_FILES: &str = "raise the limit of open files (ulimit -Hn), or use fewer links";

fn has_no_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// The error for `/dev/net/tun`, with the remedy.
pub(crate) fn no_tun(error: &io::Error) -> LabError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES) => {
            "either run as root, or as root allow it once: chmod 666 /dev/net/tun"
        }
        _ if has_no_files(error) => FEWER_FILES,
        // A device that the control group denies is denied to root, too.
        Some(libc::EPERM) => "in a container, add --device /dev/net/tun",
        _ => "as root: modprobe tun; in a container, add --device /dev/net/tun",
    };
    LabError::Lacks(format!("the lab cannot open /dev/net/tun: {error}\n{remedy}"))
}
