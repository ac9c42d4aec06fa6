//! Sums up what the ranks measured in the slices of a point.

use fabricmark_record::{MpiResult, Overlap, RankTimes};
use fabricmark_stats::Histogram;

use crate::clock::Clocks;
use crate::operation::{Measured, Timing};

/// How the timings of a point are to be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Whether each timing is a single operation that started after a synchronisation.
    pub is_synchronised: bool,
    /// Whether the next operation starts when the last one has ended.
    pub is_contiguous: bool,
    /// Number of ranks, the first of the group, whose timings count.
    pub ranks: usize,
    /// Operations per iteration.
    pub per_iteration: f64,
    /// Iterations per timing.
    pub batch: u32,
    /// Time between starts at common times; 0: none.
    pub window_ns: i64,
    /// Start of the first operation at a common time.
    pub begin_ns: i64,
}

impl Reading {
    /// Whether a rank missed the common start of the operation with this number in a slice.
    fn is_late(&self, at: usize, clocks: &Clocks, ranks: &[Measured]) -> bool {
        let due_ns = self.begin_ns + at as i64 * self.window_ns;
        let start =
            |(rank, measured): (usize, &Measured)| clocks.common_ns(rank, measured.timings[at].0);
        let latest = ranks.iter().enumerate().map(start).max().unwrap_or(due_ns);
        self.window_ns > 0 && latest - due_ns > self.window_ns / LATE
    }
}

/// Results of a point so far.
#[derive(Debug, Default)]
pub struct Tally {
    result: MpiResult,
    /// Sum of each rank's own times of operations, in ns.
    own_ns: Vec<f64>,
    overlap: Overlap,
    overlapped: u64,
}

/// An operation is left out if the last rank is late by more than this fraction of its window: an arbitrary choice.
const LATE: i64 = 4;

impl Tally {
    /// Adds a slice: what each rank of the group measured.
    pub fn add(&mut self, reading: &Reading, clocks: &Clocks, ranks: &[Measured]) {
        let counted = &ranks[..reading.ranks.min(ranks.len())];
        let timings = counted.iter().map(|measured| measured.timings.len()).min().unwrap_or(0);
        if timings == 0 {
            return;
        }
        let operations = reading.per_iteration * f64::from(reading.batch);
        let mean_ns = if reading.is_synchronised {
            self.add_single(reading, clocks, counted, timings)
        } else {
            let mut sum_ns = 0.0;
            for at in 0..timings {
                let own = counted.iter().map(|measured| length(measured.timings[at]));
                let ns = own.max().unwrap_or(0) as f64 / operations;
                self.result.times_ns.record(ns.round() as u64);
                sum_ns += ns;
            }
            let common = |(rank, measured): (usize, &Measured)| {
                let (start, end) = (measured.timings[0].0, measured.timings[timings - 1].1);
                (clocks.common_ns(rank, start), clocks.common_ns(rank, end))
            };
            let (first, last) = span(counted.iter().enumerate().map(common));
            let whole_ns = (last - first) as f64 / (operations * timings as f64);
            Some(if reading.is_contiguous { whole_ns } else { sum_ns / timings as f64 })
        };
        self.result.slices_ns.extend(mean_ns);
        self.result.batch = operations.round().max(1.0) as u32;
        self.own_ns.resize(counted.len(), 0.0);
        let mut in_time = 0;
        for at in (0..timings).filter(|&at| !reading.is_late(at, clocks, counted)) {
            in_time += 1;
            for (sum, measured) in self.own_ns.iter_mut().zip(counted) {
                *sum += length(measured.timings[at]) as f64;
            }
        }
        self.result.operations += (operations * f64::from(in_time)).round() as u64;
        // IMB-NBC takes all times from the rank with the longest time of both together.
        let slowest = ranks.iter().max_by_key(|measured| measured.both_ns);
        if let Some(measured) = slowest.filter(|measured| measured.both_ns > 0) {
            let pure: i64 = measured.timings.iter().map(|&timing| length(timing)).sum();
            self.overlap.pure_ns += pure as f64;
            self.overlap.computation_ns += measured.computation_ns as f64;
            self.overlap.both_ns += measured.both_ns as f64;
            self.overlapped += timings as u64;
        }
    }

    /// Adds operations that have times of their own; returns their mean.
    fn add_single(
        &mut self,
        reading: &Reading,
        clocks: &Clocks,
        ranks: &[Measured],
        timings: usize,
    ) -> Option<f64> {
        let imbalance = self.result.imbalance_ns.get_or_insert_with(Histogram::new);
        let (mut sum_ns, mut count) = (0.0, 0_u32);
        for at in 0..timings {
            let common = |(rank, measured): (usize, &Measured)| {
                let (start, end) = measured.timings[at];
                (clocks.common_ns(rank, start), clocks.common_ns(rank, end))
            };
            let timings: Vec<Timing> = ranks.iter().enumerate().map(common).collect();
            let (first, last) = span(timings.iter().copied());
            let latest = timings.iter().map(|&(start, _)| start).max().unwrap_or(first);
            if reading.is_late(at, clocks, ranks) {
                self.result.late += 1;
                continue;
            }
            let ns = (last - first).max(0) as f64;
            self.result.times_ns.record(ns as u64);
            imbalance.record((latest - first).unsigned_abs());
            sum_ns += ns;
            count += 1;
        }
        (count > 0).then(|| sum_ns / f64::from(count))
    }

    /// Adds the number of elements that were compared with a serial computation.
    pub fn verified(&mut self, elements: u64) {
        self.result.verified_elements += elements;
    }

