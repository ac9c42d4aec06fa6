//! Counters of what the devices of a host have sent: evidence of the transport that MPI really used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_record::Traffic;

/// Bytes sent by each device of this host so far. The index of the host is set by rank 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(Vec<Traffic>);

/// Bytes per packet of an RDMA device that counts only packets: the smallest path MTU (IBTA volume 1, section 9.7).
const PACKET_MIN: u64 = 256;

impl Counters {
    /// Reads the counters of the network namespace of this process, and of the RDMA devices that it sees.
    fn read() -> Self {
        let mut all = sent(&fs::read_to_string("/proc/self/net/dev").unwrap_or_default());
        all.extend(rdma(Path::new(DEVICES)));
        Self(all)
    }

    /// What was sent since an earlier reading. Devices that sent nothing are left out.
    pub fn since(&self, earlier: &Self) -> Vec<Traffic> {
        let more = |now: &Traffic| {
            let before = earlier.0.iter().find(|before| before.is_device_of(now));
            let bytes = now.bytes.saturating_sub(before.map_or(0, |before| before.bytes));
            (bytes > 0).then(|| Traffic { bytes, ..now.clone() })
        };
        self.0.iter().filter_map(more).collect()
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

/// Devices and sent bytes of `/proc/net/dev` (proc(5)): eight numbers of the receiver come before that of the sender.
fn sent(text: &str) -> Vec<Traffic> {
    let of_line = |line: &str| {
        let (device, counts) = line.split_once(':')?;
        let bytes = counts.split_whitespace().nth(8)?.parse().ok()?;
        let device = device.trim().to_owned();
        Some(Traffic { host: 0, device, is_rdma: false, has_ip: false, bytes })
    };
    text.lines().skip(2).filter_map(of_line).collect()
}

/// Ports of the RDMA devices and the bytes that they sent: in units of four bytes (IBTA volume 1, PortXmitData), or
/// counted in packets by drivers without hardware (`sent_pkts` of rxe).
fn rdma(devices: &Path) -> Vec<Traffic> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let of_port = |(device, folder): (String, PathBuf)| {
        let words = number(&folder.join("counters/port_xmit_data")).filter(|&words| words > 0);
        let packets = number(&folder.join("hw_counters/sent_pkts"));
        let bytes = words.map(|words| 4 * words).or(packets.map(|packets| packets * PACKET_MIN))?;
        let layer = fs::read_to_string(folder.join("link_layer")).unwrap_or_default();
        let has_ip = layer.trim() == "InfiniBand";
        Some(Traffic { host: 0, device, is_rdma: true, has_ip, bytes })
    };
    ports(devices).into_iter().filter_map(of_port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_device(device: &str, bytes: u64) -> Traffic {
        let device = device.to_owned();
        Traffic { host: 0, device, is_rdma: false, has_ip: false, bytes }
    }

    #[test]
    fn sent_bytes_are_the_ninth_number_of_a_device() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n    \
                    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n  eth0:7 1 0 0 0 0 0 0 4200 3 0 0 0 0 0 0\n";
        assert_eq!(sent(text), [of_device("lo", 100), of_device("eth0", 4200)]);
    }

    #[test]
    fn devices_that_sent_nothing_are_no_traffic() {
        let at = |lo, eth| Counters(vec![of_device("lo", lo), of_device("eth0", eth)]);
        assert_eq!(at(5, 30).since(&at(5, 10)), [of_device("eth0", 20)]);
    }

    #[test]
    fn rdma_devices_count_words_or_packets() {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("mlx5_0/ports/1/counters/port_xmit_data", "25\n"),
            ("mlx5_0/ports/1/link_layer", "InfiniBand\n"),
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
        found.sort_by(|a, b| a.device.cmp(&b.device));
        let port = |device: &str, has_ip, bytes| Traffic {
            is_rdma: true,
            has_ip,
            ..of_device(device, bytes)
        };
        assert_eq!(found, [port("mlx5_0/1", true, 100), port("rxe0/1", false, 768)]);
        let kinds = kinds(folder.path());
        assert!(kinds.contains(&"rxe0/1: RoCE v2 on v0".to_owned()), "{kinds:?}");
        assert_eq!(lifespan(folder.path()), Some(Duration::from_millis(10)));
    }
}
