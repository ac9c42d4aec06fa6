//! Carrier of a worker behind an agent: a thread holds the connection to the agent, and the coordinator uses a
//! local socket to the thread as if it led to a worker of its own.
//!
//! The thread keeps the connection alive whatever the coordinator does meanwhile.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fabricmark_load::foreign::poll_for;
use fabricmark_proto::{Answer, Caller, FrameReader, News, Order, SessionId, Welcome, encode};
use fabricmark_record::{ClockOffset, Host, Interface};
use fabricmark_telemetry::tcp_info;
use fabricmark_trust::{TrustError, client_connection};
use fabricmark_units::{Instant, Nanos};
use rustix::event::{PollFd, PollFlags};
use rustls::ClientConfig;

use crate::error::PlanError;
use crate::peer::AgentAccess;
use crate::secured::{Secured, machine_time};

/// Time for an address to accept a connection; SYN is sent four times in it (tcp_syn_retries).
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Time for an agent to list its interfaces: several RTTs of the longest path.
const ANSWER_WITHIN: Nanos = Nanos::from_secs(20);

/// Why an agent cannot be reached or was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent at {host} {why}")]
pub struct AgentError {
    /// The agent, as the user named it.
    pub host: String,
    /// What is wrong, and the remedy.
    pub why: String,
}

/// Facts about the path to an agent, shared by the thread and the coordinator.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathFacts {
    /// Offset of the agent's clock from ours.
    pub(crate) clock: Option<ClockOffset>,
    /// Additional time that its answers may take.
    pub(crate) patience: Nanos,
    /// Why the connection ended; `None` while it is open.
    end: Option<String>,
}

fn lock(facts: &Mutex<PathFacts>) -> MutexGuard<'_, PathFacts> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connection to a worker behind an agent.
pub(crate) struct Carrier {
    host: String,
    facts: Arc<Mutex<PathFacts>>,
    /// RTT of the connection, as the kernel measured it by the handshake.
    pub(crate) rtt: Nanos,
    /// What the agent reported about itself.
    pub(crate) welcome: Welcome,
}

impl Carrier {
    /// Connects to an agent at the first of these addresses that accepts; also returns the socket to the worker.
    pub(crate) fn call(
        host: &str,
        addresses: &[SocketAddr],
        tls: &Arc<ClientConfig>,
        session: SessionId,
    ) -> Result<(Self, UnixStream), AgentError> {
        let Opened { mut line, ours, greeted, rtt } = Line::open(host, addresses, tls, session)?;
        let facts = Arc::clone(&line.facts);
        // The thread ends when its node closes the socket to it; it is not joined.
        thread::spawn(move || line.hold());
        let host = host.to_owned();
        match greeted.recv() {
            Ok(welcome) => Ok((Self { host, facts, rtt, welcome }, ours)),
            Err(_) => Err(AgentError { host, why: end(&facts) }),
        }
    }

    pub(crate) fn facts(&self) -> PathFacts {
        lock(&self.facts).clone()
    }

    /// Why the connection ended, or that it did not end within this time.
    pub(crate) fn fate(&mut self, within: Duration) -> AgentError {
        let until = machine_time() + within.into();
        while machine_time() < until && self.facts().end.is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let why = self.facts().end.unwrap_or_else(|| "no longer responds".to_owned());
        AgentError { host: self.host.clone(), why }
    }
}

/// The network interfaces of the host of an agent.
pub fn interfaces_of(access: &AgentAccess) -> Result<Host, PlanError> {
    let AgentAccess { host, tls } = access;
    // The socket of orders stays open, and none is sent.
    let Opened { mut line, ours: _ours, greeted, .. } =
        Line::open(&host.name, &host.control, tls, new_session()?)?;
    line.caller.list_interfaces();
    line.ends_at = Some(machine_time() + ANSWER_WITHIN);
    line.hold();
    match (greeted.try_recv(), line.interfaces) {
        (Ok(welcome), Some(interfaces)) => Ok(Host { host: welcome.host, interfaces }),
        _ => Err(AgentError { host: host.name.clone(), why: end(&line.facts) }.into()),
    }
}

/// A new random session.
pub(crate) fn new_session() -> Result<SessionId, PlanError> {
    let mut session = SessionId::default();
    rustix::rand::getrandom(&mut session, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| PlanError::system("generate a random number")(error.into()))?;
    Ok(session)
}

/// Why a connection ended.
fn end(facts: &Mutex<PathFacts>) -> String {
    lock(facts).end.take().unwrap_or_else(|| "closed the connection".to_owned())
}

/// A connection, and the time to open it.
fn connect(addresses: &[SocketAddr]) -> Result<(TcpStream, Nanos), String> {
    let mut last = "has no address".to_owned();
    for address in addresses {
        let began = machine_time();
        match TcpStream::connect_timeout(address, CONNECT_WITHIN) {
            Ok(tcp) => return Ok((tcp, machine_time() - began)),
            Err(error) => last = unconnected(*address, &error),
        }
    }
    Err(last)
}

fn unconnected(at: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!(
                "refused the connection to {at}: start `fabricmark agent` there, or give its \
                     port"
            )
        }
        io::ErrorKind::TimedOut => {
            format!("does not respond at {at}: a firewall may drop packets to this port")
        }
        _ => format!("cannot be reached at {at}: {error}"),
    }
}

