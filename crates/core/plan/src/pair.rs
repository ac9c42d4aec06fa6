//! Pairs of points that a plan compares, and when a comparison is decided.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fabricmark_stats::{Comparison, Verdict, paired_ratios};
use serde::{Deserialize, Serialize};

use crate::factor::{Factor, Point};
use crate::figure::Figure;
use crate::plan::{Compare, Plan};

/// Two points that differ only in the factor of a `[[compare]]` and in levels that depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Index of the comparison in the plan.
    pub compare: usize,
    /// Index of the point with the baseline's level.
    pub baseline: usize,
    /// Index of the point with the candidate's level.
    pub candidate: usize,
}

impl Plan {
    /// The pairs among these points.
    pub fn pairs_among(&self, points: &[usize]) -> Vec<Pair> {
        let of = |&baseline: &usize| {
            let first = self.pairs.partition_point(|pair| pair.baseline < baseline);
            self.pairs[first..].iter().take_while(move |pair| pair.baseline == baseline)
        };
        let is_among = |pair: &&Pair| points.contains(&pair.candidate);
        points.iter().flat_map(of).filter(is_among).copied().collect()
    }

    /// Number of pairs in each family: pairs of the same factor whose patterns have the same figure, which a table shows and
    /// tests together. A table of RTTs has those of rr, too, where another figure decides when it ends.
    pub(crate) fn families(&self) -> BTreeMap<(Factor, Figure), usize> {
        let families: BTreeSet<_> = self.pairs.iter().map(|pair| pair.family(self)).collect();
        let rows = |(factor, figure): (Factor, Figure)| {
            let has = |pair: &&Pair| {
                let pattern = self.points[pair.baseline].pattern;
                self.compare[pair.compare].factor == factor
                    && figure.spec().patterns.contains(&pattern)
            };
            ((factor, figure), self.pairs.iter().filter(has).count())
        };
        families.into_iter().map(rows).collect()
    }
}

/// The pairs of points that these comparisons compare, sorted by the index of the baseline. A point is compared with the
/// point that has the other level of the compared factor and equal levels of all other factors that apply. If there is no
/// such point, it is compared with the one that has the other level and the defaults that depend on it, unless that point
/// has a partner with equal levels.
pub(crate) fn pairs(points: &[Point], compare: &[Compare]) -> Vec<Pair> {
    let places: HashMap<&Point, usize> = points.iter().zip(0..).collect();
    let find = |point: Option<Point>| places.get(&point?).copied();
    let mut pairs = Vec::new();
    for (compare, Compare { factor, baseline, candidate }) in compare.iter().enumerate() {
        let same = |point: &Point, level: &str| {
            find(Some(point.with(*factor, level)))
                .or_else(|| find(Point::resolved_with(*factor, level, point.levels())))
        };
        let partner = |point: &Point, level: &str, other: &str| {
            same(point, other).or_else(|| {
                let found = find(Point::resolved_with(*factor, other, point.chosen()))?;
                same(&points[found], level).is_none().then_some(found)
            })
        };
        for (place, point) in points.iter().enumerate() {
            if point.has(*factor, baseline) {
                let other = partner(point, baseline, candidate);
                pairs.extend(other.map(|other| Pair {
                    compare,
                    baseline: place,
                    candidate: other,
                }));
            } else if point.has(*factor, candidate) {
                let other = partner(point, candidate, baseline);
                pairs.extend(other.map(|other| Pair {
                    compare,
                    baseline: other,
                    candidate: place,
                }));
            }
        }
    }
    sorted(pairs)
}

/// Sorts pairs by the index of their baseline, and removes duplicates.
pub(crate) fn sorted(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.sort_by_key(|pair| (pair.baseline, pair.candidate, pair.compare));
    pairs.dedup();
    pairs
}

impl Pair {
    /// The family of tests that the pair belongs to.
    pub(crate) fn family(&self, plan: &Plan) -> (Factor, Figure) {
        (plan.compare[self.compare].factor, Figure::deciding(&plan.points[self.baseline]))
    }

    /// Whether these logarithms of ratios, one per block, decide the pair, which is one of `rows` in its family: they
    /// show a difference even by the strictest step of Holm's correction, or they show that it is within the tie band.
    pub(crate) fn is_decided(&self, plan: &Plan, log_ratios: &[f64], rows: usize) -> bool {
        let found = self.compared(plan, log_ratios);
        found.is_some_and(|found| found.in_family(rows).verdict != Verdict::Inconclusive)
    }

    /// The comparison of the pair by these logarithms of ratios, without Holm's correction.
    pub(crate) fn compared(&self, plan: &Plan, log_ratios: &[f64]) -> Option<Comparison> {
        let (_, figure) = self.family(plan);
        let (better, tie) = figure.judged_by();
        paired_ratios(log_ratios, &plan.stop, better, tie)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Size, parse};

    #[test]
    fn a_family_has_all_pairs_of_a_table_also_those_that_another_figure_decides() {
        let text = "title = 't'\n[factors]\npattern = ['rr', 'ping-pong']\ntransport = 'udp'\npayload = 64\n\
                    family = [4, 6]\nlink = 'veth'\n[[compare]]\nfactor = 'family'\nbaseline = 4\ncandidate = 6\n";
        let plan = parse("t", text, Size::Full, &[]).unwrap();
        // Transaction rates of both, and RTTs of both.
        assert_eq!(plan.families().into_values().collect::<Vec<_>>(), [2, 2]);
    }
}
