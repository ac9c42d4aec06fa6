//! The clock of the data plane.
//!
//! [`now_ns`] reads CLOCK_MONOTONIC through the vDSO, in 21 ns on the machine of `docs/notebook/measured.md`. Every
//! hot loop uses it. [`facts`] measures what a reading costs.

use std::fs;
use std::hint::black_box;
use std::sync::LazyLock;

use fabricmark_record::ClockFacts;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The first reading in this process.
static START_NS: LazyLock<u64> = LazyLock::new(|| read_ns(ClockId::Monotonic));

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC, which is the same for all processes of a machine (clock_gettime(2)).
pub fn machine_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// CPU time of all threads of this process so far, in user and in kernel mode.
pub fn process_cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread so far, in user and in kernel mode.
pub fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Run delay of the calling thread so far: time on a run queue, waiting for a CPU (the second number of
/// `/proc/thread-self/schedstat`, Documentation/scheduler/sched-stats.rst). `None` if the kernel does not count it; it may
/// then print zeros.
pub fn thread_run_delay_ns() -> Option<u64> {
    run_delay_ns(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The text has CPU time, run delay and how often the thread was given a CPU, which is not 0 for a thread that runs.
fn run_delay_ns(schedstat: &str) -> Option<u64> {
    let numbers = schedstat.split_ascii_whitespace().map(str::parse);
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
    let [_, run_delay_ns, 1..=u64::MAX] = numbers[..] else { return None };
    Some(run_delay_ns)
}

/// Nanoseconds since the first reading in this process.
pub fn now_ns() -> u64 {
    // The start is read first, so that the present is never before it.
    let start_ns = *START_NS;
    read_ns(ClockId::Monotonic) - start_ns
}

/// Sleeps until `now_ns` reaches a time, or a signal arrives. How late the thread wakes up depends on its timer slack
/// and on the scheduler (clock_nanosleep(2)).
pub fn sleep_until(at_ns: u64) {
    sleep_until_machine_time(at_ns.saturating_add(*START_NS));
}

/// As [`sleep_until`], until [`machine_ns`] reaches a time.
pub fn sleep_until_machine_time(at_ns: u64) {
    let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    let at = Timespec { tv_sec: seconds as i64, tv_nsec: ns as i64 };
    // EINTR is the only error of a valid time on this clock.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}

/// Name of the clock, and the cost of a reading, measured once per process in less than a millisecond.
pub fn facts() -> ClockFacts {
    static FACTS: LazyLock<ClockFacts> = LazyLock::new(|| ClockFacts {
        name: "CLOCK_MONOTONIC".to_owned(),
        read_cost_ns: read_cost_ns(),
        uncertainty_ppm: None,
    });
    FACTS.clone()
}

/// The median of batches, so that a batch in which the thread was preempted does not count.
fn read_cost_ns() -> f64 {
    const BATCHES: usize = 31;
    const READINGS: u64 = 500;
    let mut batches = [0; BATCHES];
    for batch in &mut batches {
        let began = now_ns();
        for _ in 0..READINGS {
            black_box(now_ns());
        }
        *batch = now_ns() - began;
    }
    batches.sort_unstable();
    batches[BATCHES / 2] as f64 / READINGS as f64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use fabricmark_testkit::skip;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    fn a_sleep_does_not_end_early_and_a_past_one_ends_at_once() {
        let until = now_ns() + 1_000_000;
        sleep_until(0);
        while now_ns() < until {
            sleep_until(until);
        }
        assert!(now_ns() >= until);
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut last = now_ns();
        for _ in 0..200_000 {
            let now = now_ns();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }

    #[test]
    fn a_run_delay_that_is_not_counted_is_unknown() {
        assert_eq!(run_delay_ns("193311 3802276 3\n"), Some(3_802_276));
        // A thread that has just been given its first CPU.
        assert_eq!(run_delay_ns("0 0 1\n"), Some(0));
        for text in ["0 0 0\n", "", "1 2", "a b c"] {
            assert_eq!(run_delay_ns(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_thread_that_shares_its_cpu_waits_for_it() {
        const WORK_NS: u64 = 50_000_000;
        if thread_run_delay_ns().is_none() {
            return skip(
                "a_thread_that_shares_its_cpu_waits_for_it",
                "the kernel counts no run delay",
            );
        }
        let mut one = CpuSet::new();
        one.set(
            (0..CpuSet::MAX_CPU).find(|&cpu| sched_getaffinity(None).unwrap().is_set(cpu)).unwrap(),
        );
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                sched_setaffinity(None, &one).unwrap();
                while !is_done.load(Relaxed) {
                    black_box(());
                }
            });
            let delay_ns = scope.spawn(|| {
                sched_setaffinity(None, &one).unwrap();
                let before_ns = thread_run_delay_ns().unwrap();
                while thread_cpu_ns() < WORK_NS {}
                is_done.store(true, Relaxed);
                thread_run_delay_ns().unwrap() - before_ns
            });
            // Each has the CPU for about half of the time.
            let delay_ns = delay_ns.join().unwrap();
            assert!(delay_ns > WORK_NS / 4, "{delay_ns} of {WORK_NS}");
        });
    }

    #[test]
    fn the_clock_says_its_name_and_what_a_reading_costs() {
        let facts = facts();
        assert_eq!((facts.name.as_str(), facts.uncertainty_ppm), ("CLOCK_MONOTONIC", None));
        assert!(facts.read_cost_ns > 0.0);
    }
}
