//! Topology files, and how they become a topology.

use std::collections::{BTreeMap, BTreeSet};

use fabricmark_link::LinkOptions;
use fabricmark_plan::{DEVICE_NAME_MAX, Offload, is_device_name};
use serde::Deserialize;

use super::junction::{FileHub, FileSwitch};
use super::networks::Networks;
use super::{Junction, Node, Topology, Wire};
use crate::qdisc::{Backend, Qdiscs};

/// Largest number of links: they are numbered by one byte of their IPv4 addresses.
const LINKS_MAX: usize = 256;

/// Returns the text of a file that a topology file names, or why there is none.
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
struct FileNode {
    bus: Option<String>,
    #[serde(default)]
    sysctl: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    between: [String; 2],
    /// Options of both directions.
    #[serde(default, alias = "words")]
    options: String,
    /// Options from the first end to the second, which add to `options` or replace them.
    #[serde(default, alias = "there")]
    forward: String,
    /// Options from the second end to the first.
    #[serde(default, alias = "back")]
    reverse: String,
    offload: Option<Offload>,
    #[serde(default)]
    backend: Backend,
}

/// A chain between two nodes: `routers` routers NAME-r1, NAME-r2 and so on, and the links NAME-1, NAME-2 and so on
/// between them, all like a [`FileLink`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileChain {
    between: [String; 2],
    routers: usize,
    #[serde(default, alias = "words")]
    options: String,
    #[serde(default, alias = "there")]
    forward: String,
    #[serde(default, alias = "back")]
    reverse: String,
    offload: Option<Offload>,
    #[serde(default)]
    backend: Backend,
}

impl File {
    pub(super) fn check(mut self, read: Read<'_>) -> Result<Topology, String> {
        for (name, chain) in std::mem::take(&mut self.chains) {
            self.expand(&name, chain)?;
        }
        let mut nodes = BTreeMap::new();
        let routers = self.routers.into_iter().map(|(name, node)| (name, node, true));
        let hosts = self.hosts.into_iter().map(|(name, node)| (name, node, false));
        for (name, FileNode { bus, sysctl }, is_router) in routers.chain(hosts) {
            check_name("node", &name)?;
            if let Some(key) = sysctl.keys().find(|key| !is_of_network(key)) {
                return Err(format!(
                    "node `{name}`: `{key}` is not a setting of a node: use only `net.` keys"
                ));
            }
            let bus = bus.map(|text| text.parse()).transpose();
            let bus = bus.map_err(|error: String| format!("`{name}`: {error}"))?;
            if nodes.insert(name.clone(), Node { is_router, bus, sysctl }).is_some() {
                return Err(format!("`{name}` is both a host and a router: keep one of the two"));
            }
        }
        let switches = self.switches.into_iter().map(|(name, file)| (name, file.check()));
        let hubs = self.hubs.into_iter().map(|(name, file)| (name, file.check()));
        let mut junctions = BTreeMap::new();
        for (name, junction) in switches.chain(hubs) {
            check_name("node", &name)?;
            let junction = junction.map_err(|error| format!("`{name}`: {error}"))?;
            if nodes.contains_key(&name) || junctions.insert(name.clone(), junction).is_some() {
                return Err(two_things(&name));
            }
        }
        if self.links.len() > LINKS_MAX {
            return Err(too_many_links(self.links.len()));
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
            let of_link = |error| format!("link `{}`: {error}", wire.name);
            topology.check_link(place).map_err(of_link)?;
            for options in &wire.options {
                Qdiscs::of(wire.backend, options).map_err(of_link)?;
            }
        }
        Ok(topology)
    }

    /// Adds the routers and links of a chain.
    fn expand(&mut self, name: &str, chain: FileChain) -> Result<(), String> {
        let FileChain { between, routers: count, options, forward, reverse, offload, backend } =
            chain;
        if count >= LINKS_MAX {
            return Err(too_many_links(count.saturating_add(1)));
        }
        let router = |number: usize| match number {
            0 => between[0].clone(),
            _ if number > count => between[1].clone(),
            _ => format!("{name}-r{number}"),
        };
        if count > 0 && router(count).len() > DEVICE_NAME_MAX {
            return Err(bad_name("router of a chain", &router(count)));
        }
        for number in 1..=count {
            if self.routers.insert(router(number), FileNode::default()).is_some() {
                return Err(two_things(&router(number)));
            }
        }
        for number in 1..=count + 1 {
            let between = [router(number - 1), router(number)];
            let (options, forward, reverse) = (options.clone(), forward.clone(), reverse.clone());
            let link = format!("{name}-{number}");
            let file = FileLink { between, options, forward, reverse, offload, backend };
            if self.links.insert(link.clone(), file).is_some() {
                return Err(two_things(&link));
            }
        }
        Ok(())
    }
}

impl FileLink {
    fn check(
        self,
        name: String,
        known: &BTreeSet<&str>,
        junctions: &BTreeMap<String, Junction>,
        read: Read<'_>,
    ) -> Result<Wire, String> {
        let Self { between, options, forward, reverse, offload, backend } = self;
        check_name("link", &name)?;
        // The loopback device, and the directories of sysctls for all devices.
        if matches!(name.as_str(), "lo" | "all" | "default") {
            return Err(format!("link `{name}`: the kernel reserves this name; use another one"));
        }
        if let Some(node) = between.iter().find(|node| !known.contains(node.as_str())) {
            let nearest = known.iter().map(|known| (strsim::jaro_winkler(known, node), known));
            let nearest = nearest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|near| near.0 > 0.7);
            let hint = nearest.map(|(_, known)| format!(": did you mean `{known}`?"));
            let hint = hint.unwrap_or_default();
            return Err(format!(
                "link `{name}`: `{node}` is not a host, router, switch or hub{hint}"
            ));
        }
        if between[0] == between[1] {
            return Err(format!("link `{name}` has both ends at one node: use two nodes"));
        }
        let mut parse = |text: &str| {
            let of_link = |error: String| format!("link `{name}`: {error}");
            let mut options: LinkOptions =
                text.parse().map_err(|error| of_link(format!("{error}")))?;
            options.read_files(&mut *read).map_err(of_link)?;
            Ok::<_, String>(options)
        };
        let mut both = LinkOptions::default();
        for junction in between.iter().filter_map(|node| junctions.get(node)) {
            both.merge(&junction.options_of_links());
        }
        both.merge(&parse(&options)?);
        let mut direction = |text: &str| {
            let mut options = both.clone();
            options.merge(&parse(text)?);
            Ok::<_, String>(options)
        };
        let options = [direction(&forward)?, direction(&reverse)?];
        Ok(Wire { name, between, options, offload, backend, adapter: None })
    }
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if is_device_name(name) { Ok(()) } else { Err(bad_name(what, name)) }
}

fn bad_name(what: &str, name: &str) -> String {
    format!("{what} `{name}`: use a name of 1 to {DEVICE_NAME_MAX} letters, digits and dashes")
}

fn two_things(name: &str) -> String {
    format!("duplicate name `{name}`: use a different name for each")
}

fn too_many_links(count: usize) -> String {
    format!("the lab has {count} links: use at most {LINKS_MAX}")
}

/// Whether a sysctl is below `net.`, in plain words between dots.
fn is_of_network(key: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    key.starts_with("net.")
        && key.split('.').all(|word| !word.is_empty() && word.chars().all(is_good))
}
