//! RDMA's reliable connection between two adapters.

use super::{Against, Goal, Row, size};
use crate::place::Target;
use crate::work::{Figure, Verb, Work};

/// What a ratio to perftest has to be within: processors that are emulated tick in steps of 4 ms.
const ALIKE: Goal = Goal::Between(0.9, 1.1);

/// Round trips by each verb, and streams by those that send, short and long.
pub(super) fn rows(target: Target) -> Vec<Row> {
    let mut rows = Vec::new();
    for bytes in [64, 65_536] {
        for verb in [Verb::Send, Verb::Write, Verb::Read] {
            let work = Work::Verbs { verb, bytes, is_stream: false };
            let name = format!("RDMA {verb}, round trip, {}", size(bytes));
            let mut row = Row::new(name, target, work);
            row.peers_do = Some(work);
            let row = row.ask(Figure::RttP50Ns, Against::One("perftest"), Some(ALIKE));
            rows.push(row.ask(Figure::RttMeanNs, Against::One("qperf"), None));
        }
        for verb in [Verb::Send, Verb::Write] {
            let work = Work::Verbs { verb, bytes, is_stream: true };
            let name = format!("RDMA {verb}, stream, {}", size(bytes));
            let mut row = Row::new(name, target, work);
            row.peers_do = Some(work);
            let row = row.ask(Figure::GoodputBps, Against::One("perftest"), Some(ALIKE));
            rows.push(row.ask(Figure::GoodputBps, Against::One("qperf"), None));
        }
    }
    rows
}
