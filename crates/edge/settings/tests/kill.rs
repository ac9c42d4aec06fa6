//! Processes that change settings are killed at random moments, and so are processes that recover. Afterwards every
//! setting has its old value.
//!
//! The processes are this program itself, so it has no test harness: `kill change FOLDER SEED FROM TO`, `kill
//! qdisc FOLDER` and `kill recover FOLDER` are what is killed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stdout, reason = "it prints what a test harness would")]

mod support;

use std::fs::{self, Permissions, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;
use fabricmark_settings::{Cause, Journal, Outcome};
use fabricmark_units::Stream;
use tempfile::TempDir;

use support::{Readings, change, run, veth, with_journal};

const CHANGES: [&str; 9] = [
    "mtu=9000",
    "tso=off",
    "gso=off",
    "gro=on",
    "tx-checksum=off",
    "rps=1",
    "qdisc=pfifo",
    "sysctl:net.ipv4.tcp_rmem=4096 65536 1000000",
    "sysctl:net.core.somaxconn=100",
];

const KILLS: u64 = 200;

/// Longest time to a kill: all changes are made and undone in about this time.
const TIME_MAX: Duration = Duration::from_millis(50);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match arguments.as_slice() {
        ["change", folder, seed, from, to] => {
            let changes = &CHANGES[from.parse().unwrap()..to.parse().unwrap()];
            change_for_ever(Path::new(folder), seed.parse().unwrap(), changes);
        }
        ["qdisc", folder] => {
            ready();
            let mut journal = Journal::open(Path::new(folder)).unwrap();
            journal.begin().change(Some("v0"), &change("qdisc=pfifo")).unwrap();
        }
        ["recover", folder] => {
            ready();
            Journal::open(Path::new(folder)).unwrap().recover().unwrap();
        }
        _ => {
            every_setting_has_its_old_value_after_a_kill_at_any_moment();
            a_setting_of_a_living_process_is_refused_until_it_is_killed();
            nothing_is_undone_before_a_program_of_a_killed_process_has_ended();
            processes_that_change_different_settings_do_not_disturb_each_other();
            println!("test result: ok. 4 passed; 0 failed; 0 ignored");
        }
    }
}

/// Tells the process that kills this one that it may.
fn ready() {
    println!("ready");
    std::io::stdout().flush().unwrap();
}

/// Makes changes in random order, and undoes them, again and again.
fn change_for_ever(folder: &Path, seed: u64, changes: &[&str]) {
    let mut journal = Journal::open(folder).unwrap();
    let mut order = Stream::new(seed, "order");
    let mut changes = changes.to_vec();
    ready();
    loop {
        order.shuffle(&mut changes);
        let mut applied = journal.begin();
        for text in &changes {
            match applied.change(Some("v0"), &change(text)) {
                Ok(()) => {}
                Err(error) => assert!(matches!(error.cause, Cause::InUse { .. }), "{error}"),
            }
        }
    }
}

/// Starts this program in the namespace, and waits until it is ready.
fn start(namespace: &Namespace, arguments: &[&str]) -> Child {
    start_with_programs(namespace, arguments, Path::new("/usr/sbin"))
}

/// Starts a process that makes some of the changes.
fn start_changes(namespace: &Namespace, path: &str, seed: u64, which: Range<usize>) -> Child {
    let [seed, from, to] = [seed, which.start as u64, which.end as u64].map(|n| n.to_string());
    start(namespace, &["change", path, &seed, &from, &to])
}

/// The same with a folder in which programs are found first.
fn start_with_programs(namespace: &Namespace, arguments: &[&str], programs: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", programs.display()));
    command.args(arguments).stdout(Stdio::piped());
    namespace.enter(&mut command);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// Kills a process with SIGKILL after this time.
fn kill_after(mut child: Child, time: Duration) {
    // The moment is what is tested; nothing is waited for.
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A folder in memory, like /run.
fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap()
}

fn entries(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "entry")).count()
}

fn every_setting_has_its_old_value_after_a_kill_at_any_moment() {
    let test = "every_setting_has_its_old_value_after_a_kill_at_any_moment";
    let (Some(namespace), folder) = (veth(test), in_memory()) else { return };
    let path = folder.path().to_str().unwrap();
    let readings = Readings::of(&namespace);
    let before = readings.all(&namespace);
    let mut moments = Stream::new(1, test);
    let mut moment = || TIME_MAX.mul_f64(moments.unit());
    let begin = Instant::now();
    // How many kills left 0, 1, 2, ... entries, and how many of them left a setting changed.
    let (mut left, mut changed, mut twice) = ([0; CHANGES.len() + 1], 0, 0);
    for seed in 0..KILLS {
        kill_after(start_changes(&namespace, path, seed, 0..CHANGES.len()), moment());
        left[entries(folder.path())] += 1;
        changed += u32::from(readings.all(&namespace) != before);
        if seed % 2 == 0 {
            kill_after(start(&namespace, &["recover", path]), moment() / 4);
            twice += u32::from(entries(folder.path()) > 0);
        }
        let restored =
            with_journal(&namespace, folder.path(), |journal| journal.recover().unwrap());
        let after = readings.all(&namespace);
        assert_eq!(after, before, "kill {seed}: {restored:?}");
        assert!(restored.iter().all(|one| !one.outcome.remains()), "kill {seed}: {restored:?}");
        assert_eq!(entries(folder.path()), 0, "kill {seed}");
    }
    let time = begin.elapsed();
    println!(
        "{KILLS} kills in {time:.1?}; kills by the number of entries left: {left:?}; {changed} \
         left a setting changed; {twice} of {} recoveries were killed before their end",
        KILLS / 2
    );
    assert!(changed > KILLS as u32 / 4, "many kills hit a process that had changed something");
    assert!(left.iter().filter(|&&kills| kills > 0).count() > 3, "the moments differ");
    println!("test {test} ... ok");
}

