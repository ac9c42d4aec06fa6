//! What a run says when the host, the kernel or the other end refuses it: one line each, with the
//! remedy. Where this kernel would not refuse, a filter of system calls makes it fail as another does.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::thread;

use fabricmark_load::Endpoint;
use fabricmark_plan::{Factor, Where, resolve};
use fabricmark_proto::{Failure, Prepare, Role};
use fabricmark_units::Nanos;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, apply_filter};

/// An end of a run of these levels over loopback.
fn prepare(role: Role, levels: &str) -> Prepare {
    let defaults = "pattern=stream payload=512 family=4 link=loopback congestion=cubic";
    let level = |level: &str| {
        let (name, text) = level.split_once('=').unwrap();
        let factor = Factor::named(name).unwrap();
        (factor, factor.level(text).unwrap())
    };
    let point =
        resolve(&defaults.split(' ').chain(levels.split(' ')).map(level).collect::<Where>());
    Prepare {
        run: 1,
        role,
        point: point.unwrap(),
        duration_ns: Nanos::from_millis(10),
        token: [7; 16],
        address: "127.0.0.1".parse().unwrap(),
        port: 0,
        device: "lo".to_owned(),
        cpu: None,
        interval_ns: None,
        seed: 1,
        trace: None,
    }
}

/// Runs something in a thread whose calls of this number fail with this error; with conditions, only
/// those that meet one.
fn refusing<T: Send>(
    call: i64,
    conditions: Vec<SeccompRule>,
    error: i32,
    run: impl FnOnce() -> T + Send,
) -> T {
    let rules = BTreeMap::from([(call, conditions)]);
    let refuse = SeccompAction::Errno(error as u32);
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(&program).unwrap();
            run()
        });
        thread.join().unwrap()
    })
}

/// Asserts that an error is one line that holds these words.
fn says(error: &Failure, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
    assert!(!text.contains('\n'), "{text}");
}

fn refused(levels: &str) -> Failure {
    Endpoint::prepare(prepare(Role::Start, levels)).unwrap_err()
}

#[test]
fn a_host_without_io_uring_is_named_with_the_remedy() {
    for (error, words) in [
        (libc::ENOSYS, ["no io_uring", "Linux 6.1", "path copy"]),
        (libc::EPERM, ["forbidden", "io_uring_disabled", "seccomp"]),
        (libc::EINVAL, ["too old", "Linux 6.1", "path copy"]),
    ] {
        for path in ["io-uring", "io-uring-zc"] {
            let levels = format!("transport=tcp path={path}");
            let failure =
                refusing(libc::SYS_io_uring_setup, Vec::new(), error, || refused(&levels));
            assert!(matches!(failure, Failure::Missing(_)), "{failure:?}");
            says(&failure, &words);
        }
    }
}
