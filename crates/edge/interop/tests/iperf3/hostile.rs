//! Clients that violate the protocol, vanish, or ask for too much.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fabricmark_interop::Guard;
use fabricmark_units::{BitRate, Nanos};

use super::support::{Ours, V4, has, may_unshare};

/// A control connection whose cookie has been sent.
fn named(ours: &Ours, letter: u8) -> TcpStream {
    let mut stream = TcpStream::connect(ours.at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut cookie = [letter; 37];
    cookie[36] = 0;
    stream.write_all(&cookie).unwrap();
    stream
}

/// Reads until the server closes.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

fn heard(stream: &mut TcpStream) -> u8 {
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    byte[0]
}

fn say_block(stream: &mut TcpStream, json: &str) {
    stream.write_all(&(json.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(json.as_bytes()).unwrap();
}

#[test]
fn beyond_the_most_clients_the_next_is_denied_and_a_vanished_one_makes_room() {
    let guard = Guard { clients_max: 1, ..Guard::default() };
    let ours = Ours::new(V4, guard, None);
    let mut first = named(&ours, b'a');
    assert_eq!(heard(&mut first), 9);
    assert_eq!(rest(named(&ours, b'b')), [0xff]);
    drop(first);
    assert!(makes_room(&ours));
}

#[test]
fn a_stream_that_nobody_awaits_is_denied() {
    let ours = Ours::new(V4, Guard::default(), None);
    let mut control = named(&ours, b'a');
    assert_eq!(heard(&mut control), 9);
    assert_eq!(rest(named(&ours, b'a')), [0xff], "its parameters have not come");
    say_block(&mut control, r#"{"tcp":true,"time":1}"#);
    assert_eq!(heard(&mut control), 10);
    let _stream = named(&ours, b'a');
    assert_eq!((heard(&mut control), heard(&mut control)), (1, 2));
    assert_eq!(rest(named(&ours, b'a')), [0xff], "it has all its streams");
}

#[test]
fn another_cookie_opens_a_test_of_its_own() {
    let ours = Ours::new(V4, Guard::default(), None);
    let mut control = named(&ours, b'a');
    say_block(&mut control, r#"{"tcp":true,"time":1}"#);
    assert_eq!((heard(&mut control), heard(&mut control)), (9, 10));
    let mut other = named(&ours, b'b');
    assert_eq!(heard(&mut other), 9);
}

#[test]
fn garbage_is_closed_and_others_go_on_being_served() {
    let ours = Ours::new(V4, Guard::default(), None);
    let mut no_cookie = TcpStream::connect(ours.at).unwrap();
    no_cookie.write_all(&[0xee; 64]).unwrap();
    assert!(rest(no_cookie).is_empty());
    let refused = [9, 0xfe, 0, 0, 0, 114, 0, 0, 0, 0];
    let mut too_long = named(&ours, b'a');
    too_long.write_all(&(8193_u32).to_be_bytes()).unwrap();
    assert_eq!(rest(too_long), refused);
    let mut no_json = named(&ours, b'b');
    say_block(&mut no_json, "}{");
    assert_eq!(rest(no_json), refused);
    let mut deep = named(&ours, b'c');
    say_block(&mut deep, &"[".repeat(8_000));
    assert_eq!(rest(deep), refused);
    let mut next = named(&ours, b'd');
    assert_eq!(heard(&mut next), 9);
}

#[test]
fn a_connection_that_owes_its_cookie_is_closed() {
    let ours = Ours::new(V4, Guard::default(), None);
    let mut silent = TcpStream::connect(ours.at).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    silent.write_all(b"half").unwrap();
    assert!(rest(silent).is_empty());
}

#[test]
fn more_than_the_server_allows_is_refused_by_the_originals_numbers() {
    let guard = Guard {
        rate_max: BitRate(1_000_000),
        duration_max: Nanos::from_secs(2),
        ..Guard::default()
    };
    let ours = Ours::new(V4, guard, None);
    let cases = [
        (r#"{"tcp":true,"time":3}"#, 37),
        (r#"{"udp":true,"time":1,"bandwidth":600000,"parallel":2}"#, 27),
        (r#"{"udp":true,"time":1,"len":4}"#, 20),
        (r#"{"sctp":true}"#, 131),
    ];
    for ((asked, number), letter) in cases.into_iter().zip(b'a'..) {
        let mut client = named(&ours, letter);
        say_block(&mut client, asked);
        assert_eq!(rest(client), [9, 0xfe, 0, 0, 0, number, 0, 0, 0, 0], "{asked}");
    }
}

#[test]
fn their_client_prints_a_refusal_and_fails() {
    if !has("their_client_prints_a_refusal_and_fails", &["iperf3"]) {
        return;
    }
    let ours = Ours::new(V4, Guard { rate_max: BitRate(1_000_000), ..Guard::default() }, None);
    let error = ours.error("-u -b 2M -t 1");
    assert!(error.contains("bandwidth is larger than server limit"), "{error}");
}

#[test]
fn what_a_server_sends_stays_below_its_rate() {
    if !has("what_a_server_sends_stays_below_its_rate", &["iperf3"]) {
        return;
    }
    let ours = Ours::new(V4, Guard { rate_max: BitRate(8_000_000), ..Guard::default() }, None);
    let end = ours.end("-t 1 -R -P 2 -l 10K");
    // A million bytes a second, and the first write of each stream.
    let bytes = end["sum_sent"]["bytes"].as_u64().unwrap();
    let seconds = end["sum_sent"]["seconds"].as_f64().unwrap();
    assert!((bytes as f64) < 1.1e6 * seconds + 40_000.0, "{end}");
}

#[test]
fn a_test_without_an_end_is_ended_by_the_server() {
    if !has("a_test_without_an_end_is_ended_by_the_server", &["iperf3"]) {
        return;
    }
    let guard = Guard { duration_max: Nanos::from_secs(1), ..Guard::default() };
    let ours = Ours::new(V4, guard, None);
    assert!(!ours.error("-t 0 -b 1M").is_empty());
}

#[test]
fn a_client_that_is_killed_in_mid_run_makes_room_at_once() {
    if !has("a_client_that_is_killed_in_mid_run_makes_room_at_once", &["iperf3"]) {
        return;
    }
    let ours = Ours::new(V4, Guard { clients_max: 1, ..Guard::default() }, None);
    for arguments in ["-t 20 -b 5M -R", "-t 20 -b 5M", "-t 20 -b 5M -u -R"] {
        let (ip, port) = (ours.at.ip().to_string(), ours.at.port().to_string());
        let mut client = Command::new("iperf3")
            .args(["-c", &ip, "-p", &port, "--forceflush"])
            .args(arguments.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // iperf3 prints this when its streams are open.
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("connected to")), "{arguments}");
        client.kill().unwrap();
        client.wait().unwrap();
        assert!(makes_room(&ours), "{arguments}");
    }
}

/// Set if the test below runs itself in its own network namespace.
const ALONE: &str = "FABRICMARK_TEST_ALONE";

#[test]
fn a_host_that_vanishes_without_a_word_is_given_up() {
    const NAME: &str = "hostile::a_host_that_vanishes_without_a_word_is_given_up";
    if std::env::var_os(ALONE).is_some() {
        return give_up_a_vanished_host();
    }
    if !may_unshare(NAME) {
        return;
    }
    let output = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(ALONE, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn set_loopback(state: &str) {
    assert!(Command::new("ip").args(["link", "set", "lo", state]).status().unwrap().success());
}

/// Established connections at the server's end of the port (proc_net_tcp(5)).
fn held(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let local = format!("0100007F:{port:04X}");
    let is_held = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[1] == local && words[3] == "01"
    };
    table.lines().skip(1).filter(is_held).count()
}

fn give_up_a_vanished_host() {
    set_loopback("up");
    let ours = Ours::new(V4, Guard::default(), None);
    let mut control = named(&ours, b'a');
    say_block(&mut control, r#"{"tcp":true,"time":60,"reverse":true}"#);
    assert_eq!((heard(&mut control), heard(&mut control)), (9, 10));
    let _stream = named(&ours, b'a');
    assert_eq!((heard(&mut control), heard(&mut control)), (1, 2));
    assert_eq!(held(ours.at.port()), 2);
    set_loopback("down");
    // 4 s, plus margin for a busy machine.
    let until = Instant::now() + Duration::from_secs(10);
    while held(ours.at.port()) > 0 {
        assert!(Instant::now() < until, "it is still being served");
    }
}

/// Whether a server that serves one client at a time accepts the next one within 5 s.
fn makes_room(ours: &Ours) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while heard(&mut named(ours, b'z')) != 9 {
        if Instant::now() > until {
            return false;
        }
    }
    true
}

#[test]
fn datagrams_of_an_address_without_a_control_connection_are_not_answered() {
    let ours = Ours::new(V4, Guard::default(), None);
    let mut control = named(&ours, b'a');
    assert_eq!(heard(&mut control), 9);
    say_block(&mut control, r#"{"udp":true,"time":1,"reverse":true}"#);
    assert_eq!(heard(&mut control), 10);
    let answer = |address: Ipv4Addr| {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.connect(ours.at).unwrap();
        socket.send(b"9876").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut buffer = [0; 16];
        socket.recv(&mut buffer).ok().map(|bytes| buffer[..bytes].to_vec())
    };
    assert_eq!(answer(Ipv4Addr::new(127, 0, 0, 2)), None);
    assert_eq!(answer(Ipv4Addr::LOCALHOST), Some(b"6789".to_vec()));
    assert_eq!((heard(&mut control), heard(&mut control)), (1, 2));
}
