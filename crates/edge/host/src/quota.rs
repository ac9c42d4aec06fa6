//! Time for which the CPU quota of a control group throttled this process.

use std::path::Path;

use crate::read;

/// Mount points of control groups (cgroups(7)): version 2, version 2 beside 1, and controller `cpu` of version 1.
const MOUNTS: [(&str, &str); 4] = [
    ("", "/sys/fs/cgroup"),
    ("", "/sys/fs/cgroup/unified"),
    ("cpu", "/sys/fs/cgroup/cpu"),
    ("cpu", "/sys/fs/cgroup/cpu,cpuacct"),
];

/// Time for which this process's control group or an ancestor was out of quota (`cpu.max`; in version 1
/// `cpu.cfs_quota_us`) since the group was created. `None` if no group has such a counter.
pub(crate) fn throttled_ns() -> Option<u64> {
    throttled(&read("/proc/self/cgroup")?, read)
}

/// As [`throttled_ns`], from the text of /proc/self/cgroup and a function that reads files.
fn throttled(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
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
        let waited = folders.filter_map(|file| waited_ns(&read(file.to_str()?)?));
        waited.max()
    };
    lines.filter_map(of_group).max()
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
    fn the_group_that_waited_longest_counts_of_both_versions() {
        let files = |file: &str| {
            let text = match file {
                "/sys/fs/cgroup/a/b/cpu.stat" => "usage_usec 9\nnr_throttled 2\nthrottled_usec 7",
                "/sys/fs/cgroup/a/cpu.stat" => "usage_usec 9\nnr_throttled 3\nthrottled_usec 8",
                "/sys/fs/cgroup/cpu/c/cpu.stat" => "nr_periods 1\nthrottled_time 9000",
                _ => return None,
            };
            Some(text.to_owned())
        };
        assert_eq!(throttled("0::/a/b\n", files), Some(8_000));
        assert_eq!(throttled("3:cpu,cpuacct:/c\n0::/a/b\n", files), Some(9_000));
        assert_eq!(throttled("0::/d\n", files), None);
    }
}
