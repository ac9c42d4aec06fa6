//! Fingerprint of a key: users compare it, and hosts store it of each other.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use thiserror::Error;

const PREFIX: &str = "SHA256:";

/// SHA-256 of a certificate in DER. Its text form is that of ssh-keygen(1): `SHA256:` and base64 without padding.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// A text that is not a fingerprint.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a fingerprint: write SHA256: and 43 characters of base64")]
pub struct FingerprintError(String);

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        let digest = text.strip_prefix(PREFIX).and_then(|text| STANDARD_NO_PAD.decode(text).ok());
        let digest = digest.and_then(|digest| <[u8; 32]>::try_from(digest).ok());
        digest.map(Fingerprint).ok_or_else(|| FingerprintError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of the empty string: FIPS 180-4, as in RFC 6234's test vectors; base64 by coreutils.
    const OF_NOTHING: &str = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        assert_eq!(Fingerprint::of(b"").to_string(), OF_NOTHING);
        assert_eq!(OF_NOTHING.parse(), Ok(Fingerprint::of(b"")));
    }

    #[test]
    fn what_is_no_fingerprint_is_refused() {
        for text in ["", "SHA256:", "SHA256:AAAA", &OF_NOTHING[7..], &format!("{OF_NOTHING}=")] {
            assert_eq!(text.parse::<Fingerprint>(), Err(FingerprintError(text.to_owned())));
        }
    }
}
