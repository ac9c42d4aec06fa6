//! Time that an agent adds to a run.

use std::error::Error;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use fabricmark_stats::mean;

use crate::agent::{Agent, CONFIDENCE, command, judged, told};

/// Runs per command: enough that the start of the program is a small part of the time.
const RUNS: u32 = 50;

/// Goal: a tenth of the duration of these runs, an arbitrary choice.
const ADDED_MS_MAX: f64 = 1.0;

/// Compares the time of commands with many short runs on loopback, with and without an agent.
pub fn latency(program: &Path, pairs: usize) -> Result<u8, Box<dyn Error>> {
    let agent = Agent::start(program, "127.0.0.1:0", None)?;
    let at = agent.address.to_string();
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for pair in 0..2 * pairs {
        let is_remote = (pair % 2 == 0) == (pair % 4 < 2);
        let target = if is_remote { at.as_str() } else { "loopback" };
        let runs = RUNS.to_string();
        let words =
            ["measure", "ping-pong", target, "-t", "10ms", "--warm-up", "0s", "--runs", &runs];
        let began = Instant::now();
        let mut measure = command(program, &agent.key(), &words);
        if !measure.stdout(Stdio::null()).status()?.success() {
            return Err("a run failed".into());
        }
        let each_ms = 1e3 * began.elapsed().as_secs_f64() / f64::from(RUNS) - 10.0;
        if is_remote { remote.push(each_ms) } else { local.push(each_ms) }
    }
    let added: Vec<f64> = remote.iter().zip(&local).map(|(remote, local)| remote - local).collect();
    println!("ms beside a run of 10 ms, the start of the program shared by {RUNS} runs:");
    println!("  workers here      {}", told(mean(&local, CONFIDENCE).as_ref()));
    println!("  worker of agent   {}", told(mean(&remote, CONFIDENCE).as_ref()));
    let added = mean(&added, CONFIDENCE);
    println!("  added             {}", told(added.as_ref()));
    let goal = format!("at most {ADDED_MS_MAX} ms added");
    Ok(judged(added.as_ref(), &goal, |ms| ms <= ADDED_MS_MAX))
}
