//! Accuracy of histograms, and that decoding never panics.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fabricmark_stats::{DecodeError, Histogram};
use hdrhistogram::serialization::{Serializer, V2Serializer};
use proptest::prelude::*;

fn of(latencies: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    latencies.iter().for_each(|&ns| histogram.record(ns));
    histogram
}

fn latencies() -> impl Strategy<Value = Vec<u64>> {
    // Latencies spread over all magnitudes, some beyond 60 s.
    proptest::collection::vec((0u32..37, any::<u64>()), 0..50).prop_map(|pairs| {
        pairs.into_iter().map(|(bits, random)| random & ((1 << bits) - 1)).collect()
    })
}

#[test]
fn quantiles_are_within_a_thousandth_and_the_mean_is_exact() {
    let histogram = of(&(1..=1000).map(|i| i * 12_345).collect::<Vec<u64>>());
    for (q, ns) in [(0.5, 6_172_500.0), (0.99, 12_221_550.0), (1.0, 12_345_000.0)] {
        let found = histogram.quantile(q).unwrap() as f64;
        assert!(found >= ns && found <= ns * 1.001, "{q} {found}");
    }
    assert_eq!(histogram.mean_ns(), Some(12_345.0 * 500.5));
    assert_eq!((histogram.len(), histogram.clamped()), (1000, 0));
    assert_eq!(of(&[5, 7]).min().zip(of(&[5, 7]).max()), Some((5, 7)));
}

#[test]
fn the_deviation_is_that_of_a_sample() {
    // Of 1, 2, 3, 4, 5 it is sqrt(10 / 4).
    let found = of(&[1, 2, 3, 4, 5]).deviation_ns().unwrap();
    assert!((found - 2.5_f64.sqrt()).abs() < 1e-12, "{found}");
    assert_eq!(of(&[7]).deviation_ns(), None);
}

#[test]
fn nothing_recorded_has_no_quantile() {
    let empty = Histogram::new();
    assert!(empty.is_empty());
    assert_eq!(
        (empty.quantile(0.5), empty.mean_ns(), empty.min(), empty.max()),
        (None, None, None, None)
    );
    for q in [-0.1, 1.1, f64::NAN] {
        assert_eq!(of(&[1]).quantile(q), None);
    }
}

#[test]
fn more_than_a_minute_is_clamped_and_told() {
    let histogram = of(&[60_000_000_000, 60_000_000_001, u64::MAX]);
    assert_eq!((histogram.len(), histogram.clamped()), (3, 2));
    let max = histogram.max().unwrap();
    assert!((60_000_000_000..60_060_000_000).contains(&max), "{max}");
    let json = serde_json::to_string(&histogram).unwrap();
    assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
}

#[test]
fn what_is_no_histogram_of_ours_is_refused_with_its_reason() {
    let other = hdr_text(&hdrhistogram::Histogram::new_with_bounds(1, u64::MAX / 2, 5).unwrap());
    let cut = &of(&[1, 50, 1_000_000]).encode()[..56];
    let most_negative = with_body(&[0xff; 9]);
    let over_the_range = with_body(&[0xff, 0xff, 0xff, 0xff, 0x01, 0x02]);
    let too_many = with_body(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    for (text, error) in [
        ("", DecodeError::ForeignHeader),
        ("not base64!", DecodeError::NotBase64),
        (&"A".repeat(1_400_000), DecodeError::TooLong),
        (&other, DecodeError::ForeignHeader),
        (cut, DecodeError::DamagedCounts),
        (&most_negative, DecodeError::DamagedCounts),
        (&over_the_range, DecodeError::DamagedCounts),
        (&too_many, DecodeError::DamagedCounts),
    ] {
        assert_eq!(Histogram::decode(text).unwrap_err(), error);
    }
}

#[test]
fn a_sum_that_contradicts_the_counts_is_refused() {
    let text = of(&[100, 200]).encode();
    let read = |sum: u64, clamped: u64| {
        let json = serde_json::json!({ "v2_base64": text, "sum_ns": sum, "clamped": clamped });
        serde_json::from_value::<Histogram>(json).is_ok()
    };
    assert!(read(300, 0));
    for (sum, clamped) in [(199, 0), (401, 0), (300, 3)] {
        assert!(!read(sum, clamped), "{sum} {clamped}");
    }
}

fn hdr_text(histogram: &hdrhistogram::Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    let written = V2Serializer::new().serialize(histogram, &mut bytes);
    written.expect("a vector takes all bytes");
    STANDARD.encode(bytes)
}

/// A text with a valid header and any bytes for counts.
fn with_body(body: &[u8]) -> String {
    let empty = STANDARD.decode(Histogram::new().encode());
    let mut bytes = empty.expect("our own text is base64");
    bytes.truncate(40);
    bytes[4..8].copy_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend(body);
    STANDARD.encode(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_is_recording_all(a in latencies(), b in latencies()) {
        let mut merged = of(&a);
        merged.merge(&of(&b));
        prop_assert_eq!(merged, of(&[a, b].concat()));
    }

    #[test]
    fn a_histogram_survives_its_json(latencies in latencies()) {
        let histogram = of(&latencies);
        let json = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Histogram>(&json).unwrap(), &histogram);
        prop_assert_eq!(Histogram::decode(&histogram.encode()).unwrap().encode(), histogram.encode());
    }

    #[test]
    fn no_counts_make_a_panic(body in proptest::collection::vec(prop_oneof![Just(0xffu8), Just(0xfe), any::<u8>()], 0..60)) {
        if let Ok(histogram) = Histogram::decode(&with_body(&body)) {
            let mut twice = histogram.clone();
            twice.merge(&histogram);
            prop_assert_eq!(twice.len(), 2 * histogram.len());
            prop_assert!(histogram.quantile(0.5) <= histogram.max());
            twice.encode();
        }
    }

    #[test]
    fn no_text_makes_a_panic(text in "[A-Za-z0-9+/=]{0,120}") {
        let _ = Histogram::decode(&text);
    }
}
