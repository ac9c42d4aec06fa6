//! The server on another host, by its agent; the client on this host or on a third one.

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
use crate::node::Node;
use crate::pair::Pair;
use crate::peer::AgentAccess;

/// How long a lost agent is called again: long enough to move a cable or to restart the daemon.
const CALL_FOR: Duration = Duration::from_secs(30);

/// Pause between calls.
const CALL_EVERY: Duration = Duration::from_millis(500);

/// The hosts of both ends.
pub(super) struct Hosts {
    /// The client's; `None` for this host.
    client: Option<Remote>,
    server: Remote,
}

impl Hosts {
    /// Calls the agents.
    pub(super) fn call(
        client: Option<&AgentAccess>,
        server: &AgentAccess,
    ) -> Result<Self, PlanError> {
        let client = client.map(|access| Remote::call(Role::Client, access)).transpose()?;
        Ok(Self { client, server: Remote::call(Role::Server, server)? })
    }

    /// The agent at an end; `None` for this host.
    fn remote(&self, role: Role) -> Option<&Remote> {
        match role {
            Role::Client => self.client.as_ref(),
            Role::Server => Some(&self.server),
        }
    }
}

/// An agent that has answered.
struct Remote {
    role: Role,
    access: AgentAccess,
    session: SessionId,
    welcome: Welcome,
    /// A worker that nobody uses yet.
    spare: Option<Node>,
}

impl Remote {
    fn call(role: Role, access: &AgentAccess) -> Result<Self, PlanError> {
        let mut session = SessionId::default();
        rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| PlanError::system("draw a random number")(error.into()))?;
        let (access, welcome) = (access.clone(), Welcome::default());
        let mut remote = Self { role, access, session, welcome, spare: None };
        remote.spare = Some(remote.connect()?);
        Ok(remote)
    }

    fn connect(&mut self) -> Result<Node, PlanError> {
        let AgentAccess { host, tls } = &self.access;
        let (carrier, socket) =
            carrier::Carrier::call(&host.name, &host.control, tls, self.session)?;
        self.welcome = carrier.welcome.clone();
        Node::behind(self.role.name(), carrier, socket)
    }

    /// One more worker.
    fn worker(&mut self) -> Result<Node, PlanError> {
        match self.spare.take() {
            Some(node) => Ok(node),
            None => self.connect(),
        }
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

    /// Whether the agent runs on this machine, so that both ends share its processors.
    fn is_this_machine(&self) -> bool {
        let boot = fabricmark_host::boot();
        !boot.is_empty() && self.welcome.boot == boot
    }

    fn fail(&self, why: String) -> AgentError {
        AgentError { host: self.access.host.name.clone(), why }
    }

    /// Where the data of a family goes.
    fn attach(&self, family: Family) -> Result<Attachment, AgentError> {
        let known = &self.welcome.addresses;
        let at = self.access.host.data_address(family, known).ok_or_else(|| {
            let word = if family == Family::V4 { "IPv4" } else { "IPv6" };
            let name = &self.access.host.name;
            self.fail(format!(
                "has no {word} address that is known here: name it, as in --to {name},ADDRESS"
            ))
        })?;
        Ok(Attachment { device: self.welcome.device.clone(), address: at.ip(), scope_id: 0 })
    }

    /// Where this host sends data to it.
    fn attach_here(&self, family: Family) -> Result<Attachment, AgentError> {
        let known = &self.welcome.addresses;
        let Some(at) = self.access.host.data_address(family, known) else {
            return self.attach(family);
        };
        Attachment::towards(at)
            .map_err(|error| self.fail(format!("cannot be reached at {}: {error}", at.ip())))
    }
}

impl Testbed for Hosts {
    fn start_pair(&mut self, _: Link, program: &Path) -> Result<Pair, PlanError> {
        let server = self.server.worker()?;
        let client = match &mut self.client {
            Some(remote) => remote.worker()?,
            None => Node::start(Role::Client.name(), program, None)?,
        };
        Ok(Pair { client, server })
    }

    fn attach(&self, role: Role, point: &Point) -> Result<Attachment, PlanError> {
        Ok(match self.remote(role) {
            Some(remote) => remote.attach(point.family)?,
            None => self.server.attach_here(point.family)?,
        })
    }

    fn facts(&self, role: Role, _: &Point, worker: Option<&Node>) -> NodeFacts {
        let Some(remote) = self.remote(role) else {
            let carrier = Carrier::LocalSocket;
            return NodeFacts { carrier, namespace: None, host: None, clock_offset: None };
        };
        let carrier = worker.and_then(Node::carrier);
        NodeFacts {
            carrier: Carrier::Agent,
            namespace: None,
            host: Some(remote.welcome.host.clone()),
            clock_offset: carrier.and_then(|carrier| carrier.facts().clock),
        }
    }

    fn cpus(&self, _: &Point, here: &[u32], place: usize) -> [Option<u32>; 2] {
        let is_shared = match &self.client {
            Some(client) => client.welcome.boot == self.server.welcome.boot,
            None => self.server.is_this_machine(),
        };
        let client = self.client.as_ref().map_or(here, |client| &client.welcome.cpus);
        if is_shared {
            return [2 * place, 2 * place + 1].map(|number| in_turn(client, number));
        }
        [in_turn(client, place), in_turn(&self.server.welcome.cpus, place)]
    }

    fn least_rtt(&self, _: &Point) -> Option<Nanos> {
        None
    }

    fn reconnect(&mut self, is_interrupted: &dyn Fn() -> bool) -> Result<(), PlanError> {
        if let Some(client) = &mut self.client {
            client.reconnect(is_interrupted)?;
        }
        self.server.reconnect(is_interrupted)
    }
}
