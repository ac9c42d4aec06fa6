//! Clock source, the cost of reading the clock, and whether the TSC is invariant.

use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};
use crate::flags;

pub(super) const CLOCK_SOURCE: Check = Check {
    name: "clock-source",
    why: "The clock is read for every packet. Reading a clock in a device takes a system call of \
          about 1 µs, which adds to every RTT and limits the rate.",
};

pub(super) const CLOCK_COST: Check =
    Check { name: "clock-cost", why: "Every measured RTT includes two readings of the clock." };

pub(super) const TSC: Check = Check {
    name: "tsc",
    why: "If the TSC changes its rate or stops in idle states, the kernel switches to a slow \
          clock, sometimes during a run.",
};

/// Clock sources that the vDSO reads without a system call (`vdso_clock_mode` of each in the kernel's arch folders).
const FAST: [&str; 6] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "xen",
    "arch_sys_counter",
    "riscv_clocksource",
];

/// A reading that takes longer than this makes a system call: the vDSO takes 20 to 60 ns, a system call and a read
/// of the device about 1,000 ns.
const READING_NS_MAX: f64 = 200.0;

/// `reading_ns` is the measured time of one clock reading.
pub(super) fn examine(tree: &Tree, reading_ns: f64) -> Vec<Finding> {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    vec![
        clock_source(&tree.files_in(folder, ["current_clocksource", "available_clocksource"])),
        clock_cost(reading_ns),
        tsc(&tree.file("/proc/cpuinfo")),
    ]
}

fn clock_source([current, available]: &[File; 2]) -> Finding {
    let found = CLOCK_SOURCE.found(current);
    let Some(name) = current.text() else {
        return found.not_observable("Clock source: not reported by the kernel");
    };
    let found = found.found(available);
    if FAST.contains(&name) {
        found.fine(format!("The clock source is {name}, which needs no system call"))
    } else {
        let slow = found.problem(format!("The clock source is slow: {name}"));
        let mut offered = available.text().unwrap_or_default().split_whitespace();
        match offered.find(|name| FAST.contains(name)) {
            Some(fast) => slow.fixed_by(format!("echo {fast} > {}", current.path)),
            None => slow,
        }
    }
}

fn clock_cost(reading_ns: f64) -> Finding {
    let source = "clock_gettime(CLOCK_MONOTONIC), best of 20 x 1,000";
    let found = CLOCK_COST.found(Evidence::new(source, format!("{reading_ns:.1} ns")));
    let title = format!("Reading the clock takes {reading_ns:.0} ns");
    if reading_ns > READING_NS_MAX { found.warning(title) } else { found.fine(title) }
}

/// Judges the flags of the first CPU.
fn tsc(cpuinfo: &File) -> Finding {
    let Some(flags) = cpuinfo.text().and_then(flags) else {
        return TSC
            .found(Evidence::new(&cpuinfo.path, "no line `flags`"))
            .not_observable("TSC: /proc/cpuinfo has no x86 flags");
    };
    let has = |flag: &str| flags.contains(&flag);
    let evidence = ["constant_tsc", "nonstop_tsc"].map(|flag| {
        let value = if has(flag) { flag.to_owned() } else { format!("no {flag}") };
        Evidence::new(format!("{} flags", cpuinfo.path), value)
    });
    let found = TSC.found_all(evidence);
    if has("constant_tsc") && has("nonstop_tsc") {
        found.fine("The TSC is invariant")
    } else {
        found.warning("The TSC is not invariant")
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Problem, Warning};
    use super::*;

    fn source(current: &str, available: &str) -> Finding {
        clock_source(&[File::of("/sys/current", current), File::of("/sys/available", available)])
    }

    #[test]
    fn a_slow_clock_source_is_a_problem_and_a_fast_one_is_chosen_where_offered() {
        for name in ["hpet", "acpi_pm", "jiffies"] {
            let finding = source(name, "hpet acpi_pm");
            assert_eq!((finding.severity, finding.remedy), (Problem, None), "{name}");
        }
        let finding = source("acpi_pm", "tsc hpet acpi_pm");
        assert_eq!(finding.remedy.as_deref(), Some("echo tsc > /sys/current"));
        for name in FAST {
            assert_eq!(source(name, name).severity, Fine, "{name}");
        }
    }

    #[test]
    fn a_reading_beyond_200_ns_may_spoil() {
        assert_eq!(clock_cost(35.0).severity, Fine);
        assert_eq!(clock_cost(900.0).severity, Warning);
    }

    #[test]
    fn an_invariant_counter_has_both_flags() {
        let judge = |text: &str| tsc(&File::of("/proc/cpuinfo", text)).severity;
        assert_eq!(judge("processor : 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n"), Fine);
        assert_eq!(judge("flags : fpu tsc constant_tsc\n"), Warning);
        assert_eq!(judge("processor : 0\nFeatures : fp asimd\n"), NotObservable);
    }
}
