//! CPU time of the whole machine, because an emulator may run in a process, in kernel threads, or in softirqs in the
//! sender's context.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Columns of /proc/stat after `cpu` (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq. Steal follows; it
/// is not time used by this machine.
const COLUMNS: usize = 7;
const IDLE: usize = 3;
const IOWAIT: usize = 4;

/// Average number of busy CPUs while `work` runs, measured from `lead` after its start for `window`. `None` if the work
/// ends before the window.
pub fn busy_during<T>(
    lead: Duration,
    window: Duration,
    work: impl FnOnce() -> T,
) -> (T, Option<f64>) {
    let (running, ended) = mpsc::channel::<()>();
    let watch = move || {
        let goes_on = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let read =
            || Some((Instant::now(), busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?));
        let (from, before) = goes_on(lead).then(read)??;
        let (to, after) = goes_on(window).then(read)??;
        let ticks = after.saturating_sub(before) as f64;
        Some(ticks / rustix::param::clock_ticks_per_second() as f64 / (to - from).as_secs_f64())
    };
    thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let done = work();
        drop(running);
        (done, watching.join().ok().flatten())
    })
}

/// Busy ticks of all CPUs since boot.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let used = ticks.get(..COLUMNS)?.iter().enumerate();
    Some(used.filter(|(place, _)| ![IDLE, IOWAIT].contains(place)).map(|(_, ticks)| ticks).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_no_work() {
        let stat = "cpu  100 20 3000 40000 5 60 700 8 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(100 + 20 + 3000 + 60 + 700));
        assert_eq!(busy_ticks("cpu  1 2 3\n"), None);
    }

    #[test]
    fn work_that_ends_within_the_window_has_no_figure() {
        let (done, busy) = busy_during(Duration::ZERO, Duration::from_secs(3600), || 7);
        assert_eq!((done, busy), (7, None));
    }
}
