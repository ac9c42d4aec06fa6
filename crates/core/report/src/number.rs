//! Formatting of figures: units, digits and signs.

use std::fmt;

use fabricmark_plan::{Figure, Unit};
use fabricmark_stats::{Comparison, Estimate, Interval};

/// The unit in which a table or a chart prints a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub name: &'static str,
    /// Number of base units per unit.
    pub size: f64,
    /// Suffix of keys in the base unit.
    pub key: &'static str,
}

/// The unit in which rates are printed, by the letters of iperf3's `-f`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateUnit {
    /// For example `Mbit/s`.
    pub name: &'static str,
    /// Bit/s in one unit.
    pub size_bps: f64,
}

impl RateUnit {
    /// `m`, the default.
    pub const MBIT: Self = Self { name: "Mbit/s", size_bps: 1e6 };

    /// Lower case: bits, with prefixes of powers of 10. Upper case: bytes, with prefixes of powers of 2.
    pub fn parse(letter: &str) -> Result<Self, String> {
        let (name, size_bps) = match letter {
            "k" => ("kbit/s", 1e3),
            "m" => return Ok(Self::MBIT),
            "g" => ("Gbit/s", 1e9),
            "t" => ("Tbit/s", 1e12),
            "K" => ("KiB/s", 8.0 * 1_024.0),
            "M" => ("MiB/s", 8.0 * 1_024.0 * 1_024.0),
            "G" => ("GiB/s", 8.0 * 1_024.0 * 1_024.0 * 1_024.0),
            "T" => ("TiB/s", 8.0 * 1_024.0 * 1_024.0 * 1_024.0 * 1_024.0),
            _ => return Err("use one of k, m, g, t, K, M, G, T".to_owned()),
        };
        Ok(Self { name, size_bps })
    }
}

impl Scale {
    /// As [`Self::of`], with rates in `rates`.
    pub(crate) fn with_rates(figure: Figure, rates: RateUnit) -> Self {
        match figure.spec().unit {
            Unit::Bps => Self { name: rates.name, size: rates.size_bps, ..Self::of(figure) },
            _ => Self::of(figure),
        }
    }

    pub(crate) fn of(figure: Figure) -> Self {
        let (name, size) = match figure.spec().unit {
            Unit::Bps => (RateUnit::MBIT.name, RateUnit::MBIT.size_bps),
            Unit::PerSecond => ("/s", 1.0),
            Unit::Nanos => ("µs", 1e3),
            Unit::UsPerKib => ("µs/KiB", 1.0),
            Unit::UsPerTransaction => ("µs/transaction", 1.0),
            Unit::BitMetresPerSecond => ("Tbit·m/s", 1e12),
            Unit::Segments | Unit::Packets => ("a run", 1.0),
            Unit::Bytes => ("KiB", 1024.0),
            Unit::Share => ("%", 0.01),
            Unit::Index => ("", 1.0),
        };
        Self { name, size, key: figure.spec().unit.key() }
    }
}

/// A formatted figure or change, and its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    /// `941.4`; `−5.1 %`
    pub value: String,
    /// `± 0.3`; `[4,100, 93,000]` for an asymmetric interval and for changes; or why there is no interval.
    pub spread: String,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.spread)
    }
}

/// Formats an estimate in `unit`, with two digits of its half-width.
pub(crate) fn estimate(estimate: &Estimate, unit: Scale) -> Written {
    let value = estimate.value / unit.size;
    let half_width = estimate.half_width().map(|width| width / unit.size);
    let decimals = decimals(half_width, value);
    Written {
        value: fixed(value, decimals),
        spread: match (estimate.interval, half_width) {
            (Some(interval), Some(width)) if is_symmetric(estimate.value, interval) => {
                format!("± {}", fixed(width, decimals))
            }
            (Some(Interval { low, high }), _) => {
                let [low, high] = [low, high].map(|bound| fixed(bound / unit.size, decimals));
                format!("[{low}, {high}]")
            }
            (None, _) => format!("(n = {} < {})", estimate.n, estimate.n_needed),
        },
    }
}

/// Whether both bounds have the same distance from the value, up to rounding.
pub(crate) fn is_symmetric(value: f64, Interval { low, high }: Interval) -> bool {
    (low.midpoint(high) - value).abs() <= 1e-9 * (high - low) + 1e-12 * value.abs()
}

/// An interval in `unit`: `[940.9, 941.5]`.
pub(crate) fn interval(Interval { low, high }: Interval, unit: Scale) -> String {
    let (low, high) = (low / unit.size, high / unit.size);
    let decimals = decimals(Some((high - low) / 2.0), high);
    format!("[{}, {}]", fixed(low, decimals), fixed(high, decimals))
}

/// Number of decimals that shows two digits of the half-width; without one, four digits of the value.
fn decimals(half_width: Option<f64>, value: f64) -> usize {
    let (size, digits) = match half_width {
        Some(width) if width > 0.0 => (width, 2.0),
        _ => (value.abs(), 4.0),
    };
    if size > 0.0 && size.is_finite() {
        // A loss of one in a million is 0.0001 %.
        let most = if value.abs() < 0.1 { 7.0 } else { 3.0 };
        (digits - 1.0 - size.log10().floor()).clamp(0.0, most) as usize
    } else {
        0
    }
}

/// A number with `decimals`, commas between thousands, and a true minus sign.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let is_zero = text.bytes().all(|b| matches!(b, b'0' | b'.'));
    let sign = if value < 0.0 && !is_zero { "−" } else { "" };
    format!("{sign}{grouped}{fraction}")
}

