//! The agent as a service of systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::Keys;
use crate::support::{program, signal, skip};

const UNIT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging/fabricmark-agent.service");

#[test]
fn systemd_is_told_of_readiness_life_and_stop() {
    let (keys, folder) = (Keys::new(), TempDir::new().unwrap());
    let at = folder.path().join("notify");
    let socket = UnixDatagram::bind(&at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut command = keys.command(&["agent", "--listen", "127.0.0.1:0"]);
    let mut agent = command.env("NOTIFY_SOCKET", &at).stderr(Stdio::null()).spawn().unwrap();
    let heard = || {
        let mut buffer = [0; 4096];
        let bytes = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..bytes]).trim().to_owned()
    };
    assert_eq!(heard(), "READY=1");
    for _ in 0..3 {
        assert_eq!(heard(), "WATCHDOG=1");
    }
    signal(agent.id(), "TERM");
    while heard() != "STOPPING=1" {}
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

#[test]
fn the_unit_limits_memory_and_tasks() {
    let text = fs::read_to_string(UNIT).unwrap();
    for line in ["MemoryMax=80%", "TasksMax=8192", "LimitNOFILE=65536"] {
        assert!(text.lines().any(|one| one == line), "no {line} in {text}");
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes_and_is_well_confined() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        skip("the_unit_is_one_that_systemd_takes_and_is_well_confined", "no systemd-analyze");
        return;
    }
    let folder = TempDir::new().unwrap();
    let unit = folder.path().join("fabricmark-agent.service");
    let text = fs::read_to_string(UNIT).unwrap();
    let here = program().display().to_string();
    fs::write(&unit, text.replace("/usr/local/bin/fabricmark", &here)).unwrap();
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output();
    let verify = verify.unwrap();
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stderr));
    // An exposure of 2.0 of 10.
    let security = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20"])
        .arg(&unit)
        .output()
        .unwrap();
    assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
}
