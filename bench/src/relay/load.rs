//! What passes through the relays, and the server behind them.

use std::fmt;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_stats::Histogram;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Bytes per transfer of [`Load::Transfers`].
const TRANSFER_BYTES: usize = 16 << 10;

/// Bytes of a request and of a response.
const RR_BYTES: usize = 64;

/// Bytes per write of a bulk stream.
const WRITE_BYTES: usize = 128 << 10;

/// Traffic through a relay. The first byte of each connection selects what the server does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Streams to the server.
    Bulk { connections: usize },
    /// 16 KiB requests with one-byte responses, one outstanding per connection.
    Transfers { connections: usize },
    /// 64 bytes there and back.
    Rr,
    /// A connection, a byte there and back, and its end, one after the other.
    Connect,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk { connections } => write!(f, "bulk, {connections} connections"),
            Self::Transfers { connections } => {
                write!(f, "transfers of 16 KiB, {connections} connections")
            }
            Self::Rr => f.write_str("rr of 64 B"),
            Self::Connect => f.write_str("opened connections"),
        }
    }
}

/// Results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// In [`Load::unit`].
    pub main: f64,
    /// Application bytes.
    pub bytes: u64,
    pub cpu_s_per_gib: f64,
}

impl Load {
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bulk { .. } => "Gbit/s",
            Self::Transfers { .. } => "1000 transfers/s",
            Self::Rr => "RTT p50 µs",
            Self::Connect => "1000 connections/s",
        }
    }

    /// Loads the relay at a port of loopback.
    pub fn run(self, port: u16, server: &Server, seconds: f64) -> io::Result<Figures> {
        let duration = Duration::from_secs_f64(seconds);
        let connect = |kind: u8| -> io::Result<TcpStream> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_nodelay(true)?;
            stream.write_all(&[kind])?;
            Ok(stream)
        };
        match self {
            Self::Bulk { connections } => {
                let mut streams: Vec<TcpStream> =
                    (0..connections).map(|_| connect(SINK)).collect::<io::Result<_>>()?;
                let before = server.sunk();
                let began = Instant::now();
                flood(&mut streams, began + duration)?;
                let (bytes, elapsed) = (server.sunk() - before, began.elapsed());
                drop(streams);
                server.await_quiet();
                let main = 8e-9 * bytes as f64 / elapsed.as_secs_f64();
                Ok(Figures { main, bytes, ..Figures::default() })
            }
            Self::Transfers { connections } => {
                let mut streams: Vec<TcpStream> =
                    (0..connections).map(|_| connect(CONFIRM)).collect::<io::Result<_>>()?;
                let began = Instant::now();
                let transfers = confirm(&mut streams, began + duration)?;
                let main = 1e-3 * transfers as f64 / began.elapsed().as_secs_f64();
                let bytes = transfers * TRANSFER_BYTES as u64;
                Ok(Figures { main, bytes, ..Figures::default() })
            }
            Self::Rr => {
                let mut stream = connect(ECHO)?;
                let (mut bytes, mut rtt_ns) = ([7; RR_BYTES], Histogram::new());
                let until = Instant::now() + duration;
                loop {
                    let began = Instant::now();
                    if began >= until {
                        break;
                    }
                    stream.write_all(&bytes)?;
                    stream.read_exact(&mut bytes)?;
                    rtt_ns.record(began.elapsed().as_nanos() as u64);
                }
                let main = rtt_ns.quantile(0.5).unwrap_or(0) as f64 / 1e3;
                Ok(Figures { main, bytes: 0, ..Figures::default() })
            }
            Self::Connect => {
                let (began, mut count) = (Instant::now(), 0_u32);
                while began.elapsed() < duration {
                    let mut stream = connect(ECHO)?;
                    stream.write_all(&[1])?;
                    stream.read_exact(&mut [0])?;
                    count += 1;
                }
                let main = 1e-3 * f64::from(count) / began.elapsed().as_secs_f64();
                Ok(Figures { main, bytes: 0, ..Figures::default() })
            }
        }
    }
}

/// Kinds of connections.
const SINK: u8 = 1;
const ECHO: u8 = 2;
const CONFIRM: u8 = 3;

