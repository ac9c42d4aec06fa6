//! Limits of this process: open files and memory; and CPU mitigations.

use super::System;
use super::finding::{Check, Evidence, Finding};
use super::neighbours::{first_line, some_avg10};
use super::tree::{File, Tree};

pub(super) const OPEN_FILES: Check = Check {
    name: "open-files",
    why: "Each flow needs an open file at each end, and flows beyond the limit fail.",
};

pub(super) const MEMORY: Check = Check {
    name: "memory",
    why: "A process that waits for memory stalls, for milliseconds if the memory is swapped out.",
};

pub(super) const MITIGATIONS: Check = Check {
    name: "mitigations",
    why: "Mitigations of CPU vulnerabilities make system calls slower, so hosts with and without \
          them differ.",
};

/// Open files for 10,000 flows plus those of the worker itself.
const OPEN_FILES_MIN: u64 = 10_100;

/// Minimum fraction of memory that should be available, for socket buffers and the page cache.
const AVAILABLE_MIN: f64 = 0.1;

/// Highest memory pressure that is not reported, in percent of the last ten seconds.
const PRESSURE_FINE: f64 = 0.1;

/// One file per CPU vulnerability that the kernel knows.
const FAULTS: &str = "/sys/devices/system/cpu/vulnerabilities/*";

pub(super) fn examine(tree: &Tree, system: &System) -> Vec<Finding> {
    vec![
        open_files(system.open_files),
        memory(&tree.file("/proc/meminfo"), &tree.file("/proc/pressure/memory")),
        mitigations(&tree.files(FAULTS)),
    ]
}

/// Judges RLIMIT_NOFILE as (soft, hard); any user may raise the soft limit to the hard one.
fn open_files((soft, hard): (u64, u64)) -> Finding {
    let word = |limit: u64| match limit {
        u64::MAX => "unlimited".to_owned(),
        limit => limit.to_string(),
    };
    let value = format!("soft {}, hard {}", word(soft), word(hard));
    let found = OPEN_FILES.found(Evidence::new("getrlimit(RLIMIT_NOFILE)", value));
    let title = format!("A process may open {} files", word(soft));
    if soft >= OPEN_FILES_MIN {
        return found.fine(title);
    }
    let few = found.warning(format!("{title}: not enough for 10,000 flows"));
    if hard >= OPEN_FILES_MIN {
        few.fixed_by(format!("ulimit -n {}", hard.min(1 << 16)))
    } else {
        few.fixed_by("prlimit --pid $$ --nofile=65536:65536")
    }
}

/// Judges swap in use, available memory and memory pressure.
fn memory(meminfo: &File, pressure: &File) -> Finding {
    let kib = |key: &str| meminfo.count_of(key);
    let (Some(total), Some(available)) = (kib("MemTotal"), kib("MemAvailable")) else {
        return MEMORY
            .found(Evidence::new(&meminfo.path, "no MemTotal and MemAvailable"))
            .not_observable("Memory: /proc/meminfo cannot be read");
    };
    let swapped = kib("SwapTotal").unwrap_or(0).saturating_sub(kib("SwapFree").unwrap_or(0));
    let waiting = some_avg10(pressure).filter(|share| *share >= PRESSURE_FINE);
    let value = format!("MemAvailable {available} of {total} kB, swapped {swapped} kB");
    let found = MEMORY.found(Evidence::new(&meminfo.path, value)).found(first_line(pressure));
    if let Some(share) = waiting {
        found.warning(format!("Processes waited for memory in {share:.1} % of the last 10 s"))
    } else if (available as f64) < AVAILABLE_MIN * total as f64 {
        found.warning(format!(
            "Little memory is available: {} of {} MiB",
            available >> 10,
            total >> 10
        ))
    } else if swapped > 0 {
        found.note(format!("{} MiB are swapped out", swapped >> 10)).fixed_by("swapoff -a")
    } else {
        found.fine("Enough memory is available, and swap is not used")
    }
}

/// Reports which mitigations are active (Documentation/ABI/testing/sysfs-devices-system-cpu).
fn mitigations(files: &[File]) -> Finding {
    if files.is_empty() {
        return MITIGATIONS
            .found(Evidence::new(FAULTS, "no such file"))
            .not_observable("Mitigations: not reported by the kernel");
    }
    let names = |word: &str| -> Vec<&str> {
        let with =
            files.iter().filter(|file| file.text().is_some_and(|text| text.starts_with(word)));
        with.filter_map(|file| file.path.rsplit('/').next()).collect()
    };
    let (mitigated, open) = (names("Mitigation"), names("Vulnerable"));
    let counts = [mitigated.len(), open.len()];
    let listed = [("Mitigation", mitigated), ("Vulnerable", open)].map(|(word, names)| {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Evidence::new(FAULTS, format!("{word}: {names}"))
    });
    let found = MITIGATIONS.found_all(listed);
    match counts {
        [0, 0] => found.fine("The CPU needs no mitigations"),
        [mitigated, open] => {
            found.note(format!("CPU vulnerabilities: {mitigated} mitigated, {open} not mitigated"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Note, Warning};
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_by_the_user_where_he_may() {
        let remedy = |limits| open_files(limits).remedy;
        assert_eq!(remedy((1024, 524_288)).as_deref(), Some("ulimit -n 65536"));
        assert_eq!(remedy((1024, 20_000)).as_deref(), Some("ulimit -n 20000"));
        let as_root = "prlimit --pid $$ --nofile=65536:65536";
        assert_eq!(remedy((1024, 4096)).as_deref(), Some(as_root));
        assert_eq!(open_files((u64::MAX, u64::MAX)).severity, Fine);
    }

    #[test]
    fn memory_is_judged_by_pressure_then_room_then_swap() {
        let judge = |available: &str, free: &str, share: &str| {
            let meminfo = format!(
                "MemTotal: 1000 kB\nMemAvailable: {available} kB\nSwapTotal: 9000 kB\nSwapFree: {free} kB"
            );
            let pressure = format!("some avg10={share} avg60=0");
            memory(&File::of("/meminfo", &meminfo), &File::of("/pressure", &pressure)).severity
        };
        assert_eq!(judge("900", "9000", "0.00"), Fine);
        assert_eq!(judge("900", "1000", "0.00"), Note);
        assert_eq!(judge("50", "9000", "0.00"), Warning);
        assert_eq!(judge("900", "9000", "3.00"), Warning);
        assert_eq!(judge("", "", ""), NotObservable);
    }

    #[test]
    fn mitigations_are_counted() {
        let file = |name: &str, text: &str| File::of(&format!("/vulnerabilities/{name}"), text);
        let files = [
            file("meltdown", "Mitigation: PTI"),
            file("mds", "Vulnerable: no microcode"),
            file("l1tf", "Not affected"),
        ];
        let finding = mitigations(&files);
        assert_eq!(finding.severity, Note);
        assert_eq!(finding.title, "CPU vulnerabilities: 1 mitigated, 1 not mitigated");
        assert_eq!(finding.evidence[1].value, "Vulnerable: mds");
        assert_eq!(mitigations(&files[2..]).severity, Fine);
        assert_eq!(mitigations(&[]).severity, NotObservable);
    }
}
