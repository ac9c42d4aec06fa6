//! Whether this is a virtual machine, and how much CPU time its hypervisor steals.

use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};
use crate::flags;
use crate::stat::CpuTimes;

pub(super) const VIRTUAL_MACHINE: Check = Check {
    name: "virtual-machine",
    why: "A virtual machine shares CPUs, caches and network cards with others, so figures drift \
          and say little about the hardware.",
};

pub(super) const STOLEN_TIME: Check = Check {
    name: "stolen-time",
    why: "While the hypervisor runs another virtual machine, this one neither sends nor receives.",
};

/// Stolen share that changes throughput by as much as the tie band of comparisons (docs/statistics.md).
const STOLEN_MAX: f64 = 0.02;

/// A tenth of the tie band.
const STOLEN_FINE: f64 = 0.002;

pub(super) fn examine(tree: &Tree) -> Vec<Finding> {
    vec![
        virtual_machine(
            &tree.file("/proc/cpuinfo"),
            &tree.file("/sys/class/dmi/id/sys_vendor"),
            &tree.file("/sys/hypervisor/type"),
        ),
        stolen_time(&tree.file("/proc/stat")),
    ]
}

/// DMI vendor names of hypervisors (the same as in systemd's src/basic/virt.c).
const MAKERS: [&str; 8] = [
    "QEMU",
    "VMware",
    "innotek",
    "Xen",
    "Microsoft Corporation",
    "Amazon EC2",
    "Google",
    "Parallels",
];

/// Judges the CPU flag that x86 guests have; on other architectures the DMI vendor or the Xen type.
fn virtual_machine(cpuinfo: &File, maker: &File, hypervisor: &File) -> Finding {
    let is_flagged = cpuinfo.text().and_then(flags).map(|flags| flags.contains(&"hypervisor"));
    let is_made_by =
        maker.text().is_some_and(|name| MAKERS.iter().any(|other| name.starts_with(other)));
    let flag = match is_flagged {
        Some(true) => "hypervisor",
        Some(false) => "no hypervisor",
        None => "no line `flags`",
    };
    let named = [maker, hypervisor].into_iter().filter(|file| file.text().is_some());
    let found = VIRTUAL_MACHINE
        .found(Evidence::new(format!("{} flags", cpuinfo.path), flag))
        .found_all(named);
    if is_flagged.unwrap_or(is_made_by) || hypervisor.text().is_some() {
        found.warning("This is a virtual machine")
    } else if is_flagged.is_none() && maker.text().is_none() {
        found.not_observable("Virtual machine: neither CPU flags nor a vendor can be read")
    } else {
        found.fine("This is not a virtual machine")
    }
}

/// Judges the share of runnable time since boot that the hypervisor gave to others.
fn stolen_time(stat: &File) -> Finding {
    let Some(times) = stat.text().and_then(CpuTimes::of_all) else {
        return STOLEN_TIME
            .found(Evidence::new(&stat.path, "no line `cpu` with times"))
            .not_observable("Stolen time: /proc/stat has no line `cpu`");
    };
    let wanted = times.busy + times.stolen;
    let share = if wanted == 0 { 0.0 } else { times.stolen as f64 / wanted as f64 };
    let title = format!("{:.2} % of the CPU time was stolen since boot", 100.0 * share);
    let value = format!("steal {} of {wanted} busy or stolen ticks", times.stolen);
    let found = STOLEN_TIME.found(Evidence::new(format!("{} cpu", stat.path), value));
    if share >= STOLEN_MAX {
        found.problem(title)
    } else if share >= STOLEN_FINE {
        found.warning(title)
    } else {
        found.fine(title)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Problem, Warning};
    use super::*;

    #[test]
    fn a_guest_is_known_by_its_flag_its_maker_or_xen() {
        let none = File::missing("/sys/none");
        let x86 = |flags: &str| File::of("/proc/cpuinfo", &format!("flags : {flags}"));
        let arm = File::of("/proc/cpuinfo", "Features : fp");
        let maker = |name: &str| File::of("/sys/class/dmi/id/sys_vendor", name);
        for (cpuinfo, maker, severity) in [
            (x86("fpu hypervisor"), none.clone(), Warning),
            (x86("fpu"), maker("Dell Inc."), Fine),
            // Microsoft Corporation is also the vendor of Surface laptops.
            (x86("fpu"), maker("Microsoft Corporation"), Fine),
            (arm.clone(), maker("QEMU"), Warning),
            (arm.clone(), maker("Ampere(R)"), Fine),
            (arm.clone(), none.clone(), NotObservable),
        ] {
            assert_eq!(virtual_machine(&cpuinfo, &maker, &none).severity, severity);
        }
        let xen = File::of("/sys/hypervisor/type", "xen");
        assert_eq!(virtual_machine(&x86("fpu"), &none, &xen).severity, Warning);
    }

    #[test]
    fn stolen_time_is_a_share_of_the_time_to_run() {
        let judge = |text: &str| stolen_time(&File::of("/proc/stat", text));
        // user nice system idle iowait irq softirq steal
        let finding = judge("cpu  900 0 70 99999 500 0 10 20 0 0\ncpu0 1 2");
        assert_eq!(finding.severity, Problem);
        assert_eq!(finding.title, "2.00 % of the CPU time was stolen since boot");
        assert_eq!(finding.evidence[0].value, "steal 20 of 1000 busy or stolen ticks");
        assert_eq!(judge("cpu  990 0 0 0 0 0 0 10").severity, Warning);
        assert_eq!(judge("cpu  990 0 0 0 0 0 0 0").severity, Fine);
        assert_eq!(judge("cpu  0 0 0 0 0 0 0 0").severity, Fine);
        assert_eq!(judge("intr 5").severity, NotObservable);
    }
}
