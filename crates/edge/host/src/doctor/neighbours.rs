//! Other processes that use the CPUs.

use std::thread;
use std::time::{Duration, Instant};

use super::finding::{Check, Evidence, Finding};
use super::tree::{File, Tree};
use crate::stat::{CpuTimes, Process, cpus_online};

pub(super) const BUSY_PROCESSES: Check = Check {
    name: "busy-processes",
    why: "A run keeps two CPUs busy, one for each end. Other processes on them delay packets.",
};

pub(super) const LOAD_AVERAGE: Check = Check {
    name: "load-average",
    why: "The load of the last minute predicts the load of the next one.",
};

pub(super) const CPU_PRESSURE: Check =
    Check { name: "cpu-pressure", why: "While a process waits for a CPU, its packets wait, too." };

/// Threads that a run keeps busy: one at each end.
const LOAD_THREADS: f64 = 2.0;

/// Busy CPUs that are not reported: a sample of 100 ms has ten ticks, and taking it costs one.
const BUSY_FINE: f64 = 0.25;

/// Highest load average that is not reported: that of a machine with occasional activity.
const LOAD_FINE: f64 = 0.5;

/// Highest CPU pressure that is not reported, in percent: the tie band of throughput comparisons
/// (docs/statistics.md).
const PRESSURE_FINE: f64 = 2.0;

/// CPU use of the machine during a short interval.
struct Sample {
    seconds: f64,
    /// Ticks per second.
    hertz: f64,
    /// /proc/stat at the beginning and the end.
    stat: [File; 2],
    /// Processes at the beginning and the end, without this one.
    processes: [Vec<Process>; 2],
}

/// Takes two samples, `interval` apart, and judges them.
pub(super) fn examine(tree: &Tree, interval: Duration) -> Vec<Finding> {
    let began = Instant::now();
    let (stat, before) = (tree.file("/proc/stat"), processes(tree));
    thread::sleep(interval);
    let sample = Sample {
        seconds: began.elapsed().as_secs_f64(),
        hertz: rustix::param::clock_ticks_per_second() as f64,
        stat: [stat, tree.file("/proc/stat")],
        processes: [before, processes(tree)],
    };
    let cpus = cpus_online(sample.stat[1].text().unwrap_or_default());
    vec![
        busy_processes(&sample),
        load_average(&tree.file("/proc/loadavg"), cpus),
        cpu_pressure(&tree.file("/proc/pressure/cpu")),
    ]
}

/// All processes except this one.
pub(super) fn processes(tree: &Tree) -> Vec<Process> {
    let own = std::process::id();
    let files = tree.files("/proc/*/stat");
    let processes = files.iter().filter_map(|file| Process::parse(file.text()?));
    processes.filter(|process| process.pid != own).collect()
}

/// Judges the busy time of all CPUs, and names the busiest processes visible in this PID namespace.
fn busy_processes(sample: &Sample) -> Finding {
    let [before, after] = sample.stat.each_ref().map(|file| CpuTimes::of_all(file.text()?));
    let (Some(before), Some(after)) = (before, after) else {
        return BUSY_PROCESSES
            .found(Evidence::new("/proc/stat", "no line `cpu` with times"))
            .not_observable("Busy processes: /proc/stat has no line `cpu`");
    };
    let of_a_cpu = |ticks: u64| ticks as f64 / sample.hertz / sample.seconds.max(0.001);
    let busy = of_a_cpu(after.busy.saturating_sub(before.busy));
    let cpus = cpus_online(sample.stat[1].text().unwrap_or_default()) as f64;
    let millis = 1000.0 * sample.seconds;
    let names: Vec<String> = busiest(&sample.processes)
        .iter()
        .map(|(process, ticks)| {
            format!("{} (pid {}) {:.1}", process.name, process.pid, of_a_cpu(*ticks))
        })
        .collect();
    let names = if names.is_empty() { "none visible".to_owned() } else { names.join(", ") };
    let found = BUSY_PROCESSES
        .found(Evidence::new(format!("/proc/stat over {millis:.0} ms"), format!("{busy:.1} CPUs")))
        .found(Evidence::new(format!("/proc/*/stat over {millis:.0} ms"), names));
    let title = format!("Other processes use {busy:.1} of {cpus} CPUs");
    if busy < BUSY_FINE {
        found.fine("The CPUs are idle")
    } else if busy + LOAD_THREADS > cpus {
        found.problem(title)
    } else {
        found.warning(title)
    }
}

/// The three processes with the most ticks between two samples; a new process counts from 0.
fn busiest([before, after]: &[Vec<Process>; 2]) -> Vec<(&Process, u64)> {
    let ticks_before = |process: &Process| {
        let same = |other: &&Process| other.pid == process.pid && other.name == process.name;
        before.iter().find(same).map_or(0, |other| other.ticks)
    };
    let mut busy: Vec<(&Process, u64)> = after
        .iter()
        .map(|process| (process, process.ticks.saturating_sub(ticks_before(process))))
        .filter(|(_, ticks)| *ticks > 0)
        .collect();
    busy.sort_by_key(|(process, ticks)| (std::cmp::Reverse(*ticks), process.pid));
    busy.truncate(3);
    busy
}

