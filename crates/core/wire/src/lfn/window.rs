//! Formulas of the laws: the average window in segments at a given loss rate.

use super::Law;
use super::connection::{Acks, Connection};

/// Average window in segments under `law` at a loss rate strictly between 0 and 1.
pub(super) fn window(law: Law, connection: &Connection, loss: f64) -> f64 {
    let reno = |acks| connection.fit.constant(acks) / loss.sqrt();
    match law {
        Law::Reno => reno(connection.acks),
        Law::PftkShort => connection.rtt_s() * pftk_short(connection, loss),
        Law::Pftk => connection.rtt_s() * pftk(connection, loss),
        Law::Tfrc => 1.0 / tfrc_rounds(loss),
        Law::Cubic => cubic_window(CUBIC_C, connection.rtt_s(), loss).max(reno(Acks::Each)),
        Law::HighSpeed => highspeed_window(loss).max(reno(Acks::Each)),
    }
}

/// Segments per second in the approximate PFTK model.
fn pftk_short(connection: &Connection, p: f64) -> f64 {
    let b = f64::from(connection.acks.segments());
    let (rtt, t0) = (connection.rtt_s(), connection.timeout.as_secs_f64());
    let timeouts = (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    let by_loss = 1.0 / (rtt * (2.0 * b * p / 3.0).sqrt() + t0 * timeouts);
    by_loss.min(connection.window_segments() / rtt)
}

/// Segments per second in the full PFTK model.
fn pftk(connection: &Connection, p: f64) -> f64 {
    let b = f64::from(connection.acks.segments());
    let (rtt, t0) = (connection.rtt_s(), connection.timeout.as_secs_f64());
    let k = (2.0 + b) / (3.0 * b);
    let unlimited = k + (8.0 * (1.0 - p) / (3.0 * b * p) + k * k).sqrt();
    let largest = connection.window_segments();
    let (window, rounds) = if unlimited < largest {
        (unlimited, b * unlimited / 2.0 + 1.0)
    } else {
        (largest, b * largest / 8.0 + (1.0 - p) / (p * largest) + 2.0)
    };
    let by_timeout = timeout_share(window, p);
    let backoff = (0..6).fold(1.0, |sum, i| sum + f64::from(1 << i) * p.powi(i + 1));
    let segments = (1.0 - p) / p + window + by_timeout / (1.0 - p);
    segments / (rtt * rounds + by_timeout * t0 * backoff / (1.0 - p))
}

/// PFTK's `Q`: the fraction of losses in a window of `w` segments that cause a timeout.
fn timeout_share(w: f64, p: f64) -> f64 {
    if w <= 3.0 {
        return 1.0;
    }
    // Probability of at least one loss among `n` segments, without cancellation if `p` is tiny.
    let any_of = |n: f64| -(n * (-p).ln_1p()).exp_m1();
    let share = any_of(3.0) * (1.0 + (1.0 - p).powi(3) * any_of(w - 3.0)) / any_of(w);
    share.min(1.0)
}

/// RTTs per segment at a loss event rate `p` (RFC 5348).
fn tfrc_rounds(p: f64) -> f64 {
    (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)
}

/// CUBIC's constant `C` in segments per cubic second (RFC 9438, section 5).
pub(super) const CUBIC_C: f64 = 0.4;
/// CUBIC's decrease factor (RFC 9438, section 4.6).
pub(super) const CUBIC_BETA: f64 = 0.7;

/// CUBIC's average window in segments (RFC 9438, figure 7), without its Reno-friendly region.
fn cubic_window(c: f64, rtt_s: f64, loss: f64) -> f64 {
    let quarter = (c * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA))).powf(0.25);
    quarter * (rtt_s / loss).powf(0.75)
}

/// HighSpeed TCP's average window in segments (RFC 3649, section 5, as printed there and used in the tables of RFC
/// 9438). The rounded exponent gives 83,981 at a loss of 1e-7, where the response function is defined as 83,000.
fn highspeed_window(loss: f64) -> f64 {
    0.12 / loss.powf(0.835)
}

#[cfg(test)]
mod tests {
    use fabricmark_units::Nanos;

    use super::super::connection::Fit;
    use super::*;

    fn connection(rtt_ms: u64, acks: Acks, fit: Fit) -> Connection {
        let rtt = Nanos::from_millis(rtt_ms);
        let timeout = Nanos(4 * rtt.0);
        Connection { mss_bytes: 1460, rtt, timeout, window_bytes: u64::MAX, acks, fit }
    }

    /// Loss rate; Reno, HighSpeed; CUBIC with C = 0.04, 0.4, 4. In segments.
    type Row = (f64, [f64; 2], [f64; 3]);

