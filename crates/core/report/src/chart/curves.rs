//! Modelled figures by payload: lines without records behind them.

use super::plot::{Dot, Plot, Series, XLevel, size};
use super::{Form, lines};
use crate::number;

/// A line of a chart of modelled figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is of, with how firmly it stands: `IPv4 (bound)`.
    pub label: String,
    /// Payload in bytes and goodput in bit/s.
    pub points: Vec<(u64, f64)>,
}

/// A chart of goodput by payload as a self-contained SVG file that follows the reader's light or dark
/// theme. Both axes are logarithmic.
pub fn goodput_chart(title: &str, curves: &[Curve]) -> String {
    let mut payloads: Vec<u64> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
    payloads.sort_unstable();
    payloads.dedup();
    let series = |curve: &Curve| Series {
        label: curve.label.clone(),
        dots: curve.points.iter().filter_map(|point| dot(curve, &payloads, *point)).collect(),
    };
    let x = |&bytes: &u64| XLevel { label: size(bytes), place: (bytes.max(1) as f64).log2() };
    let plot = Plot {
        title: title.to_owned(),
        x_title: "payload (B)".to_owned(),
        y_title: "goodput (Mbit/s)".to_owned(),
        x: payloads.iter().map(x).collect(),
        series: curves.iter().map(series).collect(),
        limit: "",
        references: Vec::new(),
        keys: Vec::new(),
    };
    lines::draw(&plot, "goodput", Form::File)
}

fn dot(curve: &Curve, payloads: &[u64], (payload, goodput_bps): (u64, f64)) -> Option<Dot> {
    let value = goodput_bps / 1e6;
    let (bytes, rate) = (number::fixed(payload as f64, 0), number::fixed(value, 3));
    Some(Dot {
        x: payloads.binary_search(&payload).ok()?,
        value,
        interval: None,
        limit: None,
        tip: format!("{}, {bytes} B\n{rate} Mbit/s", curve.label),
    })
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
}
