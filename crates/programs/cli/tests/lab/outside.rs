//! The same traffic by fabricmark, by iperf3 and by a few lines of code in this test, over the same emulated link.
//! Goodput must agree within 2 %, latency within 3 % or 0.3 ms, and nothing may exceed the wire.
//!
//! Rounds of all three alternate. A busy machine only lowers goodput and raises RTTs, so the best rounds are compared,
//! and rounds are added until each has had a quiet one. Every single round is also checked against the wire.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_record::Record;
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_tcp_congestion};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;

use crate::support::{Bench, assert_unless_slowed, bench, program, skip, stderr, stdout};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 71, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 71, 0, 2);

/// Congestion control of all three.
const CONGESTION: &str = "cubic";

/// Tolerated relative difference of goodputs.
const GOODPUT: f64 = 0.02;

/// Tolerated shortfall of a saturated wire below its ceiling, as a share.
const FULL: f64 = 0.1;

/// Tolerated difference of median RTTs, as a share and in ms; the larger applies.
const LATENCY: (f64, f64) = (0.03, 0.3);

/// Maximum relative difference between two clocks (docs/statistics.md).
const CLOCKS: f64 = 2e-4;

/// Reason of a skipped comparison.
const NO_IPERF3: &str = "iperf3 is not installed";

/// Omitted and counted time of streams.
const OMIT: Duration = Duration::from_secs(1);
const COUNTED: Duration = Duration::from_secs(1);

/// Maximum number of rounds.
const ROUNDS: usize = 12;

/// Rounds of a paced sender.
const PACED_ROUNDS: usize = 3;

/// Payload of a full TCP segment with timestamps, which Linux sends, and without, as a share of its frame including
/// preamble and interframe gap.
const SEGMENT: f64 = 1448.0 / 1538.0;
const SEGMENT_MAX: f64 = 1460.0 / 1538.0;

/// A lab of two hosts and a link; torn down on drop.
struct Lab(Bench);

impl Lab {
    /// A lab with these link options; `None` if namespaces cannot be created.
    fn up(test: &str, words: &str) -> Option<Self> {
        let bench = bench(test)?;
        let link = format!("[links.wan]\nbetween = ['client', 'server']\noptions = '{words}'\n");
        bench.up(&format!("[hosts.client]\n[hosts.server]\n{link}"));
        Some(Self(bench))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let down = self.0.lab(&["down"]);
        // Do not hide the message of a failed test.
        assert!(down.status.success() || thread::panicking(), "{}", stderr(&down));
    }
}

/// The record of a run by fabricmark, or the reason that it is invalid.
fn record(bench: &Bench, words: &[&str]) -> Result<Value, String> {
    const NOTHING_COUNTS: i32 = 67;
    let mut command = Command::new(program());
    command.arg("measure").args(words).arg("--json");
    if !words.contains(&"udp") {
        command.args(["--congestion", CONGESTION]);
    }
    command.env("XDG_STATE_HOME", bench.folder.path());
    let output = command.output().unwrap();
    if output.status.code() == Some(NOTHING_COUNTS) {
        return Err(stderr(&output));
    }
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let records = document["records"].as_array().unwrap();
    Ok(records.iter().find(|record| record["place"]["warm_up"] == false).unwrap().clone())
}

/// Results of fabricmark's rounds.
#[derive(Default)]
struct Ours {
    figures: Vec<f64>,
    runs: Vec<Record>,
    /// Reasons of the invalid rounds.
    reasons: Vec<String>,
}

impl Ours {
    /// The record of a valid round.
    fn counted(&mut self, round: Result<Value, String>) -> Option<Value> {
        let record = round.map_err(|reason| self.reasons.push(reason)).ok()?;
        self.runs.push(serde_json::from_value(record.clone()).unwrap());
        Some(record)
    }

