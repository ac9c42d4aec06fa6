//! Text that is safe in SVG and HTML, and the shapes that tell series apart.

/// Text with the characters that markup uses replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push_str("&#10;"),
            other => out.push(other),
        }
    }
    out
}

/// How many series have colours of their own; further ones start anew with other dashes.
pub(crate) const COLOURS: usize = 6;

const DASHES: [&str; 6] = ["none", "8 4", "3 3", "10 3 3 3", "14 5", "5 2"];

/// The dashes of a series' line.
pub(crate) fn dashes(series: usize) -> &'static str {
    DASHES[(series + series / COLOURS) % DASHES.len()]
}

/// The outline of a series' marker around `(x, y)`.
pub(crate) fn marker(series: usize, x: f64, y: f64) -> String {
    let corners: &[(f64, f64)] = match (series + series / COLOURS) % 6 {
        0 => {
            let r = 4.2;
            return format!(
                "M{:.1} {y:.1}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0Z",
                x - r,
                2.0 * r,
                2.0 * r
            );
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
    let points: Vec<String> =
        corners.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy)).collect();
    format!("M{}Z", points.join("L"))
}

/// The hatching of a series' bars as the content of a pattern of 8 by 8 units.
pub(crate) fn hatching(series: usize) -> &'static str {
    match (series + series / COLOURS) % 6 {
        0 => r#"<rect class="fm-fill" width="8" height="8"/>"#,
        1 => {
            r#"<rect class="fm-tint" width="8" height="8"/><path class="fm-hatch" d="M-2 2L2 -2M0 8L8 0M6 10L10 6"/>"#
        }
        2 => {
            r#"<rect class="fm-tint" width="8" height="8"/><circle class="fm-fill" cx="2" cy="2" r="1.5"/><circle class="fm-fill" cx="6" cy="6" r="1.5"/>"#
        }
        3 => {
            r#"<rect class="fm-tint" width="8" height="8"/><path class="fm-hatch" d="M0 2H8M0 6H8"/>"#
        }
        4 => {
            r#"<rect class="fm-tint" width="8" height="8"/><path class="fm-hatch" d="M2 0V8M6 0V8"/>"#
        }
        _ => {
            r#"<rect class="fm-tint" width="8" height="8"/><path class="fm-hatch" d="M0 0L8 8M0 8L8 0"/>"#
        }
    }
}
