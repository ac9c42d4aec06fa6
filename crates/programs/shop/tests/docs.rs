//! The commands of docs/shop.md, with free ports, and what they print.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use fabricmark_testkit::documents::invocations;

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
    let ports = [(); 3].map(|()| fabricmark_testkit::free_port());
    let of_documents = ["13306", "8080", "8081"];
    let with_free_ports = |text: String| {
        let pairs = of_documents.iter().zip(ports);
        pairs.fold(text, |text, (old, new)| text.replace(old, &new.to_string()))
    };
    let lines = invocations("fabricmark-shop").into_iter().filter(|line| line.is_whole);
    let commands: Vec<String> =
        lines.map(|line| with_free_ports(line.words[1..].join(" "))).collect();
    let [database, load, serve, web, browse, audit] = &commands[..] else { panic!("{commands:?}") };
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
    let serves = |arguments: &str, port: u16| {
        let mut child = command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert_eq!(address, format!("http://127.0.0.1:{port}\n"));
        Running(child)
    };
    let _served = serves(serve, ports[1]);
    let _web = serves(web, ports[2]);
    let table = succeeds(browse);
    assert!(table.contains("0 errors") && table.contains("Product Detail"), "{table}");
    let orders = succeeds(audit);
    assert!(orders.ends_with("confirmed orders\n") && !orders.starts_with("0 "), "{orders}");
}
