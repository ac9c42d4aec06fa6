//! Which arrivals of a stream count, and over which time.
//!
//! A count has two edges; what crosses the wire between them is the goodput. While a segment is missing, TCP delivers
//! nothing, and after its retransmission everything behind it at once (head-of-line blocking): an edge within such a
//! recovery would count bytes that crossed the wire before, or miss as many. So each edge is an arrival behind which
//! no data waits, in order or out of order. The count is postponed until there is one, and the sender is told to
//! continue meanwhile. If there is none, the out-of-order bytes are estimated and counted on the side of the edge on
//! which they crossed the wire.

use std::io;

use fabricmark_plan::RAMP_SHARE;
use fabricmark_record::Counts;
use fabricmark_units::Nanos;

use crate::control::{Control, Event};
use crate::tcp::{Unread, unread};
use crate::transport::{Flow, Moved};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::subflow::Subflows;

/// The part of a run that a receiver counts. All times are since the first arrival.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Length of the ramp, which does not count.
    ramp_ns: u64,
    /// Latest start of the count, however much data waits: after the middle of the counted part, little would be
    /// left.
    begins_by_ns: u64,
    /// How much later it may start if the sender can be told to continue.
    hold_ns: u64,
    /// Number of checks with unread data, but nothing missing, after which the receiver counts as the slower end,
    /// which stays behind. Not a time, which one long sleep would use up.
    looks: u64,
    /// Whether another slice follows over the same flow: then a number of bytes ends this one, not the end of the
    /// flow.
    is_slice: bool,
    /// End of the count: what a sender has left in buffers when its time is over drains uncounted.
    ends_ns: u64,
}

impl Window {
    const SLICE_RAMP_SHARE: u64 = 4;
    /// Interval of checks, times the number of flows. A check of a flow costs two system calls, 0.4 us: 0.4 % of the
    /// time.
    const LOOK_EVERY_NS: u64 = 100_000;
    /// Interval of checks while counting: the last usable edge is kept.
    const LOOK_AGAIN_NS: u64 = 1_000_000;
    const LOOKS_MIN: u64 = 50;
    /// A count that starts late by more than this part of its length ends as much later.
    const LATE_SHARE: u64 = 10;

    fn counted_ns(&self) -> u64 {
        self.ends_ns.saturating_sub(self.ramp_ns)
    }

    /// Window of a closed loop, of which at least `omit` does not count. The run continues for up to `hold` longer
    /// while a segment is missing.
    pub fn of(Nanos(duration_ns): Nanos, Nanos(omit_ns): Nanos, Nanos(hold_ns): Nanos) -> Self {
        let counted_ns = duration_ns.saturating_sub(omit_ns);
        let ramp_ns = omit_ns.max(duration_ns / RAMP_SHARE);
        let looks = (ramp_ns / Self::LOOK_EVERY_NS).max(Self::LOOKS_MIN);
        let begins_by_ns = ramp_ns.max(omit_ns.saturating_add(counted_ns / 2));
        Self { ramp_ns, begins_by_ns, hold_ns, looks, is_slice: false, ends_ns: duration_ns }
    }

    /// Window of a slice, of which the first quarter does not count: a token bucket has refilled since the previous
    /// slice, and passes its content faster than its rate.
    pub fn of_a_slice(slice: Nanos) -> Self {
        let ramp = Nanos(slice.0 / Self::SLICE_RAMP_SHARE);
        Self { is_slice: true, ..Self::of(slice, ramp, Nanos(0)) }
    }

    /// Window of a slice of an open loop: the first departures are late, since the sender has just woken up.
    pub fn of_a_scheduled_slice(slice: Nanos) -> Self {
        Self { ends_ns: u64::MAX, ..Self::of_a_slice(slice) }
    }

    /// Whether the count ends with the flow, if that has an end.
    pub(super) fn ends_with_flow(&self) -> bool {
        !self.is_slice
    }

