//! Verdicts, and properties of comparisons.

use fabricmark_stats::{
    Better, Comparison, LATENCY_TIE, PEEKING_SURCHARGE, Sample, StopRule, THROUGHPUT_TIE, Verdict,
    holm, holm_adjust, paired, unpaired,
};
use proptest::prelude::*;

/// Ten runs, fixed in advance: no surcharge.
const TEN: StopRule = StopRule::of_runs(0.95, 10);

const RUNS: [f64; 5] = [100.0, 104.0, 97.0, 103.0, 99.0];

fn higher(a: &[f64], b: &[f64]) -> Comparison {
    paired(a, b, &TEN, Better::Higher, THROUGHPUT_TIE).expect("comparable samples")
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

#[test]
fn a_paired_comparison_is_the_t_test_of_the_log_ratios() {
    // ln(b/a) = 0.08, 0.1, 0.12, 0.1: mean 0.1, standard error sqrt(8e-4/3)/2 = 0.00816497,
    // t(0.975, 3) = 3.182446, t(0.8, 3) = 0.978472.
    let b = [0.08, 0.1, 0.12, 0.1].map(|log: f64| 50.0 * log.exp());
    let comparison = higher(&[50.0; 4], &b);
    let interval = comparison.change.interval.unwrap();
    close(comparison.change.value, 0.1f64.exp() - 1.0);
    close(interval.low, (0.1f64 - 3.182_446 * 0.008_164_97).exp() - 1.0);
    close(interval.high, (0.1f64 + 3.182_446 * 0.008_164_97).exp() - 1.0);
    close(comparison.smallest_visible.unwrap(), (4.160_918f64 * 0.008_164_97).exp() - 1.0);
    // t = 12.2474 at 3 degrees of freedom.
    close(comparison.p_t, 0.001_172_2);
    assert_eq!((comparison.p_adjusted, comparison.verdict), (comparison.p_t, Verdict::Faster));
}

#[test]
fn an_unpaired_comparison_is_welchs_test_of_the_logs() {
    // Logs of a: 0, 1, 2; of b: 3, 5, 7, 9. Difference 5, squared errors 1/3 and 5/3,
    // t = 5/sqrt(2), df = 4 / ((1/9)/2 + (25/9)/3) = 4.075472.
    let a = [0.0, 1.0, 2.0].map(f64::exp);
    let b = [3.0, 5.0, 7.0, 9.0].map(f64::exp);
    let comparison = unpaired(&a, &b, 0.95, Better::Lower, LATENCY_TIE).unwrap();
    close(comparison.p_t, 0.023_376_8);
    close(comparison.p_rank, 2.0 / 35.0);
    close(comparison.change.value, 5f64.exp_m1());
    assert_eq!((comparison.change.n, comparison.verdict), (3, Verdict::Slower));
}

#[test]
fn the_direction_of_the_verdict_follows_what_is_better() {
    let more = RUNS.map(|x| x * 1.1 + x % 3.0);
    for (a, b, better, verdict) in [
        (&RUNS, &more, Better::Higher, Verdict::Faster),
        (&more, &RUNS, Better::Higher, Verdict::Slower),
        (&RUNS, &more, Better::Lower, Verdict::Slower),
        (&more, &RUNS, Better::Lower, Verdict::Faster),
    ] {
        assert_eq!(paired(a, b, &TEN, better, 0.02).unwrap().verdict, verdict);
    }
}

#[test]
fn a_certain_difference_within_the_tie_band_is_the_same() {
    let comparison = higher(&RUNS, &RUNS.map(|x| x * 1.01));
    assert!(comparison.p_t < 0.05);
    assert_eq!(comparison.verdict, Verdict::Same);
}

#[test]
fn noise_cannot_tell() {
    let comparison = higher(&RUNS, &[104.0, 98.0, 103.0, 96.0, 101.0]);
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
    assert_eq!(comparison.verdict.to_string(), "inconclusive");
}

#[test]
fn without_spread_a_difference_is_certain_and_none_is_the_same() {
    let doubled = higher(&[1.0; 3], &[2.0; 3]);
    let interval = doubled.change.interval.unwrap();
    assert_eq!(
        (doubled.p_t, interval.low, doubled.smallest_visible),
        (0.0, interval.high, Some(0.0))
    );
    assert_eq!(doubled.verdict, Verdict::Faster);

    for equal in
        [higher(&RUNS, &RUNS), unpaired(&[3.0; 4], &[3.0; 5], 0.95, Better::Lower, 0.03).unwrap()]
    {
        assert_eq!((equal.p_t, equal.p_rank, equal.verdict), (1.0, 1.0, Verdict::Same));
        assert_eq!(equal.change.half_width(), Some(0.0));
    }
    let one_sided = unpaired(&[3.0; 4], &[4.0, 4.1], 0.95, Better::Lower, 0.03).unwrap();
    assert_eq!(one_sided.verdict, Verdict::Slower);
}

#[test]
fn what_cannot_be_compared_is_not() {
    let pairs: [(&[f64], &[f64]); 5] = [
        (&[1.0, 2.0], &[1.0]),
        (&[1.0], &[1.0]),
        (&[], &[]),
        (&[1.0, 0.0], &[1.0, 1.0]),
        (&[1.0, 1.0], &[1.0, f64::INFINITY]),
    ];
    for (a, b) in pairs {
        assert_eq!(paired(a, b, &TEN, Better::Higher, 0.02), None, "{a:?} {b:?}");
    }
    assert_eq!(unpaired(&[1.0, 2.0], &[1.0], 0.95, Better::Higher, 0.02), None);
    assert_eq!(unpaired(&RUNS, &RUNS, 1.0, Better::Higher, 0.02), None);
}

#[test]
fn an_immense_spread_gives_finite_numbers() {
    let comparison = higher(&[1e-300, 1e300], &[1e300, 1e-300]);
    let json = serde_json::to_string(&comparison).unwrap();
    assert_eq!(comparison.smallest_visible, None);
    assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), comparison);
}

