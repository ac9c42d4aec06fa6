//! `/proc/stat` and `/proc/PID/stat`: how CPUs and processes spent their time.

use std::collections::BTreeMap;

use fabricmark_record::{CpuShares, CpuUsage, MachineUsage};

/// Columns of a CPU's line that add up to its whole time: user, nice, system, idle, iowait, irq, softirq, steal
/// (proc(5)). Guest time is included in user and nice, and repeated in later columns.
const COLUMNS: usize = 8;

/// Ticks of each online CPU, by CPU number.
pub(crate) type Ticks = BTreeMap<u32, [u64; COLUMNS]>;

/// Parses the lines `cpu0 ...`, `cpu1 ...`; other lines are skipped.
pub(crate) fn parse(text: &str) -> Ticks {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        Some((words.next()?.parse().ok()?, columns(words)?))
    };
    // The line of all CPUs together has a space after `cpu`.
    text.lines().filter(|line| !line.starts_with("cpu ")).filter_map(line).collect()
}

fn columns<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<[u64; COLUMNS]> {
    let mut ticks = [0; COLUMNS];
    for column in &mut ticks {
        *column = words.next()?.parse().ok()?;
    }
    Some(ticks)
}

/// CPU use between two readings; `None` if a CPU has had no tick in between.
pub(crate) fn usage(before: &Ticks, after: &Ticks) -> Option<MachineUsage> {
    let mut all = [0.0; COLUMNS];
    let mut per_cpu = Vec::new();
    for (&cpu, after) in after {
        let Some(before) = before.get(&cpu) else { continue };
        let mut spent = [0.0; COLUMNS];
        for column in 0..COLUMNS {
            // idle and iowait may decrease (proc(5)).
            spent[column] = after[column].saturating_sub(before[column]) as f64;
            all[column] += spent[column];
        }
        per_cpu.push(CpuUsage { cpu, shares: shares(spent)? });
    }
    Some(MachineUsage { all: shares(all)?, per_cpu })
}

fn shares(ticks: [f64; COLUMNS]) -> Option<CpuShares> {
    let total: f64 = ticks.iter().sum();
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.map(|part| part / total);
    (total > 0.0).then_some(CpuShares { user, nice, system, irq, softirq, steal, iowait, idle })
}

/// Ticks since boot, from a line of /proc/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    /// Running programs or the kernel, including interrupts.
    pub busy: u64,
    /// Runnable, but the hypervisor ran other guests.
    pub stolen: u64,
}

impl CpuTimes {
    /// Sum of all CPUs, from the text of /proc/stat.
    pub fn of_all(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let [user, nice, system, _idle, _iowait, irq, softirq, stolen] =
            columns(line.split_whitespace())?;
        let busy = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
        Some(Self { busy: busy.min(u64::MAX / 2), stolen: stolen.min(u64::MAX / 2) })
    }
}

/// Number of CPUs that have a line in /proc/stat: the online ones.
pub(crate) fn cpus_online(stat: &str) -> usize {
    let names = stat.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("cpu"));
    names.filter(|number| number.parse::<u32>().is_ok()).count()
}

/// A process as /proc/PID/stat shows it (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: u32,
    /// Command name, which a process may set itself.
    pub name: String,
    /// CPU time since the process began, in ticks.
    pub ticks: u64,
}

impl Process {
    /// Parses `pid (name) state ppid ...`; the name may contain parentheses and spaces.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, fields) = text.rsplit_once(')')?;
        let (pid, name) = head.split_once(" (")?;
        // utime and stime are fields 14 and 15; the first field after the name, state, is field 3.
        let mut fields = fields.split_whitespace().skip(14 - 3);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let pid = pid.parse().ok()?;
        Some(Self { pid, name: name.to_owned(), ticks: user.saturating_add(system) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEFORE: &str = "\
cpu  300 0 0 700 0 0 0 0 0 0
cpu0 100 0 0 400 0 0 0 0 0 0
cpu1 200 0 0 300 0 0 0 0 0 0
intr 5 4
";

    const AFTER: &str = "\
cpu  340 0 60 760 10 2 28 0 20 0
cpu0 140 0 30 430 0 0 0 0 20 0
cpu1 200 0 30 330 10 2 28 0 0 0
intr 9 8
";

    #[test]
    fn shares_are_the_ticks_since_the_first_reading_over_their_sum() {
        let usage = usage(&parse(BEFORE), &parse(AFTER)).unwrap();
        let [first, second] = usage.per_cpu.as_slice() else { panic!("two processors") };
        assert_eq!((first.cpu, second.cpu), (0, 1));
        let expected = CpuShares { user: 0.4, system: 0.3, idle: 0.3, ..CpuShares::default() };
        assert_eq!(first.shares, expected);
        assert_eq!(second.shares.softirq, 0.28);
        assert_eq!(second.shares.irq, 0.02);
        assert_eq!(second.shares.iowait, 0.1);
        assert_eq!(usage.all.user, 0.2);
        // 0.7 of one CPU and 0.6 of the other, for 1 s.
        assert!((usage.busy_ns(1_000_000_000) - 1.3e9).abs() < 1.0);
    }

    #[test]
    fn a_processor_that_came_or_went_does_not_count() {
        let one = "cpu1 200 0 0 300 0 0 0 0\n";
        let usage = usage(&parse(one), &parse(AFTER)).unwrap();
        assert_eq!(usage.per_cpu.len(), 1);
        assert_eq!(usage.per_cpu[0].cpu, 1);
    }

    #[test]
    fn two_readings_within_one_tick_have_no_shares() {
        assert_eq!(usage(&parse(BEFORE), &parse(BEFORE)), None);
        assert_eq!(usage(&Ticks::new(), &parse(AFTER)), None);
    }

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

    proptest! {
        #[test]
        fn shares_add_up_to_one_whatever_the_counters(
            before in prop::collection::btree_map(0u32..4, prop::array::uniform8(any::<u64>()), 0..4),
            after in prop::collection::btree_map(0u32..4, prop::array::uniform8(any::<u64>()), 0..4),
        ) {
            if let Some(usage) = usage(&before, &after) {
                for shares in usage.per_cpu.iter().map(|cpu| cpu.shares).chain([usage.all]) {
                    let sum = shares.netperf_utilisation() + shares.idle;
                    prop_assert!((sum - 1.0).abs() < 1e-9, "{shares:?}");
                }
            }
        }

        #[test]
        fn no_text_is_mistaken_for_more_than_it_says(text in "(cpu[0-9 ]{0,30}\n|.{0,20}\n){0,8}") {
            let ticks = parse(&text);
            prop_assert!(ticks.len() <= text.lines().count());
        }
    }
}
