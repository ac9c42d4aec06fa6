//! Runs the commands of each `console` block of the documents, each in its own folder with the shipped plans.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

fn documents() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let mut found = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// The lines after `$ ` in blocks marked `console`.
fn commands(text: &str) -> Vec<String> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside {
            found.extend(line.strip_prefix("$ ").map(str::to_owned));
        }
    }
    found
}

fn may_make_namespaces() -> bool {
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    probe.is_ok_and(|output| output.status.success())
}

#[test]
fn every_command_that_a_document_shows_succeeds() {
    if !may_make_namespaces() {
        if let Some(path) = std::env::var_os("FABRICMARK_SKIPS") {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            writeln!(file, "commands of documents: network namespaces need root").unwrap();
        }
        eprintln!("skipped: network namespaces need root");
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_fabricmark")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for document in documents() {
        let folder = TempDir::new().unwrap();
        let plans = fs::canonicalize(Path::new(ROOT).join("plans")).unwrap();
        std::os::unix::fs::symlink(plans, folder.path().join("plans")).unwrap();
        for command in commands(&fs::read_to_string(&document).unwrap()) {
            let output = Command::new("sh")
                .args(["-c", &command])
                .env("PATH", &path)
                // Do not see other labs of this machine.
                .env("XDG_RUNTIME_DIR", folder.path())
                .env("XDG_STATE_HOME", folder.path())
                .current_dir(folder.path())
                .output()
                .unwrap();
            // `compare` exits with 1 or 2 according to its result.
            let answers = if command.contains(" compare ") { 0..=2 } else { 0..=0 };
            let code = output.status.code().unwrap_or(-1);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(answers.contains(&code), "{}: {command}: {error}", document.display());
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} commands were found");
}
