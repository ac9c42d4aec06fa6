//! Processor time of the threads of a test.

use std::{array, fs};

use rustix::time::{ClockId, clock_gettime};

/// Processor time that a thread has used: nanoseconds in all, and, in the ticks of proc_pid_stat(5), in the
/// program and in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu([u64; 3]);

impl Cpu {
    /// That of the calling thread up to now.
    pub fn of_this_thread() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let total_ns = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let [user, system] = ticks(&stat).unwrap_or_default();
        Self([total_ns, user, system])
    }

    /// Together with that of another thread.
    pub fn and(self, other: Self) -> Self {
        Self(array::from_fn(|part| self.0[part] + other.0[part]))
    }

    /// What was used since an earlier time.
    pub fn since(self, earlier: Self) -> Self {
        Self(array::from_fn(|part| self.0[part].saturating_sub(earlier.0[part])))
    }

    /// Percent of so much time: in all, in the program, in the kernel. The ticks are too coarse to be
    /// more than the proportion of the two.
    pub fn percent(self, elapsed_ns: u64) -> [f64; 3] {
        let [total_ns, user, system] = self.0;
        let total = 100.0 * total_ns as f64 / elapsed_ns.max(1) as f64;
        let share = user as f64 / (user + system).max(1) as f64;
        [total, total * share, total * (1.0 - share)]
    }
}

/// The fields `utime` and `stime`; the name before them may hold anything but ends with a parenthesis.
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
