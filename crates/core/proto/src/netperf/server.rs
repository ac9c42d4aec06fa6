//! The server's side of a control connection: which messages each state allows.

use std::collections::VecDeque;
use std::net::IpAddr;

use fabricmark_units::{Instant, Nanos};

use super::message::{MESSAGE_BYTES, Message, Request, Response, Results, flag};
use super::test::{Refusal, Test, Traffic, Transport};

/// Time limit for a whole message. netperf sends one when it is connected, and the next after printing its results.
const MESSAGE_WITHIN: Nanos = Nanos::from_secs(60);

/// Client of a control connection, and limits of its tests. IPv4 addresses are not mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The client's address, the only peer of data sockets.
    pub peer: IpAddr,
    /// The server's address.
    pub local: IpAddr,
    /// Longest test that is allowed.
    pub duration_max: Nanos,
}

/// Action for the I/O layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open the data socket of a test and report it with [`Server::on_prepared`]; then run the test.
    Prepare(Test),
    /// Close the connection.
    Close,
}

#[derive(Debug)]
enum State {
    Idle,
    /// The response repeats parts of the test.
    Preparing(Test),
    Busy,
}

/// State of a control connection. Buffers at most one message in each direction.
#[derive(Debug)]
pub struct Server {
    caller: Caller,
    state: State,
    bytes: Vec<u8>,
    deadline: Instant,
    output: VecDeque<Message>,
}

impl Server {
    /// A newly accepted connection.
    pub fn new(caller: Caller, now: Instant) -> Self {
        Self {
            caller,
            state: State::Idle,
            bytes: Vec::with_capacity(MESSAGE_BYTES),
            deadline: after(now),
            output: VecDeque::new(),
        }
    }

    /// Bytes that it accepts now: none during a test, so that early messages stay in the socket buffer.
    pub fn room(&self) -> usize {
        match self.state {
            State::Idle => MESSAGE_BYTES - self.bytes.len(),
            State::Preparing(_) | State::Busy => 0,
        }
    }

    /// Handles received bytes, at most [`room`](Self::room) of them; returns the action to take.
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
            // Zero content: nothing was measured.
            Message::CALIBRATE => self.say(Message::new(Message::CALIBRATE, 0)),
            // This server requires no passphrase; netserver, too, ignores one that it does not require.
            Message::PASSPHRASE => None,
            kind => self.say(Message::new(kind.wrapping_add(1), Refusal::Kind.errno())),
        }
    }

    /// Reports that the data socket waits for its client, with the socket's part of the response; or the error
    /// number that prevented it.
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

    /// Reports the counts of the test, or the error number that ended it.
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

    /// When to call [`on_timeout`](Self::on_timeout); `None` during a test, which has its own time limits.
    pub fn deadline(&self) -> Option<Instant> {
        matches!(self.state, State::Idle).then_some(self.deadline)
    }

    /// Closes the connection once the deadline has passed.
    pub fn on_timeout(&mut self, now: Instant) -> Option<Action> {
        self.deadline().filter(|&deadline| now >= deadline).map(|_| Action::Close)
    }

    /// The next message to send.
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
    // One buffer of each kind; SO_PRIORITY is unchanged.
    message.set(2..3, &1_u32);
    message.set(5..6, &1_u32);
    message.set(16..17, &-1_i32);
    message
}
