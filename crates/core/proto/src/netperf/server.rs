//! The server's side of a control connection: which message may follow which.

use std::collections::VecDeque;
use std::net::IpAddr;

use fabricmark_units::{Instant, Nanos};

use super::message::{MESSAGE_BYTES, Message};
use super::refusal::Refusal;
use super::request::{Request, flag};
use super::response::{Response, Results};
use super::test::{Test, Traffic, Transport};

/// Time that a client has for a whole message. netperf sends one as soon as it is connected, and the
/// next when it has printed.
const MESSAGE_WITHIN: Nanos = Nanos::from_secs(60);

/// Whose control connection it is. Addresses of IPv4 are such, not mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The client's address: where all data come from and go to.
    pub peer: IpAddr,
    /// The server's address.
    pub local: IpAddr,
    /// Longest test.
    pub duration_max: Nanos,
}

/// What the edge is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open the data socket of a test and say where it is; then carry the test out.
    Prepare(Test),
    /// Close the connection.
    Close,
}

/// A data socket that waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its port.
    pub port: u16,
    /// SO_RCVBUF as granted.
    pub receive_buffer_bytes: u32,
    /// SO_SNDBUF as granted.
    pub send_buffer_bytes: u32,
    /// Traffic class octet as granted.
    pub traffic_class: Option<u8>,
}

/// What a test moved, as the server saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Application bytes received.
    pub bytes_received: u64,
    /// Receive calls, or datagrams.
    pub receive_calls: u64,
    /// Application bytes sent.
    pub bytes_sent: u64,
    /// Send calls, or datagrams.
    pub send_calls: u64,
    /// Send calls that the system refused for want of room.
    pub failed_sends: u64,
    /// Transactions.
    pub transactions: u64,
    /// Time from the first connection or datagram to the last event.
    pub elapsed: Nanos,
    /// SO_RCVBUF at the end.
    pub receive_buffer_bytes: u32,
    /// SO_SNDBUF at the end.
    pub send_buffer_bytes: u32,
    /// Processors of this machine.
    pub processors: u32,
    /// Segments sent again; nothing where nobody counts.
    pub retransmissions: Option<u64>,
    /// Congestion control in use, where the test tells it.
    pub congestion: String,
}

#[derive(Debug)]
enum State {
    Idle,
    /// The response will repeat some of the test.
    Preparing(Test),
    Busy,
}

/// A control connection with its client. Holds at most one message of either direction.
#[derive(Debug)]
pub struct Server {
    caller: Caller,
    state: State,
    bytes: Vec<u8>,
    deadline: Instant,
    output: VecDeque<Message>,
}

impl Server {
    /// A connection that was just accepted.
    pub fn new(caller: Caller, now: Instant) -> Self {
        Self {
            caller,
            state: State::Idle,
            bytes: Vec::with_capacity(MESSAGE_BYTES),
            deadline: after(now),
            output: VecDeque::new(),
        }
    }

    /// Bytes that it takes now: none while a test is under way, so that what a client sends too early
    /// stays with the system.
    pub fn room(&self) -> usize {
        match self.state {
            State::Idle => MESSAGE_BYTES - self.bytes.len(),
            State::Preparing(_) | State::Busy => 0,
        }
    }

