//! P4: Soft RoCE and plain Ethernet under the Intel MPI Benchmarks. The paper has graphs only, so its claims can be
//! evaluated only on new runs: of MPI benchmarks over TCP and over verbs.

use std::ops::RangeInclusive;

use fabricmark_wire::Family;

use super::Judge::Networks;
use super::figures::{Figures, Origin, Quantity};
use super::limit::{send_mbps, tcp_stream_mbps};
use super::outcome::Missing;
use super::tally::{Relation, Tally};
use super::value::Value;
use super::{Claim, claim};
use Quantity::{GoodputMbps, LatencyUs};

/// The claims of P4. s is Soft RoCE, e is Ethernet, X is the message size in bytes.
pub static CLAIMS: &[Claim] = &[
    claim(
        "P4-01",
        "PingPong throughput is almost the same for small messages; from 128 to 8,192 bytes Soft RoCE is \
         better.",
        "s within 10 % of e for X < 128; s > e for 128 <= X <= 8,192",
        Networks(|f, t| judge(f, t, "PingPong", GoodputMbps, 128, &(128..=8192))),
    ),
    claim(
        "P4-02",
        "PingPong latency of Soft RoCE is better at every size.",
        "s < e at every X",
        Networks(|f, t| judge(f, t, "PingPong", LatencyUs, 0, &(0..=u64::MAX))),
    ),
    claim(
        "P4-03",
        "PingPing throughput is almost the same up to 1 KiB; above, Soft RoCE is better.",
        "s within 10 % of e for X <= 1,024; s > e above",
        Networks(|f, t| judge(f, t, "PingPing", GoodputMbps, 1025, &(1025..=u64::MAX))),
    ),
    claim(
        "P4-04",
        "Sendrecv is almost the same for small messages; from 256 bytes Soft RoCE is faster.",
        "s within 10 % of e for X < 256; s > e from 256",
        Networks(|f, t| judge(f, t, "Sendrecv", GoodputMbps, 256, &(256..=u64::MAX))),
    ),
    claim(
        "P4-05",
        "Exchange is almost the same for small messages; from 128 bytes Soft RoCE is better.",
        "s within 10 % of e for X < 128; s > e from 128",
        Networks(|f, t| judge(f, t, "Exchange", GoodputMbps, 128, &(128..=u64::MAX))),
    ),
    claim(
        "P4-06",
        "Reduce over Soft RoCE is slightly better below 4,096 bytes, mixed above.",
        "time: s < e for X < 4,096",
        Networks(|f, t| judge(f, t, "Reduce", LatencyUs, 0, &(0..=4095))),
    ),
    claim(
        "P4-07",
        "Gatherv over Soft RoCE is faster.",
        "time: s < e at every X",
        Networks(|f, t| judge(f, t, "Gatherv", LatencyUs, 0, &(0..=u64::MAX))),
    ),
    claim(
        "P4-08",
        "Scatter over Soft RoCE is better above 2 bytes.",
        "time: s < e for X > 2",
        Networks(|f, t| judge(f, t, "Scatter", LatencyUs, 0, &(3..=u64::MAX))),
    ),
    claim(
        "P4-09",
        "Soft RoCE has the higher throughput for long messages.",
        "s > e at every message from 64 KiB on; the ceiling of TCP is higher there, so a gain \
         would come from the hosts",
        Networks(long_messages),
    ),
];

/// Maximum relative difference of “almost the same”.
const ALIKE: f64 = 0.1;

/// Checks that RoCE is like Ethernet for sizes below `alike_below`, and better for sizes in `better`.
fn judge(
    figures: &Figures,
    tally: &mut Tally,
    benchmark: &'static str,
    quantity: Quantity,
    alike_below: u64,
    better: &RangeInclusive<u64>,
) {
    if figures.origin == Origin::Published {
        let reason = format!("{benchmark} is published only as a figure without numbers");
        return tally.missing("", Missing::FigureOnly(reason));
    }
    let relation = match quantity {
        GoodputMbps | Quantity::SwitchingMbps | Quantity::InteractionsPerS => Relation::Above,
        LatencyUs => Relation::Below,
    };
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
    tally.otherwise(
        "no runs of this MPI benchmark over RoCE and Ethernet by one library: `papers run P4`",
    );
}

/// Message size in bytes at which the headers of a message are negligible.
const LONG: u64 = 1 << 20;

fn long_messages(figures: &Figures, tally: &mut Tally) {
    judge(figures, tally, "PingPong", GoodputMbps, 0, &(65_536..=u64::MAX));
    let words = [
        ("RoCEv1", send_mbps("rocev1:1G", Family::V4, LONG)),
        ("RoCEv2/IPv4", send_mbps("rocev2:1G", Family::V4, LONG)),
        ("RoCEv2/IPv6", send_mbps("rocev2:1G", Family::V6, LONG)),
        ("TCP/IPv4", tcp_stream_mbps("ethernet:1G", Family::V4, false)),
    ];
    let ceilings: Option<Vec<String>> =
        words.into_iter().map(|(name, mbps)| Some(format!("{name} {:.2}", mbps?))).collect();
    if let Some(ceilings) = ceilings {
        tally.note(format!("ceilings at 1GbE, MTU 1500: {} Mb/s", ceilings.join(", ")));
    }
}
