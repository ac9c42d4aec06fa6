//! What both ends share to know each other's packets: HMAC-SHA-256, cut to half (RFC 8762, section 4.4).

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Octets of an authentication code.
pub(super) const CODE_BYTES: usize = 16;

/// A key that both ends were given by other means.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// From its octets, of any number (RFC 2104, section 3) but none: such a key protects nothing.
    pub fn new(octets: &[u8]) -> Option<Self> {
        if octets.is_empty() {
            return None;
        }
        Hmac::new_from_slice(octets).ok().map(Self)
    }

    /// The code of texts, one behind the other.
    pub(super) fn code(&self, texts: &[&[u8]]) -> [u8; CODE_BYTES] {
        let whole = self.of(texts).finalize().into_bytes();
        std::array::from_fn(|octet| whole[octet])
    }

    /// Whether the code is that of the texts; takes as long for each wrong one.
    pub(super) fn is_code(&self, texts: &[&[u8]], code: &[u8]) -> bool {
        code.len() == CODE_BYTES && self.of(texts).verify_truncated_left(code).is_ok()
    }

    fn of(&self, texts: &[&[u8]]) -> Hmac<Sha256> {
        texts.iter().fold(self.0.clone(), Mac::chain_update)
    }
}

impl fmt::Debug for Key {
    /// Nothing of the key, which would end up in some log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key")
    }
}