/// Judges `1 min, 5 min, 15 min, runnable/all, last pid` (proc_loadavg(5)). The runnable tasks include this process.
fn load_average(file: &File, cpus: usize) -> Finding {
    let found = LOAD_AVERAGE.found(file);
    let load: Option<f64> =
        file.text().and_then(|text| text.split_whitespace().next()?.parse().ok());
    let Some(load) = load.filter(|load| load.is_finite()) else {
        return found.not_observable("Load average: cannot be read");
    };
    let title = format!("The load average of the last minute is {load:.2} on {cpus} CPUs");
    let is_high = load > LOAD_FINE && load + LOAD_THREADS > cpus as f64;
    if is_high { found.warning(title) } else { found.fine(title) }
}

/// Judges `some avg10=...` (Documentation/accounting/psi.rst in the kernel).
fn cpu_pressure(file: &File) -> Finding {
    let Some(share) = some_avg10(file) else {
        return CPU_PRESSURE
            .found(file)
            .not_observable("CPU pressure: not reported by the kernel (boot option psi=1)");
    };
    let title = format!("Processes waited for a CPU in {share:.1} % of the last 10 s");
    let found = CPU_PRESSURE.found(first_line(file));
    if share >= PRESSURE_FINE { found.warning(title) } else { found.fine(title) }
}

/// Share of the last ten seconds in which at least one task waited, in percent.
pub(super) fn some_avg10(file: &File) -> Option<f64> {
    let line = file.text()?.lines().find_map(|line| line.strip_prefix("some "))?;
    let word = line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
    word.parse().ok().filter(|share: &f64| share.is_finite())
}

pub(super) fn first_line(file: &File) -> Evidence {
    let mut evidence = Evidence::from(file);
    evidence.value = evidence.value.lines().next().unwrap_or_default().to_owned();
    evidence
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity::{Fine, NotObservable, Problem, Warning};
    use super::*;

    fn process(pid: u32, name: &str, ticks: u64) -> Process {
        Process { pid, name: name.to_owned(), ticks }
    }

    fn sample(cpus: usize, ticks: u64) -> Sample {
        let lines: String = (0..cpus).map(|cpu| format!("cpu{cpu} 0\n")).collect();
        let stat =
            |busy: u64| File::of("/proc/stat", &format!("cpu  {busy} 0 0 99 0 0 0 0\n{lines}"));
        let before = vec![process(1, "init", 100), process(7, "cc", 50), process(8, "ld", 5)];
        let after = vec![
            process(1, "init", 100),
            process(7, "cc", 57),
            process(8, "ld", 6),
            process(9, "as", 2),
            process(10, "sh", 1),
        ];
        Sample {
            seconds: 0.1,
            hertz: 100.0,
            stat: [stat(1000), stat(1000 + ticks)],
            processes: [before, after],
        }
    }

    #[test]
    fn neighbours_spoil_when_they_leave_less_than_two_processors() {
        assert_eq!(busy_processes(&sample(2, 11)).severity, Problem);
        assert_eq!(busy_processes(&sample(4, 11)).severity, Warning);
        assert_eq!(busy_processes(&sample(2, 2)).severity, Fine);
        let finding = busy_processes(&sample(4, 11));
        assert_eq!(finding.title, "Other processes use 1.1 of 4 CPUs");
        assert_eq!(finding.evidence[1].value, "cc (pid 7) 0.7, as (pid 9) 0.2, ld (pid 8) 0.1");
    }

    #[test]
    fn load_matters_when_it_leaves_less_than_two_processors() {
        let judge =
            |text: &str, cpus| load_average(&File::of("/proc/loadavg", text), cpus).severity;
        assert_eq!(judge("1.20 0.55 0.73 2/88 18083", 2), Warning);
        assert_eq!(judge("1.20 0.55 0.73 2/88 18083", 8), Fine);
        assert_eq!(judge("0.40 0.55 0.73 2/88 18083", 2), Fine);
        assert_eq!(judge("NaN", 2), NotObservable);
    }

    #[test]
    fn pressure_is_read_from_the_last_ten_seconds() {
        let judge = |text: &str| cpu_pressure(&File::of("/proc/pressure/cpu", text)).severity;
        let line =
            |share| format!("some avg10={share} avg60=9.00 avg300=9.00 total=1\nfull avg10=0");
        assert_eq!(judge(&line("0.22")), Fine);
        assert_eq!(judge(&line("12.50")), Warning);
        assert_eq!(judge("full avg10=1"), NotObservable);
    }
}
