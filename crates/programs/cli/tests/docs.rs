//! Runs the commands of each `console` block of the documents on four hosts, each document in a folder of its own with
//! the shipped plans. A block marked `sh` says why it is not run; its command lines are parsed by the tests of their
//! programs (`src/documents.rs`).
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use fabricmark_lab::Namespace;
use fabricmark_testkit::documents::{self, ROOT, documents, simple_commands};
use fabricmark_testkit::skip;
use fabricmark_trust::Identity;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Hosts of the documents, at 192.0.2.1 to 192.0.2.4. A command without a host runs on the first one.
const HOSTS: [&str; 4] = ["desk", "node1", "node2", "node3"];

/// Options that make a command short, after its first words, unless it has one of them.
const SHORTER: [(&str, &str); 11] = [
    // One block of these takes minutes.
    ("fabricmark papers run P2-shop", "--check"),
    ("fabricmark papers run P3", "--check"),
    ("fabricmark measure stream loopback --transport udp", "--runs 4"),
    ("fabricmark measure", "--duration 200ms"),
    ("fabricmark run plans/p1-ipoib.toml", "--check"),
    // The first block of a plan is always completed.
    ("fabricmark run", "--budget 0s"),
    ("fabricmark papers run", "--budget 0s"),
    ("fabricmark lab simulate rtt=400ms", "--duration 2s"),
    ("fabricmark shop up", "--items 1000 --browsers 1"),
    (
        "fabricmark shop load",
        "--items 1000 --browsers 5 --think-time 100ms --warm-up 1s --duration 1s --runs 2",
    ),
    ("iperf3 --client node2", "--time 1"),
];

/// Commands that run until they are stopped, and what they print when they are ready.
const SERVERS: [(&str, &str); 8] = [
    ("fabricmark agent", "listening at "),
    ("fabricmark pair", "fabricmark pair "),
    ("fabricmark relay", "relaying "),
    ("fabricmark shop up", "http://"),
    ("fabricmark-shop database", "mariadb://"),
    ("fabricmark-shop serve", "http://"),
    ("fabricmark-shop web", "http://"),
    ("iperf3 --server", "listening on "),
];

/// The code of a pairing in the documents, which stands for the one that the other host prints.
const CODE: &str = "K7QM-2XVD";

/// Words of a command line, and the programs that they need.
const NEEDS: [(&str, &[&str]); 5] = [
    ("jq", &["jq"]),
    ("openssl", &["openssl"]),
    ("iperf3", &["iperf3"]),
    ("shop", &["nginx", "mariadbd"]),
    ("fabricmark-shop", &["nginx", "mariadbd"]),
];

/// What a command sees of its host: names of other hosts, and no state of this machine.
const ENTER: &str = "mount --bind hosts /etc/hosts && mount --bind run /run && exec \"$@\"";

/// A copy between the homes of two hosts.
const SCP: &str = "#!/bin/sh\ncp \"homes/${1%%:*}/${1#*:}\" \"$2\"\n";

/// Four hosts on a switch.
struct Network {
    hosts: Vec<Namespace>,
    _switch: Namespace,
}

impl Network {
    fn new() -> Self {
        let switch = Namespace::new().unwrap();
        let path = |namespace: &Namespace| {
            format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd())
        };
        let inside = |namespace: &Namespace, line: &str| {
            let mut words = line.split(' ');
            let mut command = Command::new(words.next().unwrap());
            namespace.enter(command.args(words));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{line}: {}", said(&output.stderr));
        };
        inside(&switch, "ip link add name switch up type bridge");
        let host = |(number, name): (usize, &&str)| {
            let host = Namespace::new().unwrap();
            let number = number + 1;
            inside(&host, "ip link set lo up");
            inside(
                &host,
                &format!("ip link add eth0 type veth peer name {name} netns {}", path(&switch)),
            );
            inside(&host, &format!("ip address add 192.0.2.{number}/24 dev eth0"));
            inside(&host, &format!("ip address add 2001:db8::{number}/64 dev eth0 nodad"));
            inside(&switch, &format!("ip link set {name} up master switch"));
            inside(&host, "ip link set eth0 up");
            // Slower than the links that the documents name, so that nothing exceeds their ceilings.
            inside(&host, "tc qdisc add dev eth0 root tbf rate 90mbit burst 16kb latency 50ms");
            host
        };
        let hosts: Vec<Namespace> = HOSTS.iter().enumerate().map(host).collect();
        // A second port, as one that is not Ethernet.
        inside(&hosts[2], "ip link add ib0 type veth peer name ib1");
        Self { hosts, _switch: switch }
    }
}

