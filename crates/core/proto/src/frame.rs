//! Framing of the control protocol: one JSON value per line, of limited length.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest line in bytes, newline included. A full histogram takes at most 300 KB (`stats`), 400 KB in base64; a
/// trace takes at most 2.1 MB (`plan`).
const FRAME_BYTES_MAX: usize = 4 << 20;

/// Memory that a reader keeps while it has no bytes: most messages are shorter. An arbitrary choice.
const KEPT_BYTES: usize = 64 << 10;

/// Why received bytes are not a message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The line exceeds the limit of 4 MiB.
    #[error("a control message is longer than {FRAME_BYTES_MAX} bytes")]
    TooLong,
    /// The line is not the expected message as JSON.
    #[error("cannot parse a control message: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Splits a byte stream into messages. Each byte is looked at once, however the stream is cut.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Where the next message begins, and up to where its end was searched.
    begin: usize,
    searched: usize,
    /// Length of the last line, which has no end yet.
    pending: usize,
}

impl FrameReader {
    /// Appends received bytes; fails if an unterminated line exceeds the limit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.drop_taken();
        self.bytes.extend_from_slice(bytes);
        self.pending = match bytes.iter().rposition(|&byte| byte == b'\n') {
            Some(end) => bytes.len() - end - 1,
            None => self.pending + bytes.len(),
        };
        if self.pending > FRAME_BYTES_MAX { Err(FrameError::TooLong) } else { Ok(()) }
    }

    /// Appends received bytes and returns the messages that they complete.
    pub fn messages<T: DeserializeOwned>(&mut self, bytes: &[u8]) -> Result<Vec<T>, FrameError> {
        self.push(bytes)?;
        std::iter::from_fn(|| self.next_message().transpose()).collect()
    }

    /// The next complete message, if any.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(end) = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = self.bytes.len();
            self.drop_taken();
            return Ok(None);
        };
        let end = self.searched + end;
        if end - self.begin >= FRAME_BYTES_MAX {
            return Err(FrameError::TooLong);
        }
        let message = serde_json::from_slice(&self.bytes[self.begin..end]);
        (self.begin, self.searched) = (end + 1, end + 1);
        Ok(Some(message?))
    }

    /// Bytes of the incomplete message at the end.
    pub fn incomplete_bytes(&self) -> usize {
        self.pending
    }

    /// Frees the messages that were taken.
    fn drop_taken(&mut self) {
        self.bytes.drain(..self.begin);
        self.searched -= std::mem::take(&mut self.begin);
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }
}

/// Serializes a message, newline included.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).expect("messages are plain data");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_without_end_is_refused_at_the_cap() {
        let mut reader = FrameReader::default();
        for _ in 0..16 {
            reader.push(&[b'x'; FRAME_BYTES_MAX / 16]).unwrap();
        }
        assert!(matches!(reader.push(b"x"), Err(FrameError::TooLong)));
    }

    #[test]
    fn memory_of_a_long_message_is_freed_when_it_was_taken() {
        let mut reader = FrameReader::default();
        let long = encode(&"x".repeat(1 << 20));
        reader.push(&long).unwrap();
        assert!(reader.bytes.capacity() >= long.len());
        assert!(reader.next_message::<String>().unwrap().is_some());
        assert!(reader.next_message::<String>().unwrap().is_none());
        assert!(reader.bytes.capacity() <= KEPT_BYTES, "{}", reader.bytes.capacity());
    }

    proptest! {
        #[test]
        fn messages_survive_any_cutting(messages: Vec<u32>, cut in 1usize..7) {
            let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
            let mut reader = FrameReader::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(cut) {
                reader.push(piece).unwrap();
                while let Some(message) = reader.next_message::<u32>().unwrap() {
                    found.push(message);
                }
            }
            prop_assert_eq!(found, messages);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
            let mut reader = FrameReader::default();
            if reader.push(&bytes).is_ok() {
                while let Ok(Some(_)) = reader.next_message::<crate::Order>() {}
            }
        }
    }
}
