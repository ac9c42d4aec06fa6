//! Passwords of customers.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// What is stored of a password: a hash that depends on the user, in hexadecimal. It is made for load, and no
/// protection of passwords of people: those need a slow hash, which would be most of what a sign-in costs.
pub fn hash(user_name: &str, password: &str) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(user_name.as_bytes()).expect("keys of any length are valid");
    mac.update(password.as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
