//! perftest: one program per verb and figure. Its latency is RTT/2, except for reads, where it is the RTT; its typical
//! latency is the median.

use std::net::IpAddr;

use fabricmark_rdma::ports;

use super::unreadable;
use crate::contender::{Contender, Ends, Failure, Job, Pair};
use crate::place::{Place, Target, free_port};
use crate::work::{Figure, Values, Work, value};

#[derive(Debug)]
pub struct Perftest;

pub const PROGRAMS: [&str; 6] =
    ["ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_send_bw", "ib_write_bw", "ib_read_bw"];

/// Round trips of a run. A fixed number, because a run of a fixed duration prints no median.
const ROUND_TRIPS: u32 = 5000;

/// Bytes of a run, independent of its speed.
const BYTES: u32 = 32 << 20;

/// Minimum messages of a run.
const MESSAGES_MIN: u32 = 500;

/// Maximum messages of a stream: short ones would take very long with Soft RoCE.
const MESSAGES_MAX: u32 = 50_000;

impl Contender for Perftest {
    fn name(&self) -> &'static str {
        "perftest"
    }

    fn offers(&self, work: Work) -> bool {
        matches!(work, Work::Verbs { .. })
    }

    fn run(&self, job: &Job<'_>) -> Result<Values, Failure> {
        let (Target::Adapters([from, to]), Work::Verbs { verb, bytes, is_stream }) =
            (job.target, job.work)
        else {
            return Err(Failure::NotOffered(format!("{:?}", job.work)));
        };
        let port = free_port()?;
        let (kind, most) = match is_stream {
            true => ("bw --report_gbits", MESSAGES_MAX),
            false => ("lat", ROUND_TRIPS),
        };
        let count = (BYTES / bytes).clamp(MESSAGES_MIN, most);
        let line = |address| -> Result<String, Failure> {
            let at = adapter(address)?;
            Ok(format!("ib_{verb}_{kind} -F {at} -p {port} -s {bytes} -n {count}"))
        };
        let client = format!("{} {to}", line(from)?);
        let pair = Pair::tcp(port, Ends::Itself, &line(to)?, &client);
        let (client, _) = pair.run(job, &Place::new(job)?)?;
        read(job.work, bytes, &client)
    }
}

/// Options for the adapter that has an address, and for the index of its GID.
fn adapter(address: IpAddr) -> Result<String, Failure> {
    let found = ports().into_iter().find_map(|port| {
        let gid = port.gids.iter().rfind(|gid| gid.ip() == address)?.index;
        Some(format!("-d {} -x {gid}", port.adapter))
    });
    found.ok_or_else(|| Failure::NotOffered(format!("no adapter has the address {address}")))
}

/// Parses the line of figures: bytes, iterations, minimum, maximum, typical ... in microseconds; or bytes, messages,
/// peak and mean in Gbit/s.
fn read(work: Work, bytes: u32, text: &str) -> Result<Values, Failure> {
    let fields = text.lines().find_map(|line| {
        let fields: Vec<f64> =
            line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        (fields.len() >= 4 && fields[0] == f64::from(bytes)).then_some(fields)
    });
    let fields = fields.ok_or_else(|| unreadable(text))?;
    match work {
        Work::Verbs { is_stream: true, .. } => Ok(value(Figure::GoodputBps, 1e9 * fields[3])),
        Work::Verbs { verb, .. } => {
            let typical_us = *fields.get(4).ok_or_else(|| unreadable(text))?;
            Ok(value(Figure::RttP50Ns, 1e3 * verb.ways() * typical_us))
        }
        _ => Err(unreadable(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Verb;

    #[test]
    fn a_typical_latency_is_half_a_round_trip_but_of_a_read() {
        let text = include_str!("../../samples/perftest-ib_send_lat.txt");
        let work = |verb| Work::Verbs { verb, bytes: 64, is_stream: false };
        let send = read(work(Verb::Send), 64, text).unwrap();
        let whole = read(work(Verb::Read), 64, text).unwrap();
        assert_eq!(send[&Figure::RttP50Ns], 2.0 * whole[&Figure::RttP50Ns]);
        assert!(whole[&Figure::RttP50Ns] > 1000.0, "{whole:?}");
        assert!(read(work(Verb::Send), 128, text).is_err());
    }

    #[test]
    fn a_stream_has_its_mean() {
        let text = include_str!("../../samples/perftest-ib_write_bw.txt");
        let work = Work::Verbs { verb: Verb::Write, bytes: 65_536, is_stream: true };
        let values = read(work, 65_536, text).unwrap();
        assert!(values[&Figure::GoodputBps] > 1e6, "{values:?}");
    }
}
