//! The worker's side of the control conversation: which orders each state allows, and what to do about them.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fabricmark_plan::Role;
use fabricmark_units::Nanos;

use super::message::{EndReport, Failure, Order, Prepare, Report};
use crate::PROTOCOL_VERSION;

/// What the worker must do.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each action explains its fields")]
pub enum Action {
    /// Prepare sockets; a server starts to listen.
    Prepare(Box<Prepare>),
    /// Open the flows to this address and run the pattern.
    Begin(SocketAddr),
    /// Run the pattern from this time of CLOCK_MONOTONIC on; `None`: at once.
    Start { at_ns: Option<u64> },
    /// The other end has finished after this many application bytes; stop when nothing has arrived for `idle`.
    Drain { bytes: u64, idle: Nanos },
    /// Run the pattern for one slice, which counts or only warms up.
    Slice { counts: bool },
    /// Like [`Self::Drain`], for a slice of the other end.
    EndSlice { bytes: u64, idle: Nanos, counts: bool },
    /// Continue beyond the run's duration.
    Hold,
    /// Stop sending.
    Stop,
    /// Stop and discard the run.
    Abort,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Idle,
    Preparing(u64, Role),
    Ready(u64, Role),
    Busy(u64, Role),
}

/// A worker's conversation with its coordinator.
#[derive(Debug, Default)]
pub struct Worker {
    state: State,
    /// The last finished run, for which an order may still arrive.
    finished: Option<u64>,
    output: VecDeque<Report>,
}

impl Worker {
    /// Handles an order; returns the action to take.
    pub fn on_order(&mut self, order: Order) -> Option<Action> {
        let state = self.state;
        let is_own =
            |run| matches!(state, State::Ready(busy, _) | State::Busy(busy, _) if run == busy);
        match (order, state) {
            (Order::Hello { version }, State::Idle) => {
                self.output.push_back(Report::Hello { version: PROTOCOL_VERSION });
                if version != PROTOCOL_VERSION {
                    self.refuse(0, "the coordinator uses another protocol version");
                }
                None
            }
            (Order::Prepare(prepare), State::Idle) => {
                self.state = State::Preparing(prepare.run, prepare.role);
                Some(Action::Prepare(prepare))
            }
            (Order::Begin { run, peer }, State::Ready(ready, Role::Client)) if run == ready => {
                self.state = State::Busy(run, Role::Client);
                Some(Action::Begin(peer))
            }
            (
                Order::Drain { run, bytes, idle_ns },
                State::Ready(ready, Role::Server) | State::Busy(ready, Role::Client),
            ) if run == ready => Some(Action::Drain { bytes, idle: idle_ns }),
            (Order::Start { run, at_ns }, _) if is_own(run) => Some(Action::Start { at_ns }),
            (Order::Slice { run, counts }, _) if is_own(run) => Some(Action::Slice { counts }),
            (Order::EndSlice { run, bytes, idle_ns, counts }, _) if is_own(run) => {
                Some(Action::EndSlice { bytes, idle: idle_ns, counts })
            }
            (Order::Hold { run }, _) if is_own(run) => Some(Action::Hold),
            (Order::Stop { run }, _) if is_own(run) => Some(Action::Stop),
            // The run may have ended by itself.
            (Order::Hold { .. } | Order::Stop { .. }, _) => None,
            (Order::Drain { run, .. }, State::Idle) if self.finished == Some(run) => None,
            (Order::Abort { .. }, State::Idle) => None,
            (Order::Abort { run }, _) => {
                self.state = State::Idle;
                self.output.push_back(Report::Failed { run, failure: Failure::Aborted });
                Some(Action::Abort)
            }
            (Order::Prepare(prepare), _) => self.refuse(prepare.run, "another run is in progress"),
            (
                Order::Begin { run, .. }
                | Order::Start { run, .. }
                | Order::Drain { run, .. }
                | Order::Slice { run, .. }
                | Order::EndSlice { run, .. },
                _,
            ) => self.refuse(run, "unexpected order in this state of the run"),
            (Order::Hello { .. }, _) => self.refuse(0, "unexpected hello during a run"),
            (Order::Tier { .. }, _) => self.refuse(0, "a worker is no tier of the bookstore"),
        }
    }

    /// Reports that the sockets are ready, at this port.
    pub fn on_prepared(&mut self, port: u16) {
        if let State::Preparing(run, role) = self.state {
            self.state = State::Ready(run, role);
            self.output.push_back(Report::Ready { run, port });
        }
    }

    /// Reports the progress of the active run; `report` gets its number. Does nothing without a run.
    pub fn on_progress(&mut self, report: impl FnOnce(u64) -> Report) {
        if let State::Ready(run, _) | State::Busy(run, _) = self.state {
            self.output.push_back(report(run));
        }
    }

    /// Reports the results of this end, or why there are none.
    pub fn on_finished(&mut self, end: Result<EndReport, Failure>) {
        let (State::Preparing(run, _) | State::Ready(run, _) | State::Busy(run, _)) = self.state
        else {
            return;
        };
        self.state = State::Idle;
        self.finished = Some(run);
        self.output.push_back(match end {
            Ok(end) => Report::Finished { run, end: Box::new(end) },
            Err(failure) => Report::Failed { run, failure },
        });
    }

    /// The next report to send.
    pub fn poll_output(&mut self) -> Option<Report> {
        self.output.pop_front()
    }

    /// Reports that an order cannot be carried out. If it is an order for the active run, the run ends, since the agent
    /// treats the report as its end.
    fn refuse(&mut self, run: u64, why: &str) -> Option<Action> {
        let failure = Failure::Protocol(why.to_owned());
        self.output.push_back(Report::Failed { run, failure });
        let (State::Preparing(active, _) | State::Ready(active, _) | State::Busy(active, _)) =
            self.state
        else {
            return None;
        };
        (run == active).then(|| {
            self.state = State::Idle;
            Action::Abort
        })
    }
}
