//! The client's side of one test.

use std::collections::VecDeque;

use fabricmark_units::{Instant, Nanos};

use super::Cookie;
use super::parameters::Parameters;
use super::reader::{Reader, framed};
use super::results::{RESULTS_BYTES_MAX, Results};
use super::state::{Refusal, State};

/// Time for the server's next word where no data flows: the time that it allows the client.
const WORD_WITHIN: Nanos = Nanos::from_secs(10);

/// What the client's edge is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientAction {
    /// Open the streams; then call [`Client::on_streams`].
    Open,
    /// Send and receive; call [`Client::end`] when that is over.
    Run,
    /// The server has stopped: count; then call [`Client::on_results`].
    Report,
    /// Send what is still to be sent, and close everything.
    End(Result<Box<Results>, ClientError>),
}

/// Why a test has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error explains its fields")]
pub enum ClientError {
    /// The server serves somebody else.
    #[error("the iperf3 server is busy with another client: try again later")]
    Busy,
    /// The server refused or gave up, with the original's error number (`iperf_api.h`) and that of its system, 0
    /// for none.
    #[error("{}", refused(*number, *os))]
    Refused { number: i32, os: i32 },
    /// The server is stopping.
    #[error("the iperf3 server was stopped")]
    Terminated,
    /// The connection closed in mid-test.
    #[error("the iperf3 server closed its connection")]
    Closed,
    /// The server did not go on.
    #[error("the iperf3 server did not answer within {0}")]
    Silent(Nanos),
    /// The server said what makes no sense there.
    #[error("what the server said is not iperf3")]
    Malformed,
}

fn refused(number: i32, os: i32) -> String {
    let why =
        Refusal::from_repr(number).map_or("see iperf_api.h".to_owned(), |why| why.to_string());
    let system = if os == 0 { String::new() } else { format!(", its system's error {os}") };
    format!("the iperf3 server refused: {why} (error {number}{system})")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greeting,
    /// The parameters are sent.
    Asking,
    Opening,
    /// The streams are open.
    Starting,
    Running,
    /// The end of the test is said.
    Ending,
    /// The edge counts.
    Counting,
    Results,
    Showing,
    /// Two numbers are to come.
    Error,
    Over,
}

/// The client's side of one test, whose control connection is open.
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
    /// A test that begins now.
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

    /// Takes bytes of the control connection.
    pub fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        if self.step == Step::Over {
            return;
        }
        if self.input.push(bytes, RESULTS_BYTES_MAX + 8).is_err() {
            return self.end_with(Err(ClientError::Malformed));
        }
        while self.step != Step::Over && self.go_on(now) {}
    }

    /// Uses what has arrived; false when that is not enough for the next step.
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
                self.step(now, Step::Asking);
            }
            (Step::Asking, Some(State::CreateStreams)) => {
                self.actions.push_back(ClientAction::Open);
                self.step(now, Step::Opening);
            }
            // The server may be faster than the edge that opens the streams.
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

    /// The streams are open.
    pub fn on_streams(&mut self, now: Instant) {
        if self.step == Step::Opening {
            self.step(now, Step::Starting);
        }
    }

    /// The time or the amount is over: nothing more is sent.
    pub fn end(&mut self, now: Instant) {
        if self.step == Step::Running {
            self.output.push_back(vec![State::TestEnd as u8]);
            self.step(now, Step::Ending);
        }
    }

    /// Gives the test up.
    pub fn terminate(&mut self) {
        if self.step != Step::Over {
            self.output.push_back(vec![State::ClientTerminate as u8]);
            self.step = Step::Over;
            self.deadline = None;
        }
    }

    /// What this end counted.
    pub fn on_results(&mut self, now: Instant, own: &Results) {
        if self.step == Step::Counting {
            self.output.push_back(framed(&own.emit()));
            self.step(now, Step::Results);
        }
    }

    /// Takes note that the server's connection is closed.
    pub fn on_closed(&mut self) {
        // A server of 3.12 that refuses a user says the first number alone.
        let number = if self.step == Step::Error { self.input.fixed::<4>() } else { None };
        let refused = |number| ClientError::Refused { number: i32::from_be_bytes(number), os: 0 };
        let error = number.map_or(ClientError::Closed, refused);
        self.end_with(Err(error));
    }

    /// Takes note of the time; does nothing before the deadline.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.end_with(Err(ClientError::Silent(WORD_WITHIN)));
        }
    }

    /// The next bytes to be sent.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        self.output.pop_front()
    }

    /// What is to be done next.
    pub fn poll_action(&mut self) -> Option<ClientAction> {
        self.actions.pop_front()
    }

    /// When [`Self::on_timeout`] wants to be called.
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
