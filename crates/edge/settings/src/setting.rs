//! Settings and their values, as text.

use std::fmt;
use std::str::FromStr;

use crate::error::Cause;
use crate::kind::{GOVERNOR, KINDS, Kind, SYSCTL};
use crate::place::{Place, Sysctl};
use crate::system::System;

/// A setting of this host, such as `mtu` or `sysctl:net.ipv4.tcp_sack`.
#[derive(Clone)]
pub struct Setting {
    kind: &'static Kind,
    /// Name of a sysctl; `None` for all other kinds.
    pub(crate) sysctl: Option<Sysctl>,
}

/// A setting and the value that it gets, such as `mtu=9000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    setting: Setting,
    value: String,
}

/// Why a text is no setting or no change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// There is no setting of this name.
    #[error("unknown setting `{name}`: {remedy}")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest setting, or all of them.
        remedy: String,
    },
    /// The text lacks a value.
    #[error("`{0}` has no value: write it as SETTING=VALUE, such as `mtu=9000`")]
    NoValue(String),
    /// The setting does not have such a value.
    #[error("{setting}={value}: the value has to be {accepted}")]
    Value {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// What it has to be.
        accepted: String,
    },
    /// The sysctl is none, or none that can surely be put back. The text says why.
    #[error("{0}")]
    Sysctl(String),
}

impl Setting {
    /// Names and meanings of all kinds of settings.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        KINDS.iter().map(|kind| (kind.key, kind.about))
    }

    /// Where the values of the setting are, in the order in which they are written.
    pub(crate) fn places(&self, system: &System, device: &str) -> Result<Vec<Place>, Cause> {
        (self.kind.places)(self, system, device)
    }

    /// What the kernel may change together with the setting.
    pub(crate) fn affects(&self) -> &'static [Place] {
        self.kind.affects
    }

    /// Whether all network namespaces of the machine share the setting.
    pub fn is_of_machine(&self) -> bool {
        self.kind.key == GOVERNOR
    }

    /// Whether the setting is one of a device; otherwise it is one of the namespace or of the machine.
    pub fn is_of_device(&self) -> bool {
        self.kind.is_of_device
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.kind.key == other.kind.key && self.sysctl == other.sysctl
    }
}

impl Eq for Setting {}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sysctl {
            Some(sysctl) => write!(f, "{SYSCTL}:{}", sysctl.name()),
            None => f.write_str(self.kind.key),
        }
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting({self})")
    }
}

impl FromStr for Setting {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (key, name) = match text.split_once(':') {
            Some((SYSCTL, name)) => (SYSCTL, Some(name)),
            _ => (text, None),
        };
        let kind = KINDS.iter().find(|kind| kind.key == key).ok_or_else(|| unknown(text))?;
        let sysctl = match name {
            Some(name) => Some(Sysctl::try_from(name.to_owned()).map_err(ParseError::Sysctl)?),
            None if key == SYSCTL => {
                let example = "a sysctl needs a name, such as `sysctl:net.ipv4.tcp_sack`";
                return Err(ParseError::Sysctl(example.to_owned()));
            }
            None => None,
        };
        Ok(Self { kind, sysctl })
    }
}

fn unknown(name: &str) -> ParseError {
    let near = KINDS
        .iter()
        .map(|kind| (strsim::damerau_levenshtein(name, kind.key), kind.key))
        .min()
        .filter(|(distance, key)| *distance <= 2.max(key.len() / 3));
    let remedy = match near {
        Some((_, key)) => format!("did you mean `{key}`?"),
        None => {
            let keys: Vec<&str> = KINDS.iter().map(|kind| kind.key).collect();
            format!("use one of {}", keys.join(", "))
        }
    };
    ParseError::Unknown { name: name.to_owned(), remedy }
}

impl Change {
    /// The setting.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The value that it gets.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.setting, self.value)
    }
}

impl FromStr for Change {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (setting, value) =
            text.split_once('=').ok_or_else(|| ParseError::NoValue(text.to_owned()))?;
        let setting: Setting = setting.parse()?;
        let value = setting.kind.values.accept(value).map_err(|accepted| ParseError::Value {
            setting: setting.to_string(),
            value: value.to_owned(),
            accepted,
        })?;
        Ok(Self { setting, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_as_it_is_written() {
        let texts = [
            "mtu=9000",
            "ipoib-mode=datagram",
            "rps=3",
            "xps=ffffffffff",
            "tso=on",
            "gso=off",
            "gro=on",
            "lro=off",
            "rx-checksum=on",
            "tx-checksum=off",
            "rx-usecs=8",
            "tx-usecs=16",
            "adaptive-rx=on",
            "adaptive-tx=off",
            "rx-ring=4096",
            "tx-ring=512",
            "qdisc=fq",
            "busy-poll=50",
            "governor=performance",
            "sysctl:net.ipv4.tcp_rmem=4096 131072 6291456",
        ];
        for text in texts {
            assert_eq!(text.parse::<Change>().unwrap().to_string(), text);
        }
        for (key, _) in Setting::all() {
            assert!(texts.iter().any(|text| text.starts_with(key)), "{key}");
        }
    }

    #[test]
    fn the_page_about_settings_lists_each_with_its_meaning() {
        let page = include_str!("../../../../docs/settings.md");
        for (key, about) in Setting::all() {
            let row = format!("| `{key}` | {about} |");
            assert!(page.contains(&row), "docs/settings.md lacks {row}");
        }
    }

    #[test]
    fn an_unknown_setting_names_the_nearest() {
        let error = "mut=9000".parse::<Change>().unwrap_err().to_string();
        assert_eq!(error, "unknown setting `mut`: did you mean `mtu`?");
        let error = "colour=red".parse::<Change>().unwrap_err().to_string();
        assert!(error.starts_with("unknown setting `colour`: use one of mtu, "), "{error}");
        assert!("mtu:x=1".parse::<Change>().is_err());
        assert_eq!("mtu".parse::<Change>(), Err(ParseError::NoValue("mtu".to_owned())));
    }

    #[test]
    fn a_sysctl_is_one_of_the_network_that_changes_nothing_else() {
        for name in ["net.ipv4.tcp_sack", "net.core.rmem_max", "net.ipv4.ip_local_port_range"] {
            assert!(format!("sysctl:{name}=1").parse::<Change>().is_ok(), "{name}");
        }
        let refused = [
            "",
            "kernel.panic",
            "net",
            "net.",
            "net.ipv4.ip_forward",
            "net.ipv6.conf.all.disable_ipv6",
            "net.core/../../kernel/panic",
            "net.core..rmem_max",
            "net.core.../kernel",
            "net/core/rmem_max",
        ];
        for name in refused {
            let change = format!("sysctl:{name}=1").parse::<Change>();
            assert!(matches!(change, Err(ParseError::Sysctl(_))), "{name}");
        }
    }
}