    /// Skips the test if the emulator was late in every round, for then there is nothing to compare, or if the hypervisor
    /// took CPU time from a round.
    #[track_caller]
    fn skip_or_fail(&self, test: &str, what: &str) {
        let says_late = ["the emulator was", "waited for a CPU"];
        let is_late = |reason: &String| says_late.iter().any(|words| reason.contains(words));
        let late = self.reasons.iter().all(is_late);
        let Some(reason) = self.reasons.last().filter(|_| self.figures.is_empty() && late) else {
            let told = format!("{:?} of fabricmark ({:?}), {what}", self.figures, self.reasons);
            return assert_unless_slowed(false, &self.runs, &told);
        };
        skip(test, &format!("the machine is busy: {reason}"));
    }
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {path}: {value}"))
}

fn figure(record: &Value, name: &str) -> f64 {
    number(record, &format!("/figures/{name}/value"))
}

/// A process in a node; killed on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// JSON report of an iperf3 client; `None` if iperf3 is not installed.
fn iperf3(bench: &Bench, words: &[&str]) -> Option<Value> {
    if Command::new("iperf3").arg("--version").output().is_err() {
        return None;
    }
    let mut command =
        bench.lab_command(&["exec", "server", "--", "iperf3", "-s", "-1", "--forceflush"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut listening = child.stdout.take().unwrap();
    let server = Server(child);
    let (mut said, mut bytes) = (String::new(), [0; 256]);
    while !said.contains("Server listening") {
        let length = listening.read(&mut bytes).unwrap();
        assert!(length > 0, "iperf3 -s: {said}");
        said.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    let address = SERVER.to_string();
    let client = ["exec", "client", "--", "iperf3", "-c", &address, "-J", "-O", "1", "-t", "1"];
    let output = bench.lab(&[client.as_slice(), words].concat());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    drop(server);
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// A TCP stream by std: bytes per second read by the server after the omitted first second.
fn tcp_stream_bps(bench: &Bench) -> f64 {
    let listener = bench.inside("server", || TcpListener::bind((SERVER, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let mut sender = bench.inside("client", move || TcpStream::connect(address).unwrap());
    set_tcp_congestion(&sender, CONGESTION).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let sending = thread::spawn(move || {
        let payload = [0; 65_536];
        // The receiver closes the connection at the end.
        while sender.write(&payload).is_ok() {}
    });
    let (mut buffer, began) = (vec![0; 1 << 20], Instant::now());
    let (mut first, mut last, mut bytes) = (None, began, 0);
    while began.elapsed() < OMIT + COUNTED {
        let length = receiver.read(&mut buffer).unwrap();
        last = Instant::now();
        match first {
            Some(_) => bytes += length,
            // The read that starts the count delivers bytes from before it.
            None if last - began >= OMIT => first = Some(last),
            None => {}
        }
    }
    drop(receiver);
    sending.join().unwrap();
    8.0 * bytes as f64 / (last - first.unwrap()).as_secs_f64()
}

/// A paced stream of datagrams by std: received bit/s, and number of lost datagrams.
fn udp_stream_bps(bench: &Bench, payload: usize, per_s: u32) -> (f64, u32) {
    let (sender, receiver) =
        (bench.udp("client", CLIENT.into()), bench.udp("server", SERVER.into()));
    // A buffer as large as fabricmark's, so that a descheduled receiver loses nothing.
    set_socket_recv_buffer_size_force(&receiver, 4 << 20).unwrap();
    let to = receiver.local_addr().unwrap();
    let count = per_s * u32::try_from(COUNTED.as_secs()).unwrap();
    let sending = thread::spawn(move || {
        let (datagram, began) = (vec![0; payload], Instant::now());
        for number in 0..count {
            let due = began + Duration::from_secs_f64(f64::from(number) / f64::from(per_s));
            thread::sleep(due.saturating_duration_since(Instant::now()));
            sender.send_to(&datagram, to).unwrap();
        }
        // Three times, because a datagram may be lost.
        (0..3).for_each(|_| assert_eq!(sender.send_to(&[0], to).unwrap(), 1));
    });
    let mut buffer = vec![0; payload];
    let (mut first, mut last, mut arrived) = (None, Instant::now(), 0);
    loop {
        match receiver.recv(&mut buffer) {
            Ok(length) if length == payload => {
                last = Instant::now();
                first.get_or_insert(last);
                arrived += 1;
            }
            // The read timed out, but the sender has not finished: it waits for its CPU.
            Err(_) if !sending.is_finished() => {}
            // The end, or a timeout because all three datagrams of it were lost.
            Ok(_) | Err(_) => break,
        }
    }
    sending.join().unwrap();
    let seconds = (last - first.unwrap()).as_secs_f64();
    (8.0 * payload as f64 * f64::from(arrived - 1) / seconds, count - arrived)
}

/// Median RTT in ms.
fn median_ms(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    1e3 * times[times.len() / 2].as_secs_f64()
}

/// Requests and responses of 64 bytes over TCP by std, with the server on the given CPU: median RTT in ms.
fn tcp_rr_ms(bench: &Bench, server_cpu: usize) -> f64 {
    let listener = bench.inside("server", || TcpListener::bind((SERVER, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let mut client = bench.inside("client", move || TcpStream::connect(address).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    [&client, &server].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
    let serving = thread::spawn(move || {
        pin_to(server_cpu);
        let mut payload = [0; 64];
        loop {
            match server.read_exact(&mut payload) {
                Ok(()) => server.write_all(&payload).unwrap(),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let mut payload = [0; 64];
    let mut once = |_| {
        let began = Instant::now();
        client.write_all(&payload).unwrap();
        client.read_exact(&mut payload).unwrap();
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..100).map(&mut once).collect();
    drop(client);
    serving.join().unwrap();
    median_ms(&mut times)
}

/// Requests and responses over UDP by std, with the server on the given CPU: median RTT in ms.
fn udp_rr_ms(bench: &Bench, payload: usize, server_cpu: usize) -> f64 {
    let (client, server) = (bench.udp("client", CLIENT.into()), bench.udp("server", SERVER.into()));
    let to = server.local_addr().unwrap();
    let serving = thread::spawn(move || {
        pin_to(server_cpu);
        let mut buffer = vec![0; payload];
        loop {
            let (length, from): (usize, SocketAddr) = server.recv_from(&mut buffer).unwrap();
            if length < payload {
                return;
            }
            server.send_to(&buffer, from).unwrap();
        }
    });
    let mut buffer = vec![0; payload];
    let mut once = |_| {
        let began = Instant::now();
        client.send_to(&buffer, to).unwrap();
        client.recv(&mut buffer).unwrap();
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..60).map(&mut once).collect();
    finish(&client, to);
    serving.join().unwrap();
    median_ms(&mut times)
}

/// Ends the server.
fn finish(client: &UdpSocket, to: SocketAddr) {
    assert_eq!(client.send_to(&[0], to).unwrap(), 1);
}

/// Whether `ours` is within a share of `theirs`.
fn within(share: f64, ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() <= share * theirs
}

#[track_caller]
fn agree(what: &str, ours: f64, theirs: f64) {
    assert!(within(GOODPUT, ours, theirs), "{what}: {ours} here, {theirs} there");
}

/// The fastest round; no round may exceed the wire.
#[track_caller]
fn fastest(who: &str, rounds: &[f64], most_bps: f64) -> f64 {
    let most = most_bps * (1.0 + CLOCKS);
    assert!(rounds.iter().all(|&bps| bps <= most), "{who}: {rounds:?} over a wire of {most}");
    rounds.iter().copied().fold(0.0, f64::max)
}

/// The fastest round of a tool whose count starts and ends with data queued; rounds above the wire are ignored.
fn fastest_possible(rounds: &[f64], most_bps: f64) -> f64 {
    let is_possible = |&&bps: &&f64| bps <= most_bps * (1.0 + CLOCKS);
    rounds.iter().filter(is_possible).copied().fold(0.0, f64::max)
}

/// Median of the rounds of a paced sender: on a busy machine it falls behind in one round and catches up in the next.
/// No round may exceed the wire.
#[track_caller]
fn middle(who: &str, rounds: &mut [f64], most_bps: f64) -> f64 {
    fastest(who, rounds, most_bps);
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().unwrap_or_default()
}

/// The smallest median RTT of all rounds. None may be below the floor, except by the histogram's resolution.
#[track_caller]
fn shortest(who: &str, rounds: &[f64], floor_ms: f64) -> f64 {
    let least = floor_ms * (1.0 - 1e-3);
    assert!(rounds.iter().all(|&ms| ms >= least), "{who}: {rounds:?} over {floor_ms} ms");
    rounds.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Compares a TCP stream over a link by all three; `rate_bps` is the rate of the wire.
fn tcp_streams_agree(test: &str, link: &str, words: &str, options: &[&str], rate_bps: f64) {
    let Some(lab) = Lab::up(test, &format!("link={link} {words}")) else { return };
    let bench = &lab.0;
    let target = format!("lab:{link}");
    let stream = ["stream", &target, "--duration", "1s", "--omit", "1s"];
    let most = SEGMENT_MAX * rate_bps;
    let (mut ours, mut plain, mut iperf) = (Ours::default(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        if let Some(record) = ours.counted(record(bench, &[&stream, options].concat())) {
            ours.figures.push(figure(&record, "goodput_bps"));
        }
        plain.push(tcp_stream_bps(bench));
        let report = iperf3(bench, &["-C", CONGESTION]);
        let is_there = report.is_some();
        iperf.extend(report.map(|report| number(&report, "/end/sum_received/bits_per_second")));
        let best = fastest("fabricmark", &ours.figures, most);
        // The wire must be full, so that three slow results do not pass as agreement.
        let is_full = within(FULL, best, SEGMENT * rate_bps);
        let agrees = |theirs: &[f64]| within(GOODPUT, best, fastest_possible(theirs, most));
        if is_full && agrees(&plain) && (!is_there || agrees(&iperf)) {
            if !is_there {
                skip(test, NO_IPERF3);
            }
            return;
        }
    }
    ours.skip_or_fail(test, &format!("{plain:?} of std, {iperf:?} of iperf3"));
}

#[test]
fn a_tcp_stream_over_a_delay_is_as_fast_as_by_iperf3_and_by_plain_sockets() {
    let test = "outside: TCP stream, 100M x 20 ms";
    tcp_streams_agree(test, "ethernet:100M", "rtt=20ms", &["--rtt", "20ms"], 1e8);
}

/// A rate that a busy machine sustains, because the test compares counts, not CPUs.
#[test]
fn a_tcp_stream_through_a_queue_is_as_fast_as_by_iperf3_and_by_plain_sockets() {
    let test = "outside: TCP stream, 200M x 0 ms";
    let options = ["--rtt", "0ms", "--emulate", "queue=1000p"];
    tcp_streams_agree(test, "ethernet:200M", "queue=1000p", &options, 2e8);
}

#[test]
fn a_paced_udp_stream_arrives_as_fast_as_by_iperf3_and_by_plain_sockets() {
    let test = "outside: UDP stream, 50 of 100 Mbit/s";
    let Some(lab) = Lab::up(test, "link=ethernet:100M") else { return };
    let bench = &lab.0;
    let link = ["stream", "lab:ethernet:100M", "--rtt", "0ms", "--transport", "udp"];
    let words = ["--payload", "1000", "--pace", "fixed:50M", "--duration", "1s"];
    let most = 1e8 * 1000.0 / 1066.0;
    let (mut ours, mut plain, mut iperf) = (Ours::default(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        if ours.figures.len().min(plain.len()) >= PACED_ROUNDS {
            break;
        }
        let round = record(bench, &[link.as_slice(), &words].concat());
        let Some(record) = ours.counted(round) else { continue };
        // A sender that had no CPU for a while catches up in a burst, which may overflow a queue: not the stream that was
        // asked for.
        assert_eq!(number(&record, "/flows/0/drops/unexplained"), 0.0);
        if number(&record, "/flows/0/drops/lost") == 0.0 {
            ours.figures.push(figure(&record, "goodput_bps"));
        }
        let (bps, lost) = udp_stream_bps(bench, 1000, 6250);
        if lost == 0 {
            plain.push(bps);
        }
        let report = iperf3(bench, &["-u", "-b", "50M", "-l", "1000"]);
        iperf.extend(report.map(|report| number(&report, "/end/sum/bits_per_second")));
    }
    if ours.figures.is_empty() || plain.is_empty() {
        return ours.skip_or_fail(test, &format!("{plain:?} of std without losses"));
    }
    let ours = middle("fabricmark", &mut ours.figures, most);
    let plain = middle("std", &mut plain, most);
    agree("the pace", ours, 5e7);
    agree("std", ours, plain);
    if iperf.is_empty() {
        return skip(test, NO_IPERF3);
    }
    let theirs = middle("iperf3", &mut iperf, most);
    agree("iperf3", ours, theirs);
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

/// Compares transactions by fabricmark, run with `words`, with those by `plain`, which takes the CPU of its server and
/// returns its median RTT in ms.
///
/// fabricmark pins client and server to one CPU and its emulator to another. On a virtual machine an idle CPU may take
/// a millisecond to wake up. Plain sockets avoid that with both ends on one CPU, but not with the ends on two: the
/// median of fabricmark lies between the two.
fn exchanges_agree(
    test: &str,
    bench: &Bench,
    words: &[&str],
    plain: impl Fn(usize) -> f64 + Sync,
    floor_ms: f64,
) {
    let words = [&["rr"], words, &["--duration", "500ms"]].concat();
    let (mut ours, mut near, mut far) = (Ours::default(), Vec::new(), Vec::new());
    let tolerance = |ms: f64| (LATENCY.0 * ms).max(LATENCY.1);
    for _ in 0..ROUNDS {
        let Some(record) = ours.counted(record(bench, &words)) else { continue };
        ours.figures.push(figure(&record, "rtt_p50_ns") / 1e6);
        let ends = number(&record, "/nodes/0/side/cpu") as usize;
        // On a machine with one CPU, the emulator shares it.
        let emulator = record.pointer("/emulation/cpu").and_then(Value::as_u64);
        let emulator = emulator.map_or(ends, |cpu| cpu as usize);
        for (server_cpu, times) in [(ends, &mut near), (emulator, &mut far)] {
            let asked = || {
                pin_to(ends);
                plain(server_cpu)
            };
            times.push(thread::scope(|scope| scope.spawn(asked).join().unwrap()));
        }
        let best = shortest("fabricmark", &ours.figures, floor_ms);
        let theirs = [&near, &far].map(|times| shortest("std", times, floor_ms));
        let (least, most) = (theirs[0].min(theirs[1]), theirs[0].max(theirs[1]));
        if (least - tolerance(least)..=most + tolerance(most)).contains(&best) {
            return;
        }
    }
    ours.skip_or_fail(test, &format!("{near:?} of std on one CPU, {far:?} on two"));
}

#[test]
fn exchanges_over_tcp_take_as_long_as_by_plain_sockets() {
    let test = "outside: TCP exchange, 10 ms";
    let Some(lab) = Lab::up(test, "rtt=10ms") else { return };
    let words = ["lab:veth", "--rtt", "10ms", "--payload", "64"];
    exchanges_agree(test, &lab.0, &words, |cpu| tcp_rr_ms(&lab.0, cpu), 10.0);
}

/// A datagram of 1000 bytes takes 1066 on the wire, without the final interframe gap of 12: 0.843 ms each way.
#[test]
fn exchanges_over_udp_take_as_long_as_by_plain_sockets() {
    let test = "outside: UDP exchange, 10M x 20 ms";
    let Some(lab) = Lab::up(test, "link=ethernet:10M rtt=20ms") else { return };
    let link = ["lab:ethernet:10M", "--rtt", "20ms", "--transport", "udp", "--payload", "1000"];
    exchanges_agree(test, &lab.0, &link, |cpu| udp_rr_ms(&lab.0, 1000, cpu), 20.0 + 2.0 * 0.843);
}
