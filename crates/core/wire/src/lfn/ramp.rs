//! Duration of slow start, and of the recovery of the window after a loss.

use fabricmark_units::Nanos;

use super::connection::Acks;
use super::window::{CUBIC_BETA, CUBIC_C};
use super::{Figure, Value};
use crate::exact::{Exact, Kind, inputs};

/// Result of slow start up to a given window.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    /// RTTs until the window is reached.
    pub rounds: u32,
    /// Duration of these RTTs in ns.
    pub time_ns: Figure,
    /// Bytes sent during these RTTs.
    pub sent_bytes: Figure,
}

/// Slow start from `initial_segments` to a window of `window_bytes`.
///
/// Conditional: the time is the minimum for a stack that starts with that window and increases it by one segment per
/// ACK, as RFC 5681 allows. The window doubles each RTT with one ACK per segment, and grows by half with delayed
/// ACKs. `None` if the initial window is 0, or on overflow.
pub fn slow_start(
    window_bytes: u64,
    mss_bytes: u64,
    initial_segments: u64,
    acks: Acks,
    rtt: Nanos,
) -> Option<Ramp> {
    let initial_bytes = mss_bytes.checked_mul(initial_segments).filter(|&bytes| bytes > 0)?;
    // The window after n rounds is exactly initial * numerator / denominator.
    let (grows, by) = match acks {
        Acks::Each => (2u128, 1u128),
        Acks::Delayed => (3, 2),
    };
    let (mut rounds, mut numerator, mut denominator) = (0u32, 1u128, 1u128);
    while u128::from(initial_bytes).checked_mul(numerator)?
        < u128::from(window_bytes).checked_mul(denominator)?
    {
        numerator = numerator.checked_mul(grows)?;
        denominator = denominator.checked_mul(by)?;
        rounds += 1;
    }
    // initial * (g^n - 1) / (g - 1), where g - 1 is 1 or 1/2.
    let sent = Exact::new(numerator - denominator, denominator)?
        .scaled(u128::from(initial_bytes) * by, 1)?;
    let of = |value, formula| Figure {
        kind: Kind::Conditional,
        value: Value::Exact(value),
        formula,
        inputs: inputs([
            ("window_bytes", window_bytes.into()),
            ("mss_bytes", mss_bytes.into()),
            ("initial_segments", initial_segments.into()),
            ("growth", if by == 1 { "2" } else { "1.5" }.to_owned().into()),
            ("rounds", u64::from(rounds).into()),
            ("rtt_ns", rtt.0.into()),
        ]),
        source: "RFC 5681, section 3.1; RFC 6928",
    };
    let time = Exact::new(u128::from(rounds) * u128::from(rtt.0), 1)?;
    Some(Ramp {
        rounds,
        time_ns: of(time, "rounds * rtt_ns"),
        sent_bytes: of(sent, "initial_segments * mss_bytes * (growth^rounds - 1) / (growth - 1)"),
    })
}

/// Time in ns until Reno regains a window of `window_bytes` after one loss: it grows by half the window, one segment
/// per RTT, or per two RTTs with delayed ACKs. An estimate.
///
/// `None` for an MSS of 0, or on overflow.
pub fn reno_recovery(
    window_bytes: Exact,
    mss_bytes: u64,
    acks: Acks,
    rtt: Nanos,
) -> Option<Figure> {
    let rounds_ns = u128::from(acks.segments()) * u128::from(rtt.0);
    Some(Figure {
        kind: Kind::Estimate,
        value: Value::Exact(window_bytes.scaled(rounds_ns, 2 * u128::from(mss_bytes))?),
        formula: "window_bytes / mss_bytes / 2 * segments_per_ack * rtt_ns",
        inputs: inputs([
            ("window_bytes", window_bytes.into()),
            ("mss_bytes", mss_bytes.into()),
            ("segments_per_ack", u64::from(acks.segments()).into()),
            ("rtt_ns", rtt.0.into()),
        ]),
        source: "RFC 5681, section 3.1",
    })
}

