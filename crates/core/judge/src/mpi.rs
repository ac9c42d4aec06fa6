//! Evaluates the results of a point of an MPI job.

use fabricmark_plan::{Benchmark, Figure, MpiTransport, Point};
use fabricmark_record::{Figures, Mpi, MpiResult, Provenance, Record, Sourced, Warning};
use fabricmark_stats::{Histogram, LATENCY_TIE};
use fabricmark_wire::exceeds;

/// Bytes of a packet with an empty payload that every transport exceeds: two headers of 20 bytes.
const HEADERS: u64 = 40;

/// Share of the least traffic of an operation that the devices of a transport must show. Counters of packets without
/// their lengths understate it.
const SEEN_MIN: f64 = 0.05;

/// Time by which ranks leave a barrier one after the other, in ns: an arbitrary choice, some messages.
const SKEW_NS: f64 = 2000.0;

/// Bytes that launchers and libraries may exchange beside the operations of a point: an arbitrary choice. Over shared memory
/// both libraries sent less than 0.05 MB in a job (`fabricmark-mpi`, its last line).
const CONTROL_BYTES: u64 = 256 << 10;

/// The figures of a point.
pub fn mpi_figures(point: &Point, result: &MpiResult, provenance: Provenance) -> Figures {
    let slices = result.slices_ns.as_slice();
    let mean_ns = (!slices.is_empty()).then(|| slices.iter().sum::<f64>() / slices.len() as f64);
    let quantile = |q| Some(result.times_ns.quantile(q)? as f64);
    let value = |figure| match figure {
        Figure::OperationTime => mean_ns,
        Figure::OperationTimeP50 => quantile(0.5),
        Figure::OperationTimeP99 => quantile(0.99),
        Figure::Goodput => point.benchmark?.goodput_bps(point.payload, mean_ns?),
        Figure::ArrivalImbalance => result.imbalance_ns.as_ref().and_then(Histogram::mean_ns),
        Figure::Overlap => result.overlap.map(|overlap| overlap.share()),
        _ => None,
    };
    let sourced = |figure| Some((figure, Sourced { value: value(figure)?, provenance }));
    Figure::ALL.into_iter().filter_map(sourced).collect()
}

/// What may make the figures of a point misleading.
pub fn mpi_warnings(mpi: &Mpi, figures: &Figures) -> Vec<Warning> {
    let error_ns = mpi.facts.clock_error_ns;
    let operation_ns = figures.value(Figure::OperationTime).unwrap_or(f64::INFINITY);
    let uses_clocks = mpi.result.imbalance_ns.is_some();
    let is_doubtful = uses_clocks && error_ns as f64 > LATENCY_TIE * operation_ns;
    is_doubtful.then_some(Warning::ClockError { error_ns, operation_ns }).into_iter().collect()
}

/// What makes the results of a record impossible, or different from what was asked for.
pub(crate) fn violations(record: &Record) -> Vec<String> {
    let Some(mpi) = &record.mpi else { return Vec::new() };
    let mut found = Vec::new();
    found.extend(transport(&record.point, mpi));
    found.extend(times(&mpi.result));
    found.extend(verified(&record.point, &mpi.result));
    found.extend(wire(record));
    found
}

/// The devices of the transport moved the payloads, and no others did.
fn transport(point: &Point, mpi: &Mpi) -> Option<String> {
    let asked = point.mpi_transport.unwrap_or(MpiTransport::Auto);
    let sent = |is_rdma: bool, has_ip: bool| -> u64 {
        let of_kind = mpi
            .result
            .traffic
            .iter()
            .filter(|traffic| (traffic.is_rdma, traffic.has_ip) == (is_rdma, has_ip));
        of_kind.map(|traffic| traffic.bytes).sum()
    };
    let network = sent(false, false);
    // InfiniBand ports count the packets of their network devices, too, from LRH to ICRC. A packet has 44 bytes or more on
    // the device (IPoIB, IPv4 and TCP) and up to 35 more at the port (LRH, BTH, DETH, padding, ICRC).
    let of_ip = network.saturating_mul(9).div_ceil(5);
    let rdma = sent(true, false) + sent(true, true).saturating_sub(of_ip);
    // Each operation moves at least one payload from one rank to another.
    let least = mpi.result.operations.saturating_mul(point.payload.0 + HEADERS);
    let needed = ((SEEN_MIN * least as f64) as u64).max(1);
    let used = format!(
        "network devices sent {network} bytes and RDMA devices {rdma}, and {} operations need at \
         least {least}",
        mpi.result.operations
    );
    let fell_back = match asked {
        MpiTransport::Auto | MpiTransport::Ofi => false,
        MpiTransport::Shm => rdma + network > CONTROL_BYTES.max(needed),
        MpiTransport::Tcp => network < needed || rdma > CONTROL_BYTES.max(needed),
        MpiTransport::Rc | MpiTransport::Ud => rdma < needed,
    };
    fell_back.then(|| format!("MPI did not use {asked}: {used}"))
}

/// The mean lies between the extremes, and no rank takes longer than the operation from first start to last end.
fn times(result: &MpiResult) -> Option<String> {
    let slices = result.slices_ns.as_slice();
    let mean = slices.iter().sum::<f64>() / slices.len() as f64;
    let (least, most) = (result.times_ns.min()? as f64, result.times_ns.max()? as f64);
    let own = result.ranks_ns.max_ns;
    let is_below = |one: f64, other: f64| one <= other * (1.0 + LATENCY_TIE) + SKEW_NS;
    let is_possible = is_below(least, mean) && is_below(mean, most) && is_below(own, mean);
    (!is_possible || !mean.is_finite()).then(|| {
        format!(
            "times of operations contradict each other: {mean:.0} ns from first start to last \
             end, {least:.0} to {most:.0} ns one by one, {own:.0} ns at the slowest rank"
        )
    })
}

