//! Interrupts a load thread in a blocking call, so that it checks its orders.
//!
//! This takes a signal, because a socket timeout costs too much: the kernel sets a timer for it in each call that
//! sleeps. Without the timeout, TCP request/response of 64 B over loopback completes 1.09 [1.05, 1.13] times as many
//! transactions (20 pairs of 0.7 s). A signal that arrives between check and call has no effect, so it is repeated
//! until the thread has left its pattern.

/// Interval at which a waiting thread checks its orders, and the longest pause between two interrupts of a blocked one.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Pause before an interrupt is repeated; it doubles up to [`LOOK_EVERY`]. A thread that was about to block when the
/// first signal arrived is blocked by then.
const REPEAT_AFTER: Duration = Duration::from_micros(200);

#[expect(unsafe_code, reason = "handling and sending a signal")]
mod sys;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::thread::{Pid, gettid};

/// State shared by the load threads of a run, the clock thread beside them, and the threads that give orders.
#[derive(Debug, Default)]
pub(crate) struct Interrupter {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The load threads whose calls may block at the moment.
    blockers: Vec<Blocker>,
    /// Duration of a run that starts when the clock thread sees this. On a busy machine that may be late, but then
    /// the load thread has hardly started, either.
    begins: Option<Duration>,
    /// When the time of the run is over.
    ends: Option<Instant>,
    has_orders: bool,
    has_left: bool,
    /// The load thread of a run that starts and ends together with others, until it has ended.
    aligned: Option<Pid>,
    /// Its scheduling before it got real-time priority, while it has that.
    before: Option<sys::Scheduling>,
    /// When it loses the real-time priority that it has after the end of its run.
    priority_ends: Option<Instant>,
}

#[derive(Debug)]
struct Blocker {
    thread: Pid,
    /// How often it is to be interrupted without orders; `None` for never.
    look_every: Option<Duration>,
    /// When it is to be interrupted next, if there are orders or it wants to look.
    next: Instant,
    /// Pause after the next interrupt.
    repeat_after: Duration,
}

impl Interrupter {
    /// Starts the time of the run.
    pub(crate) fn begin(&self, duration: Duration) {
        self.tell(|state| state.begins = Some(duration));
    }

    /// Gives the calling thread real-time priority until [`Self::started`], and again from the end of the run until
    /// [`Self::ended`]: its run starts and ends together with others.
    pub(crate) fn start_together(&self) {
        self.lock().raise_priority(gettid());
    }

    /// Sets the end of the run.
    pub(crate) fn end_at(&self, at: Instant) {
        self.tell(|state| state.ends = Some(at));
    }

    /// Reports that the load thread has started.
    pub(crate) fn started(&self) {
        self.lock().restore_priority();
    }

    /// Reports that the load thread has ended, although it may still wait for the other end.
    pub(crate) fn ended(&self) {
        let mut state = self.lock();
        state.restore_priority();
        state.aligned = None;
    }

    /// Lets the run continue beyond its time.
    pub(crate) fn hold(&self) {
        self.tell(|state| (state.begins, state.ends) = (None, None));
    }

    /// Announces orders. They stay pending until forgotten, or until the load thread leaves.
    pub(crate) fn order(&self) {
        self.tell(|state| state.order(Instant::now()));
    }

    /// Withdraws the orders given so far.
    pub(crate) fn forget_orders(&self) {
        self.lock().has_orders = false;
    }

