//! Processor time of the threads of a test.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that a thread has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    total_ns: u64,
    /// In the ticks of proc_pid_stat(5): in the program, in the kernel.
    ticks: [u64; 2],
}

impl Cpu {
    /// That of the calling thread up to now.
    pub fn of_this_thread() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        Self {
            total_ns: time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs(),
            ticks: ticks(&stat).unwrap_or_default(),
        }
    }

    /// Together with that of another thread.
    pub fn and(self, other: Self) -> Self {
        let [user, system] = self.ticks;
        Self {
            total_ns: self.total_ns + other.total_ns,
            ticks: [user + other.ticks[0], system + other.ticks[1]],
        }
    }

    /// What was used since an earlier time.
    pub fn since(self, earlier: Self) -> Self {
        let [user, system] = self.ticks;
        let [user_then, system_then] = earlier.ticks;
        Self {
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            ticks: [user.saturating_sub(user_then), system.saturating_sub(system_then)],
        }
    }

    /// Percent of so much time: in all, in the program, in the kernel. The ticks are too coarse to be
    /// more than the proportion of the two.
    pub fn percent(self, elapsed_ns: u64) -> [f64; 3] {
        let total = 100.0 * self.total_ns as f64 / elapsed_ns.max(1) as f64;
        let [user, system] = self.ticks;
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
        let cpu = Cpu { total_ns: 500_000_000, ticks: [1, 3] };
        assert_eq!(cpu.percent(1_000_000_000), [50.0, 12.5, 37.5]);
    }
}
