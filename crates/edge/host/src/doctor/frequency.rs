//! CPU frequency: governor and turbo.

use super::finding::{Check, Finding};
use super::tree::{File, Tree, grouped};

pub(super) const GOVERNOR: Check = Check {
    name: "cpu-governor",
    why: "A governor that lowers the CPU frequency between packets makes RTTs longer, and results \
          depend on the load before.",
};

pub(super) const TURBO: Check = Check {
    name: "cpu-turbo",
    why: "With turbo the CPU frequency depends on the temperature and the number of busy cores, so \
          results vary over hours.",
};

const SET_PERFORMANCE: &str =
    "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";

pub(super) fn examine(tree: &Tree) -> Vec<Finding> {
    vec![
        governor(
            &tree.files("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
            &tree.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
        ),
        turbo(
            &tree.file("/sys/devices/system/cpu/intel_pstate/no_turbo"),
            &tree.file("/sys/devices/system/cpu/cpufreq/boost"),
        ),
    ]
}

/// Judges `scaling_governor` of each CPU. With intel_pstate and amd-pstate-epp, `powersave` scales with the load;
/// with other drivers it selects the lowest frequency (admin-guide/pm in the kernel).
fn governor(governors: &[File], driver: &File) -> Finding {
    let found = GOVERNOR.found_all(grouped(governors)).found(driver);
    if governors.is_empty() {
        return found.not_observable(
            "CPU frequency: no cpufreq in this kernel, as in most virtual machines",
        );
    }
    let holds_lowest = !matches!(driver.text(), Some("intel_pstate" | "amd-pstate-epp"));
    let is = |name: &str| governors.iter().any(|file| file.text() == Some(name));
    if governors.iter().all(|file| file.text() == Some("performance")) {
        found.fine("The CPU governor is performance")
    } else if holds_lowest && is("powersave") {
        found
            .problem("The CPU governor is powersave, which keeps the lowest frequency")
            .fixed_by(SET_PERFORMANCE)
    } else {
        found
            .warning("The CPU governor changes the frequency with the load")
            .fixed_by(SET_PERFORMANCE)
    }
}

/// Judges the turbo switch of intel_pstate (`no_turbo`) or of the other drivers (`boost`).
fn turbo(no_turbo: &File, boost: &File) -> Finding {
    let (file, on, off) = match (no_turbo.number(), boost.number()) {
        (Some(value), _) => (no_turbo, value == 0, 1),
        (None, Some(value)) => (boost, value != 0, 0),
        (None, None) => {
            return TURBO
                .found_all([no_turbo, boost])
                .not_observable("Turbo: not reported by the driver");
        }
    };
    let (found, command) = (TURBO.found(file), format!("echo {off} > {}", file.path));
    if on { found.warning("Turbo is on").fixed_by(command) } else { found.fine("Turbo is off") }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Problem, Warning};
    use super::*;

    fn governors(names: &[&str]) -> Vec<File> {
        names.iter().map(|name| File::of("/sys/scaling_governor", name)).collect()
    }

    #[test]
    fn powersave_holds_the_lowest_clock_except_under_the_pstate_drivers() {
        let powersave = governors(&["powersave"; 64]);
        for (driver, severity) in [
            ("acpi-cpufreq", Problem),
            ("intel_cpufreq", Problem),
            ("intel_pstate", Warning),
            ("amd-pstate-epp", Warning),
        ] {
            let finding = governor(&powersave, &File::of("/sys/scaling_driver", driver));
            assert_eq!(finding.severity, severity, "{driver}");
            assert_eq!(finding.remedy.as_deref(), Some(SET_PERFORMANCE));
            assert_eq!(finding.evidence[0].source, "/sys/scaling_governor and 63 more");
        }
    }

    #[test]
    fn every_processor_must_have_the_performance_governor() {
        let driver = File::of("/sys/scaling_driver", "acpi-cpufreq");
        let severity = |names: &[&str]| governor(&governors(names), &driver).severity;
        assert_eq!(severity(&["performance", "performance"]), Fine);
        assert_eq!(severity(&["performance", "schedutil"]), Warning);
        assert_eq!(severity(&[]), NotObservable);
    }

    #[test]
    fn turbo_has_two_switches_of_opposite_sense() {
        let none = File::missing("/sys/none");
        for (no_turbo, boost, severity) in [
            (File::of("/n", "0"), none.clone(), Warning),
            (File::of("/n", "1"), none.clone(), Fine),
            (none.clone(), File::of("/b", "1"), Warning),
            (none.clone(), File::of("/b", "0"), Fine),
            (none.clone(), none.clone(), NotObservable),
        ] {
            assert_eq!(turbo(&no_turbo, &boost).severity, severity);
        }
    }
}
