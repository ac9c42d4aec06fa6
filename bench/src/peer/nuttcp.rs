//! nuttcp: streams. What the server received counts.

use super::number;
use crate::contender::{Contender, Ends, Failure, Job, Server, run_pair, words};
use crate::place::{Place, Ready, free_port};
use crate::work::{Figure, Values, Work, value};

/// nuttcp.
#[derive(Debug)]
pub struct Nuttcp;

/// nuttcp's megabyte.
const MEBIBYTE: f64 = 1_048_576.0;

impl Contender for Nuttcp {
    fn name(&self) -> &'static str {
        "nuttcp"
    }

    fn offers(&self, work: Work) -> bool {
        matches!(work, Work::Stream { .. } | Work::Datagrams { .. })
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let place = Place::new(job.target, job.congestion)?;
        let (control, data) = (free_port()?, free_port()?);
        let (address, seconds) = (place.address(), job.whole_seconds());
        let options = match job.work {
            Work::Stream { bytes } => format!("-l{bytes}"),
            // No limit of the rate: its default for UDP is 1 Mbit/s.
            Work::Datagrams { bytes, .. } => format!("-u -Ru -l{bytes}"),
            work => return Err(Failure::NotOffered(format!("{work:?}"))),
        };
        let server = Server {
            words: words(&format!("nuttcp -4 -S -1 --nofork -P{control}")),
            ready: Ready::Listens(control),
            ends: Ends::Itself,
        };
        let client = words(&format!(
            "nuttcp -4 -P{control} -p{data} -T{seconds} {options} -fparse {address}"
        ));
        read(job.work, &run_pair(job, &place, &server, &client)?.client)
    }
}

fn read(work: Work, text: &str) -> Result<Values, Failure> {
    // `real_seconds` has two digits only; bytes over the rate give the rest.
    let bits = 8.0 * MEBIBYTE * number(text, "megabytes")?;
    let rate_bps = 1e6 * number(text, "rate_Mbps")?;
    Ok(match work.figure() {
        Figure::GoodputBps => value(Figure::GoodputBps, rate_bps),
        figure => {
            let received = number(text, "pkt")? - number(text, "drop")?;
            value(figure, received * rate_bps / bits)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Path;

    #[test]
    fn a_stream_is_the_rate_that_was_received() {
        let text = include_str!("../../samples/nuttcp-tcp.txt");
        let expected = value(Figure::GoodputBps, 11860.6426 * 1e6);
        assert_eq!(read(Work::Stream { bytes: 131_072 }, text), Ok(expected));
    }

    #[test]
    fn datagrams_are_the_sent_ones_less_the_dropped_ones() {
        let text = include_str!("../../samples/nuttcp-udp.txt");
        let values = read(Work::Datagrams { bytes: 64, path: Path::Copy }, text).unwrap();
        // 654,067 - 402,162 = 251,905 in the 1.0003 s that 15.3751 MiB take at 128.9384 Mbit/s.
        let seconds: f64 = 15.3751 * 8.0 * MEBIBYTE / 128.9384e6;
        assert!((seconds - 1.0003).abs() < 1e-4);
        assert!((values[&Figure::DatagramsPerS] - 251_905.0 / seconds).abs() < 1e-6);
    }
}
