//! Which CPUs handle the interrupts of the network cards.

use std::collections::BTreeMap;

use super::System;
use super::cpus::cpu_list;
use super::finding::{Check, Evidence, Finding};
use super::interface::pci_function;
use super::tree::{File, Tree, grouped};

pub(super) const PLACEMENT: Check = Check {
    name: "interrupt-placement",
    why: "The CPU that handles a card's interrupts also processes its packets. One CPU for all \
          packets limits the rate, and a load thread on it is interrupted.",
};

/// Minimum interrupts since boot for a judgement of their placement.
const COUNT_MIN: u64 = 1000;

/// Share of a card's interrupts on one CPU that is reported as all of them.
const ALL: f64 = 0.95;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interrupt {
    pub number: u32,
    /// Count since boot per CPU, as (CPU number, count).
    pub counts: Vec<(u32, u64)>,
}

/// Parses /proc/interrupts: a header with the online CPUs, then one line per interrupt. Lines with a name instead
/// of a number (`NMI`, `LOC`) are CPU-internal interrupts and are skipped.
pub(super) fn parse_interrupts(text: &str) -> Vec<Interrupt> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().split_whitespace();
    let cpus: Vec<u32> = header.filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let interrupts = lines.filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let counts = rest.split_whitespace().map_while(|word| word.parse().ok());
        Some(Interrupt {
            number: number.trim().parse().ok()?,
            counts: cpus.iter().copied().zip(counts).collect(),
        })
    });
    interrupts.collect()
}

/// Interrupt numbers of a card: those of its PCI function (`msi_irqs`).
pub(crate) fn numbers(tree: &Tree, card: &str) -> Vec<u32> {
    let Some(function) = pci_function(tree, card) else { return Vec::new() };
    let numbers = tree.names(&format!("{function}/msi_irqs"));
    numbers.iter().filter_map(|name| name.parse().ok()).collect()
}

pub(super) fn examine(tree: &Tree, system: &System, cards: &[String]) -> Vec<Finding> {
    let table = tree.file("/proc/interrupts");
    let all = parse_interrupts(table.text().unwrap_or_default());
    let load = &system.cpus[..system.cpus.len().min(2)];
    let judge = |name: &String| {
        let numbers = numbers(tree, name);
        let own: Vec<&Interrupt> =
            all.iter().filter(|interrupt| numbers.contains(&interrupt.number)).collect();
        let affinities: Vec<File> = numbers
            .iter()
            .map(|number| tree.file(&format!("/proc/irq/{number}/smp_affinity_list")))
            .collect();
        placement(name, &own, &affinities, load)
    };
    cards.iter().map(judge).collect()
}

/// Judges which CPUs handled a card's interrupts since boot. The load threads run on the CPUs of `load`.
fn placement(name: &str, interrupts: &[&Interrupt], affinities: &[File], load: &[u32]) -> Finding {
    let active: Vec<&Interrupt> = interrupts
        .iter()
        .copied()
        .filter(|interrupt| interrupt.counts.iter().any(|(_, count)| *count > 0))
        .collect();
    let mut by_cpu: BTreeMap<u32, u64> = BTreeMap::new();
    for (cpu, count) in active.iter().flat_map(|interrupt| &interrupt.counts) {
        let sum = by_cpu.entry(*cpu).or_default();
        *sum = sum.saturating_add(*count);
    }
    let total = by_cpu.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let found = PLACEMENT.found(Evidence::new("/proc/interrupts", counted(&active, &by_cpu)));
    let others: Vec<u32> = by_cpu.keys().copied().filter(|cpu| !load.contains(cpu)).collect();
    let on_load = by_cpu.iter().filter(|(cpu, _)| load.contains(cpu)).map(|(_, count)| count);
    let on_load = on_load.fold(0_u64, |sum, count| sum.saturating_add(*count)) as f64;
    let Some((busiest, most)) = by_cpu.iter().max_by_key(|(_, count)| *count) else {
        return found.not_observable(format!("Interrupts of {name}: none found for its device"));
    };
    let found = found.found_all(grouped(affinities));
    let all = ALL * total as f64;
    if total < COUNT_MIN {
        found.not_observable(format!("Interrupts of {name}: too few to check their CPUs"))
    } else if others.is_empty() {
        found.note(format!("Interrupts of {name} can go only to the CPUs of the load"))
    } else if on_load >= all / 2.0 {
        found
            .warning(format!(
                "Interrupts of {name} go to CPUs {}, which run the load",
                cpu_list(load)
            ))
            .fixed_by(moved(&active, &others))
    } else if active.len() > 1 && *most as f64 >= all {
        found
            .warning(format!("All {} interrupts of {name} go to CPU {busiest}", active.len()))
            .fixed_by(moved(&active, &others))
    } else {
        found.fine(format!("Interrupts of {name} are spread over other CPUs"))
    }
}

