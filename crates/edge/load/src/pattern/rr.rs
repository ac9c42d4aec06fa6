//! Request/response (netperf's RR). In ping-pong the response is as long as the request; in a burst the request is
//! several payloads. A flow may have several outstanding requests.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fabricmark_record::{Counts, Pacing};
use fabricmark_stats::Histogram;
use fabricmark_units::Nanos;

use crate::control::Control;
use crate::flow_set::{FlowSet, Interest};
use crate::transport::{Flow, Message, if_ready};
use fabricmark_telemetry::clock::now_ns;

/// Time without a response after which a datagram counts as lost; RTTs in a lab are 0.1 ms
/// (`docs/notebook/measured.md`).
const LOST_AFTER_NS: u64 = 200_000_000;

/// Silence after which the other end counts as dead.
const SILENT_MAX_NS: u64 = 5_000_000_000;

/// How often flows are searched for lost responses, and how often a blocked client is interrupted to do so.
pub(super) const SEARCH_EVERY_NS: u64 = 50_000_000;

/// Receive calls of a flow that does not block between two clock readings: 64 empty ones take some 10 us.
pub(super) const LOOKS: u32 = 64;

/// Results of a client.
#[derive(Debug, Default)]
pub struct ClientResults {
    /// Completed transactions, the bytes of their requests, and the time from first to last.
    pub counts: Counts,
    /// RTTs in nanoseconds, from the first byte of the request to the complete response.
    pub rtt_ns: Histogram,
    /// Requests without a response.
    pub lost: u64,
    /// End of the ramp. A response belongs to the ramp if it arrives before this (closed loop), or if its request was
    /// due before this (open loop).
    ramp_ends_ns: u64,
    /// Start of the counted time. In a closed loop that is the last response of the ramp, with which the first
    /// counted transaction starts: a partial transaction would distort the rate. In an open loop it is the first
    /// response that counts.
    from_ns: u64,
    /// The last response of the ramp before that; 0 if there is none.
    before_ns: u64,
    is_open_loop: bool,
}

impl ClientResults {
    /// Empty results of a closed loop that started at `began_ns`; its first `ramp` does not count.
    pub(crate) fn closed_loop(began_ns: u64, ramp: Nanos) -> Self {
        let ramp_ends_ns = began_ns.saturating_add(ramp.0);
        Self { ramp_ends_ns, from_ns: began_ns, ..Self::default() }
    }

    /// As [`Self::closed_loop`], for an open loop whose schedule started at `began_ns`.
    pub(crate) fn open_loop(began_ns: u64, ramp: Nanos) -> Self {
        let ramp_ends_ns = began_ns.saturating_add(ramp.0);
        Self { ramp_ends_ns, from_ns: ramp_ends_ns, is_open_loop: true, ..Self::default() }
    }

    /// Records a response; returns whether it counts. In an open loop, its latency counts from when the request was due.
    pub(super) fn take(&mut self, heard_ns: u64, latency_ns: u64) -> bool {
        let counts = if self.is_open_loop {
            self.counts_as_due(heard_ns - latency_ns, heard_ns)
        } else {
            self.hear(heard_ns)
        };
        if counts {
            self.rtt_ns.record(latency_ns);
        }
        counts
    }

    /// Records a response of an open loop; returns whether it counts.
    fn counts_as_due(&mut self, due_ns: u64, heard_ns: u64) -> bool {
        let counts = due_ns >= self.ramp_ends_ns;
        let is_first = self.counts.calls == self.counts.ramp_calls;
        if !counts {
            self.counts.ramp_calls += 1;
            self.before_ns = if is_first { heard_ns } else { self.before_ns };
        } else if is_first {
            self.from_ns = heard_ns;
        }
        self.counts.calls += 1;
        counts
    }

