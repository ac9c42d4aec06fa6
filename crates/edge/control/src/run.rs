//! Carries out a run: a conversation for each of its parts, side by side.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabricmark_judge::{Part, slice_rate};
use fabricmark_load::foreign::poll_for;
use fabricmark_plan::{
    CONTROL_RTT_MAX, Direction, Group, Pace, Pattern, Plan, Point, Purpose, Role,
};
use fabricmark_proto::{Conversation, ConversationError, Ends, Failure, Order, Prepare};
use fabricmark_record::{ActiveTime, Interval, RelayTimes, Series};
use fabricmark_units::{Nanos, Stream};
use rustix::event::{PollFd, PollFlags};

use crate::coordinator::{Coordinator, PairId};
use crate::error::{Cause, PlanError};
use crate::progress::Progress;
use crate::relay;
use crate::secured::machine_time;
use crate::settings::{Claims, LINK_WITHIN};

/// Warm-up of each level at the start of a block, in slices that do not count: an arbitrary choice.
const WARM_UP: Nanos = Nanos::from_millis(8);

/// Smallest number of warm-up rounds.
const ROUNDS_OMITTED_MIN: u64 = 2;

/// Time from the order to start until the start, in addition to the RTT of the control path: an order passes through a
/// worker in less than 0.3 ms (docs/notebook/measured.md), and longer on a busy machine.
const START_LEAD: Nanos = Nanos::from_millis(5);

/// Longest time between checks for an interrupt.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Result of a run.
pub(crate) enum RunResult {
    /// All ends of all parts have finished.
    Finished(Vec<Part>),
    /// The run does not count for this reason; the next one may.
    Invalid(String, Cause),
    /// The run failed in a way that each run of the point would fail.
    Unusable(ConversationError),
}

/// What all parts of a run share.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    /// The points of the run: one for each group of flows, or those that take turns.
    pub(crate) points: &'a [Point],
    pub(crate) duration: Nanos,
    /// Length of a slice; `None` if the points do not take turns.
    pub(crate) slice: Option<Nanos>,
    /// Seed of all random choices of the run.
    pub(crate) seed: u64,
    pub(crate) interrupted: &'a AtomicBool,
}

