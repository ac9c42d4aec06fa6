//! The commands of docs/shop.md, with free ports.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A command that runs until it is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Not SIGKILL, which would leave a database behind.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_commands_of_the_page_load_serve_browse_and_audit_a_shop() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/shop.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, page) = page.split_once("## One tier at a time").unwrap();
    let ports = [(); 3].map(|()| fabricmark_testkit::free_port());
    let page = page.replace("13306", &ports[0].to_string()).replace("8080", &ports[1].to_string());
    let page = page.replace("8081", &ports[2].to_string());
    let page = page.replace("--measure 10s", "--measure 2s");
    let commands: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("fabricmark-shop ")).collect();
    let [database, load, serve, web, browse, audit] = commands[..] else { panic!("{commands:?}") };
    let folder = tempfile::tempdir().unwrap();
    // As root, the database runs as user nobody.
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let command = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark-shop"));
        command.args(arguments.split(' ')).current_dir(folder.path());
        command
    };
    let succeeds = |arguments: &str| {
        let output: Output = command(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{arguments}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    let mut started =
        command(database).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(started.stdout.take().unwrap()).read_line(&mut address).unwrap();
    if address.is_empty() {
        let output = started.wait_with_output().unwrap();
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(66) && reason.contains("apt-get install"), "{reason}");
        fabricmark_testkit::skip("the commands of docs/shop.md", reason.trim());
        return;
    }
    let _database = Running(started);
    assert_eq!(address, format!("mariadb://shop:shop@127.0.0.1:{}/shop\n", ports[0]));
    succeeds(load);
    let again = command(load).output().unwrap();
    assert_eq!(again.status.code(), Some(67), "{}", String::from_utf8_lossy(&again.stderr));
    let _served = Running(command(serve).spawn().unwrap());
    let _web = Running(command(web).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(10);
    for port in &ports[1..] {
        while TcpStream::connect(("127.0.0.1", *port)).is_err() {
            assert!(Instant::now() < until, "the shop does not listen");
            thread::yield_now();
        }
    }
    let table = succeeds(browse);
    assert!(table.contains("0 errors") && table.contains("Product Detail"), "{table}");
    let orders = succeeds(audit);
    assert!(orders.ends_with("confirmed orders\n") && !orders.starts_with("0 "), "{orders}");
}
