//! netperf: streams, request-response (RR), and RR with a connection per transaction (CRR).

use super::{At, Peer, number};
use crate::contender::{Ends, Failure, Pair};
use crate::work::{Figure, Transport, Values, Wait, Work, value};

/// Its sockets block, unless it was built otherwise.
pub const PEER: Peer = Peer { name: "netperf", pair, read };

/// Output selectors of netperf's omni tests.
const FIGURES: &str = "-k ELAPSED_TIME,REMOTE_RECV_CALLS,REMOTE_BYTES_RECVD,TRANSACTION_RATE";

fn pair(work: Work, At { address, port, seconds, .. }: &At) -> Option<Pair> {
    let (test, options) = match work {
        // The receiver of a stream reads 128 KiB at a time, as fabricmark's does.
        Work::Stream { bytes } => ("TCP_STREAM", format!("-m {bytes} -M 131072")),
        // Without -R 1 its datagrams leave no device.
        Work::Datagrams { bytes, .. } => ("UDP_STREAM", format!("-m {bytes} -M {bytes} -R 1")),
        Work::Crr { flows: 1, .. } => ("TCP_CRR", "-r 1,1".to_owned()),
        Work::Rr { transport, bytes, wait: Wait::Block, flows: 1 } => match transport {
            Transport::Tcp => ("TCP_RR", format!("-r {bytes},{bytes} -D")),
            Transport::Udp => ("UDP_RR", format!("-r {bytes},{bytes}")),
        },
        _ => return None,
    };
    let client = format!(
        "netperf -4 -H {address} -p {port} -t {test} -l {seconds} -P 0 -- {options} {FIGURES}"
    );
    Some(Pair::tcp(*port, Ends::Killed, &format!("netserver -D -4 -p {port}"), &client))
}

fn read(work: Work, client: &str, _server: &str) -> Result<Values, Failure> {
    let number = |key| number(client, key);
    let elapsed_s = number("ELAPSED_TIME")?;
    let rate = match work.figure() {
        Figure::GoodputBps => 8.0 * number("REMOTE_BYTES_RECVD")? / elapsed_s,
        Figure::DatagramsPerS => number("REMOTE_RECV_CALLS")? / elapsed_s,
        _ => number("TRANSACTION_RATE")?,
    };
    Ok(value(work.figure(), rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Path;

    #[test]
    fn a_stream_is_what_the_server_received() {
        let text = include_str!("../../samples/netperf-tcp_stream.txt");
        let expected = value(Figure::GoodputBps, 8.0 * 929_624_821.0);
        assert_eq!(read(Work::Stream { bytes: 131_072 }, text, ""), Ok(expected));
    }

    #[test]
    fn datagrams_are_what_the_server_received() {
        let text = include_str!("../../samples/netperf-udp_stream.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        assert_eq!(read(work, text, ""), Ok(value(Figure::DatagramsPerS, 101_030.0)));
    }

    #[test]
    fn rr_counts_transactions() {
        let of = |transport| Work::Rr { transport, bytes: 1, wait: Wait::Block, flows: 1 };
        for (work, text, rate) in [
            (of(Transport::Tcp), include_str!("../../samples/netperf-tcp_rr.txt"), 6006.679),
            (of(Transport::Udp), include_str!("../../samples/netperf-udp_rr.txt"), 6436.995),
            (
                Work::Crr { flows: 1, threads: 1 },
                include_str!("../../samples/netperf-tcp_crr.txt"),
                4916.641,
            ),
        ] {
            assert_eq!(read(work, text, ""), Ok(value(Figure::TransactionsPerS, rate)));
        }
    }
}
