//! A guest kernel for what this machine's kernel lacks: Soft RoCE, SMC-R, netem, SCTP.
//!
//! A stock Debian kernel boots in seconds in QEMU, its processors emulated in software, with this machine's
//! files under a layer of memory: every program here runs there unchanged, and nothing that it writes stays,
//! except in folders that are named. Its figures compare transports inside it and say nothing about hardware.
//!
//! Deliberately not here: what runs in it.

mod image;
mod initramfs;
mod machine;
#[expect(unsafe_code, reason = "a machine ends with who started it")]
mod sys;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Which line of Debian's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// 6.1: Soft RoCE is faster there, rsockets were tried there.
    V6_1,
    /// 6.12: SMC-R finds its peer by RoCEv2 there; 6.1 falls back to TCP.
    V6_12,
}

impl Line {
    /// Every line that can be asked for.
    pub const ALL: [Self; 2] = [Self::V6_1, Self::V6_12];
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        })
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|line| line.to_string() == text);
        known.ok_or_else(|| format!("`{text}` is no line of kernels: 6.1 (faster) or 6.12 (SMC-R)"))
    }
}

/// The devices at both ends of a guest's network.
pub const DEVICES: [&str; 2] = ["v0", "v1"];

/// What runs in a guest.
#[derive(Debug)]
pub struct Job<'a> {
    /// Program and arguments; it stands in this process's folder and has its environment.
    pub command: &'a [OsString],
    /// Folders whose files stay; all others are read-only beneath a layer of memory.
    pub writable: &'a [PathBuf],
    /// When it is ended, from the boot on.
    pub limit: Duration,
    /// Commands of a shell that make a wire of its network, the pair of devices [`DEVICES`]; without any, memory joins them.
    pub wire: &'a str,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its exit code.
    pub code: u8,
    /// Packets that crossed the guest's network from its first end to its second.
    pub crossed_packets: u64,
    /// Packets of RDMA that its first end sent.
    pub rdma_packets: u64,
}

/// A guest that can be started: a kernel and the first files that it needs.
#[derive(Debug)]
pub struct Guest {
    /// Root of the kernel's unpacked package.
    tree: PathBuf,
    release: String,
}

/// Why there is no guest, or no end of its command.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// This machine lacks something: what, and where it comes from.
    #[error("{0}")]
    Missing(String),
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
    /// What failed, and how.
    #[error("{0}")]
    Failed(String),
}

impl GuestError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("cannot use {}: {error}", path.display()))
    }

    fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("cannot {doing}: {error}"))
    }
}

/// A program of Debian, by its name and package.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: &'static str,
    package: &'static str,
}

impl Program {
    fn find(self) -> Result<PathBuf, GuestError> {
        let Self { name, package } = self;
        fabricmark_host::program(name).ok_or_else(|| {
            GuestError::Missing(format!(
                "the program `{name}` is missing: as root run apt-get install --no-install-recommends \
                 {package}"
            ))
        })
    }
}
