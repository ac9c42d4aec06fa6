//! sockperf: exchanges (`ping-pong`), blocking and spinning, and datagrams (`throughput`).

use super::{number, unreadable};
use crate::contender::{Contender, Ends, Failure, Job, Printed, Server, run_pair, words};
use crate::place::{Place, Ready, free_port};
use crate::work::{Figure, Transport, Values, Wait, Work, value};

/// sockperf.
#[derive(Debug)]
pub struct Sockperf;

/// Its header, the least that it sends.
const BYTES_MIN: u32 = 14;

impl Contender for Sockperf {
    fn name(&self) -> &'static str {
        "sockperf"
    }

    fn offers(&self, work: Work) -> bool {
        match work {
            Work::Exchange { bytes, flows: 1, .. } | Work::Datagrams { bytes, .. } => {
                bytes >= BYTES_MIN
            }
            _ => false,
        }
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let place = Place::new(job.target, job.congestion)?;
        let (port, address, seconds) = (free_port()?, place.address(), job.whole_seconds());
        let (mode, bytes, both, ends) = match job.work {
            Work::Exchange { transport, bytes, wait, .. } => {
                let tcp = if transport == Transport::Tcp { "--tcp" } else { "" };
                let spin = if wait == Wait::Spin { "--nonblocked" } else { "" };
                ("ping-pong", bytes, format!("{tcp} {spin}"), Ends::Killed)
            }
            // The client knows what it sent; the server says at its end what it received.
            Work::Datagrams { bytes, .. } => {
                ("throughput --mps=max", bytes, String::new(), Ends::Interrupted)
            }
            work => return Err(Failure::NotOffered(format!("{work:?}"))),
        };
        let is_tcp = both.contains("--tcp");
        let server = Server {
            words: words(&format!("sockperf server -i {address} -p {port} {both}")),
            ready: if is_tcp { Ready::Listens(port) } else { Ready::IsBound(port) },
            ends,
        };
        let client = words(&format!(
            "sockperf {mode} -i {address} -p {port} -m {bytes} -t {seconds} {both}"
        ));
        read(job.work, &run_pair(job, &place, &server, &client)?)
    }
}

fn read(work: Work, printed: &Printed) -> Result<Values, Failure> {
    let Printed { client, server } = printed;
    let rate = match work.figure() {
        Figure::ExchangesPerS => {
            // Its first 400 ms and last 50 ms are left out.
            let valid = client.lines().find(|line| line.contains("[Valid Duration]"));
            let valid = valid.ok_or_else(|| unreadable(client))?;
            let valid = valid.replace(';', " ");
            number(&valid, "ReceivedMessages")? / number(&valid, "RunTime")?
        }
        _ => {
            let received = word_behind(server, "sockperf: Total", "messages received and handled");
            let sent = client.lines().find(|line| line.contains("messages sent in"));
            let seconds = sent
                .and_then(|line| line.split_once("messages sent in")?.1.split_whitespace().next());
            let seconds = seconds.and_then(|word| word.parse::<f64>().ok());
            received.ok_or_else(|| unreadable(server))?
                / seconds.ok_or_else(|| unreadable(client))?
        }
    };
    Ok(value(work.figure(), rate))
}

/// Mean and 99th percentile of half a round trip, in microseconds.
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
    use crate::work::Path;

    fn printed(client: &str, server: &str) -> Printed {
        Printed { client: client.to_owned(), server: server.to_owned() }
    }

    #[test]
    fn an_exchange_counts_within_the_valid_duration() {
        for (text, transport, rate) in [
            (include_str!("../../samples/sockperf-pp-udp.txt"), Transport::Udp, 6_763.0 / 0.524),
            (include_str!("../../samples/sockperf-pp-tcp.txt"), Transport::Tcp, 7_834.0 / 0.550),
        ] {
            let work = Work::Exchange { transport, bytes: 64, wait: Wait::Block, flows: 1 };
            assert_eq!(read(work, &printed(text, "")), Ok(value(Figure::ExchangesPerS, rate)));
        }
    }

    #[test]
    fn datagrams_are_what_the_server_received_over_the_time_of_the_client() {
        let client = include_str!("../../samples/sockperf-tp-udp.txt");
        let server = include_str!("../../samples/sockperf-server-udp.txt");
        let work = Work::Datagrams { bytes: 64, path: Path::Copy };
        let expected = value(Figure::DatagramsPerS, 814_949.0 / 1.001);
        assert_eq!(read(work, &printed(client, server)), Ok(expected));
    }

    #[test]
    fn round_trips_are_told_by_their_halves() {
        let text = include_str!("../../samples/sockperf-pp-udp.txt");
        assert_eq!(half_round_trips_us(text), Ok((38.683, 71.175)));
        assert!(half_round_trips_us("sockperf: Test ended\n").is_err());
    }

    #[test]
    fn payloads_below_its_header_are_not_offered() {
        let of =
            |bytes| Work::Exchange { transport: Transport::Tcp, bytes, wait: Wait::Spin, flows: 1 };
        assert!(!Sockperf.offers(of(1)) && Sockperf.offers(of(14)));
    }
}
