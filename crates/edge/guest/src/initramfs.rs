//! The initramfs of a guest: a shell, the modules that give access to the host's files, and a script.
//!
//! It is a cpio archive in the format `newc` (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::kernel::number;
use crate::{GuestError, Program};

const BUSYBOX: Program = Program { name: "busybox", package: "busybox-static" };

/// Modules for the host's files and for the overlay in memory; those that a kernel has built in are skipped.
const MODULES: [&str; 6] =
    ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "virtio_mmio"];

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

/// A shell that needs no libraries: the guest has none before it mounts the host's files.
pub(crate) fn busybox() -> Result<Vec<u8>, GuestError> {
    let program = read(&BUSYBOX.find()?)?;
    if has_interpreter(&program) {
        let Program { name, package } = BUSYBOX;
        return Err(GuestError::Missing(format!(
            "the program `{name}` of this host needs libraries: as root run apt-get install \
             --no-install-recommends {package}, which has one that needs none"
        )));
    }
    Ok(program)
}

/// Whether a 64-bit ELF file names a dynamic linker: a program header of type PT_INTERP (elf(5)).
fn has_interpreter(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at, length| number(elf, at, length);
    let headers = || Some((number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?));
    let Some((first, length, count)) = headers() else { return false };
    (0..count).any(|header| {
        let at = header.checked_mul(length).and_then(|at| at.checked_add(first));
        at.and_then(|at| number(at, 4)) == Some(PT_INTERP as usize)
    })
}

/// Builds the archive for a kernel whose modules are in this folder.
pub(crate) fn build(modules: &Path, release: &str) -> Result<Vec<u8>, GuestError> {
    let busybox = busybox()?;
    let mut archive = Archive::default();
    for name in ["bin", "modules", "proc", "sys", "dev", "host", "layer", "new"] {
        archive.add(name, DIRECTORY, &[]);
    }
    archive.add("bin/busybox", PROGRAM, &busybox);
    archive.add("init", PROGRAM, include_bytes!("init.sh"));
    let list = |name: &str| {
        let path = modules.join(name);
        fs::read_to_string(&path).map_err(GuestError::file(&path))
    };
    let (dependencies, built_in) = (list("modules.dep")?, list("modules.builtin")?);
    let files = in_order(&dependencies, &built_in, release)?;
    for (number, file) in files.into_iter().enumerate() {
        let name = file.rsplit('/').next().unwrap_or(file);
        archive.add(&format!("modules/{number:02}-{name}"), FILE, &read(&modules.join(file))?);
    }
    Ok(archive.finish())
}

fn read(path: &Path) -> Result<Vec<u8>, GuestError> {
    fs::read(path).map_err(GuestError::file(path))
}

/// Files of the modules that a guest needs to start, each after its dependencies, from the kernel's lists
/// `modules.dep` and `modules.builtin`.
fn in_order<'a>(
    dependencies: &'a str,
    built_in: &str,
    release: &str,
) -> Result<Vec<&'a str>, GuestError> {
    // File and dependencies of each module, nearest first, by its name.
    let lines = dependencies.lines().filter_map(|line| line.split_once(':'));
    let known: HashMap<String, (&str, &str)> =
        lines.map(|(file, needs)| (module(file), (file, needs))).collect();
    let mut files = Vec::new();
    for name in MODULES {
        if built_in.lines().any(|file| module(file) == name) {
            continue;
        }
        let Some((file, needs)) = known.get(name) else {
            return Err(GuestError::Failed(format!(
                "the kernel {release} has no module `{name}`, which its guest needs to start"
            )));
        };
        for file in needs.split_whitespace().rev().chain([*file]) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// A module's name from its file: `kernel/net/9p/9pnet.ko.xz` is `9pnet`.
fn module(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let length = |bytes: usize| u32::try_from(bytes).expect("first files are some megabytes");
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let fields = [
            self.entries, // inode
            mode,
            0, // owner
            0, // group
            links,
            0, // mtime
            length(contents.len()),
            0, // device
            0,
            0, // device number of a special file
            0,
            length(name.len() + 1),
            0, // checksum, unused in this format
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    /// Pads names and contents to multiples of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_a_dynamic_linker_is_told_from_one_that_does_not() {
        // Two headers of 56 bytes behind the ELF header of 64 bytes.
        let mut elf = vec![0; 64 + 2 * 56];
        (elf[0x20], elf[0x36], elf[0x38]) = (64, 56, 2);
        elf[64] = 1;
        assert!(!has_interpreter(&elf));
        elf[64 + 56] = 3;
        assert!(has_interpreter(&elf));
        assert!(!has_interpreter(&elf[..64]) && !has_interpreter(b"#!/bin/sh"));
    }

    #[test]
    fn modules_come_behind_what_they_need_and_what_is_built_in_does_not_come() {
        let dependencies = "kernel/net/9p/9pnet.ko:\n\
            kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko kernel/drivers/virtio/virtio.ko\n\
            kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko\n\
            kernel/fs/overlayfs/overlay.ko:\nkernel/drivers/char/virtio_console.ko:\n";
        let built_in =
            "kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/virtio/virtio_mmio.ko\n";
        let order = in_order(dependencies, built_in, "6.1").unwrap();
        let names: Vec<_> = order.into_iter().map(module).collect();
        let expected =
            ["virtio_console", "virtio", "9pnet", "9pnet_virtio", "netfs", "9p", "overlay"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_kernel_without_a_module_is_refused_by_its_name() {
        let Err(error) = in_order("", "", "6.1.0-1-amd64") else { panic!() };
        assert!(error.to_string().contains("6.1.0-1-amd64 has no module `virtio_pci`"), "{error}");
    }

    #[test]
    fn an_archive_has_a_head_a_name_and_contents_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.add("init", PROGRAM, b"hello");
        let bytes = archive.finish();
        let head = "070701000000010000 81ED".replace(' ', "");
        assert!(bytes.starts_with(head.as_bytes()));
        assert_eq!(&bytes[110..115], b"init\0");
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701");
        assert_eq!(bytes.len() % 4, 0);
    }
}
