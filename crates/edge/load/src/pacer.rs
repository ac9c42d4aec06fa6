//! Pacing of an open loop: waits for each intended departure, and records how late it was.

mod follow;
mod tally;

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_plan::{PaceWait, Schedule};
use fabricmark_record::Pacing;
use fabricmark_units::Nanos;
use rustix::thread::set_current_timer_slack;

use fabricmark_telemetry::clock::{now_ns, sleep_until};
pub use follow::Follow;
use tally::Tally;

/// Longest single sleep: a stop must end a wait within 5 ms, and a wake-up may itself be late.
const SLEEP_MAX_NS: u64 = 4_000_000;

/// If a thread that spins reads the clock twice this far apart, its CPU ran something else meanwhile, such as an interrupt
/// handler, another thread or another virtual machine: a turn of the loop takes less than 0.1 us (the median departure lag
/// of `measure stream loopback -u --pace fixed:70000/s --pace-wait sleep-spin` is 27 ns).
const PAUSE_NS: u64 = 1_000;

/// How a thread waits for a departure. The lateness given is the 99th percentile for a timer of 200 us with 1 ns of
/// timer slack, on 2 shared virtual CPUs under Linux 6.18.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Sleeps until the departure: little CPU load, 43 us late.
    Sleep,
    /// Sleeps until shortly before the departure, then spins: 71 ns late.
    #[default]
    SleepThenSpin,
    /// Spins all the time: 71 ns late, and occupies a CPU.
    Spin,
}

impl From<PaceWait> for Waiting {
    fn from(wait: PaceWait) -> Self {
        match wait {
            PaceWait::Sleep => Self::Sleep,
            PaceWait::SleepSpin => Self::SleepThenSpin,
            PaceWait::Spin => Self::Spin,
        }
    }
}

impl Waiting {
    /// How long before a departure the sleep ends: longer than a sleep is late.
    fn spin_ns(self) -> u64 {
        match self {
            Self::Sleep => 0,
            Self::SleepThenSpin => 60_000,
            Self::Spin => u64::MAX,
        }
    }

    /// Until when to sleep for a future departure; `None` to spin.
    fn sleep_until(self, now_ns: u64, due_ns: u64) -> Option<u64> {
        let wake_ns = due_ns.saturating_sub(self.spin_ns());
        (wake_ns > now_ns).then(|| wake_ns.min(now_ns + SLEEP_MAX_NS))
    }
}

/// Releases payloads at the departure times of a schedule.
///
/// Where the period follows a measurement, what is late postpones the rest ([`Self::follow`]). Otherwise a late departure
/// is never skipped: it happens at once, and so do the next ones until the schedule is caught up with. A rate that cannot be
/// sustained thus shows in [`Pacing`], and is not lowered silently, unless lateness is limited ([`Self::late_at_most`]).
pub struct Pacer<'a> {
    schedule: Schedule,
    waiting: Waiting,
    stop: &'a AtomicBool,
    start_ns: u64,
    /// Lateness beyond which the rest of the schedule is delayed.
    late_max: Option<Nanos>,
    /// By how much it was delayed.
    delayed_ns: u64,
    /// Next intended departure; `None` once the schedule has ended.
    due_ns: Option<u64>,
    /// Those after it that were looked at already.
    later_ns: VecDeque<u64>,
    /// When `wait` first returned `None`.
    ended_ns: Option<u64>,
    /// When the CPU last came back from something else ([`PAUSE_NS`]).
    paused_until_ns: u64,
    tally: Tally,
}

impl<'a> Pacer<'a> {
    /// Starts the schedule now, and sets the calling thread's timer slack to 1 ns: by default a sleep may end 50 us
    /// late (PR_SET_TIMERSLACK(2const)). Fails if the kernel forbids that.
    pub fn start(schedule: Schedule, waiting: Waiting, stop: &'a AtomicBool) -> io::Result<Self> {
        set_current_timer_slack(NonZero::new(1))?;
        let tally = Tally::new(schedule.interval_ns());
        let mut pacer = Self {
            schedule,
            waiting,
            stop,
            start_ns: 0,
            late_max: None,
            delayed_ns: 0,
            due_ns: None,
            later_ns: VecDeque::new(),
            ended_ns: None,
            paused_until_ns: 0,
            tally,
        };
        pacer.start_ns = now_ns();
        pacer.due_ns = pacer.next_due_ns();
        Ok(pacer)
    }

