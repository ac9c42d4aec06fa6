//! Values of JSON as the original reads them: by their type, and absent where that is another one.

use serde_json::{Map, Value};

/// A whole number. Numbers may come as fractions and with exponents, since the original writes some of
/// them so; -1 comes as 18446744073709551615 from versions up to 3.12.
pub(super) fn integer(object: &Map<String, Value>, key: &str) -> Option<i64> {
    let number = object.get(key)?.as_number()?;
    let whole = number.as_i64().or_else(|| number.as_u64().map(|bits| bits as i64));
    // The conversion saturates, and what is no number becomes 0.
    whole.or_else(|| number.as_f64().map(|fraction| fraction as i64))
}

/// A number with a fraction.
pub(super) fn fraction(object: &Map<String, Value>, key: &str) -> Option<f64> {
    object.get(key)?.as_f64()
}

/// Whether a flag is set.
pub(super) fn is_true(object: &Map<String, Value>, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

/// A text.
pub(super) fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_every_form_and_other_types_are_absent() {
        let text = r#"{"a": 3, "b": 1e3, "c": 2.9, "d": 18446744073709551615, "e": "4", "f": true,
            "g": 1e300, "h": -1, "i": null}"#;
        let object: Map<String, Value> = serde_json::from_str(text).unwrap();
        for (key, expected) in [
            ("a", Some(3)),
            ("b", Some(1000)),
            ("c", Some(2)),
            ("d", Some(-1)),
            ("e", None),
            ("f", None),
            ("g", Some(i64::MAX)),
            ("h", Some(-1)),
            ("i", None),
            ("j", None),
        ] {
            assert_eq!(integer(&object, key), expected, "{key}");
        }
        assert!(is_true(&object, "f") && !is_true(&object, "a"));
    }
}
