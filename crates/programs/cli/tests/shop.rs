//! The bookstore in a lab: a shop that people use, runs of emulated browsers, and servers that are killed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_lab::{Lab, Topology};
use fabricmark_plan::{Figure, Interaction};
use fabricmark_record::{Outcome, Provenance, Record, ShopRun};
use fabricmark_testkit::{playwright, skip};
use fabricmark_trust::Identity;
use fabricmark_wire::Family;
use rustix::process::{Pid, Signal, kill_process};

/// The program under test; `fabricmark-shop` is beside it.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fabricmark");

/// Programs of the tiers, with their packages.
const PROGRAMS: [(&str, &str); 4] = [
    ("nginx", "nginx"),
    ("mariadbd", "mariadb-server-core"),
    ("my_print_defaults", "mariadb-client-core"),
    ("unshare", "util-linux"),
];

/// One shop at a time: each has a database and its own load.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this machine has what a shop needs; if not, the test counts as skipped.
fn can_run(test: &str) -> bool {
    let shop = Path::new(PROGRAM).with_file_name("fabricmark-shop");
    assert!(shop.is_file(), "build it first: cargo build --package fabricmark-shop");
    if !rustix::process::geteuid().is_root() {
        skip(test, "a lab needs root");
        return false;
    }
    let is_missing = |(program, _): &&(&str, &str)| {
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        !folders.iter().any(|folder| Path::new(folder).join(program).is_file())
    };
    match PROGRAMS.iter().find(is_missing) {
        Some((program, package)) => {
            skip(test, &format!("there is no {program}: apt-get install {package}"));
            false
        }
        None => true,
    }
}

/// A shop that is up.
struct Up {
    child: Child,
    at: SocketAddr,
    /// Folder for its lock.
    place: tempfile::TempDir,
}

fn fabricmark(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("XDG_RUNTIME_DIR", place).current_dir(place);
    command
}

impl Up {
    /// Starts a shop and waits until it is served.
    fn start(options: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut arguments = vec!["shop", "up", "--items", "1000", "--browsers", "1"];
        arguments.extend(["--listen", "127.0.0.1:0"]);
        arguments.extend(options);
        let mut command = fabricmark(place.path(), &arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(at) = line.trim().strip_prefix("http://").and_then(|at| at.parse().ok()) else {
            let output = child.wait_with_output().unwrap();
            panic!("{line}{}", String::from_utf8_lossy(&output.stderr));
        };
        Self { child, at, place }
    }

    /// A page, with its header.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.at).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        fabricmark(self.place.path(), arguments).output().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes of servers whose command line or working folder is one of a shop, and folders of shops.
fn left() -> Vec<String> {
    let of_shop = |process: &fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains("/var/tmp/fabricmark-shop-").then_some(line)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| of_shop(&entry));
    let folders = fs::read_dir("/var/tmp").unwrap().flatten();
    let folders = folders.map(|entry| entry.path().display().to_string());
    processes.chain(folders.filter(|path| path.contains("fabricmark-shop-"))).collect()
}

/// Waits until nothing is left of a shop.
fn await_nothing() {
    let until = Instant::now() + Duration::from_secs(30);
    while !left().is_empty() {
        assert!(Instant::now() < until, "{:?}", left());
        thread::yield_now();
    }
}

#[test]
fn a_shop_serves_pages_and_images_until_down_and_leaves_nothing() {
    let test = "a_shop_serves_pages_and_images_until_down_and_leaves_nothing";
    if !can_run(test) {
        return;
    }
    let _alone = alone();
    let mut up = Up::start(&["--segment", "app-db=ipoib:4X-DDR", "--segment", "web-app=veth"]);
    let home = up.get("/");
    assert!(home.starts_with("HTTP/1.1 200") && home.contains("Harbour Books"), "{home}");
    // Book 7 has the cover of number 7.
    let cover = up.get("/image/7/cover.png");
    assert!(cover.contains("Content-Type: image/png") && cover.contains("PNG"), "no cover");
    assert!(up.get("/image/7/back.png").starts_with("HTTP/1.1 404"));
    let again = up.run(&["shop", "up"]);
    assert_eq!(again.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&again.stderr).contains("fabricmark shop down"));
    let down = up.run(&["shop", "down"]);
    assert_eq!(down.status.code(), Some(0), "{}", String::from_utf8_lossy(&down.stderr));
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
    assert_eq!(left(), Vec::<String>::new());
    let none = up.run(&["shop", "down"]);
    assert_eq!(none.status.code(), Some(64));
}

