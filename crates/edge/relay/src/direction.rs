//! The hot loop: moves what one end of a connection sent to the other one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use fabricmark_telemetry::clock::now_ns;
use rustix::event::epoll::EventFlags;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::Path;
use crate::ring::{self, Ring};
use crate::settings::{Burst, Settings};
use crate::transfer::Transfer;

/// Receives of one direction before other connections get their turn.
pub(crate) const RECEIVES_PER_TURN: usize = 16;

/// Bytes that stalled directions of all threads together may hold before they receive less at a time.
const HELD_MAX: usize = 32 << 20;

/// Most bytes per receive then.
pub(crate) const SHORT_RECEIVE_BYTES: usize = 16 << 10;

/// Empty pipes that a thread keeps for its next connections.
const PIPES_KEPT: usize = 64;

/// One end of a connection, and what epoll has reported of it, edge-triggered.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) stream: TcpStream,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// The other side has ended or reset the connection: a short read does not mean that there is no more to read.
    has_ended: bool,
    /// Urgent data has arrived, before which reads are short, and which splice(2) does not pass.
    has_urgent: bool,
}

impl End {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, is_readable: false, is_writable: false, has_ended: false, has_urgent: false }
    }

    pub(crate) fn note(&mut self, flags: EventFlags) {
        // The next call returns the error.
        let broken = EventFlags::ERR | EventFlags::HUP;
        self.is_readable |= flags.intersects(EventFlags::IN | EventFlags::RDHUP | broken);
        self.is_writable |= flags.intersects(EventFlags::OUT | broken);
        self.has_ended |= flags.intersects(EventFlags::RDHUP | broken);
        self.has_urgent |= flags.contains(EventFlags::PRI);
    }
}

/// A pipe that splice(2) moves bytes through.
#[derive(Debug)]
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// What a thread moves bytes with.
#[derive(Debug)]
pub(crate) struct Mover {
    path: Path,
    burst: Option<Burst>,
    most: usize,
    /// With [`Path::Uring`] many connections receive into parts of it at once.
    pub(crate) buffer: Vec<u8>,
    /// Requests of [`Path::Uring`].
    pub(crate) ring: Option<Ring>,
    pipes: Vec<Pipe>,
    /// Bytes that directions hold, and from which number on they receive less at a time.
    pub(crate) held: usize,
    held_max: usize,
    /// Bytes moved since [`Self::take_bytes`], by direction.
    bytes: [u64; 2],
}

impl Mover {
    pub(crate) fn new(settings: &Settings, ring: Option<Ring>) -> Self {
        let &Settings { path, burst, buffer_bytes: most, threads, .. } = settings;
        let held_max = HELD_MAX / threads;
        let buffer = vec![0; ring.as_ref().map_or(most, |_| most.max(ring::BUFFER_BYTES))];
        Self {
            path,
            burst,
            most,
            buffer,
            ring,
            pipes: Vec::new(),
            held: 0,
            held_max,
            bytes: [0; 2],
        }
    }

    /// Most bytes of the next receive.
    fn most(&self) -> usize {
        let most = if self.held > self.held_max { SHORT_RECEIVE_BYTES } else { usize::MAX };
        self.most.min(most)
    }

    /// Forgets what a direction held that has ended.
    pub(crate) fn forget(&mut self, direction: &Direction) {
        self.held -= direction.held.len() + direction.piped;
    }

    pub(crate) fn take_bytes(&mut self) -> [u64; 2] {
        std::mem::take(&mut self.bytes)
    }

    fn pipe(&mut self) -> io::Result<Pipe> {
        if let Some(pipe) = self.pipes.pop() {
            return Ok(pipe);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Above the user's limit of pipe memory it keeps its size (pipe(7)).
        let _ = fcntl_setpipe_size(&writer, self.most);
        Ok(Pipe { reader, writer })
    }
}

/// What a direction does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It receives.
    Receive(Receive),
    /// It cannot receive now.
    Pauses(Step),
}

/// A receive of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receive {
    /// Most bytes.
    pub(crate) most: usize,
    /// When it began, if it is the first.
    began_ns: u64,
}

