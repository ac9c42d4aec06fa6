//! What the control conversation and a load thread say to each other while a run is under way.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fabricmark_proto::Failure;
use fabricmark_record::{Counts, Interval};

use crate::interrupt::{Interrupter, LOOK_EVERY};

/// What a run tells of while it is under way.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The flows are open and the run's clock has begun; told by the active end, on the load thread.
    Begun,
    /// A receiver cannot begin to count, since a segment is missing; told once, on the load thread.
    Held,
    /// It has begun to count after that.
    Counting,
    /// A slice is over, in which this end counted so much; told on the load thread.
    Slice(Counts),
    /// An interval has ended, where the run has intervals; told on a thread beside the load.
    Interval(&'a Interval),
}

/// Somebody who hears of a run's events.
struct Listener(Box<dyn Fn(Event<'_>) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Listener")
    }
}

/// What the control conversation says of slices.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    state: Mutex<SliceOrders>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct SliceOrders {
    /// The slice to begin at the active end, or the one that has ended at the sender; and whether it counts.
    order: Option<bool>,
    is_over: bool,
}

impl Slices {
    /// A slice begins, or has ended at the sender.
    pub(crate) fn order(&self, counts: bool) {
        self.lock().order = Some(counts);
        self.news.notify_one();
    }

    /// There are no more slices.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.news.notify_one();
    }

    /// The order that has come; whether its slice counts.
    pub(crate) fn take(&self) -> Option<bool> {
        self.lock().order.take()
    }

    /// Waits for the next slice; whether it counts, or nothing after the last.
    pub(crate) fn wait(&self) -> Option<bool> {
        let waits = |state: &mut SliceOrders| state.order.is_none() && !state.is_over;
        let state = self.news.wait_while(self.lock(), waits);
        state.unwrap_or_else(PoisonError::into_inner).order.take()
    }

    fn lock(&self) -> MutexGuard<'_, SliceOrders> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the control conversation tells a running load thread.
#[derive(Debug)]
pub struct Control {
    /// The sender, or the client of an exchange, is to send nothing more.
    pub(crate) stop: AtomicBool,
    /// The run is given up.
    abort: AtomicBool,
    /// Bytes that the other end has sent in all; `u64::MAX` until that is known.
    pub(crate) expected_bytes: AtomicU64,
    /// Silence in nanoseconds that ends a receiver once the bytes are known.
    idle_ns: AtomicU64,
    /// Makes a load thread that blocks look at all these.
    pub(crate) interrupter: Interrupter,
    /// What is said of slices, in a run of slices.
    pub(crate) slices: Slices,
    /// Number of the next request: a server keeps its count of them from slice to slice.
    pub(crate) next_request: AtomicU64,
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
            next_request: AtomicU64::new(0),
            listener: None,
        }
    }
}

impl Control {
    /// How often a load thread that waits looks whether it has orders, and how often one that blocks is
    /// interrupted once there are some.
    pub(crate) const LOOK_EVERY: Duration = LOOK_EVERY;

    /// A control whose run tells of its events.
    pub fn telling(listener: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Listener(Box::new(listener))), ..Self::default() }
    }

    /// Tells whoever listens.
    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(Listener(listener)) = &self.listener {
            listener(event);
        }
    }

    /// Tells a receiver how many bytes were sent and how much silence ends its wait.
    pub fn drain(&self, bytes: u64, idle_ns: u64) {
        self.idle_ns.store(idle_ns, Relaxed);
        self.expected_bytes.store(bytes, Relaxed);
        self.interrupter.order();
    }

    /// Lets the active end of a run in slices begin the next.
    pub fn slice(&self, counts: bool) {
        self.slices.order(counts);
    }

    /// Tells the receiver of slices how many bytes were sent in the one that has ended, and how much silence ends its wait.
    pub fn end_slice(&self, bytes: u64, idle_ns: u64, counts: bool) {
        self.slices.order(counts);
        self.drain(bytes, idle_ns);
    }

    /// Forgets the orders of the slice before.
    pub(crate) fn begin_slice(&self) {
        self.interrupter.forget_orders();
        self.stop.store(false, Relaxed);
        self.expected_bytes.store(u64::MAX, Relaxed);
    }

    /// Lets the time of the run go by: [`Self::end`] ends it.
    pub fn hold(&self) {
        self.interrupter.hold();
    }

    /// Ends the sending or asking before the time of the run is over.
    pub fn end(&self) {
        self.slices.end();
        self.stop.store(true, Relaxed);
        self.interrupter.order();
    }

    /// Gives the run up.
    pub fn give_up(&self) {
        self.abort.store(true, Relaxed);
        self.end();
    }

    /// Whether the sender, or the client of an exchange, is to send nothing more.
    pub fn is_ended(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// An error when the run is given up.
    pub fn check(&self) -> Result<(), Failure> {
        if self.abort.load(Relaxed) { Err(Failure::Aborted) } else { Ok(()) }
    }

    /// Whether a receiver of datagrams that has been idle for so long need not wait any longer.
    pub(crate) fn is_drained(&self, bytes: u64, idle_ns: u64) -> bool {
        let expected_bytes = self.expected_bytes.load(Relaxed);
        self.abort.load(Relaxed)
            || (expected_bytes != u64::MAX
                && (bytes >= expected_bytes || idle_ns >= self.idle_ns.load(Relaxed)))
    }
}
