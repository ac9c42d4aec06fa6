//! `fabricmark hosts restore` in a namespace of the test.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fabricmark_lab::Namespace;
use fabricmark_settings::Journal;
use serde_json::{Value, json};
use tempfile::TempDir;

const SYSCTL: &str = "/proc/sys/net/core/somaxconn";

fn restore(namespace: &Namespace, state: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
    command.args(["hosts", "restore", "--state"]).arg(state).args(more);
    namespace.enter(&mut command);
    command.output().unwrap()
}

#[track_caller]
fn expect(output: &Output, code: i32, text: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), text);
}

#[test]
fn restore_puts_back_what_a_killed_process_changed() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error) => {
            let test = "restore_puts_back_what_a_killed_process_changed";
            return fabricmark_testkit::skip(test, &error.to_string());
        }
    };
    let folder = TempDir::new().unwrap();
    let [living, killed] = ["living", "killed"].map(|name| folder.path().join(name));
    let value = || namespace.within(|| fs::read_to_string(SYSCTL)).unwrap().trim().to_owned();
    let old = value();
    namespace
        .within(|| {
            let mut journal = Journal::open(&living).unwrap();
            let mut applied = journal.begin();
            let change = "sysctl:net.core.somaxconn=77".parse().unwrap();
            applied.change(None, &change).unwrap();

            let line =
                format!("{change}: left alone: process {} still uses it\n", std::process::id());
            let output = restore(&namespace, &living, &[]);
            expect(&output, 67, &line);
            let message = "fabricmark: 1 host setting was not put back\n";
            assert_eq!(String::from_utf8_lossy(&output.stderr), message);

            // Nobody holds the files of a copy, as if their owner had been killed.
            fs::create_dir(&killed)?;
            let entry = "0000000001.entry";
            fs::copy(living.join(entry), killed.join(entry))?;
            assert_eq!(value(), "77");
            let output = restore(&namespace, &killed, &["--json"]);
            assert_eq!(output.status.code(), Some(0));
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            let setting = json!({ "device": null, "change": change.to_string(),
                "outcome": "put-back", "value": old });
            assert_eq!(json, json!({ "settings": [setting], "remaining": 0 }));
            assert_eq!(value(), old);
            Ok(())
        })
        .unwrap();
    expect(&restore(&namespace, &killed, &[]), 0, "nothing to put back\n");
    let none = folder.path().join("none");
    expect(&restore(&namespace, &none, &[]), 0, "nothing to put back\n");
    assert!(!none.exists());
}
