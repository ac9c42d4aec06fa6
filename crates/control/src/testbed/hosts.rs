//! The server on another host, by its agent.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_plan::{Point, Role};
use fabricmark_proto::{SessionId, Welcome};
use fabricmark_record::Carrier;
use fabricmark_units::Nanos;
use fabricmark_wire::{Family, Link};

use super::{Testbed, in_turn};
use crate::attachment::{Attachment, NodeFacts};
use crate::carrier::{self, AgentError};
use crate::error::PlanError;
use crate::host::AgentHost;
use crate::node::Node;
use crate::pair::Pair;
use crate::peer::AgentAccess;

/// How long a lost agent is called again: long enough to move a cable or to restart the daemon.
const CALL_FOR: Duration = Duration::from_secs(30);

/// Pause between calls.
const CALL_EVERY: Duration = Duration::from_millis(500);

/// An agent that has answered.
pub(super) struct Hosts {
    access: AgentAccess,
    session: SessionId,
    welcome: Welcome,
    /// A worker that nobody uses yet.
    spare: Option<Node>,
}

impl Hosts {
    /// Calls an agent.
    pub(super) fn call(access: &AgentAccess) -> Result<Self, PlanError> {
        let mut session = SessionId::default();
        rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("draw a random number")(error.into()))?;
        let mut hosts =
            Self { access: access.clone(), session, welcome: Welcome::default(), spare: None };
        hosts.spare = Some(hosts.connect()?);
        Ok(hosts)
    }

    fn connect(&mut self) -> Result<Node, PlanError> {
        let AgentAccess { host, tls } = &self.access;
        let (carrier, socket) =
            carrier::Carrier::call(&host.name, &host.control, tls, self.session)?;
        self.welcome = carrier.welcome.clone();
        Node::behind(Role::Server.name(), carrier, socket)
    }

    /// One more worker.
    fn worker(&mut self) -> Result<Node, PlanError> {
        match self.spare.take() {
            Some(node) => Ok(node),
            None => self.connect(),
        }
    }

    /// Whether the agent runs on this machine, so that both ends share its processors.
    fn is_this_machine(&self) -> bool {
        let boot = fabricmark_host::boot();
        !boot.is_empty() && self.welcome.boot == boot
    }
}

impl Testbed for Hosts {
    fn start_pair(&mut self, _: Link, program: &Path) -> Result<Pair, PlanError> {
        let server = self.worker()?;
        Ok(Pair { client: Node::start(Role::Client.name(), program, None)?, server })
    }

    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        let family = point.family;
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

    fn facts(&self, role: Role, _: &Point, worker: Option<&Node>) -> NodeFacts {
        let carrier = worker.and_then(Node::carrier);
        let (is_server, clock) = (role == Role::Server, carrier.and_then(|it| it.facts().clock));
        NodeFacts {
            carrier: if is_server { Carrier::Agent } else { Carrier::LocalSocket },
            namespace: None,
            host: is_server.then(|| self.welcome.host.clone()),
            clock_offset: clock.filter(|_| is_server),
        }
    }

    fn cpus(&self, _: &Point, here: &[u32], place: usize) -> [Option<u32>; 2] {
        if self.is_this_machine() {
            return [2 * place, 2 * place + 1].map(|number| in_turn(here, number));
        }
        [in_turn(here, place), in_turn(&self.welcome.cpus, place)]
    }

    fn least_rtt(&self, _: &Point) -> Option<Nanos> {
        None
    }

    /// Calls the agent until it answers, for at most [`CALL_FOR`].
    fn reconnect(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<(), PlanError> {
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
}
