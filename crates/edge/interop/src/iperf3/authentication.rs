//! User authentication (RSA) at both ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fabricmark_proto::iperf3::{Token, TokenError};
use sha2::{Digest, Sha256};

use super::openssl::{self, DECRYPT, ENCRYPT};

/// Maximum difference between the clocks of client and server: iperf3's default.
const SKEW_MAX_S: u64 = 10;

/// Longest encrypted token: one block of an RSA key of 8192 bits.
const ENCRYPTED_BYTES_MAX: usize = 1_024;

/// RSA padding of the encrypted token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// OAEP (RFC 8017, section 7.1): servers of version 3.17 and later.
    #[default]
    Oaep,
    /// PKCS#1 v1.5 (RFC 8017, section 7.2): older servers, for example Debian's 3.12.
    Pkcs1,
}

/// Why authentication is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message explains its fields")]
pub enum AuthenticationError {
    /// The program `openssl` is not installed.
    #[error(
        "authentication of iperf3 needs the program `openssl`: install it (Debian: `apt install \
         openssl`)"
    )]
    NoProgram,
    /// `openssl` failed.
    #[error("openssl failed: {0}")]
    Program(String),
    #[error("cannot read {}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// iperf3 does not allow this user name or password.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// IPERF3_PASSWORD is not set.
    #[error("there is no password: set the environment variable IPERF3_PASSWORD")]
    NoPassword,
}

fn read(path: &Path) -> Result<String, AuthenticationError> {
    fs::read_to_string(path).map_err(|reason| AuthenticationError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What a client needs to authenticate.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User name.
    pub user: String,
    /// Password, in plain text.
    pub password: String,
    /// Path of the server's public key, PEM.
    pub public_key: PathBuf,
    /// Padding that the server expects.
    pub padding: Padding,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the password from the environment variable IPERF3_PASSWORD, as iperf3 does.
    pub fn from_environment(
        user: &str,
        public_key: &Path,
        padding: Padding,
    ) -> Result<Self, AuthenticationError> {
        let password =
            std::env::var("IPERF3_PASSWORD").map_err(|_| AuthenticationError::NoPassword)?;
        Ok(Self { user: user.to_owned(), password, public_key: public_key.to_owned(), padding })
    }

    /// A token with the current time, encrypted and in base64.
    pub(super) fn token(&self) -> Result<String, AuthenticationError> {
        // Without this check, openssl would report the missing file.
        read(&self.public_key)?;
        let (user, password) = (self.user.clone(), self.password.clone());
        let text = Token { user, password, seconds: now_s() }.emit()?;
        let encrypted = openssl::pkeyutl(ENCRYPT, &self.public_key, self.padding, text.as_bytes())?;
        Ok(STANDARD.encode(encrypted))
    }
}

/// Users that a server accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Path of the private key, PEM, without a password.
    private_key: PathBuf,
    /// Path of the users file, with lines `name,HEX`: the SHA-256 of `{name}password`. Read again for each client.
    users: PathBuf,
}

impl Authentication {
    /// Checks that `openssl` and both files exist.
    pub fn new(private_key: &Path, users: &Path) -> Result<Self, AuthenticationError> {
        openssl::find()?;
        read(private_key)?;
        read(users)?;
        Ok(Self { private_key: private_key.to_owned(), users: users.to_owned() })
    }

    /// Whether a token has a known user, the right password and the current time. The client does not learn the reason
    /// of a refusal.
    pub(super) fn admits(&self, token: &str) -> bool {
        let Some(encrypted) = decoded(token) else { return false };
        // Since OpenSSL 3.2, decryption with wrong PKCS#1 padding returns random bytes instead of an error; the format
        // of the text decides. OAEP, which detects wrong padding, is tried first.
        let token = [Padding::Oaep, Padding::Pkcs1].into_iter().find_map(|padding| {
            let text = openssl::pkeyutl(DECRYPT, &self.private_key, padding, &encrypted).ok()?;
            Token::parse(std::str::from_utf8(&text).ok()?)
        });
        let (Some(token), Ok(users)) = (token, read(&self.users)) else { return false };
        now_s().abs_diff(token.seconds) <= SKEW_MAX_S && is_user(&users, &token)
    }
}

/// Decodes a received token from base64.
fn decoded(token: &str) -> Option<Vec<u8>> {
    if token.len() > 2 * ENCRYPTED_BYTES_MAX {
        return None;
    }
    // Some versions send line breaks in it.
    let letters: String = token.chars().filter(|letter| !letter.is_whitespace()).collect();
    STANDARD.decode(letters).ok().filter(|bytes| bytes.len() <= ENCRYPTED_BYTES_MAX)
}

fn is_user(users: &str, Token { user, password, .. }: &Token) -> bool {
    let hex = format!("{:x}", Sha256::digest(format!("{{{user}}}{password}")));
    let lines = users.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(','))
        .any(|(name, known)| name == user && known.trim() == hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_digest_of_his_name_and_password() {
        // printf '{mario}rossi' | sha256sum
        let users = "# users\n\nother,00\nmario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\r\n";
        let token = |password: &str| Token {
            user: "mario".to_owned(),
            password: password.to_owned(),
            seconds: 0,
        };
        assert!(is_user(users, &token("rossi")));
        assert!(!is_user(users, &token("Rossi")));
        assert!(!is_user("", &token("rossi")));
    }

    #[test]
    fn a_token_that_is_no_base64_or_too_long_is_none() {
        assert_eq!(decoded("aGk=\n"), Some(b"hi".to_vec()));
        assert_eq!(decoded("*"), None);
        assert_eq!(decoded(&"A".repeat(2_052)), None);
    }

    #[test]
    fn a_password_is_not_printed() {
        let credentials = Credentials {
            user: "ann".to_owned(),
            password: "secret".to_owned(),
            public_key: "key".into(),
            padding: Padding::Oaep,
        };
        assert_eq!(format!("{credentials:?}"), r#"Credentials { user: "ann", .. }"#);
    }
}
