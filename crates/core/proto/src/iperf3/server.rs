//! The server's side of one test.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use super::parameters::{Limits, PARAMETERS_BYTES_MAX, Parameters};
use super::reader::{Reader, framed};
use super::results::{RESULTS_BYTES_MAX, Results};
use super::state::{Refusal, State};

/// Time for the client's next word where no data flows, and beyond the end of a test for its own word of
/// it: what the original allows a message that has begun.
const WORD_WITHIN: Nanos = Nanos::from_secs(10);

/// Time for a client's streams to be open, its turn included.
const STREAMS_WITHIN: Nanos = Nanos::from_secs(30);

/// What the server's edge is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerAction {
    /// Check the client's token, if there are users, and await its streams; then call
    /// [`Server::on_ready`], or [`Server::refuse`].
    Await(Box<Parameters>),
    /// Send and receive.
    Run,
    /// Stop that and count; then call [`Server::on_results`].
    Stop,
    /// Send what is still to be sent, and close everything.
    End(ServerEnd),
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEnd {
    /// As it should; with what the client counted.
    Done(Box<Results>),
    /// The server refused it, or gave it up.
    Refused(Refusal),
    /// The client's user stopped it.
    Stopped,
    /// The server itself is stopping.
    Terminated,
    /// The client's connection closed in mid-test.
    Vanished,
    /// The client said what makes no sense there.
    Malformed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Parameters,
    /// The edge checks and opens.
    Opening,
    Running,
    /// Results of both ends are to come.
    Results,
    /// The client is to say that it is finished.
    Showing,
    Over,
}

/// The server's side of one test, from the moment its cookie has arrived.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    step: Step,
    input: Reader,
    output: VecDeque<Vec<u8>>,
    actions: VecDeque<ServerAction>,
    deadline: Option<Instant>,
    /// How long the test may run until the client ends it.
    longest: Nanos,
    own: Option<Results>,
    theirs: Option<Box<Results>>,
}

impl Server {
    /// A test whose cookie has arrived now.
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

    /// Takes bytes of the control connection.
    pub fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        let most = match self.step {
            Step::Over => return,
            Step::Parameters => PARAMETERS_BYTES_MAX,
            _ => RESULTS_BYTES_MAX,
        };
        // A length, and the few words that may come behind a block.
        if self.input.push(bytes, most + 8).is_err() {
            return self.end(ServerEnd::Malformed);
        }
        while self.step != Step::Over && self.go_on(now) {}
    }

    /// Uses what has arrived; false when that is not enough for the next step.
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

    /// The edge awaits the streams.
    pub fn on_ready(&mut self) {
        if self.step == Step::Opening {
            self.say(State::CreateStreams);
        }
    }

    /// The streams are open.
    pub fn on_streams(&mut self, now: Instant) {
        if self.step == Step::Opening {
            self.say(State::TestStart);
            self.say(State::TestRunning);
            self.step = Step::Running;
            self.deadline = Some(now + self.longest);
            self.actions.push_back(ServerAction::Run);
        }
    }

    /// What this end counted.
    pub fn on_results(&mut self, now: Instant, own: Results) {
        if self.step == Step::Results {
            self.own = Some(own);
            self.answer(now);
        }
    }

    /// The client waits for the server's results after it has sent its own.
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

    /// Takes note that the client's connection is closed.
    pub fn on_closed(&mut self) {
        match self.step {
            // Both have everything; only the client's farewell is missing.
            Step::Showing => self.done(),
            _ => self.end(ServerEnd::Vanished),
        }
    }

    /// Takes note of the time; does nothing before the deadline.
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

    /// Refuses the test, or gives it up.
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.step != Step::Over {
            self.output.push_back(refusal.emit().to_vec());
            self.end(ServerEnd::Refused(refusal));
        }
    }

    /// The server is stopping.
    pub fn terminate(&mut self) {
        if self.step != Step::Over {
            self.say(State::ServerTerminate);
            self.end(ServerEnd::Terminated);
        }
    }

    /// The next bytes to be sent.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        self.output.pop_front()
    }

    /// What is to be done next.
    pub fn poll_action(&mut self) -> Option<ServerAction> {
        self.actions.pop_front()
    }

    /// When [`Self::on_timeout`] wants to be called.
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
