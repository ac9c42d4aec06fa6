//! Charts without records: modelled goodput over payload or time, and RTTs over time.

use fabricmark_units::Nanos;

use super::plot::{Dot, Plot, Series, XLevel};
use super::{Form, lines};
use crate::number;

/// A line of goodput or RTT, over payload in bytes or over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve<X> {
    /// Label with provenance or kind of limit: `IPv4 (bound)`.
    pub label: String,
    /// Payload, or end of each interval in order, and goodput in bit/s or RTT in nanoseconds.
    pub points: Vec<(X, f64)>,
}

/// A chart of goodput over payload on logarithmic axes, as a self-contained SVG file that follows the reader's light
/// or dark theme.
pub fn goodput_chart(title: &str, curves: &[Curve<u64>]) -> String {
    let at = |payload| format!("{} B", number::fixed(payload as f64, 0));
    let plot = plot(title, curves, XLevel::of_size, at, GOODPUT);
    lines::draw(&Plot { x_title: "payload (B)".to_owned(), ..plot }, Form::File)
}

/// A chart of goodput over time on linear axes from 0, as a self-contained SVG file that follows the reader's light
/// or dark theme.
pub fn course_chart(title: &str, courses: &[Curve<Nanos>]) -> String {
    let level = |time: Nanos| XLevel { label: seconds(time), place: time.as_secs_f64() };
    let plot = plot(title, courses, level, |time| format!("{} s", seconds(time)), GOODPUT);
    lines::draw(&Plot { x_title: "time (s)".to_owned(), is_linear: true, ..plot }, Form::File)
}

/// A chart of RTTs over time on linear axes from 0, as a self-contained SVG file that follows the reader's light or
/// dark theme.
pub fn rtt_chart(title: &str, rtts: &[Curve<Nanos>]) -> String {
    let level = |time: Nanos| XLevel { label: seconds(time), place: time.as_secs_f64() };
    let plot = plot(title, rtts, level, |time| format!("{} s", seconds(time)), RTT);
    lines::draw(&Plot { x_title: "time (s)".to_owned(), is_linear: true, ..plot }, Form::File)
}

/// A vertical axis: title, unit, and the values of a curve per unit.
type Axis = (&'static str, &'static str, f64);

const GOODPUT: Axis = ("goodput (Mbit/s)", "Mbit/s", 1e6);
const RTT: Axis = ("RTT (µs)", "µs", 1e3);

/// Seconds to a millisecond, without trailing zeros.
fn seconds(time: Nanos) -> String {
    let text = number::fixed(time.as_secs_f64(), 3);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn plot<X: Copy + Ord>(
    title: &str,
    curves: &[Curve<X>],
    level: impl Fn(X) -> XLevel,
    at: impl Fn(X) -> String,
    (y_title, unit, per_unit): Axis,
) -> Plot {
    let mut levels: Vec<X> =
        curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
    levels.sort_unstable();
    levels.dedup();
    let dot = |label: &str, (x, value): (X, f64)| {
        let value = value / per_unit;
        let tip = format!("{label}, {}\n{} {unit}", at(x), number::fixed(value, 3));
        Some(Dot { x: levels.binary_search(&x).ok()?, value, interval: None, limit: None, tip })
    };
    let series = |Curve { label, points }: &Curve<X>| Series {
        label: label.clone(),
        dots: points.iter().filter_map(|&point| dot(label, point)).collect(),
    };
    Plot {
        title: title.to_owned(),
        y_title: y_title.to_owned(),
        x: levels.iter().map(|&x| level(x)).collect(),
        series: curves.iter().map(series).collect(),
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_its_curves_and_each_point() {
        let curve = |label: &str, points| Curve { label: label.to_owned(), points };
        let svg = goodput_chart(
            "UDP over ethernet:1G",
            &[
                curve("IPv4 (bound)", vec![(64, 4.9e8), (1024, 9.3e8)]),
                curve("IPv6 (bound)", vec![(1024, 9.2e8)]),
            ],
        );
        for text in [
            "UDP over ethernet:1G",
            "goodput (Mbit/s)",
            ">IPv4 (bound)<",
            ">IPv6 (bound)<",
            "IPv6 (bound), 1,024 B&#10;920.000 Mbit/s",
            ">1Ki<",
        ] {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
        assert!(!svg.contains("of the same colour"), "there are no limits beside the curves");
    }

    #[test]
    fn a_course_stands_on_linear_axes_from_nothing() {
        let ms = Nanos::from_millis;
        let courses = [
            Curve { label: "reno".to_owned(), points: vec![(ms(500), 0.0), (ms(1000), 8e8)] },
            Curve { label: "cubic".to_owned(), points: vec![(ms(1000), 9e8)] },
        ];
        let svg = course_chart("Start", &courses);
        for text in ["time (s)", ">0<", ">1,000<", ">0.5<", ">1<", "cubic, 1 s&#10;900.000 Mbit/s"]
        {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
    }
}
