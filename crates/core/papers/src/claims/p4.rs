//! P4: Soft RoCE and plain Ethernet under Intel's MPI benchmarks. The paper has figures only, so its
//! claims wait for runs over RDMA.

use std::ops::RangeInclusive;

use fabricmark_wire::Family;

use super::figures::{Figures, Origin, Quantity};
use super::limit::{send_mbps, tcp_stream_mbps};
use super::outcome::{Missing, Outcome};
use super::tally::{Relation, Tally};
use super::value::Value;
use super::{Claim, of_networks as claim};
use Quantity::{GoodputMbps, LatencyUs};

/// The claims of P4: s is Soft RoCE, e Ethernet, X the bytes of a message.
pub static CLAIMS: &[Claim] = &[
    claim(
        "P4-01",
        "PingPong throughput is almost the same for small messages; from 128 to 8,192 bytes Soft RoCE is \
         better.",
        "s within 10 % of e for X < 128; s > e for 128 <= X <= 8,192",
        |f| judge(f, "PingPong", GoodputMbps, 128, &(128..=8192)),
    ),
    claim(
        "P4-02",
        "PingPong latency of Soft RoCE is better at every size.",
        "s < e at every X",
        |f| judge(f, "PingPong", LatencyUs, 0, &(0..=u64::MAX)),
    ),
    claim(
        "P4-03",
        "PingPing throughput is almost the same up to 1 KiB; above, Soft RoCE is better.",
        "s within 10 % of e for X <= 1,024; s > e above",
        |f| judge(f, "PingPing", GoodputMbps, 1025, &(1025..=u64::MAX)),
    ),
    claim(
        "P4-04",
        "Sendrecv is almost the same for small messages; from 256 bytes Soft RoCE is faster.",
        "s within 10 % of e for X < 256; s > e from 256",
        |f| judge(f, "Sendrecv", GoodputMbps, 256, &(256..=u64::MAX)),
    ),
    claim(
        "P4-05",
        "Exchange is almost the same for small messages; from 128 bytes Soft RoCE is better.",
        "s within 10 % of e for X < 128; s > e from 128",
        |f| judge(f, "Exchange", GoodputMbps, 128, &(128..=u64::MAX)),
    ),
    claim(
        "P4-06",
        "Reduce over Soft RoCE is slightly better below 4,096 bytes, mixed above.",
        "time: s < e for X < 4,096",
        |f| judge(f, "Reduce", LatencyUs, 0, &(0..=4095)),
    ),
    claim("P4-07", "Gatherv over Soft RoCE is faster.", "time: s < e at every X", |f| {
        judge(f, "Gatherv", LatencyUs, 0, &(0..=u64::MAX))
    }),
    claim(
        "P4-08",
        "Scatter over Soft RoCE is better above 2 bytes.",
        "time: s < e for X > 2",
        |f| judge(f, "Scatter", LatencyUs, 0, &(3..=u64::MAX)),
    ),
    claim(
        "P4-09",
        "Soft RoCE has the higher throughput for long messages.",
        "s > e at the longest message; the wire favours TCP there, so that would be an effect of the hosts",
        long_messages,
    ),
];

/// What “almost the same” is taken to mean.
const ALIKE: f64 = 0.1;

/// Whether RoCE is like Ethernet for sizes below `alike_below`, and better for sizes in `better`.
fn judge(
    figures: &Figures,
    benchmark: &'static str,
    quantity: Quantity,
    alike_below: u64,
    better: &RangeInclusive<u64>,
) -> Outcome {
    if figures.origin == Origin::Published {
        let reason = format!("{benchmark} is a figure without numbers");
        return Outcome::missing(Missing::FigureOnly(reason));
    }
    let relation = match quantity {
        GoodputMbps => Relation::Above,
        LatencyUs => Relation::Below,
    };
    let mut tally = Tally::default();
    for (roce, ethernet) in figures.rdma(quantity, benchmark) {
        let name = format!("{benchmark}, {} against {}", roce.network, ethernet.network);
        tally.part(&name);
        for (size, s, e) in roce.with(ethernet) {
            let what = format!("{name}, {} B", super::value::thousands(size));
            if size < alike_below {
                tally.within(what, s.over(e), Value::exact(1.0), ALIKE, "");
            } else if better.contains(&size) {
                tally.compare(what, s, relation, e, figures.scale(quantity));
            }
        }
    }
    tally.outcome("no runs of MPI's benchmarks over RoCE and Ethernet: this version runs no MPI")
}

/// Bytes of a message of which headers of the message itself are no part worth naming.
const LONG: u64 = 1 << 20;

fn long_messages(figures: &Figures) -> Outcome {
    let mut outcome = judge(figures, "PingPong", GoodputMbps, 0, &(65_536..=u64::MAX));
    let words = [
        ("RoCEv1", send_mbps("rocev1:1G", Family::V4, LONG)),
        ("RoCEv2/IPv4", send_mbps("rocev2:1G", Family::V4, LONG)),
        ("RoCEv2/IPv6", send_mbps("rocev2:1G", Family::V6, LONG)),
        ("TCP/IPv4", tcp_stream_mbps("ethernet:1G", Family::V4, false)),
    ];
    let ceilings: Option<Vec<String>> =
        words.into_iter().map(|(name, mbps)| Some(format!("{name} {:.2}", mbps?))).collect();
    if let Some(ceilings) = ceilings {
        outcome =
            outcome.noting(format!("ceilings at 1GbE, MTU 1500: {} Mb/s", ceilings.join(", ")));
    }
    outcome
}
