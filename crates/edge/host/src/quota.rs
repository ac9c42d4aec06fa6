//! Time for which the CPU quota of a control group throttled this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::read;

/// Mount points of control groups (cgroups(7)): version 2, version 2 beside 1, and controller `cpu` of version 1.
const MOUNTS: [(&str, &str); 4] = [
    ("", "/sys/fs/cgroup"),
    ("", "/sys/fs/cgroup/unified"),
    ("cpu", "/sys/fs/cgroup/cpu"),
    ("cpu", "/sys/fs/cgroup/cpu,cpuacct"),
];

/// For each of this process's control groups and their ancestors, by file: the time for which it was out of quota
/// (`cpu.max`; in version 1 `cpu.cfs_quota_us`) since the group was created.
pub(crate) type Throttled = BTreeMap<PathBuf, u64>;

/// Reads the counters; none if no group has one.
pub(crate) fn throttled() -> Throttled {
    read("/proc/self/cgroup").map(|groups| throttled_of(&groups, read)).unwrap_or_default()
}

/// The longest time for which a group was out of quota between two readings; `None` if no group has a counter.
pub(crate) fn throttled_ns(before: &Throttled, now: &Throttled) -> Option<u64> {
    let more = now.iter().map(|(file, ns)| ns.saturating_sub(*before.get(file).unwrap_or(ns)));
    more.max()
}

/// As [`throttled`], from the text of /proc/self/cgroup and a function that reads files.
fn throttled_of(groups: &str, read: impl Fn(&str) -> Option<String>) -> Throttled {
    let lines = groups.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        line.split_once(':')
    });
    let of_group = |(controllers, group): (&str, &str)| {
        let is_of = |mount: &&(&str, &str)| controllers.split(',').any(|name| name == mount.0);
        let folders = MOUNTS.iter().filter(is_of).flat_map(|(_, mount)| {
            let around = Path::new(group.trim_start_matches('/')).ancestors();
            around.map(|group| Path::new(mount).join(group).join("cpu.stat")).collect::<Vec<_>>()
        });
        let waited = folders.filter_map(|file| {
            let ns = waited_ns(&read(file.to_str()?)?)?;
            Some((file, ns))
        });
        waited.collect::<Vec<_>>()
    };
    lines.flat_map(of_group).collect()
}

/// `throttled_usec` in version 2; `throttled_time` in version 1, in nanoseconds.
fn waited_ns(stat: &str) -> Option<u64> {
    let value = |key| crate::field(stat, key, ' ')?.parse::<u64>().ok();
    value("throttled_usec").map(|us| us.saturating_mul(1_000)).or_else(|| value("throttled_time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_waited_longest_since_then_counts_of_both_versions() {
        let throttled = |groups: &str, own_us: u64| {
            throttled_of(groups, |file| {
                Some(match file {
                    "/sys/fs/cgroup/a/b/cpu.stat" => {
                        format!("usage_usec 9\nnr_throttled 2\nthrottled_usec {own_us}")
                    }
                    "/sys/fs/cgroup/a/cpu.stat" => "nr_throttled 3\nthrottled_usec 900".to_owned(),
                    "/sys/fs/cgroup/cpu/c/cpu.stat" => {
                        format!("nr_periods 1\nthrottled_time {}", 2_000 * own_us)
                    }
                    _ => return None,
                })
            })
        };
        let since = |groups: &str| throttled_ns(&throttled(groups, 7), &throttled(groups, 9));
        // The parent was out of quota for longer, but before.
        assert_eq!(since("0::/a/b\n"), Some(2_000));
        assert_eq!(since("3:cpu,cpuacct:/c\n0::/a/b\n"), Some(4_000));
        assert_eq!(since("0::/d\n"), None);
    }
}