/// Whether a direction can go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for an event of epoll.
    Waits,
    /// There may be more to move.
    More,
    /// Its schedule lets it go on at this time.
    Due(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The source has ended; what is held must still be sent.
    Ended,
    /// The end was passed on.
    Shut,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    state: State,
    /// Bytes that were received and could not be sent yet, from `sent` on.
    held: Vec<u8>,
    sent: usize,
    /// Bytes in the pipe.
    piped: usize,
    pipe: Option<Pipe>,
    /// Bytes that the current period of the schedule has room for, and when it ends.
    room: usize,
    period_ends_ns: u64,
    /// Remaining bytes at the start of the direction that are not timed.
    untimed: u64,
    /// Room for the next receive: twice the bytes of the last one. A receive that is not full need not be repeated.
    expected: usize,
    pub(crate) transfer: Transfer,
}

impl Direction {
    pub(crate) fn new(untimed: u64) -> Self {
        Self { untimed, expected: SHORT_RECEIVE_BYTES, ..Self::default() }
    }

    /// Whether the end of the source was passed on.
    pub(crate) fn is_shut(&self) -> bool {
        self.state == State::Shut
    }

    /// Sends these bytes, which are not counted, before everything else.
    pub(crate) fn begin_with(&mut self, header: Vec<u8>, mover: &mut Mover) {
        mover.held += header.len();
        self.held = header;
    }

    /// Moves bytes until one end would block, the source has ended, or the turn is over. `number` is 0 from the client
    /// to the target, and 1 back; `is_last` if the other direction has ended, so that the sockets are closed next.
    pub(crate) fn advance(
        &mut self,
        source: &mut End,
        sink: &mut End,
        mover: &mut Mover,
        number: usize,
        is_last: bool,
    ) -> io::Result<Step> {
        for _ in 0..RECEIVES_PER_TURN {
            let receive = match self.begin(source, sink, mover, is_last)? {
                Turn::Receive(receive) => receive,
                Turn::Pauses(step) => return Ok(step),
            };
            let spliced = (mover.path == Path::Splice && !source.has_urgent)
                .then(|| self.fill(source, mover, receive.most));
            // Before urgent data splice(2) returns 0, too, as if the source had ended.
            let spliced = spliced.filter(|spliced| !matches!(spliced, Ok(0)));
            let is_splice = spliced.is_some();
            let copy = || source.stream.read(&mut mover.buffer[..receive.most]);
            let result = spliced.unwrap_or_else(copy);
            let received = self.received(receive, result, source, mover, number)?;
            if received == 0 {
                continue;
            }
            if is_splice {
                self.piped = received;
                mover.held += received;
                self.flush(sink, &mut mover.held)?;
            } else {
                let sent = send_some(sink, &mover.buffer[..received])?;
                self.hold(&mover.buffer[sent..received], &mut mover.held);
            }
            self.stamp_end();
        }
        self.stamp();
        Ok(Step::More)
    }

    /// Sends what is held, passes the end on, and says what comes next.
    pub(crate) fn begin(
        &mut self,
        source: &End,
        sink: &mut End,
        mover: &mut Mover,
        is_last: bool,
    ) -> io::Result<Turn> {
        if self.is_holding() && !self.flush(sink, &mut mover.held)? {
            return Ok(Turn::Pauses(Step::Waits));
        }
        match self.state {
            State::Open => {}
            State::Ended => {
                if !is_last {
                    sink.stream.shutdown(Shutdown::Write)?;
                }
                self.state = State::Shut;
                if let Some(pipe) = self.pipe.take().filter(|_| mover.pipes.len() < PIPES_KEPT) {
                    mover.pipes.push(pipe);
                }
                return Ok(Turn::Pauses(Step::Waits));
            }
            State::Shut => return Ok(Turn::Pauses(Step::Waits)),
        }
        if !source.is_readable || !sink.is_writable {
            return Ok(Turn::Pauses(Step::Waits));
        }
        let mut most = mover.most();
        if let Some(burst) = mover.burst {
            if !self.has_room(burst) {
                self.stamp();
                return Ok(Turn::Pauses(Step::Due(self.period_ends_ns)));
            }
            most = most.min(self.room);
        }
        let began_ns = if self.transfer.bytes == 0 { now_ns() } else { 0 };
        Ok(Turn::Receive(Receive { most, began_ns }))
    }

    /// Bytes that the next receive may return.
    pub(crate) fn expected(&self) -> usize {
        self.expected
    }

