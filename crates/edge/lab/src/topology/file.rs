//! A topology file as it is written, and how it becomes a topology.

use std::collections::{BTreeMap, BTreeSet};

use fabricmark_link::LinkWords;
use serde::Deserialize;

use super::chain::FileChain;
use super::error::NAME_MAX;
use super::junction::{FileHub, FileSwitch};
use super::networks::Networks;
use super::{Junction, Node, Topology, TopologyError, Wire, fill_trace};
use crate::network::LINKS_MAX;
use crate::qdisc::{Backend, Qdiscs};

/// Gives the text of a file that is named in another, or says why there is none.
pub(super) type Read<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    title: Option<String>,
    #[serde(default)]
    hosts: BTreeMap<String, FileNode>,
    #[serde(default)]
    routers: BTreeMap<String, FileNode>,
    #[serde(default)]
    switches: BTreeMap<String, FileSwitch>,
    #[serde(default)]
    hubs: BTreeMap<String, FileHub>,
    #[serde(default)]
    links: BTreeMap<String, FileLink>,
    #[serde(default)]
    chains: BTreeMap<String, FileChain>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileNode {
    bus: Option<String>,
    #[serde(default)]
    sysctl: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileLink {
    pub(super) between: [String; 2],
    /// Both directions.
    #[serde(default)]
    pub(super) words: String,
    /// From the first to the second, beyond `words` or instead.
    #[serde(default)]
    pub(super) there: String,
    /// From the second to the first.
    #[serde(default)]
    pub(super) back: String,
    pub(super) single: Option<bool>,
    #[serde(default)]
    pub(super) backend: Backend,
}

impl File {
    pub(super) fn check(mut self, read: Read<'_>) -> Result<Topology, TopologyError> {
        for (name, chain) in std::mem::take(&mut self.chains) {
            chain.expand(&name, &mut self.routers, &mut self.links)?;
        }
        let mut nodes = BTreeMap::new();
        let routers = self.routers.into_iter().map(|(name, node)| (name, node, true));
        let hosts = self.hosts.into_iter().map(|(name, node)| (name, node, false));
        for (name, FileNode { bus, sysctl }, is_router) in routers.chain(hosts) {
            check_name("node", &name)?;
            if let Some(key) = sysctl.keys().find(|key| !is_of_network(key)) {
                return Err(TopologyError::Sysctl { node: name, key: key.clone() });
            }
            let unable = |error| TopologyError::Junction { name: name.clone(), error };
            let bus = bus.map(|text| text.parse()).transpose().map_err(unable)?;
            if nodes.insert(name.clone(), Node { is_router, bus, sysctl }).is_some() {
                return Err(TopologyError::Twice(name));
            }
        }
        let switches = self.switches.into_iter().map(|(name, file)| (name, file.check()));
        let hubs = self.hubs.into_iter().map(|(name, file)| (name, file.check()));
        let mut junctions = BTreeMap::new();
        for (name, junction) in switches.chain(hubs) {
            check_name("node", &name)?;
            let unable = |error| TopologyError::Junction { name: name.clone(), error };
            let junction = junction.map_err(unable)?;
            if nodes.contains_key(&name) || junctions.insert(name.clone(), junction).is_some() {
                return Err(TopologyError::TwoThings(name));
            }
        }
        if self.links.len() > LINKS_MAX {
            return Err(TopologyError::TooManyLinks(self.links.len()));
        }
        let known: BTreeSet<&str> =
            nodes.keys().chain(junctions.keys()).map(String::as_str).collect();
        let mut links = Vec::new();
        for (name, link) in self.links {
            links.push(link.check(name, &known, &junctions, read)?);
        }
        let networks = Networks::of(&links, &junctions)?;
        let topology = Topology { title: self.title, nodes, junctions, links, networks };
        for (place, wire) in topology.links.iter().enumerate() {
            let unable = |error| TopologyError::Words { link: wire.name.clone(), error };
            topology.check_link(place).map_err(unable)?;
            for words in &wire.words {
                Qdiscs::of(wire.backend, words).map_err(|refusal| unable(refusal.to_string()))?;
            }
        }
        Ok(topology)
    }
}

impl FileLink {
    fn check(
        self,
        name: String,
        known: &BTreeSet<&str>,
        junctions: &BTreeMap<String, Junction>,
        read: Read<'_>,
    ) -> Result<Wire, TopologyError> {
        let Self { between, words, there, back, single, backend } = self;
        check_name("link", &name)?;
        // Every namespace has a loopback device of this name.
        if name == "lo" {
            return Err(TopologyError::Name { what: "link", name });
        }
        if let Some(node) = between.iter().find(|node| !known.contains(node.as_str())) {
            let nearest = known.iter().map(|known| (strsim::jaro_winkler(known, node), known));
            let nearest = nearest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|near| near.0 > 0.7);
            let hint = nearest.map(|(_, known)| format!(": did you mean `{known}`?"));
            let (link, node, hint) = (name, node.clone(), hint.unwrap_or_default());
            return Err(TopologyError::NoNode { link, node, hint });
        }
        if between[0] == between[1] {
            return Err(TopologyError::Loop(name));
        }
        let unable = |error| TopologyError::Words { link: name.clone(), error };
        let mut parse = |text: &str| {
            let mut words: LinkWords = text.parse().map_err(|error| unable(format!("{error}")))?;
            fill_trace(&mut words, &mut *read).map_err(unable)?;
            Ok::<_, TopologyError>(words)
        };
        let mut both = LinkWords::default();
        for junction in between.iter().filter_map(|node| junctions.get(node)) {
            both.merge(&junction.words_of_links());
        }
        both.merge(&parse(&words)?);
        let mut direction = |text: &str| {
            let mut words = both.clone();
            words.merge(&parse(text)?);
            Ok::<_, TopologyError>(words)
        };
        let words = [direction(&there)?, direction(&back)?];
        Ok(Wire { name, between, words, single, backend })
    }
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
