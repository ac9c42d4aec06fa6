//! iperf3: streams. What the server received counts.

use std::process::Command;

use serde_json::Value;

use super::unreadable;
use crate::contender::{Contender, Ends, Failure, Job, Server, run_pair, words};
use crate::place::{Place, Ready, free_port};
use crate::work::{Figure, Path, Values, Work, value};

/// iperf3, which has super-packets (`--gsro`) from 3.18 on.
#[derive(Debug)]
pub struct Iperf3 {
    has_gsro: bool,
}

impl Iperf3 {
    /// Asks the installed version what it can.
    pub fn new() -> Self {
        let help = Command::new("iperf3").arg("--help").output();
        let says = |text: &[u8]| String::from_utf8_lossy(text).contains("--gsro");
        Self { has_gsro: help.is_ok_and(|help| says(&help.stdout) || says(&help.stderr)) }
    }
}

impl Contender for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn offers(&self, work: Work) -> bool {
        matches!(work, Work::Stream { .. } | Work::Datagrams { .. })
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let place = Place::new(job.target, job.congestion)?;
        let (port, address, seconds) = (free_port()?, place.address(), job.whole_seconds());
        let options = match job.work {
            Work::Stream { bytes } => format!("-l {bytes}"),
            // No limit of the rate: its default for UDP is 1 Mbit/s.
            Work::Datagrams { bytes, path: Path::Gso } if self.has_gsro => {
                format!("-u -b 0 -l {bytes} --gsro")
            }
            Work::Datagrams { bytes, .. } => format!("-u -b 0 -l {bytes}"),
            work => return Err(Failure::NotOffered(format!("{work:?}"))),
        };
        let server = Server {
            words: words(&format!("iperf3 -4 -s -1 -p {port}")),
            ready: Ready::Listens(port),
            ends: Ends::Itself,
        };
        let client = words(&format!(
            "iperf3 -4 -c {address} -p {port} -t {seconds} -O 0 -i 0 {options} --json"
        ));
        read(job.work, &run_pair(job, &place, &server, &client)?.client)
    }
}

fn read(work: Work, text: &str) -> Result<Values, Failure> {
    Ok(match work.figure() {
        Figure::GoodputBps => value(Figure::GoodputBps, goodput_bps(text)?),
        figure => {
            let [seconds, packets, lost] = received(text, ["seconds", "packets", "lost_packets"])?;
            value(figure, (packets - lost) / seconds)
        }
    })
}

/// What the receiver of a stream got, in bit/s; without the seconds that were to be omitted.
pub fn goodput_bps(text: &str) -> Result<f64, Failure> {
    let [seconds, bytes] = received(text, ["seconds", "bytes"])?;
    Ok(8.0 * bytes / seconds)
}

/// Numbers of what was received.
fn received<const N: usize>(text: &str, keys: [&str; N]) -> Result<[f64; N], Failure> {
    let document: Value = serde_json::from_str(text).map_err(|_| unreadable(text))?;
    if let Some(error) = document["error"].as_str() {
        return Err(Failure::Failed(error.to_owned()));
    }
    let received = &document["end"]["sum_received"];
    let mut numbers = [0.0; N];
    for (number, key) in numbers.iter_mut().zip(keys) {
        *number = received[key].as_f64().ok_or_else(|| unreadable(text))?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_what_the_receiver_got() {
        let text = include_str!("../../samples/iperf3-tcp.json");
        let expected = value(Figure::GoodputBps, 8.0 * 1_116_602_368.0 / 1.011585);
        assert_eq!(read(Work::Stream { bytes: 131_072 }, text), Ok(expected));
    }

    #[test]
    fn datagrams_are_the_sent_ones_less_the_lost_ones() {
        let text = include_str!("../../samples/iperf3-udp.json");
        let expected = value(Figure::DatagramsPerS, (454_754.0 - 240_428.0) / 1.04776);
        assert_eq!(read(Work::Datagrams { bytes: 64, path: Path::Copy }, text), Ok(expected));
    }

    #[test]
    fn an_error_in_the_json_is_the_reason() {
        let text = r#"{"start": {}, "error": "unable to connect to server: Connection refused"}"#;
        let reason = "unable to connect to server: Connection refused".to_owned();
        assert_eq!(read(Work::Stream { bytes: 64 }, text), Err(Failure::Failed(reason)));
    }
}