impl Run<'_> {
    /// Runs the points once: the probe alone, if there is one, then the load with the probe.
    pub(crate) fn carry_out(
        &self,
        coordinator: &mut Coordinator,
        progress: &mut dyn Progress,
    ) -> Result<RunResult, PlanError> {
        if let Some(slice) = self.slice {
            return self.in_slices(coordinator, slice, progress);
        }
        let loads: Vec<Point> = self.points.iter().flat_map(Point::loads).collect();
        let Some(prober) = self.points.iter().find_map(Point::prober) else {
            return self.at_once(coordinator, &loads, None, progress);
        };
        let last = self.place_of_probe(loads.len());
        let mut claims = Claims::default();
        let purpose = Purpose::ProbeIdle;
        let idle = Talk::begin(self, coordinator, purpose, &prober, (last, true), &mut claims)?;
        let mut parts = match self.converse(coordinator, vec![idle], None, claims, progress)? {
            RunResult::Finished(parts) => parts,
            failed => return Ok(failed),
        };
        match self.at_once(coordinator, &loads, Some(&prober), progress)? {
            RunResult::Finished(loaded) => parts.extend(loaded),
            failed => return Ok(failed),
        }
        // The load comes first wherever parts are listed.
        parts.sort_by_key(|part| part.purpose != Purpose::Load);
        Ok(RunResult::Finished(parts))
    }

    fn at_once(
        &self,
        coordinator: &mut Coordinator,
        loads: &[Point],
        prober: Option<&Point>,
        progress: &mut dyn Progress,
    ) -> Result<RunResult, PlanError> {
        let is_alone = loads.len() == 1 && prober.is_none();
        let mut claims = Claims::default();
        let talks = loads.iter().enumerate();
        let talks: Result<Vec<Talk>, PlanError> = talks
            .map(|(place, load)| {
                let place = self.place_of(load, place);
                let purpose = Purpose::Load;
                Talk::begin(self, coordinator, purpose, load, (place, is_alone), &mut claims)
            })
            .collect();
        self.converse(coordinator, talks?, prober, claims, progress)
    }

    /// Place of a load among all that the plan runs at once: a group has the same CPUs and workers alone and together.
    fn place_of(&self, load: &Point, place: usize) -> usize {
        let is_its = |group: &Group| Some(&group.name) == load.group.as_ref();
        let Some(group) = self.plan.groups.iter().position(is_its) else { return place };
        let is_reverse_of_two = load.direction == Some(Direction::Reverse)
            && self
                .points
                .iter()
                .any(|point| point.group == load.group && point.direction == Some(Direction::Both));
        self.loads_each() * group + usize::from(is_reverse_of_two)
    }

    /// Most loads of a group: two if a direction is `both`.
    fn loads_each(&self) -> usize {
        let is_both = |point: &Point| point.direction == Some(Direction::Both);
        if self.plan.points.iter().any(is_both) { 2 } else { 1 }
    }

    /// Place of the probe, behind those of all loads.
    fn place_of_probe(&self, loads: usize) -> usize {
        loads.max(self.loads_each() * self.plan.groups.len())
    }

    /// Opens the flows of all points and lets the points take turns, each once per round, in random order.
    fn in_slices(
        &self,
        coordinator: &mut Coordinator,
        slice: Nanos,
        progress: &mut dyn Progress,
    ) -> Result<RunResult, PlanError> {
        let mut claims = Claims::default();
        let points = self.points.iter().enumerate();
        let talks: Result<Vec<Talk>, PlanError> = points
            .map(|(place, point)| {
                let purpose = Purpose::Load;
                Talk::begin(self, coordinator, purpose, point, (place, false), &mut claims)
            })
            .collect();
        let mut talks = talks?;
        if let Some(failed) =
            self.until(coordinator, &mut talks, progress, |talk| talk.conversation.has_begun())?
        {
            return Ok(failed);
        }
        let rtt = talks.iter().map(|talk| coordinator.control_rtt(&talk.pair)).max();
        if let Some(rtt) = rtt.filter(|&rtt| rtt > CONTROL_RTT_MAX) {
            self.give_up(coordinator, &mut talks)?;
            let why = format!("the RTT of the control path, {rtt}, is too long for slices");
            return Ok(RunResult::Invalid(why, Cause::Other));
        }
        let rounds = self.duration.0.div_ceil(slice.0).max(1);
        let omitted = WARM_UP.0.div_ceil(slice.0).max(ROUNDS_OMITTED_MIN);
        let mut order: Vec<usize> = (0..talks.len()).collect();
        let mut stream = Stream::new(self.seed, "order of slices");
        for round in 0..omitted + rounds {
            stream.shuffle(&mut order);
            for &turn in &order {
                let now = coordinator.now();
                let counts = round >= omitted;
                talks[turn].conversation.begin_slice(now, counts);
                let is_over = |talk: &mut Talk| talk.ends_slice(counts);
                let talk = std::slice::from_mut(&mut talks[turn]);
                if let Some(failed) = self.until(coordinator, talk, progress, is_over)? {
                    self.give_up(coordinator, &mut talks)?;
                    return Ok(failed);
                }
            }
        }
        let now = coordinator.now();
        talks.iter_mut().for_each(|talk| talk.conversation.end_slices(now));
        self.converse(coordinator, talks, None, claims, progress)
    }

    /// Drives conversations until `is_true` holds for each of them. Returns a result if one fails.
    fn until(
        &self,
        coordinator: &mut Coordinator,
        talks: &mut [Talk],
        progress: &mut dyn Progress,
        is_true: impl Fn(&mut Talk) -> bool,
    ) -> Result<Option<RunResult>, PlanError> {
        let mut is_left = vec![true; talks.len()];
        loop {
            for talk in &mut *talks {
                talk.send(coordinator)?;
                if let Some(Err(error)) = talk.conversation.outcome() {
                    self.give_up(coordinator, talks)?;
                    return judge(error).map(Some);
                }
            }
            for (talk, is_left) in talks.iter_mut().zip(&mut is_left) {
                *is_left &= !is_true(talk);
            }
            if !is_left.contains(&true) {
                return Ok(None);
            }
            if self.interrupted.load(Relaxed) {
                return Err(PlanError::Interrupted);
            }
            wait(coordinator, talks)?;
            for talk in &mut *talks {
                talk.listen(coordinator, progress)?;
            }
        }
    }

    /// Aborts the conversations of a run that does not count.
    fn give_up(&self, coordinator: &mut Coordinator, talks: &mut [Talk]) -> Result<(), PlanError> {
        talks.iter_mut().try_for_each(|talk| talk.abort(coordinator))
    }

    /// Whether the plan has no other run: an interrupt keeps what it has measured.
    pub(crate) fn is_only_one(&self) -> bool {
        self.plan.points.len() == 1 && self.plan.stop.runs_max == 1
    }

    /// Drives conversations to their ends. The probe starts when all others have begun.
    fn converse(
        &self,
        coordinator: &mut Coordinator,
        mut talks: Vec<Talk>,
        mut prober: Option<&Point>,
        mut claims: Claims,
        progress: &mut dyn Progress,
    ) -> Result<RunResult, PlanError> {
        let mut waits = talks.iter().any(|talk| talk.waits_for_start);
        let mut is_stopping = false;
        loop {
            let has_opened = |talk: &Talk| talk.conversation.has_opened();
            if waits
                && talks.iter().any(has_opened)
                && talks.iter().any(|talk| talk.conversation.place().is_some())
            {
                // Two coordinators that hold one agent and wait for the other's would wait for ever.
                self.give_up(coordinator, &mut talks)?;
                let why = "a group waited in the queue of an agent while another group had started; run one \
                           plan at a time on these agents, or raise agent --at-once";
                return Ok(RunResult::Invalid(why.to_owned(), Cause::Other));
            }
            if waits && talks.iter().all(|talk| talk.conversation.has_opened()) {
                let is_unknown = |talk: &&Talk| {
                    let sender = talk.conversation.sender();
                    talk.start.0 > 0 && coordinator.clock_of(&talk.pair, sender).is_none()
                };
                if let Some(talk) = talks.iter().find(is_unknown) {
                    let group = talk.point.group.clone().unwrap_or_default();
                    self.give_up(coordinator, &mut talks)?;
                    let why = format!(
                        "`start` needs the clock offset of the sender of group {group}, which is not known yet; \
                         repeat the run, or leave out `start`"
                    );
                    return Ok(RunResult::Invalid(why, Cause::Other));
                }
                start_together(coordinator, &mut talks);
                waits = false;
            }
            if let Some(point) = prober
                && talks.iter().all(|talk| talk.conversation.has_begun())
            {
                let place = self.place_of_probe(talks.len());
                let (purpose, claims) = (Purpose::Probe, &mut claims);
                talks.push(Talk::begin(self, coordinator, purpose, point, (place, false), claims)?);
                prober = None;
            }
            let mut failed = None;
            for talk in &mut talks {
                talk.send(coordinator)?;
                match talk.conversation.outcome() {
                    Some(Ok(ends)) => talk.ends = Some(ends),
                    Some(Err(error)) => failed = failed.or(Some((talk.point.group.clone(), error))),
                    None => {}
                }
            }
            if let Some((group, error)) = failed {
                self.give_up(coordinator, &mut talks)?;
                return Ok(match (judge(error)?, group) {
                    (RunResult::Invalid(reason, cause), Some(group)) => {
                        RunResult::Invalid(format!("{group}: {reason}"), cause)
                    }
                    (result, _) => result,
                });
            }
            if prober.is_none() && talks.iter().all(|talk| talk.ends.is_some()) {
                for talk in &mut talks {
                    if let Err(failure) = talk.finish_relay(coordinator)? {
                        self.give_up(coordinator, &mut talks)?;
                        return judge(ConversationError::Relay { failure });
                    }
                }
                let parts = talks.into_iter().filter_map(|talk| talk.end(self.plan.interval_ns));
                return Ok(RunResult::Finished(parts.collect()));
            }
            if self.interrupted.load(Relaxed) && !is_stopping {
                let can_count = |talk: &Talk| talk.conversation.has_begun();
                if !self.is_only_one() || prober.is_some() || !talks.iter().all(can_count) {
                    return Err(PlanError::Interrupted);
                }
                let now = coordinator.now();
                talks.iter_mut().for_each(|talk| talk.conversation.stop_early(now));
                is_stopping = true;
            }
            wait(coordinator, &talks)?;
            for talk in &mut talks {
                talk.listen(coordinator, progress)?;
            }
        }
    }
}

