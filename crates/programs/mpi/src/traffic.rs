//! Counters of what the devices of a host have sent: evidence of the transport that MPI really used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes sent by each device of this host so far, RDMA devices apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<(bool, String), u64>);

/// Bytes per packet of an RDMA device that counts only packets: the smallest path MTU (IBTA volume 1, section 9.7).
const PACKET_MIN: u64 = 256;

impl Counters {
    /// Reads the counters of the network namespace of this process, and of the RDMA devices that it sees.
    fn read() -> Self {
        let mut all = BTreeMap::new();
        for (device, bytes) in sent(&fs::read_to_string("/proc/self/net/dev").unwrap_or_default()) {
            all.insert((false, device), bytes);
        }
        for (device, bytes) in rdma(Path::new(DEVICES)) {
            all.insert((true, device), bytes);
        }
        Self(all)
    }

    /// What was sent since an earlier reading: device, whether it is an RDMA device, and bytes. Devices that sent
    /// nothing are left out.
    pub fn since(&self, earlier: &Self) -> Vec<(String, bool, u64)> {
        let sent = |(key, bytes): (&(bool, String), &u64)| {
            let before = earlier.0.get(key).copied().unwrap_or(0);
            let more = bytes.saturating_sub(before);
            (more > 0).then(|| (key.1.clone(), key.0, more))
        };
        self.0.iter().filter_map(sent).collect()
    }
}

/// Reads counters often enough apart.
#[derive(Debug)]
pub struct Meter {
    /// For how long the kernel returns the same numbers again.
    lifespan: Duration,
    last: Option<Instant>,
}

/// A jiffy at the lowest common tick rate (CONFIG_HZ=100), in which the kernel counts the lifespan.
const JIFFY: Duration = Duration::from_millis(10);

impl Meter {
    /// A meter for the devices of this host.
    pub fn new() -> Self {
        let lifespan = lifespan(Path::new(DEVICES)).map(|lifespan| lifespan + JIFFY);
        Self { lifespan: lifespan.unwrap_or_default(), last: None }
    }

    /// The counters as they were at the last reading, or later.
    pub fn before(&mut self) -> Counters {
        let counters = Counters::read();
        self.last = Some(Instant::now());
        counters
    }

    /// The counters as they are now: waits until the kernel no longer returns the numbers of an earlier reading.
    pub fn now(&mut self) -> Counters {
        let since = self.last.map_or(self.lifespan, |last| last.elapsed());
        thread::sleep(self.lifespan.saturating_sub(since));
        self.before()
    }
}

/// Where the kernel lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// For how long the counters of a driver are not read again after a reading (`lifespan` in milliseconds, Linux
/// drivers/infiniband/core/sysfs.c), at most.
fn lifespan(devices: &Path) -> Option<Duration> {
    let of_port = |port: &Path| {
        let text = fs::read_to_string(port.join("hw_counters/lifespan")).ok()?;
        Some(Duration::from_millis(text.trim().parse().ok()?))
    };
    ports(devices).iter().filter_map(|(_, port)| of_port(port)).max()
}

/// Ports of the RDMA devices: name, such as `rxe0/1`, and folder.
fn ports(devices: &Path) -> Vec<(String, PathBuf)> {
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let mut all = Vec::new();
    for device in names(devices) {
        let folder = devices.join(&device).join("ports");
        all.extend(
            names(&folder).iter().map(|port| (format!("{device}/{port}"), folder.join(port))),
        );
    }
    all
}

/// RDMA ports of this host with the kinds of their addresses (InfiniBand, RoCE v1 or v2) and their network devices.
pub fn rdma_ports() -> Vec<String> {
    kinds(Path::new(DEVICES))
}

