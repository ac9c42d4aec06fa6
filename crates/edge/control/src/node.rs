//! The worker of a node as seen by the coordinator: a process here, or one behind an agent.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use fabricmark_lab::Namespace;
use fabricmark_load::foreign::poll_for;
use fabricmark_proto::{FrameReader, Order, PROTOCOL_VERSION, Report, encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::carrier::Carrier;
use crate::error::PlanError;
use crate::process::{Duty, WorkerProcess};

/// Time for a worker to start and greet: far more than a busy machine needs.
const GREET_WITHIN: Duration = Duration::from_secs(10);

/// Time for a worker to read what fills its socket; it does nothing else meanwhile.
const TAKE_WITHIN: Duration = Duration::from_secs(5);

/// Time for a worker to exit after its socket has closed.
const END_WITHIN: Duration = Duration::from_secs(1);

/// A worker, and the socket to it.
pub(crate) struct Node {
    /// Name of the node; empty if the worker is behind an agent, which errors name by its host.
    name: String,
    // Closed before the process is waited for.
    pub(crate) socket: UnixStream,
    behind: Behind,
    frames: FrameReader,
}

/// What is at the other end of the socket.
enum Behind {
    Process(WorkerProcess),
    Carrier(Box<Carrier>),
}

impl Node {
    /// Starts a worker here, in the namespace if one is given, and greets it.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        namespace: Option<&Namespace>,
    ) -> Result<Self, PlanError> {
        Self::start_for(Duty::Load, name, program, namespace)
    }

    /// Starts a tier of the bookstore here, in the namespace if one is given, and greets it.
    pub(crate) fn start_tier(
        name: &str,
        program: &Path,
        namespace: Option<&Namespace>,
    ) -> Result<Self, PlanError> {
        Self::start_for(Duty::Tier, name, program, namespace)
    }

    fn start_for(
        duty: Duty,
        name: &str,
        program: &Path,
        namespace: Option<&Namespace>,
    ) -> Result<Self, PlanError> {
        let started = WorkerProcess::start(duty, program, namespace);
        let (process, socket) = started.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if duty == Duty::Tier => PlanError::Missing(error.to_string()),
            _ => PlanError::system("start a worker")(error),
        })?;
        let behind = Behind::Process(process);
        let name = name.to_owned();
        let mut node = Self { name, behind, socket, frames: FrameReader::default() };
        node.greet()?;
        node.socket.set_nonblocking(true).map_err(PlanError::system("set up a socket"))?;
        Ok(node)
    }

    /// A worker behind an agent, which has already greeted.
    pub(crate) fn behind(carrier: Carrier, socket: UnixStream) -> Result<Self, PlanError> {
        socket.set_nonblocking(true).map_err(PlanError::system("set up a socket"))?;
        let behind = Behind::Carrier(Box::new(carrier));
        Ok(Self { name: String::new(), behind, socket, frames: FrameReader::default() })
    }

    /// The carrier of the worker, if it is behind an agent.
    pub(crate) fn carrier(&self) -> Option<&Carrier> {
        match &self.behind {
            Behind::Carrier(carrier) => Some(carrier),
            Behind::Process(_) => None,
        }
    }

    fn greet(&mut self) -> Result<(), PlanError> {
        self.send(&Order::Hello { version: PROTOCOL_VERSION })?;
        let until = Instant::now() + GREET_WITHIN;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|l| !l.is_zero())
        {
            self.socket
                .set_read_timeout(Some(left))
                .map_err(PlanError::system("set a time-out"))?;
            match self.receive()?.into_iter().next() {
                Some(Report::Hello { version }) if version == PROTOCOL_VERSION => return Ok(()),
                Some(_) => return Err(self.lost("it uses another protocol version; rebuild it")),
                None => {}
            }
        }
        Err(self.lost("no greeting"))
    }

    /// Sends an order. A worker reads at once, so this blocks only if an order is longer than the socket's buffer,
    /// as one with a trace is.
    pub(crate) fn send(&mut self, order: &Order) -> Result<(), PlanError> {
        let bytes = encode(order);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_for_room()?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error.to_string())),
            }
        }
        Ok(())
    }

    fn wait_for_room(&mut self) -> Result<(), PlanError> {
        let timeout = Timespec { tv_sec: TAKE_WITHIN.as_secs() as i64, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) => Err(self.lost("it does not read its socket")),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(PlanError::system("wait for a worker")(error.into())),
        }
    }

    /// The reports that have arrived. Fails if the worker is gone.
    pub(crate) fn receive(&mut self) -> Result<Vec<Report>, PlanError> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        let mut buffer = [0; 64 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => Err(self.lost("it ended")),
            Ok(bytes) => self
                .frames
                .messages(&buffer[..bytes])
                .map_err(|error| self.lost(&error.to_string())),
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {
                Ok(Vec::new())
            }
            Err(error) => Err(self.lost(&error.to_string())),
        }
    }

    /// Waits for the next report that a run is ready, waits, has ended or failed; `None` if none arrives in time.
    pub(crate) fn wait_for(
        &mut self,
        run: u64,
        within: Duration,
    ) -> Result<Option<Report>, PlanError> {
        let until = Instant::now() + within;
        loop {
            let is_it = |report: &Report| match report {
                Report::Ready { run: of, .. }
                | Report::Queued { run: of, .. }
                | Report::Finished { run: of, .. }
                | Report::Failed { run: of, .. } => *of == run,
                _ => false,
            };
            if let Some(report) = self.receive()?.into_iter().find(is_it) {
                return Ok(Some(report));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            poll_for(&mut [PollFd::new(&self.socket, PollFlags::IN)], left)
                .map_err(PlanError::system("wait for a worker"))?;
        }
    }

    /// Lets the worker run on any of these CPUs, if it is a process here.
    pub(crate) fn run_on(&self, cpus: impl Iterator<Item = u32>) -> Result<(), PlanError> {
        let Behind::Process(process) = &self.behind else { return Ok(()) };
        let mut set = CpuSet::new();
        cpus.for_each(|cpu| set.set(cpu as usize));
        let pid = Pid::from_raw(process.id().cast_signed());
        sched_setaffinity(pid, &set)
            .map_err(|error| PlanError::system("choose the CPUs of a worker")(error.into()))
    }

    /// The error for a worker that no longer answers, with its exit status.
    pub(crate) fn lost(&mut self, what: &str) -> PlanError {
        match &mut self.behind {
            Behind::Process(process) => PlanError::Failed(format!(
                "lost the worker of node {}: {what} ({})",
                self.name,
                process.fate(END_WITHIN)
            )),
            Behind::Carrier(carrier) => PlanError::AgentLost(carrier.fate(END_WITHIN)),
        }
    }
}
