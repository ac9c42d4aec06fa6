//! Input of a control connection, and JSON values as iperf3 reads them: by type, and absent if of another type.

use serde_json::{Map, Value};

/// A JSON block is too long or invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse a JSON block")]
pub struct Malformed;

/// A JSON block with its length prefix.
pub(super) fn framed(json: &[u8]) -> Vec<u8> {
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], json].concat()
}

/// Bytes received and not consumed.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// Appends received bytes; fails if more than `most` would be pending, to bound memory.
    pub(super) fn push(&mut self, bytes: &[u8], most: usize) -> Result<(), Malformed> {
        if self.bytes.len() + bytes.len() > most {
            return Err(Malformed);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Consumes the next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        if self.bytes.is_empty() { None } else { Some(self.bytes.remove(0)) }
    }

    /// Consumes the next `N` bytes.
    pub(super) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let fixed = self.bytes.get(..N)?.try_into().ok()?;
        self.bytes.drain(..N);
        Some(fixed)
    }

    /// Consumes the next JSON block, without its length; fails at once if that is more than `most`.
    pub(super) fn block(&mut self, most: usize) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(&length) = self.bytes.first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(length) as usize;
        if length > most {
            return Err(Malformed);
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        let block = self.bytes[4..4 + length].to_vec();
        self.bytes.drain(..4 + length);
        Ok(Some(block))
    }
}

/// An integer. iperf3 writes some with fractions or exponents; up to 3.12, -1 is written as 18446744073709551615.
pub(super) fn integer(object: &Map<String, Value>, key: &str) -> Option<i64> {
    let number = object.get(key)?.as_number()?;
    let whole = number.as_i64().or_else(|| number.as_u64().map(|bits| bits as i64));
    // The cast saturates, and NaN becomes 0.
    whole.or_else(|| number.as_f64().map(|fraction| fraction as i64))
}

/// A floating-point number.
pub(super) fn fraction(object: &Map<String, Value>, key: &str) -> Option<f64> {
    object.get(key)?.as_f64()
}

/// Whether a flag is set.
pub(super) fn is_true(object: &Map<String, Value>, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

/// A string.
pub(super) fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_refused_by_its_length_before_it_arrives() {
        let mut reader = Reader::default();
        reader.push(&[0, 0, 0x20, 1], 100).unwrap();
        assert_eq!(reader.block(0x2000), Err(Malformed));
        assert_eq!(reader.block(0x2001), Ok(None));
    }

    #[test]
    fn bytes_beyond_what_may_wait_are_refused() {
        let mut reader = Reader::default();
        reader.push(&[0; 8], 8).unwrap();
        assert_eq!(reader.push(&[0], 8), Err(Malformed));
    }

    #[test]
    fn a_block_is_whole_however_it_is_cut() {
        let mut reader = Reader::default();
        for byte in [0, 0, 0, 2, b'{', b'}', 14] {
            assert_eq!(reader.block(9), Ok(None));
            reader.push(&[byte], 9).unwrap();
            if byte == b'}' {
                assert_eq!(reader.block(9), Ok(Some(b"{}".to_vec())));
            }
        }
        assert_eq!(reader.byte(), Some(14));
        assert_eq!(reader.byte(), None);
    }

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