/// A rate in bit/s: `9.88 Gbit/s`, `10 Gbit/s`, `100 Mbit/s`.
pub fn bit_rate(bps: f64) -> String {
    let (unit, prefix) = if bps < 1e9 { (1e6, 'M') } else { (1e9, 'G') };
    format!("{} {prefix}bit/s", (100.0 * bps / unit).round() / 100.0)
}

/// A fraction as percent without the sign: `94.1`, `< 0.001`.
pub(crate) fn share(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if 0.0 < percent && percent < 0.000_5 {
        return "<\u{a0}0.001".to_owned();
    }
    fixed(percent, if percent < 0.1 { 3 } else { 1 })
}

/// Formats a change, given as a fraction.
pub(crate) fn change(change: &Estimate) -> Written {
    change_beside(change, &[0.0])
}

/// Formats the change of a comparison.
pub(crate) fn compared(found: &Comparison) -> Written {
    change_beside(&found.change, &[0.0, found.tie_band, -found.tie_band])
}

/// Formats a change with as many decimals, at most three, as it takes that no bound of its interval is printed as one of
/// `limits` without being equal to it: verdicts depend on which side of a limit a bound is.
fn change_beside(change: &Estimate, limits: &[f64]) -> Written {
    let half_width = change.half_width().unwrap_or(change.value.abs()) * 100.0;
    let least = match half_width {
        width if width >= 10.0 => 0,
        width if width >= 0.095 => 1,
        _ => 2,
    };
    let bounds = change.interval.map_or([0.0; 2], |interval| [interval.low, interval.high]);
    let is_told = |bound: f64, limit: f64, decimals: usize| {
        let [bound_text, limit_text] = [bound, limit].map(|share| signed(share * 100.0, decimals));
        bound == limit || bound_text != limit_text
    };
    let are_told = |decimals: &usize| {
        bounds.iter().all(|&bound| limits.iter().all(|&limit| is_told(bound, limit, *decimals)))
    };
    let decimals = (least..=3).find(are_told).unwrap_or(least);
    Written {
        value: format!("{} %", signed(change.value * 100.0, decimals)),
        spread: change.interval.map_or_else(
            || format!("(n = {} < {})", change.n, change.n_needed),
            |Interval { low, high }| {
                format!("[{}, {}]", signed(low * 100.0, decimals), signed(high * 100.0, decimals))
            },
        ),
    }
}

/// A fraction as signed percent with one decimal, for sentences: `+0.3 %`, with a no-break space.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{}\u{a0}%", signed(fraction * 100.0, 1))
}

fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let is_zero = text.bytes().all(|b| matches!(b, b'0' | b'.'));
    if value > 0.0 && !is_zero { format!("+{text}") } else { text }
}

/// A p-value: `0.031`, `< 0.001`.
pub(crate) fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// `1 row`, `2 rows`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", fixed(number as f64, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64, half_width: Option<f64>) -> Estimate {
        let interval = half_width.map(|w| Interval { low: value - w, high: value + w });
        Estimate { value, interval, n: 5, n_needed: 6, confidence: 0.95 }
    }

    #[test]
    fn a_value_shows_two_digits_of_its_half_width() {
        let unit = Scale::of(Figure::Goodput);
        for (value, width, expected) in [
            (941.4123e6, 0.31e6, "941.41 ± 0.31"),
            (9414.8e6, 12.4e6, "9,415 ± 12"),
            (20.154e6, 0.0021e6, "20.154 ± 0.002"),
            (1234.5e6, 0.0, "1,234 ± 0"),
        ] {
            assert_eq!(estimate(&of(value, Some(width)), unit).to_string(), expected);
        }
        let loss = Scale::of(Figure::Loss);
        assert_eq!(estimate(&of(1e-6, Some(2e-7)), loss).to_string(), "0.000100 ± 0.000020");
    }

    #[test]
    fn an_interval_that_is_not_symmetric_about_its_value_is_written_by_its_bounds() {
        let unit = Scale::of(Figure::RttP99);
        for (value, low, high, expected) in [
            (4_257e3, 4_100e3, 93_000e3, "4,257 [4,100, 93,000]"),
            (31_234.0, 31_234.0, 31_250.0, "31.234 [31.234, 31.250]"),
            (31_234.0, 31_224.0, 31_244.0, "31.234 ± 0.010"),
            (1e3 / 3.0, 0.9e3 / 3.0, 1.1e3 / 3.0, "0.333 ± 0.033"),
        ] {
            let estimate_of =
                Estimate { interval: Some(Interval { low, high }), ..of(value, None) };
            assert_eq!(estimate(&estimate_of, unit).to_string(), expected);
        }
    }

    #[test]
    fn a_value_without_an_interval_says_how_many_runs_it_lacks() {
        let written = estimate(&of(31_234.0, None), Scale::of(Figure::RttP99));
        assert_eq!((written.value.as_str(), written.spread.as_str()), ("31.23", "(n = 5 < 6)"));
    }

    #[test]
    fn a_change_has_a_sign_and_its_interval() {
        for (value, width, expected) in [
            (-0.051, 0.009, "−5.1 % [−6.0, −4.2]"),
            (0.0031, 0.0004, "+0.31 % [+0.27, +0.35]"),
            (-0.24, 0.12, "−24 % [−36, −12]"),
            (0.0, 0.01, "0.0 % [−1.0, +1.0]"),
            // Below 0, and 0 itself.
            (-0.124, 0.12, "−12.4 % [−24.4, −0.4]"),
            (-0.12, 0.12, "−12 % [−24, 0]"),
        ] {
            assert_eq!(change(&of(value, Some(width))).to_string(), expected);
        }
    }

    #[test]
    fn thousands_are_parted_and_zero_has_no_sign() {
        assert_eq!(fixed(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(fixed(-999.0, 0), "−999");
        assert_eq!(fixed(-0.001, 1), "0.0");
    }
}