fn a_setting_of_a_living_process_is_refused_until_it_is_killed() {
    let test = "a_setting_of_a_living_process_is_refused_until_it_is_killed";
    let (Some(namespace), folder) = (veth(test), in_memory()) else { return };
    let readings = Readings::of(&namespace);
    let before = readings.all(&namespace);
    let path = folder.path().to_str().unwrap();
    let child = start_changes(&namespace, path, 1, 0..CHANGES.len());
    with_journal(&namespace, folder.path(), |mut journal| {
        // The process holds each setting most of the time.
        let refusal = (0..1000).find_map(|_| {
            journal.begin().change(Some("v0"), &change("sysctl:net.core.somaxconn=99")).err()
        });
        let error = refusal.unwrap();
        assert!(
            matches!(&error.cause, Cause::InUse { owner, change }
            if owner.contains(&child.id().to_string()) && change == "sysctl:net.core.somaxconn=100"),
            "{error}"
        );
    });
    kill_after(child, Duration::ZERO);
    with_journal(&namespace, folder.path(), |mut journal| {
        // No recovery is needed before.
        journal.begin().change(Some("v0"), &change("sysctl:net.core.somaxconn=99")).unwrap();
        journal.recover().unwrap();
    });
    assert_eq!(readings.all(&namespace), before);
    println!("test {test} ... ok");
}

/// `tc` outlives the process that started it, and sets the qdisc later.
fn nothing_is_undone_before_a_program_of_a_killed_process_has_ended() {
    let test = "nothing_is_undone_before_a_program_of_a_killed_process_has_ended";
    let (Some(namespace), folder) = (veth(test), in_memory()) else { return };
    let (readings, programs) = (Readings::of(&namespace), TempDir::new().unwrap());
    let before = readings.all(&namespace);
    let tc = fabricmark_host::program("tc").unwrap();
    let [started, go] = ["started", "go"].map(|name| programs.path().join(name));
    run(&namespace, &format!("mkfifo {} {}", started.display(), go.display()));
    let script = format!(
        "#!/bin/sh\n[ \"$2\" = replace ] && {{ echo > {}; read line < {}; }}\nexec {} \"$@\"\n",
        started.display(),
        go.display(),
        tc.display()
    );
    fs::write(programs.path().join("tc"), script).unwrap();
    fs::set_permissions(programs.path().join("tc"), Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().to_str().unwrap();
    let child = start_with_programs(&namespace, &["qdisc", path], programs.path());
    fs::read(&started).unwrap();
    kill_after(child, Duration::ZERO);
    let entry = fs::File::open(folder.path().join("0000000001.entry")).unwrap();
    assert!(matches!(entry.try_lock(), Err(TryLockError::WouldBlock)), "tc has the lock");
    fs::write(&go, "\n").unwrap();
    // As recovery does, wait for its end.
    entry.lock().unwrap();
    assert!(readings.all(&namespace).contains("qdisc pfifo "), "tc has set the qdisc");
    drop(entry);
    let restored = with_journal(&namespace, folder.path(), |journal| journal.recover().unwrap());
    assert_eq!(restored[0].outcome, Outcome::PutBack { value: "default".to_owned() });
    assert_eq!(readings.all(&namespace), before);
    println!("test {test} ... ok");
}

fn processes_that_change_different_settings_do_not_disturb_each_other() {
    let test = "processes_that_change_different_settings_do_not_disturb_each_other";
    let (Some(namespace), folder) = (veth(test), in_memory()) else { return };
    let path = folder.path().to_str().unwrap();
    let readings = Readings::of(&namespace);
    let before = readings.all(&namespace);
    let mut moments = Stream::new(2, test);
    let recover = || with_journal(&namespace, folder.path(), |journal| journal.recover().unwrap());
    let mut in_use = 0;
    for seed in 0..20 {
        let half = CHANGES.len() / 2;
        let first = start_changes(&namespace, path, seed, 0..half);
        let second = start_changes(&namespace, path, seed, half..CHANGES.len());
        let pid = second.id();
        kill_after(first, TIME_MAX.mul_f64(moments.unit()));
        for one in recover() {
            match one.outcome {
                Outcome::InUse { pid: owner } => {
                    assert_eq!(owner, pid, "kill {seed}: {:?}", one.change);
                    assert!(CHANGES[half..].contains(&one.change.unwrap().as_str()));
                    in_use += 1;
                }
                outcome => assert!(!outcome.remains(), "kill {seed}: {outcome:?}"),
            }
        }
        kill_after(second, TIME_MAX.mul_f64(moments.unit()));
        assert!(recover().iter().all(|one| !one.outcome.remains()), "kill {seed}");
        assert_eq!(readings.all(&namespace), before, "kill {seed}");
    }
    assert!(in_use > 0, "the second process had changed something");
    println!("test {test} ... ok");
}