/// A server that a document has started; killed on drop.
struct Server {
    /// Its host and program.
    name: String,
    child: Child,
    output: Option<JoinHandle<String>>,
}

impl Server {
    /// Stops it; it has to end well if it is one of this repository.
    fn stop(mut self, place: &str) {
        let name = self.name.clone();
        // A pairing ends by itself.
        if !name.contains("fabricmark pair") {
            kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        }
        let status = self.child.wait().unwrap();
        let output = self.output.take().map(|output| output.join().unwrap()).unwrap_or_default();
        let is_ours = name.contains("fabricmark");
        assert!(status.success() || !is_ours, "{place}: {name}: {status}: {output}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The hosts while the commands of one document run on them.
struct Session<'a> {
    network: &'a Network,
    folder: TempDir,
    servers: Vec<Server>,
    code: String,
}

impl<'a> Session<'a> {
    fn new(network: &'a Network, text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let here = folder.path();
        // Servers of the shop run as user nobody.
        fs::set_permissions(here, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(fs::canonicalize(Path::new(ROOT).join("plans")).unwrap(), here.join("plans"))
            .unwrap();
        let names =
            HOSTS.iter().zip(1..).map(|(name, number)| format!("192.0.2.{number} {name}\n"));
        let names = names.collect::<String>();
        let names = format!("127.0.0.1 localhost\n{names}192.0.2.3 node2-ib\n");
        fs::write(here.join("hosts"), names).unwrap();
        ["run", "bin"].into_iter().for_each(|name| fs::create_dir(here.join(name)).unwrap());
        let scp = here.join("bin/scp");
        fs::write(&scp, SCP).unwrap();
        fs::set_permissions(&scp, fs::Permissions::from_mode(0o755)).unwrap();
        // Hosts share a key, unless the document shows how they get one.
        let makes_keys = text.contains("--new-key") || text.contains(CODE);
        let key = here.join("key.pem");
        Identity::generate().unwrap().save_new(&key).unwrap();
        for host in HOSTS {
            let home = here.join("homes").join(host);
            fs::create_dir_all(&home).unwrap();
            if !makes_keys {
                fs::create_dir_all(home.join(".config/fabricmark")).unwrap();
                fs::copy(&key, home.join(".config/fabricmark/key.pem")).unwrap();
            }
        }
        Self { network, folder, servers: Vec::new(), code: CODE.to_owned() }
    }

    /// A command in the shell of a host.
    fn shell(&self, host: &str, by: &[&str], text: &str) -> Command {
        let host = if host.is_empty() { HOSTS[0] } else { host };
        let number = HOSTS.iter().position(|one| *one == host).unwrap();
        let here = self.folder.path();
        let program = Path::new(env!("CARGO_BIN_EXE_fabricmark")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{path}", here.join("bin").display(), program.display());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER, "sh"]).args(by).args(["sh", "-c", text]);
        command
            .current_dir(here)
            .env("PATH", path)
            .env("HOME", here.join("homes").join(HOSTS[number]));
        for folder in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(folder);
        }
        command.env_remove("FABRICMARK_KEY_FILE");
        self.network.hosts[number].enter(&mut command);
        command
    }

    fn run(&mut self, place: &str, command: &documents::Command) {
        let text = shortened(&command.text).replace(CODE, &self.code);
        let last =
            simple_commands(&text).and_then(|mut all| all.pop()).unwrap_or_default().join(" ");
        let is_server = |(words, _): &&(&str, &str)| {
            let rest = last.strip_prefix(words);
            let is_it = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" --"));
            is_it && !has(&last, "new-key")
        };
        if let Some((words, ready)) = SERVERS.iter().find(is_server) {
            let (before, after) = text.rsplit_once(words).unwrap_or_default();
            let name = format!("{}$ {words}", command.host);
            let text = format!("exec 2>&1; {before}exec {words}{after}");
            return self.start(place, &command.host, name, &text, ready);
        }
        let output = self.shell(&command.host, &["timeout", "120"], &text).output().unwrap();
        // `compare` exits with 1 or 2 according to its result.
        let answers = if text.contains(" compare ") { 0..=2 } else { 0..=0 };
        let code = output.status.code().unwrap_or(-1);
        let error = said(&output.stderr);
        // One block of a plan may lack CPU time on a busy machine.
        if code == 67
            && error.contains("no valid run")
            && error.contains("the emulator")
            && error.contains("waited for a CPU")
        {
            return skip(
                "every_command_that_a_document_shows_succeeds",
                &format!("{place}: no CPU for the emulator"),
            );
        }
        assert!(answers.contains(&code), "{place}: {text}: exit code {code}: {error}");
    }

    /// Starts a server, in place of the same one of that host, and waits until it is ready.
    fn start(&mut self, place: &str, host: &str, name: String, text: &str, ready: &str) {
        if let Some(at) = self.servers.iter().position(|one| one.name == name) {
            self.servers.remove(at).stop(place);
        }
        // Programs in C keep lines back that they write to a pipe.
        let mut command = self.shell(host, &["stdbuf", "--output=L"], text);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (mut line, mut before) = (String::new(), String::new());
        while !line.to_lowercase().contains(ready) {
            before += &line;
            line.clear();
            let length = lines.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "{place}: {text}: it ended: {before}");
        }
        if ready == "fabricmark pair " {
            self.code = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        }
        let output = thread::spawn(move || {
            let mut rest = before;
            lines.read_to_string(&mut rest).unwrap();
            rest
        });
        self.servers.push(Server { name, child, output: Some(output) });
    }
}