#[test]
fn a_shop_that_is_killed_leaves_nothing() {
    if !can_run("a_shop_that_is_killed_leaves_nothing") {
        return;
    }
    let _alone = alone();
    let mut up = Up::start(&[]);
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    await_nothing();
}

/// Runs browsers for a few seconds; `beside` runs at the same time, until the load ends. Returns the records.
fn load(options: &[&str], beside: impl Fn(&mut Child)) -> Vec<Record> {
    let place = tempfile::tempdir().unwrap();
    let mut arguments = vec!["shop", "load", "--items", "1000", "--browsers", "20"];
    arguments.extend(["--think-time", "100ms", "--warm-up", "2s", "--mix", "ordering"]);
    arguments.extend(options);
    let mut command = fabricmark(place.path(), &arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    beside(&mut child);
    let output = child.wait_with_output().unwrap();
    let export = fabricmark(place.path(), &["export", "--format", "json"]).output().unwrap();
    let lines = String::from_utf8_lossy(&export.stdout).into_owned();
    let records: Vec<Record> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!records.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left(), Vec::<String>::new());
    records
}

/// The runs of the shop, one for each step.
fn runs(records: &[Record]) -> Vec<(&Outcome, &ShopRun)> {
    let of_all = records.iter().filter(|one| one.point.interaction == Some(Interaction::All));
    of_all.filter_map(|record| Some((&record.outcome, record.shop.as_ref()?))).collect()
}

#[test]
fn browsers_buy_over_any_segment_and_every_order_is_kept() {
    if !can_run("browsers_buy_over_any_segment_and_every_order_is_kept") {
        return;
    }
    let _alone = alone();
    let vs = ["--vs", "app_db=ethernet:1G", "--vs", "app_db=ipoib:4X-DDR"];
    let records = load(&[&vs[..], &["--duration", "4s", "--runs", "2"]].concat(), |_| ());
    let runs = runs(&records);
    assert_eq!(runs.len(), 4);
    for (outcome, run) in runs {
        assert_eq!(outcome, &Outcome::Completed);
        assert!(run.load.confirmed > 10 && run.audit.inconsistencies.is_empty(), "{run:?}");
        let nodes: Vec<&str> = run.tiers.iter().map(|tier| tier.node.as_str()).collect();
        assert_eq!(nodes, ["client", "web", "app", "db", "links"]);
        assert!(run.tiers.iter().all(|tier| tier.counters.cpu_ns > 0), "{:?}", run.tiers);
        // The web server sends what the browsers receive.
        let bytes = |node: usize| run.tiers[node].counters;
        assert!(bytes(1).sent_bytes >= bytes(0).received_bytes / 2, "{:?}", run.tiers);
    }
    let home = records.iter().find(|one| one.point.interaction == Some(Interaction::Home)).unwrap();
    let time_ns = |figure| home.figures.value(figure).unwrap();
    assert!(
        time_ns(Figure::DatabaseTime) + time_ns(Figure::AppTime) < time_ns(Figure::ResponseTime)
    );
}

/// A coordinator `desk` and two hosts on a switch.
const HOSTS: &str = "[hosts.desk]\n[hosts.one]\n[hosts.two]\n[switches.middle]\n\
    [links.a]\nbetween = ['desk', 'middle']\n[links.b]\nbetween = ['one', 'middle']\n\
    [links.c]\nbetween = ['two', 'middle']\n";

