//! Long fat networks: what the bandwidth-delay product requires of a TCP connection.
//!
//! Figures that depend on the path alone are bounds: [`bdp`], [`window_limit`], [`fibre_rtt`]. Figures that depend on
//! how congestion control responds to loss are estimates ([`law_goodput`]). The expected goodput is the [`least`] of
//! a stream's bound, the window limit and the estimate.

mod connection;
mod law;
mod ramp;
mod window;

use fabricmark_units::{BIT_NS, Nanos};

use crate::exact::{Exact, Inputs, Kind, inputs};
use crate::path::{FIBRE_INDEX_THOUSANDTHS, LIGHT};

pub use connection::{Acks, Connection, Fit};
pub use law::{Law, between_losses, law_goodput, tolerated_loss};
pub use ramp::{Ramp, cubic_recovery, reno_recovery, slow_start};

/// Maximum TCP window in bytes: 65,535 scaled by 2^14 (RFC 7323, section 2.3).
pub const WINDOW_MAX: u64 = 65_535 << WINDOW_SCALE_MAX;

/// Maximum shift count of the window scale option (RFC 7323, section 2.3).
const WINDOW_SCALE_MAX: u8 = 14;

/// Refractive index of single-mode fibre: the ratio of the speed of light in vacuum to that in fibre.
pub const FIBRE_INDEX: f64 = FIBRE_INDEX_THOUSANDTHS as f64 / 1e3;

/// Maximum distance of a land-speed record in metres (rules of Internet2: 32,372 km were scored as 30,000 km).
const RECORD_DISTANCE_MAX: u64 = 30_000_000;

/// One figure of the model. Its unit is documented at the function that returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Bound, conditional or estimate; only a bound may be tested against.
    pub kind: Kind,
    /// Value of the figure.
    pub value: Value,
    /// Formula, in terms of the names in `inputs`.
    pub formula: &'static str,
    /// Inputs of the formula; the unit is in each name.
    pub inputs: Inputs,
    /// Source of the formula.
    pub source: &'static str,
}

/// A figure's value: a fraction if the formula is rational, a double if it has roots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Exact fraction.
    Exact(Exact),
    /// Rounded to a double.
    Rounded(f64),
}

impl Value {
    /// The value as a double.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Exact(exact) => exact.as_f64(),
            Self::Rounded(value) => value,
        }
    }
}

/// Bandwidth-delay product in bytes: the data in flight that fills a path of `rate_bps` and `rtt`. A bound: a smaller
/// window cannot sustain the rate.
///
/// `None` on overflow.
pub fn bdp(rate_bps: Exact, rtt: Nanos) -> Option<Figure> {
    Some(Figure {
        kind: Kind::Bound,
        value: Value::Exact(rate_bps.scaled(rtt.0.into(), BIT_NS)?),
        formula: "rate_bps * rtt_ns / 8e9",
        inputs: inputs([("rate_bps", rate_bps.into()), ("rtt_ns", rtt.0.into())]),
        source: "definition; RFC 7323, section 1.1",
    })
}

/// Maximum rate in bit/s of a window of `window_bytes` over `rtt`. A bound.
///
/// `None` for an RTT of 0, which is no limit.
pub fn window_limit(window_bytes: u64, rtt: Nanos) -> Option<Figure> {
    Some(Figure {
        kind: Kind::Bound,
        value: Value::Exact(Exact::new(u128::from(window_bytes) * BIT_NS, rtt.0.into())?),
        formula: "8e9 * window_bytes / rtt_ns",
        inputs: inputs([("window_bytes", window_bytes.into()), ("rtt_ns", rtt.0.into())]),
        source: "RFC 7323, section 1.1",
    })
}

/// Maximum RTT in ns over which a window of `window_bytes` sustains `rate_bps`. A bound.
///
/// `None` for a rate of 0.
pub fn longest_rtt(rate_bps: Exact, window_bytes: u64) -> Option<Figure> {
    Some(Figure {
        kind: Kind::Bound,
        value: Value::Exact(Exact::new(
            (u128::from(window_bytes) * BIT_NS).checked_mul(rate_bps.denominator())?,
            rate_bps.numerator(),
        )?),
        formula: "8e9 * window_bytes / rate_bps",
        inputs: inputs([("rate_bps", rate_bps.into()), ("window_bytes", window_bytes.into())]),
        source: "RFC 7323, section 1.1",
    })
}

/// Smallest window scale with which TCP can advertise `window_bytes`; `None` above [`WINDOW_MAX`].
pub fn window_scale(window_bytes: u64) -> Option<u8> {
    (0..=WINDOW_SCALE_MAX).find(|shift| 65_535 << shift >= window_bytes)
}

