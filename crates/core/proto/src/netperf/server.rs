//! The server's side of a control connection: which message may follow which.

use std::collections::VecDeque;
use std::net::IpAddr;

use fabricmark_units::{Instant, Nanos};

use super::message::{MESSAGE_BYTES, Message, Request, Response, Results, flag};
use super::test::{Refusal, Test, Traffic, Transport};

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
        self.on_message(&Message(whole))
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

    /// Takes note that the data socket waits for its client, with what the response says of the socket; or
    /// of the error number that prevents it.
    pub fn on_prepared(&mut self, now: Instant, prepared: Result<Response, i32>) {
        let State::Preparing(test) = &self.state else { return };
        let (message, state) = match prepared {
            Ok(socket) => (response(test, socket), State::Busy),
            Err(errno) => (Message::new(Message::OMNI_RESPONSE, errno), State::Idle),
        };
        self.state = state;
        self.deadline = after(now);
        self.say(message);
    }

    /// Takes what the test counted, or the error number that ended it.
    pub fn on_finished(&mut self, now: Instant, counted: Result<Results, i32>) {
        if !matches!(self.state, State::Busy) {
            return;
        }
        self.state = State::Idle;
        self.deadline = after(now);
        self.say(match counted {
            Ok(counted) => counted.message(),
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

fn response(test: &Test, mut socket: Response) -> Message {
    (socket.receive_bytes, socket.send_bytes) = match test.traffic {
        Traffic::Receive { call_bytes } => (Some(call_bytes), None),
        Traffic::Send { call_bytes } => (None, Some(call_bytes)),
        Traffic::Exchange { request_bytes, response_bytes }
        | Traffic::Crr { request_bytes, response_bytes } => {
            (Some(request_bytes), Some(response_bytes))
        }
    };
    if test.no_delay && test.transport == Transport::Tcp {
        socket.flags = flag::NO_DELAY;
    }
    let mut message = socket.message();
    // One buffer of each kind, and SO_PRIORITY is left alone.
    message.set(2..3, &1_u32);
    message.set(5..6, &1_u32);
    message.set(16..17, &-1_i32);
    message
}
