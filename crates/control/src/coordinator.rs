//! Carries one run out: prepares both ends and drives their conversation to its end.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant as Clock;

use fabricmark_lab::{Attachment, End, Lab, LabError, Namespace};
use fabricmark_plan::{Pace, Plan, Point};
use fabricmark_proto::{Conversation, ConversationError, Ends, Failure, Prepare, Role};
use fabricmark_record::{Interval, Series};
use fabricmark_units::{Instant, Nanos};
use fabricmark_wire::{Family, Link};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::experiment::{PlanError, Progress};
use crate::node::Node;

/// How often a waiting coordinator looks whether it was interrupted.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Workers at both ends of every link of a plan, ready for runs.
pub(crate) struct Coordinator {
    lab: Option<Lab>,
    /// Workers in the lab's namespaces.
    in_lab: Option<Pair>,
    /// Workers in the network that this process is in, for loopback.
    at_home: Option<Pair>,
    /// Processors of the starting and the answering end.
    cpus: (Option<u32>, Option<u32>),
    began: Clock,
    runs: u64,
}

/// The two workers of a run.
struct Pair {
    client: Node,
    server: Node,
}

impl Pair {
    fn start<'a>(
        program: &Path,
        namespace: impl Fn(End) -> Option<&'a Namespace>,
    ) -> Result<Self, PlanError> {
        let start = |end: End| Node::start(end.name(), program, namespace(end));
        Ok(Self { client: start(End::Client)?, server: start(End::Server)? })
    }

    fn node(&mut self, role: Role) -> &mut Node {
        match role {
            Role::Start => &mut self.client,
            Role::Answer => &mut self.server,
        }
    }
}

/// What a run came to.
pub(crate) enum RunResult {
    /// Both ends finished.
    Finished(Box<Ends>),
    /// It does not count, for this reason; the next run may.
    Invalid(String),
}

impl Coordinator {
    /// Builds what the links need and starts a worker at each end of them.
    pub(crate) fn start(links: &[Link], program: &Path) -> Result<Self, PlanError> {
        let (home, wires): (Vec<Link>, Vec<Link>) =
            links.iter().partition(|&&link| link == Link::Loopback);
        let lab = if wires.is_empty() { None } else { Some(Lab::build(&wires)?) };
        let in_lab = match &lab {
            Some(lab) => Some(Pair::start(program, |end| Some(lab.namespace(end)))?),
            None => None,
        };
        let at_home = if home.is_empty() { None } else { Some(Pair::start(program, |_| None)?) };
        let cpus = fabricmark_host::cpus();
        let first = cpus.first().copied();
        let cpus = (first, cpus.get(1).copied().or(first));
        Ok(Self { lab, in_lab, at_home, cpus, began: Clock::now(), runs: 0 })
    }

    fn now(&self) -> Instant {
        Instant(Nanos::from(self.began.elapsed()).0)
    }

    /// The workers at the ends of a link.
    fn pair(&mut self, link: Link) -> Result<&mut Pair, PlanError> {
        let pair = if link == Link::Loopback { &mut self.at_home } else { &mut self.in_lab };
        pair.as_mut().ok_or_else(|| PlanError::NoLink(link))
    }

    /// Where an end is attached to the link of a point.
    pub(crate) fn attach(&self, end: End, point: &Point) -> Attachment {
        match &self.lab {
            Some(lab) if point.link != Link::Loopback => {
                lab.attach(end, lab.link(&point.link).unwrap_or_default(), point.family)
            }
            _ => Attachment {
                device: "lo".to_owned(),
                address: match point.family {
                    Family::V4 => Ipv4Addr::LOCALHOST.into(),
                    Family::V6 => Ipv6Addr::LOCALHOST.into(),
                },
            },
        }
    }

    /// Packets that the queue in front of a point's link has dropped so far.
    pub(crate) fn queue_drops(&self, point: &Point) -> Result<u64, LabError> {
        match &self.lab {
            Some(lab) if point.link != Link::Loopback => {
                lab.queue_drops(lab.link(&point.link).unwrap_or_default())
            }
            _ => Ok(0),
        }
    }

