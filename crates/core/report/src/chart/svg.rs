//! Escaped text for SVG and HTML, and shapes that distinguish series.

/// Text with markup characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let marks = [
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("\"", "&quot;"),
        ("'", "&#39;"),
        ("\n", "&#10;"),
    ];
    marks.iter().fold(text.to_owned(), |text, (mark, name)| text.replace(mark, name))
}

/// Path data through `points`.
pub(crate) fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    format!("M{}", points.join("L"))
}

/// Start tag of the group of a series.
pub(crate) fn open_series(series: usize) -> String {
    format!(r#"<g class="fm-series fm-s{}" data-series="{series}">"#, series % COLOURS)
}

/// Start tag of the group of a series, with a line through `points`.
pub(crate) fn open_line(series: usize, points: impl Iterator<Item = (f64, f64)>) -> String {
    let (open, dashes, path) = (open_series(series), dashes(series), path(points));
    format!(r#"{open}<path class="fm-line" stroke-dasharray="{dashes}" d="{path}"/>"#)
}

/// Start tag of the group of a point at level `x` with tooltip `tip`.
pub(crate) fn open_point(x: usize, tip: &str) -> String {
    let tip = escaped(tip);
    format!(r#"<g class="fm-point" role="img" data-x="{x}" aria-label="{tip}" data-tip="{tip}">"#)
}

/// Legend symbol of a line.
pub(crate) fn line_swatch(series: usize) -> String {
    let (dashes, marker) = (dashes(series), marker(series, 16.0, -5.0));
    format!(r#"<path class="fm-line" stroke-dasharray="{dashes}" d="M0 -5H32"/>{marker}"#)
}

/// Number of series colours; further series repeat them with other dashes.
pub(crate) const COLOURS: usize = 6;

const DASHES: [&str; 6] = ["none", "8 4", "3 3", "10 3 3 3", "14 5", "5 2"];

/// Index of the shape of a series, out of six; shifted when colours repeat.
fn shape(series: usize) -> usize {
    (series + series / COLOURS) % 6
}

fn dashes(series: usize) -> &'static str {
    DASHES[shape(series)]
}

/// Marker of a series at `(x, y)`.
pub(crate) fn marker(series: usize, x: f64, y: f64) -> String {
    format!(r#"<path class="fm-marker" d="{}"/>"#, outline(series, x, y))
}

fn outline(series: usize, x: f64, y: f64) -> String {
    let corners: &[(f64, f64)] = match shape(series) {
        0 => {
            let (r, wide, left) = (4.2, 8.4, x - 4.2);
            return format!("M{left:.1} {y:.1}a{r} {r} 0 1 0 {wide} 0a{r} {r} 0 1 0 -{wide} 0Z");
        }
        1 => &[(-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8)],
        2 => &[(0.0, -5.2), (5.0, 3.8), (-5.0, 3.8)],
        3 => &[(0.0, -5.6), (5.6, 0.0), (0.0, 5.6), (-5.6, 0.0)],
        4 => &[(0.0, 5.2), (5.0, -3.8), (-5.0, -3.8)],
        _ => &[
            (-1.6, -5.0),
            (1.6, -5.0),
            (1.6, -1.6),
            (5.0, -1.6),
            (5.0, 1.6),
            (1.6, 1.6),
            (1.6, 5.0),
            (-1.6, 5.0),
            (-1.6, 1.6),
            (-5.0, 1.6),
            (-5.0, -1.6),
            (-1.6, -1.6),
        ],
    };
    path(corners.iter().map(|(dx, dy)| (x + dx, y + dy))) + "Z"
}

/// Hatching of a series' bars, as the content of a pattern of 8 by 8 units.
pub(crate) fn hatching(series: usize) -> String {
    let lines = match shape(series) {
        0 => return r#"<rect class="fm-fill" width="8" height="8"/>"#.to_owned(),
        1 => r#"<path class="fm-hatch" d="M-2 2L2 -2M0 8L8 0M6 10L10 6"/>"#,
        2 => {
            r#"<circle class="fm-fill" cx="2" cy="2" r="1.5"/><circle class="fm-fill" cx="6" cy="6" r="1.5"/>"#
        }
        3 => r#"<path class="fm-hatch" d="M0 2H8M0 6H8"/>"#,
        4 => r#"<path class="fm-hatch" d="M2 0V8M6 0V8"/>"#,
        _ => r#"<path class="fm-hatch" d="M0 0L8 8M0 8L8 0"/>"#,
    };
    format!(r#"<rect class="fm-tint" width="8" height="8"/>{lines}"#)
}