/// Time in ns until CUBIC regains a window of `window_bytes` after one loss: `K`, which does not depend on the RTT, or less
/// in the Reno-friendly region, where the window grows by 3 * 0.3 / 1.7 segments per RTT. An estimate.
///
/// `None` for an MSS of 0, or on overflow.
pub fn cubic_recovery(window_bytes: Exact, mss_bytes: u64, rtt: Nanos) -> Option<Figure> {
    let segments = window_bytes.scaled(1, mss_bytes.into())?.as_f64();
    let cubic_ns = 1e9 * (segments * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt();
    let as_reno_ns = segments * (1.0 + CUBIC_BETA) / 3.0 * rtt.0 as f64;
    Some(Figure {
        kind: Kind::Estimate,
        value: Value::Rounded(cubic_ns.min(as_reno_ns)),
        formula: "min(1e9 * cbrt(window_bytes / mss_bytes * 0.3 / 0.4), window_bytes / mss_bytes * 1.7 / 3 * rtt_ns)",
        inputs: inputs([
            ("window_bytes", window_bytes.into()),
            ("mss_bytes", mss_bytes.into()),
            ("rtt_ns", rtt.0.into()),
        ]),
        source: "RFC 9438, sections 4.2 and 4.3",
    })
}

#[cfg(test)]
mod tests {
    use super::super::bdp;
    use super::*;
    use proptest::prelude::*;

    const RTT: Nanos = Nanos::from_millis(100);

    fn whole(figure: &Figure) -> f64 {
        assert!(matches!(figure.value, Value::Exact(_)));
        figure.value.as_f64()
    }

    #[test]
    fn slow_start_doubles_or_grows_by_half_until_the_window_is_open() {
        for (window, acks, rounds, sent) in [
            (14_600, Acks::Each, 0, 0.0),
            (14_601, Acks::Each, 1, 14_600.0),
            (29_200, Acks::Each, 1, 14_600.0),
            (29_201, Acks::Each, 2, 43_800.0),
            // 10, 15 and 22.5 segments are sent before the window reaches 33.75.
            (49_275, Acks::Delayed, 3, 69_350.0),
            (49_276, Acks::Delayed, 4, 118_625.0),
        ] {
            let ramp = slow_start(window, 1460, 10, acks, RTT).unwrap();
            let expected = (rounds, f64::from(rounds) * 1e8, sent);
            assert_eq!((ramp.rounds, whole(&ramp.time_ns), whole(&ramp.sent_bytes)), expected);
            assert_eq!(ramp.time_ns.kind, Kind::Conditional);
        }
    }

    #[test]
    fn nothing_grows_from_nothing_and_what_does_not_fit_is_no_figure() {
        assert_eq!(slow_start(1 << 20, 0, 10, Acks::Each, RTT), None);
        assert_eq!(slow_start(1 << 20, 1460, 0, Acks::Each, RTT), None);
        assert_eq!(slow_start(u64::MAX, 1, 1, Acks::Delayed, RTT), None);
        assert_eq!(slow_start(u64::MAX, 1, 1, Acks::Each, RTT).unwrap().rounds, 64);
        let window = Exact::new(1, 1).unwrap();
        assert_eq!(reno_recovery(window, 0, Acks::Each, RTT), None);
        assert_eq!(cubic_recovery(window, 0, RTT), None);
    }

    #[test]
    fn a_path_of_p3_recovers_in_hours_with_reno_and_in_a_minute_with_cubic() {
        let rtt = Nanos::from_millis(400);
        let product = bdp(Exact::new(7_000_000_000, 1).unwrap(), rtt).unwrap();
        let Value::Exact(window) = product.value else { panic!("rational") };
        for (mss, segments, reno_h, cubic_s) in
            [(1428, 245_098, "13.6", "57"), (9126, 38_352, "2.1", "31")]
        {
            assert_eq!((window.as_f64() / f64::from(mss)).round(), f64::from(segments));
            let mss = u64::try_from(mss).unwrap();
            let reno = reno_recovery(window, mss, Acks::Each, rtt).unwrap();
            assert_eq!(format!("{:.1}", whole(&reno) / 3.6e12), reno_h);
            let cubic = cubic_recovery(window, mss, rtt).unwrap();
            assert_eq!(format!("{:.0}", cubic.value.as_f64() / 1e9), cubic_s);
            let delayed = reno_recovery(window, mss, Acks::Delayed, rtt).unwrap();
            assert_eq!(whole(&delayed), 2.0 * whole(&reno));
        }
    }

    #[test]
    fn cubic_recovers_as_reno_does_where_the_rtt_is_short() {
        let window = Exact::new(1000 * 1460, 1).unwrap();
        // 300 segments at 9/17 of a segment per RTT; K of 1,000 segments is 9.086 s.
        for (rtt_ms, recovery_s) in [(1, "0.567"), (10, "5.667"), (100, "9.086")] {
            let found = cubic_recovery(window, 1460, Nanos::from_millis(rtt_ms)).unwrap();
            assert_eq!(format!("{:.3}", found.value.as_f64() / 1e9), recovery_s);
        }
    }

    proptest! {
        #[test]
        fn slow_start_ends_in_the_first_round_whose_window_suffices(
            window in 1u64..1 << 40,
            mss in 1u64..9000,
            initial in 1u64..20,
        ) {
            let ramp = slow_start(window, mss, initial, Acks::Each, RTT).unwrap();
            let after = |rounds: u32| (mss * initial) << rounds;
            prop_assert!(after(ramp.rounds) >= window);
            prop_assert!(ramp.rounds == 0 || after(ramp.rounds - 1) < window);
        }
    }
}
