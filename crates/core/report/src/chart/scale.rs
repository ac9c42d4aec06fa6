//! Axes: positions of values, and ticks.

use crate::number;

/// An axis of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    pub ticks: Vec<f64>,
}

/// Tick multiples within a decade, on a logarithmic axis of few decades.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// Desired number of ticks on a linear axis.
const LINEAR_TICKS: f64 = 5.0;

impl Scale {
    /// A logarithmic axis around positive values.
    pub(crate) fn log(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if high == 0.0 {
            (low, high) = (1.0, 10.0);
        }
        let mut steps: Vec<f64> = (low.log10().floor() as i32 - 1..=high.log10().ceil() as i32)
            .flat_map(|decade| STEPS.map(|step| step * 10f64.powi(decade)))
            .collect();
        let below = steps.iter().rposition(|&step| step <= low * 0.97).unwrap_or(0);
        let above = steps.iter().position(|&step| step >= high * 1.03).unwrap_or(steps.len() - 1);
        (low, high) = (steps[below], steps[above]);
        steps = steps[below..=above].to_vec();
        let is_decade = |step: &f64| (step.log10() - step.log10().round()).abs() < 1e-9;
        let decades: Vec<f64> = steps.iter().copied().filter(is_decade).collect();
        let ticks = if decades.len() >= 3 { decades } else { steps };
        Self { low, high, is_log: true, ticks }
    }

    /// A linear axis from 0.
    pub(crate) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let rough = highest / LINEAR_TICKS;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|step| step * decade)
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * decade);
        let count = (highest / step).ceil() as u32;
        let ticks: Vec<f64> = (0..=count).map(|i| f64::from(i) * step).collect();
        Self { low: 0.0, high: f64::from(count) * step, is_log: false, ticks }
    }

    /// A linear axis from at most -`reach` to at least `reach`.
    pub(crate) fn around_zero(reach: f64) -> Self {
        let half = Self::linear([reach].into_iter());
        let below = half.ticks.iter().skip(1).rev().map(|tick| -tick);
        let ticks: Vec<f64> = below.chain(half.ticks.iter().copied()).collect();
        // Only every other tick, including 0, so that labels fit.
        let middle = half.ticks.len() - 1;
        let ticks = ticks.into_iter().enumerate();
        let ticks = ticks.filter(|(place, _)| place.abs_diff(middle) % 2 == 0);
        Self { low: -half.high, ticks: ticks.map(|(_, tick)| tick).collect(), ..half }
    }

    /// Position of a value: 0 at the lower end, 1 at the upper end; values outside are clamped.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let place = if self.is_log {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// Whether a value is on the axis.
    pub(crate) fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The value at the upper end.
    pub(crate) fn most(&self) -> f64 {
        self.high
    }

    /// A tick as text with the decimals that it needs.
    pub(crate) fn written(tick: f64) -> String {
        let decimals = if tick == 0.0 || tick >= 1.0 && tick.fract() == 0.0 {
            0
        } else {
            (2.0 - tick.log10().floor()).clamp(0.0, 6.0) as usize
        };
        let text = number::fixed(tick, decimals);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_axes_have_decades_and_narrow_ones_steps_between() {
        assert_eq!(Scale::log([3.0, 4200.0].into_iter()).ticks, [10.0, 100.0, 1000.0]);
        assert_eq!(Scale::log([12.0, 80.0].into_iter()).ticks, [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(
            Scale::linear([930.0].into_iter()).ticks,
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]
        );
    }

    #[test]
    fn ticks_are_written_without_noise() {
        let written = [0.0, 0.05, 0.5, 2.5, 100.0, 20_000.0].map(Scale::written);
        assert_eq!(written, ["0", "0.05", "0.5", "2.5", "100", "20,000"]);
        // An axis of twelve seconds ends at 12.5.
        assert_eq!([0.125, 1.25, 12.5].map(Scale::written), ["0.125", "1.25", "12.5"]);
    }

    proptest! {
        #[test]
        fn every_value_has_a_place_on_its_axis(values in proptest::collection::vec(1e-3..1e9, 1..20)) {
            for scale in [Scale::log(values.iter().copied()), Scale::linear(values.iter().copied())] {
                prop_assert!(scale.ticks.len() >= 2);
                for &value in &values {
                    prop_assert!((0.0..=1.0).contains(&scale.at(value)));
                    prop_assert!(value <= scale.high && value >= scale.low);
                }
            }
        }
    }
}
