//! Facts about the ranks and their hosts, which rank 0 gathers, and whether the hosts have the memory for a job.

use std::collections::BTreeSet;
use std::fs;

use fabricmark_plan::{Benchmark, Collective};
use fabricmark_record::{HostFacts, MpiFacts, MpiJob, RankPlace};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::job::{JobError, call};
use crate::sys::{Call, World};
use crate::traffic;

/// Room for the facts of a rank, in JSON.
const FACTS_MAX: usize = 8192;

/// Facts about a rank, which it sends to rank 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RankFacts {
    /// Equal for ranks that read the same clock.
    clock: String,
    /// Network namespace: ranks of one host with the same one see the same counters.
    network: String,
    host: HostFacts,
    rdma: Vec<String>,
    cpus: String,
}

impl RankFacts {
    fn own() -> Self {
        let network = fs::read_link("/proc/self/ns/net").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Self {
            clock: clock::identity(),
            network: network.display().to_string(),
            host: HostFacts { cpus: all_cpus(), ..fabricmark_host::facts() },
            rdma: traffic::rdma_ports(),
            cpus: cpus.unwrap_or_default().trim().to_owned(),
        }
    }

    fn is_on_host_of(&self, other: &Self) -> bool {
        (&self.clock, &self.network) == (&other.clock, &other.network)
    }
}

/// What a rank needs to know about the hosts.
pub struct Hosts {
    /// Whether this rank counts the traffic of its host.
    pub counts_traffic: bool,
    /// At rank 0: which ranks read its clock.
    pub has_clock_of_0: Vec<bool>,
    /// At rank 0: index of the host of each rank.
    pub host_of: Vec<u32>,
}

/// Gathers the facts of all ranks at rank 0, which tells each whether it counts the traffic of its host.
pub fn gather(world: &World) -> Result<(Option<MpiFacts>, Hosts), JobError> {
    let ranks = world.ranks() as usize;
    let mut own = RankFacts::own();
    let mut text = serde_json::to_vec(&own).unwrap_or_default();
    if text.len() > FACTS_MAX {
        // A host may have hundreds of virtual functions.
        own.rdma.clear();
        text = serde_json::to_vec(&own).unwrap_or_default();
    }
    text.resize(FACTS_MAX, b' ');
    let mut all = vec![0; ranks * FACTS_MAX];
    world.of_all(&call(Collective::Gather, FACTS_MAX), &text, &mut all)?;
    let mut counts = [0];
    if world.rank() > 0 {
        let unused = vec![0; ranks];
        world.of_all(&call(Collective::Scatter, 1), &unused, &mut counts)?;
        let (has_clock_of_0, host_of) = (Vec::new(), Vec::new());
        let hosts = Hosts { counts_traffic: counts[0] == 1, has_clock_of_0, host_of };
        return Ok((None, hosts));
    }
    let mut hosts: Vec<RankFacts> = Vec::new();
    let mut places = Vec::new();
    let mut first_of_host = Vec::new();
    for text in all.chunks(FACTS_MAX) {
        let facts: RankFacts =
            serde_json::from_slice(text).map_err(|error| JobError::Message(error.to_string()))?;
        let known = hosts.iter().position(|host| host.is_on_host_of(&facts));
        first_of_host.push(u8::from(known.is_none()));
        let host = known.unwrap_or(hosts.len());
        places
            .push((RankPlace { host: host as u32, cpus: facts.cpus.clone() }, facts.clock.clone()));
        if known.is_none() {
            hosts.push(facts);
        }
    }
    world.of_all(&call(Collective::Scatter, 1), &first_of_host, &mut counts)?;
    let has_clock_of_0 = places.iter().map(|(_, clock)| *clock == own.clock).collect();
    let host_of = places.iter().map(|(place, _)| place.host).collect();
    let (library, standard) = world.library()?;
    let rdma: BTreeSet<&String> = hosts.iter().flat_map(|facts| &facts.rdma).collect();
    let facts = MpiFacts {
        library,
        standard,
        rdma: rdma.into_iter().cloned().collect(),
        hosts: hosts.into_iter().map(|facts| facts.host).collect(),
        ranks: places.into_iter().map(|(place, _)| place).collect(),
        clock: fabricmark_telemetry::clock::facts(),
        clock_error_ns: 0,
    };
    Ok((Some(facts), Hosts { counts_traffic: counts[0] == 1, has_clock_of_0, host_of }))
}

/// CPUs of this machine, which a rank may not use if it is bound to one.
fn all_cpus() -> u32 {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().filter(|line| line.starts_with("processor")).count() as u32
}

/// Bytes of the largest cache of the first CPU, twice, so that nothing of it remains; 64 MiB if unknown.
pub fn cache_bytes() -> usize {
    let folders =
        fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten().flatten();
    let sizes = folders.filter_map(|folder| {
        let text = fs::read_to_string(folder.path().join("size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok()
    });
    sizes.max().map_or(64 << 20, |kib| (2 * kib) << 10)
}

/// Rejects a job whose buffers exceed the memory of a host. Verification has a copy of both buffers, and the expected one.
pub fn check_memory(job: &MpiJob, facts: &MpiFacts) -> Result<(), JobError> {
    const COPIES: u64 = 3;
    for point in &job.points {
        let payload = point.payload.0 as usize;
        let collective = point.benchmark.and_then(Benchmark::collective);
        let rooms = match collective {
            Some(collective) => Call::room(collective, payload, point.ranks() as usize),
            None => [payload, 2 * payload],
        };
        let bytes = COPIES * rooms.iter().map(|&room| room as u64).sum::<u64>();
        for (number, host) in facts.hosts.iter().enumerate() {
            let ranks = facts.ranks.iter().take(point.ranks() as usize);
            let here = ranks.filter(|place| place.host as usize == number).count() as u64;
            let needed = here.saturating_mul(bytes);
            if needed > host.memory_bytes && host.memory_bytes > 0 {
                return Err(JobError::Input(format!(
                    "{} of {payload} bytes with {} ranks needs up to {} MB of memory on {}, which \
                     has {} MB; use smaller payloads or fewer ranks per host",
                    point.benchmark.map_or("", |benchmark| benchmark.word()),
                    point.ranks(),
                    needed / 1_000_000,
                    host.hostname,
                    host.memory_bytes / 1_000_000
                )));
            }
        }
    }
    Ok(())
}
