//! `/proc/stat`: how the processors spent their time.

use std::collections::BTreeMap;

use fabricmark_record::{CpuShares, CpuUsage, MachineUsage};

/// Columns of a processor's line that add up to all its time: user, nice, system, idle, iowait, irq,
/// softirq, steal (proc(5)). Time of guests stands in user and nice, and again behind these.
const COLUMNS: usize = 8;

/// Ticks of each processor that is on line, by its number.
pub(crate) type Ticks = BTreeMap<u32, [u64; COLUMNS]>;

/// Reads the lines `cpu0 ...`, `cpu1 ...`; what is not such a line is passed over.
pub(crate) fn parse(text: &str) -> Ticks {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let mut ticks = [0; COLUMNS];
        for column in &mut ticks {
            *column = words.next()?.parse().ok()?;
        }
        Some((cpu, ticks))
    };
    // The line of all processors begins with a blank behind `cpu`.
    text.lines().filter(|line| !line.starts_with("cpu ")).filter_map(line).collect()
}

/// What the processors did between two readings; nothing if some processor has not ticked since.
pub(crate) fn usage(before: &Ticks, after: &Ticks) -> Option<MachineUsage> {
    let mut all = [0.0; COLUMNS];
    let mut per_cpu = Vec::new();
    for (&cpu, after) in after {
        let Some(before) = before.get(&cpu) else { continue };
        let mut spent = [0.0; COLUMNS];
        for column in 0..COLUMNS {
            // iowait, and idle with it, may fall (proc(5)).
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
        // 0.7 of one processor and 0.6 of the other, for 1 s.
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