    /// Lets departures be late by at most `late_max`: the rest of the schedule is delayed by what exceeds it, so that a
    /// receiver that did not read for an hour is not sent what it missed at once. `None`, the default: without a limit.
    #[must_use]
    pub fn late_at_most(self, late_max: Option<Nanos>) -> Self {
        Self { late_max, ..self }
    }

    /// Delays what is later than it may be.
    fn delay(&mut self, now_ns: u64) {
        let (Some(late_max), Some(due_ns)) = (self.late_max, self.due_ns) else { return };
        let excess_ns = now_ns.saturating_sub(due_ns).saturating_sub(late_max.0);
        if excess_ns > 0 {
            self.delayed_ns += excess_ns;
            self.due_ns = Some(due_ns + excess_ns);
            self.later_ns.iter_mut().for_each(|later_ns| *later_ns += excess_ns);
        }
    }

    /// When the schedule started.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Waits for the next intended departure and returns its time on the clock of [`now_ns`], from which latency
    /// counts in an open loop. The caller then sends the payload at once. `None` after a stop, and at the end of the
    /// schedule.
    pub fn wait(&mut self) -> Option<u64> {
        let now_ns = self.wait_until_due()?;
        let due_ns = self.due_ns;
        self.depart(now_ns);
        due_ns
    }

    /// Waits for the next intended departure and returns the time now. The caller sends the payload, then calls
    /// [`Self::depart`]. `None` as in [`Self::wait`].
    pub fn wait_until_due(&mut self) -> Option<u64> {
        if self.waiting != Waiting::Sleep {
            self.tally.detect_pauses();
        }
        // The last reading of the clock, if the thread has only spun since.
        let mut before_ns = None;
        while let Some(due_ns) = self.next_ns() {
            let now_ns = now_ns();
            if before_ns.is_some_and(|before_ns| now_ns - before_ns > PAUSE_NS) {
                self.paused_until_ns = now_ns;
            }
            if now_ns >= due_ns {
                self.delay(now_ns);
                return Some(now_ns);
            }
            match self.sleep_until(now_ns) {
                Some(wake_ns) => {
                    sleep_until(wake_ns);
                    before_ns = None;
                }
                None => {
                    spin_loop();
                    before_ns = Some(now_ns);
                }
            }
        }
        None
    }

    /// Next intended departure; `None` after a stop, and at the end of the schedule. For callers that also wait for
    /// other events, and then call [`Self::depart`].
    pub fn next_ns(&mut self) -> Option<u64> {
        let next_ns = self.due_ns.filter(|_| !self.stop.load(Relaxed));
        if next_ns.is_none() {
            self.ended_ns.get_or_insert_with(now_ns);
        }
        next_ns
    }

