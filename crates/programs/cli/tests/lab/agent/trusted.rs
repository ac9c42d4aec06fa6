//! Hostile peers with a valid key.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_load::{Control, Endpoint};
use fabricmark_plan::Role;
use fabricmark_proto::{Answer, Order, PROTOCOL_VERSION, Prepare, Report, Request, encode};
use fabricmark_trust::{Identity, Trusted, client_config, client_connection};
use fabricmark_units as units;
use rustix::process::{Pid, Signal, kill_process};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{Agent, Keys};
use crate::support::{children, expect, wait_until};

/// How long it lasts; `FABRICMARK_SOAK=3600` is an hour.
const SECONDS: u64 = 30;

/// Most connections that one hostile peer leaves half open.
const HALF_OPEN_MAX: usize = 100;

/// Most requests that a peer sends which reads no answer.
const UNREAD_MAX: u32 = 100_000;

/// Memory of the agent beyond that of an idle one: 600 connections with the 64 KiB that one may buffer.
const MEMORY_MAX: u64 = 600 * (64 << 10);

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// What hostile peers know.
struct Means<'a> {
    keys: &'a Keys,
    tls: Arc<ClientConfig>,
    agent: std::net::SocketAddr,
    /// The orders of a run, its preparation first.
    orders: Vec<Vec<u8>>,
    /// Valid and invalid requests.
    corpus: Vec<Vec<u8>>,
    /// Number of their runs that a worker has prepared.
    prepared: AtomicU32,
}

#[test]
fn hostile_peers_with_a_valid_key_harm_no_other_coordinator() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    // Three hostile peers take most of two CPUs: a stream of 100 ms may have too little of them for a rate.
    let good = |words: &[&str]| {
        let words = [&["measure"], words, &[&at, "-t", "500ms"]].concat();
        expect(&keys.command(&words).output().unwrap(), 0, &[]);
    };
    good(&["rr"]);
    let before = agent.memory_bytes();
    // Another host, which the agent trusts.
    let others = Keys::more();
    let [own, hostile] = [&keys, &others].map(|keys| Identity::load(&keys.file()).unwrap());
    for (keys, other) in [(&keys, &hostile), (&others, &own)] {
        let trusted = Trusted::beside(&keys.file());
        assert!(trusted.add(&other.fingerprint(), &"other".parse().unwrap()).unwrap());
    }
    let tls = client_config(&hostile, Arc::new(Trusted::beside(&others.file()))).unwrap();
    let prepared = AtomicU32::new(0);
    let means = Means {
        keys: &others,
        tls,
        agent: agent.address,
        orders: orders(),
        corpus: corpus(),
        prepared,
    };
    let seconds = std::env::var("FABRICMARK_SOAK").map_or(SECONDS, |text| text.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(seconds);
    let runs = thread::scope(|scope| {
        for number in 0..3 {
            let means = &means;
            scope.spawn(move || means.attack(number, until));
        }
        let mut runs = 0;
        while Instant::now() < until {
            good(&["rr"]);
            good(&["stream"]);
            runs += 2;
        }
        runs
    });
    assert!(6 * runs >= seconds, "{runs} runs in {seconds} s");
    assert!(means.prepared.load(Relaxed) > 0, "no hostile run had a worker");
    agent.wait_for_workers(0);
    let more = agent.memory_bytes().saturating_sub(before);
    assert!(more < MEMORY_MAX, "{more} bytes more");
    agent.ends_well();
}

#[test]
fn a_host_has_half_of_the_connections_whatever_sessions_it_names() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &["--connections", "20"]);
    let mut kept = Vec::new();
    for number in 1..=11 {
        let mut peer = BufReader::new(greeted(&keys, &agent, number));
        let mut said = String::new();
        peer.read_line(&mut said).unwrap();
        if number == 11 {
            peer.read_to_string(&mut said).unwrap();
            assert!(said.contains("the agent allows 10 connections per host"), "{said}");
        } else {
            assert!(!said.contains("connections per host"), "{number}: {said}");
            kept.push(peer);
        }
    }
    drop(kept);
    agent.ends_well();
}

