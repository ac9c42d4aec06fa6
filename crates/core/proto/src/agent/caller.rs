//! The coordinator's side of one connection to an agent.

use std::collections::VecDeque;

use fabricmark_record::{ClockOffset, Interface};
use fabricmark_units::{Instant, Nanos};

use crate::PROTOCOL_VERSION;
use crate::agent::clock::ClockFilter;
use crate::agent::keepalive::{Keepalive, patience};
use crate::agent::message::{Answer, Request, SessionId, Welcome};
use crate::control::message::{Order, Report};

/// Inverse gain of the smoothed RTT (RFC 6298, section 2).
const WEIGHT: u64 = 8;

/// Event on a coordinator's connection to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The agent accepts orders.
    Welcome(Box<Welcome>),
    /// A report of the agent's worker.
    Report(Report),
    /// The network interfaces of the agent's host.
    Interfaces(Vec<Interface>),
    /// The agent refused the connection for this reason.
    Refused(String),
    /// The agent was silent for longer than the keepalive allows.
    Vanished,
}

/// One connection to an agent.
#[derive(Debug)]
pub struct Caller {
    is_welcome: bool,
    is_over: bool,
    in_a_run: bool,
    keepalive: Keepalive,
    clock: ClockFilter,
    output: VecDeque<Request>,
}

impl Caller {
    /// Queues the hello and a first ping; `rtt` is the time that opening the connection took.
    pub fn new(now: Instant, session: SessionId, rtt: Nanos) -> Self {
        let hello = Request::Hello { version: PROTOCOL_VERSION, session };
        // Even the shortest run needs an estimate of the clock offset.
        let ping = Request::Ping { sent_ns: now.0, rtt_ns: rtt.0 };
        Self {
            is_welcome: false,
            is_over: false,
            in_a_run: false,
            keepalive: Keepalive::new(now, rtt),
            clock: ClockFilter::default(),
            output: VecDeque::from([hello, ping]),
        }
    }

    /// Queues an order for the agent's worker.
    pub fn on_order(&mut self, order: Order) {
        self.in_a_run |= matches!(order, Order::Prepare(_));
        self.output.push_back(Request::Order { order });
    }

    /// Queues a request for the network interfaces of the agent's host, which may be made once.
    pub fn list_interfaces(&mut self) {
        self.output.push_back(Request::Interfaces);
    }

    /// Handles a message of the agent. Messages before its welcome are ignored, except a refusal: pongs must not extend
    /// the time limit for the welcome.
    pub fn on_answer(&mut self, now: Instant, answer: Answer) -> Option<News> {
        self.is_welcome |= matches!(answer, Answer::Welcome(_));
        if !self.is_welcome && !matches!(answer, Answer::Refused { .. }) {
            return None;
        }
        self.keepalive.heard = now;
        match answer {
            Answer::Welcome(welcome) => Some(News::Welcome(welcome)),
            Answer::Refused { why } => {
                self.is_over = true;
                Some(News::Refused(why))
            }
            Answer::Pong { sent_ns, agent_ns } => {
                self.on_pong(now, Instant(sent_ns), agent_ns);
                None
            }
            Answer::Report { report } => {
                self.in_a_run &= !matches!(report, Report::Finished { .. } | Report::Failed { .. });
                Some(News::Report(report))
            }
            Answer::Interfaces { interfaces } => Some(News::Interfaces(interfaces)),
        }
    }

    fn on_pong(&mut self, now: Instant, sent: Instant, agent_ns: u64) {
        // The agent echoes our send time, and may echo a wrong one.
        if sent > now {
            return;
        }
        self.clock.add(sent, agent_ns, now);
        let (known, new) = (self.keepalive.rtt.0, (now - sent).0);
        let smoothed = if known == 0 { new } else { known - known / WEIGHT + new / WEIGHT };
        self.keepalive.rtt = Nanos(smoothed);
    }

    /// Sends a ping if one is due, and reports an agent that was silent for too long.
    pub fn on_timeout(&mut self, now: Instant) -> Option<News> {
        if self.is_over {
            return None;
        }
        if now >= self.keepalive.gives_up() {
            self.is_over = true;
            return Some(News::Vanished);
        }
        if now >= self.keepalive.pings(self.in_a_run) {
            self.keepalive.pinged = now;
            self.output.push_back(Request::Ping { sent_ns: now.0, rtt_ns: self.keepalive.rtt.0 });
        }
        None
    }

    /// When to call [`Self::on_timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        let due = self.keepalive.pings(self.in_a_run).min(self.keepalive.gives_up());
        (!self.is_over).then_some(due)
    }

    /// The next request to be sent.
    pub fn poll_output(&mut self) -> Option<Request> {
        self.output.pop_front()
    }

    /// Extra time to wait for an answer over this path.
    pub fn patience(&self) -> Nanos {
        patience(self.keepalive.rtt)
    }

    /// Estimated offset of the agent's clock from the local one.
    pub fn clock(&self, now: Instant) -> Option<ClockOffset> {
        self.clock.estimate(now)
    }
}
