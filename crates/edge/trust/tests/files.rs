//! Key files and files of trusted keys: their permissions, and how errors in them are reported.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fabricmark_trust::{HostName, Identity, TrustError, Trusted, key_path};
use tempfile::TempDir;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A folder with the key file of a new identity.
fn saved() -> (TempDir, PathBuf, Identity) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fabricmark/key.pem");
    let identity = Identity::generate().unwrap();
    identity.save_new(&path).unwrap();
    (folder, path, identity)
}

/// Writes like an editor, whatever the umask is.
fn write(trusted: &Trusted, text: impl AsRef<[u8]>) {
    fs::write(trusted.path(), text).unwrap();
    fs::set_permissions(trusted.path(), Permissions::from_mode(0o600)).unwrap();
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

#[test]
fn a_key_file_is_for_its_owner_alone_and_is_read_back() {
    let (_folder, path, identity) = saved();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(Identity::load(&path).unwrap().fingerprint(), identity.fingerprint());
    let pem = fs::read_to_string(&path).unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n"));
    assert!(pem.ends_with("\n-----END PRIVATE KEY-----\n"));
    assert!(pem.lines().all(|line| line.len() <= 64));
}

#[test]
fn an_existing_key_is_not_overwritten() {
    let (_folder, path, identity) = saved();
    let again = Identity::generate().unwrap().save_new(&path).unwrap_err();
    assert!(matches!(again, TrustError::KeyExists(_)));
    assert_eq!(Identity::load(&path).unwrap().fingerprint(), identity.fingerprint());
}

#[test]
fn a_missing_key_is_named_with_the_command_that_makes_one() {
    let error = Identity::load(Path::new("/nowhere/key.pem")).unwrap_err();
    let expected = "there is no key at /nowhere/key.pem: create one with `fabricmark agent \
                    --new-key`, or with `fabricmark pair` on both hosts";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_key_that_others_may_read_or_write_is_refused_with_the_remedy() {
    let (_folder, path, _) = saved();
    for open in [0o640, 0o620, 0o604, 0o602] {
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
        let error = Identity::load(&path).unwrap_err().to_string();
        assert!(error.ends_with(&format!("run chmod 600 {}", path.display())), "{error}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    assert!(Identity::load(&path).is_ok());
}

#[test]
fn a_key_that_another_user_could_replace_is_refused_with_the_remedy() {
    let (_folder, path, _) = saved();
    let folder = path.parent().unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    let error = Identity::load(&path).unwrap_err().to_string();
    assert!(error.ends_with(&format!("run chmod go-w {}", folder.display())), "{error}");
    // As /tmp is, where only the owner of a file can replace it.
    fs::set_permissions(folder, Permissions::from_mode(0o1777)).unwrap();
    assert!(Identity::load(&path).is_ok());
    // Who can rename the folder can replace the key in it.
    let above = folder.parent().unwrap();
    fs::set_permissions(above, Permissions::from_mode(0o775)).unwrap();
    let error = Identity::load(&path).unwrap_err().to_string();
    assert!(error.ends_with(&format!("run chmod go-w {}", above.display())), "{error}");
    fs::set_permissions(above, Permissions::from_mode(0o755)).unwrap();
    assert!(Identity::load(&path).is_ok());
    // Only root may give a file away.
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
        let error = Identity::load(&path).unwrap_err();
        assert!(matches!(error, TrustError::Foreign { owner: 12_345, .. }), "{error}");
    }
}

#[test]
fn what_is_no_key_file_is_refused() {
    let (_folder, path, _) = saved();
    let (_other, other, _) = saved();
    let [pem, other] = [&path, &other].map(|path| fs::read_to_string(path).unwrap());
    let [ours, theirs] = [&pem, &other].map(|pem| pem.split_once("-----BEGIN PRIVATE").unwrap());
    let mixed = format!("{}-----BEGIN PRIVATE{}", ours.0, theirs.1);
    for content in ["", "hello", ours.0, &pem[ours.0.len()..], &mixed] {
        fs::write(&path, content).unwrap();
        let error = Identity::load(&path).unwrap_err();
        assert!(matches!(error, TrustError::NotAKey { .. }), "{content}: {error}");
    }
    fs::write(&path, "x".repeat(64 * 1024 + 1)).unwrap();
    assert!(matches!(Identity::load(&path), Err(TrustError::TooLarge { max: 65_536, .. })));
}

#[test]
fn a_private_key_does_not_show_in_a_log() {
    let identity = Identity::generate().unwrap();
    assert_eq!(format!("{identity:?}"), format!("Identity({})", identity.fingerprint()));
}

#[test]
fn the_key_lies_in_the_folder_for_settings() {
    let path = |settings: &str, home: &str| {
        key_path(Some(OsStr::new(settings)), Some(OsStr::new(home))).unwrap()
    };
    assert_eq!(path("/etc/u", "/home/u"), Path::new("/etc/u/fabricmark/key.pem"));
    for ignored in ["", "relative"] {
        assert_eq!(path(ignored, "/home/u"), Path::new("/home/u/.config/fabricmark/key.pem"));
    }
    assert!(matches!(key_path(None, None), Err(TrustError::NoHome)));
}

#[test]
fn a_missing_file_trusts_nobody_and_the_first_key_makes_it() {
    let (_folder, path, identity) = saved();
    let trusted = Trusted::beside(&path);
    assert_eq!(trusted.path(), path.with_file_name("trusted"));
    assert_eq!(trusted.knows(&identity.fingerprint()).unwrap(), None);
    assert!(trusted.add(&identity.fingerprint(), &name("a")).unwrap());
    assert_eq!(mode(trusted.path()), 0o600);
    assert_eq!(trusted.knows(&identity.fingerprint()).unwrap(), Some(name("a")));
}

#[test]
fn a_key_is_added_once_and_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Trusted::at(folder.path().join("trusted"));
    let [a, b] = [(); 2].map(|()| Identity::generate().unwrap().fingerprint());
    assert!(trusted.add(&a, &name("a")).unwrap());
    assert!(!trusted.add(&a, &name("other")).unwrap());
    assert!(trusted.add(&b, &name("a")).unwrap());
    assert_eq!(fs::read_to_string(trusted.path()).unwrap(), format!("{a} a\n{b} a\n"));
}

#[test]
fn a_list_does_not_grow_beyond_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Trusted::at(folder.path().join("trusted"));
    let [a, b] = [(); 2].map(|()| Identity::generate().unwrap().fingerprint());
    let line = format!("{a} a\n");
    write(&trusted, format!("{line}#{}\n", "-".repeat(256 * 1024 - line.len() - 12)));
    let refused = trusted.add(&b, &name("b"));
    assert!(matches!(refused, Err(TrustError::TooLarge { max: 262_144, .. })));
    assert_eq!(trusted.knows(&a).unwrap(), Some(name("a")));
}

#[test]
fn lines_written_by_hand_are_read_and_a_change_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Trusted::at(folder.path().join("trusted"));
    let [a, b] = [(); 2].map(|()| Identity::generate().unwrap().fingerprint());
    write(&trusted, format!("# lab\n\n  {a}\tnode-1\r\n#{b} off"));
    assert_eq!(trusted.hosts().unwrap(), [(a, name("node-1"))]);
    // The last line has no newline.
    assert!(trusted.add(&b, &name("node-2")).unwrap());
    assert_eq!(trusted.hosts().unwrap(), [(a, name("node-1")), (b, name("node-2"))]);
    write(&trusted, "");
    assert_eq!(trusted.knows(&a).unwrap(), None);
}