struct Poller {
    epoll: rustix::fd::OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(256) })
    }

    fn add(&self, stream: impl AsFd, index: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, stream, EventData::new_u64(index as u64), flags)?)
    }

    fn wait(&mut self) -> io::Result<Vec<usize>> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        self.events.clear();
        let room: &mut [MaybeUninit<Event>] = self.events.spare_capacity_mut();
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok((events, _)) => Ok(events.iter().map(|event| event.data.u64() as usize).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sends as much as the streams take.
fn flood(streams: &mut [TcpStream], until: Instant) -> io::Result<()> {
    let payload = vec![0x5a; WRITE_BYTES];
    let mut poller = Poller::new()?;
    for (index, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true)?;
        poller.add(stream, index, EventFlags::OUT)?;
    }
    while Instant::now() < until {
        for index in poller.wait()? {
            match streams[index].write(&payload) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Sends transfers, each after the confirmation of the last one of its stream; returns their number.
fn confirm(streams: &mut [TcpStream], until: Instant) -> io::Result<u64> {
    let payload = vec![0x5a; TRANSFER_BYTES];
    let mut poller = Poller::new()?;
    for (index, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&payload)?;
        poller.add(&*stream, index, EventFlags::IN)?;
    }
    let mut transfers = 0;
    while Instant::now() < until {
        for index in poller.wait()? {
            streams[index].read_exact(&mut [0])?;
            transfers += 1;
            streams[index].write_all(&payload)?;
        }
    }
    Ok(transfers)
}

/// The server behind the relays: one thread.
pub struct Server {
    port: u16,
    sunk: Arc<AtomicU64>,
    open: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
}

impl Server {
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        rustix::net::listen(&listener, 4096)?;
        let port = listener.local_addr()?.port();
        let (sunk, open, stop) = <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let serving = (Arc::clone(&sunk), Arc::clone(&open), Arc::clone(&stop));
        let thread =
            Some(thread::spawn(move || serve(&listener, &serving.0, &serving.1, &serving.2)));
        Ok(Self { port, sunk, open, stop, thread })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Bytes that have arrived on streams.
    pub fn sunk(&self) -> u64 {
        self.sunk.load(Relaxed)
    }

    /// Waits until all connections have ended, for at most 5 s.
    pub fn await_quiet(&self) {
        let began = Instant::now();
        while self.open.load(Relaxed) > 0 && began.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    listener: &TcpListener,
    sunk: &AtomicU64,
    open: &AtomicU64,
    stop: &AtomicBool,
) -> io::Result<()> {
    const LISTENER: usize = usize::MAX;
    let mut poller = Poller::new()?;
    poller.add(listener, LISTENER, EventFlags::IN)?;
    // The kind of a connection, 0 until its first byte, and the bytes of its current transfer.
    let mut streams: Vec<Option<(TcpStream, u8, usize)>> = Vec::new();
    let mut buffer = vec![0; 256 << 10];
    while !stop.load(Relaxed) {
        for index in poller.wait()? {
            if index == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let place = streams.iter().position(Option::is_none).unwrap_or(streams.len());
                poller.add(&stream, place, EventFlags::IN)?;
                streams.resize_with(streams.len().max(place + 1), || None);
                streams[place] = Some((stream, 0, 0));
                open.fetch_add(1, Relaxed);
                continue;
            }
            let Some((stream, kind, transferred)) = &mut streams[index] else { continue };
            let read = stream.read(&mut buffer).unwrap_or(0);
            let mut bytes = &buffer[..read];
            if *kind == 0 && read > 0 {
                *kind = bytes[0];
                bytes = &bytes[1..];
            }
            let is_open = read > 0
                && match *kind {
                    SINK => {
                        sunk.fetch_add(bytes.len() as u64, Relaxed);
                        true
                    }
                    ECHO => stream.write_all(bytes).is_ok(),
                    _ => {
                        *transferred += bytes.len();
                        let is_whole = *transferred >= TRANSFER_BYTES;
                        *transferred -= if is_whole { TRANSFER_BYTES } else { 0 };
                        !is_whole || stream.write_all(&[1]).is_ok()
                    }
                };
            if !is_open {
                streams[index] = None;
                open.fetch_sub(1, Relaxed);
            }
        }
    }
    Ok(())
}