#[test]
fn a_coordinator_whose_pings_wait_to_be_read_is_not_silent() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    // More connections than an agent reads from before it looks for silent ones.
    let mut peers: Vec<_> = (0..300_u16)
        .map(|number| BufReader::new(greeted(&keys, &agent, number as u8 | 1)))
        .collect();
    let ping = encode(&Request::Ping { sent_ns: 1, rtt_ns: 0 });
    let next = |peer: &mut BufReader<Tls>| {
        let mut said = String::new();
        peer.read_line(&mut said).unwrap();
        said
    };
    for peer in &mut peers {
        peer.get_mut().write_all(&ping).unwrap();
        assert!(next(peer).contains("welcome"));
        assert!(next(peer).contains("pong"));
    }
    let pid = Pid::from_raw(agent.id() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let stopped = Instant::now();
    peers.iter_mut().for_each(|peer| peer.get_mut().write_all(&ping).unwrap());
    wait_until(|| stopped.elapsed() > Duration::from_secs(5));
    kill_process(pid, Signal::CONT).unwrap();
    for peer in &mut peers {
        let said = next(peer);
        assert!(said.contains("pong"), "{said}");
    }
    drop(peers);
    agent.ends_well();
}

#[test]
fn incomplete_requests_of_a_host_are_bounded_together() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let before = agent.memory_bytes();
    let mut kept = Vec::new();
    for number in 1..=4 {
        let mut peer = greeted(&keys, &agent, number);
        peer.write_all(&[b'x'; 4_000_000]).unwrap();
        kept.push(peer);
    }
    wait_until(|| agent.memory_bytes() > before + 4 * 3_900_000);
    let mut peer = greeted(&keys, &agent, 5);
    peer.sock.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut said = String::new();
    // In pieces: what a peer has under way when the agent closes resets the connection, and the reason is lost.
    for _ in 0..200 {
        let _ = peer.write_all(&[b'x'; 10_000]);
        let _ = peer.read_to_string(&mut said);
        if said.contains("refused") {
            break;
        }
    }
    assert!(
        said.contains("the agent buffers at most 16MiB of incomplete requests per host"),
        "{said}"
    );
    drop((kept, peer));
    agent.ends_well();
}

#[test]
fn of_many_pings_the_last_is_answered_and_many_orders_at_once_are_refused() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let mut said = String::new();
    let mut eager = BufReader::new(greeted(&keys, &agent, 1));
    eager.read_line(&mut said).unwrap();
    assert!(said.contains("welcome"), "{said}");
    let ping = |sent_ns| encode(&Request::Ping { sent_ns, rtt_ns: 0 });
    let pings: Vec<u8> = (1..=200).flat_map(ping).collect();
    eager.get_mut().write_all(&pings).unwrap();
    said.clear();
    eager.read_line(&mut said).unwrap();
    assert!(said.contains("\"sent_ns\":200"), "200 pings in one TLS record: {said}");
    let abort = encode(&Request::Order { order: Order::Abort { run: 1 } });
    eager.get_mut().write_all(&abort.repeat(65)).unwrap();
    said.clear();
    eager.read_to_string(&mut said).unwrap();
    assert!(said.contains("more than 64 orders arrived together"), "{said}");
    let mut hasty = BufReader::new(greeted(&keys, &agent, 2));
    hasty.get_mut().write_all(&orders()[0].repeat(3)).unwrap();
    said.clear();
    hasty.read_to_string(&mut said).unwrap();
    assert!(said.contains("more than 2 orders to start a run arrived together"), "{said}");
    drop((eager, hasty));
    agent.ends_well();
}