    /// Window of a run that ends with an amount: from the first arrival on, since its duration is unknown.
    pub fn of_an_amount() -> Self {
        Self {
            ramp_ns: 0,
            begins_by_ns: 0,
            hold_ns: 0,
            looks: 0,
            is_slice: false,
            ends_ns: u64::MAX,
        }
    }

    /// Window of an open loop, whose arrivals are compared with the sender's schedule.
    pub fn of_a_schedule(Nanos(omit_ns): Nanos) -> Self {
        Self { ramp_ns: omit_ns, ..Self::of_an_amount() }
    }
}

/// A point in time between two arrivals.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at_ns: u64,
    /// Bytes that had crossed the wire, readable or not, and the possible error of that number.
    bytes: u64,
    uncertain_bytes: u64,
    calls: u64,
}

/// A gap after which arrivals are a burst: packets of 1500 bytes at 10 Mbit/s are 1.2 ms apart.
const SILENCE_NS: u64 = 2_000_000;

/// Count of a receiver. Times are clock readings in nanoseconds.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) counts: Counts,
    window: Window,
    looks_left: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    next_look_ns: u64,
    is_held: bool,
    subflows: Subflows,
    began: Option<Edge>,
    /// The arrival that started the count.
    first: Moved,
    /// The gap before the arrival that started the count. A sender that is limited by its window sends one burst per
    /// RTT: a count from the start of one burst to the end of another contains one burst too many.
    silence_ns: u64,
    /// The last edges in the window without out-of-order data; the second also follows a gap.
    clean: Option<Edge>,
    clean_after_silence: Option<Edge>,
    ended: Option<Edge>,
}

impl Arrivals {
    pub(super) fn new(window: Window) -> Self {
        Self {
            counts: Counts::default(),
            window,
            looks_left: window.looks,
            first_ns: None,
            // Until something arrives, the flow is idle from now on.
            last_ns: now_ns(),
            next_look_ns: 0,
            is_held: false,
            subflows: Subflows::default(),
            began: None,
            first: Moved::default(),
            silence_ns: 0,
            clean: None,
            clean_after_silence: None,
            ended: None,
        }
    }

    /// Records an arrival over the flow with index `place`.
    #[inline]
    pub(super) fn arrive<F: Flow>(
        &mut self,
        moved: Moved,
        flows: &mut [F],
        place: usize,
        control: &Control,
    ) -> io::Result<()> {
        let before_ns = std::mem::replace(&mut self.last_ns, now_ns());
        self.counts.calls += moved.payloads;
        self.counts.bytes += moved.bytes;
        if self.last_ns < self.next_look_ns {
            return Ok(());
        }
        self.look(before_ns, moved, flows, place, control)
    }

