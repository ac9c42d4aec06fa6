//! Ways through a lab: from each node to each link, by the fewest links.

use std::collections::{BTreeSet, VecDeque};

use crate::topology::Topology;

/// The first step of a way: the link to take, and the end of it at which the next node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The link whose addresses are to be reached.
    pub(crate) target: usize,
    /// The link by which one leaves.
    pub(crate) by: usize,
    /// The end of that link at which the next node is.
    pub(crate) end: usize,
}

/// The routes of a node: to all links that it can reach and is not attached to. Only routers forward.
/// Of ways with equally many links it takes that over the first link by name.
pub(crate) fn routes(topology: &Topology, node: &str) -> Vec<Step> {
    let mut reached: BTreeSet<usize> = topology.ends(node).map(|(link, _)| link).collect();
    let mut seen = BTreeSet::from([node]);
    let mut steps = Vec::new();
    // A node to go on from, and the step by which it was reached.
    let mut next: VecDeque<(&str, Option<(usize, usize)>)> = VecDeque::from([(node, None)]);
    while let Some((here, first)) = next.pop_front() {
        for (link, end) in topology.ends(here) {
            if let Some((by, end)) = first
                && reached.insert(link)
            {
                steps.push(Step { target: link, by, end });
            }
            let other = topology.links[link].between[1 - end].as_str();
            if topology.nodes[other].is_router && seen.insert(other) {
                next.push_back((other, first.or(Some((link, 1 - end)))));
            }
        }
    }
    steps.sort_by_key(|step| step.target);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(target: usize, by: usize, end: usize) -> Step {
        Step { target, by, end }
    }

    #[test]
    fn a_chain_of_routers_is_crossed_link_by_link() {
        let text = "[hosts.a]\n[hosts.b]\n[routers.r]\n[routers.s]\n\
                    [links.l0]\nbetween = ['a', 'r']\n[links.l1]\nbetween = ['s', 'r']\n\
                    [links.l2]\nbetween = ['s', 'b']\n";
        let topology = Topology::parse(text).unwrap();
        assert_eq!(routes(&topology, "a"), [step(1, 0, 1), step(2, 0, 1)]);
        assert_eq!(routes(&topology, "r"), [step(2, 1, 0)]);
        assert_eq!(routes(&topology, "b"), [step(0, 2, 0), step(1, 2, 0)]);
    }

    #[test]
    fn hosts_do_not_forward_and_the_shortest_way_wins() {
        // A triangle of routers, and a host between two of them.
        let text = "[routers.a]\n[routers.b]\n[routers.c]\n[hosts.h]\n[hosts.x]\n\
                    [links.ab]\nbetween = ['a', 'b']\n[links.bc]\nbetween = ['b', 'c']\n\
                    [links.ca]\nbetween = ['c', 'a']\n[links.hx]\nbetween = ['h', 'x']\n\
                    [links.ah]\nbetween = ['a', 'h']\n";
        let topology = Topology::parse(text).unwrap();
        let names = |steps: Vec<Step>| -> Vec<_> {
            let name = |link: usize| topology.links[link].name.as_str();
            steps.iter().map(|step| (name(step.target), name(step.by))).collect()
        };
        assert_eq!(names(routes(&topology, "a")), [("bc", "ab")]);
        assert_eq!(names(routes(&topology, "c")), [("ab", "bc"), ("ah", "ca")]);
        assert_eq!(names(routes(&topology, "x")), []);
    }
}