    /// Records a response of a closed loop without its latency; returns whether it counts.
    pub(super) fn hear(&mut self, heard_ns: u64) -> bool {
        self.counts.calls += 1;
        let counts = heard_ns >= self.ramp_ends_ns;
        if !counts {
            self.counts.ramp_calls += 1;
            self.from_ns = heard_ns;
        }
        counts
    }

    /// Counts a payload that left at `now_ns` before counting begins.
    pub(super) fn precede(&mut self, now_ns: u64) {
        self.counts.calls += 1;
        self.counts.ramp_calls += 1;
        self.from_ns = now_ns;
    }

    /// Results up to the last response, for requests of `payloads` payloads.
    pub(super) fn until(mut self, last_ns: u64, payloads: u32, payload: &[u8]) -> Self {
        let request_bytes = u64::from(payloads) * payload.len() as u64;
        self.counts.bytes = self.counts.calls * request_bytes;
        self.counts.ramp_bytes = self.counts.ramp_calls * request_bytes;
        self.counts.elapsed_ns = last_ns.saturating_sub(self.from_ns);
        self
    }

    /// Sets the counted time of an overloaded open loop, whose responses take longer than its schedule.
    ///
    /// Responses of several flows share the path, so that most of the second may have arrived before the first is
    /// complete. If the least RTT is known, the time therefore begins one such RTT after the ramp: no byte can arrive
    /// earlier. If responses to requests of the ramp arrive after that, the whole time is divided by the number of
    /// responses. If the least RTT is not known, the time begins one mean gap between responses before the first.
    pub(crate) fn in_overload(
        mut self,
        pacing: &Pacing,
        ramp: Nanos,
        least_rtt: Option<Nanos>,
    ) -> Self {
        let window_ns = pacing.window_ns().saturating_sub(ramp.0);
        let counted = self.counts.calls - self.counts.ramp_calls;
        if !self.is_open_loop || counted == 0 || self.counts.elapsed_ns <= window_ns {
            return self;
        }
        let last_ns = self.from_ns + self.counts.elapsed_ns;
        let since = |begins_ns: u64| last_ns.saturating_sub(begins_ns);
        let step_ns = self.counts.elapsed_ns / (counted - 1).max(1);
        self.counts.elapsed_ns = match least_rtt {
            Some(Nanos(least_ns))
                if self.before_ns <= self.ramp_ends_ns.saturating_add(least_ns) =>
            {
                since(self.ramp_ends_ns.saturating_add(least_ns))
            }
            Some(Nanos(least_ns)) => {
                let began_ns = self.ramp_ends_ns.saturating_sub(ramp.0).saturating_add(least_ns);
                let share = counted as f64 / self.counts.calls as f64;
                (share * since(began_ns) as f64) as u64
            }
            None => since(self.from_ns.saturating_sub(step_ns).max(self.ramp_ends_ns)),
        };
        self
    }
}

/// Parameters of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientParameters {
    /// Outstanding requests per flow.
    pub outstanding: usize,
    /// Payloads per request, at least 1.
    pub payloads: u32,
    /// Whether every response arrives, and in order.
    pub is_reliable: bool,
    /// First part of the run, which does not count.
    pub ramp: Nanos,
    /// Time that the RTT of the path needs beyond the fixed timeouts.
    pub patience: Nanos,
    /// Least RTT of the path; `None` if unknown.
    pub least_rtt: Option<Nanos>,
}

impl ClientParameters {
    /// How often a blocked client must check for lost responses or a silent server.
    pub(crate) fn look_every(self) -> Duration {
        Duration::from_nanos(if self.is_reliable { SILENT_MAX_NS / 5 } else { SEARCH_EVERY_NS })
    }

    /// Time after which an unanswered datagram counts as lost.
    pub(super) fn lost_after_ns(self) -> u64 {
        LOST_AFTER_NS + self.patience.0
    }

    /// Silence after which the other end counts as dead.
    pub(super) fn silent_max_ns(self) -> u64 {
        SILENT_MAX_NS + self.patience.0
    }
}

