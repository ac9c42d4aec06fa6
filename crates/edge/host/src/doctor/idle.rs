//! CPU idle states, and SMT siblings that share a core.

use super::System;
use super::cpus::{cpu_list, parse_cpu_list};
use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};

pub(super) const IDLE_STATES: Check = Check {
    name: "cpu-idle",
    why: "A CPU in an idle state needs time to wake up, which adds to every RTT.",
};

pub(super) const SIBLINGS: Check =
    Check { name: "cpu-siblings", why: "The hardware threads of a core slow each other down." };

/// Longest exit latency that is not reported, in microseconds: that of C1E on most CPUs in the kernel's
/// drivers/idle/intel_idle.c, where deeper states take from 15 to 10,000.
const WAKE_UP_US_MAX: u64 = 10;

const LATENCY_LIMIT: &str = "/dev/cpu_dma_latency";

struct IdleState {
    number: usize,
    /// State name, for example `C6`.
    name: String,
    /// Exit latency in microseconds.
    latency_us: u64,
    is_disabled: bool,
}

pub(super) fn examine(tree: &Tree, system: &System) -> Vec<Finding> {
    let cpu = system.cpus.first().copied().unwrap_or(0);
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let states: Vec<IdleState> = (0..tree.names(&folder).len())
        .filter_map(|number| {
            let state = format!("{folder}/state{number}");
            let [name, latency, disable] = tree.files_in(&state, ["name", "latency", "disable"]);
            Some(IdleState {
                number,
                name: name.text().unwrap_or("?").to_owned(),
                latency_us: latency.count()?,
                is_disabled: disable.count() == Some(1),
            })
        })
        .collect();
    vec![
        idle_states(&folder, &states, &tree.bytes(LATENCY_LIMIT)),
        siblings(
            &tree.file("/sys/devices/system/cpu/smt/active"),
            &tree.files("/sys/devices/system/cpu/cpu*/topology/thread_siblings_list"),
            &system.cpus,
        ),
    ]
}

/// Judges the deepest state that a CPU may enter. `limit` is /dev/cpu_dma_latency: microseconds as a 32-bit number
/// in native byte order (admin-guide/pm/cpuidle in the kernel).
fn idle_states(folder: &str, states: &[IdleState], limit: &Result<Vec<u8>, String>) -> Finding {
    let four = |bytes: &Vec<u8>| <[u8; 4]>::try_from(bytes.as_slice()).ok();
    let limit_us = limit.as_ref().map(|bytes| four(bytes).map(i32::from_ne_bytes));
    let value = match limit_us {
        Ok(Some(us)) => format!("{us} µs"),
        Ok(None) => "not four bytes".to_owned(),
        Err(reason) => format!("cannot be read: {reason}"),
    };
    let limit_evidence = Evidence::new(LATENCY_LIMIT, value);
    let limit_us = limit_us.ok().flatten().and_then(|us| u64::try_from(us).ok());
    let is_let =
        |state: &&IdleState| !state.is_disabled && state.latency_us <= limit_us.unwrap_or(u64::MAX);
    let Some(deepest) = states.iter().filter(is_let).max_by_key(|state| state.latency_us) else {
        return IDLE_STATES
            .found(Evidence::new(folder, "no enabled state"))
            .found(limit_evidence)
            .not_observable("Idle states: no cpuidle in this kernel");
    };
    let IdleState { number, name, latency_us, .. } = deepest;
    let value = format!("{name}, latency {latency_us} µs");
    let evidence = Evidence::new(format!("{folder}/state{number}"), value);
    let found = IDLE_STATES.found_all([evidence, limit_evidence]);
    if *latency_us > WAKE_UP_US_MAX {
        let deep = states.iter().filter(is_let).filter(|state| state.latency_us > WAKE_UP_US_MAX);
        let files: Vec<String> = deep
            .map(|s| format!("/sys/devices/system/cpu/cpu*/cpuidle/state{}/disable", s.number))
            .collect();
        found
            .warning(format!("CPUs enter the idle state {name}: {latency_us} µs to wake up"))
            .fixed_by(format!("echo 1 | tee {}", files.join(" ")))
    } else {
        found.fine(format!("CPUs wake up within {latency_us} µs"))
    }
}