#[test]
fn a_client_faster_than_it_stated_gets_no_more_responses_than_the_agent_allows() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &["--rate", "8M"]);
    let mut peer = greeted(&keys, &agent, 1);
    let levels =
        "pattern=rr,transport=tcp,congestion=cubic,family=4,payload=64,response=1000,link=loopback";
    let [server, client] =
        [(Role::Server, "fixed:1000"), (Role::Client, "closed")].map(|(role, pace)| {
            let duration_ns = units::Nanos::from_secs(2);
            Prepare {
                duration_ns,
                ..fabricmark_testkit::prepare(role, &format!("{levels},pace={pace}"))
            }
        });
    let order = Request::Order { order: Order::Prepare(Box::new(server)) };
    peer.write_all(&encode(&order)).unwrap();
    let mut answers = answers(peer);
    let port = answers.find_map(|answer| match answer {
        Answer::Report { report: Report::Ready { port, .. } } => Some(port),
        _ => None,
    });
    let server = (agent.address.ip(), port.unwrap()).into();
    Endpoint::prepare(client).unwrap().run(Some(server), &Control::default()).unwrap_err();
    let failure = answers.find_map(failure);
    let words = "requests arrive faster than the rate of 8M that the agent allows";
    assert!(failure.as_ref().is_some_and(|failure| failure.contains(words)), "{failure:?}");
    drop(answers);
    agent.ends_well();
}

/// The address 0.0.0.0 is that of no device; which one the coordinator names does not matter.
#[test]
fn settings_that_a_run_changes_are_those_of_the_device_with_its_address() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &["--allow-settings"]);
    let mut peer = greeted(&keys, &agent, 1);
    let levels =
        "pattern=stream,transport=tcp,congestion=cubic,family=4,payload=1024,link=loopback";
    let prepare = Prepare {
        address: [0, 0, 0, 0].into(),
        device: "lo".to_owned(),
        host_settings: vec!["mtu=9000".to_owned()],
        ..fabricmark_testkit::prepare(Role::Server, levels)
    };
    let order = Request::Order { order: Order::Prepare(Box::new(prepare)) };
    peer.write_all(&encode(&order)).unwrap();
    let is_ready =
        |answer: &Answer| matches!(answer, Answer::Report { report: Report::Ready { .. } });
    let mut answers = answers(peer).take_while(|answer| !is_ready(answer));
    let failure = answers.find_map(failure);
    let words = "no device of this host has the address 0.0.0.0";
    assert!(failure.as_ref().is_some_and(|failure| failure.contains(words)), "{failure:?}");
    drop(answers);
    agent.ends_well();
}

/// A connection with this key that has said hello.
fn greeted(keys: &Keys, agent: &Agent, session: u8) -> Tls {
    let identity = Identity::load(&keys.file()).unwrap();
    let tls = client_config(&identity, Arc::new(Trusted::beside(&keys.file()))).unwrap();
    let tcp = TcpStream::connect(agent.address).unwrap();
    let mut peer = StreamOwned::new(client_connection(&tls).unwrap(), tcp);
    let hello = Request::Hello { version: PROTOCOL_VERSION, session: [session; 16] };
    peer.write_all(&encode(&hello)).unwrap();
    peer
}

/// What the agent answers.
fn answers(peer: Tls) -> impl Iterator<Item = Answer> {
    BufReader::new(peer).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// Why a run failed, if the answer says so.
fn failure(answer: Answer) -> Option<String> {
    match answer {
        Answer::Report { report: Report::Failed { failure, .. } } => Some(failure.to_string()),
        _ => None,
    }
}

/// The orders of a run, its preparation first.
fn orders() -> Vec<Vec<u8>> {
    let levels =
        "pattern=stream,transport=tcp,congestion=cubic,family=4,payload=1024,link=loopback";
    let prepare = fabricmark_testkit::prepare(Role::Server, levels);
    let run = prepare.run;
    let orders = [
        Order::Prepare(Box::new(prepare)),
        Order::Hold { run },
        // Out of turn: the run is that of a server.
        Order::Begin { run, peer: "127.0.0.1:9".parse().unwrap() },
        Order::Start { run, at_ns: Some(u64::MAX) },
        Order::Slice { run, counts: true },
        Order::Stop { run: run + 1 },
        Order::Abort { run },
    ];
    orders.map(|order| encode(&Request::Order { order })).to_vec()
}

/// The corpus of the parser of requests, without the size of its pieces.
fn corpus() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/agent_request");
    let read = |path| fs::read(path).unwrap().split_off(1);
    fs::read_dir(corpus).unwrap().map(|file| read(file.unwrap().path())).collect()
}

/// Whether the agent says that the worker has prepared the run.
fn is_ready(tls: &mut Tls) -> bool {
    let mut lines = BufReader::new(tls).lines().map_while(Result::ok);
    lines.any(|line| line.contains("\"ready\""))
}

