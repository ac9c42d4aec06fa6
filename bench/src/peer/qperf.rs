//! qperf: streams and exchanges. Its latency is half a round trip, a mean over the run.

use super::unreadable;
use crate::contender::{Contender, Ends, Failure, Job, Server, run_pair, words};
use crate::place::{Place, Ready, free_port};
use crate::work::{Figure, Transport, Values, Verb, Wait, Work, value};

/// qperf.
#[derive(Debug)]
pub struct Qperf;

impl Contender for Qperf {
    fn name(&self) -> &'static str {
        "qperf"
    }

    fn offers(&self, work: Work) -> bool {
        // Its sockets always block.
        matches!(
            work,
            Work::Stream { .. }
                | Work::Datagrams { .. }
                | Work::Verbs { .. }
                | Work::Exchange { wait: Wait::Block, flows: 1, .. }
        )
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let place = Place::new(job.target, job.congestion)?;
        let (control, data) = (free_port()?, free_port()?);
        let (address, seconds) = (place.address(), job.whole_seconds());
        let (test, bytes) = match job.work {
            Work::Stream { bytes } => ("tcp_bw", bytes),
            Work::Datagrams { bytes, .. } => ("udp_bw", bytes),
            Work::Verbs { verb, bytes, is_stream } => {
                let test = match (verb, is_stream) {
                    (Verb::Send, true) => "rc_bw",
                    (Verb::Send, false) => "rc_lat",
                    (Verb::Write, true) => "rc_rdma_write_bw",
                    (Verb::Write, false) => "rc_rdma_write_poll_lat",
                    (Verb::Read, true) => "rc_rdma_read_bw",
                    (Verb::Read, false) => "rc_rdma_read_lat",
                };
                (test, bytes)
            }
            Work::Exchange { transport: Transport::Tcp, bytes, .. } => ("tcp_lat", bytes),
            Work::Exchange { transport: Transport::Udp, bytes, .. } => ("udp_lat", bytes),
            work => return Err(Failure::NotOffered(format!("{work:?}"))),
        };
        let server = Server {
            words: words(&format!("qperf -lp {control}")),
            ready: Ready::Listens(control),
            ends: Ends::Killed,
        };
        // Without -cm no address of the adapter is named, and the pair is not connected (qperf 0.4.11).
        let by = if matches!(job.work, Work::Verbs { .. }) { "-cm 1 -P 1" } else { "" };
        // Eight digits in one unit for all; 0.3 s would be read as 0, which has no end.
        let client = words(&format!(
            "qperf -lp {control} -ip {data} {by} -uu -e 8 -t {seconds} -m {bytes} {address} {test}"
        ));
        read(job.work, bytes, &run_pair(job, &place, &server, &client)?.client)
    }
}

fn read(work: Work, bytes: u32, text: &str) -> Result<Values, Failure> {
    let number = |key: &str, unit: &str| {
        let found = text.lines().find_map(|line| {
            let (name, rest) = line.split_once('=')?;
            let number = rest.trim().strip_suffix(unit)?.trim();
            if name.trim() == key { number.parse::<f64>().ok() } else { None }
        });
        found.ok_or_else(|| unreadable(text))
    };
    Ok(match work.figure() {
        Figure::RttP50Ns => {
            // A read is a round trip; of the others it says half of one.
            let trips =
                if matches!(work, Work::Verbs { verb: Verb::Read, .. }) { 1.0 } else { 2.0 };
            value(Figure::RttMeanNs, trips * number("latency", "ns")?)
        }
        Figure::GoodputBps => value(Figure::GoodputBps, 8.0 * number("bw", "bytes/sec")?),
        Figure::DatagramsPerS => {
            value(Figure::DatagramsPerS, number("recv_bw", "bytes/sec")? / f64::from(bytes))
        }
        figure => value(figure, 1e9 / (2.0 * number("latency", "ns")?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Path;

    #[test]
    fn a_stream_is_in_bytes_a_second() {
        let text = include_str!("../../samples/qperf-tcp_bw.txt");
        let expected = value(Figure::GoodputBps, 8.0 * 2_326_003_712.0);
        assert_eq!(read(Work::Stream { bytes: 131_072 }, 131_072, text), Ok(expected));
    }

    #[test]
    fn datagrams_are_the_received_bytes_over_the_payload() {
        let text = include_str!("../../samples/qperf-udp_bw.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        assert_eq!(read(work, 64, text), Ok(value(Figure::DatagramsPerS, 49_334_656.0 / 64.0)));
    }

    #[test]
    fn an_exchange_takes_twice_the_latency() {
        for (text, latency_ns, transport) in [
            (include_str!("../../samples/qperf-tcp_lat.txt"), 40_888.089, Transport::Tcp),
            (include_str!("../../samples/qperf-udp_lat.txt"), 35_879.588, Transport::Udp),
        ] {
            let work = Work::Exchange { transport, bytes: 1, wait: Wait::Block, flows: 1 };
            let expected = value(Figure::ExchangesPerS, 1e9 / (2.0 * latency_ns));
            assert_eq!(read(work, 1, text), Ok(expected));
        }
    }
}