/// The conversation of one part of a run.
struct Talk {
    purpose: Purpose,
    point: Point,
    omit: Nanos,
    /// Id of its workers.
    pair: PairId,
    conversation: Conversation,
    /// Whether its sender starts with those of other parts.
    waits_for_start: bool,
    /// When it starts, after the parts that start first.
    start: Nanos,
    /// Offset of the sender's clock from this machine's, and its possible error, in nanoseconds; `None`: not known.
    clock: Option<(i64, u64)>,
    /// Place in an agent's queue that was reported last.
    place: Option<u32>,
    intervals: Intervals,
    ends: Option<Ends>,
    /// The order for the relay between client and server, until it is started.
    relay: Option<Prepare>,
    /// Whether the relay runs.
    is_relayed: bool,
    /// What it measured.
    relay_times: Option<RelayTimes>,
    /// See [`Part::slice_rates`].
    slice_rates: Vec<f64>,
}

impl Talk {
    fn begin(
        run: &Run<'_>,
        coordinator: &mut Coordinator,
        purpose: Purpose,
        point: &Point,
        (place, is_alone): (usize, bool),
        claims: &mut Claims,
    ) -> Result<Self, PlanError> {
        let duration = match purpose {
            // The probe starts a little later than the load and has to end before it, whatever is omitted of both.
            Purpose::Probe => Nanos(run.duration.0 / 10 * 9),
            Purpose::Load | Purpose::ProbeIdle => run.duration,
        };
        let pair = coordinator.start_pair(point, place)?;
        let (mut start, mut answer) = coordinator.prepare(
            run.plan,
            point,
            (place, is_alone),
            (duration, run.slice),
            run.seed,
        )?;
        if purpose != Purpose::Load {
            (start.interval_ns, answer.interval_ns) = (None, None);
            start.amount = None;
        }
        if purpose == Purpose::Probe {
            // It counts while the load does.
            let omit = run.points.iter().map(|load| run.plan.omitted(load)).max();
            let omit = omit.unwrap_or_default();
            for prepare in [&mut start, &mut answer] {
                (prepare.duration_ns, prepare.omit_ns) = (omit + duration, omit);
            }
        }
        let waits_for_start = purpose == Purpose::Load && !is_alone && run.slice.is_none();
        (start.waits_for_start, answer.waits_for_start) = (waits_for_start, waits_for_start);
        let relay = point.relay.map(|_| coordinator.prepare_relay(point, &answer)).transpose()?;
        // A client opens its flows when the server listens, so both ends have settings that the server makes first.
        for prepare in [&mut answer, &mut start] {
            let facts = coordinator.facts(prepare.role, point);
            prepare.host_settings = claims.take(point, &facts, &prepare.device);
        }
        if point.host_settings.is_some() {
            // Before the run, and after it.
            let links = Nanos::from(LINK_WITHIN);
            start.patience_ns = start.patience_ns + links + links;
        }
        let (omit, start_ns) = (start.omit_ns, start.start_ns);
        let mut conversation = Conversation::new(coordinator.now(), start, answer);
        let machine_of = |role| coordinator.facts(role, point).boot;
        if let (Some(client), Some(server)) = (machine_of(Role::Client), machine_of(Role::Server))
            && client != server
        {
            // Each machine may have an agent with a queue.
            conversation.prepare_first(if client < server { Role::Client } else { Role::Server });
        }
        Ok(Self {
            purpose,
            point: point.clone(),
            omit,
            start: start_ns,
            pair,
            conversation,
            waits_for_start,
            clock: None,
            place: None,
            intervals: Intervals::default(),
            ends: None,
            relay,
            is_relayed: false,
            relay_times: None,
            slice_rates: Vec::new(),
        })
    }

