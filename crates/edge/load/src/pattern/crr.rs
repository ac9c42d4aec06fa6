//! Connect/request/response (netperf's CRR): one connection per request and response. The server closes first, so
//! that no port of the client stays in TIME_WAIT (RFC 9293, section 3.6.1).

use std::io;
use std::mem;
use std::time::Duration;

use super::rr::ClientResults;
use crate::amount::Amount;
use crate::control::Control;
use crate::opening::rounded;
use crate::pacer::Pacer;
use crate::response_limit::ResponseLimit;
use crate::transport::bytes::ByteStream;
use crate::transport::is_timeout;
use fabricmark_record::Counts;
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::gauge::Gauge;

/// Limits how long the other end may be silent in a transaction. Calls block until something happens, or a signal
/// interrupts them.
#[derive(Debug)]
pub struct Patience<'a> {
    within: Duration,
    control: &'a Control,
    /// Start of the transaction, or the last check that saw progress.
    moved_ns: u64,
    has_moved: bool,
}

impl<'a> Patience<'a> {
    /// Allows `within` for each step of the other end.
    pub fn new(within: Duration, control: &'a Control) -> Self {
        Self { within, control, moved_ns: 0, has_moved: false }
    }

    fn begin(&mut self) {
        (self.moved_ns, self.has_moved) = (now_ns(), false);
    }

    /// Repeats a call until it has a result.
    fn until<T>(&mut self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match call() {
                Err(error) if is_timeout(&error) => self.look()?,
                done => {
                    self.has_moved = true;
                    return done;
                }
            }
        }
    }

    fn look(&mut self) -> io::Result<()> {
        self.control.check().map_err(io::Error::other)?;
        let now = now_ns();
        if mem::take(&mut self.has_moved) {
            self.moved_ns = now;
        }
        if u128::from(now - self.moved_ns) < self.within.as_nanos() {
            return Ok(());
        }
        let message = format!("no data from the other end for {}", rounded(self.within));
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    }

    fn read(&mut self, stream: &mut impl ByteStream, message: &mut [u8]) -> io::Result<()> {
        let mut read = 0;
        while read < message.len() {
            match self.until(|| stream.receive(&mut message[read..]))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => read += bytes,
            }
        }
        Ok(())
    }

    fn write(&mut self, stream: &mut impl ByteStream, message: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < message.len() {
            written += self.until(|| stream.send(&message[written..]))?;
        }
        Ok(())
    }
}

/// When transactions depart: at once, or in an open loop at the times of its schedule. Each draws on the amount of the
/// run.
pub(crate) struct Departures<'a> {
    pub(crate) pacer: Option<Pacer<'a>>,
    pub(crate) amount: &'a Amount<'a>,
    pub(crate) request_bytes: u64,
}

impl Departures<'_> {
    /// Waits for the next departure; returns when it was due, or `None` at the end of the run.
    fn wait(&mut self) -> Option<u64> {
        let due_ns = match &mut self.pacer {
            None => (!self.amount.is_ended()).then(now_ns),
            Some(pacer) => pacer.wait(),
        };
        self.take(due_ns)
    }

    /// When a departure was due that happens at `now_ns`; `None` if none is due.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = match &mut self.pacer {
            None => (!self.amount.is_ended()).then_some(now_ns),
            Some(pacer) => {
                let due_ns = pacer.next_ns().filter(|&due_ns| due_ns <= now_ns);
                due_ns.inspect(|_| pacer.depart(now_ns))
            }
        };
        self.take(due_ns)
    }

    fn take(&self, due_ns: Option<u64>) -> Option<u64> {
        due_ns.inspect(|_| self.amount.take(self.request_bytes))
    }

    /// Whether nothing departs any more.
    pub(super) fn is_over(&mut self) -> bool {
        match &mut self.pacer {
            None => self.amount.is_ended(),
            Some(pacer) => pacer.next_ns().is_none(),
        }
    }

    /// How long to sleep before the next departure of an open loop, 0 to spin; `None` in a closed loop.
    pub(super) fn pause(&self, now_ns: u64) -> Option<Duration> {
        let pacer = self.pacer.as_ref()?;
        let wake_ns = pacer.sleep_until(now_ns).unwrap_or(now_ns);
        Some(Duration::from_nanos(wake_ns.saturating_sub(now_ns)))
    }
}

/// Makes transactions one after the other, each over a connection of its own, until no more depart; adds the results to
/// `results`. A transaction lasts from its departure until the server has closed.
pub(crate) fn ask<S: ByteStream>(
    connect: impl Fn() -> io::Result<S>,
    request: &[u8],
    response: &mut [u8],
    departures: &mut Departures<'_>,
    mut results: ClientResults,
    mut patience: Patience<'_>,
    gauge: &Gauge,
) -> io::Result<ClientResults> {
    while let Some(departed_ns) = departures.wait() {
        let mut stream = connect()?;
        patience.begin();
        patience.write(&mut stream, request)?;
        patience.read(&mut stream, response)?;
        if patience.until(|| stream.receive(&mut [0]))? > 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the response is too long"));
        }
        let heard_ns = now_ns();
        drop(stream);
        results.take(heard_ns, heard_ns - departed_ns);
        gauge.add(request.len() as u64, 1);
    }
    Ok(results.until(now_ns(), 1, request))
}

/// Answers one request per connection until the coordinator reports that all were made. `accept` returns
/// [`io::ErrorKind::WouldBlock`] if no connection is waiting. Failed connections are ignored: they may be foreign,
/// and the client reports its own.
pub(crate) fn answer<S: ByteStream>(
    accept: impl Fn() -> io::Result<S>,
    request: &mut [u8],
    response: &[u8],
    limit: Option<&ResponseLimit<'_>>,
    mut patience: Patience<'_>,
    gauge: &Gauge,
) -> io::Result<Counts> {
    let control = patience.control;
    let mut counts = Counts::default();
    let began = now_ns();
    loop {
        let answered = accept().and_then(|mut stream| {
            patience.begin();
            patience.read(&mut stream, request)?;
            if let Some(limit) = limit {
                limit.take()?;
            }
            patience.write(&mut stream, response)?;
            // Closing it would not do: a thread that has a copy of the descriptor table keeps it open.
            stream.finish()?;
            stream.linger()
        });
        match answered {
            Ok(()) => {
                counts.calls += 1;
                gauge.add(response.len() as u64, 1);
            }
            // A client whose connection ended because of that may have aborted the run already.
            Err(error) if is_fatal(&error) => return Err(error),
            Err(_) if control.is_drained(0, u64::MAX) => break,
            Err(_) => {}
        }
    }
    counts.bytes = counts.calls * response.len() as u64;
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}

/// Whether the next transaction would fail too: this process or host has no room for a socket (accept(2)), or requests
/// arrive faster than is allowed.
pub(super) fn is_fatal(error: &io::Error) -> bool {
    let room = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|error| room.contains(&error))
        || error.kind() == io::ErrorKind::QuotaExceeded
}