    /// Number of departures that are due at `now_ns`, at most `most`. Not together with [`Self::follow`], which changes
    /// departures that are not due yet.
    pub fn due(&mut self, now_ns: u64, most: u64) -> u64 {
        if self.due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return 0;
        }
        while (self.later_ns.len() as u64) < most
            && self.later_ns.back().is_none_or(|&latest_ns| latest_ns <= now_ns)
            && let Some(next_ns) = self.scheduled_ns()
        {
            self.later_ns.push_back(next_ns);
        }
        let later = self.later_ns.iter().take_while(|&&later_ns| later_ns <= now_ns).count();
        most.min(1 + later as u64)
    }

    /// Until when to sleep before the next departure; `None` to spin or to depart.
    pub fn sleep_until(&self, now_ns: u64) -> Option<u64> {
        self.waiting.sleep_until(now_ns, self.due_ns?)
    }

    /// Changes the period of the bursts of the schedule. What is late is not caught up with: a sender that had to wait
    /// would send faster than its new rate.
    pub fn follow(&mut self, now_ns: u64, period: Nanos) {
        self.schedule.set_period(period);
        let late_ns = self.due_ns.map_or(0, |due_ns| now_ns.saturating_sub(due_ns));
        if late_ns > period.0 {
            self.schedule.postpone(Nanos(late_ns));
        }
    }

    /// Records that the next departure happened at `now_ns`.
    pub fn depart(&mut self, now_ns: u64) {
        if let Some(due_ns) = self.due_ns {
            // What was due before the pause departed before it.
            let was_paused = due_ns <= self.paused_until_ns;
            self.tally.depart(due_ns - self.start_ns, now_ns - self.start_ns, was_paused);
            self.due_ns = self.next_due_ns();
            self.delay(now_ns);
        }
    }

    /// Returns what happened until `wait` returned `None`, or until now.
    pub fn finish(self) -> Pacing {
        let ended_ns = self.ended_ns.unwrap_or_else(now_ns);
        let next_due_ns = self.due_ns.map(|due_ns| due_ns - self.start_ns);
        self.tally.finish(ended_ns - self.start_ns, next_due_ns, self.delayed_ns)
    }

    fn next_due_ns(&mut self) -> Option<u64> {
        self.later_ns.pop_front().or_else(|| self.scheduled_ns())
    }

    fn scheduled_ns(&mut self) -> Option<u64> {
        self.start_ns.checked_add(self.schedule.next_departure_ns()?)?.checked_add(self.delayed_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use fabricmark_plan::Trace;
    use fabricmark_units::{Bytes, Stream};
    use proptest::prelude::*;

    use super::*;

    fn schedule(pace: &str) -> Schedule {
        let trace = Trace::parse("1us\n2us\n").unwrap();
        let pace: fabricmark_plan::Pace = pace.parse().unwrap();
        pace.schedule(Bytes(64), Stream::new(1, "pace"), Some(trace)).unwrap().unwrap()
    }

    #[test]
    fn no_departure_is_early_whichever_way_it_waits() {
        for waiting in [Waiting::Sleep, Waiting::SleepThenSpin, Waiting::Spin] {
            let stop = AtomicBool::new(false);
            let mut pacer = Pacer::start(schedule("fixed:5000/s"), waiting, &stop).unwrap();
            let first_ns = pacer.wait().unwrap();
            for k in 1..20 {
                let due_ns = pacer.wait().unwrap();
                assert_eq!(due_ns, first_ns + k * 200_000, "{waiting:?}");
                assert!(now_ns() >= due_ns, "{waiting:?}");
            }
            let pacing = pacer.finish();
            assert_eq!((pacing.departures, pacing.slip_ns.len()), (20, 20));
            let tells_pauses = pacing.slip_without_pauses_ns.is_some();
            assert_eq!(tells_pauses, waiting != Waiting::Sleep, "{waiting:?}");
            assert!(pacing.elapsed_ns >= 19 * 200_000);
        }
    }

    #[test]
    fn late_departures_follow_at_once_and_are_counted() {
        let stop = AtomicBool::new(false);
        let mut pacer =
            Pacer::start(schedule("fixed:1000/s"), Waiting::SleepThenSpin, &stop).unwrap();
        let first_ns = pacer.wait().unwrap();
        // The sender is busy until five and a half departures are due.
        while now_ns() < first_ns + 5_500_000 {}
        for k in 1..=5 {
            assert_eq!(pacer.wait(), Some(first_ns + k * 1_000_000));
        }
        let pacing = pacer.finish();
        assert_eq!(pacing.departures, 6);
        // Those due at 1, 2, 3 and 4 ms left at 5.5 ms at the earliest.
        assert!(pacing.late >= 4, "{}", pacing.late);
        assert!(pacing.slip_ns.max() >= Some(4_500_000));
        // A sender that is busy itself is no pause of the machine.
        let own = pacing.slip_without_pauses_ns.unwrap();
        assert!(own.max() >= Some(4_500_000), "{own:?}");
    }

    #[test]
    fn what_is_later_than_it_may_be_delays_the_rest_of_the_schedule() {
        let stop = AtomicBool::new(false);
        let late_max = Nanos::from_millis(2);
        let pacer = Pacer::start(schedule("fixed:1000/s"), Waiting::Spin, &stop).unwrap();
        let mut pacer = pacer.late_at_most(Some(late_max));
        let first_ns = pacer.wait().unwrap();
        while now_ns() < first_ns + 20_000_000 {}
        let before_ns = now_ns();
        let due_ns = pacer.wait().unwrap();
        assert!((before_ns..=now_ns()).contains(&(due_ns + late_max.0)), "{due_ns} {before_ns}");
        // At the rate again, unless this thread pauses.
        let next_ns = pacer.wait().unwrap();
        assert!(next_ns >= due_ns + 1_000_000, "{due_ns} {next_ns}");
        let pacing = pacer.finish();
        assert!(pacing.slip_ns.max() <= Some(late_max.0 + late_max.0 / 16));
        // Three departures of the schedule.
        assert_eq!((pacing.departures, pacing.covered_ns), (3, 3_000_000));
    }

    #[test]
    fn what_is_due_is_counted_up_to_a_limit_and_departs_once() {
        let stop = AtomicBool::new(false);
        let mut pacer = Pacer::start(schedule("burst:640/1h"), Waiting::Spin, &stop).unwrap();
        let now_ns = pacer.wait_until_due().unwrap();
        assert_eq!(pacer.due(pacer.start_ns() - 1, 64), 0);
        assert_eq!([pacer.due(now_ns, 4), pacer.due(now_ns, 64), pacer.due(now_ns, 1)], [4, 10, 1]);
        for left in (0..10).rev() {
            pacer.depart(now_ns);
            assert_eq!(pacer.due(now_ns, 64), left);
        }
        assert_eq!(pacer.next_ns(), Some(pacer.start_ns() + 3_600_000_000_000));
        assert_eq!(pacer.finish().departures, 10);
    }

    #[test]
    fn a_stop_ends_a_wait_of_an_hour_in_every_way_of_waiting() {
        for waiting in [Waiting::Sleep, Waiting::SleepThenSpin, Waiting::Spin] {
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let (begun, wait) = std::sync::mpsc::channel();
                let stop = &stop;
                let pacer = scope.spawn(move || {
                    let mut pacer = Pacer::start(schedule("burst:64/1h"), waiting, stop).unwrap();
                    begun.send(pacer.wait()).unwrap();
                    (pacer.wait(), pacer.wait(), pacer.finish())
                });
                assert!(wait.recv().unwrap().is_some());
                stop.store(true, Relaxed);
                let (stopped, again, pacing) = pacer.join().unwrap();
                assert_eq!((stopped, again), (None, None));
                assert_eq!(pacing.departures, 1);
                assert!(pacing.is_held());
            });
        }
    }

    #[test]
    fn a_schedule_that_ends_ends_the_loop() {
        let stop = AtomicBool::new(false);
        let mut pacer = Pacer::start(schedule("trace:file"), Waiting::Spin, &stop).unwrap();
        assert!(pacer.wait().is_some() && pacer.wait().is_some());
        assert_eq!(pacer.wait(), None);
        assert_eq!(pacer.finish().departures, 2);
    }

    #[test]
    fn a_sleep_ends_60_us_before_the_departure() {
        let until = |waiting: Waiting, now_ns| waiting.sleep_until(now_ns, 1_000_000);
        assert_eq!(until(Waiting::SleepThenSpin, 0), Some(940_000));
        assert_eq!(until(Waiting::SleepThenSpin, 940_000), None);
        assert_eq!(until(Waiting::Sleep, 940_000), Some(1_000_000));
        assert_eq!(until(Waiting::Spin, 0), None);
    }

    proptest! {
        #[test]
        fn no_sleep_outlasts_the_departure_or_the_patience_of_a_stop(now in 0u64..1 << 60, to_come in 1u64..1 << 60) {
            for waiting in [Waiting::Sleep, Waiting::SleepThenSpin, Waiting::Spin] {
                if let Some(wake_ns) = waiting.sleep_until(now, now + to_come) {
                    prop_assert!(now < wake_ns && wake_ns <= now + to_come.min(SLEEP_MAX_NS));
                }
            }
        }
    }
}
