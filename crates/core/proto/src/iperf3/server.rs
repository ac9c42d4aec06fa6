//! The server's side of a test.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use super::parameters::{Limits, PARAMETERS_BYTES_MAX, Parameters};
use super::reader::{Reader, framed};
use super::results::{RESULTS_BYTES_MAX, Results};
use super::state::{Refusal, State};

/// Time limit for the client's next message while no data flow, and for its TEST_END after the end of a test: what
/// iperf3 allows for a message that has begun.
const WORD_WITHIN: Nanos = Nanos::from_secs(10);

/// Time limit for a client to open its streams, including the wait for its turn.
const STREAMS_WITHIN: Nanos = Nanos::from_secs(30);

/// Action for the server's I/O layer.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerAction {
    /// Check the client's token, if users exist, and listen for its streams; then call [`Server::on_ready`] or
    /// [`Server::refuse`].
    Await(Box<Parameters>),
    /// Send and receive.
    Run,
    /// Stop that and collect the counts; then call [`Server::on_results`].
    Stop,
    /// Send the remaining output, and close everything.
    End(ServerEnd),
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEnd {
    /// Completed; with the client's results.
    Done(Box<Results>),
    /// The server refused or aborted it.
    Refused(Refusal),
    /// The client's user aborted it.
    Stopped,
    /// The server is stopping.
    Terminated,
    /// The client's connection closed during the test.
    Vanished,
    /// The client sent something that is not allowed in this state.
    Malformed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Parameters,
    /// The I/O layer checks the token and opens the streams.
    Opening,
    Running,
    /// Results of both ends are awaited.
    Results,
    /// The client's IPERF_DONE is awaited.
    Showing,
    Over,
}

/// State of a test whose cookie has arrived.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    step: Step,
    input: Reader,
    output: VecDeque<Vec<u8>>,
    actions: VecDeque<ServerAction>,
    deadline: Option<Instant>,
    /// Time limit for the client to end the test.
    longest: Nanos,
    own: Option<Results>,
    theirs: Option<Box<Results>>,
}

impl Server {
    /// Starts a test whose cookie has just arrived.
    pub fn new(now: Instant, limits: Limits) -> Self {
        Self {
            limits,
            step: Step::Parameters,
            input: Reader::default(),
            output: VecDeque::from([vec![State::ParamExchange as u8]]),
            actions: VecDeque::new(),
            deadline: Some(now + WORD_WITHIN),
            longest: limits.duration_max,
            own: None,
            theirs: None,
        }
    }

    /// Handles bytes of the control connection.
    pub fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        let most = match self.step {
            Step::Over => return,
            Step::Parameters => PARAMETERS_BYTES_MAX,
            _ => RESULTS_BYTES_MAX,
        };
        // Room for a length prefix, and for the few state bytes that may follow a block.
        if self.input.push(bytes, most + 8).is_err() {
            return self.end(ServerEnd::Malformed);
        }
        while self.step != Step::Over && self.go_on(now) {}
    }

    /// Processes received bytes; returns false if they do not suffice for the next step.
    fn go_on(&mut self, now: Instant) -> bool {
        match self.step {
            Step::Parameters => match self.input.block(PARAMETERS_BYTES_MAX) {
                Ok(None) => return false,
                Ok(Some(block)) => self.on_parameters(now, &block),
                Err(_) => self.refuse(Refusal::Parameters),
            },
            Step::Results if self.theirs.is_none() => match Results::next(&mut self.input) {
                Ok(None) => return false,
                Ok(Some(theirs)) => {
                    self.theirs = Some(Box::new(theirs));
                    self.answer(now);
                }
                Err(_) => self.refuse(Refusal::Results),
            },
            Step::Opening | Step::Running | Step::Showing | Step::Results => {
                let Some(byte) = self.input.byte() else { return false };
                match (self.step, State::from_repr(byte)) {
                    (_, Some(State::ClientTerminate)) => self.end(ServerEnd::Stopped),
                    (Step::Running, Some(State::TestEnd)) => {
                        self.step = Step::Results;
                        self.say(State::ExchangeResults);
                        self.actions.push_back(ServerAction::Stop);
                        self.deadline = Some(now + WORD_WITHIN);
                    }
                    (Step::Showing, Some(State::IperfDone)) => self.done(),
                    _ => self.end(ServerEnd::Malformed),
                }
            }
            Step::Over => return false,
        }
        true
    }

    fn on_parameters(&mut self, now: Instant, block: &[u8]) {
        let parameters = Parameters::parse(block);
        let checked = parameters.and_then(|asked| asked.check(&self.limits).map(|()| asked));
        match checked {
            Ok(asked) => {
                if let Some(duration) = asked.duration() {
                    self.longest = duration + WORD_WITHIN;
                }
                self.step = Step::Opening;
                self.deadline = Some(now + STREAMS_WITHIN);
                self.actions.push_back(ServerAction::Await(Box::new(asked)));
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// Reports that the I/O layer listens for the streams.
    pub fn on_ready(&mut self) {
        if self.step == Step::Opening {
            self.say(State::CreateStreams);
        }
    }

    /// Reports that the streams are open.
    pub fn on_streams(&mut self, now: Instant) {
        if self.step == Step::Opening {
            self.say(State::TestStart);
            self.say(State::TestRunning);
            self.step = Step::Running;
            self.deadline = Some(now + self.longest);
            self.actions.push_back(ServerAction::Run);
        }
    }

    /// Reports the counts of this end.
    pub fn on_results(&mut self, now: Instant, own: Results) {
        if self.step == Step::Results {
            self.own = Some(own);
            self.answer(now);
        }
    }

    /// Sends this end's results after the client's have arrived: iperf3 clients send theirs first.
    fn answer(&mut self, now: Instant) {
        if self.theirs.is_some()
            && let Some(own) = self.own.take()
        {
            self.output.push_back(framed(&own.emit()));
            self.say(State::DisplayResults);
            self.step = Step::Showing;
            self.deadline = Some(now + WORD_WITHIN);
        }
    }

    /// Handles the end of the client's connection.
    pub fn on_closed(&mut self) {
        match self.step {
            // Both ends have all results; only IPERF_DONE is missing.
            Step::Showing => self.done(),
            _ => self.end(ServerEnd::Vanished),
        }
    }

    /// Ends the test at the deadline; does nothing before.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.step {
            Step::Opening => self.refuse(Refusal::AcceptStream),
            Step::Running => self.refuse(Refusal::Expired),
            Step::Showing => self.done(),
            _ => self.refuse(Refusal::Silence),
        }
    }

    /// Refuses or aborts the test.
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.step != Step::Over {
            self.output.push_back(refusal.emit().to_vec());
            self.end(ServerEnd::Refused(refusal));
        }
    }

    /// Aborts the test because the server is stopping.
    pub fn terminate(&mut self) {
        if self.step != Step::Over {
            self.say(State::ServerTerminate);
            self.end(ServerEnd::Terminated);
        }
    }

    /// The next bytes to send.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        self.output.pop_front()
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<ServerAction> {
        self.actions.pop_front()
    }

    /// When to call [`Self::on_timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn say(&mut self, state: State) {
        self.output.push_back(vec![state as u8]);
    }

    fn done(&mut self) {
        let theirs = self.theirs.take();
        self.end(theirs.map_or(ServerEnd::Malformed, ServerEnd::Done));
    }

    fn end(&mut self, end: ServerEnd) {
        if self.step != Step::Over {
            self.step = Step::Over;
            self.deadline = None;
            self.actions.push_back(ServerAction::End(end));
        }
    }
}
