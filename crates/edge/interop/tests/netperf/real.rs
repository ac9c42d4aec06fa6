//! The real netperf, if it is in PATH.

use std::process::{Command, Output};
use std::thread;

use fabricmark_interop::Guard;

use crate::client::Port;
pub use fabricmark_testkit::skip;

fn has_netperf(test: &str) -> bool {
    let is_there = Command::new("netperf").arg("-V").output().is_ok();
    if !is_there {
        skip(test, "no netperf on PATH");
    }
    is_there
}

fn netperf(port: &Port, arguments: &str) -> Output {
    let (host, number) = (port.address.ip().to_string(), port.address.port().to_string());
    Command::new("netperf")
        .args(["-H", &host, "-p", &number, "-P", "0"])
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

/// The value of `NAME=value` in netperf's output.
fn value(printed: &str, name: &str) -> Option<f64> {
    printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// Runs netperf with each of the arguments, all at once. Each must print a throughput, and the expected text.
fn runs(test: &str, addresses: &[&str], arguments: &[(&str, &str)]) {
    if !has_netperf(test) {
        return;
    }
    for address in addresses {
        let port = Port::open(address, Guard::default());
        thread::scope(|scope| {
            for (arguments, expected) in arguments {
                let port = &port;
                scope.spawn(move || {
                    let output = netperf(port, arguments);
                    let printed = String::from_utf8_lossy(&output.stdout);
                    let complaint = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{arguments}: {printed}{complaint}");
                    assert!(value(&printed, "THROUGHPUT") > Some(0.0), "{arguments}: {printed}");
                    assert!(printed.contains(expected), "{arguments}: {printed}");
                });
            }
        });
    }
}

#[test]
fn the_real_netperf_runs_its_six_tests() {
    runs(
        "the_real_netperf_runs_its_six_tests",
        &["127.0.0.1", "::1"],
        &[
            ("-t TCP_STREAM -l 1 -- -k THROUGHPUT,REMOTE_BYTES_RECVD", "REMOTE_BYTES_RECVD="),
            ("-t TCP_MAERTS -l 1 -- -k THROUGHPUT,REMOTE_BYTES_SENT", "REMOTE_BYTES_SENT="),
            ("-t UDP_STREAM -l 1 -- -m 1024 -k THROUGHPUT,REMOTE_RECV_CALLS", "REMOTE_RECV_CALLS="),
            ("-t TCP_RR -l 1 -- -r 100,200 -k THROUGHPUT,THROUGHPUT_UNITS", "UNITS=Trans/s"),
            ("-t UDP_RR -l 1 -- -k THROUGHPUT,THROUGHPUT_UNITS", "UNITS=Trans/s"),
            ("-t TCP_CRR -l 1 -- -k THROUGHPUT,THROUGHPUT_UNITS", "UNITS=Trans/s"),
        ],
    );
}

#[test]
fn the_real_netperf_runs_with_options_of_flent_and_others() {
    runs(
        "the_real_netperf_runs_with_options_of_flent_and_others",
        &["127.0.0.1"],
        &[
            (
                "-D -0.2 -f m -l 1 -Y 0x20,0x20 -t TCP_STREAM -- -K cubic,reno \
                 -k THROUGHPUT,REMOTE_CONG_CONTROL,REMOTE_SOCKET_TOS",
                "REMOTE_CONG_CONTROL=reno\nREMOTE_SOCKET_TOS=0x20",
            ),
            ("-D -0.2 -l 1 -t UDP_RR -- -e 5 -k THROUGHPUT", ""),
            ("-j -l 1 -t TCP_RR -- -k THROUGHPUT,P99_LATENCY", "P99_LATENCY="),
            ("-c -C -l 1 -t TCP_STREAM -- -k THROUGHPUT,REMOTE_CPU_UTIL", "REMOTE_CPU_UTIL=-1"),
            ("-t TCP_RR -l -100 -i 3,3 -- -k THROUGHPUT,REMOTE_RECV_CALLS", "RECV_CALLS=100"),
            ("-t TCP_STREAM -l -1000000 -- -k THROUGHPUT,REMOTE_BYTES_RECVD", "RECVD=1015808"),
            ("-t TCP_MAERTS -l -1000000 -- -k THROUGHPUT,REMOTE_BYTES_SENT", "SENT=1015808"),
            ("-t omni -l 1 -- -d maerts -T UDP -M 1000 -k THROUGHPUT", ""),
            ("-t TCP_STREAM -l 1 -- -H 127.0.0.1 -s 65536 -S 65536 -k THROUGHPUT", ""),
        ],
    );
}

#[test]
fn the_real_netperf_is_told_which_of_its_tests_are_refused() {
    if !has_netperf("the_real_netperf_is_told_which_of_its_tests_are_refused") {
        return;
    }
    // TCP_SENDFILE refuses a file that is smaller than its ring of buffers.
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8 << 20).unwrap();
    let port = Port::open("127.0.0.1", Guard::default());
    for test in ["TCP_CC", "TCP_SENDFILE"] {
        let output = netperf(&port, &format!("-t {test} -l 1 -F {}", file.path().display()));
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(!output.status.success() && told.contains("remote error 95"), "{test}: {told}");
    }
}