/// Received payloads were compared with the serial computation.
fn verified(point: &Point, result: &MpiResult) -> Option<String> {
    let has_result = point.payload.0 > 0;
    (has_result && result.verified_elements == 0)
        .then(|| "no received payload was verified".to_owned())
}

/// Whether the wire between two ranks bounds the goodput of a point.
pub(crate) fn is_bounded(point: &Point) -> bool {
    let receives = |benchmark: Benchmark| benchmark.traits().received > 0;
    point.benchmark.is_some_and(receives) && point.ranks() == 2
}

/// The goodput is no higher than the wire allows.
fn wire(record: &Record) -> Option<String> {
    let (bps, bound_bps) = (record.figures.value(Figure::Goodput)?, record.limits.bound_bps()?);
    exceeds(bps, bound_bps, 0, f64::INFINITY).then(|| {
        format!(
            "goodput of {:.2} Mbit/s exceeds the ceiling of {:.2}: both ranks may be on one host, or \
             link is not their network",
            bps / 1e6,
            bound_bps / 1e6
        )
    })
}

#[cfg(test)]
mod tests {
    use fabricmark_record::{MpiFacts, Overlap, RankTimes, Traffic};

    use super::*;

    fn result() -> MpiResult {
        let mut times_ns = Histogram::new();
        [900, 1000, 1100].into_iter().for_each(|ns| times_ns.record(ns));
        MpiResult {
            operations: 3000,
            batch: 1,
            slices_ns: vec![900.0, 1100.0],
            times_ns,
            ranks_ns: RankTimes { min_ns: 990.0, mean_ns: 1000.0, max_ns: 1010.0 },
            verified_elements: 1000,
            ..MpiResult::default()
        }
    }

    fn point(levels: &str) -> Point {
        fabricmark_testkit::point(&format!(
            "pattern=mpi,transport=mpi,family=4,link=loopback,payload=1000,{levels}"
        ))
    }

    #[test]
    fn goodput_is_what_a_rank_receives() {
        let of = |benchmark: &str| {
            let point = point(&format!("benchmark={benchmark}"));
            let figures = mpi_figures(&point, &result(), Provenance::Measured);
            (figures.value(Figure::OperationTime), figures.value(Figure::Goodput))
        };
        assert_eq!(of("PingPong"), (Some(1000.0), Some(8e9)));
        assert_eq!(of("Exchange"), (Some(1000.0), Some(16e9)));
        assert_eq!(of("Allreduce"), (Some(1000.0), None));
    }

    #[test]
    fn overlap_is_a_share() {
        let overlap = Overlap { pure_ns: 10.0, computation_ns: 10.0, both_ns: 15.0 };
        let result = MpiResult { overlap: Some(overlap), ..result() };
        let figures = mpi_figures(&point("benchmark=Ibcast"), &result, Provenance::Measured);
        assert_eq!(figures.value(Figure::Overlap), Some(0.5));
    }

    #[test]
    fn a_transport_that_no_device_has_seen_was_not_used() {
        let said = |asked: &str, traffic: &[(&str, bool, u64)]| {
            let point = point(&format!("benchmark=PingPong,mpi_transport={asked}"));
            let traffic = traffic.iter().map(|&(device, is_rdma, bytes)| Traffic {
                host: 0,
                device: device.to_owned(),
                is_rdma,
                has_ip: is_rdma && device.starts_with("ib"),
                bytes,
            });
            let facts = MpiFacts {
                library: "Open MPI v4".to_owned(),
                standard: "3.1".to_owned(),
                hosts: Vec::new(),
                ranks: Vec::new(),
                rdma: Vec::new(),
                clock: fabricmark_record::ClockFacts {
                    name: "CLOCK_MONOTONIC".to_owned(),
                    read_cost_ns: 20.0,
                    uncertainty_ppm: None,
                },
                clock_error_ns: 0,
            };
            let result = MpiResult { traffic: traffic.collect(), ..result() };
            transport(&point, &Mpi { facts, result, launcher: String::new() })
        };
        let (lo, rxe) = (("lo", false, 4_000_000), ("rxe0/1", true, 4_000_000));
        assert_eq!(said("tcp", &[lo]), None);
        assert_eq!(said("shm", &[]), None);
        assert_eq!(said("rc", &[rxe, ("v0", false, 5_000_000)]), None);
        assert_eq!(said("auto", &[]), None);
        let silent = said("tcp", &[]).unwrap();
        assert_eq!(
            silent,
            "MPI did not use tcp: network devices sent 0 bytes and RDMA devices 0, and 3000 \
             operations need at least 3120000"
        );
        // IP over InfiniBand, which the port counts, too; and RDMA beside it.
        assert_eq!(said("tcp", &[("ib0", false, 4_000_000), ("ib0/1", true, 4_100_000)]), None);
        assert!(said("rc", &[("ib0", false, 4_000_000), ("ib0/1", true, 4_100_000)]).is_some());
        // Short packets, of which the port counts a quarter more.
        let short = [("ib0", false, 4_000_000), ("ib0/1", true, 5_000_000)];
        assert_eq!(said("tcp", &short), None);
        assert!(said("rc", &short).is_some());
        assert!(said("tcp", &[rxe, lo]).is_some());
        assert!(said("shm", &[lo]).is_some());
        assert!(said("rc", &[lo]).is_some());
    }
}
