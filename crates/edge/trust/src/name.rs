//! Host names in the list of trusted keys.

use std::fmt;
use std::str::FromStr;

use crate::TrustError;

/// A label for people: 1 to 64 printable ASCII characters without blanks, so that it cannot corrupt a file or a
/// terminal. The key authenticates a host, not its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Longest name in bytes, that of Linux (`__NEW_UTS_LEN` in `linux/utsname.h`).
    pub const MAX_LEN: usize = 64;

    /// The name of this host by uname(2), or `unnamed` if that is not a valid name.
    pub fn own() -> HostName {
        let system = rustix::system::uname();
        let name = system.nodename().to_str().ok().and_then(|name| name.parse().ok());
        name.unwrap_or_else(|| HostName("unnamed".to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = TrustError;

    fn from_str(name: &str) -> Result<HostName, TrustError> {
        let fits = (1..=HostName::MAX_LEN).contains(&name.len());
        let fits = fits && name.bytes().all(|byte| byte.is_ascii_graphic());
        let name = name.to_owned();
        if fits { Ok(HostName(name)) } else { Err(TrustError::BadName(name)) }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_spoil_a_file_or_a_terminal() {
        for name in ["", "a b", "a\nb", "\x1b[2J", "höhle", &"x".repeat(65)] {
            assert!(name.parse::<HostName>().is_err(), "{name:?}");
        }
        for name in ["a", "node-7.example", &"x".repeat(64)] {
            assert_eq!(name.parse::<HostName>().unwrap().as_str(), name);
        }
    }
}