    #[cold]
    fn look<F: Flow>(
        &mut self,
        before_ns: u64,
        moved: Moved,
        flows: &mut [F],
        place: usize,
        control: &Control,
    ) -> io::Result<()> {
        let now_ns = self.last_ns;
        let is_new = now_ns.saturating_sub(before_ns) > self.window.ramp_ns;
        if self.window.is_slice && self.began.is_none() && is_new {
            // What arrived so far belongs to the previous slice: other levels have had their turns since.
            self.first_ns = None;
        }
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let ramp_ends_ns = first_ns.saturating_add(self.window.ramp_ns);
        if now_ns < ramp_ends_ns {
            self.next_look_ns = ramp_ends_ns;
            return Ok(());
        }
        let pause_ns = Window::LOOK_EVERY_NS.saturating_mul(flows.len() as u64);
        let unread = unread_of_all(flows, &mut self.subflows)?;
        let Unread { in_order_bytes, behind_hole_bytes, uncertain_bytes } = unread;
        let Counts { bytes, calls, .. } = self.counts;
        let bytes = bytes + in_order_bytes + behind_hole_bytes;
        let edge = Edge { at_ns: now_ns, bytes, uncertain_bytes, calls };
        let is_clean = behind_hole_bytes == 0;
        let silence_ns =
            Some(now_ns - before_ns).filter(|&ns| is_clean && ns > SILENCE_NS).unwrap_or(0);
        let Some(began) = self.began else {
            let waiting_bytes = match flows[place].arrived_bytes()? {
                // On the right side of the edge already, as bytes that TCP reports as readable.
                Some(_) => 0,
                None => flows[place].waiting_bytes()?,
            };
            let Window { begins_by_ns, hold_ns, .. } = self.window;
            // The sender is told to continue only while a segment is missing.
            let waits_ns = if is_clean && !self.is_held { 0 } else { hold_ns };
            let is_late = now_ns - first_ns >= begins_by_ns.saturating_add(waits_ns);
            let is_slower_end = is_clean && self.looks_left == 0;
            let is_all_read = is_clean && waiting_bytes == 0;
            if !(is_all_read || is_slower_end || is_late) {
                self.looks_left = self.looks_left.saturating_sub(1);
                self.next_look_ns = now_ns + pause_ns;
                if !is_clean && hold_ns > 0 && !std::mem::replace(&mut self.is_held, true) {
                    control.tell(Event::Held);
                }
                return Ok(());
            }
            // The sender must also continue if nothing arrived when the count was due to start.
            let late_ns = now_ns - ramp_ends_ns;
            if hold_ns > 0
                && late_ns > self.window.counted_ns() / Window::LATE_SHARE
                && !self.is_held
            {
                self.is_held = true;
                control.tell(Event::Held);
            }
            if self.is_held {
                control.tell(Event::Counting);
            }
            self.counts.waiting_bytes = if in_order_bytes > 0 { 0 } else { waiting_bytes };
            // A receiver that is the slower end determines the rate, also while it drains its backlog.
            if self.counts.waiting_bytes > 0 {
                self.window.ends_ns = u64::MAX;
            }
            (self.began, self.first, self.silence_ns) = (Some(edge), moved, silence_ns);
            self.next_look_ns = now_ns + pause_ns.max(Window::LOOK_AGAIN_NS);
            return Ok(());
        };
        let Window { ends_ns, .. } = self.window;
        let counted_until_ns = began.at_ns.saturating_add(self.window.counted_ns());
        let ends_ns =
            first_ns.saturating_add(ends_ns).max(if self.is_held { counted_until_ns } else { 0 });
        if now_ns < ends_ns {
            self.next_look_ns = ends_ns.min(now_ns + pause_ns.max(Window::LOOK_AGAIN_NS));
            if is_clean {
                self.clean = Some(edge);
                self.clean_after_silence =
                    Some(edge).filter(|_| silence_ns > 0).or(self.clean_after_silence);
            }
            return Ok(());
        }
        // An arrival long after the end has waited for a retransmission; the sender sent nothing new meanwhile.
        let is_prompt = now_ns - ends_ns <= SILENCE_NS;
        let middle_ns = began.at_ns + ends_ns.saturating_sub(began.at_ns) / 2;
        let clean = self.clean.filter(|clean| clean.at_ns >= middle_ns);
        self.ended = if is_clean && is_prompt { Some(edge) } else { clean.or(Some(edge)) };
        self.next_look_ns = u64::MAX;
        Ok(())
    }

    /// Whether the receiver can stop waiting although no flow has ended.
    pub(super) fn is_drained(&self, control: &Control) -> bool {
        control.is_drained(self.counts.bytes, now_ns().saturating_sub(self.last_ns))
    }