/// A command with options that make it short.
fn shortened(text: &str) -> String {
    let is_meant = |(words, options): &&(&str, &str)| {
        text.contains(words) && !documents::options(options).any(|name| has(text, name))
    };
    match SHORTER.iter().find(is_meant) {
        Some((words, options)) => text.replacen(words, &format!("{words} {options}"), 1),
        None => text.to_owned(),
    }
}

fn has(text: &str, option: &str) -> bool {
    documents::options(text).any(|one| one == option)
}

/// A program that a command needs, and that is not installed.
fn missing(text: &str) -> Option<&'static str> {
    let words: Vec<String> = simple_commands(text)?.concat();
    let is_there = |program: &&&str| {
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).is_file())
    };
    let needs = NEEDS.iter().filter(|(word, _)| words.iter().any(|one| one == word));
    needs.flat_map(|(_, programs)| *programs).find(|program| !is_there(program)).copied()
}

#[test]
fn every_command_that_a_document_shows_succeeds() {
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("commands of documents", "network namespaces need root");
        return;
    }
    let network = Network::new();
    let mut count = 0;
    for document in documents() {
        let mut session = Session::new(&network, &document.text);
        for block in document.blocks().iter().filter(|block| block.info == "console") {
            for command in block.commands() {
                let (place, text) = (&block.place, &command.text);
                match missing(text) {
                    Some(program) => {
                        skip(&format!("{place}: {text}"), &format!("there is no {program}"));
                    }
                    None => session.run(place, &command),
                }
                count += 1;
            }
        }
        while let Some(server) = session.servers.pop() {
            server.stop(&document.name);
        }
    }
    assert!(count > 100, "only {count} commands were found");
}

#[test]
fn every_block_of_shell_commands_is_run_or_says_why_not() {
    for document in documents() {
        for block in document.blocks() {
            let (language, reason) = block.info.split_once(' ').unwrap_or((block.info, ""));
            match language {
                "console" => {
                    assert!(reason.is_empty() && !block.commands().is_empty(), "{}", block.place);
                }
                "sh" => assert!(reason.starts_with("not run: "), "{}: say why", block.place),
                _ => assert!(["text", "toml"].contains(&language), "{}: {language}", block.place),
            }
        }
    }
}

#[test]
fn every_target_of_make_that_a_document_names_exists() {
    for line in documents::invocations("make").into_iter().filter(|line| line.is_whole) {
        // Another folder is that of another program.
        let words = &line.words[1..];
        if !words.iter().any(|word| word == "-C") {
            let mut make = Command::new("make");
            let output = make.arg("--dry-run").args(words).current_dir(ROOT).output().unwrap();
            assert!(output.status.success(), "{}: {}", line.place, said(&output.stderr));
        }
    }
}
