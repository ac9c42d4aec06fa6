//! A flood of unauthorised connections to the agent's port.

use std::error::Error;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_stats::geometric_mean;
use serde_json::Value;

use crate::agent::{Agent, CONFIDENCE, command, judged, told};

/// First bytes of a TLS handshake that never continues.
const GREETING: [u8; 6] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01];

/// Connections that each flooder keeps open; beyond that, it closes the oldest.
const KEPT: usize = 200;

/// Goal: a flood of the agent's port costs at most 2 % more goodput than one of a listener that accepts and closes. An
/// arbitrary choice.
const RATIO_MIN: f64 = 0.98;

/// Compares the goodput of a measurement during a flood of the agent's port and during a flood of a plain listener.
pub fn flood(program: &Path, rate: u32, pairs: usize, seconds: f64) -> Result<u8, Box<dyn Error>> {
    let agent = Agent::start(program, "127.0.0.1:0", None)?;
    let bare = TcpListener::bind("127.0.0.1:0")?;
    let bare_at = bare.local_addr()?;
    // This thread ends with the process.
    thread::spawn(move || {
        while let Ok((stream, _)) = bare.accept() {
            drop(stream);
        }
    });
    let (mut ratios, mut quiet) = (Vec::new(), Vec::new());
    let count = AtomicU64::new(0);
    for pair in 0..pairs {
        let under = |at: Option<SocketAddr>| -> Result<f64, Box<dyn Error>> {
            let stop = AtomicBool::new(false);
            let (stopped, count) = (&stop, &count);
            thread::scope(|scope| {
                if let Some(at) = at {
                    scope.spawn(move || pour(at, rate, stopped, count));
                }
                let figure = goodput(program, &agent, seconds);
                stop.store(true, Relaxed);
                figure
            })
        };
        // Alternate the order, so that a drift of the machine favours neither.
        let (flooded, bare) = if pair % 2 == 0 {
            let flooded = under(Some(agent.address))?;
            (flooded, under(Some(bare_at))?)
        } else {
            let bare = under(Some(bare_at))?;
            (under(Some(agent.address))?, bare)
        };
        quiet.push(under(None)?);
        println!("pair {pair}: {:.0} and {:.0} Mbit/s", flooded / 1e6, bare / 1e6);
        ratios.push(flooded / bare);
    }
    let without = quiet.iter().sum::<f64>() / quiet.len().max(1) as f64;
    let ratio = geometric_mean(&ratios, CONFIDENCE);
    println!(
        "agent's port flooded / bare listener flooded: {}; without a flood {:.0} Mbit/s; {} connections",
        told(ratio.as_ref()),
        without / 1e6,
        count.load(Relaxed),
    );
    let goal = format!("a ratio of at least {RATIO_MIN}");
    Ok(judged(ratio.as_ref(), &goal, |ratio| ratio >= RATIO_MIN))
}

/// Opens connections at a rate until told to stop.
fn pour(at: SocketAddr, rate: u32, stop: &AtomicBool, count: &AtomicU64) {
    let gap = Duration::from_secs(1) / rate;
    let mut due = Instant::now();
    let mut kept: Vec<TcpStream> = Vec::new();
    while !stop.load(Relaxed) {
        if let Ok(mut stream) = TcpStream::connect(at) {
            let _ = stream.write_all(&GREETING);
            kept.push(stream);
            count.fetch_add(1, Relaxed);
        }
        if kept.len() > KEPT {
            kept.remove(0);
        }
        due += gap;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Goodput of a stream to the agent, in bit/s.
fn goodput(program: &Path, agent: &Agent, seconds: f64) -> Result<f64, Box<dyn Error>> {
    let (at, time) = (agent.address.to_string(), format!("{}ms", (1e3 * seconds) as u64));
    let words = ["measure", "stream", &at, "-t", &time, "--json"];
    let output = command(program, &agent.key(), &words).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let found = told["records"].as_array().and_then(|records| records.last()).cloned();
    let figure = found.unwrap_or_default()["figures"]["goodput_bps"]["value"].as_f64();
    figure.ok_or_else(|| "no goodput in the answer".into())
}