    /// Final counts: everything that arrived, and which part of it counts.
    pub(super) fn end(self) -> Counts {
        let mut counts = self.counts;
        let Some(began) = self.began else {
            (counts.ramp_bytes, counts.ramp_calls) = (counts.bytes, counts.calls);
            return counts;
        };
        let Counts { bytes, calls, .. } = counts;
        let all = Edge { at_ns: self.last_ns, bytes, uncertain_bytes: 0, calls };
        let mut ended = self.ended.unwrap_or(all);
        // In an open loop the schedule causes the gaps, and an amount ends with its last arrival.
        let is_closed_loop = self.window.ends_ns < u64::MAX;
        let elapsed_ns = ended.at_ns - began.at_ns;
        if is_closed_loop && self.silence_ns > elapsed_ns / 10 {
            // Bursts repeat: if none is late in the count, the gap was a pause of this machine.
            let is_late = |edge: &Edge| edge.at_ns - began.at_ns >= elapsed_ns / 2;
            match self.clean_after_silence.filter(is_late) {
                Some(edge) => ended = edge,
                None if self.silence_ns > elapsed_ns / 2 => ended = began,
                None => {}
            }
        }
        counts.ramp_bytes = began.bytes.min(counts.bytes);
        counts.ramp_calls = began.calls;
        (counts.first_bytes, counts.first_calls) = (self.first.bytes, self.first.payloads);
        // The estimate from memory is too large for short datagrams.
        counts.waiting_bytes = counts.waiting_bytes.min(counts.bytes - counts.ramp_bytes);
        counts.tail_bytes = counts.bytes.saturating_sub(ended.bytes.max(began.bytes));
        counts.tail_calls = counts.calls - ended.calls;
        counts.uncertain_bytes = began.uncertain_bytes + ended.uncertain_bytes;
        counts.elapsed_ns = ended.at_ns - began.at_ns;
        counts
    }
}

