//! Labs that stay up between commands: `fabricmark lab`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::schema::Published;
use crate::support::{Bench, bench, expect, program, signal, stderr, stdout, wait_until};
use crate::users::{USER, users_may_have_namespaces};

const TWO: &str = "[hosts.client]\n[hosts.server]\n[links.wan]\nbetween = ['client', 'server']\n";

/// A host, a router and a host. Sorted by name, `far` is link 0 and `near` is link 1.
const CHAIN: &str = "[hosts.client]\n[hosts.server]\n[routers.middle]\n\
    [links.near]\nbetween = ['client', 'middle']\noptions = 'rtt=10ms'\n\
    [links.far]\nbetween = ['middle', 'server']\noptions = 'rtt=10ms mtu=9000'\n";

impl Bench {
    fn topology(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("two.toml");
        fs::write(&path, text).unwrap();
        path
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("fabricmark"));
        entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }

    /// A `lab` command whose sockets are in this bench's folder.
    pub fn lab_command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("lab").args(words);
        command.env("XDG_RUNTIME_DIR", self.folder.path()).current_dir(self.folder.path());
        command
    }

    pub fn lab(&self, words: &[&str]) -> Output {
        self.lab_command(words).output().unwrap()
    }

    pub fn up(&self, topology: &str) {
        self.topology(topology);
        expect(&self.lab(&["up", "two.toml"]), 0, &["lab two is up"]);
    }

    pub fn report(&self) -> serde_json::Value {
        let report = stdout(&self.lab(&["show", "--json"])).parse().unwrap();
        Published::named("lab").holds(&report);
        report
    }

    fn holder(&self) -> u32 {
        u32::try_from(self.report()["holder_pid"].as_u64().unwrap()).unwrap()
    }

    /// A process that runs in a node until its standard input closes.
    fn resident(&self, node: &str) -> Resident {
        let mut command = self.lab_command(&["exec", node, "--", "cat"]);
        Resident::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
    }

    /// Runs `open` in a node's network namespace.
    pub fn inside<T: Send>(&self, node: &str, open: impl FnOnce() -> T + Send) -> T {
        let network = File::open(self.resident(node).network()).unwrap();
        let enter = || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            open()
        };
        thread::scope(|scope| scope.spawn(enter).join().unwrap())
    }

    /// A UDP socket in a node's network namespace.
    pub fn udp(&self, node: &str, local: IpAddr) -> UdpSocket {
        let socket = self.inside(node, || UdpSocket::bind(SocketAddr::new(local, 0)).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }
}

struct Resident(Child);

impl Resident {
    /// Returns when the command runs.
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"here\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "here\n");
        Self(child)
    }

    fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