    /// Takes bytes, at most [`room`](Self::room) of them; says what to do about them.
    pub fn on_bytes(&mut self, now: Instant, bytes: &[u8]) -> Option<Action> {
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(self.room())]);
        let whole = <[u8; MESSAGE_BYTES]>::try_from(self.bytes.as_slice()).ok()?;
        self.bytes.clear();
        self.deadline = after(now);
        self.on_message(&Message::from_bytes(whole))
    }

    fn on_message(&mut self, message: &Message) -> Option<Action> {
        match message.kind() {
            Message::OMNI_REQUEST => match Test::of(&Request::of(message), self.caller) {
                Ok(test) => {
                    self.state = State::Preparing(test.clone());
                    Some(Action::Prepare(test))
                }
                Err(refusal) => self.say(Message::new(Message::OMNI_RESPONSE, refusal.errno())),
            },
            Message::DEBUG_ON | Message::DEBUG_OFF => self.say(Message::new(Message::DEBUG_OK, 0)),
            // Its content, zero, says that nothing was measured.
            Message::CALIBRATE => self.say(Message::new(Message::CALIBRATE, 0)),
            // No passphrase is asked for; netserver ignores one that it has not asked for.
            Message::PASSPHRASE => None,
            kind => self.say(Message::new(kind.wrapping_add(1), Refusal::Kind.errno())),
        }
    }

    /// Takes note that the data socket waits for its client, or of the error number that prevents it.
    pub fn on_prepared(&mut self, now: Instant, prepared: Result<Prepared, i32>) {
        let State::Preparing(test) = &self.state else { return };
        let message = match prepared {
            Ok(prepared) => response(test, prepared).message(),
            Err(errno) => Message::new(Message::OMNI_RESPONSE, errno),
        };
        self.state = if prepared.is_ok() { State::Busy } else { State::Idle };
        self.deadline = after(now);
        self.say(message);
    }

    /// Takes what the test counted, or the error number that ended it.
    pub fn on_finished(&mut self, now: Instant, counted: Result<Counted, i32>) {
        if !matches!(self.state, State::Busy) {
            return;
        }
        self.state = State::Idle;
        self.deadline = after(now);
        self.say(match counted {
            Ok(counted) => results(counted).message(),
            Err(errno) => Message::new(Message::OMNI_RESULTS, errno),
        });
    }

    /// When to call [`on_timeout`](Self::on_timeout); nothing while a test is under way, which has
    /// bounds of its own.
    pub fn deadline(&self) -> Option<Instant> {
        matches!(self.state, State::Idle).then_some(self.deadline)
    }

    /// Says what to do when the time is up.
    pub fn on_timeout(&mut self, now: Instant) -> Option<Action> {
        self.deadline().filter(|&deadline| now >= deadline).map(|_| Action::Close)
    }

    /// The next message to be sent.
    pub fn poll_output(&mut self) -> Option<Message> {
        self.output.pop_front()
    }

    fn say(&mut self, message: Message) -> Option<Action> {
        self.output.push_back(message);
        None
    }
}

fn after(now: Instant) -> Instant {
    Instant(now.0.saturating_add(MESSAGE_WITHIN.0))
}

fn response(test: &Test, prepared: Prepared) -> Response {
    let (receives, sends) = match test.traffic {
        Traffic::Receive { call_bytes } => (Some(call_bytes), None),
        Traffic::Send { call_bytes } => (None, Some(call_bytes)),
        Traffic::Exchange { request_bytes, response_bytes }
        | Traffic::Crr { request_bytes, response_bytes } => {
            (Some(request_bytes), Some(response_bytes))
        }
    };
    let no_delay = test.no_delay && test.transport == Transport::Tcp;
    Response {
        receive_buffer_bytes: prepared.receive_buffer_bytes.cast_signed(),
        receive_bytes: receives.map_or(-1, u32::cast_signed),
        send_buffer_bytes: prepared.send_buffer_bytes.cast_signed(),
        send_bytes: sends.map_or(-1, u32::cast_signed),
        flags: if no_delay { flag::NO_DELAY } else { 0 },
        data_port: prepared.port,
        traffic_class: prepared.traffic_class.map_or(-1, i32::from),
    }
}

fn results(counted: Counted) -> Results {
    Results {
        bytes_received: counted.bytes_received,
        receive_calls: counted.receive_calls as u32,
        receive_buffer_bytes: counted.receive_buffer_bytes.cast_signed(),
        bytes_sent: counted.bytes_sent,
        send_calls: counted.send_calls as u32,
        send_buffer_bytes: counted.send_buffer_bytes.cast_signed(),
        failed_sends: counted.failed_sends as u32,
        transactions: counted.transactions as u32,
        elapsed_s: counted.elapsed.as_secs_f64() as f32,
        processors: counted.processors,
        retransmissions: counted
            .retransmissions
            .map_or(-1, |segments| i32::try_from(segments).unwrap_or(i32::MAX)),
        congestion: counted.congestion,
    }
}
