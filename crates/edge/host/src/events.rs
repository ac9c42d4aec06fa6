//! Hardware and software event counts of this process: perf_event_open(2).
//!
//! A structure of 64 bytes of our own replaces a library: the crates for this interface contain its whole generated
//! header, sampling and ring buffers, and counting needs one system call.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use fabricmark_record::{EventCount, Events};
use rustix::io::Errno;

use crate::{read, sys};

/// `enum perf_type_id` of linux/perf_event.h.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// Event type and number of linux/perf_event.h.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) kind: u32,
    pub(crate) config: u64,
    /// Whether the event also happens in user mode. A context switch happens only in the kernel, so its count
    /// without the kernel would be 0.
    happens_in_user_mode: bool,
}

/// In the order in which [`EventMeter::finish`] destructures them.
const EVENTS: [Event; 6] = [
    Event { kind: HARDWARE, config: 0, happens_in_user_mode: true }, // cycles
    Event { kind: HARDWARE, config: 1, happens_in_user_mode: true }, // instructions
    Event { kind: HARDWARE, config: 3, happens_in_user_mode: true }, // cache misses
    Event { kind: SOFTWARE, config: 3, happens_in_user_mode: false }, // context switches
    Event { kind: SOFTWARE, config: 4, happens_in_user_mode: false }, // migrations
    Event { kind: SOFTWARE, config: 2, happens_in_user_mode: true }, // page faults
];

/// One event in all threads that existed at the start, or the reason that it is not counted.
struct Counter {
    threads: Result<Vec<OwnedFd>, String>,
    with_kernel: bool,
}

impl Counter {
    fn start(event: Event) -> Self {
        let (opened, with_kernel) = match open(event, true) {
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && event.happens_in_user_mode =>
            {
                (open(event, false), false)
            }
            opened => (opened, true),
        };
        Self { threads: opened.map_err(|error| reason(&error)), with_kernel }
    }

    fn finish(self) -> EventCount {
        self.threads
            .and_then(|threads| {
                let readings: io::Result<Vec<_>> = threads.into_iter().map(Reading::take).collect();
                total(&readings.map_err(|error| error.to_string())?, self.with_kernel)
            })
            .unwrap_or_else(|reason| EventCount::Absent { reason })
    }
}

fn open(event: Event, with_kernel: bool) -> io::Result<Vec<OwnedFd>> {
    let mut descriptors = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let name = entry?.file_name();
        let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match sys::count_event(event, thread, with_kernel) {
            Ok(descriptor) => descriptors.push(descriptor),
            // The thread has ended.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(descriptors)
}

/// Reason that an event is not counted (perf_event_open(2), ERRORS).
fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => "no PMU".to_owned(),
        Some(Errno::ACCESS | Errno::PERM) => {
            let level = read("/proc/sys/kernel/perf_event_paranoid");
            format!("forbidden (perf_event_paranoid={})", level.as_deref().unwrap_or("?"))
        }
        Some(Errno::NOSYS) => "this kernel has no perf events".to_owned(),
        _ => error.to_string(),
    }
}

/// Values read from a descriptor of [`sys::count_event`].
#[derive(Clone, Copy)]
struct Reading {
    count: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Reading {
    fn take(descriptor: OwnedFd) -> io::Result<Self> {
        let mut words = [[0; 8]; 3];
        fs::File::from(descriptor).read_exact(words.as_flattened_mut())?;
        let [count, enabled_ns, running_ns] = words.map(u64::from_ne_bytes);
        Ok(Self { count, enabled_ns, running_ns })
    }
}

/// Sum of the counts of all threads, each scaled from the time it was counted to the time it was enabled.
fn total(readings: &[Reading], with_kernel: bool) -> Result<EventCount, String> {
    let enabled_ns: u64 = readings.iter().map(|reading| reading.enabled_ns).sum();
    let running_ns: u64 = readings.iter().map(|reading| reading.running_ns).sum();
    if enabled_ns > 0 && running_ns == 0 {
        return Err("the PMU was busy with other events".to_owned());
    }
    let scaled = readings.iter().filter(|reading| reading.running_ns > 0).map(|reading| {
        let scale = reading.enabled_ns as f64 / reading.running_ns as f64;
        if scale > 1.0 { (reading.count as f64 * scale).round() as u64 } else { reading.count }
    });
    let running = if enabled_ns == 0 { 1.0 } else { running_ns as f64 / enabled_ns as f64 };
    Ok(EventCount::Counted { count: scaled.sum(), with_kernel, running: running.min(1.0) })
}

/// Counts all events of this process from `start` on.
pub(crate) struct EventMeter([Counter; 6]);

impl EventMeter {
    pub(crate) fn start() -> Self {
        Self(EVENTS.map(Counter::start))
    }

    pub(crate) fn finish(self) -> Events {
        let [cycles, instructions, cache_misses, context_switches, migrations, page_faults] =
            self.0.map(Counter::finish);
        Events { cycles, instructions, cache_misses, context_switches, migrations, page_faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_half_the_time_is_doubled_and_says_so() {
        let half = Reading { count: 500, enabled_ns: 2_000, running_ns: 1_000 };
        let whole = Reading { count: 7, enabled_ns: 2_000, running_ns: 2_000 };
        let EventCount::Counted { count, running, .. } = total(&[half, whole], true).unwrap()
        else {
            panic!("it was counted")
        };
        assert_eq!((count, running), (1_007, 0.75));
    }

    #[test]
    fn an_event_that_never_got_a_counter_is_absent() {
        let never = Reading { count: 0, enabled_ns: 2_000, running_ns: 0 };
        assert!(total(&[never], true).is_err());
    }

    #[test]
    fn a_machine_without_counters_says_no_pmu() {
        assert_eq!(reason(&Errno::NOENT.into()), "no PMU");
    }

    #[test]
    fn a_forbidden_event_names_the_setting() {
        let text = reason(&Errno::ACCESS.into());
        assert!(text.starts_with("forbidden (perf_event_paranoid="), "{text}");
    }
}
