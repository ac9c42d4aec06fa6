//! The two workers of a part of a run.

use std::os::unix::net::UnixStream;
use std::path::Path;

use fabricmark_lab::Namespace;
use fabricmark_plan::Role;

use crate::error::PlanError;
use crate::node::Node;

/// Workers of client and server.
pub(crate) struct Pair(pub(crate) [Node; 2]);

impl Pair {
    /// Starts both workers here, each in its namespace if it has one; the first argument names the nodes.
    pub(crate) fn start<'a>(
        [client, server]: [&str; 2],
        program: &Path,
        namespace: impl Fn(Role) -> Option<&'a Namespace>,
    ) -> Result<Self, PlanError> {
        let client = Node::start(client, program, namespace(Role::Client))?;
        Ok(Self([client, Node::start(server, program, namespace(Role::Server))?]))
    }

    /// Sockets to both workers.
    pub(crate) fn sockets(&self) -> [&UnixStream; 2] {
        self.0.each_ref().map(|node| &node.socket)
    }

    pub(crate) fn worker(&self, role: Role) -> &Node {
        &self.0[role as usize]
    }

    pub(crate) fn node(&mut self, role: Role) -> &mut Node {
        &mut self.0[role as usize]
    }
}