    /// Declares that calls of this thread may block indefinitely, until the result is dropped. A blocked call ends
    /// with [`io::ErrorKind::Interrupted`] repeatedly while orders are pending, and every `look_every` without
    /// orders.
    pub(crate) fn block(&self, look_every: Option<Duration>) -> io::Result<Blocking<'_>> {
        sys::heed()?;
        let next = Instant::now() + look_every.unwrap_or(REPEAT_AFTER);
        let (thread, repeat_after) = (gettid(), REPEAT_AFTER);
        let blocker = Blocker { thread, look_every, next, repeat_after };
        self.tell(|state| state.blockers.push(blocker));
        Ok(Blocking(self))
    }

    /// Whether blocked calls of this thread are interrupted.
    pub(crate) fn interrupts_this_thread(&self) -> bool {
        let thread = gettid();
        self.lock().blockers.iter().any(|blocker| blocker.thread == thread)
    }

    /// Returns a guard; when it is dropped, the load thread has left.
    pub(crate) fn leaving(&self) -> Leaving<'_> {
        Leaving(self)
    }

    /// Clock of the run: sets `stop` when its time is over, and interrupts the load thread until that has left. In a run
    /// that ends together with others neither the clock nor the end of the load thread waits for their load threads.
    pub(crate) fn keep_time(&self, stop: &AtomicBool, ends_together: bool) {
        let _real_time = ends_together.then(RealTime::begin);
        let mut state = self.lock();
        while !state.has_left {
            let now = Instant::now();
            if let Some(duration) = state.begins.take() {
                state.ends = Some(now + duration);
            }
            if state.ends.take_if(|ends| *ends <= now).is_some() {
                stop.store(true, Relaxed);
                if let Some(thread) = state.aligned {
                    state.raise_priority(thread);
                    state.priority_ends = Some(now + PRIORITY_FOR);
                }
                state.order(now);
            }
            if state.priority_ends.take_if(|ends| *ends <= now).is_some() {
                state.restore_priority();
            }
            let next = [state.ends, state.priority_ends, state.interrupt(now)];
            let next = next.into_iter().flatten().min();
            let pause = next.map_or(Duration::MAX, |next| next - now);
            let waited = self.news.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell(&self, news: impl FnOnce(&mut State)) {
        news(&mut self.lock());
        self.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives a load thread real-time priority.
    fn raise_priority(&mut self, thread: Pid) {
        self.aligned = Some(thread);
        self.before.get_or_insert_with(|| sys::scheduling(Some(thread)));
        sys::set_scheduling(Some(thread), REAL_TIME);
    }

    /// Ends the real-time priority of the load thread.
    fn restore_priority(&mut self) {
        if let Some(before) = self.before.take() {
            sys::set_scheduling(self.aligned, before);
        }
    }

    /// Makes the next interrupt due at once.
    fn order(&mut self, now: Instant) {
        self.has_orders = true;
        for blocker in &mut self.blockers {
            (blocker.next, blocker.repeat_after) = (now, REPEAT_AFTER);
        }
    }

    /// Interrupts the load threads for which that is due; returns when the next one is due.
    fn interrupt(&mut self, now: Instant) -> Option<Instant> {
        let has_orders = self.has_orders;
        self.blockers.iter_mut().filter_map(|blocker| blocker.interrupt(now, has_orders)).min()
    }
}

impl Blocker {
    /// Interrupts the thread if that is due; returns when it is due again.
    fn interrupt(&mut self, now: Instant, has_orders: bool) -> Option<Instant> {
        let every = if has_orders { self.repeat_after } else { self.look_every? };
        if now >= self.next {
            // The thread still exists: it deregisters under the lock of its state before it leaves.
            sys::interrupt(self.thread);
            self.next = now + every;
            self.repeat_after = (2 * self.repeat_after).min(LOOK_EVERY);
        }
        Some(self.next)
    }
}

/// The lowest real-time priority: the thread runs as soon as it is woken up, before load threads on the same CPU
/// (SCHED_FIFO, sched(7)). Without CAP_SYS_NICE it is not set, and threads that share a CPU start up to some
/// milliseconds apart.
const REAL_TIME: sys::Scheduling = sys::Scheduling { policy: libc::SCHED_FIFO, priority: 1 };

/// The priority of the clock thread, which preempts a load thread that spins on the same CPU.
const CLOCK: sys::Scheduling = sys::Scheduling { priority: REAL_TIME.priority + 1, ..REAL_TIME };

/// How long a load thread keeps that priority after the end of its run, so that one that spins until its peer answers does
/// not occupy its CPU. An arbitrary choice: senders stop within 0.1 ms of each other.
const PRIORITY_FOR: Duration = Duration::from_millis(10);

/// While this exists, its thread has real-time priority.
#[must_use]
struct RealTime {
    before: sys::Scheduling,
}

impl RealTime {
    fn begin() -> Self {
        let before = sys::scheduling(None);
        sys::set_scheduling(None, CLOCK);
        Self { before }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        sys::set_scheduling(None, self.before);
    }
}

/// While this exists, its thread may be interrupted.
#[must_use]
pub(crate) struct Blocking<'a>(&'a Interrupter);

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        let thread = gettid();
        self.0.tell(|state| state.blockers.retain(|blocker| blocker.thread != thread));
    }
}

