//! Rank tests, which are robust against outliers.
//!
//! Not from statrs: the exact Mann-Whitney test of statrs 0.19 returns the complement of its probability unless the
//! first sample is the longer one.

use statrs::distribution::{ContinuousCDF, Normal};

/// Largest number of differences with an exact signed-rank test: the counts stay below 2^53.
const WILCOXON_EXACT: usize = 50;

/// Largest product of the sample sizes with an exact Mann-Whitney test.
const MANN_WHITNEY_EXACT: usize = 2500;

/// Two-sided p-value of the Wilcoxon signed-rank test that the differences are symmetric around zero.
///
/// Zeros are dropped. Exact up to 50 differences without ties, else the normal approximation with correction for ties
/// and continuity (Hollander and Wolfe, Nonparametric Statistical Methods, section 3.1). 1 if no difference is left.
pub fn wilcoxon_signed_rank(differences: &[f64]) -> f64 {
    let nonzero: Vec<f64> = differences.iter().copied().filter(|&d| d != 0.0).collect();
    let magnitudes: Vec<f64> = nonzero.iter().map(|d| d.abs()).collect();
    let Ranks { ranks, ties } = Ranks::of(&magnitudes);
    let positive: f64 = nonzero.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, r)| r).sum();

    let n = nonzero.len() as f64;
    let all = n * (n + 1.0) / 2.0;
    let smaller = positive.min(all - positive);
    if nonzero.len() <= WILCOXON_EXACT && ties == 0.0 {
        let counts = signed_rank_counts(nonzero.len(), smaller as usize);
        return both_tails(counts.iter().sum::<f64>() / 2f64.powi(nonzero.len() as i32));
    }
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
    normal_p(all / 2.0 - smaller, variance)
}

