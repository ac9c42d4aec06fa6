//! The process of a tier: `fabricmark-shop tier`, at the tier's node or behind an agent.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;
use fabricmark_load::foreign::poll_for;
use fabricmark_plan::Tier;
use fabricmark_proto::{Order, Report};
use fabricmark_record::{HostFacts, TierLine, TierOrder};
use rustix::event::{PollFd, PollFlags};

use crate::carrier::Carrier;
use crate::error::PlanError;
use crate::node::Node;

/// Period of checks for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Longest silence while an order is carried out: loading a batch of rows takes milliseconds, and an audit of a large shop
/// seconds.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// A process of a tier. What it has started ends with it.
pub(super) struct TierProcess {
    tier: Tier,
    node: Node,
    /// Name of the agent's host as the user gave it; `None`: this host.
    agent: Option<String>,
    /// Facts about its host.
    host: HostFacts,
}

/// What is heard before an order is carried out.
#[derive(Clone, Copy, Debug)]
pub(super) enum News<'a> {
    /// How many of how many parts are done.
    Progress(u32, u32),
    /// It waits in the queue of an agent, whose host was named so, at this position.
    Queued { host: &'a str, place: u32 },
}

impl TierProcess {
    /// Starts the program of a tier here, in the namespace if one is given.
    pub(super) fn start(
        tier: Tier,
        fabricmark: &Path,
        namespace: Option<&Namespace>,
    ) -> Result<Self, PlanError> {
        let node = Node::start_tier(tier.name(), fabricmark, namespace)?;
        Ok(Self { tier, node, agent: None, host: fabricmark_host::facts() })
    }

    /// A tier behind an agent, which starts its program.
    pub(super) fn behind(
        tier: Tier,
        agent: &str,
        carrier: Carrier,
        socket: UnixStream,
    ) -> Result<Self, PlanError> {
        let (agent, host) = (Some(agent.to_owned()), carrier.welcome.host.clone());
        Ok(Self { tier, node: Node::behind(carrier, socket)?, agent, host })
    }

    /// Whether it is behind an agent.
    pub(super) fn is_remote(&self) -> bool {
        self.agent.is_some()
    }

    /// Facts about its host.
    pub(super) fn host(&self) -> &HostFacts {
        &self.host
    }

    /// Gives an order and waits until it is carried out.
    pub(super) fn ask(
        &mut self,
        order: &TierOrder,
        interrupted: &AtomicBool,
        news: &mut dyn FnMut(News<'_>),
    ) -> Result<TierLine, PlanError> {
        self.node.send(&Order::Tier { task: Box::new(order.clone()), ports: None })?;
        let mut heard = Instant::now();
        let mut is_queued = false;
        loop {
            for report in self.node.receive()? {
                let Report::Tier { line } = report else { continue };
                heard = Instant::now();
                is_queued = matches!(*line, TierLine::Queued { place: 1.. });
                match *line {
                    TierLine::Progress { done, of } => news(News::Progress(done, of)),
                    TierLine::Queued { place: 0 } => {}
                    TierLine::Queued { place } => {
                        let host = self.agent.as_deref().unwrap_or_default();
                        news(News::Queued { host, place });
                    }
                    TierLine::Failed { message, is_missing: true } => {
                        // What this host lacks concerns all tiers.
                        let is_remote = self.is_remote();
                        let message = if is_remote { self.with_name(&message) } else { message };
                        return Err(PlanError::Missing(message));
                    }
                    TierLine::Failed { message, .. } => {
                        return Err(PlanError::Failed(self.with_name(&message)));
                    }
                    line => return Ok(line),
                }
            }
            if interrupted.load(Relaxed) {
                return Err(PlanError::Interrupted);
            }
            if !is_queued && heard.elapsed() > SILENCE_MAX {
                let message = format!("was silent for {} s", SILENCE_MAX.as_secs());
                return Err(PlanError::Failed(self.with_name(&message)));
            }
            let socket = PollFd::new(&self.node.socket, PollFlags::IN);
            poll_for(&mut [socket], LOOK_EVERY).map_err(PlanError::system("wait for a tier"))?;
        }
    }

    /// A message with the name of the tier, and of its host if it is another one.
    fn with_name(&self, message: &str) -> String {
        match &self.agent {
            Some(host) => format!("tier {} at {host}: {message}", self.tier.name()),
            None => format!("tier {}: {message}", self.tier.name()),
        }
    }

    /// An answer that does not belong to the order.
    pub(super) fn unexpected(&self, line: &TierLine) -> PlanError {
        PlanError::Internal(self.with_name(&format!("unexpected answer {line:?}")))
    }

    /// Lets it end its servers, without waiting for them.
    pub(super) fn end(&mut self) {
        let _ = self.node.socket.shutdown(Shutdown::Both);
    }
}
