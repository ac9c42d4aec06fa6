//! One message: 656 bytes.

use std::ops::Range;

/// Length of every message.
pub const MESSAGE_BYTES: usize = 656;

/// Type and second word stand before the content.
const CONTENT_AT: usize = 8;

/// One message. The meaning of its content depends on its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message([u8; MESSAGE_BYTES]);

impl Message {
    /// Switch diagnostics on.
    pub const DEBUG_ON: u32 = 1;
    /// Switch diagnostics off.
    pub const DEBUG_OFF: u32 = 2;
    /// Diagnostics are switched.
    pub const DEBUG_OK: u32 = 3;
    /// Who are you? No netperf since 2.5 asks, no netserver since then answers.
    pub const IDENTIFY: u32 = 4;
    /// How fast does your processor count when idle? And the answer.
    pub const CALIBRATE: u32 = 5;
    /// A word that lets the client in, where the server has one. No answer.
    pub const PASSPHRASE: u32 = 6;
    /// Request of a test.
    pub const OMNI_REQUEST: u32 = 97;
    /// The server is ready for a test.
    pub const OMNI_RESPONSE: u32 = 98;
    /// What the server counted. netserver 2.7.1 sends 98 in the order of its processor's bytes instead,
    /// and netperf does not look at it.
    pub const OMNI_RESULTS: u32 = 99;

    /// A message without content.
    pub fn new(kind: u32, second: i32) -> Self {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&kind.to_be_bytes());
        bytes[4..CONTENT_AT].copy_from_slice(&second.to_be_bytes());
        Self(bytes)
    }

    /// The message in so many bytes; any bytes are one.
    pub fn from_bytes(bytes: [u8; MESSAGE_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; MESSAGE_BYTES] {
        &self.0
    }

    /// Its type.
    pub fn kind(&self) -> u32 {
        u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// Of an answer: an error number of Linux (errno(3)), or 0. Of a request: a processor, or -1.
    pub fn second(&self) -> i32 {
        i32::from_be_bytes([self.0[4], self.0[5], self.0[6], self.0[7]])
    }

    /// A word of the content, counted from 0.
    pub(super) fn word(&self, index: usize) -> u32 {
        let at = CONTENT_AT + 4 * index;
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// A word of the content that may be negative.
    pub(super) fn signed(&self, index: usize) -> i32 {
        self.word(index).cast_signed()
    }

    pub(super) fn set_word(&mut self, index: usize, word: u32) {
        let at = CONTENT_AT + 4 * index;
        self.0[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }

    pub(super) fn set_signed(&mut self, index: usize, word: i32) {
        self.set_word(index, word.cast_unsigned());
    }

    /// The text at some bytes of the content, up to its first zero; bytes that are no UTF-8 make none.
    pub(super) fn text(&self, at: Range<usize>) -> String {
        let field = &self.0[CONTENT_AT + at.start..CONTENT_AT + at.end];
        let text = field.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8(text.to_vec()).unwrap_or_default()
    }

    /// Writes a text and the zero at its end, cut where it is too long.
    pub(super) fn set_text(&mut self, at: Range<usize>, text: &str) {
        let field = &mut self.0[CONTENT_AT + at.start..CONTENT_AT + at.end];
        field.fill(0);
        let held = text.len().min(field.len() - 1);
        field[..held].copy_from_slice(&text.as_bytes()[..held]);
    }
}
