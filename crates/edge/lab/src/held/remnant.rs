//! Ends the processes that run in a lab.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::VARIABLE;
use super::place::Named;

/// Time for processes to end by themselves after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// Ends the processes that were started in a lab, and their descendants: those with its name and id in their
/// environment.
pub(crate) fn end(lab: &Named) {
    let mark = format!("{VARIABLE}={lab}").into_bytes();
    send(&mark, Signal::TERM);
    let until = Instant::now() + GRACE;
    while all().any(|pid| has(pid, &mark)) && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    send(&mark, Signal::KILL);
}

fn send(mark: &[u8], signal: Signal) {
    for pid in all() {
        // The descriptor refers to this process even if its id is used again meanwhile.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if has(pid, mark) {
            // A process that has ended needs no signal.
            let _ = pidfd_send_signal(&process, signal);
        }
    }
}

fn all() -> impl Iterator<Item = Pid> {
    let own = rustix::process::getpid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw).filter(move |&pid| pid != own)
}

fn has(pid: Pid, mark: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    environment.is_ok_and(|text| text.split(|&byte| byte == 0).any(|variable| variable == mark))
}
