//! The agent under test.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fabricmark_lab::Namespace;
use fabricmark_stats::Estimate;

const PAGE_BYTES: u64 = 4096;

/// Confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// An agent with its own key; dropping it kills the agent and deletes its folder.
pub struct Agent {
    child: Child,
    folder: PathBuf,
    pub address: SocketAddr,
}

impl Agent {
    /// Starts an agent, in `namespace` if given.
    pub fn start(
        program: &Path,
        listen: &str,
        namespace: Option<&Namespace>,
    ) -> Result<Self, Box<dyn Error>> {
        let folder = std::env::temp_dir().join(format!("fabricmark-agents-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let key = folder.join("key.pem");
        let made =
            command(program, &key, &["agent", "--new-key"]).stdout(Stdio::null()).status()?;
        if !made.success() {
            return Err("the key was not made".into());
        }
        // Coordinators of one host have half of the slots.
        let words = ["agent", "--listen", listen, "--at-once", "2000"];
        let mut agent = command(program, &key, &words);
        if let Some(namespace) = namespace {
            namespace.enter(&mut agent);
        }
        let mut child = agent.stderr(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stderr.take().ok_or("no standard error")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening at ").ok_or(line.clone())?.parse()?;
        Ok(Self { child, folder, address })
    }

    pub fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    /// Resident memory in bytes, without its workers (proc(5)).
    pub fn memory_bytes(&self) -> u64 {
        memory_of(self.child.id())
    }

    /// Total resident memory of its workers in bytes, and their number.
    pub fn workers(&self) -> (u64, usize) {
        let id = self.child.id();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let workers: Vec<u32> = text.split_whitespace().filter_map(|id| id.parse().ok()).collect();
        (workers.iter().map(|&id| memory_of(id)).sum(), workers.len())
    }

    /// CPU time of the agent without its workers, in seconds.
    pub fn cpu_s(&self) -> f64 {
        let text =
            fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // Fields 14 and 15, found after the name in parentheses (proc(5)).
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
        ticks.sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn memory_of(id: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    PAGE_BYTES * text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

pub fn command(program: &Path, key: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env("FABRICMARK_KEY_FILE", key);
    command
}

/// Prints whether a figure meets its goal. Returns the exit code: 0 if the whole confidence interval meets the goal, 1 if
/// neither end of it does, otherwise 2.
pub fn judged(found: Option<&Estimate>, goal: &str, meets: impl Fn(f64) -> bool) -> u8 {
    let interval = found.and_then(|found| found.interval.as_ref());
    let ends = interval.map(|interval| (meets(interval.low), meets(interval.high)));
    let (word, code) = match ends {
        Some((true, true)) => ("met", 0),
        Some((false, false)) => ("missed", 1),
        _ => ("inconclusive", 2),
    };
    println!("goal: {goal}: {word}");
    code
}

pub fn told(estimate: Option<&Estimate>) -> String {
    match estimate {
        Some(&Estimate { value, interval: Some(interval), .. }) => {
            format!("{value:.4} ({:.4} to {:.4})", interval.low, interval.high)
        }
        Some(Estimate { value, .. }) => format!("{value:.4}"),
        None => "nothing".to_owned(),
    }
}