fn counted(active: &[&Interrupt], by_cpu: &BTreeMap<u32, u64>) -> String {
    let mut by_cpu: Vec<_> = by_cpu.iter().filter(|(_, count)| **count > 0).collect();
    by_cpu.sort_by_key(|(cpu, count)| (std::cmp::Reverse(*count), *cpu));
    let shown = by_cpu.iter().take(4).map(|(cpu, count)| format!("{count} on CPU {cpu}"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = by_cpu.len().saturating_sub(4);
    let more = if more > 0 { format!(", and {more} CPUs more") } else { String::new() };
    format!("{} active: {shown}{more}", active.len())
}

/// Command that sets the affinity of each interrupt to `cpus`.
fn moved(interrupts: &[&Interrupt], cpus: &[u32]) -> String {
    let numbers: Vec<String> =
        interrupts.iter().map(|interrupt| interrupt.number.to_string()).collect();
    format!(
        "for irq in {}; do echo {} > /proc/irq/$irq/smp_affinity_list; done",
        numbers.join(" "),
        cpu_list(cpus)
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Warning};
    use super::*;

    /// CPU 1 is offline.
    const TABLE: &str = "           CPU0       CPU2       CPU3
 24:     900000         10          0  PCI-MSI-edge  eth0-TxRx-0
 25:     800000          0          0  PCI-MSI-edge  eth0-TxRx-1
 26:          0          0          0  PCI-MSI-edge  eth0-spare
NMI:          1          1          1  Non-maskable interrupts
ERR:          0
";

    fn judge(text: &str) -> Finding {
        let all = parse_interrupts(text);
        let own: Vec<&Interrupt> = all.iter().collect();
        placement("eth0", &own, &[File::of("/proc/irq/24/smp_affinity_list", "0-3")], &[0, 1])
    }

    #[test]
    fn columns_belong_to_the_processors_of_the_header() {
        let all = parse_interrupts(TABLE);
        assert_eq!(all.len(), 3);
        let counts = vec![(0, 900_000), (2, 10), (3, 0)];
        assert_eq!(all[0], Interrupt { number: 24, counts });
    }

    #[test]
    fn interrupts_where_the_load_runs_are_moved_to_the_other_processors() {
        let finding = judge(TABLE);
        assert_eq!(finding.severity, Warning);
        assert_eq!(finding.title, "Interrupts of eth0 go to CPUs 0-1, which run the load");
        assert_eq!(
            finding.remedy.as_deref(),
            Some("for irq in 24 25; do echo 2-3 > /proc/irq/$irq/smp_affinity_list; done")
        );
        let expected = "2 active: 1700000 on CPU 0, 10 on CPU 2";
        assert_eq!(finding.evidence[0].value, expected);
    }

    #[test]
    fn all_queues_on_one_processor_may_spoil() {
        let table = "  CPU0 CPU1 CPU2 CPU3\n 24: 0 0 5000 0 a\n 25: 0 0 5000 0 b\n";
        let finding = judge(table);
        assert_eq!(finding.severity, Warning);
        assert_eq!(finding.title, "All 2 interrupts of eth0 go to CPU 2");
        let spread = "  CPU0 CPU1 CPU2 CPU3\n 24: 0 0 5000 0 a\n 25: 0 0 0 5000 b\n";
        assert_eq!(judge(spread).severity, Fine);
    }

    #[test]
    fn a_machine_without_a_choice_and_one_without_counts_are_not_judged() {
        assert_eq!(judge(" CPU0 CPU1\n 24: 5000 5000 a").severity, Note);
        assert_eq!(judge(" CPU0 CPU1 CPU2\n 24: 1 2 3 a").severity, NotObservable);
        assert_eq!(judge("").severity, NotObservable);
    }
}
