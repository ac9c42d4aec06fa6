//! Response functions of congestion controls: goodput at a given loss rate. All are estimates.

use super::connection::{Acks, Connection};
use super::window::window;
use super::{Figure, Value};
use crate::exact::{Input, Kind, inputs};

/// A published response function: the average window of a congestion control at a given loss rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// The square-root law: `C / sqrt(p)` segments (Mathis, Semke, Mahdavi and Ott 1997).
    Reno,
    /// Reno with timeouts and a maximum window: approximate model of Padhye, Firoiu, Towsley and Kurose 1998 (PFTK).
    PftkShort,
    /// PFTK: the full model of the same paper.
    Pftk,
    /// TCP-friendly rate: one segment per ACK, a timeout of four RTTs (RFC 5348, section 3.1).
    Tfrc,
    /// CUBIC with its Reno-friendly region (RFC 9438, section 5).
    Cubic,
    /// HighSpeed TCP (RFC 3649, section 5).
    HighSpeed,
}

impl Law {
    /// All laws, oldest first.
    pub const ALL: [Self; 6] =
        [Self::Reno, Self::PftkShort, Self::Pftk, Self::Tfrc, Self::Cubic, Self::HighSpeed];

    fn formula(self) -> &'static str {
        match self {
            Self::Reno => "8e9 * mss_bytes / rtt_ns * reno_constant / sqrt(loss)",
            Self::PftkShort => {
                "8 * mss_bytes * min(wm/rtt, 1/(rtt*sqrt(2*b*p/3) + t0*min(1, 3*sqrt(3*b*p/8))*p*(1+32*p^2)))"
            }
            Self::Pftk => {
                "8 * mss_bytes * ((1-p)/p + w + q(w)/(1-p)) / (rtt*rounds(w) + q(w)*t0*f(p)/(1-p)), w = min(e(p), wm)"
            }
            Self::Tfrc => "8 * mss_bytes / (rtt*sqrt(2*p/3) + 4*rtt*3*sqrt(3*p/8)*p*(1+32*p^2))",
            Self::Cubic => {
                "8e9 * mss_bytes / rtt_ns * max((0.4*3.7/1.2)^(1/4) * (rtt_s/loss)^(3/4), reno_constant/sqrt(loss))"
            }
            Self::HighSpeed => {
                "8e9 * mss_bytes / rtt_ns * max(0.12/loss^0.835, reno_constant/sqrt(loss))"
            }
        }
    }

    /// Publication of the law.
    pub fn source(self) -> &'static str {
        match self {
            Self::Reno => "Mathis et al. 1997",
            Self::PftkShort => "Padhye et al. 1998, approximate model",
            Self::Pftk => "Padhye et al. 1998, full model",
            Self::Tfrc => "RFC 5348, section 3.1",
            Self::Cubic => "RFC 9438, section 5",
            Self::HighSpeed => "RFC 3649, section 5",
        }
    }
}

/// Goodput in bit/s under `law` at `loss` loss events per segment. An estimate.
///
/// `None` unless `loss` is strictly between 0 and 1, and the connection's MSS, RTT and window are above 0.
pub fn law_goodput(law: Law, connection: &Connection, loss: f64) -> Option<Figure> {
    let is_loss = loss > 0.0 && loss < 1.0;
    if !is_loss || !connection.is_sound() {
        return None;
    }
    let segment_bits = 8.0 * connection.mss_bytes as f64;
    let goodput_bps = window(law, connection, loss) * segment_bits / connection.rtt_s();
    let given = ("loss", format!("{loss:e}").into());
    Some(estimate(law, connection, given, goodput_bps, law.formula()))
}

/// Highest loss, in loss events per segment, at which `law` still gives `goodput_bps`. An estimate.
///
/// `None` if even the lowest loss that is tried, 1e-30, is too high, for example because the window is too small;
/// also unless the goodput and the connection's MSS, RTT and window are above 0.
pub fn tolerated_loss(law: Law, connection: &Connection, goodput_bps: f64) -> Option<Figure> {
    let is_rate = goodput_bps > 0.0 && goodput_bps.is_finite();
    if !is_rate || !connection.is_sound() {
        return None;
    }
    let wanted = goodput_bps * connection.rtt_s() / (8.0 * connection.mss_bytes as f64);
    // The full model approaches its maximum window, but does not reach it at any loss rate.
    if law == Law::Pftk && wanted > connection.window_segments() * (1.0 - 1e-9) {
        return None;
    }
    let suffices = |exponent: f64| window(law, connection, 10f64.powf(exponent)) >= wanted;
    // Every law decreases with the loss rate: bisect the exponent.
    let (mut low, mut high) = (-30.0, -1e-9);
    if !suffices(low) {
        return None;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if suffices(middle) { low = middle } else { high = middle }
    }
    let given = ("goodput_bps", goodput_bps.to_string().into());
    let formula = "the loss at which the law gives goodput_bps";
    Some(estimate(law, connection, given, 10f64.powf(low), formula))
}

