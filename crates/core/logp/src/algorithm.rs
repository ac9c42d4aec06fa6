//! Algorithms of collective operations, as messages that follow one another.

use fabricmark_plan::Collective;

use crate::fit::Model;

/// What an algorithm takes, by a model of single messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Name of the algorithm in the literature, such as `binomial tree`.
    pub algorithm: &'static str,
    /// Time of the operation in ns.
    pub ns: f64,
}

/// Messages in a row: how many, and their size in bytes.
type Messages = Vec<(u32, f64)>;

/// Predictions for an operation on payloads of `bytes` between `ranks` ranks.
pub fn predictions(
    collective: Collective,
    bytes: u64,
    ranks: u32,
    model: &Model,
) -> Vec<Prediction> {
    let time = |messages: &Messages| -> f64 {
        messages.iter().map(|&(count, bytes)| f64::from(count) * model.ns(bytes)).sum()
    };
    let all = algorithms(collective, bytes as f64, ranks.max(2));
    all.into_iter()
        .map(|(algorithm, messages)| Prediction { algorithm, ns: time(&messages) })
        .collect()
}

/// Rounds until all ranks are reached if their number doubles in each.
fn rounds(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros()
}

/// One message per round: of 1, 2, 4, ... blocks, and the last of those that are left of the other ranks' blocks.
fn doubling(block: f64, ranks: u32) -> Messages {
    let blocks = |round: u32| (1 << round).min(ranks - (1 << round));
    (0..rounds(ranks)).map(|round| (1, block * f64::from(blocks(round)))).collect()
}

/// The same messages, the longest first; `bytes` are all blocks together.
fn halving(bytes: f64, ranks: u32) -> Messages {
    let mut messages = doubling(bytes / f64::from(ranks), ranks);
    messages.reverse();
    messages
}

/// Messages of Bruck's algorithm: in round k the blocks for those ranks whose distance has bit k set.
fn bruck(block: f64, ranks: u32) -> Messages {
    let blocks = |round: u32| (1..ranks).filter(|distance| distance >> round & 1 == 1).count();
    (0..rounds(ranks)).map(|round| (1, block * blocks(round) as f64)).collect()
}

/// The candidates for an operation, the usual one of short payloads first.
fn algorithms(collective: Collective, bytes: f64, ranks: u32) -> Vec<(&'static str, Messages)> {
    let (rounds, others, share) = (rounds(ranks), ranks - 1, bytes / f64::from(ranks));
    let in_rounds = |bytes: f64| vec![(rounds, bytes)];
    let one_by_one = |bytes: f64| vec![(others, bytes)];
    match collective {
        Collective::Barrier => vec![("dissemination", in_rounds(0.0))],
        Collective::Bcast => vec![
            ("binomial tree", in_rounds(bytes)),
            ("scatter and ring allgather", [halving(bytes, ranks), one_by_one(share)].concat()),
            ("linear", one_by_one(bytes)),
        ],
        Collective::Reduce => vec![
            ("binomial tree", in_rounds(bytes)),
            (
                "recursive halving and gather",
                [halving(bytes, ranks), halving(bytes, ranks)].concat(),
            ),
            ("linear", one_by_one(bytes)),
        ],
        Collective::Allreduce => vec![
            ("recursive doubling", in_rounds(bytes)),
            (
                "recursive halving and doubling",
                [halving(bytes, ranks), halving(bytes, ranks)].concat(),
            ),
            ("ring", vec![(2 * others, share)]),
        ],
        Collective::ReduceScatter | Collective::ReduceScatterBlock => vec![
            ("recursive halving", halving(bytes * f64::from(ranks), ranks)),
            ("ring", one_by_one(bytes)),
        ],
        Collective::Gather | Collective::Gatherv | Collective::Scatter | Collective::Scatterv => {
            vec![("binomial tree", doubling(bytes, ranks)), ("linear", one_by_one(bytes))]
        }
        Collective::Allgather | Collective::Allgatherv => {
            vec![("recursive doubling", doubling(bytes, ranks)), ("ring", one_by_one(bytes))]
        }
        Collective::Alltoall | Collective::Alltoallv => {
            vec![("Bruck", bruck(bytes, ranks)), ("pairwise exchange", one_by_one(bytes))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{Line, Piece};

    /// 100 ns per message and 1 ns per byte.
    fn model() -> Model {
        let line = Line { latency_ns: 100.0, ns_per_byte: 1.0 };
        Model { pieces: vec![Piece { from: 0, to: 1 << 30, line, error: 0.0 }] }
    }

    fn of(collective: Collective, bytes: u64, ranks: u32) -> Vec<(&'static str, f64)> {
        let all = predictions(collective, bytes, ranks, &model());
        all.iter().map(|prediction| (prediction.algorithm, prediction.ns)).collect()
    }

    #[test]
    fn algorithms_take_the_times_of_the_literature() {
        // With p = 8, α = 100 and β = 1 (Thakur and others, 2005, sections 4.1 to 4.5).
        assert_eq!(of(Collective::Barrier, 0, 8), [("dissemination", 300.0)]);
        assert_eq!(
            of(Collective::Bcast, 800, 8),
            [
                ("binomial tree", 3.0 * 900.0),
                // (log p + p - 1) α + 2 (p - 1) / p m.
                ("scatter and ring allgather", 10.0 * 100.0 + 2.0 * 700.0),
                ("linear", 7.0 * 900.0),
            ]
        );
        assert_eq!(
            of(Collective::Allreduce, 800, 8),
            [
                ("recursive doubling", 3.0 * 900.0),
                // 2 log p α + 2 (p - 1) / p m.
                ("recursive halving and doubling", 600.0 + 1400.0),
                // 2 (p - 1) α + 2 (p - 1) / p m.
                ("ring", 1400.0 + 1400.0),
            ]
        );
        // log p α + (p - 1) m, and (p - 1) (α + m).
        assert_eq!(
            of(Collective::Allgather, 100, 8),
            [("recursive doubling", 300.0 + 700.0), ("ring", 1400.0)]
        );
        // log p (α + p m / 2), and (p - 1) (α + m).
        assert_eq!(
            of(Collective::Alltoall, 100, 8),
            [("Bruck", 3.0 * 500.0), ("pairwise exchange", 1400.0)]
        );
    }

    #[test]
    fn trees_of_five_ranks_carry_the_blocks_of_the_four_others() {
        // Three rounds: of 1, 2 and 1 blocks.
        assert_eq!(
            of(Collective::Gather, 100, 5),
            [("binomial tree", 300.0 + 400.0), ("linear", 800.0)]
        );
        assert_eq!(of(Collective::Scatter, 100, 5)[0].1, 700.0);
        assert_eq!(of(Collective::ReduceScatter, 100, 5)[0].1, 700.0);
        // Distances 1 and 3; 2 and 3; 4.
        assert_eq!(of(Collective::Alltoall, 100, 5)[0].1, 300.0 + 500.0);
    }

    #[test]
    fn two_ranks_exchange_one_message() {
        for collective in [Collective::Bcast, Collective::Reduce, Collective::Gather] {
            assert_eq!(of(collective, 50, 2)[0].1, 150.0);
        }
    }
}
