//! State that the control conversation and a load thread share during a run.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fabricmark_proto::Failure;
use fabricmark_record::{Counts, Interval};
use fabricmark_telemetry::clock::{machine_ns, sleep_until_machine_time};
use fabricmark_units::Nanos;

use crate::interrupt::{Interrupter, LOOK_EVERY};

/// What a run reports while it is under way.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The flows are open, and the sender waits for [`Control::start`]. Reported on the load thread.
    Opened,
    /// The flows are open and the clock of the run has started. Reported by the end that sends the stream or the
    /// requests (over flows of another tool, by either end), on the load thread.
    Begun,
    /// A receiver starts to count late (a segment is missing, or nothing arrived): the sender must continue. Sent
    /// once.
    Held,
    /// The receiver has started to count after [`Self::Held`].
    Counting,
    /// A slice has ended; what this end counted in it. Reported on the load thread.
    Slice(Counts),
    /// An interval has ended, in a run with intervals. Reported on the sampling thread.
    Interval(&'a Interval),
}

/// Callback for the events of a run.
struct Listener(Box<dyn Fn(Event<'_>) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Listener")
    }
}

/// Orders of the control conversation about slices.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    state: Mutex<SliceOrders>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct SliceOrders {
    /// Pending order: start a slice (sender or client), or the sender has ended it (receiver). True if the slice
    /// counts.
    order: Option<bool>,
    is_over: bool,
}

impl Slices {
    /// Orders a slice to start or, at a receiver, reports that the sender has ended it.
    pub(crate) fn order(&self, counts: bool) {
        self.lock().order = Some(counts);
        self.news.notify_one();
    }

    /// No slice follows.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.news.notify_one();
    }

    /// Takes the pending order: whether its slice counts.
    pub(crate) fn take(&self) -> Option<bool> {
        self.lock().order.take()
    }

    /// Waits for the next slice. Returns whether it counts, or `None` after the last.
    pub(crate) fn wait(&self) -> Option<bool> {
        let waits = |state: &mut SliceOrders| state.order.is_none() && !state.is_over;
        let state = self.news.wait_while(self.lock(), waits);
        state.unwrap_or_else(PoisonError::into_inner).order.take()
    }

    fn lock(&self) -> MutexGuard<'_, SliceOrders> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The order to start, for a sender that waits for it.
#[derive(Debug, Default)]
struct Start {
    order: Mutex<Option<StartOrder>>,
    news: Condvar,
}

/// Start at a time of CLOCK_MONOTONIC in nanoseconds; `None`: now.
type StartOrder = Option<u64>;

impl Start {
    fn order(&self, at_ns: StartOrder) {
        *self.lock() = Some(at_ns);
        self.news.notify_one();
    }

    fn wait(&self) -> StartOrder {
        let ordered = self.news.wait_while(self.lock(), |order| order.is_none());
        ordered.unwrap_or_else(PoisonError::into_inner).flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Option<StartOrder>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Orders of the control conversation to a running load thread.
#[derive(Debug)]
pub struct Control {
    /// The sender or client must send nothing more.
    pub(crate) stop: AtomicBool,
    /// The run is aborted.
    abort: AtomicBool,
    /// Bytes that the other end has sent in total; `u64::MAX` until known.
    pub(crate) expected_bytes: AtomicU64,
    /// Silence in nanoseconds after which a receiver stops waiting, once `expected_bytes` is known.
    idle_ns: AtomicU64,
    /// Interrupts a blocked load thread so that it reads these fields.
    pub(crate) interrupter: Interrupter,
    /// Orders about slices, in a run of slices.
    pub(crate) slices: Slices,
    /// When the sender is to start, on CLOCK_MONOTONIC.
    start: Start,
    /// Number of the next request, or of the next payload of ping-ping, counted across slices.
    pub(crate) next_request: AtomicU64,
    /// When the next response is due at the limit of responses, by the clock of the load threads; 0: none was counted.
    pub(crate) next_response_ns: AtomicU64,
    listener: Option<Listener>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            expected_bytes: AtomicU64::new(u64::MAX),
            idle_ns: AtomicU64::new(0),
            interrupter: Interrupter::default(),
            slices: Slices::default(),
            start: Start::default(),
            next_request: AtomicU64::new(0),
            next_response_ns: AtomicU64::new(0),
            listener: None,
        }
    }
}

