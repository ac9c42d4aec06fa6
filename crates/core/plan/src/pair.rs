//! Pairs of points that a plan compares, and when a comparison is decided.

use std::collections::BTreeMap;

use fabricmark_stats::{Comparison, Verdict, paired_ratios};

use crate::factor::{Factor, Point};
use crate::figure::Figure;
use crate::plan::{Compare, Plan};

/// Two points that differ only in the factor of a `[[compare]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index of the comparison in the plan.
    pub compare: usize,
    /// Index of the point with the baseline's level.
    pub baseline: usize,
    /// Index of the point with the candidate's level.
    pub candidate: usize,
}

impl Plan {
    /// The pairs among these points that the plan compares.
    pub fn pairs(&self, points: &[usize]) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (compare, Compare { factor, baseline: from, candidate: to }) in
            self.compare.iter().enumerate()
        {
            let is_at = |point: usize, level| self.points[point].has(*factor, level);
            for &baseline in points.iter().filter(|&&point| is_at(point, from)) {
                let others = points.iter().filter(|&&point| is_at(point, to));
                let alike = others.copied().filter(|&candidate| {
                    differ_in_alone(&self.points[baseline], &self.points[candidate], *factor)
                });
                pairs.extend(alike.map(|candidate| Pair { compare, baseline, candidate }));
            }
        }
        pairs
    }
}

/// Whether two points have the same levels of all factors but this one.
fn differ_in_alone(a: &Point, b: &Point, factor: Factor) -> bool {
    Factor::ALL.into_iter().filter(|&other| other != factor).all(|f| a.level(f) == b.level(f))
}

impl Plan {
    /// Number of pairs in each family: pairs of the same factor and figure, which a table shows and tests together.
    pub(crate) fn families(&self) -> BTreeMap<(Factor, Figure), usize> {
        let mut rows = BTreeMap::new();
        for pair in self.comparison_groups.iter().flat_map(|group| self.pairs(group)) {
            *rows.entry(pair.family(self)).or_default() += 1;
        }
        rows
    }
}

impl Pair {
    /// The family of tests that the pair belongs to.
    pub(crate) fn family(&self, plan: &Plan) -> (Factor, Figure) {
        (plan.compare[self.compare].factor, Figure::deciding(&plan.points[self.baseline]))
    }

    /// Whether these logarithms of ratios, one per block, decide the pair, which is one of `rows` in its family: they
    /// show a difference even by the strictest step of Holm's correction, or they show that it is within the tie band.
    pub(crate) fn is_decided(&self, plan: &Plan, log_ratios: &[f64], rows: usize) -> bool {
        self.compared(plan, log_ratios).is_some_and(|comparison| {
            comparison.verdict == Verdict::Same
                || comparison.p_t * rows as f64 <= 1.0 - plan.stop.confidence
        })
    }

    /// The comparison of the pair by these logarithms of ratios, without Holm's correction.
    pub(crate) fn compared(&self, plan: &Plan, log_ratios: &[f64]) -> Option<Comparison> {
        let (_, figure) = self.family(plan);
        let (better, tie) = figure.judged_by();
        paired_ratios(log_ratios, &plan.stop, better, tie)
    }
}
