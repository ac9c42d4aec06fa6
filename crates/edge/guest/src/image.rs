//! Kernels from Debian's archive with their modules, cached between runs.

use std::cmp::Ordering;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Guest, GuestError, Line, Program, initramfs, kernel, machine};

const APT_CACHE: Program = Program { name: "apt-cache", package: "apt" };
const APT_GET: Program = Program { name: "apt-get", package: "apt" };
const DPKG_DEB: Program = Program { name: "dpkg-deb", package: "dpkg" };
const DEPMOD: Program = Program { name: "depmod", package: "kmod" };
const XZ: Program = Program { name: "xz", package: "xz-utils" };

impl Guest {
    /// Returns the cached kernel, or downloads the newest and builds its initramfs. `say` gets progress messages.
    pub fn ready(line: Line, say: &mut dyn FnMut(&str)) -> Result<Self, GuestError> {
        machine::QEMU.find()?;
        let place = place()?;
        fs::create_dir_all(&place).map_err(GuestError::file(&place))?;
        if let Some(kept) = kept(&place, line) {
            return Ok(kept);
        }
        // Before anything is downloaded.
        initramfs::busybox()?;
        let package = newest(line)?;
        let release = package.trim_start_matches("linux-image-").to_owned();
        say(&format!("fetching {package}, once (about 100 MB)"));
        // Renamed when complete: a folder with a release's name is a kernel that can be booted.
        let unfinished = tempfile::tempdir_in(&place).map_err(GuestError::file(&place))?;
        tool(APT_GET, unfinished.path(), &["--quiet=2", "download", &package])?;
        let archive = fs::read_dir(unfinished.path())
            .map_err(GuestError::file(unfinished.path()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| no_kernel(line))?;
        say("unpacking it");
        let tree = unfinished.path().join("tree");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        tool(DPKG_DEB, unfinished.path(), &["-x", &text(&archive), &text(&tree)])?;
        tool(DEPMOD, unfinished.path(), &["-b", &text(&tree), &release])?;
        let mut guest = Self { tree, release };
        guest.unpack_kernel()?;
        let files = initramfs::build(&guest.modules(), &guest.release)?;
        fs::write(guest.initrd(), files).map_err(GuestError::file(&guest.initrd()))?;
        let home = place.join(&guest.release);
        match fs::rename(&guest.tree, &home) {
            // Another process has made the same one meanwhile. rename(2): ENOTEMPTY or EEXIST, by file system.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) => {}
            renamed => renamed.map_err(GuestError::file(&home))?,
        }
        guest.tree = home;
        Ok(guest)
    }

    /// Release of the kernel.
    pub fn kernel(&self) -> &str {
        &self.release
    }

    /// Unpacks the kernel beside its image if that is packed with XZ, and this machine can unpack it.
    fn unpack_kernel(&self) -> Result<(), GuestError> {
        let image = self.packed();
        let bytes = fs::read(&image).map_err(GuestError::file(&image))?;
        let stream = kernel::xz_stream(&bytes).filter(|_| XZ.find().is_ok());
        let Some(stream) = stream else { return Ok(()) };
        let packed = self.unpacked().with_extension("xz");
        fs::write(&packed, stream).map_err(GuestError::file(&packed))?;
        // Without it, the image boots.
        let _ = tool(XZ, &self.tree, &["--decompress", &packed.to_string_lossy()]);
        Ok(())
    }

    /// The boot image of the package.
    fn packed(&self) -> PathBuf {
        self.tree.join(format!("boot/vmlinuz-{}", self.release))
    }

    fn unpacked(&self) -> PathBuf {
        self.tree.join("boot/vmlinux")
    }

    /// The file to boot.
    pub(crate) fn image(&self) -> PathBuf {
        Some(self.unpacked()).filter(|file| file.exists()).unwrap_or_else(|| self.packed())
    }

    pub(crate) fn initrd(&self) -> PathBuf {
        self.tree.join("initramfs")
    }

    /// Folder of the kernel's modules.
    pub(crate) fn modules(&self) -> PathBuf {
        self.tree.join(format!("lib/modules/{}", self.release))
    }
}

/// Folder of the cached kernels.
fn place() -> Result<PathBuf, GuestError> {
    let folder =
        |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let home = home.ok_or_else(|| {
        let message = "no folder for the guest's kernel: set XDG_CACHE_HOME or HOME";
        GuestError::Missing(message.to_owned())
    });
    Ok(home?.join("fabricmark/guest"))
}

/// The newest cached kernel of a series.
fn kept(place: &Path, line: Line) -> Option<Guest> {
    let names =
        fs::read_dir(place).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let release = names.filter(|name| is_of(line, name)).max_by(|a, b| by_version(a, b))?;
    Some(Guest { tree: place.join(&release), release })
}

/// The newest package of a series in the package lists.
fn newest(line: Line) -> Result<String, GuestError> {
    let pattern = format!("linux-image-{line}.");
    let names = tool(APT_CACHE, Path::new("/"), &["pkgnames", &pattern])?;
    let releases = names.lines().filter_map(|name| name.strip_prefix("linux-image-"));
    let release = releases.filter(|release| is_of(line, release)).max_by(|a, b| by_version(a, b));
    Ok(format!("linux-image-{}", release.ok_or_else(|| no_kernel(line))?))
}

fn no_kernel(line: Line) -> GuestError {
    GuestError::Missing(format!(
        "apt has no package of a Debian kernel {line}: run apt-get update, or use Debian 12 or \
         another release that has it"
    ))
}

/// Whether a release is of the series, and of the flavour that has Soft RoCE and 9p: `6.1.0-56-amd64`,
/// `6.12.117+deb12-amd64`, not `6.1.0-56-cloud-amd64`.
fn is_of(line: Line, release: &str) -> bool {
    let rest =
        release.strip_prefix(&format!("{line}.")).and_then(|rest| rest.strip_suffix("-amd64"));
    rest.is_some_and(|rest| {
        !rest.contains(|letter: char| letter.is_ascii_alphabetic() && !"deb".contains(letter))
    })
}

/// Compares releases by the numbers in them.
fn by_version(one: &str, other: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    numbers(one).cmp(&numbers(other))
}

/// Runs a program in a folder; returns its standard output.
fn tool(program: Program, folder: &Path, arguments: &[&str]) -> Result<String, GuestError> {
    let mut command = Command::new(program.find()?);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().map_err(GuestError::system("start a program"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let (name, message) = (program.name, String::from_utf8_lossy(&output.stderr));
    Err(GuestError::Failed(format!("`{name}` failed ({}): {}", output.status, message.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_with_soft_roce_is_told_from_the_others() {
        for (release, is) in [
            ("6.1.0-56-amd64", true),
            ("6.1.0-56-cloud-amd64", false),
            ("6.1.0-56-rt-amd64", false),
            ("6.1.0-56-amd64-unsigned", false),
            ("6.12.117+deb12-amd64", false),
        ] {
            assert_eq!(is_of(Line::V6_1, release), is, "{release}");
        }
        assert!(is_of(Line::V6_12, "6.12.117+deb12-amd64"));
        assert!(!is_of(Line::V6_12, "6.12.117+deb12-cloud-amd64"));
    }

    #[test]
    fn the_newest_is_that_with_the_largest_numbers() {
        let releases = ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-31-amd64"];
        let newest = releases.into_iter().max_by(|a, b| by_version(a, b));
        assert_eq!(newest, Some("6.1.0-56-amd64"));
    }
}