fn kinds(devices: &Path) -> Vec<String> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(path).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let of_port = |(name, folder): (String, PathBuf)| {
        // Unused entries of the table of addresses cannot be read.
        let indexes = 0..ADDRESSES_MAX;
        let kinds = indexes.filter_map(|index| {
            let kind = read(folder.join(format!("gid_attrs/types/{index}")))?;
            Some(match read(folder.join(format!("gid_attrs/ndevs/{index}"))) {
                Some(device) => format!("{kind} on {device}"),
                None => kind,
            })
        });
        let kinds: BTreeSet<String> = kinds.collect();
        format!("{name}: {}", kinds.into_iter().collect::<Vec<_>>().join(", "))
    };
    ports(devices).into_iter().map(of_port).collect()
}

/// Number of addresses of a port that are looked at.
const ADDRESSES_MAX: u32 = 16;

/// Whether an RDMA port, such as `mlx5_0/1`, is InfiniBand, so that its counter includes IP over InfiniBand.
pub fn is_infiniband(name: &str) -> bool {
    let is_it = |(port, folder): &(String, PathBuf)| {
        let layer = fs::read_to_string(folder.join("link_layer")).unwrap_or_default();
        port == name && layer.trim() == "InfiniBand"
    };
    ports(Path::new(DEVICES)).iter().any(is_it)
}

/// Devices and sent bytes of `/proc/net/dev` (proc(5)): nine columns of the receiver come before them.
fn sent(text: &str) -> impl Iterator<Item = (String, u64)> {
    text.lines().skip(2).filter_map(|line| {
        let (device, counts) = line.split_once(':')?;
        let bytes = counts.split_whitespace().nth(8)?.parse().ok()?;
        Some((device.trim().to_owned(), bytes))
    })
}

/// Ports of the RDMA devices and the bytes that they sent: in units of four bytes (IBTA volume 1, PortXmitData), or
/// counted in packets by drivers without hardware (`sent_pkts` of rxe).
fn rdma(devices: &Path) -> Vec<(String, u64)> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let sent = |folder: &Path| {
        let words = number(&folder.join("counters/port_xmit_data")).filter(|&words| words > 0);
        let packets = number(&folder.join("hw_counters/sent_pkts"));
        words.map(|words| 4 * words).or(packets.map(|packets| packets * PACKET_MIN))
    };
    let of_port = |(name, folder): (String, PathBuf)| Some((name, sent(&folder)?));
    ports(devices).into_iter().filter_map(of_port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_are_the_ninth_number_of_a_device() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n    \
                    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n  eth0:7 1 0 0 0 0 0 0 4200 3 0 0 0 0 0 0\n";
        let devices: Vec<(String, u64)> = sent(text).collect();
        assert_eq!(devices, [("lo".to_owned(), 100), ("eth0".to_owned(), 4200)]);
    }

    #[test]
    fn devices_that_sent_nothing_are_no_traffic() {
        let at = |lo, eth| {
            Counters(BTreeMap::from([
                ((false, "lo".to_owned()), lo),
                ((false, "eth0".to_owned()), eth),
            ]))
        };
        assert_eq!(at(5, 30).since(&at(5, 10)), [("eth0".to_owned(), false, 20)]);
    }

    #[test]
    fn rdma_devices_count_words_or_packets() {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("mlx5_0/ports/1/counters/port_xmit_data", "25\n"),
            ("rxe0/ports/1/hw_counters/sent_pkts", "3\n"),
            ("rxe0/ports/1/hw_counters/lifespan", "10\n"),
            ("rxe0/ports/1/gid_attrs/types/0", "RoCE v2\n"),
            ("rxe0/ports/1/gid_attrs/ndevs/0", "v0\n"),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut found = rdma(folder.path());
        found.sort();
        assert_eq!(found, [("mlx5_0/1".to_owned(), 100), ("rxe0/1".to_owned(), 768)]);
        let kinds = kinds(folder.path());
        assert!(kinds.contains(&"rxe0/1: RoCE v2 on v0".to_owned()), "{kinds:?}");
        assert_eq!(lifespan(folder.path()), Some(Duration::from_millis(10)));
    }
}