    /// Operations that were left out because a rank was late.
    pub fn late(&self) -> u64 {
        self.result.late
    }

    /// The results.
    pub fn finish(mut self) -> MpiResult {
        let operations = self.result.operations.max(1) as f64;
        let own: Vec<f64> = self.own_ns.iter().map(|sum| sum / operations).collect();
        if !own.is_empty() {
            self.result.ranks_ns = RankTimes {
                min_ns: own.iter().copied().fold(f64::INFINITY, f64::min),
                mean_ns: own.iter().sum::<f64>() / own.len() as f64,
                max_ns: own.iter().copied().fold(0.0, f64::max),
            };
        }
        let count = self.overlapped as f64;
        let Overlap { pure_ns, computation_ns, both_ns } = self.overlap;
        self.result.overlap = (self.overlapped > 0).then(|| Overlap {
            pure_ns: pure_ns / count,
            computation_ns: computation_ns / count,
            both_ns: both_ns / count,
        });
        self.result
    }
}

fn length((start, end): Timing) -> i64 {
    end - start
}

/// The earliest start and the latest end.
fn span(timings: impl Iterator<Item = Timing>) -> Timing {
    timings
        .fold((i64::MAX, i64::MIN), |(first, last), (start, end)| (first.min(start), last.max(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: Reading = Reading {
        is_synchronised: true,
        is_contiguous: false,
        ranks: 2,
        per_iteration: 1.0,
        batch: 1,
        window_ns: 0,
        begin_ns: 0,
    };

    fn measured(timings: &[Timing]) -> Measured {
        Measured { timings: timings.to_vec(), ..Measured::default() }
    }

    fn clocks() -> Clocks {
        Clocks::new(&[true, true])
    }

    #[test]
    fn a_synchronised_operation_lasts_from_the_first_start_to_the_last_end() {
        let mut tally = Tally::default();
        let ranks = [measured(&[(100, 300), (1000, 1100)]), measured(&[(150, 310), (980, 1080)])];
        tally.add(&SINGLE, &clocks(), &ranks);
        let result = tally.finish();
        assert_eq!(result.slices_ns, [(210.0 + 120.0) / 2.0]);
        assert_eq!(result.times_ns.max(), Some(210));
        assert_eq!(result.imbalance_ns.unwrap().mean_ns(), Some((50.0 + 20.0) / 2.0));
        // Rank 0: 200 and 100; rank 1: 160 and 100.
        let RankTimes { min_ns, mean_ns, max_ns } = result.ranks_ns;
        assert_eq!((min_ns, mean_ns, max_ns), (130.0, 140.0, 150.0));
        assert_eq!(result.operations, 2);
    }

    #[test]
    fn a_ping_pong_is_two_operations_and_only_the_rank_that_starts_it_counts() {
        let mut tally = Tally::default();
        let reading = Reading {
            is_synchronised: false,
            is_contiguous: true,
            ranks: 1,
            per_iteration: 2.0,
            batch: 5,
            ..SINGLE
        };
        let ranks = [measured(&[(0, 1000), (1000, 3000)]), measured(&[(500, 900), (900, 9000)])];
        tally.add(&reading, &clocks(), &ranks);
        let result = tally.finish();
        assert_eq!((result.slices_ns.as_slice(), result.operations), ([150.0].as_slice(), 20));
        assert_eq!((result.times_ns.max(), result.batch), (Some(200), 10));
        assert_eq!(result.ranks_ns.max_ns, 150.0);
        assert_eq!(result.imbalance_ns, None);
    }

    #[test]
    fn an_operation_with_a_rank_that_missed_its_start_is_left_out() {
        let mut tally = Tally::default();
        let reading = Reading { window_ns: 100, begin_ns: 1000, ..SINGLE };
        let ranks =
            [measured(&[(1000, 1050), (1100, 1200)]), measured(&[(1001, 1060), (1130, 1190)])];
        tally.add(&reading, &clocks(), &ranks);
        assert_eq!(tally.late(), 1);
        let result = tally.finish();
        assert_eq!(
            (result.slices_ns.as_slice(), result.operations, result.late),
            ([60.0].as_slice(), 1, 1)
        );
        assert_eq!(result.ranks_ns.max_ns, 59.0);
    }

    #[test]
    fn overlap_is_what_is_saved_of_the_longer_of_operation_and_computation() {
        let overlap = Overlap { pure_ns: 100.0, computation_ns: 125.0, both_ns: 150.0 };
        assert_eq!(overlap.share(), 0.6);
        assert_eq!(Overlap { both_ns: 230.0, ..overlap }.share(), 0.0);
        assert_eq!(Overlap { both_ns: 90.0, ..overlap }.share(), 1.0);
    }

    #[test]
    fn operations_with_pauses_between_them_are_timed_one_by_one() {
        let mut tally = Tally::default();
        let reading = Reading { is_synchronised: false, ..SINGLE };
        let mut ranks = [measured(&[(0, 10), (1000, 1020)]), measured(&[(0, 12), (1000, 1010)])];
        (ranks[1].both_ns, ranks[1].computation_ns) = (50, 30);
        tally.add(&reading, &clocks(), &ranks);
        let result = tally.finish();
        assert_eq!(result.slices_ns, [16.0]);
        // Times of rank 1, which takes longest.
        let overlap = Overlap { pure_ns: 11.0, computation_ns: 15.0, both_ns: 25.0 };
        assert_eq!(result.overlap, Some(overlap));
    }
}
