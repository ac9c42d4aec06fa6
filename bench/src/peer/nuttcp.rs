//! nuttcp: streams, counted at the server.

use super::{At, Peer, number};
use crate::contender::{Ends, Failure, Pair};
use crate::work::{Figure, Values, Work, value};

pub const PEER: Peer = Peer { name: "nuttcp", pair, read };

/// nuttcp's megabyte.
const MEBIBYTE: f64 = 1_048_576.0;

fn pair(work: Work, At { address, port, data_port, seconds }: &At) -> Option<Pair> {
    let options = match work {
        Work::Stream { bytes } => format!("-l{bytes}"),
        // No rate limit: the default for UDP is 1 Mbit/s.
        Work::Datagrams { bytes, .. } => format!("-u -Ru -l{bytes}"),
        _ => return None,
    };
    let client =
        format!("nuttcp -4 -P{port} -p{data_port} -T{seconds} {options} -fparse {address}");
    Some(Pair::tcp(*port, Ends::Itself, &format!("nuttcp -4 -S -1 --nofork -P{port}"), &client))
}

fn read(work: Work, client: &str, _server: &str) -> Result<Values, Failure> {
    let number = |key| number(client, key);
    // `real_seconds` has only two digits; bytes over rate are more precise.
    let bits = 8.0 * MEBIBYTE * number("megabytes")?;
    let rate_bps = 1e6 * number("rate_Mbps")?;
    Ok(match work.figure() {
        Figure::GoodputBps => value(Figure::GoodputBps, rate_bps),
        figure => value(figure, (number("pkt")? - number("drop")?) * rate_bps / bits),
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
        assert_eq!(read(Work::Stream { bytes: 131_072 }, text, ""), Ok(expected));
    }

    #[test]
    fn datagrams_are_the_sent_ones_less_the_dropped_ones() {
        let text = include_str!("../../samples/nuttcp-udp.txt");
        let values = read(Work::Datagrams { bytes: 64, path: Path::Copy }, text, "").unwrap();
        // 654,067 - 402,162 = 251,905 in the 1.0003 s that 15.3751 MiB take at 128.9384 Mbit/s.
        let seconds: f64 = 15.3751 * 8.0 * MEBIBYTE / 128.9384e6;
        assert!((seconds - 1.0003).abs() < 1e-4);
        assert!((values[&Figure::DatagramsPerS] - 251_905.0 / seconds).abs() < 1e-6);
    }
}
