//! The two workers of a part of a run.

use std::os::unix::net::UnixStream;
use std::path::Path;

use fabricmark_lab::Namespace;
use fabricmark_plan::Role;

use crate::error::PlanError;
use crate::node::Node;

/// The two workers of a part of a run.
pub(crate) struct Pair {
    pub(crate) client: Node,
    pub(crate) server: Node,
}

impl Pair {
    /// Starts both here, each in its namespace where it has one; `nodes` are the names of client and server.
    pub(crate) fn start<'a>(
        nodes: [&str; 2],
        program: &Path,
        namespace: impl Fn(Role) -> Option<&'a Namespace>,
    ) -> Result<Self, PlanError> {
        let [client, server] = nodes;
        Ok(Self {
            client: Node::start(client, program, namespace(Role::Client))?,
            server: Node::start(server, program, namespace(Role::Server))?,
        })
    }

    /// The sockets to both.
    pub(crate) fn sockets(&self) -> [&UnixStream; 2] {
        [&self.client.socket, &self.server.socket]
    }

    pub(crate) fn worker(&self, role: Role) -> &Node {
        match role {
            Role::Client => &self.client,
            Role::Server => &self.server,
        }
    }

    pub(crate) fn node(&mut self, role: Role) -> &mut Node {
        match role {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        }
    }
}
