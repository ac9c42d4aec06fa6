//! Workers on another host, by its agent.

use fabricmark_plan::Role;
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_proto::{SessionId, Welcome};
use fabricmark_wire::Family;

use crate::attachment::Attachment;
use crate::carrier::{AgentError, Carrier};
use crate::error::PlanError;
use crate::host::AgentHost;
use crate::node::Node;
use crate::peer::AgentAccess;

/// How long a lost agent is called again: a cable that was moved, a daemon that was started anew.
const CALL_FOR: Duration = Duration::from_secs(30);

/// Pause between calls.
const CALL_EVERY: Duration = Duration::from_millis(500);

/// An agent that has answered.
pub(crate) struct Abroad {
    access: AgentAccess,
    session: SessionId,
    welcome: Welcome,
    /// A worker that nobody uses yet.
    spare: Option<Node>,
}

impl Abroad {
    /// Calls an agent.
    pub(crate) fn call(access: &AgentAccess) -> Result<Self, PlanError> {
        let mut session = SessionId::default();
        rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("draw a random number")(error.into()))?;
        let mut abroad =
            Self { access: access.clone(), session, welcome: Welcome::default(), spare: None };
        abroad.spare = Some(abroad.connect()?);
        Ok(abroad)
    }

    fn connect(&mut self) -> Result<Node, PlanError> {
        let AgentAccess { host, tls } = &self.access;
        let (carrier, socket) = Carrier::call(&host.name, &host.control, tls, self.session)?;
        self.welcome = carrier.welcome.clone();
        Node::behind(Role::Server.name(), carrier, socket)
    }

    /// Calls a lost agent until it is back, for a while.
    pub(crate) fn call_again(
        &mut self,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<(), PlanError> {
        let until = Instant::now() + CALL_FOR;
        loop {
            match self.connect() {
                Ok(node) => {
                    self.spare = Some(node);
                    return Ok(());
                }
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) if is_interrupted() => return Err(PlanError::Interrupted),
                Err(_) => thread::sleep(CALL_EVERY),
            }
        }
    }

    /// One more worker.
    pub(crate) fn worker(&mut self) -> Result<Node, PlanError> {
        match self.spare.take() {
            Some(node) => Ok(node),
            None => self.connect(),
        }
    }

    /// What the agent told of itself.
    pub(crate) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Whether the agent runs on this machine, so that both ends share its processors.
    pub(crate) fn is_this_machine(&self) -> bool {
        let boot = fabricmark_host::boot();
        !boot.is_empty() && self.welcome.boot == boot
    }

    /// Where an end is attached to the network between the hosts.
    pub(crate) fn attach(&self, role: Role, family: Family) -> Result<Attachment, PlanError> {
        let AgentHost { name, .. } = &self.access.host;
        let fail = |why: String| AgentError { host: name.clone(), why };
        let at =
            self.access.host.data_address(family, &self.welcome.addresses).ok_or_else(|| {
                let word = if family == Family::V4 { "IPv4" } else { "IPv6" };
                fail(format!(
                    "has no {word} address that is known here: name it, as in --to {name},ADDRESS"
                ))
            })?;
        if role == Role::Server {
            let device = self.welcome.device.clone();
            return Ok(Attachment { device, address: at.ip(), scope_id: 0 });
        }
        Ok(Attachment::towards(at)
            .map_err(|error| fail(format!("cannot be reached at {}: {error}", at.ip())))?)
    }
}
