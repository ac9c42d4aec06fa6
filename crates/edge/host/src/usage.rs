//! Resources that a run uses on this machine, between two readings.

use std::time::Instant;

use fabricmark_record::{ProcessUsage, Usage};
use rustix::time::{ClockId, clock_gettime};

use crate::quota::{self, Throttled};
use crate::stat::{self, Ticks};
use crate::{read, sys};

/// Reads resource usage from `start` to `finish`. Each call takes about 0.3 ms and must be outside of the measured
/// time.
pub struct UsageMeter {
    began: Instant,
    process: ProcessUsage,
    ticks: Ticks,
    throttled: Throttled,
}

impl UsageMeter {
    /// Starts the readings. Perf events are not counted: they cost time at each context switch
    /// (docs/notebook/measured.md, Overhead of the program).
    pub fn start() -> Self {
        let throttled = quota::throttled();
        Self { began: Instant::now(), process: process(), ticks: ticks(), throttled }
    }

    /// Usage since `start`.
    pub fn finish(self) -> Usage {
        let (now, ticks) = (process(), ticks());
        Usage {
            elapsed_ns: self.began.elapsed().as_nanos() as u64,
            process: since(&self.process, &now),
            machine: stat::usage(&self.ticks, &ticks),
            throttled_ns: quota::throttled_ns(&self.throttled, &quota::throttled()),
        }
    }
}

fn ticks() -> Ticks {
    stat::parse(&read("/proc/stat").unwrap_or_default())
}

/// Usage of this process since it began.
fn process() -> ProcessUsage {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let resources = sys::resources();
    ProcessUsage {
        cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
        user_ns: sys::nanoseconds(resources.ru_utime),
        system_ns: sys::nanoseconds(resources.ru_stime),
        voluntary_switches: resources.ru_nvcsw as u64,
        involuntary_switches: resources.ru_nivcsw as u64,
        minor_faults: resources.ru_minflt as u64,
        major_faults: resources.ru_majflt as u64,
        max_rss_bytes: resources.ru_maxrss as u64 * 1024,
    }
}

fn since(before: &ProcessUsage, now: &ProcessUsage) -> ProcessUsage {
    ProcessUsage {
        cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
        user_ns: now.user_ns.saturating_sub(before.user_ns),
        system_ns: now.system_ns.saturating_sub(before.system_ns),
        voluntary_switches: now.voluntary_switches.saturating_sub(before.voluntary_switches),
        involuntary_switches: now.involuntary_switches.saturating_sub(before.involuntary_switches),
        minor_faults: now.minor_faults.saturating_sub(before.minor_faults),
        major_faults: now.major_faults.saturating_sub(before.major_faults),
        max_rss_bytes: now.max_rss_bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Busy-waits until the process has used `length_ns` more CPU time.
    fn work_ns(length_ns: u64) {
        let began = process().cpu_ns;
        while process().cpu_ns - began < length_ns {
            black_box(0u64);
        }
    }

    #[test]
    fn processor_time_of_all_threads_is_counted() {
        const WORK_NS: u64 = 30_000_000;
        let meter = UsageMeter::start();
        thread::spawn(|| work_ns(WORK_NS)).join().unwrap();
        let usage = meter.finish();
        assert!(usage.process.cpu_ns >= WORK_NS, "{usage:?}");
        assert!(usage.process.max_rss_bytes > 0);
    }

    #[test]
    fn every_processor_of_this_machine_has_ticked() {
        let ticks = ticks();
        assert!(!ticks.is_empty());
        assert!(ticks.values().all(|columns| columns.iter().sum::<u64>() > 0), "{ticks:?}");
    }

    #[test]
    fn pages_that_are_touched_for_the_first_time_are_faults() {
        const PAGES: usize = 1_000;
        let meter = UsageMeter::start();
        let mut memory = vec![0u8; PAGES * 4096];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        black_box(&memory);
        let usage = meter.finish();
        // One fault maps 512 pages if they are a huge page.
        assert!(usage.process.minor_faults >= PAGES as u64 / 512, "{usage:?}");
    }

    #[test]
    fn a_thread_that_waits_switches_voluntarily() {
        const TURNS: u64 = 50;
        let meter = UsageMeter::start();
        let (to, here) = mpsc::sync_channel::<()>(0);
        thread::scope(|scope| {
            scope.spawn(move || here.iter().for_each(drop));
            (0..TURNS).for_each(|_| to.send(()).unwrap());
            drop(to);
        });
        let usage = meter.finish();
        assert!(usage.process.voluntary_switches > 0, "{usage:?}");
    }
}
