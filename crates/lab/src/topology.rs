//! What a lab is made of, as its file says it: hosts, routers, links between two of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabricmark_link::LinkWords;
use fabricmark_wire::Family;
use serde::Deserialize;

use crate::network::LINKS_MAX;
use crate::qdisc::{Backend, Qdiscs};

/// A lab that is wanted, checked: each link is between two nodes that exist.
///
/// Nodes and links are in the order of their names; the addresses follow from it.
#[derive(Clone, Debug)]
pub struct Topology {
    /// What it is called; the name of the file where it says none.
    pub title: Option<String>,
    /// By name.
    pub nodes: BTreeMap<String, Node>,
    /// In the order of their names.
    pub links: Vec<Wire>,
}

/// A host or a router.
#[derive(Clone, Debug)]
pub struct Node {
    /// Whether it forwards packets of others.
    pub is_router: bool,
    /// Settings of its network, by name: `net.ipv4.tcp_rmem`.
    pub sysctl: BTreeMap<String, String>,
}

/// A link between two nodes.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Its name, which is that of the devices at both ends.
    pub name: String,
    /// The nodes at its ends.
    pub between: [String; 2],
    /// What it does with what comes from each end.
    pub words: [LinkWords; 2],
    /// Whether senders hand over single packets, not super-packets of up to 64 KiB.
    pub single: bool,
    /// What carries its packets.
    pub backend: Backend,
}

/// Why a text describes no lab.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// It is no TOML, or has a key that nobody knows.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A name cannot be one.
    #[error(
        "{what} `{name}`: names have 1 to {NAME_MAX} letters, digits and dashes, as network devices do"
    )]
    Name {
        /// Of what.
        what: &'static str,
        /// As it stands there.
        name: String,
    },
    /// One name for a host and a router.
    #[error("`{0}` is a host and a router: a router is a host that forwards; name it once")]
    Twice(String),
    /// A link ends nowhere.
    #[error("link `{link}` ends at `{node}`, which is no host or router{hint}")]
    NoNode {
        /// The link.
        link: String,
        /// What it names.
        node: String,
        /// The nearest name.
        hint: String,
    },
    /// A link ends where it begins.
    #[error("both ends of link `{0}` are at one node: name two")]
    Loop(String),
    /// What a link does cannot be read.
    #[error("link `{link}`: {error}")]
    Words {
        /// The link.
        link: String,
        /// What is wrong.
        error: String,
    },
    /// A setting that would not be the lab's alone.
    #[error(
        "node `{node}`: `{key}` is a setting of this machine, not of a node: only `net.` ones are"
    )]
    Sysctl {
        /// The node.
        node: String,
        /// The name of the setting.
        key: String,
    },
    /// More than addresses reach.
    #[error("a lab has at most {LINKS_MAX} links, this has {0}")]
    TooManyLinks(usize),
}

/// Longest name of a network device: IFNAMSIZ with its zero byte is 16.
const NAME_MAX: usize = 15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    #[serde(default)]
    hosts: BTreeMap<String, FileNode>,
    #[serde(default)]
    routers: BTreeMap<String, FileNode>,
    #[serde(default)]
    links: BTreeMap<String, FileLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNode {
    #[serde(default)]
    sysctl: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    between: [String; 2],
    /// Both directions.
    #[serde(default)]
    words: String,
    /// From the first to the second, beyond `words` or instead.
    #[serde(default)]
    there: String,
    /// From the second to the first.
    #[serde(default)]
    back: String,
    #[serde(default)]
    single: bool,
    #[serde(default)]
    backend: Backend,
}

