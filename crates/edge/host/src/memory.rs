//! Memory that is left, and what TCP may have of it.

use rustix::param::page_size;

use crate::{memory_bytes, read};

/// Memory of this machine as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What programs may still have without swapping, in bytes (MemAvailable of `/proc/meminfo`, proc(5)).
    pub available_bytes: u64,
    /// What all TCP sockets of the machine may have queued, in bytes: the third of `net.ipv4.tcp_mem`,
    /// which counts pages (tcp(7)). Beyond it TCP drops.
    pub tcp_bytes: u64,
}

impl Memory {
    /// That of this machine now; nothing where the kernel does not tell.
    pub fn now() -> Option<Self> {
        let tcp_mem = read("/proc/sys/net/ipv4/tcp_mem")?;
        Self::of(&read("/proc/meminfo")?, &tcp_mem, page_size() as u64)
    }

    /// From the text of `/proc/meminfo` and of `/proc/sys/net/ipv4/tcp_mem`.
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
