//! Messages between coordinator and agent, which wrap those of the control protocol.

use std::net::IpAddr;

use fabricmark_record::{HostFacts, Interface, one_line};
use serde::{Deserialize, Serialize};

use crate::agent::quota::Quota;
use crate::control::message::{Order, Report};

/// 128 random bits that identify all connections of one coordinator to an agent.
pub type SessionId = [u8; 16];

/// Message of a coordinator to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each request explains its fields")]
pub enum Request {
    /// First message, with the coordinator's [`crate::PROTOCOL_VERSION`] and session (of one or several connections).
    /// Part of every protocol version. Answered by [`Answer::Welcome`] or [`Answer::Refused`].
    Hello {
        version: u16,
        #[serde(default)]
        session: SessionId,
    },
    /// Requests [`Answer::Pong`]. `sent_ns` is the time by the coordinator's clock, `rtt_ns` its RTT estimate for
    /// the connection; 0: unknown.
    Ping { sent_ns: u64, rtt_ns: u64 },
    /// An order for the worker of this connection.
    Order { order: Order },
    /// Requests [`Answer::Interfaces`], at most once on a connection, also during a run.
    Interfaces,
}

/// Message of an agent to a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each answer explains its fields")]
pub enum Answer {
    /// The connection may send orders.
    Welcome(Box<Welcome>),
    /// The connection is refused and closes; `why` is a sentence for the user.
    Refused {
        #[serde(deserialize_with = "one_line")]
        why: String,
    },
    /// Answers a [`Request::Ping`]: its `sent_ns`, and the time by the agent's clock.
    Pong { sent_ns: u64, agent_ns: u64 },
    /// A report of this connection's worker.
    Report { report: Report },
    /// The network interfaces of the agent's network namespace.
    Interfaces { interfaces: Vec<Interface> },
}

/// Facts about an agent, sent after the hello.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`crate::PROTOCOL_VERSION`] of the agent.
    pub version: u16,
    /// The machine that it runs on.
    pub host: HostFacts,
    /// Limits for one coordinator.
    pub quota: Quota,
    /// Network device on which the connection arrived; its drops count as lost on the link.
    pub device: String,
    /// Addresses of that device, of both families.
    pub addresses: Vec<IpAddr>,
    /// CPUs that the agent may use.
    pub cpus: Vec<u32>,
    /// The kernel's boot ID: equal at both ends if they run on the same machine.
    pub boot: String,
}
