//! neper: a program for each kind of work, the same at both ends. It waits in epoll.

use super::number;
use crate::contender::{Contender, Ends, Failure, Job, Printed, Server, run_pair, words};
use crate::place::{Place, Ready, free_port};
use crate::work::{Figure, Transport, Values, Wait, Work, value};

/// neper.
#[derive(Debug)]
pub struct Neper;

/// What must be on PATH.
pub const PROGRAMS: [&str; 5] = ["tcp_stream", "udp_stream", "tcp_rr", "udp_rr", "tcp_crr"];

impl Contender for Neper {
    fn name(&self) -> &'static str {
        "neper"
    }

    fn offers(&self, work: Work) -> bool {
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
        let (control, data) = (free_port()?, free_port()?);
        let (address, seconds) = (place.address(), job.whole_seconds());
        let (program, options) = match job.work {
            // It would ask the kernel to wait for more with MSG_MORE, which nobody else does.
            Work::Stream { .. } => ("tcp_stream", "--no-cork -I 0.1".to_owned()),
            Work::Datagrams { .. } => ("udp_stream", "-I 0.1".to_owned()),
            Work::Exchange { transport: Transport::Tcp, bytes, .. } => {
                ("tcp_rr", format!("-Q {bytes} -R {bytes} --no-delay"))
            }
            Work::Exchange { transport: Transport::Udp, bytes, .. } => {
                ("udp_rr", format!("-Q {bytes} -R {bytes}"))
            }
            // It would end connections by a reset.
            Work::Crr => ("tcp_crr", "-Q 1 -R 1 --time-wait".to_owned()),
            Work::Departures { .. } | Work::Verbs { .. } | Work::Idle | Work::Emulated(_) => {
                return Err(Failure::NotOffered(format!("{:?}", job.work)));
            }
        };
        // Without --nolog it leaves a file in the working directory.
        let both = format!("{program} --nolog -4 -C {control} -P {data} -l {seconds} {options}");
        // The receiver of a stream reads as fabricmark's does, 128 KiB at a time.
        let (written, read_at_once) = match job.work {
            Work::Stream { bytes } => (format!("-B {bytes}"), "-B 131072".to_owned()),
            Work::Datagrams { bytes, .. } => (format!("-B {bytes}"), format!("-B {bytes}")),
            _ => (String::new(), String::new()),
        };
        let server = Server {
            words: words(&format!("{both} {read_at_once}")),
            ready: Ready::Listens(control),
            ends: Ends::Itself,
        };
        let client = words(&format!("{both} {written} -c -H {address}"));
        read(job.work, &run_pair(job, &place, &server, &client)?)
    }
}

fn read(work: Work, Printed { client, server }: &Printed) -> Result<Values, Failure> {
    Ok(match work {
        Work::Stream { .. } => value(Figure::GoodputBps, number(server, "local_throughput")?),
        Work::Datagrams { bytes, .. } => {
            let bps = number(server, "local_throughput")?;
            value(Figure::DatagramsPerS, bps / 8.0 / f64::from(bytes))
        }
        // Its `throughput` of transactions is a line through samples: 29 % off in a run of 1 s.
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

    fn printed(client: &str, server: &str) -> Printed {
        Printed { client: client.to_owned(), server: server.to_owned() }
    }

    #[test]
    fn streams_are_what_the_server_received() {
        let server = include_str!("../../samples/neper-tcp_stream-server.txt");
        let values = read(Work::Stream { bytes: 131_072 }, &printed("", server));
        assert_eq!(values, Ok(value(Figure::GoodputBps, 17_338_218_106.0)));
        let server = include_str!("../../samples/neper-udp_stream-server.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        let expected = value(Figure::DatagramsPerS, 298_578_526.0 / 8.0 / 64.0);
        assert_eq!(read(work, &printed("", server)), Ok(expected));
    }

    #[test]
    fn exchanges_are_transactions_over_the_time_of_the_client() {
        let of = |transport| Work::Exchange { transport, bytes: 1, wait: Wait::Block, flows: 1 };
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
            (Work::Crr, include_str!("../../samples/neper-tcp_crr.txt"), 11_320.0, 1.000013055),
        ] {
            let values = read(work, &printed(client, "")).unwrap();
            let rate = values[&Figure::ExchangesPerS];
            assert!((rate - count / seconds).abs() < 1e-3, "{work:?}: {rate}");
        }
    }
}