    /// Carries a point out once; `seed` is that of what is random in the run.
    pub(crate) fn run(
        &mut self,
        plan: &Plan,
        point: &Point,
        duration: Nanos,
        seed: u64,
        interrupted: &AtomicBool,
        progress: &mut dyn Progress,
    ) -> Result<RunResult, PlanError> {
        self.runs += 1;
        let (start, answer) = self.prepare(plan, point, duration, seed)?;
        let mut conversation = Conversation::new(self.now(), start, answer);
        let mut intervals = Intervals::default();
        loop {
            while let Some((role, order)) = conversation.poll_output() {
                self.pair(point.link)?.node(role).send(&order)?;
            }
            match conversation.outcome() {
                Some(Ok(mut ends)) => {
                    intervals.into_series(plan.interval_ns, &mut ends);
                    return Ok(RunResult::Finished(Box::new(ends)));
                }
                Some(Err(error)) => return judge(error),
                None => {}
            }
            if interrupted.load(Relaxed) {
                return Err(PlanError::Interrupted);
            }
            self.wait(point.link, conversation.deadline())?;
            for role in [Role::Start, Role::Answer] {
                for report in self.pair(point.link)?.node(role).receive()? {
                    let now = self.now();
                    conversation.on_message(now, role, report);
                }
            }
            while let Some((role, interval)) = conversation.poll_interval() {
                progress.interval(role, &interval);
                intervals.add(role, interval);
            }
            conversation.on_timeout(self.now());
        }
    }

    /// Sleeps until a worker says something, the deadline, or the next look at interruptions.
    fn wait(&mut self, link: Link, deadline: Option<Instant>) -> Result<(), PlanError> {
        let left = deadline.map_or(LOOK_EVERY, |at| (at - self.now()).min(LOOK_EVERY));
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.0 as i64 };
        let pair = self.pair(link)?;
        let mut sockets = [
            PollFd::new(&pair.client.socket, PollFlags::IN),
            PollFd::new(&pair.server.socket, PollFlags::IN),
        ];
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(PlanError::system("wait for workers")(error.into())),
        }
    }

    fn prepare(
        &self,
        plan: &Plan,
        point: &Point,
        duration: Nanos,
        seed: u64,
    ) -> Result<(Prepare, Prepare), PlanError> {
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("draw a random token")(error.into()))?;
        let trace = match &point.pace {
            Pace::Trace(file) => plan.traces.get(file),
            _ => None,
        };
        let side = |role, end, cpu| {
            let attachment = self.attach(end, point);
            Prepare {
                run: self.runs,
                role,
                point: point.clone(),
                duration_ns: duration,
                token,
                address: attachment.address,
                port: plan.port,
                device: attachment.device,
                cpu,
                interval_ns: plan.interval_ns,
                seed,
                trace: trace.cloned(),
            }
        };
        let chosen = plan.cpus.map(|(start, answer)| (Some(start), Some(answer)));
        let (start, answer) = chosen.unwrap_or(self.cpus);
        Ok((side(Role::Start, End::Client, start), side(Role::Answer, End::Server, answer)))
    }
}

/// What both ends have told of a run so far.
#[derive(Default)]
struct Intervals {
    start: Vec<Interval>,
    answer: Vec<Interval>,
}

impl Intervals {
    fn add(&mut self, role: Role, interval: Interval) {
        match role {
            Role::Start => self.start.push(interval),
            Role::Answer => self.answer.push(interval),
        }
    }

    /// Puts the series into the reports of the ends, where the plan asks for them.
    fn into_series(self, interval: Option<Nanos>, ends: &mut Ends) {
        let series = |intervals| Some(Series { interval_ns: interval?.0, intervals });
        ends.start.series = series(self.start);
        ends.answer.series = series(self.answer);
    }
}

/// A failure that the next run would meet as well ends the plan; any other spoils one run.
fn judge(error: ConversationError) -> Result<RunResult, PlanError> {
    match error {
        ConversationError::Failed { failure: Failure::Peer(_) | Failure::Aborted, .. }
        | ConversationError::Silent { .. } => Ok(RunResult::Invalid(error.to_string())),
        _ => Err(PlanError::Run(error)),
    }
}
