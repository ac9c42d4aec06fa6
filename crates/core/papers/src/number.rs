//! Parses numbers as printed, and their units.

const WORDS: [&str; 10] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// Value of a printed number: `1,492.17`, `0x86DD`, `four`; binary digits if `unit` is `binary`.
pub(crate) fn number(printed: &str, unit: &str) -> Option<f64> {
    if unit == "binary" {
        return u32::from_str_radix(printed, 2).ok().map(f64::from);
    }
    if let Some(hex) = printed.strip_prefix("0x") {
        return u32::from_str_radix(hex, 16).ok().map(f64::from);
    }
    if let Some(place) = WORDS.iter().position(|word| *word == printed) {
        return Some(place as f64 + 1.0);
    }
    match printed {
        "Dual" => Some(2.0),
        "quad" => Some(4.0),
        "twenty" => Some(20.0),
        "1k" => Some(1024.0),
        _ => printed.replace(',', "").parse().ok(),
    }
}

/// Number of base units in `unit`, and the name of the base unit; `None` for an unknown unit.
///
/// Base units are bit/s, s, B, bit, m and Hz; `%` is a fraction of 1, and a count has no name. KB, MB, GB and TB are
/// powers of 1000, even for memory; KiB, MiB and GiB are powers of 1024. A year (`a`) is 365.25 days.
pub fn base_unit(unit: &str) -> Option<(f64, &'static str)> {
    Some(match unit {
        "" | "binary" => (1.0, ""),
        "%" => (0.01, ""),
        "bit/s" => (1.0, "bit/s"),
        "Mb/s" => (1e6, "bit/s"),
        "Gb/s" => (1e9, "bit/s"),
        "ps" => (1e-12, "s"),
        "ns" => (1e-9, "s"),
        "us" => (1e-6, "s"),
        "ms" => (1e-3, "s"),
        "s" => (1.0, "s"),
        "a" => (31_557_600.0, "s"),
        "bit" => (1.0, "bit"),
        "B" => (1.0, "B"),
        "KB" => (1e3, "B"),
        "MB" => (1e6, "B"),
        "GB" => (1e9, "B"),
        "TB" => (1e12, "B"),
        "KiB" => (1024.0, "B"),
        "MiB" => (1_048_576.0, "B"),
        "GiB" => (1_073_741_824.0, "B"),
        "km" => (1e3, "m"),
        "1/s" => (1.0, "Hz"),
        "rpm" => (1.0 / 60.0, "Hz"),
        "MHz" => (1e6, "Hz"),
        "GHz" => (1e9, "Hz"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_becomes_a_number() {
        for (printed, unit, expected) in [
            ("1,492.17", "Mb/s", Some(1492.17)),
            ("0x86DD", "", Some(34_525.0)),
            ("10", "binary", Some(2.0)),
            ("10", "B", Some(10.0)),
            ("four", "", Some(4.0)),
            ("quad", "", Some(4.0)),
            ("1k", "B", Some(1024.0)),
            ("0.000016", "s", Some(0.000_016)),
            ("many", "", None),
            ("", "", None),
        ] {
            assert_eq!(number(printed, unit), expected, "{printed}");
        }
    }

    #[test]
    fn a_unit_has_a_base_unit() {
        assert_eq!(base_unit("us"), Some((1e-6, "s")));
        assert_eq!(base_unit("furlong"), None);
    }
}
