//! Many coordinators at a time.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_proto::{Answer, FrameReader, PROTOCOL_VERSION, Request, encode};
use fabricmark_trust::{Identity, Trusted, client_config, client_connection};
use rustls::{ClientConnection, StreamOwned};

use crate::agent::{Agent, command};

/// Threads that connect: the number of simultaneous handshakes.
const THREADS: usize = 16;

type Held = StreamOwned<ClientConnection, TcpStream>;

/// Goal: time in which 1000 coordinators connect, in proportion for other numbers. An arbitrary choice.
const CONNECT_1000_S: f64 = 10.0;

/// Measures the cost of coordinators that connect, are accepted and stay connected.
pub fn connect(program: &Path, clients: usize) -> Result<u8, Box<dyn Error>> {
    let agent = Agent::start(program, "127.0.0.1:0", None)?;
    let identity = Identity::load(&agent.key())?;
    let settings = client_config(&identity, Arc::new(Trusted::beside(&agent.key())))?;
    let (before, cpu_before) = (agent.memory_bytes(), agent.cpu_s());
    let began = Instant::now();
    let one = |number: usize| -> Result<Held, String> {
        let tcp = TcpStream::connect(agent.address).map_err(|error| error.to_string())?;
        let tls = client_connection(&settings).map_err(|error| error.to_string())?;
        let mut held = StreamOwned::new(tls, tcp);
        let mut session = [0; 16];
        session[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
        let hello = Request::Hello { version: PROTOCOL_VERSION, session };
        held.write_all(&encode(&hello)).map_err(|error| error.to_string())?;
        let mut frames = FrameReader::default();
        let mut buffer = [0; 4096];
        loop {
            let bytes = held.read(&mut buffer).map_err(|error| error.to_string())?;
            if bytes == 0 {
                return Err("hung up".to_owned());
            }
            frames.push(&buffer[..bytes]).map_err(|error| error.to_string())?;
            match frames.next_message::<Answer>().map_err(|error| error.to_string())? {
                Some(Answer::Welcome(_)) => return Ok(held),
                Some(other) => return Err(format!("{other:?}")),
                None => {}
            }
        }
    };
    let held: Vec<Result<Vec<Held>, String>> = thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || (thread..clients).step_by(THREADS).map(one).collect())
            })
            .collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|held| held.unwrap_or_else(|_| Err("a thread panicked".to_owned()))).collect()
    });
    let took = began.elapsed();
    let held: Result<Vec<Vec<Held>>, String> = held.into_iter().collect();
    let held = held?;
    let greeted: usize = held.iter().map(Vec::len).sum();
    let each = agent.memory_bytes().saturating_sub(before) / clients as u64;
    let cpu_ms = 1e3 * (agent.cpu_s() - cpu_before) / clients as f64;
    println!(
        "{greeted} of {clients} coordinators greeted in {:.2} s; {each} bytes of the agent's memory and \
         {cpu_ms:.2} ms of its processor time each",
        took.as_secs_f64()
    );
    drop(held);
    let goal_s = CONNECT_1000_S * clients as f64 / 1000.0;
    let is_met = greeted == clients && took.as_secs_f64() <= goal_s;
    println!("goal: all within {goal_s} s: {}", if is_met { "met" } else { "missed" });
    Ok(u8::from(!is_met))
}

/// Lets many coordinators measure at the same time; reads the agent's memory every second.
pub fn measure(program: &Path, clients: usize, seconds: u64) -> Result<(), Box<dyn Error>> {
    let agent = Agent::start(program, "127.0.0.1:0", None)?;
    let at = agent.address.to_string();
    let time = format!("{seconds}s");
    let words = [
        "measure",
        "ping-pong",
        &at,
        "--transport",
        "udp",
        "--pace",
        "fixed:10/s",
        "-t",
        &time,
        "--warm-up",
        "0s",
        "--cpu",
        "0,1",
    ];
    let mut children = Vec::new();
    let began = Instant::now();
    for _ in 0..clients {
        let mut client = command(program, &agent.key(), &words);
        children.push(client.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
    }
    println!("{clients} coordinators started in {:.1} s", began.elapsed().as_secs_f64());
    let (mut most, mut samples) = (0, Vec::new());
    while children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
        thread::sleep(Duration::from_secs(1));
        let (workers_bytes, workers) = agent.workers();
        most = most.max(workers);
        if workers == clients {
            samples.push((agent.memory_bytes(), workers_bytes / workers as u64));
        }
    }
    let mut failed = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            failed.push(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!("at most {most} workers at once; {} of {clients} runs failed", failed.len());
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        println!(
            "with all at work for {} s: the agent {:.1} MB at first, {:.1} MB at last; a worker {:.2} \
             and {:.2} MB; {:.1} s of the agent's processor time",
            samples.len(),
            mb(first.0),
            mb(last.0),
            mb(first.1),
            mb(last.1),
            agent.cpu_s(),
        );
    }
    failed.first().map_or(Ok(()), |why| Err(why.clone().into()))
}
