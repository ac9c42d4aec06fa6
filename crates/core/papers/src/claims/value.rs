//! Figures with confidence intervals, and arithmetic on them.

/// A figure of a table: a printed number, or the mean of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Value in the unit of its column.
    pub value: f64,
    /// Half the confidence interval as a fraction of the value: 0 for printed numbers, infinite for too few runs.
    pub half_width: f64,
}

impl Value {
    /// A number without uncertainty.
    pub fn exact(value: f64) -> Self {
        Self { value, half_width: 0.0 }
    }

    /// Ratio to another figure, assumed to be independent.
    pub fn over(self, other: Self) -> Self {
        Self {
            value: self.value / other.value,
            half_width: self.half_width.hypot(other.half_width),
        }
    }

    /// Sum with another figure, assumed to be independent.
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        let half = |part: Self| part.value * part.half_width;
        Self { value, half_width: half(self).hypot(half(other)) / value }
    }

    /// Product with an exact factor.
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, ..self }
    }
}

/// Geometric mean of independent figures; `None` for an empty slice.
pub fn geometric_mean(values: &[Value]) -> Option<Value> {
    let n = values.len() as f64;
    let logs: f64 = values.iter().map(|value| value.value.ln()).sum();
    let squares: f64 = values.iter().map(|value| value.half_width.powi(2)).sum();
    (n > 0.0).then(|| Value { value: (logs / n).exp(), half_width: squares.sqrt() / n })
}

/// Where a curve crosses `level` between two points; `None` if it does not. Interpolates linearly in the logarithms
/// of both coordinates, because payloads are spaced by factors and values are compared as ratios.
pub fn crossover(from: (f64, f64), to: (f64, f64), level: f64) -> Option<f64> {
    let share = (level / from.1).ln() / (to.1 / from.1).ln();
    (0.0..=1.0).contains(&share).then(|| (from.0.ln() + share * (to.0 / from.0).ln()).exp())
}

/// Value at `x` between two points of a curve, interpolated as in [`crossover`].
pub fn between(from: (f64, f64), to: (f64, f64), x: f64) -> f64 {
    let share = (x / from.0).ln() / (to.0 / from.0).ln();
    (from.1.ln() + share * (to.1 / from.1).ln()).exp()
}

/// Whether `value` rounded to `decimals` decimals is `printed`.
pub fn rounds_to(value: f64, printed: f64, decimals: i32) -> bool {
    let unit = 10f64.powi(-decimals);
    (value - printed).abs() <= 0.5 * unit * (1.0 + ROUNDING)
}

/// Whether `value` truncated to `decimals` decimals is `printed`.
pub fn truncates_to(value: f64, printed: f64, decimals: i32) -> bool {
    let unit = 10f64.powi(-decimals);
    let dropped = (value - printed) / unit;
    (-ROUNDING..1.0 - ROUNDING).contains(&dropped)
}

/// Formats a number with thousands separators: `32,768`.
pub fn thousands(value: u64) -> String {
    let text = value.to_string();
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Tolerance for decimal fractions that have no exact binary representation.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_rounded_and_truncated_as_in_print() {
        assert!(rounds_to(85.375, 85.4, 1) && !rounds_to(28.34, 30.1, 1));
        assert!(rounds_to(0.125, 0.13, 2) && rounds_to(0.125, 0.12, 2));
        assert!(truncates_to(103.598, 103.59, 2) && !truncates_to(103.598, 103.60, 2));
        assert!(truncates_to(36.77, 36.77, 2) && !truncates_to(575.86, 575.84, 2));
    }

    #[test]
    fn a_curve_crosses_at_the_geometric_middle_when_it_is_half_way() {
        let x = crossover((1024.0, 2.0), (4096.0, 0.5), 1.0).unwrap();
        assert!((x - 2048.0).abs() < 1e-9);
        assert_eq!(crossover((1.0, 1.5), (2.0, 1.2), 1.0), None);
        assert!((between((1.0, 1.0), (4.0, 16.0), 2.0) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(geometric_mean(&[]), None);
    }

    fn values() -> impl Strategy<Value = Vec<Value>> {
        let value =
            (1e-3..1e6, 0.0..0.5).prop_map(|(value, half_width)| Value { value, half_width });
        proptest::collection::vec(value, 1..20)
    }

    proptest! {
        #[test]
        fn a_geometric_mean_lies_between_its_values_and_is_surer_than_the_worst(values in values()) {
            let mean = geometric_mean(&values).unwrap();
            let low = values.iter().map(|v| v.value).fold(f64::INFINITY, f64::min);
            let high = values.iter().map(|v| v.value).fold(0.0, f64::max);
            let worst = values.iter().map(|v| v.half_width).fold(0.0, f64::max);
            prop_assert!(low * (1.0 - 1e-9) <= mean.value && mean.value <= high * (1.0 + 1e-9));
            prop_assert!(mean.half_width <= worst * (1.0 + 1e-9));
        }

        #[test]
        fn a_ratio_times_its_base_is_the_figure(values in values()) {
            let (a, b) = (values[0], values[values.len() - 1]);
            let ratio = a.over(b);
            prop_assert!((ratio.times(b.value).value / a.value - 1.0).abs() < 1e-9);
            prop_assert!(ratio.half_width >= a.half_width.max(b.half_width));
        }

        #[test]
        fn a_crossing_lies_between_its_points_and_on_the_level(
            x in 1.0..1e4f64, step in 1.01..100f64, y in 0.1..10f64, fall in 0.1..0.9f64, share in 0.01..0.99f64,
        ) {
            let (end, level) = (y * fall, y * fall.powf(share));
            let at = crossover((x, y), (x * step, end), level).unwrap();
            prop_assert!(x <= at && at <= x * step);
            prop_assert!((between((x, y), (x * step, end), at) / level - 1.0).abs() < 1e-9);
        }
    }
}
