//! Collects the bytes of a control connection and gives whole words.

use super::parameters::Malformed;

/// Bytes that have arrived and not been used.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// Takes bytes as they arrive; refuses them when `most` would be waiting, so that nobody fills the
    /// memory before it is his turn.
    pub(super) fn push(&mut self, bytes: &[u8], most: usize) -> Result<(), Malformed> {
        if self.bytes.len() + bytes.len() > most {
            return Err(Malformed);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        if self.bytes.is_empty() { None } else { Some(self.bytes.remove(0)) }
    }

    /// The next so many bytes.
    pub(super) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let fixed = self.bytes.get(..N)?.try_into().ok()?;
        self.bytes.drain(..N);
        Some(fixed)
    }

    /// The next block of JSON, without its length; refused by that alone when it is longer than `most`.
    pub(super) fn block(&mut self, most: usize) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(length) = self.bytes.get(..4) else { return Ok(None) };
        let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
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
}
