//! The peers, a file each: how to start both ends, and where their output has the figure.
//!
//! Each performs the same workload as fabricmark: same transport, payload and number of flows, both ends on the same
//! CPUs, blocking calls where fabricmark's block. Only received data counts.

pub mod iperf3;
mod neper;
mod netperf;
mod nuttcp;
mod perftest;
mod qperf;
pub mod sockperf;

use std::env;

use crate::contender::{Contender, Failure, Job, Pair};
use crate::place::{Place, free_port};
use crate::work::{Values, Work};

/// Client and server programs of another measurement tool over sockets.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    /// Command lines for a workload; `None` if the tool does not support it.
    pair: fn(Work, &At) -> Option<Pair>,
    /// Reads the figures from the output of client and server.
    read: fn(Work, &str, &str) -> Result<Values, Failure>,
}

/// Parameters of command lines other than the workload: the server's address, free ports, whole seconds.
#[derive(Debug, Default)]
struct At {
    address: String,
    port: u16,
    data_port: u16,
    seconds: u64,
}

impl Contender for Peer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn offers(&self, work: Work) -> bool {
        (self.pair)(work, &At::default()).is_some()
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let place = Place::new(job)?;
        let (address, seconds) = (place.address(), job.whole_seconds());
        let at = At { address, port: free_port()?, data_port: free_port()?, seconds };
        let pair = (self.pair)(job.work, &at);
        let pair = pair.ok_or_else(|| Failure::NotOffered(format!("{:?}", job.work)))?;
        let (client, server) = pair.run(job, &place)?;
        (self.read)(job.work, &client, &server)
    }
}

/// The peers in PATH, and the names of the missing ones.
pub fn find() -> (Vec<Box<dyn Contender>>, Vec<&'static str>) {
    let all: [(&[&str], Box<dyn Contender>); 7] = [
        (&["iperf3"], Box::new(iperf3::PEER)),
        (&["nuttcp"], Box::new(nuttcp::PEER)),
        (&perftest::PROGRAMS, Box::new(perftest::Perftest)),
        (&["qperf"], Box::new(qperf::PEER)),
        (&["sockperf"], Box::new(sockperf::PEER)),
        (&["netperf", "netserver"], Box::new(netperf::PEER)),
        (&neper::PROGRAMS, Box::new(neper::PEER)),
    ];
    let (found, absent): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(programs, _)| programs.iter().copied().all(is_on_path));
    (
        found.into_iter().map(|(_, peer)| peer).collect(),
        absent.iter().map(|(_, peer)| peer.name()).collect(),
    )
}

pub fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Error for output without the expected figure.
fn unreadable(text: &str) -> Failure {
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
    Failure::Failed(format!("its output cannot be read: {}", last.trim()))
}

/// The last number in `text` after `key` and `=`, up to the next space.
fn number(text: &str, key: &str) -> Result<f64, Failure> {
    let found = text.split_whitespace().rev().find_map(|word| {
        let (name, value) = word.split_once('=')?;
        if name == key { value.parse().ok() } else { None }
    });
    found.ok_or_else(|| unreadable(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_whole_key() {
        let text = "throughput=12.5\nlocal_throughput=7 x=y\n";
        assert_eq!(number(text, "throughput"), Ok(12.5));
        assert_eq!(number(text, "local_throughput"), Ok(7.0));
        assert!(number(text, "x").is_err() && number(text, "local").is_err());
    }
}
