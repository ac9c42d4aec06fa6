//! Goodput through time: lines without records behind them.

use fabricmark_units::Nanos;

use super::plot::{Dot, Plot, Series, XLevel};
use super::{Form, lines};
use crate::number;

/// A line of a chart of goodput through time.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// What it is of, with where it comes from: `cubic, 10G (modelled)`.
    pub label: String,
    /// The end of each stretch of time and goodput in it in bit/s, in the order of time.
    pub points: Vec<(Nanos, f64)>,
}

/// A chart of goodput by time as a self-contained SVG file that follows the reader's light or dark
/// theme. Both axes are linear, and that of goodput begins at 0.
pub fn course_chart(title: &str, courses: &[Course]) -> String {
    let mut times: Vec<Nanos> =
        courses.iter().flat_map(|course| course.points.iter().map(|point| point.0)).collect();
    times.sort_unstable();
    times.dedup();
    let series = |course: &Course| Series {
        label: course.label.clone(),
        dots: course.points.iter().filter_map(|point| dot(course, &times, *point)).collect(),
    };
    let x = |&time: &Nanos| XLevel { label: seconds(time), place: time.as_secs_f64() };
    let plot = Plot {
        title: title.to_owned(),
        x_title: "time (s)".to_owned(),
        y_title: "goodput (Mbit/s)".to_owned(),
        x: times.iter().map(x).collect(),
        series: courses.iter().map(series).collect(),
        limit: "",
        keys: Vec::new(),
        references: Vec::new(),
    };
    lines::draw_linear(&plot, Form::File)
}

/// To a millisecond, without zeros at its end.
fn seconds(time: Nanos) -> String {
    let text = number::fixed(time.as_secs_f64(), 3);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn dot(course: &Course, times: &[Nanos], (time, goodput_bps): (Nanos, f64)) -> Option<Dot> {
    let value = goodput_bps / 1e6;
    Some(Dot {
        x: times.binary_search(&time).ok()?,
        value,
        interval: None,
        limit: None,
        tip: format!("{}, {} s\n{} Mbit/s", course.label, seconds(time), number::fixed(value, 3)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_stands_on_linear_axes_from_nothing() {
        let ms = Nanos::from_millis;
        let courses = [
            Course { label: "reno".to_owned(), points: vec![(ms(500), 0.0), (ms(1000), 8e8)] },
            Course { label: "cubic".to_owned(), points: vec![(ms(1000), 9e8)] },
        ];
        let svg = course_chart("Start", &courses);
        for text in ["time (s)", ">0<", ">1,000<", ">0.5<", ">1<", "cubic, 1 s&#10;900.000 Mbit/s"]
        {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
    }
}
