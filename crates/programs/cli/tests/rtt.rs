//! `fabricmark rtt` against a server of another vendor.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod schema;

use std::fs;
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fabricmark_testkit::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use schema::Published;

fn rtt(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
    command.arg("rtt").args(words).output().unwrap()
}

/// chronyd as a server without a reference at a port of loopback; killed on drop.
struct Chronyd(Child);

impl Chronyd {
    fn start(port: u16, pid_file: &str) -> Option<Self> {
        let server = [
            &format!("port {port}"),
            "local stratum 5",
            "allow 127.0.0.1",
            "cmdport 0",
            "bindaddress 127.0.0.1",
            &format!("pidfile {pid_file}"),
        ];
        let mut command = Command::new("chronyd");
        command.args(["-x", "-d", "-u", "root", "-f", "/dev/null"]).args(server);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok().map(Self)
    }
}

impl Drop for Chronyd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_ntp_server_of_another_vendor_answers_and_the_rtts_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(mut server) = Chronyd::start(port, &file("pid")) else {
        return skip("an NTP server", "chronyd is not installed");
    };
    let target = format!("127.0.0.1:{port}");
    let words = ["--protocol", "ntp", "--interval", "1ms", "--json"];
    // Until it listens, the port is closed.
    let began = Instant::now();
    while !rtt(&[&target, "--count", "1", "--protocol", "ntp"]).status.success() {
        assert!(began.elapsed() < Duration::from_secs(20), "chronyd does not answer");
        if let Some(status) = server.0.try_wait().unwrap() {
            return skip("an NTP server", &format!("chronyd ended with {status}"));
        }
    }
    let plot = file("rtt.svg");
    let output = rtt(&[&[&*target, "--count", "30", "--plot", &plot][..], &words].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    Published::named("rtt").holds(&found);
    assert_eq!((&found["sent"], &found["answered"]), (&30.into(), &30.into()));
    assert_eq!(found["best"]["stratum"], 5);
    // Both clocks are one: the offset is within its error.
    let number = |key: &str| found["best"][key].as_f64().unwrap();
    assert!(number("offset_ns").abs() <= number("offset_error_ns") + number("precision_ns"));
    assert_eq!(found["rtt"]["min_ns"], found["best"]["rtt_ns"]);
    let chart = fs::read_to_string(plot).unwrap();
    assert!(chart.contains("RTT (µs)") && chart.contains(&target), "{chart}");
}

#[test]
fn a_closed_port_and_options_of_other_protocols_are_refused() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let target = format!("127.0.0.1:{port}");
    for (words, code, part) in [
        (&["--protocol", "ntp"][..], 65, "nothing answers at UDP port"),
        (&["--protocol", "ntp", "--padding", "999"], 64, "--protocol ntp supports only"),
        (&["--protocol", "twamp-light", "--stamp-key", "k"], 64, "options of --protocol stamp"),
        (&["--protocol", "twamp-light", "--identifier", "7"], 64, "options of --protocol stamp"),
        (&["--protocol", "apdu", "--stamp-key", "k"], 64, "not options of --protocol apdu"),
        (&["--protocol", "apdu", "--device", "lo"], 64, "--device is supported only"),
    ] {
        let output = rtt(&[&[&*target][..], words].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_measurement_that_ctrl_c_ends_is_printed_and_has_its_exit_code() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricmark"));
    command.args(["rtt", &target, "-c", "100000", "-i", "1ms"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (0..20).for_each(|_| assert!(silent.recv(&mut [0; 100]).unwrap() > 0));
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (text, said) = (output.stdout, String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("the results so far are above"), "{said}");
    assert!(String::from_utf8(text).unwrap().starts_with("packets"));
}
