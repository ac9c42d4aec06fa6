//! A network as a tree of text, and as a drawing.

use std::fmt::Write as _;

use crate::chart::escaped;

/// Nodes and links of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Title of the drawing.
    pub title: String,
    /// Name and kind (`host`, `router`, `switch` or `hub`) of each node.
    pub nodes: Vec<(String, String)>,
    /// The links.
    pub links: Vec<NetworkLink>,
}

/// A link of a [`Network`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLink {
    /// Its name.
    pub name: String,
    /// Its two nodes, by index.
    pub between: [usize; 2],
    /// Its options, one per line.
    pub options: Vec<String>,
}

impl Network {
    /// The other ends of a node's links: link and node.
    fn neighbours(&self, node: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.links.iter().enumerate().filter_map(move |(link, NetworkLink { between, .. })| {
            let end = between.iter().position(|&end| end == node)?;
            Some((link, between[1 - end]))
        })
    }

    /// Distance in links of each node from `start`; `None` without a path.
    fn distances(&self, start: usize) -> Vec<Option<usize>> {
        let mut found = vec![None; self.nodes.len()];
        found[start] = Some(0);
        let mut next = std::collections::VecDeque::from([start]);
        while let Some(node) = next.pop_front() {
            for (_, other) in self.neighbours(node) {
                if found[other].is_none() {
                    found[other] = found[node].map(|distance| distance + 1);
                    next.push_back(other);
                }
            }
        }
        found
    }

    /// The node that is farthest from `start`, the first of several.
    fn farthest(&self, start: usize) -> usize {
        let distances = self.distances(start);
        let most = distances.iter().flatten().max();
        distances.iter().position(|distance| distance.as_ref() == most).unwrap_or(start)
    }

    /// An end of the longest path that avoids detours, for each part that is not connected to the others.
    fn starts(&self) -> Vec<usize> {
        let mut starts: Vec<usize> = Vec::new();
        for node in 0..self.nodes.len() {
            let is_reached = |&start: &usize| self.distances(start)[node].is_some();
            if !starts.iter().any(is_reached) {
                let end = self.farthest(self.farthest(node));
                starts.push(end);
            }
        }
        starts
    }
}

/// The network as a tree: below each node its links, each with its options and the node at its other end. A link that
/// closes a ring ends at a node `(above)`.
pub fn network_text(network: &Network) -> String {
    let mut tree = Tree {
        network,
        has_node: vec![false; network.nodes.len()],
        has_link: vec![false; network.links.len()],
    };
    let mut out = String::new();
    for start in network.starts() {
        let _ = writeln!(out, "{}", tree.node(start));
        tree.branches(start).iter().for_each(|line| _ = writeln!(out, "{line}"));
    }
    out
}

struct Tree<'a> {
    network: &'a Network,
    has_node: Vec<bool>,
    has_link: Vec<bool>,
}

impl Tree<'_> {
    /// Name of a node, and its kind unless it is a host.
    fn node(&mut self, node: usize) -> String {
        self.has_node[node] = true;
        let (name, kind) = &self.network.nodes[node];
        if kind == "host" { name.clone() } else { format!("{name} ({kind})") }
    }

    /// The lines below a node.
    fn branches(&mut self, node: usize) -> Vec<String> {
        let links: Vec<(usize, usize)> = self.network.neighbours(node).collect();
        let mut branches = Vec::new();
        for (link, other) in links {
            // A ring may have come here by this link.
            if std::mem::replace(&mut self.has_link[link], true) {
                continue;
            }
            let NetworkLink { name, options, .. } = &self.network.links[link];
            let options = match options.join(" ") {
                options if options.is_empty() => String::new(),
                options => format!(" [{options}]"),
            };
            let is_above = self.has_node[other];
            let above = if is_above { " (above)" } else { "" };
            let head = format!("{name}{options} ─ {}{above}", self.node(other));
            let below = if is_above { Vec::new() } else { self.branches(other) };
            branches.push((head, below));
        }
        let last = branches.len().saturating_sub(1);
        let mut lines = Vec::new();
        for (place, (head, below)) in branches.into_iter().enumerate() {
            let (branch, indent) =
                if place == last { ("└─", "   ") } else { ("├─", "│  ") };
            lines.push(format!("{branch} {head}"));
            lines.extend(below.into_iter().map(|line| format!("{indent}{line}")));
        }
        lines
    }
}