    /// Whether the current slice has ended; keeps its rate if it counts.
    fn ends_slice(&mut self, counts: bool) -> bool {
        let Some((active, passive)) = self.conversation.poll_slice() else { return false };
        // The rate of requests in an open loop is given, and their times do not follow from it.
        let is_rate = self.point.pace == Pace::Closed || self.point.pattern == Pattern::Stream;
        if counts && is_rate {
            self.slice_rates.push(slice_rate(&self.point, &active, &passive));
        }
        true
    }

    fn send(&mut self, coordinator: &mut Coordinator) -> Result<(), PlanError> {
        while let Some((role, mut order)) = self.conversation.poll_output() {
            if let Order::Begin { peer, .. } = &mut order
                && let Some(prepare) = self.relay.take()
                && let Err(failure) = self.start_relay(coordinator, prepare, peer)?
            {
                self.conversation.on_relay_failed(failure);
                continue;
            }
            if matches!(order, Order::Abort { .. }) {
                self.abort_relay(coordinator)?;
            }
            if self.point.transport.is_lossy()
                && matches!(order, Order::Drain { .. } | Order::EndSlice { .. })
            {
                coordinator.settle(role.other(), &self.point)?;
            }
            coordinator.pair(&self.pair).node(role).send(&order)?;
        }
        Ok(())
    }