/// Bytes that have arrived over all flows and were not read yet.
fn unread_of_all(flows: &mut [impl Flow], subflows: &mut Subflows) -> io::Result<Unread> {
    let mut sum = Unread::default();
    for flow in flows {
        let of_flow = match (flow.arrived_bytes()?, flow.fd()) {
            (Some(in_order_bytes), _) => Unread { in_order_bytes, ..Unread::default() },
            (None, Some(fd)) => unread(fd, subflows)?,
            (None, None) => continue,
        };
        sum.in_order_bytes += of_flow.in_order_bytes;
        sum.behind_hole_bytes += of_flow.behind_hole_bytes;
        sum.uncertain_bytes += of_flow.uncertain_bytes;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::slice::from_mut;

    use super::*;
    use crate::pattern::stream::receive;
    use crate::scripted::Scripted;

    const MS: u64 = 1_000_000;

    /// Counts of arrivals of 100 bytes at these times.
    fn counted(window: Window, times_ns: impl IntoIterator<Item = u64>) -> Counts {
        counted_before(0, window, times_ns)
    }

    /// The same, where `waiting` arrivals always wait behind the one that is read.
    fn counted_before(
        waiting: u64,
        window: Window,
        times_ns: impl IntoIterator<Item = u64>,
    ) -> Counts {
        counted_over(Scripted { waiting, ..Scripted::default() }, window, times_ns)
    }

    fn counted_over(
        mut flow: Scripted<'_>,
        window: Window,
        times_ns: impl IntoIterator<Item = u64>,
    ) -> Counts {
        let mut arrivals = Arrivals::new(window);
        let control = Control::default();
        arrivals.last_ns = 0;
        for at_ns in times_ns {
            let before_ns = std::mem::replace(&mut arrivals.last_ns, at_ns);
            let moved = Moved::one(100);
            arrivals.counts.calls += moved.payloads;
            arrivals.counts.bytes += moved.bytes;
            if at_ns >= arrivals.next_look_ns {
                arrivals.look(before_ns, moved, from_mut(&mut flow), 0, &control).unwrap();
            }
        }
        arrivals.end()
    }

    #[test]
    fn a_steady_stream_is_counted_from_the_ramp_to_the_end_of_the_run() {
        // One arrival per millisecond for 2 s; the run is 1 s long, its ramp 0.1 s.
        let window = Window::of(Nanos(1_000 * MS), Nanos(100 * MS), Nanos(0));
        let counts = counted(window, (1..=2_000).map(|k| k * MS));
        assert_eq!((counts.ramp_calls, counts.tail_calls), (101, 999));
        assert_eq!((counts.counted_calls(), counts.elapsed_ns), (900, 900 * MS));
    }

    #[test]
    fn a_schedule_with_an_omitted_part_counts_every_payload_that_was_due_after_it() {
        // 10 payloads a second for 3 s, of which the first second does not count.
        let window = Window::of_a_schedule(Nanos(1_000 * MS));
        let counts = counted(window, (0..30).map(|k| 100 * k * MS));
        let counts = counts.over_schedule(3_000 * MS, 1_000 * MS);
        assert_eq!((counts.counted_calls(), counts.received_per_s()), (20, Some(10.0)));
    }

    #[test]
    fn a_burst_each_round_trip_is_counted_over_whole_round_trips() {
        // Bursts of 50 arrivals, 0.1 ms apart, every 200 ms: 250 per second.
        let bursts = |count| {
            (0..count).flat_map(|k| (0..50).map(move |place| (200 * k + 1) * MS + place * MS / 10))
        };
        let window = Window::of(Nanos(900 * MS), Nanos(0), Nanos(0));
        let counts = counted(window, bursts(5));
        assert_eq!(counts.received_per_s(), Some(250.0));
        // A single burst after the ramp has no rate.
        let counts = counted(Window::of(Nanos(300 * MS), Nanos(0), Nanos(0)), bursts(2));
        assert_eq!(counts.received_per_s(), None);
    }

    #[test]
    fn a_receiver_that_is_the_slower_end_counts_until_nothing_waits() {
        // One arrival per 10 ms, with others waiting behind it: a run of 100 ms takes 400 ms to read. The receiver
        // stalls when its count could start.
        let window = Window::of(Nanos(100 * MS), Nanos(0), Nanos(0));
        let times = [0, 10].into_iter().chain((9..40).map(|k| 10 * k));
        let counts = counted_before(9, window, times.map(|ms| ms * MS));
        assert_eq!((counts.counted_calls(), counts.elapsed_ns), (30, 300 * MS));
    }

    #[test]
    fn what_has_arrived_counts_from_then_on_and_not_from_when_it_is_read() {
        // As RDMA reads that complete when they are posted: one per millisecond, each read 50 ms later, and the last 50
        // at once when no more are posted.
        let window = Window::of(Nanos(1_000 * MS), Nanos(100 * MS), Nanos(0));
        let flow = Scripted { waiting: 50, knows_arrived: true, ..Scripted::default() };
        let times = (1..=1_001).chain([1_001; 50]).map(|ms| ms * MS);
        let counts = counted_over(flow, window, times);
        assert_eq!((counts.counted_bytes(), counts.elapsed_ns), (90_000, 900 * MS));
        assert_eq!((counts.bytes, counts.waiting_bytes), (105_100, 0));
    }

    #[test]
    fn a_receiver_that_reads_too_slowly_to_look_often_still_begins_by_the_middle_of_its_count() {
        // One arrival per millisecond, with others waiting behind it. Nothing is missing.
        let window = Window::of(Nanos(700 * MS), Nanos(200 * MS), Nanos(5_000 * MS));
        let counts = counted_before(9, window, (0..=700).map(|ms| ms * MS));
        assert_eq!((counts.counted_calls(), counts.elapsed_ns), (250, 250 * MS));
        assert_eq!(counts.received_per_s(), Some(1_000.0));
    }

    #[test]
    fn a_pause_of_the_machine_where_a_count_begins_is_no_burst() {
        // One arrival per millisecond, except for a pause of 30 ms at the end of the ramp.
        let times = (1..=10).chain(40..=200).map(|ms| ms * MS);
        let counts = counted(Window::of(Nanos(200 * MS), Nanos(0), Nanos(0)), times);
        assert_eq!(counts.received_per_s(), Some(1000.0));
        assert!(counts.elapsed_ns > 150 * MS, "{counts:?}");
    }

    #[test]
    fn a_late_start_does_not_change_the_rate_of_a_slice_of_an_open_loop() {
        // One arrival per 0.1 ms for 4 ms, of which the first three are late.
        let times = (0..40).map(|k| (k * MS / 10).max(3 * MS / 10));
        let window = Window::of_a_scheduled_slice(Nanos(4 * MS));
        assert_eq!(counted(window, times.clone()).received_per_s(), Some(10_000.0));
        let whole = counted(Window::of_a_schedule(Nanos(0)), times);
        assert!(whole.received_per_s() > Some(10_500.0));
    }

    #[test]
    fn what_was_late_for_the_slice_before_does_not_begin_a_slice() {
        // One arrival per 0.1 ms from 30 ms on, for a slice of 10 ms, of which a quarter does not count.
        let slice = || (0..100).map(|k| 30 * MS + k * MS / 10);
        let window = Window::of_a_slice(Nanos(10 * MS));
        let late = counted(window, [MS, 2 * MS].into_iter().chain(slice()));
        let clean = counted(window, slice());
        assert_eq!(
            (late.elapsed_ns, late.counted_calls()),
            (clean.elapsed_ns, clean.counted_calls())
        );
        assert_eq!(clean.received_per_s(), Some(10_000.0));
    }

    #[test]
    fn what_ends_with_an_amount_is_counted_however_late_it_begins() {
        let counts = counted(Window::of_an_amount(), (0..51).map(|k| (200 + k) * MS));
        assert_eq!((counts.counted_calls(), counts.elapsed_ns), (50, 50 * MS));
    }

    #[test]
    fn what_arrives_when_the_time_of_the_run_is_over_drains_uncounted() {
        // Ten arrivals per millisecond from a deep buffer, for twice as long as the run.
        let window = Window::of(Nanos(100 * MS), Nanos(0), Nanos(0));
        let counts = counted(window, (1..=2_000).map(|k| k * MS / 10));
        let per_s = counts.received_per_s().unwrap();
        assert!((per_s - 10_000.0).abs() < 1.0, "{per_s}");
        assert_eq!(counts.calls, 2_000);
        assert!(counts.tail_calls > 990, "{counts:?}");
    }

    #[test]
    fn a_ramp_without_end_counts_nothing() {
        let window = Window::of(Nanos(u64::MAX), Nanos(u64::MAX), Nanos(0));
        let counts = counted(window, [1_000, u64::MAX - 1]);
        assert_eq!((counts.ramp_calls, counts.elapsed_ns), (2, 0));
    }

    #[test]
    fn what_waits_at_the_end_of_the_ramp_belongs_to_it() {
        let mut arrivals = Arrivals::new(Window::of(Nanos(1_000 * MS), Nanos(10 * MS), Nanos(0)));
        let mut flow = Scripted { arrivals: 20, waiting: 2, ..Scripted::default() };
        let control = Control::default();
        let mut look = |at_ns, waiting| {
            flow.waiting = waiting;
            arrivals.last_ns = at_ns;
            arrivals.look(at_ns, Moved::default(), from_mut(&mut flow), 0, &control).unwrap();
            (arrivals.began.is_some(), arrivals.next_look_ns)
        };
        assert_eq!(look(MS, 0), (false, 51 * MS), "the ramp is a twentieth");
        assert_eq!(look(51 * MS, 2), (false, 51 * MS + 100_000), "two wait");
        assert!(look(52 * MS, 0).0);
    }

    #[test]
    fn a_receiver_that_never_catches_up_counts_what_waits_and_says_how_much() {
        let mut flow = Scripted { arrivals: 20, waiting: 8, ..Scripted::default() };
        let window = Window::of_an_amount();
        let counts = receive(&mut flow, &mut [0; 100], window, &Control::default()).unwrap();
        assert_eq!(counts.bytes, 2_000);
        assert_eq!((counts.ramp_bytes, counts.waiting_bytes), (100, 700));
    }

    #[test]
    fn no_more_waited_than_came_after() {
        // As estimated from the memory of datagrams.
        let mut flow = Scripted { arrivals: 20, waiting: 80, ..Scripted::default() };
        let window = Window::of_an_amount();
        let counts = receive(&mut flow, &mut [0; 100], window, &Control::default()).unwrap();
        assert_eq!((counts.ramp_bytes, counts.waiting_bytes), (100, 1_900));
    }
}
