//! The short code for pairing, which one person tells another.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::ring::default_provider;
use thiserror::Error;

use crate::TrustError;

/// 32 symbols, five bits each, without I, L, O and U (Crockford's base 32).
const SIGNS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

const LEN: usize = 8;

/// Eight symbols, 40 random bits, shown as `K7QM-2XVD`. Input ignores case, blanks and dashes; I and L mean 1, O 0.
///
/// It is a secret for a few minutes: whoever has it while [`crate::pair_wait`] waits becomes trusted.
#[derive(Clone, PartialEq, Eq)]
pub struct Code([u8; LEN]);

/// A text that is not a code.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("a code has 8 letters and digits without U, such as K7QM-2XVD")]
pub struct CodeError;

impl Code {
    /// A new code from the system's random number generator.
    pub fn generate() -> Result<Code, TrustError> {
        let mut random = [0; LEN];
        let filled = default_provider().secure_random.fill(&mut random);
        filled.map_err(|_| TrustError::Generate("the system has no random numbers".to_owned()))?;
        // 32 divides 256: all symbols are equally likely.
        Ok(Code(random.map(|byte| SIGNS[usize::from(byte % 32)])))
    }

    /// The symbols, without the dash.
    pub(crate) fn signs(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        let (first, second) = text.split_at(LEN / 2);
        write!(f, "{first}-{second}")
    }
}

/// Hides the code, so that it does not get into logs.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(..)")
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Code, CodeError> {
        let typed = text.bytes().filter(|byte| !matches!(byte, b'-' | b' '));
        let meant = typed.map(|byte| match byte.to_ascii_uppercase() {
            b'I' | b'L' => b'1',
            b'O' => b'0',
            sign => sign,
        });
        // One more than a code has, so that a longer text is refused.
        let signs: Vec<u8> = meant.take(LEN + 1).collect();
        let signs = <[u8; LEN]>::try_from(signs).map_err(|_| CodeError)?;
        if signs.iter().all(|sign| SIGNS.contains(sign)) { Ok(Code(signs)) } else { Err(CodeError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_it_is_shown_and_as_people_type_it() {
        let code = Code(*b"K1QM0XVD");
        assert_eq!(code.to_string(), "K1QM-0XVD");
        for typed in ["K1QM-0XVD", "k1qm0xvd", "KLQM OXVD", " kiqm-oxvd "] {
            assert_eq!(typed.parse().as_ref(), Ok(&code), "{typed}");
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        for typed in ["", "K7QM-2XV", "K7QM-2XVDD", "K7QM-2XVU", "K7QM_2XVD", "K7QM-2XVé"] {
            assert_eq!(typed.parse::<Code>(), Err(CodeError), "{typed}");
        }
    }

    #[test]
    fn every_code_that_is_made_can_be_typed() {
        let code = Code::generate().unwrap();
        assert_eq!(code.to_string().parse(), Ok(code.clone()));
        assert_ne!(Code::generate().unwrap(), code, "one in 2^40");
        assert_eq!(format!("{code:?}"), "Code(..)");
    }
}
