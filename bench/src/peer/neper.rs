//! neper: one program per kind of workload, the same at both ends. It waits in epoll.

use super::{At, Peer, number};
use crate::contender::{Ends, Failure, Pair};
use crate::work::{Figure, Transport, Values, Wait, Work, value};

pub const PEER: Peer = Peer { name: "neper", pair, read };

/// Programs that must be in PATH.
pub const PROGRAMS: [&str; 5] = ["tcp_stream", "udp_stream", "tcp_rr", "udp_rr", "tcp_crr"];

fn pair(work: Work, At { address, port, data_port, seconds }: &At) -> Option<Pair> {
    // The receiver of a stream reads 128 KiB at a time, as fabricmark's does.
    let (program, options, written, read_at_once) = match work {
        // Without --no-cork it would set MSG_MORE, which no other tool does.
        Work::Stream { bytes } => {
            ("tcp_stream", "--no-cork -I 0.1".to_owned(), format!("-B {bytes}"), "-B 131072".into())
        }
        Work::Threads { threads, is_stream: true } => {
            let options = format!("--no-cork -I 0.1 -F {threads} -T {threads}");
            ("tcp_stream", options, "-B 131072".to_owned(), "-B 131072".to_owned())
        }
        Work::Threads { threads, is_stream: false } => {
            let options = format!("-Q 64 -R 64 --no-delay -F {threads} -T {threads}");
            ("tcp_rr", options, String::new(), String::new())
        }
        Work::Datagrams { bytes, .. } => {
            ("udp_stream", "-I 0.1".to_owned(), format!("-B {bytes}"), format!("-B {bytes}"))
        }
        Work::Rr { transport, bytes, wait: Wait::Block, flows: 1 } => {
            let (program, nodelay) = match transport {
                Transport::Tcp => ("tcp_rr", "--no-delay"),
                Transport::Udp => ("udp_rr", ""),
            };
            let options = format!("-Q {bytes} -R {bytes} {nodelay}");
            (program, options, String::new(), String::new())
        }
        // Without --time-wait it would close connections by a reset.
        Work::Crr { flows, threads } => {
            let options = format!("-Q 1 -R 1 --time-wait -F {flows} -T {threads}");
            ("tcp_crr", options, String::new(), String::new())
        }
        _ => return None,
    };
    // Without --nolog it leaves a file in the working directory.
    let both = format!("{program} --nolog -4 -C {port} -P {data_port} -l {seconds} {options}");
    let client = format!("{both} {written} -c -H {address}");
    Some(Pair::tcp(*port, Ends::Itself, &format!("{both} {read_at_once}"), &client))
}

fn read(work: Work, client: &str, server: &str) -> Result<Values, Failure> {
    Ok(match work {
        Work::Stream { .. } | Work::Threads { is_stream: true, .. } => {
            value(Figure::GoodputBps, number(server, "local_throughput")?)
        }
        Work::Datagrams { bytes, .. } => {
            let bps = number(server, "local_throughput")?;
            value(Figure::DatagramsPerS, bps / 8.0 / f64::from(bytes))
        }
        // Its `throughput` of transactions is a linear fit through samples: 29 % off in a run of 1 s.
        work => {
            let elapsed_s = number(client, "time_end")? - number(client, "time_start")?;
            value(work.figure(), number(client, "num_transactions")? / elapsed_s)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Path;

    #[test]
    fn streams_are_what_the_server_received() {
        let server = include_str!("../../samples/neper-tcp_stream-server.txt");
        let values = read(Work::Stream { bytes: 131_072 }, "", server);
        assert_eq!(values, Ok(value(Figure::GoodputBps, 17_338_218_106.0)));
        let server = include_str!("../../samples/neper-udp_stream-server.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        let expected = value(Figure::DatagramsPerS, 298_578_526.0 / 8.0 / 64.0);
        assert_eq!(read(work, "", server), Ok(expected));
    }

    #[test]
    fn transactions_are_those_over_the_time_of_the_client() {
        let of = |transport| Work::Rr { transport, bytes: 1, wait: Wait::Block, flows: 1 };
        for (work, client, count, seconds) in [
            (
                of(Transport::Tcp),
                include_str!("../../samples/neper-tcp_rr.txt"),
                12_317.0,
                1.000060485,
            ),
            (
                of(Transport::Udp),
                include_str!("../../samples/neper-udp_rr.txt"),
                13_401.0,
                1.000101995,
            ),
            (
                Work::Crr { flows: 1, threads: 1 },
                include_str!("../../samples/neper-tcp_crr.txt"),
                11_320.0,
                1.000013055,
            ),
        ] {
            let values = read(work, client, "").unwrap();
            let rate = values[&Figure::TransactionsPerS];
            assert!((rate - count / seconds).abs() < 1e-3, "{work:?}: {rate}");
        }
    }
}