/// Judges whether the two load threads, on the first two CPUs of this process, would share a core.
fn siblings(active: &File, siblings: &[File], cpus: &[u32]) -> Finding {
    if siblings.is_empty() {
        return SIBLINGS.found(active).not_observable("CPU siblings: not reported by the kernel");
    }
    let load = &cpus[..cpus.len().min(2)];
    let cores: Vec<(Vec<u32>, &File)> = siblings
        .iter()
        .map(|file| (parse_cpu_list(file.text().unwrap_or_default()), file))
        .filter(|(core, _)| core.iter().any(|cpu| load.contains(cpu)))
        .collect();
    if let [first, second] = load
        && let Some((_, file)) =
            cores.iter().find(|(core, _)| core.contains(first) && core.contains(second))
    {
        let finding = SIBLINGS
            .found(*file)
            .problem(format!("CPUs {first} and {second}, which run the ends, share one core"));
        let core = parse_cpu_list(file.text().unwrap_or_default());
        return match cpus.iter().find(|cpu| !core.contains(cpu)) {
            Some(other) => {
                finding.fixed_by(format!("taskset -c {first},{other} fabricmark run PLAN"))
            }
            None => finding,
        };
    }
    if active.number() == Some(1) || cores.iter().any(|(core, _)| core.len() > 1) {
        return SIBLINGS
            .found(active)
            .found_all(cores.iter().take(2).map(|(_, file)| *file))
            .warning(format!(
                "CPUs {}, which run the ends, share their cores with other CPUs",
                cpu_list(load)
            ))
            .fixed_by("echo off > /sys/devices/system/cpu/smt/control");
    }
    let found = SIBLINGS.found_all([active, &siblings[0]]);
    found.fine("No core runs two hardware threads")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Problem, Warning};
    use super::*;

    fn states(latencies_us: &[u64]) -> Vec<IdleState> {
        let state = |(number, &latency_us)| IdleState {
            number,
            name: format!("C{number}"),
            latency_us,
            is_disabled: false,
        };
        latencies_us.iter().enumerate().map(state).collect()
    }

    fn judge(states: &[IdleState], limit: &Result<Vec<u8>, String>) -> Finding {
        idle_states("/sys/cpuidle", states, limit)
    }

    #[test]
    fn a_deep_state_is_named_with_the_switch_of_each_state_like_it() {
        // Skylake-SP: POLL, C1, C1E, C6.
        let unlimited = Ok(2_000_000_000_i32.to_ne_bytes().to_vec());
        let finding = judge(&states(&[0, 2, 10, 133]), &unlimited);
        assert_eq!(finding.severity, Warning);
        assert_eq!(finding.title, "CPUs enter the idle state C3: 133 µs to wake up");
        let command = "echo 1 | tee /sys/devices/system/cpu/cpu*/cpuidle/state3/disable";
        assert_eq!(finding.remedy.as_deref(), Some(command));
    }

    #[test]
    fn a_limit_or_a_switch_keeps_processors_out_of_deep_states() {
        let limit = Ok(5_i32.to_ne_bytes().to_vec());
        assert_eq!(judge(&states(&[0, 2, 10, 133]), &limit).severity, Fine);
        let mut disabled = states(&[0, 2, 10, 133]);
        disabled[3].is_disabled = true;
        assert_eq!(judge(&disabled, &Err("needs root".to_owned())).severity, Fine);
        assert_eq!(judge(&[], &Err("no such file".to_owned())).severity, NotObservable);
    }

    #[test]
    fn both_ends_on_one_core_spoil_and_another_pair_is_proposed() {
        let active = File::of("/sys/smt/active", "1");
        let pairs = ["0-1", "0-1", "2-3", "2-3"].map(|list| File::of("/sys/siblings", list));
        let finding = siblings(&active, &pairs, &[0, 1, 2, 3]);
        assert_eq!(finding.severity, Problem);
        assert_eq!(finding.remedy.as_deref(), Some("taskset -c 0,2 fabricmark run PLAN"));
        let finding = siblings(&active, &pairs, &[0, 2]);
        assert_eq!(finding.severity, Warning);
    }

    #[test]
    fn cores_with_one_thread_each_are_fine() {
        let inactive = File::of("/sys/smt/active", "0");
        let alone = ["0", "1"].map(|list| File::of("/sys/siblings", list));
        assert_eq!(siblings(&inactive, &alone, &[0, 1]).severity, Fine);
        assert_eq!(siblings(&inactive, &[], &[0, 1]).severity, NotObservable);
    }
}
