//! Reads `[nodes]`, `[[wire]]` and `[[group]]` of a plan file: nodes besides client and server, the wires between
//! nodes, and groups of flows that run at once.

use std::fmt::Write;
use std::ops::Range;

use fabricmark_wire::Link;
use toml::de::DeTable;

use crate::factor::{Factor, Levels, Point, Section as Table, Where};
use crate::level::{Level, NONE};
use crate::part::Role;
use crate::plan::{Group, Topology, Wire};
use crate::reading::{Reader, Section, Value, suggestion};

/// Largest number of groups of flows: each has its own workers at two nodes.
const GROUPS_MAX: usize = 16;

/// Longest name of a network device: IFNAMSIZ (linux/if.h), 16 bytes with the terminating zero.
pub const DEVICE_NAME_MAX: usize = 15;

/// Whether a network device may have this name. Programs would take a leading dash for an option.
pub fn is_device_name(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let length = 1..=DEVICE_NAME_MAX;
    length.contains(&name.len()) && name.chars().all(is_good) && !name.starts_with('-')
}

/// A node of a plan; it is a router if it forwards.
#[derive(Default)]
pub(crate) struct Node {
    name: String,
    forwards: bool,
    /// Bus of its network devices, as a level of the factor `bus`.
    bus: Option<Level>,
}

/// A group, and the levels that replace the plan's for it.
pub(crate) struct NamedGroup {
    pub(crate) group: Group,
    pub(crate) levels: Levels,
}

impl NamedGroup {
    /// The levels of this group's point for a combination of the plan's levels.
    pub(crate) fn over(&self, combination: &Where) -> Where {
        let mut levels = combination.clone();
        let own = self.levels.iter().filter_map(|(factor, named)| Some((factor, named.first()?)));
        levels.extend(own.map(|(factor, (level, _))| (*factor, level.clone())));
        levels.insert(Factor::Group, self.group.name.clone());
        levels
    }