impl Control {
    /// Interval at which a waiting load thread checks for orders.
    pub(crate) const LOOK_EVERY: Duration = LOOK_EVERY;

    /// Creates a control that passes the events of its run to `listener`.
    pub fn telling(listener: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Listener(Box::new(listener))), ..Self::default() }
    }

    /// Passes an event to the listener, if there is one.
    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(Listener(listener)) = &self.listener {
            listener(event);
        }
    }

    /// Tells a receiver how many bytes were sent in total, and the silence after which it stops waiting for them.
    pub fn drain(&self, bytes: u64, idle_ns: u64) {
        self.idle_ns.store(idle_ns, Relaxed);
        self.expected_bytes.store(bytes, Relaxed);
        self.interrupter.order();
    }

    /// Starts the next slice at the sender or client; `counts` is false for a warm-up.
    pub fn slice(&self, counts: bool) {
        self.slices.order(counts);
    }

    /// Reports to a receiver that the sender has ended a slice and sent this many bytes in it; `idle_ns` as in
    /// [`Self::drain`].
    pub fn end_slice(&self, bytes: u64, idle_ns: u64, counts: bool) {
        self.slices.order(counts);
        self.drain(bytes, idle_ns);
    }

    /// Lets a sender that waits for its start run from this time of CLOCK_MONOTONIC on; `None`: now.
    pub fn start(&self, at_ns: Option<u64>) {
        self.start.order(at_ns);
    }

    /// Reports that the flows are open, and sleeps until the ordered start. The run ends at its time after that, even if
    /// this thread wakes up late.
    pub(crate) fn wait_for_start(&self, duration: Nanos) {
        self.tell(Event::Opened);
        self.interrupter.start_together();
        let at_ns = self.start.wait().unwrap_or_else(machine_ns);
        let left_ns = at_ns.saturating_add(duration.0).saturating_sub(machine_ns());
        self.interrupter.end_at(Instant::now() + Duration::from_nanos(left_ns));
        while machine_ns() < at_ns && !self.is_ended() {
            let look_ns = machine_ns().saturating_add(Self::LOOK_EVERY.as_nanos() as u64);
            sleep_until_machine_time(at_ns.min(look_ns));
        }
    }

    /// Clears the orders of the previous slice.
    pub(crate) fn begin_slice(&self) {
        self.interrupter.forget_orders();
        self.stop.store(false, Relaxed);
        self.expected_bytes.store(u64::MAX, Relaxed);
    }

    /// Lets the run continue beyond its time, until [`Self::end`].
    pub fn hold(&self) {
        self.interrupter.hold();
    }

    /// Stops the sender or client before the time of the run is over.
    pub fn end(&self) {
        self.slices.end();
        self.start.order(None);
        self.stop.store(true, Relaxed);
        self.interrupter.order();
    }

    /// Aborts the run.
    pub fn give_up(&self) {
        self.abort.store(true, Relaxed);
        self.end();
    }

    /// Whether the sender or client must send nothing more.
    pub fn is_ended(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Fails with [`Failure::Aborted`] if the run was aborted.
    pub fn check(&self) -> Result<(), Failure> {
        if self.abort.load(Relaxed) { Err(Failure::Aborted) } else { Ok(()) }
    }

    /// Whether a receiver can stop: the run was aborted, or the other end has stopped and either all its bytes have
    /// arrived or nothing has for long enough.
    pub(crate) fn is_drained(&self, bytes: u64, idle_ns: u64) -> bool {
        let expected_bytes = self.expected_bytes.load(Relaxed);
        self.abort.load(Relaxed)
            || (expected_bytes != u64::MAX
                && (bytes >= expected_bytes || idle_ns >= self.idle_ns.load(Relaxed)))
    }
}
