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

/// Time so far in which the calling thread was ready to run but waited for a CPU: the second number of
/// `/proc/thread-self/schedstat` (Documentation/scheduler/sched-stats.rst). `None` if the kernel has no scheduler
/// statistics, or prints zeros since they are off.
pub fn thread_run_delay_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let cpu_ns: u64 = numbers.next()?.ok()?;
    numbers.next()?.ok().filter(|_| cpu_ns > 0)
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
    fn the_clock_says_its_name_and_what_a_reading_costs() {
        let facts = facts();
        assert_eq!((facts.name.as_str(), facts.uncertainty_ppm), ("CLOCK_MONOTONIC", None));
        assert!(facts.read_cost_ns > 0.0);
    }
}
