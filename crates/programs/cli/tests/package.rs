//! The Debian package: installed into an empty root and removed again.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use fabricmark_testkit::skip;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(program: impl AsRef<OsStr>, words: &[&OsStr]) -> Output {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let output = run("find", &[folder.as_ref(), "-type".as_ref(), "f".as_ref()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let own = |line: &&str| !line.contains("/var/lib/dpkg/");
    let mut files: Vec<PathBuf> = text
        .lines()
        .filter(own)
        .map(|line| Path::new(line).strip_prefix(folder).unwrap().into())
        .collect();
    files.sort();
    files
}

#[test]
fn the_debian_package_is_installed_into_a_bare_root_and_leaves_nothing_when_it_is_purged() {
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root || Command::new("dpkg-deb").arg("--version").output().is_err() {
        return skip("the Debian package", "dpkg needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    let packing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/deb");
    let output = run(packing, &[env!("CARGO_BIN_EXE_fabricmark").as_ref(), folder.path().as_ref()]);
    let package = String::from_utf8(output.stdout).unwrap();
    let package = Path::new(package.trim());

    let root = folder.path().join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    fs::create_dir(root.join("var/lib/dpkg/updates")).unwrap();
    for file in ["status", "available"] {
        fs::write(root.join("var/lib/dpkg").join(file), "").unwrap();
    }
    let of_root = format!("--root={}", root.display());
    let dpkg = |words: [&OsStr; 2]| {
        // An empty root has no C library.
        let always = [of_root.as_ref(), "--log=/dev/null".as_ref(), "--force-depends".as_ref()];
        run("dpkg", &[always.as_slice(), &words].concat())
    };
    dpkg(["--install".as_ref(), package.as_ref()]);
    let expected = [
        "usr/bin/fabricmark",
        "usr/lib/systemd/system/fabricmark-agent.service",
        "usr/lib/systemd/system/fabricmark-relay@.service",
        "usr/share/bash-completion/completions/fabricmark",
        "usr/share/doc/fabricmark/copyright",
        "usr/share/fish/vendor_completions.d/fabricmark.fish",
        "usr/share/man/man1/fabricmark.1.gz",
        "usr/share/zsh/vendor-completions/_fabricmark",
    ];
    assert_eq!(files(&root), expected.map(PathBuf::from));
    let version = run(root.join("usr/bin/fabricmark"), &["--version".as_ref()]).stdout;
    assert_eq!(version, concat!("fabricmark ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    for (file, command) in [(expected[1], "agent"), (expected[2], "relay")] {
        let unit = fs::read_to_string(root.join(file)).unwrap();
        let start = format!("ExecStart=/usr/bin/fabricmark {command}");
        assert!(unit.contains(&start) && !unit.contains("/usr/local"), "{unit}");
    }

    dpkg(["--purge".as_ref(), "fabricmark".as_ref()]);
    assert_eq!(files(&root), Vec::<PathBuf>::new());
}
