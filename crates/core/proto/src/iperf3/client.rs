//! The client's side of a test.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use super::Cookie;
use super::parameters::Parameters;
use super::reader::{Reader, framed};
use super::results::{RESULTS_BYTES_MAX, Results};
use super::state::{Refusal, State};

/// Time limit for the server's next message while no data flow: the same that the server gives the client.
const WORD_WITHIN: Nanos = Nanos::from_secs(10);

/// Action for the client's I/O layer.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientAction {
    /// Open the streams; then call [`Client::on_streams`].
    Open,
    /// Send and receive; call [`Client::end`] when that is over.
    Run,
    /// The server has stopped: collect the counts, then call [`Client::on_results`].
    Report,
    /// Send the remaining output, and close everything.
    End(Result<Box<Results>, ClientError>),
}

/// Why a test has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error explains its fields")]
pub enum ClientError {
    /// The server is serving another client.
    #[error("the iperf3 server is busy with another client: try again later")]
    Busy,
    /// The server refused or aborted, with iperf3's error number (`iperf_api.h`) and an errno; 0: none.
    #[error("{}", refused(*number, *os))]
    Refused { number: i32, os: i32 },
    /// The server is stopping.
    #[error("the iperf3 server was stopped")]
    Terminated,
    /// The connection closed during the test.
    #[error("the iperf3 server closed its connection")]
    Closed,
    /// The server did not continue in time.
    #[error("the iperf3 server did not answer within {0}")]
    Silent(Nanos),
    /// The server sent something that is not allowed in this state.
    #[error("the server does not speak the iperf3 protocol")]
    Malformed,
}

fn refused(number: i32, os: i32) -> String {
    let why =
        Refusal::from_repr(number).map_or("see iperf_api.h".to_owned(), |why| why.to_string());
    let system = if os == 0 { String::new() } else { format!(", errno {os}") };
    format!("the iperf3 server refused: {why} (error {number}{system})")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greeting,
    /// The parameters are sent.
    Requesting,
    Opening,
    /// The streams are open.
    Starting,
    Running,
    /// TEST_END is sent.
    Ending,
    /// The I/O layer collects the counts.
    Counting,
    Results,
    Showing,
    /// Two error numbers will follow.
    Error,
    Over,
}

/// State of a test whose control connection is open.
#[derive(Debug)]
pub struct Client {
    step: Step,
    parameters: Parameters,
    input: Reader,
    output: VecDeque<Vec<u8>>,
    actions: VecDeque<ClientAction>,
    deadline: Option<Instant>,
    theirs: Option<Box<Results>>,
}

impl Client {
    /// Starts a test.
    pub fn new(now: Instant, cookie: &Cookie, parameters: Parameters) -> Self {
        Self {
            step: Step::Greeting,
            parameters,
            input: Reader::default(),
            output: VecDeque::from([cookie.to_vec()]),
            actions: VecDeque::new(),
            deadline: Some(now + WORD_WITHIN),
            theirs: None,
        }
    }

    /// Handles bytes of the control connection.
    pub fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if self.step == Step::Over {
            return;
        }
        if self.input.push(bytes, RESULTS_BYTES_MAX + 8).is_err() {
            return self.end_with(Err(ClientError::Malformed));
        }
        while self.step != Step::Over && self.go_on(now) {}
    }

    /// Processes received bytes; returns false if they do not suffice for the next step.
    fn go_on(&mut self, now: Instant) -> bool {
        match self.step {
            Step::Results => match Results::next(&mut self.input) {
                Ok(None) => return false,
                Ok(Some(theirs)) => {
                    self.theirs = Some(Box::new(theirs));
                    self.step(now, Step::Showing);
                }
                Err(_) => self.end_with(Err(ClientError::Malformed)),
            },
            Step::Error => {
                let Some(both) = self.input.fixed().map(u64::from_be_bytes) else { return false };
                let (number, os) = ((both >> 32) as i32, both as i32);
                self.end_with(Err(ClientError::Refused { number, os }));
            }
            _ => {
                let Some(byte) = self.input.byte() else { return false };
                self.on_state(now, State::from_repr(byte));
            }
        }
        true
    }

    fn on_state(&mut self, now: Instant, state: Option<State>) {
        match (self.step, state) {
            (_, Some(State::AccessDenied)) => self.end_with(Err(ClientError::Busy)),
            (_, Some(State::ServerTerminate)) => self.end_with(Err(ClientError::Terminated)),
            (_, Some(State::ServerError)) => self.step(now, Step::Error),
            (Step::Greeting, Some(State::ParamExchange)) => {
                self.output.push_back(framed(&self.parameters.emit()));
                self.step(now, Step::Requesting);
            }
            (Step::Requesting, Some(State::CreateStreams)) => {
                self.actions.push_back(ClientAction::Open);
                self.step(now, Step::Opening);
            }
            // The server may be faster than the I/O layer that opens the streams.
            (Step::Opening | Step::Starting, Some(State::TestStart)) => {}
            (Step::Opening | Step::Starting, Some(State::TestRunning)) => {
                self.actions.push_back(ClientAction::Run);
                self.step = Step::Running;
                self.deadline = None;
            }
            (Step::Ending, Some(State::ExchangeResults)) => {
                self.actions.push_back(ClientAction::Report);
                self.step(now, Step::Counting);
            }
            (Step::Showing, Some(State::DisplayResults)) => {
                self.output.push_back(vec![State::IperfDone as u8]);
                let theirs = self.theirs.take().ok_or(ClientError::Malformed);
                self.end_with(theirs);
            }
            _ => self.end_with(Err(ClientError::Malformed)),
        }
    }

    /// Reports that the streams are open.
    pub fn on_streams(&mut self, now: Instant) {
        if self.step == Step::Opening {
            self.step(now, Step::Starting);
        }
    }

    /// Ends the test when its time or amount is reached: nothing more is sent.
    pub fn end(&mut self, now: Instant) {
        if self.step == Step::Running {
            self.output.push_back(vec![State::TestEnd as u8]);
            self.step(now, Step::Ending);
        }
    }

    /// Aborts the test.
    pub fn terminate(&mut self) {
        if self.step != Step::Over {
            self.output.push_back(vec![State::ClientTerminate as u8]);
            self.step = Step::Over;
            self.deadline = None;
        }
    }

    /// Sends the counts of this end.
    pub fn on_results(&mut self, now: Instant, own: &Results) {
        if self.step == Step::Counting {
            self.output.push_back(framed(&own.emit()));
            self.step(now, Step::Results);
        }
    }

    /// Handles the end of the server's connection.
    pub fn on_closed(&mut self) {
        // A server of version 3.12 that refuses a user sends only the first number.
        let number = if self.step == Step::Error { self.input.fixed::<4>() } else { None };
        let refused = |number| ClientError::Refused { number: i32::from_be_bytes(number), os: 0 };
        let error = number.map_or(ClientError::Closed, refused);
        self.end_with(Err(error));
    }

    /// Fails the test at the deadline; does nothing before.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.end_with(Err(ClientError::Silent(WORD_WITHIN)));
        }
    }

    /// The next bytes to send.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        self.output.pop_front()
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<ClientAction> {
        self.actions.pop_front()
    }

    /// When to call [`Self::on_timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn step(&mut self, now: Instant, step: Step) {
        self.step = step;
        self.deadline = Some(now + WORD_WITHIN);
    }

    fn end_with(&mut self, result: Result<Box<Results>, ClientError>) {
        if self.step != Step::Over {
            self.step = Step::Over;
            self.deadline = None;
            self.actions.push_back(ClientAction::End(result));
        }
    }
}
