//! Testbed whose server is iperf3.

use std::path::Path;

use fabricmark_plan::{Point, Role};
use fabricmark_record::{Carrier, HostFacts};
use fabricmark_units::Nanos;

use super::Testbed;
use crate::attachment::{Attachment, NodeFacts};
use crate::error::PlanError;
use crate::node::Node;
use crate::pair::Pair;
use crate::peer::Iperf3Access;
use crate::relay::RelayPlace;

/// An iperf3 server, with the client in this process.
pub(super) struct Iperf3(pub(super) Iperf3Access);

impl Testbed for Iperf3 {
    fn start_pair(&mut self, _: &Point, _: &Path) -> Result<Pair, PlanError> {
        Err(PlanError::Internal("an iperf3 server has no workers".to_owned()))
    }

    fn relay(&self, _: &Point) -> Result<RelayPlace, PlanError> {
        Err(PlanError::Input("relay is not supported with another host".to_owned()))
    }

    fn attach(&self, role: Role, _: &Point) -> Result<Attachment, PlanError> {
        let server = self.0.server;
        match role {
            Role::Client => {
                Attachment::towards(server).map_err(PlanError::system("find a route to the server"))
            }
            Role::Server => {
                Ok(Attachment { device: String::new(), address: server.ip(), scope_id: 0 })
            }
        }
    }

    fn facts(&self, role: Role, _: &Point, _: Option<&Node>) -> NodeFacts {
        let (carrier, host) = match role {
            Role::Client => (Carrier::LocalSocket, None),
            // iperf3 reports nothing about its machine.
            Role::Server => {
                let host = HostFacts { hostname: self.0.name.clone(), ..HostFacts::default() };
                (Carrier::Iperf3, Some(host))
            }
        };
        NodeFacts { carrier, namespace: None, host, boot: None, clock_offset: None }
    }

    fn least_rtt(&self, _: &Point) -> Option<Nanos> {
        None
    }

    fn iperf3(&self) -> Option<&Iperf3Access> {
        Some(&self.0)
    }
}
