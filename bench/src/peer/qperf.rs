//! qperf: streams and transactions with blocking sockets. Its latency is RTT/2, averaged over the run.

use super::{At, Peer, unreadable};
use crate::contender::{Ends, Failure, Pair};
use crate::work::{Figure, Transport, Values, Verb, Wait, Work, value};

pub const PEER: Peer = Peer { name: "qperf", pair, read };

fn pair(work: Work, At { address, port, data_port, seconds }: &At) -> Option<Pair> {
    let (test, bytes) = match work {
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
        Work::Rr { transport, bytes, wait: Wait::Block, flows: 1 } => match transport {
            Transport::Tcp => ("tcp_lat", bytes),
            Transport::Udp => ("udp_lat", bytes),
        },
        _ => return None,
    };
    // Without -cm, qperf 0.4.11 does not exchange a GID of the adapter, and the queue pairs do not connect.
    let by = if matches!(work, Work::Verbs { .. }) { "-cm 1 -P 1" } else { "" };
    // Eight digits and one unit for all. Fractional seconds are read as 0, which never ends.
    let client = format!(
        "qperf -lp {port} -ip {data_port} {by} -uu -e 8 -t {seconds} -m {bytes} {address} {test}"
    );
    Some(Pair::tcp(*port, Ends::Killed, &format!("qperf -lp {port}"), &client))
}

fn read(work: Work, client: &str, _server: &str) -> Result<Values, Failure> {
    let number = |key: &str, unit: &str| {
        let found = client.lines().find_map(|line| {
            let (name, rest) = line.split_once('=')?;
            let number = rest.trim().strip_suffix(unit)?.trim();
            if name.trim() == key { number.parse::<f64>().ok() } else { None }
        });
        found.ok_or_else(|| unreadable(client))
    };
    Ok(match work {
        Work::Stream { .. } | Work::Verbs { is_stream: true, .. } => {
            value(Figure::GoodputBps, 8.0 * number("bw", "bytes/sec")?)
        }
        Work::Verbs { verb, .. } => {
            value(Figure::RttMeanNs, verb.ways() * number("latency", "ns")?)
        }
        Work::Datagrams { bytes, .. } => {
            value(Figure::DatagramsPerS, number("recv_bw", "bytes/sec")? / f64::from(bytes))
        }
        work => value(work.figure(), 1e9 / (2.0 * number("latency", "ns")?)),
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
        assert_eq!(read(Work::Stream { bytes: 131_072 }, text, ""), Ok(expected));
    }

    #[test]
    fn datagrams_are_the_received_bytes_over_the_payload() {
        let text = include_str!("../../samples/qperf-udp_bw.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        assert_eq!(read(work, text, ""), Ok(value(Figure::DatagramsPerS, 49_334_656.0 / 64.0)));
    }

    #[test]
    fn a_transaction_takes_twice_the_latency() {
        for (text, latency_ns, transport) in [
            (include_str!("../../samples/qperf-tcp_lat.txt"), 40_888.089, Transport::Tcp),
            (include_str!("../../samples/qperf-udp_lat.txt"), 35_879.588, Transport::Udp),
        ] {
            let work = Work::Rr { transport, bytes: 1, wait: Wait::Block, flows: 1 };
            let expected = value(Figure::TransactionsPerS, 1e9 / (2.0 * latency_ns));
            assert_eq!(read(work, text, ""), Ok(expected));
        }
    }
}
