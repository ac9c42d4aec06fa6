//! A guest kernel for what this machine's kernel lacks: Soft RoCE, SMC-R, netem, SCTP.
//!
//! A stock Debian kernel boots in QEMU within seconds, with CPUs emulated in software. Its root is this machine's
//! file system under an overlay in memory: every program here runs there unchanged, and its writes are discarded
//! except in the folders of [`Job::writable`]. Figures from a guest compare transports within it, not hardware.
//!
//! Not here: what runs in the guest.

mod image;
mod initramfs;
mod kernel;
mod machine;
#[expect(unsafe_code, reason = "a machine ends with who started it")]
mod sys;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Release series of Debian's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// 6.1: Soft RoCE is faster, and rsockets were tested.
    V6_1,
    /// 6.12: SMC-R finds its peer over RoCEv2; 6.1 falls back to TCP.
    V6_12,
}

impl Line {
    /// All supported series.
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
        known.ok_or_else(|| {
            format!(
                "`{text}` is not a known kernel: use 6.1 (faster) or 6.12 \
                                     (SMC-R)"
            )
        })
    }
}

/// Network devices at both ends of a guest's network, a veth pair.
pub const DEVICES: [&str; 2] = ["v0", "v1"];

/// A command for a guest.
#[derive(Debug)]
pub struct Job<'a> {
    /// Program and arguments; it runs in this process's working directory with its environment.
    pub command: &'a [OsString],
    /// Folders in which writes persist; in all others they are discarded.
    pub writable: &'a [PathBuf],
    /// Time limit from boot on, after which it is killed.
    pub limit: Duration,
    /// Shell commands that turn the guest's network, [`DEVICES`], into a wire; empty: memory connects them.
    pub wire: &'a str,
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Exit code of the command.
    pub code: u8,
    /// Packets that crossed the guest's network from its first end to its second.
    pub crossed_packets: u64,
    /// RDMA packets that its first end sent.
    pub rdma_packets: u64,
}

/// A guest that can be booted: a kernel and its initramfs.
#[derive(Debug)]
pub struct Guest {
    /// Root of the kernel's unpacked package.
    tree: PathBuf,
    release: String,
}

/// Why there is no guest, or its command did not complete.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// This machine lacks something: what, and where to get it.
    #[error("{0}")]
    Missing(String),
    /// The user interrupted it.
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

/// A program and the Debian package that contains it.
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
