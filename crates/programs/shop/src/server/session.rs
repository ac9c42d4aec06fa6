//! Sessions: a signed cookie, so that browsing needs no statement.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::Server;

/// Lifetime of a session in seconds: as long as the longest of an emulated browser.
const LASTS_S: u64 = 60 * 60;

/// Name of the cookie.
const NAME: &str = "session";

/// 128 random bits in hexadecimal.
pub fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(hex(&bytes))
}

/// A client's session.
#[derive(Clone, Debug)]
pub struct Session {
    /// 128 random bits in hexadecimal; also the id of the session's cart.
    pub id: String,
    /// The customer who has signed in.
    pub customer: Option<i64>,
    /// Whether its cookie has not been sent yet.
    is_new: bool,
}

impl Session {
    /// A session with a new random id. Signing in starts one, against session fixation.
    pub fn new(customer: Option<i64>) -> std::io::Result<Self> {
        Ok(Self { id: secret()?, customer, is_new: true })
    }

    /// The value of Set-Cookie; `None` if the client has it.
    pub fn cookie(&self, server: &Server) -> Option<String> {
        let expires_s = now_s() + LASTS_S;
        let signed = format!("{}.{}.{expires_s}", self.id, self.customer.unwrap_or(0));
        let mac = mac(&server.key, "session", &signed);
        self.is_new.then(|| {
            format!("{NAME}={signed}.{mac}; Path=/; Max-Age={LASTS_S}; HttpOnly; SameSite=Lax")
        })
    }

    /// The CSRF token of forms of this session.
    pub fn token(&self, server: &Server) -> String {
        mac(&server.key, "form", &self.id)
    }

    /// Whether this is the token of the session. Another site does not know it (cross-site request forgery).
    pub fn has_token(&self, server: &Server, given: &str) -> bool {
        is_mac(&server.key, "form", &self.id, given)
    }

    /// The session of a request's cookie; a new one if there is none that is valid.
    pub fn of_request(headers: &HeaderMap, server: &Server) -> std::io::Result<Self> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let found = pairs.find(|(name, _)| *name == NAME);
        found
            .and_then(|(_, value)| Self::of_cookie(server, value))
            .map_or_else(|| Self::new(None), Ok)
    }

    /// The session of a cookie, if this server has signed it and it has not expired.
    fn of_cookie(server: &Server, value: &str) -> Option<Self> {
        let (signed, given) = value.rsplit_once('.')?;
        if !is_mac(&server.key, "session", signed, given) {
            return None;
        }
        let mut parts = signed.split('.');
        let (id, customer, expires_s) = (parts.next()?, parts.next()?, parts.next()?);
        let customer = Some(customer.parse().ok()?).filter(|customer| *customer > 0);
        let is_valid = expires_s.parse::<u64>().ok()? > now_s();
        is_valid.then(|| Self { id: id.to_owned(), customer, is_new: false })
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn keyed(key: &[u8], purpose: &str, text: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("keys of any length are valid");
    for part in [purpose, ":", text] {
        mac.update(part.as_bytes());
    }
    mac
}

/// The first 128 bits of HMAC-SHA-256 (RFC 2104, section 5), in hexadecimal.
fn mac(key: &[u8], purpose: &str, text: &str) -> String {
    hex(&keyed(key, purpose, text).finalize().into_bytes()[..16])
}

/// Whether `given` is the [`mac`], compared in constant time.
fn is_mac(key: &[u8], purpose: &str, text: &str, given: &str) -> bool {
    let bytes: Option<Vec<u8>> = (given.len() == 32 && given.is_ascii())
        .then(|| {
            (0..32).step_by(2).map(|at| u8::from_str_radix(&given[at..at + 2], 16).ok()).collect()
        })
        .flatten();
    bytes.is_some_and(|bytes| keyed(key, purpose, text).verify_truncated_left(&bytes).is_ok())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
