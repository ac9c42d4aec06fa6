//! Carries one run out: prepares both ends and drives their conversation to its end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant as Clock;

use fabricmark_lab::{End, Lab};
use fabricmark_plan::{Plan, Point};
use fabricmark_proto::{Conversation, ConversationError, Ends, Failure, Prepare, Role};
use fabricmark_units::{Instant, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::experiment::PlanError;
use crate::node::Node;

/// How often a waiting coordinator looks whether it was interrupted.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Two workers in a lab, ready for runs.
pub(crate) struct Coordinator {
    pub(crate) lab: Lab,
    client: Node,
    server: Node,
    /// Processors of the starting and the answering end.
    pub(crate) cpus: (Option<u32>, Option<u32>),
    began: Clock,
    runs: u64,
}

/// What a run came to.
pub(crate) enum RunResult {
    /// Both ends finished.
    Finished(Box<Ends>),
    /// It does not count, for this reason; the next run may.
    Invalid(String),
}

impl Coordinator {
    /// Starts a worker in each node of the lab.
    pub(crate) fn start(lab: Lab, program: &Path) -> Result<Self, PlanError> {
        let client = Node::start(End::Client.name(), program, lab.namespace(End::Client))?;
        let server = Node::start(End::Server.name(), program, lab.namespace(End::Server))?;
        let cpus = fabricmark_host::cpus();
        let first = cpus.first().copied();
        let cpus = (first, cpus.get(1).copied().or(first));
        Ok(Self { lab, client, server, cpus, began: Clock::now(), runs: 0 })
    }

    fn now(&self) -> Instant {
        Instant(Nanos::from(self.began.elapsed()).0)
    }

    fn node(&mut self, role: Role) -> &mut Node {
        match role {
            Role::Start => &mut self.client,
            Role::Answer => &mut self.server,
        }
    }

    /// Carries a point out once.
    pub(crate) fn run(
        &mut self,
        plan: &Plan,
        point: &Point,
        duration: Nanos,
        interrupted: &AtomicBool,
    ) -> Result<RunResult, PlanError> {
        self.runs += 1;
        let (start, answer) = self.prepare(plan, point, duration)?;
        let mut conversation = Conversation::new(self.now(), start, answer);
        loop {
            while let Some((role, order)) = conversation.poll_output() {
                self.node(role).send(&order)?;
            }
            match conversation.outcome() {
                Some(Ok(ends)) => return Ok(RunResult::Finished(Box::new(ends))),
                Some(Err(error)) => return judge(error),
                None => {}
            }
            if interrupted.load(Relaxed) {
                return Err(PlanError::Interrupted);
            }
            self.wait(conversation.deadline())?;
            for role in [Role::Start, Role::Answer] {
                for report in self.node(role).receive()? {
                    let now = self.now();
                    conversation.on_message(now, role, report);
                }
            }
            conversation.on_timeout(self.now());
        }
    }

    /// Sleeps until a worker says something, the deadline, or the next look at interruptions.
    fn wait(&self, deadline: Option<Instant>) -> Result<(), PlanError> {
        let left = deadline.map_or(LOOK_EVERY, |at| (at - self.now()).min(LOOK_EVERY));
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.0 as i64 };
        let mut sockets = [
            PollFd::new(&self.client.socket, PollFlags::IN),
            PollFd::new(&self.server.socket, PollFlags::IN),
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
    ) -> Result<(Prepare, Prepare), PlanError> {
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("draw a random token")(error.into()))?;
        let link = self.lab.link(&point.link).unwrap_or_default();
        let side = |role, end, cpu| {
            let attachment = self.lab.attach(end, link, point.family);
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
            }
        };
        Ok((
            side(Role::Start, End::Client, self.cpus.0),
            side(Role::Answer, End::Server, self.cpus.1),
        ))
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