/// Hodges-Lehmann estimate of the centre: the median of the means of all pairs of values, each value paired with
/// itself, too. It belongs to the signed-rank test (Hollander and Wolfe, section 3.2). For normal values it is 95 %
/// as efficient as the mean, and a quarter of the values may be arbitrary. `None` without values.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let pairs = values
        .iter()
        .enumerate()
        .flat_map(|(place, a)| values[place..].iter().map(move |b| f64::midpoint(*a, *b)));
    let mut means: Vec<f64> = pairs.collect();
    means.sort_by(f64::total_cmp);
    let (low, high) = (means.get(means.len().checked_sub(1)? / 2)?, means.get(means.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// Two-sided p-value of the Mann-Whitney (Wilcoxon rank-sum) test that `a` and `b` have the same distribution.
///
/// Exact without ties up to 2,500 pairs, else the normal approximation with correction for ties and continuity
/// (Hollander and Wolfe, section 4.1). 1 if a sample is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let Ranks { ranks, ties } = Ranks::of(&[a, b].concat());
    let (n, m) = (a.len() as f64, b.len() as f64);
    let u = ranks[..a.len()].iter().sum::<f64>() - n * (n + 1.0) / 2.0;
    let smaller = u.min(n * m - u);
    if ties == 0.0 && a.len() * b.len() <= MANN_WHITNEY_EXACT {
        let (tail, all) = mann_whitney_counts(a.len(), b.len(), smaller as usize);
        return both_tails(tail / all);
    }
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    normal_p(n * m / 2.0 - smaller, variance)
}

/// Ranks from 1, with the mean rank for ties, and the sum of `t^3 - t` over groups of `t` tied values.
struct Ranks {
    ranks: Vec<f64>,
    ties: f64,
}

impl Ranks {
    fn of(values: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
        let mut ranks = vec![0.0; values.len()];
        let mut ties = 0.0;
        let mut before = 0;
        for equals in order.chunk_by(|&i, &j| values[i] == values[j]) {
            let t = equals.len() as f64;
            ties += t.powi(3) - t;
            for &i in equals {
                ranks[i] = before as f64 + (t + 1.0) / 2.0;
            }
            before += equals.len();
        }
        Self { ranks, ties }
    }
}

/// Number of the `2^n` sign patterns for each rank sum from 0 to `limit`.
fn signed_rank_counts(n: usize, limit: usize) -> Vec<f64> {
    let mut counts = vec![0.0; limit + 1];
    counts[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=limit).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    counts
}

/// Number of orders of `n` and `m` items with a U of at most `limit`, and the number of all orders.
///
/// Mann and Whitney's recursion on the last item: `c(n, m, u) = c(n - 1, m, u - m) + c(n, m - 1, u)`. It only adds
/// positive terms, so nothing cancels even beyond 2^53.
fn mann_whitney_counts(n: usize, m: usize, limit: usize) -> (f64, f64) {
    let mut counts = vec![vec![0.0; limit + 1]; n + 1];
    for row in &mut counts {
        row[0] = 1.0;
    }
    for others in 1..=m {
        for own in 1..=n {
            for u in others..=limit {
                counts[own][u] += counts[own - 1][u - others];
            }
        }
    }
    let all = (1..=n).map(|i| (m + i) as f64 / i as f64).product();
    (counts[n].iter().sum(), all)
}

fn both_tails(tail: f64) -> f64 {
    (2.0 * tail).min(1.0)
}

/// `distance` of the statistic from its mean; half a step is the continuity correction.
fn normal_p(distance: f64, variance: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    both_tails(Normal::standard().sf((distance - 0.5).max(0.0) / variance.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() < within, "{found} is not {expected}");
    }

    #[test]
    fn hodges_lehmann_is_the_median_of_all_pairwise_means() {
        // Means: 1, 1.5, 2, 2, 2.5, 3, and 5.5, 6, 6.5, 10 with the fourth.
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(hodges_lehmann(&[10.0, 1.0, 3.0, 2.0]), Some(2.75));
        assert_eq!(hodges_lehmann(&[7.0]), Some(7.0));
        assert_eq!(hodges_lehmann(&[]), None);
    }

    proptest! {
        #[test]
        fn a_quarter_of_the_values_may_be_anything(far in 10.0..1e9f64) {
            let values = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, far, far];
            let found = hodges_lehmann(&values).unwrap();
            prop_assert!((1.0..=1.5).contains(&found), "{}", found);
        }
    }

    /// Share of sign patterns at least as extreme, by enumeration.
    fn signed_rank_by_brute_force(differences: &[f64]) -> f64 {
        let n = differences.len();
        let magnitudes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
        let ranks = Ranks::of(&magnitudes).ranks;
        let middle = ranks.iter().sum::<f64>() / 2.0;
        let distance = |sign: &dyn Fn(usize) -> bool| {
            ((0..n).filter(|&i| sign(i)).map(|i| ranks[i]).sum::<f64>() - middle).abs()
        };
        let seen = distance(&|i| differences[i] > 0.0);
        let patterns = 0..1u32 << n;
        let extreme = patterns.filter(|p| distance(&|i| p >> i & 1 == 1) >= seen).count();
        extreme as f64 / f64::from(1u32 << n)
    }

    /// Share of splits at least as extreme, by enumeration.
    fn mann_whitney_by_brute_force(a: &[f64], b: &[f64]) -> f64 {
        let n = a.len() + b.len();
        let ranks = Ranks::of(&[a, b].concat()).ranks;
        let middle = a.len() as f64 * (n + 1) as f64 / 2.0;
        let distance = |split: u32| {
            ((0..n).filter(|i| split >> i & 1 == 1).map(|i| ranks[i]).sum::<f64>() - middle).abs()
        };
        let seen = distance((1 << a.len()) - 1);
        let splits: Vec<u32> =
            (0..1u32 << n).filter(|split| split.count_ones() as usize == a.len()).collect();
        splits.iter().filter(|split| distance(**split) >= seen).count() as f64 / splits.len() as f64
    }

    #[test]
    fn five_against_five_fully_separated_is_two_in_252() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        close(mann_whitney(&low, &high), 0.007_936_5, 1e-7);
        close(mann_whitney(&high, &low), 0.007_936_5, 1e-7);
    }

    /// Hollander and Wolfe: depression scale (table 3.1) and permeability data (table 4.1). Both are examples of R's
    /// `wilcox.test`, whose one-sided 0.01953 and 0.1272 are doubled here.
    #[test]
    #[expect(clippy::approx_constant, reason = "3.14 is a published measurement")]
    fn published_examples_come_out_as_published() {
        let first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
        close(wilcoxon_signed_rank(&differences), 0.039_06, 1e-5);

        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        close(mann_whitney(&term, &early), 0.254_4, 1e-4);
    }

    #[test]
    fn tied_samples_use_the_corrected_normal_approximation() {
        // Ranks of |d| 1.5 1.5 3 4, W+ = 8.5, variance 7.5 - 6/48: z = 3/2.7157.
        close(wilcoxon_signed_rank(&[1.0, -1.0, 2.0, 3.0]), 0.269_3, 1e-4);
        // U = 0.5, mean 4.5, variance 9/12 * (7 - 6/30) = 5.1: z = 3.5/2.2583.
        close(mann_whitney(&[1.0, 2.0, 3.0], &[3.0, 4.0, 5.0]), 0.121_2, 1e-4);
    }

    #[test]
    fn without_any_difference_there_is_nothing_to_reject() {
        assert_eq!(wilcoxon_signed_rank(&[0.0, 0.0]), 1.0);
        assert_eq!(wilcoxon_signed_rank(&[]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), 1.0);
        assert_eq!(mann_whitney(&[2.0, 2.0], &[2.0, 2.0]), 1.0);
    }

    #[test]
    fn exact_and_approximate_tests_agree_where_they_meet() {
        let differences: Vec<f64> =
            (1..=50).map(|i| f64::from(if i % 3 == 0 { -i } else { i })).collect();
        let exact = wilcoxon_signed_rank(&differences);
        let positive: f64 = differences.iter().filter(|d| **d > 0.0).sum();
        close(exact, normal_p(positive - 637.5, 50.0 * 51.0 * 101.0 / 24.0), 2e-3);

        let a: Vec<f64> = (0..50).map(|i| f64::from(i) * 1.0).collect();
        let b: Vec<f64> = (0..50).map(|i| f64::from(i) * 1.2 + 0.1).collect();
        let below: usize = a.iter().map(|x| b.iter().filter(|y| *y < x).count()).sum();
        close(mann_whitney(&a, &b), normal_p(1250.0 - below as f64, 2500.0 * 101.0 / 12.0), 2e-3);
    }

    proptest! {
        #[test]
        fn the_signed_rank_test_is_what_trying_all_signs_gives(signs in proptest::collection::vec(any::<bool>(), 1..11)) {
            let differences: Vec<f64> =
                (1..).zip(&signs).map(|(i, &s)| f64::from(if s { i } else { -i })).collect();
            close(wilcoxon_signed_rank(&differences), signed_rank_by_brute_force(&differences), 1e-12);
        }

        #[test]
        fn the_mann_whitney_test_is_what_trying_all_splits_gives(n in 1usize..7, order in Just((1..=10).map(f64::from).collect::<Vec<_>>()).prop_shuffle()) {
            let (a, b) = order.split_at(n);
            close(mann_whitney(a, b), mann_whitney_by_brute_force(a, b), 1e-12);
        }
    }
}
