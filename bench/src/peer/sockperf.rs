//! sockperf: transactions (`ping-pong`), blocking and spinning, and datagrams (`throughput`).

use super::{At, Peer, number, unreadable};
use crate::contender::{Ends, Failure, Pair};
use crate::work::{Figure, Transport, Values, Wait, Work, value};

pub const PEER: Peer = Peer { name: "sockperf", pair, read };

/// Minimum payload: sockperf's header.
const BYTES_MIN: u32 = 14;

fn pair(work: Work, At { address, port, seconds, .. }: &At) -> Option<Pair> {
    let (mode, bytes, transport, spin, ends) = match work {
        Work::Rr { transport, bytes: bytes @ BYTES_MIN.., wait, flows: 1 } => {
            let spin = if wait == Wait::Spin { "--nonblocked" } else { "" };
            ("ping-pong", bytes, transport, spin, Ends::Killed)
        }
        // The client reports what it sent; the server reports at its end what it received.
        Work::Datagrams { bytes: bytes @ BYTES_MIN.., .. } => {
            ("throughput --mps=max", bytes, Transport::Udp, "", Ends::Interrupted)
        }
        _ => return None,
    };
    let tcp = if transport == Transport::Tcp { "--tcp" } else { "" };
    let server = format!("sockperf server -i {address} -p {port} {tcp} {spin}");
    let client =
        format!("sockperf {mode} -i {address} -p {port} -m {bytes} -t {seconds} {tcp} {spin}");
    let pair = if transport == Transport::Tcp { Pair::tcp } else { Pair::udp };
    Some(pair(*port, ends, &server, &client))
}

fn read(work: Work, client: &str, server: &str) -> Result<Values, Failure> {
    let rate = match work.figure() {
        Figure::TransactionsPerS => {
            // The first 400 ms and the last 50 ms are omitted.
            let valid = client.lines().find(|line| line.contains("[Valid Duration]"));
            let valid = valid.ok_or_else(|| unreadable(client))?.replace(';', " ");
            number(&valid, "ReceivedMessages")? / number(&valid, "RunTime")?
        }
        _ => {
            let received = word_behind(server, "sockperf: Total", "messages received and handled");
            let seconds: Option<f64> = client.lines().find_map(|line| {
                line.split_once("messages sent in")?.1.split_whitespace().next()?.parse().ok()
            });
            received.ok_or_else(|| unreadable(server))?
                / seconds.ok_or_else(|| unreadable(client))?
        }
    };
    Ok(value(work.figure(), rate))
}

/// Mean and 99th percentile of RTT/2, in microseconds.
pub fn half_round_trips_us(text: &str) -> Result<(f64, f64), Failure> {
    let mean = word_behind(text, "sockperf: Summary: Latency is", "usec");
    let p99 = word_behind(text, "sockperf: ---> percentile 99.000 =", "");
    mean.zip(p99).ok_or_else(|| unreadable(text))
}

/// The number between two texts of a line.
fn word_behind(text: &str, before: &str, behind: &str) -> Option<f64> {
    let inner = |line: &str| {
        line.trim().strip_prefix(before)?.trim().strip_suffix(behind)?.trim().parse().ok()
    };
    text.lines().find_map(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender as _;
    use crate::work::Path;

    #[test]
    fn a_transaction_counts_within_the_valid_duration() {
        for (text, transport, rate) in [
            (include_str!("../../samples/sockperf-pp-udp.txt"), Transport::Udp, 6_763.0 / 0.524),
            (include_str!("../../samples/sockperf-pp-tcp.txt"), Transport::Tcp, 7_834.0 / 0.550),
        ] {
            let work = Work::Rr { transport, bytes: 64, wait: Wait::Block, flows: 1 };
            assert_eq!(read(work, text, ""), Ok(value(Figure::TransactionsPerS, rate)));
        }
    }

    #[test]
    fn datagrams_are_what_the_server_received_over_the_time_of_the_client() {
        let client = include_str!("../../samples/sockperf-tp-udp.txt");
        let server = include_str!("../../samples/sockperf-server-udp.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        let expected = value(Figure::DatagramsPerS, 814_949.0 / 1.001);
        assert_eq!(read(work, client, server), Ok(expected));
    }

    #[test]
    fn round_trips_are_told_by_their_halves() {
        let text = include_str!("../../samples/sockperf-pp-udp.txt");
        assert_eq!(half_round_trips_us(text), Ok((38.683, 71.175)));
        assert!(half_round_trips_us("sockperf: Test ended\n").is_err());
    }

    #[test]
    fn payloads_below_its_header_are_not_offered() {
        let of = |bytes| Work::Rr { transport: Transport::Tcp, bytes, wait: Wait::Spin, flows: 1 };
        assert!(!PEER.offers(of(1)) && PEER.offers(of(14)));
    }
}
