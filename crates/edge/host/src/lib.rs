//! Facts about this machine for records, its network interfaces, checks for conditions that distort measurements, and the resources that
//! a run uses.

pub mod doctor;
mod folder;
pub mod interfaces;
mod programs;
mod quota;
mod stat;
#[expect(unsafe_code, reason = "system calls that no safe crate offers")]
mod sys;
mod usage;

use std::fs;

use fabricmark_record::HostFacts;
use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};

pub use folder::is_own_folder;
pub use programs::{output_within, program};
pub use sys::request;
pub use usage::UsageMeter;

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The value of `key` in text with lines `key<separator>value`.
fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"'))
    })
}

/// A value of /proc/meminfo, which is in KiB, in bytes.
fn memory_bytes(meminfo: &str, key: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, key, ':')?.strip_suffix(" kB")?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Flags of the first CPU in /proc/cpuinfo; `None` if there is no such line.
fn flags(cpuinfo: &str) -> Option<Vec<&str>> {
    Some(field(cpuinfo, "flags", ':')?.split_whitespace().collect())
}

/// The kernel's default of fs.nr_open. Databases take memory for each file that they may open, and some containers allow
/// a thousand times as many.
const FILES_MAX: u64 = 1 << 20;

/// Raises the limit of open files of this process, and of those that it starts, as far as it may. The default of 1024 is
/// for programs that use select(2); an agent needs three files for each coordinator, a lab ten for each link, and a
/// bookstore four for each browser. If it fails, what needs more files fails.
pub fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(FILES_MAX);
    if limit.current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// CPUs in this process's affinity mask.
pub fn cpus() -> Vec<u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect()
}

/// The CPUs, first those near a network device of this namespace: on the NUMA node of its hardware. In the same order if it
/// has none.
pub fn near(device: &str, cpus: &[u32]) -> Vec<u32> {
    let near = read(&format!("/sys/class/net/{device}/device/local_cpulist")).unwrap_or_default();
    near_first(cpus, &near)
}

/// The CPUs, first those of a list such as `0-3,8`.
fn near_first(cpus: &[u32], near: &str) -> Vec<u32> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    let near: Vec<_> = near.split(',').filter_map(range).collect();
    let mut cpus = cpus.to_vec();
    cpus.sort_by_key(|cpu| !near.iter().any(|range| range.contains(cpu)));
    cpus
}

/// The kernel's boot id (random(4)), the same in all namespaces of a machine.
pub fn boot() -> String {
    read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Facts about this machine; a field that cannot be read is empty, 0 or `None`.
pub fn facts() -> HostFacts {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let (meminfo, os) = (read("/proc/meminfo"), read("/etc/os-release").unwrap_or_default());
    HostFacts {
        hostname: read("/proc/sys/kernel/hostname").unwrap_or_default(),
        os: field(&os, "PRETTY_NAME", '=').unwrap_or_default().to_owned(),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        cpu: field(&cpuinfo, "model name", ':').unwrap_or_default().to_owned(),
        cpus: cpus().len() as u32,
        memory_bytes: meminfo.and_then(|text| memory_bytes(&text, "MemTotal")).unwrap_or(0),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        is_virtual: flags(&cpuinfo).is_some_and(|flags| flags.contains(&"hypervisor")),
    }
}

/// Memory limits of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory available to programs without swapping, in bytes (MemAvailable of `/proc/meminfo`, proc(5)).
    pub available_bytes: u64,
    /// Memory limit of all TCP sockets of the machine, in bytes: the third value of `net.ipv4.tcp_mem`, which is
    /// in pages (tcp(7)). Above it TCP drops segments.
    pub tcp_bytes: u64,
}

impl Memory {
    /// Reads the current values; `None` if a file cannot be read or parsed.
    pub fn now() -> Option<Self> {
        let tcp_mem = read("/proc/sys/net/ipv4/tcp_mem")?;
        Self::of(&read("/proc/meminfo")?, &tcp_mem, page_size() as u64)
    }

    /// Parses the text of `/proc/meminfo` and of `/proc/sys/net/ipv4/tcp_mem`.
    pub fn of(meminfo: &str, tcp_mem: &str, page_bytes: u64) -> Option<Self> {
        let available_bytes = memory_bytes(meminfo, "MemAvailable")?;
        let pages: u64 = tcp_mem.split_whitespace().nth(2)?.parse().ok()?;
        Some(Self { available_bytes, tcp_bytes: pages.saturating_mul(page_bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "model : 1\nmodel name : Some CPU\nflags : fpu hypervisor\n";
        assert_eq!(field(text, "model name", ':'), Some("Some CPU"));
        assert_eq!(field(text, "name", ':'), None);
    }

    #[test]
    fn the_processors_of_the_devices_node_come_first() {
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(near_first(&all, "2-3,6-7\n"), [2, 3, 6, 7, 0, 1, 4, 5]);
        assert_eq!(near_first(&all, "5"), [5, 0, 1, 2, 3, 4, 6, 7]);
        assert_eq!((near_first(&all, ""), near_first(&all, "0-7")), (all.clone(), all));
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_processor() {
        let facts = facts();
        assert!(!facts.kernel.is_empty() && facts.cpus > 0 && facts.memory_bytes > 0);
    }

    #[test]
    fn memory_is_read_from_the_texts_of_the_kernel() {
        let meminfo =
            "MemTotal:       24684084 kB\nMemFree:  17603880 kB\nMemAvailable:   22677576 kB\n";
        let memory = Memory::of(meminfo, "287898\t383867\t575796", 4096).unwrap();
        assert_eq!(memory, Memory { available_bytes: 23_221_837_824, tcp_bytes: 2_358_460_416 });
        for (meminfo, tcp_mem) in [("MemFree: 1 kB", "1 2 3"), (meminfo, "1 2"), (meminfo, "a b c")]
        {
            assert_eq!(Memory::of(meminfo, tcp_mem, 4096), None, "{tcp_mem}");
        }
    }

    #[test]
    fn this_machine_has_some() {
        assert!(Memory::now().is_some_and(|memory| memory.available_bytes > 0));
    }
}
