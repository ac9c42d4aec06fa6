//! iperf3: streams, counted at the server.

use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use super::{At, Peer, unreadable};
use crate::contender::{Ends, Failure, Pair};
use crate::work::{Figure, Path, Values, Work, value};

pub const PEER: Peer = Peer { name: "iperf3", pair, read };

/// Whether the installed version supports super-packets (`--gsro`): 3.18 and later.
static HAS_GSRO: LazyLock<bool> = LazyLock::new(|| {
    let help = Command::new("iperf3").arg("--help").output();
    let says = |text: &[u8]| String::from_utf8_lossy(text).contains("--gsro");
    help.is_ok_and(|help| says(&help.stdout) || says(&help.stderr))
});

fn pair(work: Work, At { address, port, seconds, .. }: &At) -> Option<Pair> {
    let options = match work {
        Work::Stream { bytes } => format!("-l {bytes}"),
        // A thread for each stream since 3.16.
        Work::Threads { threads, is_stream: true } => format!("-l 131072 -P {threads}"),
        // No rate limit: the default for UDP is 1 Mbit/s.
        Work::Datagrams { bytes, path } => {
            let gsro = if path == Path::Gso && *HAS_GSRO { "--gsro" } else { "" };
            format!("-u -b 0 -l {bytes} {gsro}")
        }
        _ => return None,
    };
    let server = format!("iperf3 -4 -s -1 -p {port}");
    let client =
        format!("iperf3 -4 -c {address} -p {port} -t {seconds} -O 0 -i 0 {options} --json");
    Some(Pair::tcp(*port, Ends::Itself, &server, &client))
}

fn read(work: Work, client: &str, _server: &str) -> Result<Values, Failure> {
    Ok(match work.figure() {
        Figure::GoodputBps => value(Figure::GoodputBps, goodput_bps(client)?),
        figure => {
            let [seconds, packets, lost] =
                received(client, ["seconds", "packets", "lost_packets"])?;
            value(figure, (packets - lost) / seconds)
        }
    })
}

/// Goodput of a stream at the receiver in bit/s, without the omitted seconds.
pub fn goodput_bps(text: &str) -> Result<f64, Failure> {
    let [seconds, bytes] = received(text, ["seconds", "bytes"])?;
    Ok(8.0 * bytes / seconds)
}

/// Numbers of `sum_received`.
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
        assert_eq!(read(Work::Stream { bytes: 131_072 }, text, ""), Ok(expected));
    }

    #[test]
    fn datagrams_are_the_sent_ones_less_the_lost_ones() {
        let text = include_str!("../../samples/iperf3-udp.json");
        let expected = value(Figure::DatagramsPerS, (454_754.0 - 240_428.0) / 1.04776);
        assert_eq!(read(Work::Datagrams { bytes: 64, path: Path::Copy }, text, ""), Ok(expected));
    }

    #[test]
    fn an_error_in_the_json_is_the_reason() {
        let text = r#"{"start": {}, "error": "unable to connect to server: Connection refused"}"#;
        let reason = "unable to connect to server: Connection refused".to_owned();
        assert_eq!(read(Work::Stream { bytes: 64 }, text, ""), Err(Failure::Failed(reason)));
    }
}
