//! Features that users of iperf3 have requested for years, one test each.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Output;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_proto::{Answer, PROTOCOL_VERSION, Request, encode};
use fabricmark_trust::{Identity, Trusted, client_config, client_connection};
use rustls::{Stream, StreamOwned};
use serde_json::Value;

use super::{Agent, Keys};
use crate::support::{bench, counted_run, expect, signal, stderr, stdout, wait_until};

#[test]
fn demand_1_one_agent_serves_several_clients_at_once() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    let measure = || keys.command(&["measure", "ping-pong", &at, "-t", "2s"]).spawn().unwrap();
    let clients = [measure(), measure(), measure()];
    agent.wait_for_workers(3);
    for client in clients {
        expect(&client.wait_with_output().unwrap(), 0, &[]);
    }
    agent.ends_well();
}

/// A killed client closes its connection; a suspended one does not.
#[test]
fn demand_2_the_agent_is_free_within_5_s_after_a_client_vanishes() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &["--exclusive"]);
    let at = agent.address.to_string();
    for name in ["KILL", "STOP"] {
        let mut command = keys.command(&["measure", "stream", &at, "-t", "60s"]);
        let mut client = command.spawn().unwrap();
        agent.wait_for_workers(1);
        wait_until(|| crate::support::children(client.id()).len() == 1);
        signal(client.id(), name);
        let vanished = Instant::now();
        agent.wait_for_workers(0);
        let took = vanished.elapsed();
        assert!(took <= Duration::from_secs(5), "{name}: {took:?}");
        let next = keys.command(&["measure", "ping-pong", &at, "-t", "50ms"]).output().unwrap();
        expect(&next, 0, &[]);
        client.kill().unwrap();
        client.wait().unwrap();
    }
    agent.ends_well();
}

/// Relays a connection; reports the longest silence in each direction.
fn relay(to: std::net::SocketAddr) -> (std::net::SocketAddr, mpsc::Receiver<Duration>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (sender, silences) = mpsc::channel();
    thread::spawn(move || {
        let client = listener.accept().unwrap().0;
        let server = TcpStream::connect(to).unwrap();
        let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
        for (from, to) in ways {
            let (mut from, mut to, sender) = (from.unwrap(), to.unwrap(), sender.clone());
            thread::spawn(move || {
                let (mut longest, mut last) = (Duration::ZERO, Instant::now());
                let mut buffer = [0; 64 << 10];
                while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                    let _ = to.write_all(&buffer[..bytes]);
                }
                let _ = to.shutdown(Shutdown::Write);
                let _ = sender.send(longest);
            });
        }
    });
    (at, silences)
}

/// NATs drop idle connections after minutes; here no silence exceeds 3 s.
#[test]
fn demand_3_the_control_connection_is_never_silent_for_long() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let (relayed, silences) = relay(agent.address);
    let (to, control) = (agent.address.ip().to_string(), relayed.to_string());
    let words = ["measure", "ping-pong", &to, "--control", &control, "-t", "4s"];
    expect(&keys.command(&words).output().unwrap(), 0, &[]);
    for silence in silences.iter().take(2) {
        assert!(silence < Duration::from_secs(3), "{silence:?}");
    }
    agent.ends_well();
}