/// Minimum RTT in ns over fibre of `distance_m` metres one way. A bound for fibre.
///
/// `2 * distance * n / c` with `n` = 1.468. Radio and hollow-core fibre are faster.
pub fn fibre_rtt(distance_m: u64) -> Figure {
    let nanos = 2 * u128::from(distance_m) * FIBRE_INDEX_THOUSANDTHS * 1_000_000;
    Figure {
        kind: Kind::Bound,
        // Two factors of 32 bits and one of 64 do not overflow, and the denominator is not 0.
        value: Value::Exact(Exact::new(nanos, LIGHT).unwrap_or(Exact::ZERO)),
        formula: "2 * distance_m * 1.468 / 299792458 * 1e9",
        inputs: inputs([("distance_m", distance_m.into())]),
        source: "speed of light (SI), index of G.652 fibre",
    }
}

/// Maximum one-way length of fibre in metres for an RTT of `rtt`, rounded down.
pub fn fibre_distance(rtt: Nanos) -> u64 {
    let metres = u128::from(rtt.0) * LIGHT / (2 * FIBRE_INDEX_THOUSANDTHS * 1_000_000);
    u64::try_from(metres).unwrap_or(u64::MAX)
}

/// Land-speed metric in bit-metres per second: rate times distance, up to 30,000 km. The kind is that of `rate`.
///
/// `None` on overflow.
pub fn land_speed(rate: &Figure, distance_m: u64) -> Option<Figure> {
    let scored_m = distance_m.min(RECORD_DISTANCE_MAX);
    Some(Figure {
        kind: rate.kind,
        value: match rate.value {
            Value::Exact(rate) => Value::Exact(rate.scaled(scored_m.into(), 1)?),
            Value::Rounded(rate) => Value::Rounded(rate * scored_m as f64),
        },
        formula: "rate_bps * min(distance_m, 30000000)",
        inputs: inputs([
            ("rate_bps", rate.value.as_f64().to_string().into()),
            ("distance_m", distance_m.into()),
        ]),
        source: "rules of the Internet2 land speed record",
    })
}

