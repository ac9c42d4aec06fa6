//! The peers, a file each: how both ends are started, and where the figure stands in what they print.
//!
//! Each does the same work as fabricmark: the same transport, payload and number of flows, both ends
//! on the same processors, calls that block where fabricmark's block, and what was received counts.

pub mod iperf3;
mod neper;
mod netperf;
mod nuttcp;
mod perftest;
mod qperf;
pub mod sockperf;

use std::env;

use crate::contender::{Contender, Failure};

/// The peers that are on PATH, and the names of those that are not.
pub fn find() -> (Vec<Box<dyn Contender>>, Vec<&'static str>) {
    let all: [(&[&str], Box<dyn Contender>); 7] = [
        (&["iperf3"], Box::new(iperf3::Iperf3::new())),
        (&["nuttcp"], Box::new(nuttcp::Nuttcp)),
        (&perftest::PROGRAMS, Box::new(perftest::Perftest)),
        (&["qperf"], Box::new(qperf::Qperf)),
        (&["sockperf"], Box::new(sockperf::Sockperf)),
        (&["netperf", "netserver"], Box::new(netperf::Netperf)),
        (&neper::PROGRAMS, Box::new(neper::Neper)),
    ];
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for (programs, peer) in all {
        if programs.iter().copied().all(is_on_path) {
            found.push(peer);
        } else {
            absent.push(peer.name());
        }
    }
    (found, absent)
}

/// Whether a program is on PATH.
pub fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Output in which the figure is not where it should be.
fn unreadable(text: &str) -> Failure {
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
    Failure::Failed(format!("its output cannot be read: {}", last.trim()))
}

/// The number behind `key` and `=`, up to the next space. The last one, where there are several.
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
