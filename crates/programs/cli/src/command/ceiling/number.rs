//! Formats of modelled figures.

use fabricmark_report::fixed;
use fabricmark_wire::Kind;

/// The kind of a figure in capitals.
pub fn kind(kind: Kind) -> String {
    kind.to_string().to_uppercase()
}

/// Formats a rate: `957.087 Mbit/s`.
pub fn mbps(bps: f64) -> String {
    format!("{} Mbit/s", fixed(bps / 1e6, 3))
}

/// Formats a size: `750,000,000 B`.
pub fn bytes(bytes: f64) -> String {
    format!("{} B", fixed(bytes, 0))
}

/// Formats a time in the unit that gives two to four digits before the decimal point.
pub fn time(ns: f64) -> String {
    let (size, unit) = [
        (365.25 * 86_400e9, "years"),
        (2.0 * 86_400e9, "days"),
        (2.0 * 3600e9, "h"),
        (120e9, "min"),
        (1e9, "s"),
        (1e6, "ms"),
        (1e3, "µs"),
    ]
    .into_iter()
    .find(|(least, _)| ns >= *least)
    .unwrap_or((1.0, "ns"));
    let unit_ns = match unit {
        "days" => 86_400e9,
        "h" => 3600e9,
        "min" => 60e9,
        _ => size,
    };
    let value = ns / unit_ns;
    let decimals = if value >= 100.0 { 1 } else { 2 };
    format!("{} {unit}", fixed(value, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_suits_them() {
        for (ns, text) in [
            (0.0, "0.00 ns"),
            (2948.8, "2.95 µs"),
            (85_898_035.2, "85.90 ms"),
            (56.86e9, "56.86 s"),
            (300e9, "5.00 min"),
            (49_020e9, "13.62 h"),
            (1e15, "11.57 days"),
            (1e17, "3.17 years"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
