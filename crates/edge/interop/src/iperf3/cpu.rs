//! CPU time of the threads of a test.

use std::{array, fs};

use fabricmark_telemetry::clock::thread_cpu_ns;

/// CPU time of a thread: total in nanoseconds, then user and system time in ticks (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu([u64; 3]);

impl Cpu {
    /// CPU time of the calling thread so far.
    pub fn of_this_thread() -> Self {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let [user, system] = ticks(&stat).unwrap_or_default();
        Self([thread_cpu_ns(), user, system])
    }

    /// Adds the time of another thread.
    pub fn and(self, other: Self) -> Self {
        Self(array::from_fn(|part| self.0[part] + other.0[part]))
    }

    /// Time used since an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self(array::from_fn(|part| self.0[part].saturating_sub(earlier.0[part])))
    }

    /// Percent of `elapsed_ns`: total, user, system. The ticks are coarse, so they only give the ratio of user to
    /// system time.
    pub fn percent(self, elapsed_ns: u64) -> [f64; 3] {
        let [total_ns, user, system] = self.0;
        let total = 100.0 * total_ns as f64 / elapsed_ns.max(1) as f64;
        let share = user as f64 / (user + system).max(1) as f64;
        [total, total * share, total * (1.0 - share)]
    }
}

/// The fields `utime` and `stime`. They are found after the last parenthesis, because the name may contain anything.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(str::parse);
    Some([fields.next()?.ok()?, fields.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 95 0 0 0 31 42 0 0 20 0 1 0 9 1 2 3";
        assert_eq!(ticks(stat), Some([31, 42]));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn the_parts_make_up_the_whole() {
        let cpu = Cpu([500_000_000, 1, 3]);
        assert_eq!(cpu.percent(1_000_000_000), [50.0, 12.5, 37.5]);
    }
}
