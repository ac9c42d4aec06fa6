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
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use image::Image;

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

/// Where what a command writes goes.
pub struct Streams<'a> {
    /// Its standard output.
    pub out: &'a mut (dyn Write + Send),
    /// Its standard error.
    pub err: &'a mut (dyn Write + Send),
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

/// A guest that could be started.
#[derive(Debug)]
pub struct Guest {
    image: Image,
}

/// Why there is no guest, or no end of its command.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A program is missing.
    #[error(
        "the program `{program}` is missing: as root run apt-get install --no-install-recommends {package}"
    )]
    Missing {
        /// Its name.
        program: &'static str,
        /// Debian's package of it.
        package: &'static str,
    },
    /// The package lists name no kernel.
    #[error(
        "no package of a Debian kernel {0} is known here: run apt-get update, and use Debian 12 or another \
         release that has it"
    )]
    NoKernel(Line),
    /// A program failed.
    #[error("`{program}` failed ({status}): {message}")]
    Tool {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said.
        message: String,
    },
    /// The kernel image lacks a module.
    #[error("the kernel {kernel} has no module `{module}`, which its guest needs to start")]
    NoModule {
        /// Its release.
        kernel: String,
        /// The module.
        module: &'static str,
    },
    /// The guest ended without telling how its command did.
    #[error("the guest ended before its command did; its console said:\n{0}")]
    Ended(String),
    /// The time was over.
    #[error("the guest's command did not end within {0:?} and was stopped")]
    Late(Duration),
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
    /// There is no folder to keep kernels in.
    #[error("no folder for the guest's kernel: set XDG_CACHE_HOME or HOME")]
    NoPlace,
    /// A file that cannot be read or written.
    #[error("cannot use {path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl GuestError {
    /// Whether this machine lacks something.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoKernel(_) | Self::NoPlace)
    }

    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

impl Guest {
    /// Finds or fetches a kernel, and makes its first files. `say` is told what takes long.
    pub fn ready(line: Line, say: &mut dyn FnMut(&str)) -> Result<Self, GuestError> {
        machine::check()?;
        Ok(Self { image: Image::ready(line, say)? })
    }

    /// Release of its kernel.
    pub fn kernel(&self) -> &str {
        self.image.release()
    }

    /// Boots and runs the command, whose standard input is empty.
    pub fn run(
        &self,
        job: &Job<'_>,
        streams: Streams<'_>,
        interrupted: &AtomicBool,
    ) -> Result<Done, GuestError> {
        machine::run(&self.image, job, streams, interrupted)
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
        fabricmark_host::program(name).ok_or(GuestError::Missing { program: name, package })
    }
}