/// Mean time in ns between loss events of a stream of `goodput_bps`. An estimate.
///
/// `None` unless all three arguments are above 0.
pub fn between_losses(goodput_bps: f64, mss_bytes: u64, loss: f64) -> Option<Figure> {
    let is_sound = goodput_bps > 0.0 && mss_bytes > 0 && loss > 0.0;
    is_sound.then(|| Figure {
        kind: Kind::Estimate,
        value: Value::Rounded(8e9 * mss_bytes as f64 / (loss * goodput_bps)),
        formula: "8e9 * mss_bytes / (loss * goodput_bps)",
        inputs: inputs([
            ("goodput_bps", goodput_bps.to_string().into()),
            ("mss_bytes", mss_bytes.into()),
            ("loss", format!("{loss:e}").into()),
        ]),
        source: "definition of loss events for each segment",
    })
}

/// Builds an estimate with `given` and the parameters of the connection that the law uses as inputs.
fn estimate(
    law: Law,
    connection: &Connection,
    given: (&str, Input),
    value: f64,
    formula: &'static str,
) -> Figure {
    let (mss_bytes, rtt_ns) = (connection.mss_bytes.into(), connection.rtt.0.into());
    let mut inputs = inputs([given, ("mss_bytes", mss_bytes), ("rtt_ns", rtt_ns)]);
    let mut put = |name: &str, value: Input| {
        inputs.insert(name.to_owned(), value);
    };
    let constant = |acks| connection.fit.constant(acks).to_string().into();
    match law {
        Law::Reno => put("reno_constant", constant(connection.acks)),
        Law::Cubic | Law::HighSpeed => put("reno_constant", constant(Acks::Each)),
        Law::PftkShort | Law::Pftk => {
            put("segments_per_ack", u64::from(connection.acks.segments()).into());
            put("timeout_ns", connection.timeout.0.into());
            put("window_bytes", connection.window_bytes.into());
        }
        Law::Tfrc => {}
    }
    let (kind, value) = (Kind::Estimate, Value::Rounded(value));
    Figure { kind, value, formula, inputs, source: law.source() }
}

#[cfg(test)]
mod tests {
    use fabricmark_units::Nanos;

    use super::super::WINDOW_MAX;
    use super::super::connection::Fit;
    use super::*;
    use proptest::prelude::*;

    fn connection(rtt_ms: u64, acks: Acks, fit: Fit) -> Connection {
        let rtt = Nanos::from_millis(rtt_ms);
        let timeout = Nanos(4 * rtt.0);
        Connection { mss_bytes: 1460, rtt, timeout, window_bytes: u64::MAX, acks, fit }
    }

    #[test]
    fn a_path_of_p3_needs_almost_no_loss_with_reno_and_a_thousand_times_more_with_cubic() {
        let p3 = Connection { mss_bytes: 1428, ..connection(400, Acks::Each, Fit::Periodic) };
        let jumbo = Connection { mss_bytes: 9126, ..p3 };
        for (connection, law, loss, hours) in [
            (p3, Law::Reno, "2.5e-11", 18),
            (p3, Law::Cubic, "2.8e-8", 0),
            (jumbo, Law::Reno, "1.0e-9", 2),
        ] {
            let found = tolerated_loss(law, &connection, 7e9).unwrap();
            assert_eq!(format!("{:.1e}", found.value.as_f64()), loss);
            assert_eq!(found.kind, Kind::Estimate);
            let apart = between_losses(7e9, connection.mss_bytes, found.value.as_f64()).unwrap();
            assert_eq!((apart.value.as_f64() / 3.6e12).floor() as u64, hours, "{law:?}");
        }
    }

    #[test]
    fn what_no_loss_allows_is_not_tolerated() {
        let narrow =
            Connection { window_bytes: WINDOW_MAX, ..connection(400, Acks::Each, Fit::Periodic) };
        // The largest window reaches 21.5 Gbit/s over 400 ms.
        assert!(tolerated_loss(Law::Pftk, &narrow, 21e9).is_some());
        assert_eq!(tolerated_loss(Law::Pftk, &narrow, 22e9), None);
        // The full model reaches its maximum window only without loss.
        let all = 8.0 * WINDOW_MAX as f64 / narrow.rtt_s();
        assert_eq!(tolerated_loss(Law::Pftk, &narrow, all), None);
        assert_eq!(tolerated_loss(Law::Reno, &narrow, 0.0), None);
        for loss in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(law_goodput(Law::Reno, &narrow, loss), None, "{loss}");
        }
        let still = Connection { rtt: Nanos(0), ..narrow };
        assert_eq!(law_goodput(Law::Reno, &still, 0.1), None);
    }

    proptest! {
        #[test]
        fn every_law_falls_with_the_loss_and_gives_the_loss_back(
            exponent in -12.0..-0.5,
            rtt_ms in 1u64..1000,
            delayed: bool,
        ) {
            let acks = if delayed { Acks::Delayed } else { Acks::Each };
            let connection = connection(rtt_ms, acks, Fit::Periodic);
            let loss = 10f64.powf(exponent);
            for law in Law::ALL {
                let goodput = law_goodput(law, &connection, loss).unwrap().value.as_f64();
                let more = law_goodput(law, &connection, loss * 1.1).unwrap().value.as_f64();
                prop_assert!(goodput.is_finite() && goodput > more, "{law:?}");
                let back = tolerated_loss(law, &connection, goodput).unwrap().value.as_f64();
                prop_assert!((back / loss - 1.0).abs() < 1e-6, "{law:?} {back} {loss}");
            }
        }
    }
}