#[test]
fn a_line_that_is_none_trusts_nobody_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Trusted::at(folder.path().join("trusted"));
    let known = Identity::generate().unwrap().fingerprint();
    for bad in ["SHA256:abc node-2", "node-2", &known.to_string(), &format!("{known} two words")] {
        write(&trusted, format!("{known} node-1\n{bad}\n"));
        let error = trusted.knows(&known).unwrap_err();
        assert!(matches!(error, TrustError::BadLine { line: 2, .. }), "{error}");
    }
}

#[test]
fn a_line_that_a_full_disk_cut_off_locks_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Trusted::at(folder.path().join("trusted"));
    let [a, b] = [(); 2].map(|()| Identity::generate().unwrap().fingerprint());
    let end = format!("{a} node-1\nSHA256:abc node-2");
    write(&trusted, &end);
    assert!(matches!(trusted.hosts(), Err(TrustError::BadLine { line: 2, .. })), "{end}");
    for cut in ["SHA2", &b.to_string()[..30], &b.to_string(), &format!("{b} ")] {
        write(&trusted, format!("{a} node-1\n{cut}"));
        assert_eq!(trusted.hosts().unwrap(), [(a, name("node-1"))], "{cut}");
        assert!(trusted.add(&b, &name("node-2")).unwrap());
        assert_eq!(trusted.hosts().unwrap(), [(a, name("node-1")), (b, name("node-2"))]);
    }
}

#[test]
fn a_file_that_others_may_write_trusts_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = Trusted::at(folder.path().join("trusted"));
    let known = Identity::generate().unwrap().fingerprint();
    trusted.add(&known, &name("a")).unwrap();
    fs::set_permissions(trusted.path(), Permissions::from_mode(0o664)).unwrap();
    let error = trusted.knows(&known).unwrap_err().to_string();
    assert!(error.ends_with(&format!("run chmod go-w {}", trusted.path().display())), "{error}");
    fs::set_permissions(trusted.path(), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(trusted.knows(&known).unwrap(), Some(name("a")));
}