impl Topology {
    /// Reads a topology file.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let file: File = toml::from_str(text)?;
        let mut nodes = BTreeMap::new();
        let routers = file.routers.into_iter().map(|(name, node)| (name, node, true));
        let hosts = file.hosts.into_iter().map(|(name, node)| (name, node, false));
        for (name, FileNode { sysctl }, is_router) in routers.chain(hosts) {
            check_name("node", &name)?;
            if let Some(key) = sysctl.keys().find(|key| !is_of_network(key)) {
                return Err(TopologyError::Sysctl { node: name, key: key.clone() });
            }
            if nodes.insert(name.clone(), Node { is_router, sysctl }).is_some() {
                return Err(TopologyError::Twice(name));
            }
        }
        if file.links.len() > LINKS_MAX {
            return Err(TopologyError::TooManyLinks(file.links.len()));
        }
        let links = file.links.into_iter().map(|(name, link)| link.check(name, &nodes));
        Ok(Self { title: file.title, links: links.collect::<Result<_, _>>()?, nodes })
    }

    /// The address of one end of a link: 10.71.LINK.1 and .2, fd71:LINK::1 and ::2.
    pub fn address(link: usize, end: usize, family: Family) -> IpAddr {
        let host = end as u8 + 1;
        match family {
            Family::V4 => IpAddr::from([10, 71, link as u8, host]),
            Family::V6 => IpAddr::from([0xfd71, link as u16, 0, 0, 0, 0, 0, u16::from(host)]),
        }
    }

    /// Whether senders over a link hand over single packets: where it needs them, or one behind it may.
    pub(crate) fn is_single(&self, link: usize) -> bool {
        let behind = |wire: &Wire| wire.backend.needs_single_packets();
        self.links[link].single || self.links.iter().any(behind)
    }

    /// Where a node is attached: links, and which of their ends.
    pub fn ends<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
        let ends = self
            .links
            .iter()
            .enumerate()
            .flat_map(|(link, wire)| [0, 1].map(|end| (link, end, wire.between[end].as_str())));
        ends.filter(move |&(_, _, name)| name == node).map(|(link, end, _)| (link, end))
    }
}

impl FileLink {
    fn check(self, name: String, nodes: &BTreeMap<String, Node>) -> Result<Wire, TopologyError> {
        let Self { between, words, there, back, single, backend } = self;
        check_name("link", &name)?;
        // Every namespace has a loopback device of this name.
        if name == "lo" {
            return Err(TopologyError::Name { what: "link", name });
        }
        if let Some(node) = between.iter().find(|node| !nodes.contains_key(*node)) {
            let nearest = nodes.keys().map(|known| (strsim::jaro_winkler(known, node), known));
            let nearest = nearest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|near| near.0 > 0.7);
            let hint = nearest.map(|(_, known)| format!(": did you mean `{known}`?"));
            let (link, node, hint) = (name, node.clone(), hint.unwrap_or_default());
            return Err(TopologyError::NoNode { link, node, hint });
        }
        if between[0] == between[1] {
            return Err(TopologyError::Loop(name));
        }
        let read = |text: &str| {
            text.parse::<LinkWords>().map_err(|error| TopologyError::Words {
                link: name.clone(),
                error: error.to_string(),
            })
        };
        let both = read(&words)?;
        let direction = |text: &str| {
            let mut words = both.clone();
            words.merge(&read(text)?);
            let unable = |error| TopologyError::Words { link: name.clone(), error };
            check_words(&words).map_err(unable)?;
            words.build::<()>(0, "").map_err(|error| unable(error.to_string()))?;
            Qdiscs::of(backend, &words).map_err(|error| unable(error.to_string()))?;
            Ok::<_, TopologyError>(words)
        };
        let words = [direction(&there)?, direction(&back)?];
        // The token bucket cuts super-packets, but that costs more than to send none.
        let single = single || backend != Backend::Emulator;
        Ok(Wire { name, between, words, single, backend })
    }
}

/// Refuses words that would have no effect in a lab.
pub(crate) fn check_words(words: &LinkWords) -> Result<(), String> {
    if words.trace_file().is_some() {
        return Err("a lab reads no traces yet: leave `trace` out".to_owned());
    }
    if words.to_string().split(' ').any(|word| word == "pause") {
        return Err("`pause` would stop nobody, for there is no wire before a link: leave it out"
            .to_owned());
    }
    Ok(())
}

fn check_name(what: &'static str, name: &str) -> Result<(), TopologyError> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    // A dash at the beginning would be an option to whoever gets it.
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_good) && !name.starts_with('-') {
        return Ok(());
    }
    Err(TopologyError::Name { what, name: name.to_owned() })
}

/// Whether a setting stands below `net.`, in plain words between dots.
fn is_of_network(key: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    key.starts_with("net.")
        && key.split('.').all(|word| !word.is_empty() && word.chars().all(is_good))
}

#[cfg(test)]
mod tests;
