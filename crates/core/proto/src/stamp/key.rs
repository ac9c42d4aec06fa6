//! Packet authentication with a shared key: HMAC-SHA-256, truncated to 16 octets (RFC 8762, section 4.4).

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Octets of a truncated HMAC.
pub(super) const CODE_BYTES: usize = 16;

/// Key of both ends, which they got by other means.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// A key of any length (RFC 2104, section 3) but 0, which would protect nothing.
    pub fn new(octets: &[u8]) -> Option<Self> {
        if octets.is_empty() {
            return None;
        }
        Hmac::new_from_slice(octets).ok().map(Self)
    }

    /// HMAC of the concatenated texts.
    pub(super) fn code(&self, texts: &[&[u8]]) -> [u8; CODE_BYTES] {
        let whole = self.of(texts).finalize().into_bytes();
        std::array::from_fn(|octet| whole[octet])
    }

    /// Whether `code` is the HMAC of the texts; compares in constant time.
    pub(super) fn is_code(&self, texts: &[&[u8]], code: &[u8]) -> bool {
        code.len() == CODE_BYTES && self.of(texts).verify_truncated_left(code).is_ok()
    }

    fn of(&self, texts: &[&[u8]]) -> Hmac<Sha256> {
        texts.iter().fold(self.0.clone(), Mac::chain_update)
    }
}

impl fmt::Debug for Key {
    /// Hides the key, so that it does not get into a log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key")
    }
}