/// Height of a node, and of a line of options.
const NODE_HEIGHT: f64 = 40.0;
const LINE: f64 = 14.0;
/// Width of a letter of a node's name and of an option, in a wide font.
const NODE_LETTER: f64 = 9.0;
const OPTION_LETTER: f64 = 7.0;
const MARGIN: f64 = 20.0;
const TITLE: f64 = 30.0;

/// Colours of both themes.
const STYLE: &str = "\
:root{--ink:#1a1a1a;--paper:#fff;--line:#6b7280;--host:#e8f0fe;--other:#f3f4f6}\
@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--paper:#111827;--line:#9ca3af;--host:#1e3a5f;--other:#374151}}\
.paper{fill:var(--paper)}.wire{fill:none;stroke:var(--line);stroke-width:2}\
.node{fill:var(--host);stroke:var(--line);stroke-width:1.5}.other{fill:var(--other)}\
text{fill:var(--ink);font-family:system-ui,sans-serif;font-size:15px;text-anchor:middle}\
.title{font-size:17px;font-weight:600;text-anchor:start}\
.link,.option{font-size:12px}.link{font-weight:600}";

/// The network as a self-contained SVG file that follows the reader's light or dark theme. Columns are distances from
/// one end of the longest path.
pub fn network_svg(network: &Network) -> String {
    let columns = columns(network);
    let letters = |texts: &mut dyn Iterator<Item = &String>, letter: f64| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64 * letter
    };
    let node_width = 24.0
        + letters(&mut network.nodes.iter().flat_map(|(name, kind)| [name, kind]), NODE_LETTER);
    let labels = || network.links.iter().flat_map(|link| link.options.iter().chain([&link.name]));
    let label_width = 30.0 + letters(&mut labels(), OPTION_LETTER);
    let lines = network.links.iter().map(|link| link.options.len() + 1).max().unwrap_or(0) as f64;
    // Links that meet at a node have their labels half a row apart.
    let row = (2.0 * (lines + 0.5) * LINE).max(NODE_HEIGHT + 20.0);
    let column = node_width + label_width;
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0) as f64;
    let top = MARGIN + TITLE;
    let (width, height) = (
        2.0 * MARGIN + node_width + column * columns.len().saturating_sub(1) as f64,
        top + row * rows + MARGIN,
    );
    let mut places = vec![(0.0, 0.0); network.nodes.len()];
    for (number, nodes) in columns.iter().enumerate() {
        for (place, &node) in nodes.iter().enumerate() {
            let above = (rows - nodes.len() as f64) / 2.0 + place as f64;
            places[node] =
                (MARGIN + node_width / 2.0 + column * number as f64, top + row * (above + 0.5));
        }
    }
    let width = width.max(2.0 * MARGIN + NODE_LETTER * network.title.chars().count() as f64);
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="{title}"><style>{STYLE}</style><rect class="paper" width="100%" height="100%"/><text class="title" x="{MARGIN}" y="{MARGIN}" dy=".5em">{title}</text>"#,
        title = escaped(&network.title)
    );
    let mut labels = String::new();
    for (number, link) in network.links.iter().enumerate() {
        let [one, other] = link.between.map(|node| places[node]);
        // Parallel links, and links within a column, bend apart.
        let is_parallel = |other: &&NetworkLink| {
            other.between == link.between || other.between == [link.between[1], link.between[0]]
        };
        let before = network.links[..number].iter().filter(is_parallel).count();
        let bend = match (before, (one.0 - other.0).abs() < 1.0) {
            (0, false) => 0.0,
            (_, false) => row / 2.0 * before as f64,
            (_, true) => (node_width + label_width) / 2.0 * (before + 1) as f64,
        };
        let (across, down) = if (one.0 - other.0).abs() < 1.0 { (bend, 0.0) } else { (0.0, bend) };
        let middle = (one.0.midpoint(other.0) + across, one.1.midpoint(other.1) + down);
        // The curve passes halfway between its ends and its control point.
        let control = (middle.0 + across, middle.1 + down);
        let _ = write!(
            out,
            r#"<path class="wire" d="M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}"/>"#,
            one.0, one.1, control.0, control.1, other.0, other.1
        );
        let texts = std::iter::once(("link", &link.name))
            .chain(link.options.iter().map(|option| ("option", option)));
        let first = middle.1 - LINE * (link.options.len() as f64) / 2.0;
        let longest =
            link.options.iter().chain([&link.name]).map(|text| text.chars().count()).max();
        let width = OPTION_LETTER * longest.unwrap_or(0) as f64;
        let _ = write!(
            labels,
            r#"<rect class="paper" x="{:.1}" y="{:.1}" width="{width:.1}" height="{:.1}"/>"#,
            middle.0 - width / 2.0,
            first - LINE / 2.0,
            LINE * (link.options.len() + 1) as f64
        );
        for (place, (class, text)) in texts.enumerate() {
            let _ = write!(
                labels,
                r#"<text class="{class}" x="{:.1}" y="{:.1}" dy=".35em">{}</text>"#,
                middle.0,
                first + LINE * place as f64,
                escaped(text)
            );
        }
    }
    for ((name, kind), (x, y)) in network.nodes.iter().zip(&places) {
        let (class, corner) = if kind == "host" { ("node", 4) } else { ("node other", 18) };
        let _ = write!(
            out,
            r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{node_width:.1}" height="{NODE_HEIGHT}" rx="{corner}"><title>{}</title></rect><text x="{x:.1}" y="{y:.1}" dy=".35em">{}</text>"#,
            x - node_width / 2.0,
            y - NODE_HEIGHT / 2.0,
            escaped(kind),
            escaped(name)
        );
    }
    out + &labels + "</svg>\n"
}