/// A request without a response.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Number of its last payload.
    number: u64,
    departed_ns: u64,
    /// When its last payload was sent. With a single payload this is the departure, which is as good and saves a
    /// clock reading.
    handed_over_ns: u64,
}

/// A request that was sent in part.
#[derive(Clone, Copy, Debug)]
struct Begun {
    departed_ns: u64,
    /// Payloads that were sent whole.
    payloads: u32,
}

/// Client state of one flow.
#[derive(Debug)]
struct Requester {
    parameters: ClientParameters,
    /// Number of the next payload.
    next: u64,
    begun: Option<Begun>,
    /// Oldest first.
    under_way: VecDeque<Request>,
    heard_ns: u64,
    /// When the transport last accepted a payload, as far as the clock was read.
    moved_ns: u64,
    answered: u64,
    /// Whether [`Self::advance`] returns after a response and the next request. With one outstanding request a further
    /// receive call would only report that there is nothing yet; epoll reports the next response.
    takes_turns: bool,
}

impl Requester {
    /// The first payload has the number `next`.
    fn new(parameters: ClientParameters, now: u64, next: u64) -> Self {
        let under_way = VecDeque::with_capacity(parameters.outstanding);
        let (begun, answered, takes_turns) = (None, 0, false);
        Self {
            parameters,
            next,
            begun,
            under_way,
            heard_ns: now,
            moved_ns: now,
            answered,
            takes_turns,
        }
    }

    /// Sends and receives until the flow would block, or the run stops and every request has its response.
    fn advance(
        &mut self,
        flow: &mut impl Flow,
        request: &mut [u8],
        response: &mut [u8],
        results: &mut ClientResults,
        control: &Control,
    ) -> io::Result<()> {
        // The last arrival and the next departure share a clock reading.
        let (mut now, mut has_heard) = (None, false);
        loop {
            // The last request of an amount stops the run.
            while self.begun.is_some()
                || (self.under_way.len() < self.parameters.outstanding
                    && !control.stop.load(Relaxed))
            {
                let departs_ns = *now.get_or_insert_with(now_ns);
                if if_ready(self.send(flow, request, departs_ns))?.is_none() {
                    break;
                }
            }
            // A blocking flow must not wait for a response without an outstanding request.
            if self.under_way.is_empty() || (self.takes_turns && has_heard) {
                return Ok(());
            }
            let asked_for = match if_ready(flow.receive_message(response))? {
                Some(Message::Next) => self.under_way.pop_front(),
                Some(Message::Numbered(number)) => self.take(number),
                Some(Message::End) => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => return Ok(()),
            };
            self.heard_ns = now_ns();
            now = Some(self.heard_ns);
            if let Some(Request { departed_ns, .. }) = asked_for {
                let counts = results.take(self.heard_ns, self.heard_ns - departed_ns);
                self.answered += 1;
                flow.answered();
                if !counts {
                    // The packet timestamps of the ramp do not count, either.
                    flow.take_kernel_times();
                }
                has_heard = true;
            }
        }
    }

    /// Whether a request could not be sent for lack of room.
    fn needs_room(&self, is_stopped: bool) -> bool {
        self.begun.is_some() || (!is_stopped && self.under_way.len() < self.parameters.outstanding)
    }

    /// Sends a request, or the rest of it. Fails with a timeout if the transport has no room for all of it.
    fn send(
        &mut self,
        flow: &mut impl Flow,
        request: &mut [u8],
        departs_ns: u64,
    ) -> io::Result<()> {
        let fresh = Begun { departed_ns: departs_ns, payloads: 0 };
        let mut begun = self.begun.take().unwrap_or(fresh);
        let before = begun.payloads;
        while begun.payloads < self.parameters.payloads {
            if let Err(error) = flow.send_message(request, self.next) {
                // Datagrams are sent whole or not at all, so this one has not departed.
                if self.parameters.is_reliable || begun.payloads > 0 {
                    self.begun = Some(begun);
                }
                if begun.payloads > before {
                    self.moved_ns = now_ns();
                }
                return Err(error);
            }
            begun.payloads += 1;
            self.next += 1;
        }
        let departed_ns = begun.departed_ns;
        let is_single = self.parameters.payloads == 1;
        let handed_over_ns = if is_single { departed_ns } else { now_ns() };
        self.moved_ns = handed_over_ns;
        let number = self.next - 1;
        self.under_way.push_back(Request { number, departed_ns, handed_over_ns });
        Ok(())
    }

