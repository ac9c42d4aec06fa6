//! Figures of the slices of a run, which follow from their rates.

use fabricmark_plan::{Figure, Pattern};
use fabricmark_record::{Record, SliceRates};
use fabricmark_testkit::{figures, point, record};

/// A run of ping-pong with four slices of `rate_per_s` transactions each.
fn run(flows: u32, rtt_ns: f64, rate_per_s: f64) -> Record {
    let levels = "pattern=ping-pong,transport=udp,family=4,payload=64,link=loopback";
    Record {
        slice_rates: SliceRates::of(Pattern::PingPong, vec![rate_per_s; 4]),
        figures: figures([(Figure::Rtt, rtt_ns), (Figure::RttP99, 3.0 * rtt_ns)]),
        ..record(point(&format!("{levels},flows={flows}")))
    }
}

#[test]
fn more_flows_with_more_transactions_have_a_longer_rtt_in_slices_too() {
    let (one, eight) = (run(1, 12_000.0, 80_000.0), run(8, 32_000.0, 250_000.0));
    let [one, eight] = [one, eight].map(|record| record.sample(Figure::Rtt).unwrap());
    assert_eq!((&one.slices, &eight.slices), (&vec![12_500.0; 4], &vec![32_000.0; 4]));
    let change = one.log_ratio_to(&eight).unwrap().exp();
    assert!((change - 32.0 / 12.5).abs() < 1e-9, "{change}");
}

#[test]
fn a_figure_that_does_not_follow_from_the_rate_has_no_slices() {
    let sample = run(1, 12_000.0, 80_000.0).sample(Figure::RttP99).unwrap();
    assert_eq!((sample.value, sample.slices), (36_000.0, Vec::new()));
}
