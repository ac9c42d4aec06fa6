//! Times of processors and processes as the kernel counts them, in ticks.

/// Ticks that processors spent since boot, from a line of /proc/stat (proc_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTimes {
    /// Running programs and the kernel, interrupts included.
    pub busy: u64,
    /// Ready to run, but the host ran somebody else.
    pub stolen: u64,
}

impl CpuTimes {
    /// All processors together, from the text of /proc/stat.
    pub fn of_all(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guest time is inside user and nice.
        let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = ticks[..] else {
            return None;
        };
        let busy = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
        Some(Self { busy: busy.min(u64::MAX / 2), stolen: stolen.min(u64::MAX / 2) })
    }
}

/// Processors that /proc/stat has lines of: those that are online.
pub(super) fn cpus_online(stat: &str) -> usize {
    let names = stat.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("cpu"));
    names.filter(|number| number.parse::<u32>().is_ok()).count()
}

/// A process as /proc/PID/stat shows it (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
    /// Ticks on processors since it began.
    pub ticks: u64,
}

impl Process {
    /// `pid (name) state ppid ...`; the name may itself hold parentheses and spaces.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, fields) = text.rsplit_once(')')?;
        let (pid, name) = head.split_once(" (")?;
        // utime and stime are fields 14 and 15, and the state behind the name is field 3.
        let mut fields = fields.split_whitespace().skip(14 - 3);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let pid = pid.parse().ok()?;
        Some(Self { pid, name: name.to_owned(), ticks: user.saturating_add(system) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_by_place() {
        let text = "cpu  1 2 3 1000 2000 4 5 6 0 0\ncpu0 1 2 3\ncpu1 0 0 0\nintr 9\n";
        assert_eq!(CpuTimes::of_all(text), Some(CpuTimes { busy: 15, stolen: 6 }));
        assert_eq!(cpus_online(text), 2);
        assert_eq!(CpuTimes::of_all("cpu  1 2 3"), None);
    }

    #[test]
    fn a_process_may_have_parentheses_in_its_name() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 7 3 0 0 20 0 1 0 5";
        let expected = Process { pid: 42, name: "a) b (c".to_owned(), ticks: 10 };
        assert_eq!(Process::parse(text), Some(expected));
        assert_eq!(Process::parse("42 (x) S 1"), None);
    }
}