/// The nodes in columns by their distance, each column ordered by the mean place of its neighbours before it.
fn columns(network: &Network) -> Vec<Vec<usize>> {
    let mut columns: Vec<Vec<usize>> = Vec::new();
    for start in network.starts() {
        for (node, distance) in network.distances(start).into_iter().enumerate() {
            let Some(distance) = distance else { continue };
            if columns.len() <= distance {
                columns.resize(distance + 1, Vec::new());
            }
            columns[distance].push(node);
        }
    }
    for number in 1..columns.len() {
        let (before, rest) = columns.split_at_mut(number);
        let before = &before[number - 1];
        let place = |node: usize| {
            let near = network
                .neighbours(node)
                .filter_map(|(_, other)| before.iter().position(|&known| known == other));
            let (sum, count) = near.fold((0, 0), |(sum, count), place| (sum + place, count + 1));
            f64::from(sum as u32) / f64::from(count.max(1))
        };
        rest[0].sort_by(|&one, &other| place(one).total_cmp(&place(other)));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(nodes: &[(&str, &str)], links: &[(&str, [usize; 2], &[&str])]) -> Network {
        Network {
            title: "lab <test>".to_owned(),
            nodes: nodes.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect(),
            links: links
                .iter()
                .map(|&(name, between, options)| NetworkLink {
                    name: name.to_owned(),
                    between,
                    options: options.iter().map(ToString::to_string).collect(),
                })
                .collect(),
        }
    }

    fn dumbbell() -> Network {
        let host = |name| (name, "host");
        network(
            &[host("c1"), host("c2"), host("s1"), ("left", "router"), ("right", "router")],
            &[
                ("access1", [0, 3], &["rate=1G"]),
                ("access2", [1, 3], &[]),
                ("wan", [3, 4], &["rate=100M", "rtt=20ms"]),
                ("leaf", [4, 2], &[]),
            ],
        )
    }

    #[test]
    fn a_tree_begins_at_an_end_of_the_longest_path() {
        assert_eq!(
            network_text(&dumbbell()),
            "c1\n\
             └─ access1 [rate=1G] ─ left (router)\n   \
                ├─ access2 ─ c2\n   \
                └─ wan [rate=100M rtt=20ms] ─ right (router)\n      \
                   └─ leaf ─ s1\n"
        );
    }

    #[test]
    fn a_ring_ends_above_and_parts_without_a_path_follow_each_other() {
        let ring = network(
            &[("a", "host"), ("b", "host"), ("c", "switch"), ("alone", "host")],
            &[("ab", [0, 1], &[]), ("bc", [1, 2], &[]), ("ca", [2, 0], &[])],
        );
        assert_eq!(
            network_text(&ring),
            "a\n\
             └─ ab ─ b\n   \
                └─ bc ─ c (switch)\n      \
                   └─ ca ─ a (above)\n\
             alone\n"
        );
    }

    #[test]
    fn a_drawing_has_each_node_and_link_once_and_columns_by_distance() {
        let drawn = network_svg(&dumbbell());
        for text in ["lab &lt;test&gt;", ">c1<", ">right<", ">wan<", ">rtt=20ms<"] {
            assert_eq!(
                drawn.matches(text).count(),
                1 + usize::from(text.starts_with("lab")),
                "{text}"
            );
        }
        assert_eq!(columns(&dumbbell()), [vec![0], vec![3], vec![1, 4], vec![2]]);
        assert_eq!(network_text(&Network::default()), "");
        assert!(network_svg(&Network::default()).ends_with("</svg>\n"));
    }
}