#[test]
fn demand_4_control_takes_another_way_than_data() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let control = agent.address.to_string();
    let words = [
        "measure",
        "stream",
        "127.0.0.2",
        "--control",
        &control,
        "--transport",
        "udp",
        "-t",
        "200ms",
        "--json",
    ];
    let output = keys.command(&words).output().unwrap();
    expect(&output, 0, &[]);
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(told.to_string().contains(r#""address":"127.0.0.2""#), "{told}");
    agent.ends_well();
}

/// Two paths between two hosts: one with an RTT of 2 s that loses a fifth of the packets each way, and a sound one.
const TWO_PATHS: &str = "[hosts.client]\n[hosts.server]\n\
    [links.bad]\nbetween = ['client', 'server']\noptions = 'rtt=2s loss=20%'\n\
    [links.good]\nbetween = ['client', 'server']\noptions = 'link=ethernet:100M'\n";

/// Demand 4 asks for tests of pure UDP, too: no TCP segment passes on the good path. Orders take the bad path. The
/// datagrams of one run take the good path, those of three runs the bad path, with the messages that open their flow
/// (demand 5).
#[test]
fn demands_4_and_5_hold_over_a_path_of_2_s_that_loses_a_fifth() {
    let Some(bench) = bench("a path of 2 s that loses a fifth") else { return };
    bench.up(TWO_PATHS);
    for node in ["client", "server"] {
        let rule = "ip rule add pref 1 to 10.71.1.0/24 ipproto tcp blackhole";
        let line: Vec<&str> = ["exec", node, "--"].into_iter().chain(rule.split(' ')).collect();
        expect(&bench.lab(&line), 0, &[]);
    }
    let keys = Keys::more();
    let listen = ["agent", "--listen", "0.0.0.0:7477", "--stamp=862", "--allow", "10.71.0.0/16"];
    let agent = Agent::start_by(keys.inside(&bench, "server", &listen));
    let inside = |line: &str| keys.inside(&bench, "client", &line.split(' ').collect::<Vec<_>>());
    let json = |output: &Output| -> Value {
        expect(output, 0, &[]);
        serde_json::from_str(&stdout(output)).unwrap()
    };
    let no_tcp = bench.inside("client", || TcpStream::connect("10.71.1.2:7477"));
    assert!(no_tcp.is_err(), "{no_tcp:?}");
    let rtt = inside("rtt 10.71.1.2 --protocol stamp -c 20 -i 1ms --json").output().unwrap();
    assert_eq!(json(&rtt)["answered"], 20);

    let stream = "-u --control 10.71.0.2 --rate 1000/s --payload 1000 -t 2s --warm-up 0s --json";
    let (good, bad) = ("10.71.1.2", "10.71.0.2");
    let runs = [good, bad, bad, bad].map(|data| {
        let run = inside(&format!("measure stream {data} {stream}")).spawn().unwrap();
        (data, run)
    });
    for (data, run) in runs {
        let told = json(&run.wait_with_output().unwrap());
        let Some(record) = counted_run(&told) else { continue };
        assert_eq!(record["nodes"][1]["address"], data);
        let lost = record["figures"]["loss_share"]["value"].as_f64().unwrap();
        let sent = record["flows"][0]["sent"]["calls"].as_f64().unwrap();
        if data == good {
            assert_eq!(lost, 0.0, "{told}");
        } else {
            // Five standard deviations of a binomial share.
            let deviation = (0.2 * 0.8 / sent).sqrt();
            assert!((lost - 0.2).abs() < 5.0 * deviation, "{lost} of {sent}: {told}");
        }
    }
    let report = bench.report();
    for path in report["paths"].as_array().unwrap() {
        assert_eq!(path["dropped"].as_u64() > Some(0), path["link"] == "bad", "{report}");
    }
    agent.ends_well();
    expect(&bench.lab(&["down"]), 0, &[]);
}

/// A control connection with a delay of 0.4 s each way.
#[test]
fn demand_5_a_run_survives_a_slow_way_of_its_orders() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let slow = late(agent.address, Duration::from_millis(400)).to_string();
    let to = agent.address.ip().to_string();
    let words = ["measure", "stream", &to, "--control", &slow, "--transport", "udp", "-t", "300ms"];
    expect(&keys.command(&words).output().unwrap(), 0, &[]);
    agent.ends_well();
}

/// Relays a connection with this delay.
fn late(to: std::net::SocketAddr, delay: Duration) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        let client = listener.accept().unwrap().0;
        let server = TcpStream::connect(to).unwrap();
        let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
        for (from, to) in ways {
            let (mut from, mut to) = (from.unwrap(), to.unwrap());
            let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
            thread::spawn(move || {
                let mut buffer = [0; 64 << 10];
                while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                    let _ = sender.send((Instant::now() + delay, buffer[..bytes].to_vec()));
                }
            });
            thread::spawn(move || {
                for (due, bytes) in receiver {
                    thread::park_timeout(due.saturating_duration_since(Instant::now()));
                    let _ = to.write_all(&bytes);
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    });
    at
}

#[test]
fn demand_6_a_version_mismatch_says_which_side_to_update() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let identity = Identity::load(&keys.file()).unwrap();
    let trusted = Arc::new(Trusted::beside(&keys.file()));
    let settings = client_config(&identity, trusted).unwrap();
    for (version, update) in [(PROTOCOL_VERSION - 1, "this program"), (9999, "the agent")] {
        let tcp = TcpStream::connect(agent.address).unwrap();
        let mut tls = StreamOwned::new(client_connection(&settings).unwrap(), tcp);
        let hello = Request::Hello { version, session: [1; 16] };
        tls.write_all(&encode(&hello)).unwrap();
        let mut said = Vec::new();
        Stream::new(&mut tls.conn, &mut tls.sock).read_to_end(&mut said).unwrap();
        let answer: Answer = serde_json::from_slice(&said).unwrap();
        let why = format!(
            "the agent uses protocol version {PROTOCOL_VERSION}, this program version {version}: \
             update {update}"
        );
        assert_eq!(answer, Answer::Refused { why });
    }
    agent.ends_well();
}

/// Clients disconnect at every stage of a run, in order or killed.
#[test]
fn demand_7_nothing_crashes_at_start_stop_and_error() {
    let keys = Keys::new();
    let agent = Agent::start(&keys, &[]);
    let at = agent.address.to_string();
    let transports = ["tcp", "udp", "quic", "tls"];
    for (transport, signals) in
        transports.iter().zip([["INT", "KILL"], ["KILL", "TERM"]].iter().cycle())
    {
        for (name, workers) in signals.iter().zip([0, 1]) {
            let words = ["measure", "stream", &at, "--transport", transport, "-t", "30s"];
            let mut client = keys.command(&words).spawn().unwrap();
            wait_until(|| agent.workers().len() >= workers);
            signal(client.id(), name);
            client.wait().unwrap();
        }
    }
    // A request that the agent cannot serve is refused, and a failed run does not affect later ones.
    let words = ["measure", "stream", &at, "--port", "1", "--transport", "sctp", "-t", "100ms"];
    let refused = keys.command(&words).output().unwrap();
    assert_ne!(refused.status.code(), Some(0), "{}", stderr(&refused));
    agent.wait_for_workers(0);
    expect(&keys.command(&["measure", "stream", &at, "-t", "100ms"]).output().unwrap(), 0, &[]);
    agent.ends_well();
}
