//! The words between a coordinator and an agent, around those of the control conversation.

use std::net::IpAddr;

use fabricmark_record::HostFacts;
use serde::{Deserialize, Serialize};

use crate::agent::quota::Quota;
use crate::control::message::{Order, Report};

/// 128 random bits by which an agent knows which of its connections belong to one coordinator.
pub type SessionId = [u8; 16];

/// What a coordinator says to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each request explains its fields")]
pub enum Request {
    /// The first word, in every version of this message with the [`crate::PROTOCOL_VERSION`] of the coordinator,
    /// and with its session, which may have several connections; answered by [`Answer::Welcome`] or
    /// [`Answer::Refused`].
    Hello {
        version: u16,
        #[serde(default)]
        session: SessionId,
    },
    /// Asks for [`Answer::Pong`] at this time of the coordinator's clock, and tells the round trip of the
    /// connection as the coordinator knows it, 0 at first.
    Ping { sent_ns: u64, rtt_ns: u64 },
    /// An order for the worker of this connection.
    Order { order: Order },
}

/// What an agent says to a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each answer explains its fields")]
pub enum Answer {
    /// The connection may give orders.
    Welcome(Box<Welcome>),
    /// It may not, and ends; why is a sentence for the user.
    Refused { why: String },
    /// To a [`Request::Ping`]: its time, as the coordinator said it, and that of the agent's clock.
    Pong { sent_ns: u64, agent_ns: u64 },
    /// What the worker of this connection reports.
    Report { report: Report },
}

/// What an agent tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`crate::PROTOCOL_VERSION`] of the agent.
    pub version: u16,
    /// The machine it runs on.
    pub host: HostFacts,
    /// What one coordinator may ask for.
    pub quota: Quota,
    /// Device that the connection arrived at; what it drops counts as lost on the link.
    pub device: String,
    /// Addresses of that device, those of the other family included.
    pub addresses: Vec<IpAddr>,
    /// Processors that the agent may use.
    pub cpus: Vec<u32>,
    /// The kernel's number for this run of the machine, by which one machine knows itself.
    pub boot: String,
}