fn has_ended(pid: u32) -> bool {
    // If the parent does not reap it, an ended process remains as a zombie.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

/// Whether a process is in a namespace, or holds it by a descriptor.
fn is_held(namespace: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(|path| path.join("ns").exists()).any(|process| {
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        descriptors
            .map(|entry| entry.path())
            .chain([process.join("ns/net")])
            .filter_map(|path| fs::read_link(path).ok())
            .any(|target| target.to_str() == Some(namespace))
    })
}

/// Minimum and maximum RTT of ten.
pub fn round_trips(one: &UdpSocket, other: &UdpSocket) -> (Duration, Duration) {
    let once = |_| {
        let begin = Instant::now();
        one.send_to(b"ping", other.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 8];
        let (length, from) = other.recv_from(&mut bytes).unwrap();
        other.send_to(&bytes[..length], from).unwrap();
        one.recv_from(&mut bytes).unwrap();
        begin.elapsed()
    };
    let times: Vec<_> = (0..10).map(once).collect();
    (*times.iter().min().unwrap(), *times.iter().max().unwrap())
}

#[test]
pub fn round_trips_over_a_router_are_those_of_both_links_and_change_with_them() {
    let Some(bench) = bench("a lab with a router") else { return };
    bench.up(CHAIN);
    let addresses: [(IpAddr, IpAddr); 2] = [
        ([10, 71, 1, 1].into(), [10, 71, 0, 2].into()),
        ([0xfd71, 1, 0, 0, 0, 0, 0, 1].into(), [0xfd71, 0, 0, 0, 0, 0, 0, 2].into()),
    ];
    let sockets = addresses
        .map(|(client, server)| (bench.udp("client", client), bench.udp("server", server)));
    for (client, server) in &sockets {
        let (fastest, _) = round_trips(client, server);
        assert!(fastest >= Duration::from_millis(20), "{fastest:?}");
        assert!(fastest < Duration::from_millis(22), "{fastest:?}");
    }
    expect(&bench.lab(&["link", "near", "rtt=30ms"]), 0, &[]);
    expect(&bench.lab(&["link", "--from", "middle", "far", "delay=25ms", "rtt=none"]), 64, &[]);
    let (fastest, _) = round_trips(&sockets[0].0, &sockets[0].1);
    assert!((40..42).contains(&fastest.as_millis()), "{fastest:?}");
    let report = bench.report();
    for path in report["paths"].as_array().unwrap() {
        let count = |key: &str| path[key].as_u64().unwrap();
        assert_eq!(count("arrived"), count("departed") + count("held"), "{path}");
        assert!(count("departed") >= 30 && count("device_drops") == 0, "{path}");
    }
    assert_eq!(report["paths"][2]["options"], "rtt=30ms");
    let text = stdout(&bench.lab(&["show"]));
    assert!(text.contains("middle  router  10.71.0.1 fd71::1 10.71.1.2 fd71:1::2"), "{text}");
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_link_of_the_kernel_is_shown_and_changed_like_others() {
    let Some(bench) = bench("a link of the kernel") else { return };
    bench.up(&format!("{TWO}backend = 'tbf'\noptions = 'rate=10M queue=50ms'"));
    let (client, server) = ([10, 71, 0, 1].into(), [10, 71, 0, 2].into());
    round_trips(&bench.udp("client", client), &bench.udp("server", server));
    expect(&bench.lab(&["link", "--from", "client", "wan", "rate=20M"]), 0, &[]);
    expect(
        &bench.lab(&["link", "wan", "up=1s", "down=1s"]),
        64,
        &["`tbf` does not support `up=1s`"],
    );
    let report = bench.report();
    for path in report["paths"].as_array().unwrap() {
        assert_eq!(path["backend"], "tbf");
        assert!(path["arrived"].as_u64() >= Some(10), "{path}");
        assert_eq!(path["arrived"], path["departed"], "{path}");
    }
    let text = stdout(&bench.lab(&["show"]));
    assert!(text.contains("tbf: rate=20M queue=50ms\n"), "{text}");
    assert!(text.contains("tbf: rate=10M queue=50ms\n"), "{text}");
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_lab_that_needs_what_the_kernel_lacks_is_refused_like_a_missing_program() {
    let Some(bench) = bench("a lab over netem") else { return };
    bench.topology(&format!("{TWO}backend = 'netem'\noptions = 'rtt=20ms'"));
    let output = bench.lab(&["up", "two.toml"]);
    if output.status.success() {
        let text = stdout(&bench.lab(&["show"]));
        assert!(text.contains("netem: rtt=20ms\n"), "{text}");
        expect(&bench.lab(&["down"]), 0, &[]);
    } else {
        expect(&output, 66, &["link `wan`: this kernel has no netem qdisc", "sch_netem"]);
        assert!(bench.sockets().is_empty());
    }
}

#[test]
fn a_command_in_a_lab_is_the_users_own() {
    let Some(bench) = bench("lab exec") else { return };
    bench.up(TWO);
    assert_eq!(bench.lab(&["exec", "client", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let output = bench.lab(&["exec", "server", "--", "ip", "-br", "-4", "addr", "show", "wan"]);
    assert!(stdout(&output).contains("10.71.0.2/24"), "{}", stdout(&output));
    let output = bench.lab(&["exec", "client", "--", "no-such-program"]);
    expect(&output, 66, &["cannot run no-such-program"]);
    expect(
        &bench.lab(&["exec", "sever", "--", "true"]),
        64,
        &["no node `sever`: there are client, server"],
    );
    expect(&bench.lab(&["link", "lan", "rtt=1ms"]), 64, &["no link `lan`: there are wan"]);
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn devices_follow_the_options_of_a_link_that_changes() {
    let Some(bench) = bench("devices that follow options") else { return };
    bench.up(&format!("{TWO}options = 'rate=1G'\nreverse = 'loss=0.1%'"));
    let device = |node: &str| {
        let output = bench.lab(&["exec", node, "--", "ip", "-j", "-d", "link", "show", "wan"]);
        let devices: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        ["mtu", "gso_max_segs"].map(|key| devices[0][key].as_u64().unwrap())
    };
    assert_eq!([device("client"), device("server")], [[1500, 65_535]; 2]);
    expect(&bench.lab(&["link", "wan", "mtu=9000", "loss=none"]), 0, &[]);
    assert_eq!([device("client"), device("server")], [[9000, 65_535]; 2]);
    // Half of the queue has no room for a super-packet.
    expect(&bench.lab(&["link", "wan", "--from", "client", "queue=10p", "pause"]), 0, &[]);
    assert_eq!([device("client"), device("server")], [[9000, 1], [9000, 65_535]]);
    expect(&bench.lab(&["link", "wan", "mtu=1500", "jitter=1ms"]), 64, &["`jitter`"]);
    assert_eq!(device("server"), [9000, 65_535]);
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn a_trace_is_read_beside_the_topology_file_and_for_a_live_link_where_one_stands() {
    let Some(bench) = bench("a lab with a trace") else { return };
    let file = |name: &str, text: &str| fs::write(bench.folder.path().join(name), text).unwrap();
    let plans = bench.folder.path().join("plans");
    fs::create_dir(&plans).unwrap();
    file("plans/two.toml", &format!("{TWO}options = 'trace=slow.trace'"));
    expect(
        &bench.lab(&["up", "plans/two.toml"]),
        64,
        &["plans/two.toml: link `wan`: cannot read the trace slow.trace: No such file"],
    );
    file("plans/slow.trace", "10\n");
    file("fast.trace", "1\n");
    expect(&bench.lab(&["up", "plans/two.toml"]), 0, &[]);
    let server = [10, 71, 0, 2].into();
    let (client, server) =
        (bench.udp("client", [10, 71, 0, 1].into()), bench.udp("server", server));
    // A delivery opportunity serves one direction; the next one comes 10 ms after the last that was used.
    let (_, slowest) = round_trips(&client, &server);
    assert!(slowest >= Duration::from_millis(10), "{slowest:?}");
    expect(&bench.lab(&["link", "wan", "trace=fast.trace"]), 0, &[]);
    round_trips(&client, &server);
    assert_eq!(bench.report()["paths"][0]["options"], "trace=fast.trace");
    expect(&bench.lab(&["link", "wan", "trace=no.trace"]), 64, &["cannot read the trace no.trace"]);
    file("bad.trace", "2\n1\n");
    expect(
        &bench.lab(&["link", "wan", "trace=bad.trace"]),
        64,
        &["bad.trace: line 2: 1 ms is earlier"],
    );
    file("long.trace", &"1\n".repeat(600_000));
    expect(
        &bench.lab(&["link", "wan", "trace=long.trace"]),
        64,
        &["exceed the maximum of 1048576"],
    );
    expect(&bench.lab(&["down"]), 0, &[]);
}

#[test]
fn labs_are_told_apart_by_name() {
    let Some(bench) = bench("several labs") else { return };
    expect(&bench.lab(&["show"]), 64, &["no lab is up: start one with `fabricmark lab up FILE`"]);
    bench.up(TWO);
    expect(&bench.lab(&["up", "two.toml"]), 64, &["a lab `two` is already up", "--name"]);
    expect(&bench.lab(&["up", "two.toml", "--name", "other"]), 0, &[]);
    assert_eq!(stdout(&bench.lab(&["list"])), "other\ntwo\n");
    expect(
        &bench.lab(&["down"]),
        64,
        &["several labs are up (other, two): choose one with --lab NAME"],
    );
    expect(
        &bench.lab(&["down", "--lab", "third"]),
        64,
        &["no lab `third` is up; there are other, two"],
    );
    expect(&bench.lab(&["down", "--lab", "other"]), 0, &[]);
    expect(&bench.lab(&["down"]), 0, &[]);
    // `l` alone would be an argument of `ip link set`.
    bench.up(&TWO.replace("links.wan", "links.l"));
    expect(&bench.lab(&["down"]), 0, &[]);
    bench.topology(&TWO.replace("'server']", "'sever']"));
    expect(
        &bench.lab(&["up", "two.toml"]),
        64,
        &["two.toml: link `wan`: `sever` is not", "`server`?"],
    );
    assert!(bench.sockets().is_empty());
}

#[test]
fn a_hundred_labs_leave_no_namespace_device_process_or_file() {
    let Some(bench) = bench("a hundred labs") else { return };
    let devices = || fs::read_to_string("/proc/net/dev").unwrap().lines().count();
    let before = devices();
    for _ in 0..100 {
        bench.up(TWO);
        let holder = bench.holder();
        let resident = bench.resident("client");
        let network = fs::read_link(resident.network()).unwrap();
        let pid = resident.0.id();
        expect(&bench.lab(&["down"]), 0, &[]);
        wait_until(|| has_ended(holder) && has_ended(pid));
        assert!(!is_held(network.to_str().unwrap()));
        assert!(bench.sockets().is_empty());
    }
    assert_eq!(devices(), before);
}

#[test]
fn a_killed_holder_leaves_what_the_next_call_ends() {
    let Some(bench) = bench("a killed holder") else { return };
    bench.up(TWO);
    let (holder, resident) = (bench.holder(), bench.resident("client"));
    let network = fs::read_link(resident.network()).unwrap();
    signal(holder, "KILL");
    wait_until(|| has_ended(holder));
    assert_eq!(bench.sockets().len(), 1);
    assert_eq!(stdout(&bench.lab(&["list"])), "");
    wait_until(|| has_ended(resident.0.id()));
    assert!(!is_held(network.to_str().unwrap()));
    assert!(bench.sockets().is_empty());
    bench.up(TWO);
    expect(&bench.lab(&["down"]), 0, &[]);
}

/// After a kill, the kernel takes a moment to close the holder's socket, which accepts connections meanwhile.
#[test]
fn a_lab_is_up_again_at_once_when_its_holder_was_killed() {
    let Some(bench) = bench("holders killed in a row") else { return };
    for _ in 0..20 {
        bench.up(TWO);
        signal(bench.holder(), "KILL");
    }
    bench.up(TWO);
    expect(&bench.lab(&["down"]), 0, &[]);
    assert!(bench.sockets().is_empty());
}

#[test]
fn an_ordinary_user_has_labs_of_his_own() {
    let Some(bench) = bench("a lab of an ordinary user") else { return };
    if !users_may_have_namespaces("a lab of an ordinary user") {
        return;
    }
    bench.topology(TWO);
    let own = bench.folder.path().join("own");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(USER), Some(USER)).unwrap();
    let lab = |words: &[&str]| {
        let words: Vec<&str> = ["lab"].iter().chain(words).copied().collect();
        bench.as_user_with_tun("666", &words).env("XDG_RUNTIME_DIR", &own).output().unwrap()
    };
    expect(&lab(&["up", "two.toml"]), 0, &["is up"]);
    let output = lab(&["exec", "server", "--", "ip", "-br", "-6", "addr", "show", "wan"]);
    assert!(stdout(&output).contains("fd71::2/64"), "{} {}", stdout(&output), stderr(&output));
    expect(&lab(&["down"]), 0, &[]);
    assert_eq!(fs::read_dir(own.join("fabricmark")).unwrap().count(), 0);
}
