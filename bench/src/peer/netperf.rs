//! netperf: streams, exchanges, and exchanges with a connection each.

use super::number;
use crate::contender::{Contender, Ends, Failure, Job, Server, run_pair, words};
use crate::place::{Place, Ready, free_port};
use crate::work::{Figure, Transport, Values, Wait, Work, value};

/// netperf with netserver.
#[derive(Debug)]
pub struct Netperf;

/// The figures asked for (netperf's omni output selectors).
const FIGURES: &str = "-k ELAPSED_TIME,REMOTE_RECV_CALLS,REMOTE_BYTES_RECVD,TRANSACTION_RATE";

impl Contender for Netperf {
    fn name(&self) -> &'static str {
        "netperf"
    }

    fn offers(&self, work: Work) -> bool {
        // Its sockets block, unless it was built otherwise.
        matches!(
            work,
            Work::Stream { .. }
                | Work::Datagrams { .. }
                | Work::Crr
                | Work::Exchange { wait: Wait::Block, flows: 1, .. }
        )
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let place = Place::new(job.target, job.congestion)?;
        let (port, address, seconds) = (free_port()?, place.address(), job.whole_seconds());
        let (test, options) = match job.work {
            // The receiver of a stream reads as fabricmark's does, 128 KiB at a time.
            Work::Stream { bytes } => ("TCP_STREAM", format!("-m {bytes} -M 131072")),
            // Without -R 1 its datagrams leave no device.
            Work::Datagrams { bytes, .. } => ("UDP_STREAM", format!("-m {bytes} -M {bytes} -R 1")),
            Work::Crr => ("TCP_CRR", "-r 1,1".to_owned()),
            Work::Exchange { transport: Transport::Tcp, bytes, .. } => {
                ("TCP_RR", format!("-r {bytes},{bytes} -D"))
            }
            Work::Exchange { transport: Transport::Udp, bytes, .. } => {
                ("UDP_RR", format!("-r {bytes},{bytes}"))
            }
            work => return Err(Failure::NotOffered(format!("{work:?}"))),
        };
        let server = Server {
            words: words(&format!("netserver -D -4 -p {port}")),
            ready: Ready::Listens(port),
            ends: Ends::Killed,
        };
        let client = words(&format!(
            "netperf -4 -H {address} -p {port} -t {test} -l {seconds} -P 0 -- {options} {FIGURES}"
        ));
        read(job.work, &run_pair(job, &place, &server, &client)?.client)
    }
}

fn read(work: Work, text: &str) -> Result<Values, Failure> {
    let elapsed_s = number(text, "ELAPSED_TIME")?;
    Ok(match work.figure() {
        Figure::GoodputBps => {
            value(Figure::GoodputBps, 8.0 * number(text, "REMOTE_BYTES_RECVD")? / elapsed_s)
        }
        Figure::DatagramsPerS => {
            value(Figure::DatagramsPerS, number(text, "REMOTE_RECV_CALLS")? / elapsed_s)
        }
        figure => value(figure, number(text, "TRANSACTION_RATE")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Path;

    #[test]
    fn a_stream_is_what_the_server_received() {
        let text = include_str!("../../samples/netperf-tcp_stream.txt");
        let expected = value(Figure::GoodputBps, 8.0 * 929_624_821.0);
        assert_eq!(read(Work::Stream { bytes: 131_072 }, text), Ok(expected));
    }

    #[test]
    fn datagrams_are_what_the_server_received() {
        let text = include_str!("../../samples/netperf-udp_stream.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        assert_eq!(read(work, text), Ok(value(Figure::DatagramsPerS, 101_030.0)));
    }

    #[test]
    fn exchanges_are_transactions() {
        let of = |transport| Work::Exchange { transport, bytes: 1, wait: Wait::Block, flows: 1 };
        for (work, text, rate) in [
            (of(Transport::Tcp), include_str!("../../samples/netperf-tcp_rr.txt"), 6006.679),
            (of(Transport::Udp), include_str!("../../samples/netperf-udp_rr.txt"), 6436.995),
            (Work::Crr, include_str!("../../samples/netperf-tcp_crr.txt"), 4916.641),
        ] {
            assert_eq!(read(work, text), Ok(value(Figure::ExchangesPerS, rate)));
        }
    }
}