/// Hosts with a key that they share.
struct Hosts {
    lab: Lab,
    place: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        let lab = Lab::build(Topology::parse(HOSTS).unwrap(), 1, None).unwrap();
        let place = tempfile::tempdir().unwrap();
        Identity::generate().unwrap().save_new(&place.path().join("key.pem")).unwrap();
        Self { lab, place }
    }

    /// The program on a host.
    fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = fabricmark(self.place.path(), arguments);
        command.env("FABRICMARK_KEY_FILE", self.place.path().join("key.pem"));
        self.lab.namespace(host).unwrap().enter(&mut command);
        command
    }

    fn address(&self, link: &str) -> String {
        let topology = self.lab.topology();
        let place = topology.links.iter().position(|one| one.name == link).unwrap();
        topology.address(place, 0, Family::V4).to_string()
    }

    /// An agent, which is killed in the end.
    fn agent(&self, host: &str, options: &[&str]) -> Killed {
        let mut command = self.command(host, &[&["agent"], options].concat());
        let mut child = Killed(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening at "), "{line}");
        child
    }
}

/// A process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn tiers_run_on_hosts_whose_owners_allow_it() {
    if !can_run("tiers_run_on_hosts_whose_owners_allow_it") {
        return;
    }
    let _alone = alone();
    let hosts = Hosts::new();
    let _one = hosts.agent("one", &["--allow-shop"]);
    let [one, two] = ["b", "c"].map(|link| hosts.address(link));
    let to = [format!("web={one}"), format!("app={one}"), format!("db={two}")];
    let to: Vec<&str> = to.iter().flat_map(|to| ["--to", to]).collect();
    let size = ["--items", "1000", "--browsers", "20"];
    let arguments = [&["shop", "load"], &size[..], &to, &["--think-time", "100ms"]].concat();
    let times = ["--warm-up", "2s", "--duration", "4s", "--runs", "2"];
    let load = [&arguments[..], &times].concat();
    let run = || hosts.command("desk", &load).output().unwrap();

    let strict = hosts.agent("two", &[]);
    let refused = run();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(66), "{error}");
    assert!(error.contains(&format!("tier db at {two}")), "{error}");
    assert!(error.contains("start it with --allow-shop"), "{error}");
    drop(strict);

    let two = hosts.agent("two", &["--allow-shop"]);
    let output = run();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    await_nothing();
    let export = hosts.command("desk", &["export", "--format", "json"]).output().unwrap();
    let records: Vec<Record> = String::from_utf8_lossy(&export.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let runs = runs(&records);
    assert_eq!(runs.len(), 2);
    for (outcome, run) in runs {
        assert_eq!(outcome, &Outcome::Completed);
        assert!(run.load.confirmed > 0 && run.audit.inconsistencies.is_empty(), "{run:?}");
        let nodes: Vec<&str> = run.tiers.iter().map(|tier| tier.node.as_str()).collect();
        assert_eq!(nodes, ["client", "web", "app", "db"]);
        // Every tier is on the wire: the bytes of `one` are those of two tiers.
        let bytes = |node: usize| run.tiers[node].counters;
        assert!(bytes(1).sent_bytes >= bytes(0).received_bytes / 2, "{:?}", run.tiers);
        assert!(bytes(3).sent_bytes > 100_000, "{:?}", run.tiers);
    }
    let figure = records.iter().find_map(|one| one.figures.get(Figure::InteractionRate)).unwrap();
    assert_eq!(figure.provenance, Provenance::Measured);

    // A host that is lost ends the plan, and a coordinator that is killed leaves nothing at the others.
    let mut command = hosts.command("desk", &[&arguments[..], &["--duration", "60s"]].concat());
    let mut coordinator = Killed(command.stderr(Stdio::piped()).spawn().unwrap());
    await_servers(&["mariadbd", "nginx"]);
    drop(two);
    let mut error = String::new();
    coordinator.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(coordinator.0.wait().unwrap().code(), Some(65), "{error}");
    assert!(error.contains("closed the connection") || error.contains("failed"), "{error}");
    await_nothing();
    let _two = hosts.agent("two", &["--allow-shop"]);
    let coordinator = Killed(command.spawn().unwrap());
    await_servers(&["mariadbd", "nginx"]);
    drop(coordinator);
    await_nothing();
}

/// Waits until these servers of a shop run.
fn await_servers(names: &[&str]) {
    let until = Instant::now() + Duration::from_secs(60);
    while names.iter().any(|name| servers(name).is_empty()) {
        assert!(Instant::now() < until, "no servers");
        thread::yield_now();
    }
}