    /// RFC 9438, table 1.
    const RTT_100_MS: [Row; 7] = [
        (1e-2, [12.0, 12.0], [12.0, 12.0, 12.0]),
        (1e-3, [38.0, 38.0], [38.0, 38.0, 59.0]),
        (1e-4, [120.0, 263.0], [120.0, 187.0, 333.0]),
        (1e-5, [379.0, 1795.0], [593.0, 1054.0, 1874.0]),
        (1e-6, [1200.0, 12_280.0], [3332.0, 5926.0, 10_538.0]),
        (1e-7, [3795.0, 83_981.0], [18_740.0, 33_325.0, 59_261.0]),
        (1e-8, [12_000.0, 574_356.0], [105_383.0, 187_400.0, 333_250.0]),
    ];

    /// RFC 9438, table 2.
    const RTT_10_MS: [Row; 7] = [
        (1e-2, [12.0, 12.0], [12.0, 12.0, 12.0]),
        (1e-3, [38.0, 38.0], [38.0, 38.0, 38.0]),
        (1e-4, [120.0, 263.0], [120.0, 120.0, 120.0]),
        (1e-5, [379.0, 1795.0], [379.0, 379.0, 379.0]),
        (1e-6, [1200.0, 12_280.0], [1200.0, 1200.0, 1874.0]),
        (1e-7, [3795.0, 83_981.0], [3795.0, 5926.0, 10_538.0]),
        (1e-8, [12_000.0, 574_356.0], [18_740.0, 33_325.0, 59_261.0]),
    ];

    #[test]
    fn windows_are_those_of_both_tables_of_rfc_9438() {
        for (rtt_ms, rows) in [(100, RTT_100_MS), (10, RTT_10_MS)] {
            let connection = connection(rtt_ms, Acks::Each, Fit::Rounded);
            for (loss, [reno, highspeed], cubic) in rows {
                let segments = |law| window(law, &connection, loss).round();
                let case = format!("{rtt_ms} ms, {loss:e}");
                assert_eq!(segments(Law::Reno), reno, "{case}");
                assert_eq!(segments(Law::HighSpeed), highspeed, "{case}");
                assert_eq!(segments(Law::Cubic), cubic[1], "{case}");
                let fallback = segments(Law::Reno);
                let of_c = |c| cubic_window(c, connection.rtt_s(), loss).round().max(fallback);
                assert_eq!([0.04, 0.4, 4.0].map(of_c), cubic, "{case}");
            }
        }
    }

    #[test]
    fn pftk_tends_to_the_square_root_law_as_loss_vanishes() {
        let connection = connection(100, Acks::Delayed, Fit::Periodic);
        let segments = [Law::Pftk, Law::PftkShort, Law::Reno]
            .map(|law| (window(law, &connection, 1e-6) / 0.1).round());
        assert_eq!(segments, [8658.0, 8660.0, 8660.0]);
        for law in [Law::Pftk, Law::PftkShort] {
            let ratio = window(law, &connection, 1e-18) / window(Law::Reno, &connection, 1e-18);
            assert!((ratio - 1.0).abs() < 1e-6, "{law:?}: {ratio}");
        }
    }

    #[test]
    fn pftk_is_limited_by_the_window_and_by_time_outs() {
        let open = connection(100, Acks::Delayed, Fit::Periodic);
        let narrow = Connection { window_bytes: 10 * 1460, ..open };
        assert_eq!(window(Law::PftkShort, &narrow, 1e-6).round(), 10.0);
        assert!((9.9..=10.0).contains(&window(Law::Pftk, &narrow, 1e-6)));
        let slow = Connection { timeout: Nanos::from_secs(3), ..open };
        for law in [Law::PftkShort, Law::Pftk] {
            assert!(window(law, &slow, 0.05) < window(law, &open, 0.05), "{law:?}");
        }
    }

    #[test]
    fn tfrc_is_the_short_form_without_its_limits() {
        // f(1e-4) = sqrt(2e-4/3) + 12 * sqrt(3e-4/8) * 1e-4 = 0.0081723, by RFC 5348.
        let each = connection(100, Acks::Each, Fit::Periodic);
        assert_eq!((1e7 * tfrc_rounds(1e-4)).round(), 81_723.0);
        let ratio = window(Law::Tfrc, &each, 1e-4) / window(Law::PftkShort, &each, 1e-4);
        assert!((ratio - 1.0).abs() < 1e-12, "{ratio}");
        // At this loss PFTK limits the fraction of timeouts to 1.
        assert!(window(Law::Tfrc, &each, 0.9) < window(Law::PftkShort, &each, 0.9));
    }
}