    /// Aborts what has not ended: the conversation, and the relay.
    fn abort(&mut self, coordinator: &mut Coordinator) -> Result<(), PlanError> {
        self.conversation.abort();
        self.send(coordinator)?;
        self.abort_relay(coordinator)
    }

    fn abort_relay(&mut self, coordinator: &mut Coordinator) -> Result<(), PlanError> {
        if !std::mem::take(&mut self.is_relayed) {
            return Ok(());
        }
        let run = self.conversation.run();
        coordinator.relay(&self.pair, &self.point)?.send(&Order::Abort { run })
    }

    /// Starts the relay to the server at `peer`, and sets `peer` to it.
    fn start_relay(
        &mut self,
        coordinator: &mut Coordinator,
        prepare: Prepare,
        peer: &mut SocketAddr,
    ) -> Result<Result<(), Failure>, PlanError> {
        let (address, forward) = (prepare.address, Some(*peer));
        let worker = coordinator.relay(&self.pair, &self.point)?;
        let started = relay::start(worker, Prepare { forward, ..prepare })?;
        Ok(started.map(|port| {
            self.is_relayed = true;
            peer.set_ip(address);
            peer.set_port(port);
        }))
    }

    fn listen(
        &mut self,
        coordinator: &mut Coordinator,
        progress: &mut dyn Progress,
    ) -> Result<(), PlanError> {
        for role in [Role::Client, Role::Server] {
            for report in coordinator.pair(&self.pair).node(role).receive()? {
                let now = coordinator.now();
                self.conversation.on_message(now, role, report);
            }
        }
        while let Some((role, interval)) = self.conversation.poll_interval() {
            progress.interval(&self.point, role, &interval);
            self.intervals.add(role, interval);
        }
        if self.conversation.place() != self.place {
            self.place = self.conversation.place();
            if let Some(place) = self.place {
                progress.waits(place);
            }
        }
        self.conversation.on_timeout(coordinator.now());
        Ok(())
    }

    /// Stops the relay, if it runs.
    fn finish_relay(
        &mut self,
        coordinator: &mut Coordinator,
    ) -> Result<Result<(), Failure>, PlanError> {
        if !self.is_relayed {
            return Ok(Ok(()));
        }
        let worker = coordinator.relay(&self.pair, &self.point)?;
        let finished = relay::finish(worker, self.conversation.run())?;
        Ok(finished.map(|times| {
            self.is_relayed = false;
            self.relay_times = times;
        }))
    }

