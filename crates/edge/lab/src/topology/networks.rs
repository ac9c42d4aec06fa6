//! Which links form one network, and the numbers of hosts in it.

use std::collections::BTreeMap;

use super::{Junction, Wire};

/// Largest number of addresses in a network: those of a /24 without network and broadcast address.
const HOSTS_MAX: usize = 254;

/// Networks of a lab: a link between two nodes is a network; links that meet at switches and hubs form one together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks {
    /// Number of the network of each link: that of the first link in it.
    of_link: Vec<usize>,
    /// Number of the host at each end of each link in its network; 0 at a switch or a hub.
    hosts: Vec<[u8; 2]>,
}

impl Networks {
    pub fn of(links: &[Wire], junctions: &BTreeMap<String, Junction>) -> Result<Self, String> {
        let mut of_link: Vec<usize> = (0..links.len()).collect();
        let mut of_junction: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, link) in links.iter().enumerate() {
            let junctions = link.between.iter().filter(|name| junctions.contains_key(*name));
            let known = junctions.clone().map(|name| of_junction.get(name.as_str()).copied());
            if let [Some(one), Some(other)] = known.collect::<Vec<_>>()[..]
                && one == other
            {
                return Err(format!(
                    "link `{}` creates a loop of switches and hubs: leave it out",
                    link.name
                ));
            }
            for name in junctions {
                let here = of_link[place];
                let there = *of_junction.entry(name).or_insert(here);
                let (first, second) = (here.min(there), here.max(there));
                let all = of_link.iter_mut().chain(of_junction.values_mut());
                all.filter(|network| **network == second).for_each(|network| *network = first);
            }
        }
        let mut counts = BTreeMap::new();
        let mut hosts = Vec::new();
        for (link, network) in links.iter().zip(&of_link) {
            let mut numbers = [0; 2];
            for (number, name) in numbers.iter_mut().zip(&link.between) {
                if junctions.contains_key(name) {
                    continue;
                }
                let count = counts.entry(*network).or_insert(0);
                *count += 1;
                *number = u8::try_from(*count).unwrap_or(u8::MAX);
            }
            hosts.push(numbers);
        }
        match counts.into_iter().find(|(_, count)| *count > HOSTS_MAX) {
            Some((network, nodes)) => Err(format!(
                "the network of link `{}` has {nodes} ends: use at most {HOSTS_MAX}",
                links[network].name
            )),
            None => Ok(Self { of_link, hosts }),
        }
    }

    /// Number of the network of a link.
    pub fn of_link(&self, link: usize) -> usize {
        self.of_link[link]
    }

    /// Number of the host in its network; 0 if the end is at a switch or a hub.
    pub fn host(&self, link: usize, end: usize) -> u8 {
        self.hosts[link][end]
    }

    /// Ends at hosts and routers of a network, in the order of their addresses.
    pub fn ends(&self, network: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let links = (0..self.of_link.len()).filter(move |&link| self.of_link[link] == network);
        let ends = links.flat_map(|link| [(link, 0), (link, 1)]);
        ends.filter(|&(link, end)| self.hosts[link][end] > 0)
    }
}
