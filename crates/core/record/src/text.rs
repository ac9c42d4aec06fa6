//! Text that comes from other hosts.

use serde::{Deserialize, Deserializer};

/// Reads a sentence of another host, which shall be one line: further lines could pass for lines of this program.
///
/// # Errors
///
/// As those of `String`.
pub fn one_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(text.split(['\n', '\r']).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; "))
}