    /// Counts the result of a receive; returns the number of bytes to send.
    pub(crate) fn received(
        &mut self,
        Receive { most, began_ns }: Receive,
        result: io::Result<usize>,
        source: &mut End,
        mover: &mut Mover,
        number: usize,
    ) -> io::Result<usize> {
        let received = match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                source.is_readable = false;
                self.stamp();
                return Ok(0);
            }
            received => received?,
        };
        if received == 0 {
            self.stamp();
            self.state = State::Ended;
            return Ok(0);
        }
        self.expected = 2 * received;
        mover.bytes[number] += received as u64;
        self.room = self.room.saturating_sub(received);
        let untimed = self.untimed.min(received as u64);
        self.untimed -= untimed;
        let timed = received as u64 - untimed;
        let transfer = &mut self.transfer;
        if transfer.bytes == 0 && timed > 0 {
            transfer.receive_began_ns = began_ns;
            transfer.send_began_ns = now_ns();
        }
        transfer.bytes += timed;
        transfer.receives += u64::from(timed > 0);
        // A stream socket that returned less than was asked for has no more (epoll(7)), except its end. With splice, it
        // may be the pipe that is full.
        let (is_splice, is_short) = (mover.path == Path::Splice, received < most);
        if is_short && !is_splice {
            source.is_readable = source.has_ended || source.has_urgent;
        }
        self.transfer.receive_ended_ns = if is_short || is_splice { now_ns() } else { 0 };
        self.transfer.send_ended_ns = 0;
        Ok(received)
    }

    /// Keeps bytes that the sink did not take. `held` is the sum over all directions.
    pub(crate) fn hold(&mut self, bytes: &[u8], held: &mut usize) {
        if !bytes.is_empty() {
            (self.held, self.sent) = (bytes.to_vec(), 0);
            *held += bytes.len();
        }
    }

    /// Sets the end of a send if its receive may have been the last.
    pub(crate) fn stamp_end(&mut self) {
        if self.transfer.receive_ended_ns != 0 || self.is_holding() {
            self.stamp();
        }
    }

    /// Whether the schedule lets bytes pass now. Periods follow each other, unless one passed in silence.
    fn has_room(&mut self, burst: Burst) -> bool {
        let now_ns = now_ns();
        if now_ns >= self.period_ends_ns {
            let period_ns = burst.period.as_nanos() as u64;
            let next_ns = self.period_ends_ns.saturating_add(period_ns);
            let late_ns = now_ns.saturating_add(period_ns);
            self.period_ends_ns = if now_ns < next_ns { next_ns } else { late_ns };
            self.room = burst.bytes;
        }
        self.room > 0
    }

    /// Sets the ends of the last receive and of the last send, if they are not set yet.
    pub(crate) fn stamp(&mut self) {
        let transfer = &mut self.transfer;
        if transfer.bytes > 0 && (transfer.receive_ended_ns == 0 || transfer.send_ended_ns == 0) {
            let now_ns = now_ns();
            for ended_ns in [&mut transfer.receive_ended_ns, &mut transfer.send_ended_ns] {
                if *ended_ns == 0 {
                    *ended_ns = now_ns;
                }
            }
        }
    }

    fn is_holding(&self) -> bool {
        self.sent < self.held.len() || self.piped > 0
    }

    /// Splices what has arrived into the pipe, which is empty.
    fn fill(&mut self, source: &End, mover: &mut Mover, most: usize) -> io::Result<usize> {
        if self.pipe.is_none() {
            self.pipe = Some(mover.pipe()?);
        }
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let moved = splice(&source.stream, None, &pipe.writer, None, most, flags)?;
        Ok(moved)
    }

    /// Sends what is held; whether all of it was sent. `held` is the sum over all directions.
    fn flush(&mut self, sink: &mut End, held: &mut usize) -> io::Result<bool> {
        if !sink.is_writable {
            return Ok(false);
        }
        if self.sent < self.held.len() {
            self.sent += send_some(sink, &self.held[self.sent..])?;
            if self.sent < self.held.len() {
                return Ok(false);
            }
            *held -= self.held.len();
            (self.held, self.sent) = (Vec::new(), 0);
        }
        while let Some(pipe) = self.pipe.as_ref().filter(|_| self.piped > 0) {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match splice(&pipe.reader, None, sink.stream.as_fd(), None, self.piped, flags) {
                Ok(moved) => {
                    self.piped -= moved;
                    *held -= moved;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    sink.is_writable = false;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if self.transfer.bytes > 0 {
            self.transfer.send_ended_ns = now_ns();
        }
        Ok(true)
    }
}

/// Sends as much as the sink takes.
fn send_some(sink: &mut End, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match sink.stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sink.is_writable = false;
                return Ok(sent);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