#[test]
fn interval_and_probability_both_pay_for_peeking() {
    let peeking = StopRule { half_width: Some(0.05), runs_min: 3, ..TEN };
    let b = [104.0, 105.0, 103.0, 104.0, 110.0];
    let (plain, paid) =
        (higher(&RUNS, &b), paired(&RUNS, &b, &peeking, Better::Higher, 0.02).unwrap());
    let log_width =
        |c: &Comparison| c.change.interval.map(|i| i.high.ln_1p() - i.low.ln_1p()).unwrap();
    close(log_width(&paid) / log_width(&plain), PEEKING_SURCHARGE);
    assert!(paid.p_t > plain.p_t && paid.p_rank == plain.p_rank);
}

/// R: `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")`.
#[test]
fn holm_gives_what_r_gives() {
    let adjusted = holm_adjust(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(*found, expected);
    }
    assert_eq!(holm_adjust(&[]), Vec::<f64>::new());
}

#[test]
fn a_family_takes_back_what_alone_was_told() {
    // ln(b/a) of mean 0.07 and t(3) = 3.5: p = 0.0395.
    let b = [0.03, 0.05, 0.11, 0.09].map(|log: f64| log.exp());
    let alone = higher(&[1.0; 4], &b);
    assert_eq!(alone.verdict, Verdict::Faster);
    let mut family = vec![alone; 3];
    holm(&mut family);
    for comparison in family {
        close(comparison.p_adjusted, 3.0 * comparison.p_t);
        assert_eq!(comparison.verdict, Verdict::Inconclusive);
    }
}

fn samples(n: usize) -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(1e-3..1e6, n)
}

proptest! {
    #[test]
    fn holm_keeps_the_order_and_never_lowers(p in proptest::collection::vec(0.0..=1.0, 1..20)) {
        let adjusted = holm_adjust(&p);
        for (i, (&raw, &adj)) in p.iter().zip(&adjusted).enumerate() {
            prop_assert!(raw <= adj && adj <= 1.0);
            prop_assert!(p.iter().zip(&adjusted).all(|(&r, &a)| r < raw || a >= adj), "{}", i);
        }
    }

    #[test]
    fn the_interval_of_a_change_contains_it_and_agrees_with_p(a in samples(8), b in samples(8)) {
        for c in [higher(&a, &b), unpaired(&a, &b, 0.95, Better::Higher, 0.02).unwrap()] {
            let interval = c.change.interval.unwrap();
            prop_assert!(interval.low <= c.change.value && c.change.value <= interval.high);
            let excludes_zero = interval.low > 0.0 || interval.high < 0.0;
            prop_assert!(excludes_zero == (c.p_t < 0.05) || (c.p_t - 0.05).abs() < 1e-6);
        }
    }

    #[test]
    fn a_change_of_unit_changes_no_comparison(a in samples(6), b in samples(6), unit in 1e-3..1e3) {
        let scale = |x: &[f64]| x.iter().map(|x| x * unit).collect::<Vec<f64>>();
        let (one, other) = (higher(&a, &b), higher(&scale(&a), &scale(&b)));
        prop_assert!((one.p_t - other.p_t).abs() < 1e-6 && one.verdict == other.verdict);
        prop_assert!((one.change.value.ln_1p() - other.change.value.ln_1p()).abs() < 1e-9);
    }
}

fn sample(value: f64, slices: &[f64]) -> Sample {
    Sample { value, slices: slices.to_vec() }
}

#[test]
fn one_disturbed_slice_of_many_hardly_changes_the_ratio() {
    // Each slice of the second has 5 % more; one of the first has only a hundredth.
    let a = sample(407.0, &[100.0, 1.0, 101.0, 102.0, 103.0]);
    let b = sample(535.5, &[105.0, 105.0, 106.05, 107.1, 108.15]);
    let ratio = a.log_ratio_to(&b).unwrap();
    assert!((ratio - 1.05f64.ln()).abs() < 1e-9, "{ratio}");
}

#[test]
fn few_rounds_and_unlike_ones_have_the_ratio_of_the_wholes() {
    for slices in [&[][..], &[1.0, 1.0, 1.0], &[0.0, 0.0, 0.0, 0.0, 5.0]] {
        let ratio = sample(2.0, slices).log_ratio_to(&sample(3.0, slices)).unwrap();
        assert!((ratio - 1.5f64.ln()).abs() < 1e-12, "{slices:?}: {ratio}");
    }
    let ratio = sample(2.0, &[1.0; 9]).log_ratio_to(&sample(3.0, &[1.0; 8])).unwrap();
    assert!((ratio - 1.5f64.ln()).abs() < 1e-12, "{ratio}");
    assert_eq!(sample(0.0, &[]).log_ratio_to(&sample(3.0, &[])), None);
}