impl Means<'_> {
    /// Attacks in random ways; which ones, the number decides.
    fn attack(&self, number: u64, until: Instant) {
        let mut random = units::Stream::new(number, "soak");
        let mut half_open = Vec::new();
        while Instant::now() < until {
            match random.below(6) {
                0 => {
                    // A record that announces 16 KiB and has one byte.
                    let tcp = TcpStream::connect(self.agent).unwrap();
                    let _ = (&tcp).write_all(&[0x16, 0x03, 0x01, 0x3f, 0xff, 0x01]);
                    half_open.push(tcp);
                    if half_open.len() > HALF_OPEN_MAX {
                        half_open.clear();
                    }
                }
                1 => {
                    let unread = encode(&Request::Ping { sent_ns: 1, rtt_ns: 1 });
                    let Some(mut tls) = self.greet(&mut random) else { continue };
                    let mut count = 0;
                    while count < UNREAD_MAX && tls.write_all(&unread).is_ok() {
                        count += 1;
                    }
                }
                2 => {
                    // It reads less than it asks for.
                    let request = encode(&Request::Ping { sent_ns: 1, rtt_ns: 1 });
                    let Some(mut tls) = self.greet(&mut random) else { continue };
                    let asks = |tls: &mut Tls| (0..50).try_for_each(|_| tls.write_all(&request));
                    let mut some = [0; 256];
                    for _ in 0..random.below(500) {
                        if asks(&mut tls).and_then(|()| tls.read(&mut some)).is_err() {
                            break;
                        }
                    }
                }
                3 => {
                    // A coordinator that is killed.
                    let words = ["measure", "stream", &self.agent.to_string(), "-t", "1s"];
                    let mut killed = self.keys.command(&words).spawn().unwrap();
                    if random.below(2) == 0 {
                        let has_begun = |killed: &mut Child| {
                            !children(killed.id()).is_empty()
                                || killed.try_wait().unwrap().is_some()
                        };
                        wait_until(|| has_begun(&mut killed));
                    }
                    let _ = killed.kill();
                    killed.wait().unwrap();
                }
                4 => {
                    let Some(mut tls) = self.greet(&mut random) else { continue };
                    if tls.write_all(&self.orders[0]).is_ok() && is_ready(&mut tls) {
                        self.prepared.fetch_add(1, Relaxed);
                    }
                    for _ in 0..random.below(2000) {
                        let order = random.below(self.orders.len() as u64) as usize;
                        if tls.write_all(&self.orders[order]).is_err() {
                            break;
                        }
                    }
                    let _ = tls.flush();
                }
                _ => {
                    let Some(mut tls) = self.greet(&mut random) else { continue };
                    for _ in 0..random.below(20) {
                        let text = self.text(&mut random);
                        if tls.write_all(&text).and_then(|()| tls.flush()).is_err() {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Connects with the valid key and says hello, mostly.
    fn greet(&self, random: &mut units::Stream) -> Option<Tls> {
        let tcp = TcpStream::connect(self.agent).unwrap();
        tcp.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut tls = StreamOwned::new(client_connection(&self.tls).unwrap(), tcp);
        let session = std::array::from_fn(|_| random.below(4) as u8);
        let hello = encode(&Request::Hello { version: PROTOCOL_VERSION, session });
        let is_polite = random.below(8) > 0;
        if is_polite {
            tls.write_all(&hello).ok()?;
        }
        Some(tls)
    }

    /// One of the texts, as it is or with some bytes changed.
    fn text(&self, random: &mut units::Stream) -> Vec<u8> {
        let texts = if random.below(2) == 0 { &self.orders } else { &self.corpus };
        let mut text = texts[random.below(texts.len() as u64) as usize].clone();
        for _ in 0..random.below(4) {
            let place = random.below(text.len().max(1) as u64) as usize;
            if let Some(byte) = text.get_mut(place) {
                // A digit remains a digit, so that most texts stay JSON.
                *byte = if byte.is_ascii_digit() { b'0' + random.below(10) as u8 } else { *byte };
            }
        }
        text
    }
}