/// State of the thread.
struct Line {
    secured: Secured,
    answers: FrameReader,
    caller: Caller,
    worker: UnixStream,
    orders: FrameReader,
    facts: Arc<Mutex<PathFacts>>,
    /// Receives the welcome, once.
    greeter: Option<Sender<Welcome>>,
    /// The answer to a request for the interfaces, which ends the connection.
    interfaces: Option<Vec<Interface>>,
    /// When the connection ends without an answer; `None`: when a side closes it.
    ends_at: Option<Instant>,
}

/// A connection that was opened.
struct Opened {
    line: Line,
    /// The coordinator's socket to the worker.
    ours: UnixStream,
    /// Gets the agent's welcome, or is closed at the end of the connection.
    greeted: Receiver<Welcome>,
    /// RTT of the connection.
    rtt: Nanos,
}

impl Line {
    /// Connects to the first of these addresses that accepts.
    fn open(
        host: &str,
        addresses: &[SocketAddr],
        tls: &Arc<ClientConfig>,
        session: SessionId,
    ) -> Result<Opened, AgentError> {
        let fail = |why: String| AgentError { host: host.to_owned(), why };
        let (tcp, rtt) = connect(addresses).map_err(fail)?;
        let system = |error: io::Error| fail(format!("cannot be reached: {error}"));
        let measured = tcp_info::sample(tcp.as_fd()).map_err(system)?.min_rtt_ns;
        let (ours, theirs) = UnixStream::pair().map_err(system)?;
        theirs.set_nonblocking(true).map_err(system)?;
        let tls = client_connection(tls).map_err(|error| fail(format!("{error}")))?;
        let (greeter, greeted) = mpsc::channel();
        let line = Self {
            secured: Secured::new(tcp, tls).map_err(system)?,
            answers: FrameReader::default(),
            caller: Caller::new(machine_time(), session, rtt),
            worker: theirs,
            orders: FrameReader::default(),
            facts: Arc::default(),
            greeter: Some(greeter),
            interfaces: None,
            ends_at: None,
        };
        Ok(Opened { line, ours, greeted, rtt: measured.map_or(rtt, Nanos) })
    }

    /// Forwards messages until either side closes.
    fn hold(&mut self) {
        let why = match self.carry() {
            Ok(()) => "was disconnected".to_owned(),
            Err(error) => match TrustError::from_io(&error) {
                Some(refusal) => format!("cannot be used: {refusal}"),
                None if error.kind() == io::ErrorKind::Other => error.to_string(),
                None => format!("failed: {error}"),
            },
        };
        lock(&self.facts).end = Some(why);
        self.secured.close();
    }

    fn carry(&mut self) -> io::Result<()> {
        loop {
            self.speak()?;
            let (has_answers, has_orders) = self.wait()?;
            if has_answers {
                self.hear()?;
            }
            if has_orders && !self.take_orders()? {
                return Ok(());
            }
            if self.interfaces.is_some() {
                return Ok(());
            }
            let now = machine_time();
            if self.ends_at.is_some_and(|at| now >= at) {
                return Err(io::Error::other("does not answer"));
            }
            if let Some(News::Vanished) = self.caller.on_timeout(now) {
                return Err(io::Error::other("timed out"));
            }
            let (clock, patience) = (self.caller.clock(now), self.caller.patience());
            *lock(&self.facts) = PathFacts { clock, patience, end: None };
        }
    }

    fn speak(&mut self) -> io::Result<()> {
        while let Some(request) = self.caller.poll_output() {
            self.secured.send(&encode(&request))?;
        }
        self.secured.flush()
    }

    fn wait(&mut self) -> io::Result<(bool, bool)> {
        let now = machine_time();
        let left = self.caller.deadline().map_or(Nanos(0), |at| at - now);
        let is_behind = self.secured.is_behind();
        let of_agent = if is_behind { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut both =
            [PollFd::new(&self.secured.tcp, of_agent), PollFd::new(&self.worker, PollFlags::IN)];
        // No orders are read while the agent has not accepted the previous ones.
        let asked = if is_behind { &mut both[..1] } else { &mut both[..] };
        poll_for(asked, left.into())?;
        let said = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok((said(&both[0]), !is_behind && said(&both[1])))
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let is_open = self.secured.receive(&mut bytes)?;
        let answers: Vec<Answer> = self.answers.messages(&bytes).map_err(io::Error::other)?;
        for answer in answers {
            match self.caller.on_answer(machine_time(), answer) {
                Some(News::Welcome(welcome)) => {
                    if let Some(greeter) = self.greeter.take() {
                        let _ = greeter.send(*welcome);
                    }
                }
                Some(News::Interfaces(interfaces)) => self.interfaces = Some(interfaces),
                Some(News::Report(report)) => self.tell(&encode(&report))?,
                Some(News::Refused(why)) => {
                    return Err(io::Error::other(format!("refuses: {why}")));
                }
                Some(News::Vanished) | None => {}
            }
        }
        if is_open { Ok(()) } else { Err(io::Error::other("closed the connection")) }
    }

    /// Forwards a report to the coordinator, which reads at once unless it is about to end.
    fn tell(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.worker.set_nonblocking(false)?;
        let told = self.worker.write_all(bytes);
        self.worker.set_nonblocking(true)?;
        told
    }

    /// Forwards orders; false if the coordinator has closed the socket.
    fn take_orders(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 64 << 10];
        let bytes = match self.worker.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            read => read?,
        };
        let orders: Vec<Order> =
            self.orders.messages(&buffer[..bytes]).map_err(io::Error::other)?;
        orders.into_iter().for_each(|order| self.caller.on_order(order));
        Ok(true)
    }
}
