//! Authentication as client and as server, with both paddings.

use std::path::{Path, PathBuf};
use std::process::Command;

use fabricmark_interop::Guard;
use fabricmark_interop::iperf3::{Authentication, AuthenticationError, Credentials, Padding};
use fabricmark_load::Control;
use tempfile::TempDir;

use super::client::{measure_one, prepare};
use super::support::{Ours, Theirs, V4, error_of, has};

/// A key pair, and a user `mario` with the password `rossi`.
struct Keys {
    _folder: TempDir,
    private: PathBuf,
    public: PathBuf,
    users: PathBuf,
}

fn openssl(arguments: &[&str]) {
    assert!(Command::new("openssl").args(arguments).output().unwrap().status.success());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn keys() -> Keys {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (private, public, users) = (file("private.pem"), file("public.pem"), file("users.csv"));
    openssl(&["genrsa", "-out", text(&private), "2048"]);
    openssl(&["rsa", "-in", text(&private), "-pubout", "-out", text(&public)]);
    // printf '{mario}rossi' | sha256sum
    let user = "mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\n";
    std::fs::write(&users, user).unwrap();
    Keys { _folder: folder, private, public, users }
}

fn credentials(keys: &Keys, password: &str, padding: Padding) -> Credentials {
    Credentials {
        user: "mario".to_owned(),
        password: password.to_owned(),
        public_key: keys.public.clone(),
        padding,
    }
}

const RUN: &str = "transport=tcp,payload=10000,congestion=cubic,pace=fixed:10M";

#[test]
fn their_client_is_admitted_with_the_right_password_alone() {
    if !has("their_client_is_admitted_with_the_right_password_alone", &["iperf3", "openssl"]) {
        return;
    }
    let keys = keys();
    let users = Authentication::new(&keys.private, &keys.users).unwrap();
    let ours = Ours::new(V4, Guard::default(), Some(users));
    let known = format!("-n 100K --username mario --rsa-public-key-path {}", text(&keys.public));
    let run = |arguments: &str, password: &str| {
        ours.command(arguments).env("IPERF3_PASSWORD", password).output().unwrap()
    };
    assert!(run(&known, "rossi").status.success());
    for (arguments, password) in [(known.as_str(), "verdi"), ("-n 100K", "rossi")] {
        let said = error_of(&run(arguments, password));
        assert!(said.contains("authorization failed"), "{said}");
    }
}

#[test]
fn our_client_is_admitted_by_their_server_of_old_padding() {
    if !has("our_client_is_admitted_by_their_server_of_old_padding", &["iperf3", "openssl"]) {
        return;
    }
    let keys = keys();
    let arguments = ["--rsa-private-key-path", text(&keys.private)];
    let users = ["--authorized-users-path", text(&keys.users)];
    let run = |password: &str| {
        let theirs = Theirs::new(V4, &[&arguments[..], &users, &["-1"]].concat());
        let known = credentials(&keys, password, Padding::Pkcs1);
        measure_one(&prepare(V4, RUN), theirs.at, Some(&known), &Control::default())
    };
    assert!(run("rossi").unwrap().ends[0].server.counts.bytes > 0);
    let failure = run("verdi").unwrap_err().to_string();
    assert!(failure.contains("authorization failed"), "{failure}");
}

#[test]
fn our_server_takes_both_paddings_of_our_client() {
    if !has("our_server_takes_both_paddings_of_our_client", &["openssl"]) {
        return;
    }
    let keys = keys();
    let users = Authentication::new(&keys.private, &keys.users).unwrap();
    let ours = Ours::new(V4, Guard::default(), Some(users));
    for padding in [Padding::Oaep, Padding::Pkcs1] {
        let run = |password: &str| {
            let known = credentials(&keys, password, padding);
            measure_one(&prepare(V4, RUN), ours.at, Some(&known), &Control::default())
        };
        assert!(run("rossi").is_ok(), "{padding:?}");
        let failure = run("verdi").unwrap_err().to_string();
        assert!(failure.contains("authorization failed"), "{padding:?}: {failure}");
    }
    let failure = measure_one(&prepare(V4, RUN), ours.at, None, &Control::default()).unwrap_err();
    assert!(failure.to_string().contains("authorization failed"), "{failure}");
}

#[test]
fn what_is_missing_is_named() {
    if !has("what_is_missing_is_named", &["openssl"]) {
        return;
    }
    let keys = keys();
    let nowhere = Path::new("/nowhere/key.pem");
    assert!(matches!(
        Authentication::new(nowhere, &keys.users),
        Err(AuthenticationError::File { .. })
    ));
    let known = Credentials {
        public_key: nowhere.to_owned(),
        ..credentials(&keys, "rossi", Padding::Oaep)
    };
    let at = "127.0.0.1:9".parse().unwrap();
    let failure =
        measure_one(&prepare(V4, RUN), at, Some(&known), &Control::default()).unwrap_err();
    assert!(failure.to_string().starts_with("cannot read /nowhere/key.pem"), "{failure}");
    // An invalid key is reported in openssl's words.
    let known = Credentials {
        public_key: keys.users.clone(),
        ..credentials(&keys, "rossi", Padding::Oaep)
    };
    let failure =
        measure_one(&prepare(V4, RUN), at, Some(&known), &Control::default()).unwrap_err();
    assert!(failure.to_string().starts_with("openssl failed: "), "{failure}");
}
