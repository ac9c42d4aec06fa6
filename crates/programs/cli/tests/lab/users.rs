//! Root and unprivileged users, refused namespaces, and unwritable folders.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Bench, PLAN, bench, expect, program, skip};

/// A user id that no package uses.
pub const USER: u32 = 54_321;

impl Bench {
    /// A copy of the program that every user may execute; build folders are often private.
    pub fn public_program(&self) -> PathBuf {
        let path = self.folder.path().join("fabricmark");
        // A running program cannot be overwritten.
        if !path.exists() {
            fs::copy(program(), &path).unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(self.folder.path(), Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub fn as_user(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.public_program());
        command.args(words).current_dir(self.folder.path()).uid(USER).gid(USER);
        command
    }

    /// Runs the program as an unprivileged user for whom `/dev/net/tun` has this mode.
    pub fn as_user_with_tun(&self, mode: &str, words: &[&str]) -> Command {
        let script = r#"
            set -e
            user=$1 mode=$2 node=$(mktemp -d)
            shift 2
            mknod "$node/tun" c 10 200
            chmod "$mode" "$node/tun"
            mount --bind "$node/tun" /dev/net/tun
            rm -r "$node"
            exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", &USER.to_string(), mode]);
        command.arg(self.public_program()).args(words).current_dir(self.folder.path());
        command
    }
}

/// Whether an unprivileged user may create user namespaces.
pub fn users_may_have_namespaces(test: &str) -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--user", "--map-root-user", "--net", "true"]).uid(USER).gid(USER);
    let may = probe.output().is_ok_and(|output| output.status.success());
    if !may {
        skip(test, "ordinary users may not make user namespaces here");
    }
    may
}

#[test]
fn an_ordinary_user_runs_a_plan_through_a_user_namespace() {
    let Some(bench) = bench("ordinary user") else { return };
    if !users_may_have_namespaces("ordinary user") {
        return;
    }
    bench.plan(&PLAN.replace("runs = 3", "runs = 2"));
    fs::create_dir(bench.out()).unwrap();
    chown(bench.out(), Some(USER), Some(USER)).unwrap();
    let output = bench.as_user(&["run", "plan.toml", "--out", "out"]).output().unwrap();
    expect(&output, 0, &["report.html"]);
    // Invalid runs are repeated.
    assert!(bench.records().len() >= 48);
}

#[test]
fn a_tun_device_that_users_may_not_open_is_named_with_the_remedy() {
    let Some(bench) = bench("closed TUN device") else { return };
    if !users_may_have_namespaces("closed TUN device") {
        return;
    }
    let words = ["measure", "stream", "lab:ethernet:1G", "--rtt", "1ms"];
    let output = bench.as_user_with_tun("600", &words).output().unwrap();
    let expected = ["cannot open /dev/net/tun: Permission denied", "chmod 666 /dev/net/tun"];
    expect(&output, 66, &expected);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let Some(bench) = bench("read-only folder") else { return };
    if !users_may_have_namespaces("read-only folder") {
        return;
    }
    bench.plan(PLAN);
    fs::create_dir(bench.out()).unwrap();
    for (out, remedy) in [("out", "--out"), ("new", "use another folder")] {
        let output = bench.as_user(&["run", "plan.toml", "--out", out]).output().unwrap();
        expect(&output, 66, &["cannot write", out, remedy]);
    }
}

#[test]
fn refused_namespaces_give_the_cause_and_the_remedy() {
    let Some(bench) = bench("refused namespaces") else { return };
    // A container or a chroot may refuse them with other reasons.
    if !users_may_have_namespaces("refused namespaces") {
        return;
    }
    bench.plan(PLAN);
    // A user namespace with a limit of zero, and without the capabilities that make a further namespace unnecessary.
    let script = r#"
        echo 0 > /proc/sys/user/max_user_namespaces || exit 9
        exec setpriv --bounding-set=-all --inh-caps=-all "$1" run plan.toml --out out
    "#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(program())
        .current_dir(bench.folder.path())
        .output()
        .unwrap();
    expect(
        &output,
        66,
        &["cannot create a user namespace", "max_user_namespaces is 0", "run as root", "sysctl"],
    );
}

#[test]
fn a_kernel_without_ipv6_is_named_with_the_remedy() {
    let Some(bench) = bench("a kernel without IPv6") else { return };
    // As if it had been booted with ipv6.disable=1.
    let script = "mount -t tmpfs none /proc/sys/net/ipv6 && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(program());
    command.args(["measure", "stream", "lab:veth", "-t", "50ms"]).current_dir(bench.folder.path());
    expect(&command.output().unwrap(), 66, &["this kernel has no IPv6", "ipv6.disable=1"]);
}