    /// Whether nothing is left to send or to receive.
    fn is_done(&self, is_stopped: bool) -> bool {
        is_stopped && self.under_way.is_empty() && self.begun.is_none()
    }

    /// The request with this number; `None` if it was given up before.
    fn take(&mut self, number: u64) -> Option<Request> {
        let place = self.under_way.iter().position(|request| request.number == number)?;
        self.under_way.remove(place)
    }

    /// Gives up requests that have waited too long; fails if the other end is silent.
    fn expire(&mut self, now: u64, results: &mut ClientResults) -> io::Result<()> {
        // A long burst in progress is not silence, but datagrams leave even if the receiver is gone.
        let live_ns = if self.parameters.is_reliable { self.moved_ns } else { 0 };
        if now.saturating_sub(self.heard_ns.max(live_ns)) > self.parameters.silent_max_ns() {
            let said = match (self.parameters.payloads, self.parameters.is_reliable) {
                (2.., false) => {
                    "no complete burst arrived in time; reduce outstanding or payload, or increase \
                     receive_buffer"
                }
                _ => "no answer",
            };
            return Err(io::Error::new(io::ErrorKind::TimedOut, said));
        }
        while let Some(Request { handed_over_ns, .. }) = self.under_way.front()
            && !self.parameters.is_reliable
            && now.saturating_sub(*handed_over_ns) > self.parameters.lost_after_ns()
        {
            self.under_way.pop_front();
            results.lost += 1;
        }
        Ok(())
    }
}

/// Sends requests over one flow until told to stop.
pub fn ask(
    flow: &mut impl Flow,
    request: &mut [u8],
    response: &mut [u8],
    parameters: ClientParameters,
    does_block: bool,
    control: &Control,
) -> io::Result<ClientResults> {
    let began = now_ns();
    let mut results = ClientResults::closed_loop(began, parameters.ramp);
    let mut requester = Requester::new(parameters, began, control.next_request.load(Relaxed));
    let mut looks = 0;
    while !requester.is_done(control.stop.load(Relaxed)) {
        requester.advance(flow, request, response, &mut results, control)?;
        control.check().map_err(io::Error::other)?;
        looks += 1;
        if does_block || looks % LOOKS == 0 {
            requester.expire(now_ns(), &mut results)?;
        }
    }
    control.next_request.store(requester.next, Relaxed);
    Ok(results.until(requester.heard_ns, parameters.payloads, request))
}