    fn end(self, interval: Option<Nanos>) -> Option<Part> {
        let mut ends = self.ends?;
        if self.purpose == Purpose::Load {
            self.intervals.into_series(interval, &mut ends);
        }
        let Self { purpose, point, omit, slice_rates, relay_times, clock, .. } = self;
        let sender =
            if self.conversation.sender() == Role::Client { &ends.client } else { &ends.server };
        let active = sender.active.zip(clock).map(|(time, (offset_ns, error_ns))| {
            let here = |ns: u64| ns.saturating_add_signed(offset_ns.saturating_neg());
            let time = ActiveTime { began_ns: here(time.began_ns), ended_ns: here(time.ended_ns) };
            (time, error_ns)
        });
        // In slices, a connection is open while others have their turn.
        let relay = relay_times.filter(|_| slice_rates.is_empty());
        Some(Part { purpose, point, omit, ends, active, slice_rates, relay })
    }
}

/// Lets all senders that wait for it start at the same time, or as much later as the plan asks for.
fn start_together(coordinator: &Coordinator, talks: &mut [Talk]) {
    let rtt = talks.iter().map(|talk| coordinator.control_rtt(&talk.pair)).max();
    let lead = START_LEAD + rtt.unwrap_or_default();
    let at_ns = machine_time().0 + lead.0;
    for talk in talks.iter_mut().filter(|talk| talk.waits_for_start) {
        talk.clock = coordinator.clock_of(&talk.pair, talk.conversation.sender());
        let at_ns = at_ns.saturating_add(talk.start.0);
        let at_ns = talk.clock.map(|(offset_ns, _)| at_ns.saturating_add_signed(offset_ns));
        talk.conversation.start(coordinator.now(), at_ns, lead + talk.start);
    }
}

/// Sleeps until a report arrives, a deadline passes, or an interrupt is to be checked.
fn wait(coordinator: &Coordinator, talks: &[Talk]) -> Result<(), PlanError> {
    let now = coordinator.now();
    let deadlines = talks.iter().filter_map(|talk| talk.conversation.deadline());
    let left = deadlines.map(|at| at - now).min().unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
    let mut sockets: Vec<PollFd<'_>> = talks
        .iter()
        .flat_map(|talk| coordinator.sockets(&talk.pair))
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    poll_for(&mut sockets, left.into()).map(drop).map_err(PlanError::system("wait for workers"))
}

/// Intervals that both ends have reported so far.
#[derive(Default)]
struct Intervals {
    client: Vec<Interval>,
    server: Vec<Interval>,
}

impl Intervals {
    fn add(&mut self, role: Role, interval: Interval) {
        match role {
            Role::Client => self.client.push(interval),
            Role::Server => self.server.push(interval),
        }
    }

    /// Puts the intervals into the reports of the ends, if the plan has intervals.
    fn into_series(self, interval: Option<Nanos>, ends: &mut Ends) {
        let series = |intervals| Some(Series::of(interval?.0, intervals));
        ends.client.series = series(self.client);
        ends.server.series = series(self.server);
    }
}

/// Whether a failure concerns this run, this point, or the whole plan.
pub(crate) fn judge(error: ConversationError) -> Result<RunResult, PlanError> {
    match error {
        ConversationError::Silent { .. } => Ok(RunResult::Invalid(error.to_string(), Cause::Other)),
        ConversationError::Failed { ref failure, .. }
        | ConversationError::Relay { ref failure } => match failure {
            Failure::Unreachable(_) => {
                Ok(RunResult::Invalid(error.to_string(), Cause::Unreachable))
            }
            Failure::Peer(_) | Failure::Aborted => {
                Ok(RunResult::Invalid(error.to_string(), Cause::Other))
            }
            Failure::System(_) | Failure::Missing(_) => Ok(RunResult::Unusable(error)),
            // Further points would be measured with the settings of this one.
            Failure::Protocol(_) | Failure::NotPutBack(_) => Err(PlanError::Run(error)),
        },
        ConversationError::Vanished { .. } => Err(PlanError::Run(error)),
    }
}