    /// The varied levels that do not apply to a point of this group, as `factor=level`; `None` if all of them apply.
    pub(crate) fn beside(
        &self,
        varied: &[Factor],
        combination: &Where,
        point: &Point,
    ) -> Option<Level> {
        let is_other = |factor: &&Factor| {
            self.levels.contains_key(*factor) || point.level(**factor).is_empty()
        };
        let others = varied.iter().filter(is_other);
        let words: Vec<String> = others
            .filter_map(|factor| Some(format!("{factor}={}", combination.get(factor)?)))
            .collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

impl<'i> Reader<'_, '_> {
    /// All nodes of the plan, client and server first.
    pub(crate) fn nodes(&mut self, value: Option<&Value<'i>>) -> Vec<Node> {
        let node = |role: Role| Node { name: role.name().to_owned(), ..Node::default() };
        let mut nodes = Vec::from([Role::Client, Role::Server].map(node));
        let Some(value) = value else { return nodes };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(value, "[nodes.NAME] tables");
            return nodes;
        };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            self.check_name(name, key.span());
            let Some(table) = value.get_ref().as_table() else {
                self.wrong(value, &format!("a [nodes.{name}] table"));
                continue;
            };
            let node = self.properties(name, table, value.span());
            match nodes.iter_mut().find(|node| node.name == name) {
                Some(known) => *known = node,
                None => nodes.push(node),
            }
        }
        nodes
    }

    fn properties(&mut self, name: &str, table: &DeTable<'i>, span: Range<usize>) -> Node {
        let mut section = Section { name: "a node", span, table: Some(table), known: Vec::new() };
        let forwards = section.take("forwards").is_some_and(|value| self.truth(value));
        let bus = section.take("bus").and_then(|value| self.level(Factor::Bus, value));
        section.finish(self.source);
        Node { name: name.to_owned(), forwards, bus: bus.filter(|bus| bus != NONE) }
    }

    /// Reports a name that neither a node nor a wire nor a group may have.
    fn check_name(&mut self, name: &str, place: Range<usize>) {
        if !is_device_name(name) {
            let message = format!("`{name}` cannot be a name here");
            let help = "use 1 to 15 letters, digits and dashes, and no dash first";
            self.source.problem(place, message, help);
        }
    }

    /// Reads the name of a node that the plan has.
    fn node(&mut self, value: &Value<'_>, nodes: &[Node]) -> Option<String> {
        let name = self.text(value)?;
        if nodes.iter().any(|node| node.name == name) {
            return Some(name);
        }
        let known: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let message = format!("unknown node `{name}`");
        let help = format!("{} or add [nodes.{name}]", suggestion(&name, &known));
        self.refuse(value.span(), message, help)
    }

    /// Reads the `[[wire]]` with this number.
    pub(crate) fn wire(
        &mut self,
        mut section: Section<'_, '_>,
        number: usize,
        nodes: &[Node],
    ) -> Option<Wire> {
        let place = section.span.clone();
        let name = section.take("name").and_then(|value| {
            let name = self.text(value)?;
            self.check_name(&name, value.span());
            Some(name)
        });
        let name = name.unwrap_or_else(|| format!("wire{number}"));
        let between = section.take("between");
        let link =
            section.take("link").map(|value| (self.level(Factor::Link, value), value.span()));
        let mut options = Vec::new();
        for (factor, prefix) in [(Factor::Rtt, "rtt="), (Factor::Emulate, "")] {
            let level = section.take(factor.key()).and_then(|value| self.level(factor, value));
            let named = level.filter(|level| level != NONE);
            if named.as_ref().is_some_and(|level| level.split(' ').any(|w| w.starts_with("trace=")))
            {
                let help = "use a topology file, as in testbed = \"lab:FILE\"";
                self.source.problem(place.clone(), "[[wire]] does not support `trace`", help);
            }
            options.extend(named.map(|level| format!("{prefix}{level}")));
        }
        section.finish(self.source);
        let named = between.and_then(|value| value.get_ref().as_array());
        let ends: Vec<String> = match named {
            Some(array) => array.iter().filter_map(|value| self.node(value, nodes)).collect(),
            None => Vec::new(),
        };
        let is_pair = named.is_some_and(|array| array.len() == 2);
        if !is_pair || ends.first() == ends.get(1) && ends.len() == 2 {
            let help = "write between = [\"client\", \"server\"]";
            self.source.problem(
                place.clone(),
                "a [[wire]] needs two different nodes in `between`",
                help,
            );
        }
        let Some((link, span)) = link else {
            let help = "write link = \"ethernet:10G\", or \"veth\" for one without a rate";
            return self.refuse(place, "a [[wire]] needs a link", help);
        };
        let link: Link = link?.parse().ok()?;
        if link == Link::Loopback {
            self.source.problem(
                span,
                "link=loopback cannot connect two nodes",
                "use link=veth or ethernet:10G",
            );
        }
        let between: [String; 2] = ends.try_into().ok()?;
        Some(Wire { name, between, link, options: options.join(" ") })
    }

    /// Reads the `[[group]]`s. With a topology file the names of nodes are not checked here.
    pub(crate) fn flow_groups(
        &mut self,
        sections: Vec<Section<'_, '_>>,
        nodes: &[Node],
        wires: &[Wire],
        has_file: bool,
    ) -> Vec<NamedGroup> {
        let mut groups: Vec<NamedGroup> = Vec::new();
        let place = sections.last().map_or(0..0, |section| section.span.clone());
        for mut section in sections {
            let span = section.span.clone();
            let name = section.take("name").and_then(|value| {
                let name = self.text(value)?;
                self.check_name(&name, value.span());
                Some(name)
            });
            let mut end = |reader: &mut Self, key, role: Role| match section.take(key) {
                Some(value) if has_file => reader.text(value),
                Some(value) => reader.node(value, nodes),
                None => Some(role.name().to_owned()),
            };
            let from = end(self, "from", Role::Client);
            let to = end(self, "to", Role::Server);
            let via = section.take("via").and_then(|value| {
                let via = self.text(value)?;
                if !has_file {
                    self.check_via(&via, from.as_deref(), wires, value.span());
                }
                Some(via)
            });
            let start_ns = self.duration(&mut section, "start").unwrap_or_default();
            let levels = self.levels(section, "[[group]]");
            self.check_levels(&levels);
            let Some(name) = name else {
                self.source.problem(span, "a [[group]] has no name", "add name = \"bulk\"");
                continue;
            };
            let (Some(from), Some(to)) = (from, to) else { continue };
            if from == to {
                let message = format!("group {name} has node {from} at both ends");
                self.source.problem(
                    span.clone(),
                    message,
                    "set from and to to two different nodes",
                );
            }
            if groups.iter().any(|known| known.group.name == name) {
                let message = format!("duplicate group name {name}");
                self.source.problem(span, message, "give each [[group]] a different name");
            }
            groups.push(NamedGroup { group: Group { name, from, to, via, start_ns }, levels });
        }
        if !groups.is_empty() && groups.iter().all(|one| one.group.start_ns.0 > 0) {
            let help = "leave out `start` in the group that starts first";
            self.source.problem(place.clone(), "no [[group]] starts at 0s", help);
        }
        if groups.len() > GROUPS_MAX {
            let message = format!("the plan has {} groups", groups.len());
            self.source.problem(place, message, format!("use at most {GROUPS_MAX}"));
        }
        groups
    }

    /// Rejects a first wire of a group that its client's node does not have.
    fn check_via(&mut self, via: &str, from: Option<&str>, wires: &[Wire], place: Range<usize>) {
        let Some(from) = from else { return };
        let own = wires.iter().filter(|wire| wire.between.iter().any(|node| node == from));
        let own: Vec<&str> = own.map(|wire| wire.name.as_str()).collect();
        if own.contains(&via) {
            return;
        }
        let help = match own[..] {
            [] => format!("add a [[wire]] with name = \"{via}\" to node {from}"),
            _ => format!("use a wire of node {from}: {}", own.join(", ")),
        };
        self.source.problem(place, format!("node {from} has no wire `{via}`"), help);
    }

    /// Reads `[interference]`, which has no keys; returns whether the plan has it.
    pub(crate) fn interference(&mut self, value: &Value<'i>, groups: &[NamedGroup]) -> bool {
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(value, "an [interference] table");
            return false;
        };
        let (name, span, known) = ("[interference]", value.span(), Vec::new());
        Section { name, span: span.clone(), table: Some(table), known }.finish(self.source);
        if groups.len() < 2 {
            let message = "[interference] compares groups alone with all of them together";
            self.source.problem(span, message, "add at least two [[group]] tables");
        }
        groups.len() > 1
    }

    /// Rejects levels that a single group cannot set.
    fn check_levels(&mut self, levels: &Levels) {
        for (factor, named) in levels {
            let place = named.first().map_or(0..0, |(_, span)| span.clone());
            let is_of_link = *factor == Factor::Link || factor.spec().section == Table::Link;
            let (message, help) = if is_of_link {
                let help = "set it in a [[wire]], or in [settings] for the link of all groups";
                (format!("{factor} cannot be set in a [[group]]: groups share the links"), help)
            } else if *factor == Factor::Probe {
                let help = "use another [[group]] with pattern=ping-pong";
                ("probe is not supported in a [[group]]".to_owned(), help)
            } else if factor.spec().section == Table::Group {
                (format!("{factor} cannot be set in a [[group]]"), "leave it out")
            } else if named.len() > 1 {
                let help = "give it one level, or move it to [factors]";
                (format!("{factor} has several levels in a [[group]]"), help)
            } else {
                continue;
            };
            self.source.problem(place, message, help);
        }
    }

    /// Rejects nodes without a wire, other than client and server.
    pub(crate) fn check_joined(&mut self, nodes: &[Node], wires: &[Wire], span: Range<usize>) {
        let is_apart = |node: &&Node| {
            let is_end = [Role::Client, Role::Server].iter().any(|end| end.name() == node.name);
            !is_end && !wires.iter().any(|wire| wire.between.contains(&node.name))
        };
        if let Some(Node { name, .. }) = nodes.iter().find(is_apart) {
            let help = format!("add a [[wire]] with between = [\"client\", \"{name}\"] and a link");
            self.source.problem(span.clone(), format!("node {name} has no [[wire]]"), help);
        }
        if wires.is_empty() && nodes.iter().any(|node| node.bus.is_some()) {
            let message = "`bus` of a node needs a plan with [[wire]]s";
            let help = "add a [[wire]], or use the factor bus";
            self.source.problem(span, message, help);
        }
        let place = |one: &Wire| wires.iter().position(|wire| wire.name == one.name);
        let twice = wires.iter().enumerate().find(|(at, wire)| place(wire) != Some(*at));
        if let Some((_, Wire { name, .. })) = twice {
            let help = "give each [[wire]] a different name";
            self.source.problem(0..0, format!("duplicate wire name {name}"), help);
        }
    }

    /// The topology made of the plan's own wires; `client` and `server` are the nodes of the first group.
    pub(crate) fn wired(
        &mut self,
        nodes: &[Node],
        wires: &[Wire],
        group: Option<&Group>,
    ) -> Topology {
        let mut text = String::new();
        for Node { name, forwards, bus } in nodes {
            let kind = if *forwards { "routers" } else { "hosts" };
            let is_wired = wires.iter().any(|wire| wire.between.contains(name));
            if is_wired {
                let _ = writeln!(text, "[{kind}.{name}]");
                let _ = bus.iter().try_for_each(|bus| writeln!(text, "bus = '{bus}'"));
            }
        }
        for Wire { name, between: [one, other], link, options } in wires {
            let link = match link {
                Link::Veth { mtu } => format!("mtu={mtu}"),
                link => format!("link={link}"),
            };
            let _ = writeln!(
                text,
                "[links.{name}]\nbetween = ['{one}', '{other}']\noptions = '{link} {options}'"
            );
        }
        let end = |name: Option<&String>, role: Role| {
            name.map_or_else(|| role.name().to_owned(), String::clone)
        };
        Topology {
            file: String::new(),
            client: end(group.map(|group| &group.from), Role::Client),
            server: end(group.map(|group| &group.to), Role::Server),
            text,
            takes_turns: true,
        }
    }
}