/// As [`ask`] over many flows; also returns the transactions of each flow.
pub fn ask_many(
    flows: &mut [impl Flow],
    request: &mut [u8],
    response: &mut [u8],
    parameters: ClientParameters,
    control: &Control,
) -> io::Result<(ClientResults, Vec<u64>)> {
    let mut flow_set = FlowSet::of(flows, Interest::Change)?.until_interrupted(control);
    let began = now_ns();
    let mut results = ClientResults::closed_loop(began, parameters.ramp);
    let next = control.next_request.load(Relaxed);
    let mut requesters: Vec<Requester> = flows
        .iter()
        .map(|flow| Requester {
            // A transport in user space may have received the next response already.
            takes_turns: parameters.outstanding == 1 && flow.ready_fd().is_none(),
            ..Requester::new(parameters, began, next)
        })
        .collect();
    let mut search_ns = began + SEARCH_EVERY_NS;
    let mut ready: Vec<usize> = (0..flows.len()).collect();
    loop {
        for place in ready.drain(..) {
            let requester = &mut requesters[place];
            requester.advance(&mut flows[place], request, response, &mut results, control)?;
            if requester.needs_room(control.stop.load(Relaxed)) {
                flow_set.needs_room(place, flows)?;
            }
        }
        let is_stopped = control.stop.load(Relaxed);
        if is_stopped && requesters.iter().all(|requester| requester.is_done(true)) {
            break;
        }
        control.check().map_err(io::Error::other)?;
        let now = now_ns();
        if now >= search_ns {
            search_ns = now + SEARCH_EVERY_NS;
            for (place, requester) in requesters.iter_mut().enumerate() {
                let lost = results.lost;
                requester.expire(now, &mut results)?;
                if results.lost > lost {
                    ready.push(place);
                }
            }
        }
        if ready.is_empty() {
            ready = flow_set.wait(flows)?;
        }
    }
    let next = requesters.iter().map(|requester| requester.next).max().unwrap_or(next);
    control.next_request.store(next, Relaxed);
    let of_each = requesters.iter().map(|requester| requester.answered).collect();
    let last_ns = requesters.iter().map(|requester| requester.heard_ns).max().unwrap_or(began);
    Ok((results.until(last_ns, parameters.payloads, request), of_each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::null::NullFlow;

    /// The null transport has the response at once: a client that asked for it would never return.
    #[test]
    fn a_client_that_takes_turns_sends_its_next_request_and_leaves_the_response_to_an_event() {
        let (control, mut flow) = (Control::default(), NullFlow::default());
        let parameters = ClientParameters {
            outstanding: 1,
            payloads: 1,
            is_reliable: true,
            ramp: Nanos(0),
            patience: Nanos(0),
            least_rtt: None,
        };
        let mut requester = Requester { takes_turns: true, ..Requester::new(parameters, 0, 0) };
        let mut results = ClientResults::closed_loop(0, Nanos(0));
        for turns in 1..=3 {
            requester.advance(&mut flow, &mut [0], &mut [0], &mut results, &control).unwrap();
            assert_eq!((requester.answered, requester.under_way.len()), (turns, 1));
        }
    }

    #[test]
    fn a_ramp_without_end_counts_nothing() {
        let mut results = ClientResults::closed_loop(1_000, Nanos(u64::MAX));
        results.take(2_000, 1_000);
        let counts = results.until(2_000, 1, &[0; 9]).counts;
        assert_eq!((counts.calls, counts.ramp_calls, counts.elapsed_ns), (1, 1, 0));
    }

    #[test]
    fn a_closed_loop_counts_whole_exchanges_whenever_its_ramp_ends() {
        // Consecutive transactions of 400 ns each: 2.5 per microsecond, wherever the ramp ends.
        for ramp_ns in [0, 1, 399, 400, 750, 1_199] {
            let mut results = ClientResults::closed_loop(1_000, Nanos(ramp_ns));
            for k in 1..=4 {
                results.take(1_000 + 400 * k, 400);
            }
            let counts = results.until(2_600, 1, &[0; 9]).counts;
            assert_eq!(counts.received_per_s(), Some(2.5e6), "{ramp_ns}");
        }
    }

    /// A request is due every 500 ns from 1,000 on; those due in the first 10,000 ns do not count.
    #[test]
    fn an_open_loop_counts_what_is_due_after_the_ramp_however_late_it_departs_and_arrives() {
        // Neither a long path nor a stall until 1,400 ns after the end of the ramp moves a transaction over the edge.
        for heard_after in
            [|_: u64| 300, |_| 7_300, |due_ns| 300 + 12_400u64.saturating_sub(due_ns)]
        {
            let mut results = ClientResults::open_loop(1_000, Nanos(10_000));
            for k in 0..60 {
                let due_ns = 1_000 + 500 * k;
                results.take(due_ns + heard_after(due_ns), heard_after(due_ns));
            }
            let last_ns = 1_000 + 500 * 59 + heard_after(1_000 + 500 * 59);
            let counts = results.until(last_ns, 1, &[0; 9]).counts.over_schedule(30_000, 10_000);
            assert_eq!(counts.received_per_s(), Some(2e6));
        }
    }

    fn schedule(covered_ns: u64) -> Pacing {
        let slip_ns = Histogram::new();
        let (departures, late, slip_without_pauses_ns, elapsed_ns) = (0, 0, None, covered_ns);
        Pacing { departures, late, slip_ns, slip_without_pauses_ns, elapsed_ns, covered_ns }
    }

    /// Counts of responses at these times, in microseconds, to requests that are all due at once.
    fn answers_at(times_us: &[u64], least_rtt: Option<Nanos>) -> Counts {
        let mut results = ClientResults::open_loop(0, Nanos(0));
        for &at in times_us {
            results.take(1_000 * at, 1_000 * at);
        }
        let last_ns = 1_000 * times_us.iter().max().unwrap();
        let results = results.until(last_ns, 1, &[0; 64]);
        let ClientResults { counts, rtt_ns, .. } =
            results.in_overload(&schedule(40_000), Nanos(0), least_rtt);
        assert_eq!(rtt_ns.len(), counts.counted_calls());
        counts
    }

    #[test]
    fn answers_beyond_a_schedule_are_counted_from_the_first_part_of_one() {
        // 50 us of a wire each, one after the other: 20,000 per second.
        let apart = [50, 100, 150, 200];
        assert_eq!(answers_at(&apart, None).received_per_s(), Some(20e3));
        assert_eq!(answers_at(&apart, Some(Nanos(0))).received_per_s(), Some(20e3));
        // The same over an RTT of 1 ms.
        let far = [1_050, 1_100, 1_150, 1_200];
        assert_eq!(answers_at(&far, Some(Nanos(1_000_000))).received_per_s(), Some(20e3));
        // Four interleaved responses at a time: when the first is complete, hardly anything of the others is missing.
        let by_turns = [170, 180, 190, 200, 370, 380, 390, 400];
        assert_eq!(answers_at(&by_turns, Some(Nanos(0))).received_per_s(), Some(20e3));
    }

    #[test]
    fn answers_to_what_was_due_in_the_ramp_keep_the_wire_busy_until_the_last_of_them() {
        // 50 us of a wire each; the first four are due in the ramp.
        let mut results = ClientResults::open_loop(0, Nanos(40_000));
        for k in 1..=8 {
            results.take(50_000 * k, 50_000 * k - 10_000 * (k - 1));
        }
        let results = results.until(400_000, 1, &[0; 64]);
        let counts = results.in_overload(&schedule(80_000), Nanos(40_000), Some(Nanos(0))).counts;
        assert_eq!((counts.ramp_calls, counts.received_per_s()), (4, Some(20e3)));
        // Four interleaved responses at a time; two are due in the ramp.
        let mut results = ClientResults::open_loop(0, Nanos(20_000));
        for (k, at) in (0u64..).zip([170, 180, 190, 200, 370, 380, 390, 400]) {
            results.take(1_000 * at, 1_000 * at - 10_000 * k);
        }
        let results = results.until(400_000, 1, &[0; 64]);
        let counts = results.in_overload(&schedule(80_000), Nanos(20_000), Some(Nanos(0))).counts;
        assert_eq!((counts.ramp_calls, counts.received_per_s()), (2, Some(20e3)));
    }

    #[test]
    fn one_answer_of_an_unknown_path_is_given_no_more_time_than_its_schedule_began_before_it() {
        let counts = answers_at(&[10, 100], None);
        assert_eq!((counts.counted_calls(), counts.elapsed_ns), (2, 100_000));
    }
}
