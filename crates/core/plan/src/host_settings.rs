//! Settings of the hosts at both ends of a point, as a factor. Which settings exist, and what a host does with them, is
//! not known here (crate `settings`).

use fabricmark_wire::{Ipoib, Link};

use crate::factor::Point;
use crate::level::Level;

/// Longest list of settings in bytes, and longest value: arbitrary choices. The longest usual value has three numbers.
const LIST_MAX: usize = 1024;
const VALUE_MAX: usize = 128;

/// Canonical form of a list of settings: `mtu=9000,tso=off`.
pub(crate) fn list(text: &str) -> Result<Level, String> {
    const HELP: &str = "write SETTING=VALUE, several separated by commas, such as mtu=9000,tso=off";
    if text.len() > LIST_MAX {
        return Err(format!("a list of settings has at most {LIST_MAX} bytes"));
    }
    let mut known: Vec<(&str, &str)> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (key, value) = part.split_once('=').ok_or(HELP)?;
        let (key, value) = (key.trim(), value.trim());
        let is_key = |c: char| c.is_ascii_alphanumeric() || ":._-".contains(c);
        let is_value = |c: char| c.is_ascii_graphic() || c == ' ';
        let is_good = !key.is_empty()
            && key.chars().all(is_key)
            && (1..=VALUE_MAX).contains(&value.len())
            && value.chars().all(is_value);
        if !is_good {
            return Err(HELP.to_owned());
        }
        if known.iter().any(|(name, _)| *name == key) {
            return Err(format!("{key} is set twice"));
        }
        known.push((key, value));
    }
    let words: Vec<String> = known.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok(words.join(","))
}

impl Point {
    /// The settings of the hosts, each as `mtu=9000`, in the order in which they are made; none: hosts are as they are.
    pub fn settings_of_hosts(&self) -> impl Iterator<Item = &str> {
        self.host_settings.iter().flat_map(|list| list.split(','))
    }

    /// The link with the MTU that the hosts are set to, if they are.
    pub fn link_as_set(&self) -> Link {
        let mut mtus = self.settings_of_hosts().filter_map(|one| one.strip_prefix("mtu="));
        match (mtus.next().and_then(|mtu| mtu.parse().ok()), self.link) {
            (Some(mtu), Link::Ethernet { rate, vlan, .. }) => Link::Ethernet { rate, mtu, vlan },
            (Some(mtu), Link::Veth { .. }) => Link::Veth { mtu },
            (Some(mtu), Link::Ipoib(ipoib)) => Link::Ipoib(Ipoib { mtu, ..ipoib }),
            (_, link) => link,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{overlay, resolve};

    #[test]
    fn a_list_has_settings_with_values_each_once() {
        assert_eq!(list(" mtu = 9000 , tso=off"), Ok("mtu=9000,tso=off".to_owned()));
        let sysctl = "sysctl:net.ipv4.tcp_rmem=4096 131072 6291456";
        assert_eq!(list(sysctl).as_deref(), Ok(sysctl));
        for text in ["", "mtu", "mtu=", "=1", "mtu=1,", "m tu=1", "mtu=1\n2", "mtu=1,mtu=2"] {
            assert!(list(text).is_err(), "{text:?}");
        }
        assert!(list(&format!("qdisc={}", "x".repeat(VALUE_MAX + 1))).is_err());
        assert!(list(&"a=1,".repeat(LIST_MAX)).is_err());
    }

    #[test]
    fn the_link_of_a_point_has_the_mtu_that_its_hosts_are_set_to() {
        let link = |levels: &str| {
            let base = "pattern=stream,transport=udp,family=4,payload=64";
            let levels = overlay(&format!("{base},{levels}")).unwrap();
            resolve(&levels).unwrap().link_as_set().to_string()
        };
        assert_eq!(link("link=ethernet:10G"), "ethernet:10G");
        assert_eq!(link("link=ethernet:10G,host_settings=mtu=9000"), "ethernet:10G,mtu=9000");
        assert_eq!(link("link=ethernet:10G,host_settings=tso=off"), "ethernet:10G");
    }
}