/// Process ids of a server of a shop.
fn servers(name: &str) -> Vec<Pid> {
    let is_it = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        comm.trim() == name
            && (line.contains("/var/tmp/fabricmark-shop-") || line.starts_with("nginx: worker"))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(is_it);
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw).collect()
}

#[test]
fn orders_survive_a_killed_application_server_web_server_and_database() {
    let test = "orders_survive_a_killed_application_server_web_server_and_database";
    if !can_run(test) {
        return;
    }
    let _alone = alone();
    let kill_each = |load: &mut Child| {
        for server in ["fabricmark-shop", "nginx", "mariadbd"] {
            // Browsers begin when there is an application server.
            let is_ready = || !servers("fabricmark-shop").is_empty() && !servers(server).is_empty();
            let mut since = Instant::now();
            while since.elapsed() < Duration::from_secs(2) {
                assert!(load.try_wait().unwrap().is_none(), "the load has ended");
                thread::sleep(Duration::from_millis(20));
                if !is_ready() {
                    since = Instant::now();
                }
            }
            servers(server).into_iter().for_each(|id| {
                let _ = kill_process(id, Signal::KILL);
            });
        }
    };
    let records = load(&["--duration", "6s", "--runs", "2"], kill_each);
    let runs = runs(&records);
    let restarts = |run: &ShopRun| run.tiers.iter().map(|tier| tier.counters.restarts).sum::<u32>();
    assert!(runs.iter().any(|(_, run)| restarts(run) > 0), "nothing was killed in a run");
    for (outcome, run) in runs {
        // No order is lost or doubled, and the run does not count.
        assert_eq!(run.audit.inconsistencies, Vec::<String>::new());
        assert!(run.load.confirmed > 0, "{:?}", run.load);
        match outcome {
            Outcome::Invalid(reason) => {
                assert!(reason.contains("was started again"), "{reason}");
            }
            outcome => assert_eq!((outcome, restarts(run)), (&Outcome::Completed, 0)),
        }
    }
}

#[test]
fn an_open_loop_offers_its_rate() {
    if !can_run("an_open_loop_offers_its_rate") {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let options = ["--items", "1000", "--browsers", "50", "--arrivals", "100", "--runs", "2"];
    let times = ["--warm-up", "1s", "--duration", "4s", "--json"];
    let arguments = [&["shop", "load"], &options[..], &times[..]].concat();
    let output = fabricmark(place.path(), &arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = summary["shop"][0]["interactions_per_s"]["value"].as_f64().unwrap();
    // Five standard errors of the 800 arrivals of two windows.
    assert!((rate - 100.0).abs() < 5.0 * 100.0 / 800_f64.sqrt(), "{rate}");
    assert_eq!(summary["shop"][0]["model"], serde_json::Value::Null);
}

#[test]
fn what_is_missing_for_a_shop_is_named_with_its_packages() {
    if !can_run("what_is_missing_for_a_shop_is_named_with_its_packages") {
        return;
    }
    let _alone = alone();
    // A PATH without them, and without the folders in which they are looked for besides.
    let place = tempfile::tempdir().unwrap();
    let bin = place.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["ip", "tc"] {
        let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .map(|folder| PathBuf::from(folder).join(program));
        let found = found.iter().find(|path| path.is_file()).unwrap();
        std::os::unix::fs::symlink(found, bin.join(program)).unwrap();
    }
    let hidden = "mount -t tmpfs none /usr/sbin && mount --bind /usr/sbin /usr/lib/postgresql 2>/dev/null; \
                  exec \"$0\" shop up --db postgresql --items 100 --browsers 1";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", hidden, PROGRAM])
        .env("XDG_RUNTIME_DIR", place.path())
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(66), "{error}");
    assert!(error.contains("missing") && error.contains("apt-get install"), "{error}");
}

#[test]
fn a_person_buys_a_book_in_a_browser() {
    let test = "a_person_buys_a_book_in_a_browser";
    if !can_run(test) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shop/buy.mjs");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playwright");
    let Some(mut browser) = playwright(test, &script, &folder) else { return };
    let _alone = alone();
    let up = Up::start(&[]);
    let output = browser.arg(format!("http://{}", up.at)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("bought at 1280 px") && said.contains("bought at 400 px"), "{said}");
}