/// While this exists, the clock of the run continues.
#[must_use]
pub(crate) struct Leaving<'a>(&'a Interrupter);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.tell(|state| {
            state.has_left = true;
            state.restore_priority();
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;

    use super::*;

    /// The error that a receiver without a sender gets, and whether the run was stopped by then.
    fn interrupted(
        look_every: Option<Duration>,
        tell: impl FnOnce(&Interrupter),
    ) -> (io::ErrorKind, bool) {
        let (interrupter, stop) = (Interrupter::default(), AtomicBool::new(false));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| interrupter.keep_time(&stop, false));
            let _left = interrupter.leaving();
            let _blocking = interrupter.block(look_every).unwrap();
            tell(&interrupter);
            let error = socket.recv(&mut [0]).unwrap_err();
            (error.kind(), stop.load(Relaxed))
        })
    }

    #[test]
    fn an_order_interrupts_a_blocked_receiver() {
        assert_eq!(interrupted(None, Interrupter::order), (io::ErrorKind::Interrupted, false));
    }

    #[test]
    fn an_order_interrupts_each_thread_that_blocks() {
        let (interrupter, stop) = (Interrupter::default(), AtomicBool::new(false));
        let receive = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let _blocking = interrupter.block(None).unwrap();
            socket.recv(&mut [0]).unwrap_err().kind()
        };
        thread::scope(|scope| {
            scope.spawn(|| interrupter.keep_time(&stop, false));
            let _left = interrupter.leaving();
            let threads = [scope.spawn(receive), scope.spawn(receive)];
            interrupter.order();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), io::ErrorKind::Interrupted);
            }
        });
    }

    #[test]
    fn orders_interrupt_at_once_and_again_after_pauses_that_double() {
        let interrupter = Interrupter::default();
        let _blocking = interrupter.block(None).unwrap();
        assert_eq!(interrupter.lock().interrupt(Instant::now()), None);
        interrupter.order();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let next = interrupter.lock().interrupt(now).unwrap();
            pauses.push((next - now).as_micros());
            now = next;
        }
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn an_order_given_at_the_end_of_a_run_is_due_at_that_moment() {
        let interrupter = Interrupter::default();
        let _blocking = interrupter.block(None).unwrap();
        let now = Instant::now();
        let mut state = interrupter.lock();
        state.order(now);
        assert_eq!(state.interrupt(now), Some(now + REPEAT_AFTER));
    }

    #[test]
    fn the_end_of_the_run_stops_it_and_interrupts_a_blocked_receiver() {
        let begin = |interrupter: &Interrupter| interrupter.begin(Duration::from_millis(1));
        assert_eq!(interrupted(None, begin), (io::ErrorKind::Interrupted, true));
    }

    /// Without CAP_SYS_NICE the scheduling does not change at all.
    #[test]
    fn a_load_thread_has_its_scheduling_again_after_a_run_that_ended_together() {
        let before = sys::scheduling(None);
        let (interrupter, stop) = (Interrupter::default(), AtomicBool::new(false));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| interrupter.keep_time(&stop, true));
            let _left = interrupter.leaving();
            let _blocking = interrupter.block(None).unwrap();
            interrupter.start_together();
            interrupter.end_at(Instant::now() + Duration::from_millis(1));
            interrupter.started();
            assert_eq!(sys::scheduling(None), before);
            socket.recv(&mut [0]).unwrap_err();
            interrupter.ended();
            assert_eq!(sys::scheduling(None), before);
        });
        assert_eq!(sys::scheduling(None), before);
    }

    /// Without CAP_SYS_NICE the scheduling does not change at all.
    #[test]
    fn a_load_thread_that_goes_on_after_its_run_has_its_scheduling_again() {
        let before = sys::scheduling(None);
        let (interrupter, stop) = (Interrupter::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| interrupter.keep_time(&stop, true));
            let _left = interrupter.leaving();
            interrupter.start_together();
            interrupter.started();
            interrupter.end_at(Instant::now());
            while !stop.load(Relaxed) {
                thread::yield_now();
            }
            let ended = Instant::now();
            while sys::scheduling(None) != before {
                assert!(ended.elapsed() < Duration::from_secs(5));
            }
        });
    }

    #[test]
    fn a_blocked_receiver_that_wants_to_look_is_interrupted_without_an_order() {
        let every = Some(Duration::from_millis(1));
        assert_eq!(interrupted(every, |_| {}), (io::ErrorKind::Interrupted, false));
    }

    #[test]
    fn a_thread_that_does_not_block_is_left_alone() {
        let interrupter = Interrupter::default();
        drop(interrupter.block(None).unwrap());
        interrupter.order();
        assert_eq!(interrupter.lock().interrupt(Instant::now()), None);
    }
}