/// Index of the figure that limits: the lowest of `rates`, and among equal ones a bound before a conditional before
/// an estimate. `None` if `rates` is empty.
///
/// The lowest of a stream's bound, the window limit and a law's estimate is the expected goodput. It is a bound only
/// if the figure that limits is one.
pub fn least(rates: &[Figure]) -> Option<usize> {
    let firmness = |kind: Kind| match kind {
        Kind::Bound => 0,
        Kind::Conditional => 1,
        Kind::Estimate => 2,
    };
    (0..rates.len()).min_by(|&a, &b| {
        let (a, b) = (&rates[a], &rates[b]);
        let by_value = a.value.as_f64().total_cmp(&b.value.as_f64());
        by_value.then(firmness(a.kind).cmp(&firmness(b.kind)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn rate(bps: u64) -> Exact {
        Exact::new(bps.into(), 1).unwrap()
    }

    fn exact(figure: &Figure) -> Exact {
        match figure.value {
            Value::Exact(exact) => exact,
            Value::Rounded(value) => panic!("{value} is rounded"),
        }
    }

    #[test]
    fn a_rate_and_a_round_trip_need_the_window_of_their_product() {
        // 100 Gbit/s for 60 ms are 6 Gbit.
        let product = bdp(rate(100_000_000_000), Nanos(60 * MS)).unwrap();
        assert_eq!((exact(&product), product.kind), (rate(750_000_000), Kind::Bound));
        // The rate of FDR is a fraction, and so is its BDP.
        let fdr = Exact::new(600_000_000_000, 11).unwrap();
        let product = bdp(fdr, Nanos(MS)).unwrap();
        assert_eq!(exact(&product), Exact::new(75_000_000, 11).unwrap());
    }

    #[test]
    fn a_window_of_64_kib_over_100_ms_reaches_5_mbit() {
        let limit = window_limit(65_535, Nanos(100 * MS)).unwrap();
        assert_eq!((exact(&limit), limit.kind), (rate(5_242_800), Kind::Bound));
        assert_eq!(window_limit(65_535, Nanos(0)), None);
    }

    #[test]
    fn the_windows_of_p3_allow_more_than_its_paths_carried() {
        // Window in MB, RTT in ms, rate in Mbit/s; window limit in Gbit/s, window in BDPs.
        for (mb, ms, mbps, gbps, products) in [
            (512, 178, 5960, "23.0", "3.861"),
            (896, 322, 5600, "22.3", "3.975"),
            (896, 500, 5600, "14.3", "2.560"),
        ] {
            let (window, rtt) = (mb * 1_000_000, Nanos(ms * MS));
            let limit = window_limit(window, rtt).unwrap().value.as_f64() / 1e9;
            let product = bdp(rate(mbps * 1_000_000), rtt).unwrap().value.as_f64();
            let found = (format!("{limit:.1}"), format!("{:.3}", window as f64 / product));
            assert_eq!(found, (gbps.to_owned(), products.to_owned()));
        }
    }

    #[test]
    fn three_times_the_product_fits_the_largest_window_up_to_409_ms() {
        assert_eq!(WINDOW_MAX, 1_073_725_440);
        for (gbps, ms) in [(7, 409.0), (10, 286.0)] {
            let longest = longest_rtt(rate(3 * gbps * 1_000_000_000), WINDOW_MAX).unwrap();
            assert_eq!((longest.value.as_f64() / 1e6).floor(), ms, "{gbps}");
        }
        assert_eq!(longest_rtt(rate(0), WINDOW_MAX), None);
    }

    #[test]
    fn the_shift_of_a_window_is_the_smallest_that_expresses_it() {
        for (window, shift) in [
            (0, Some(0)),
            (65_535, Some(0)),
            (65_536, Some(1)),
            (WINDOW_MAX, Some(14)),
            (WINDOW_MAX + 1, None),
            (u64::MAX, None),
        ] {
            assert_eq!(window_scale(window), shift, "{window}");
        }
    }

    #[test]
    fn light_in_fibre_bounds_the_round_trips_of_p3() {
        for (km, ms) in [(15_461, 151.4), (20_294, 198.7), (35_755, 350.2)] {
            let floor = fibre_rtt(km * 1000);
            assert_eq!(format!("{:.1}", floor.value.as_f64() / 1e6), ms.to_string(), "{km}");
            assert_eq!(floor.kind, Kind::Bound);
        }
        // 4.897 µs/km one way.
        assert_eq!(format!("{:.3}", fibre_rtt(1000).value.as_f64() / 2e3), "4.897");
    }

    #[test]
    fn a_round_trip_reaches_as_far_as_its_fibre() {
        // 400 ms are 40,843 km one way, a little more than the circumference of the Earth.
        assert_eq!(fibre_distance(Nanos(400 * MS)) / 1000, 40_843);
        assert_eq!(fibre_distance(Nanos(0)), 0);
        for km in [1, 15_461, 35_755] {
            let rtt = fibre_rtt(km * 1000).value.as_f64().ceil() as u64;
            assert_eq!(fibre_distance(Nanos(rtt)), km * 1000, "{km}");
        }
    }

    #[test]
    fn a_land_speed_record_counts_30_000_km_at_most() {
        for (bps, km, terabit_metres) in [
            (5_600_000_000, 35_755, 168_000),
            (9_080_000_000, 32_372, 272_400),
            (5_600_000_000, 15_461, 86_581),
        ] {
            let limit = window_limit(bps / 8, Nanos(1000 * MS)).unwrap();
            let record = land_speed(&limit, km * 1000).unwrap();
            let rounded = (record.value.as_f64() / 1e12).floor() as u64;
            assert_eq!((rounded, record.kind), (terabit_metres, Kind::Bound), "{km}");
        }
    }

    #[test]
    fn the_least_limits_and_of_equals_the_firmest() {
        let figure = |kind, value| Figure {
            kind,
            value: Value::Rounded(value),
            formula: "",
            inputs: Inputs::new(),
            source: "",
        };
        let rates = [
            figure(Kind::Estimate, 2.0),
            figure(Kind::Bound, 2.0),
            figure(Kind::Conditional, 2.0),
            figure(Kind::Bound, 3.0),
        ];
        assert_eq!(least(&rates), Some(1));
        assert_eq!(least(&rates[..1]), Some(0));
        assert_eq!(least(&[]), None);
    }

    proptest! {
        #[test]
        fn the_window_of_a_rate_reaches_that_rate(bps in 1u64..1 << 40, rtt in 1u64..1 << 40) {
            let window = bdp(rate(bps), Nanos(rtt)).unwrap();
            let whole = window.value.as_f64().ceil() as u64;
            let limit = window_limit(whole, Nanos(rtt)).unwrap();
            prop_assert!(limit.value.as_f64() >= bps as f64 * (1.0 - 1e-12));
        }

        #[test]
        fn no_input_makes_the_bounds_panic(n: u128, d in 1u128.., rtt: u64, window: u64, metres: u64) {
            let rate = Exact::new(n, d).unwrap();
            let _ = (bdp(rate, Nanos(rtt)), longest_rtt(rate, window), window_scale(window));
            let _ = (fibre_rtt(metres), window_limit(window, Nanos(rtt)));
        }
    }
}
