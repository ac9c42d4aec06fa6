//! One end of a run: sockets made ready, the flow opened, the pattern carried out, everything
//! counted.

use std::hint::black_box;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fabricmark_plan::{Pattern, Point, Transport};
use fabricmark_proto::{EndReport, Failure, Opening, OpeningKind, Prepare, Role};
use fabricmark_record::{Counts, Instrument, TcpCounters};
use fabricmark_units::Bytes;
use rustix::thread::{CpuSet, sched_setaffinity};
use socket2::{SockRef, Socket};

use crate::clock::now_ns;
use crate::pattern::stream::Ramp;
use crate::pattern::{ping_pong, stream};
use crate::sockets::{
    PEER_WITHIN, accept_tcp, accept_udp, bound, open_tcp, open_udp, peer, side, system,
};
use crate::transport::null::NullFlow;
use crate::transport::tcp::TcpFlow;
use crate::transport::udp::UdpFlow;
use crate::transport::{Flow, is_timeout};
use crate::{counters, sys};

/// Buffer of a receiver of a TCP stream: 128 KiB, the usual size of other tools' reads.
const STREAM_BUFFER_BYTES: usize = 128 << 10;

/// What the control conversation tells a running load thread.
#[derive(Debug)]
pub struct Control {
    /// The starting end is to send nothing more.
    pub stop: AtomicBool,
    /// The run is given up.
    pub abort: AtomicBool,
    /// Payloads that the other end has sent in all; `u64::MAX` until that is known.
    pub expected: AtomicU64,
    /// Silence in nanoseconds that ends a receiver once `expected` is known.
    pub idle_ns: AtomicU64,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            expected: AtomicU64::new(u64::MAX),
            idle_ns: AtomicU64::new(0),
        }
    }
}

impl Control {
    /// How often a blocked load thread looks at its orders.
    pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

    /// Tells a receiver how many payloads were sent and how much silence ends its wait.
    pub fn drain(&self, calls: u64, idle_ns: u64) {
        self.idle_ns.store(idle_ns, Relaxed);
        self.expected.store(calls, Relaxed);
    }

    /// Gives the run up.
    pub fn give_up(&self) {
        self.abort.store(true, Relaxed);
        self.stop.store(true, Relaxed);
    }

    /// An error when the run is given up.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.abort.load(Relaxed) { Err(Failure::Aborted) } else { Ok(()) }
    }

    /// Whether a receiver that has been idle for so long need not wait any longer.
    pub(crate) fn is_drained(&self, calls: u64, idle_ns: u64) -> bool {
        let expected = self.expected.load(Relaxed);
        self.abort.load(Relaxed)
            || (expected != u64::MAX
                && (calls >= expected || idle_ns >= self.idle_ns.load(Relaxed)))
    }
}

/// A run's end whose sockets are ready.
#[derive(Debug)]
pub struct Endpoint {
    prepare: Prepare,
    socket: Option<Socket>,
    port: u16,
}

impl Endpoint {
    /// Makes sockets ready; an answering end is bound and listens when this returns.
    pub fn prepare(prepare: Prepare) -> Result<Self, Failure> {
        // The buffer is allocated for whoever sends the order.
        let Bytes(payload) = prepare.point.payload;
        if payload > Point::PAYLOAD_MAX.0 {
            let message = format!("a payload of {payload} bytes is beyond {}", Point::PAYLOAD_MAX);
            return Err(Failure::Protocol(message));
        }
        let (mut socket, mut port) = (None, 0);
        if prepare.point.transport != Transport::Null {
            let wanted = if prepare.role == Role::Answer { prepare.port } else { 0 };
            let ready = bound(&prepare, wanted)?;
            if prepare.role == Role::Answer {
                if prepare.point.transport == Transport::Tcp {
                    ready.listen(1).map_err(system("listen"))?;
                }
                let at = ready.local_addr().map_err(system("read the bound address"))?;
                port = at.as_socket().map_or(0, |at| at.port());
            }
            socket = Some(ready);
        }
        Ok(Self { prepare, socket, port })
    }

    /// Port that the answering end is bound to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Carries the run out on the calling thread, which it binds to its processor. The starting
    /// end needs the address of the other.
    pub fn run(self, peer_at: Option<SocketAddr>, control: &Control) -> Result<EndReport, Failure> {
        let duration: Duration = self.prepare.duration_ns.into();
        let (begun, wait) = mpsc::channel::<()>();
        thread::scope(|scope| {
            // The clock of the run is a thread of its own, so that the hot loop reads only a flag.
            scope.spawn(|| {
                let wait = wait;
                if wait.recv().is_ok() {
                    let _ = wait.recv_timeout(duration);
                }
                control.stop.store(true, Relaxed);
            });
            let begin = || {
                // The timer waits for it on the other side of the channel as long as this lives.
                let _ = begun.send(());
            };
            let result = self.carry_out(peer_at, control, &begin);
            drop(begun);
            result
        })
    }

    fn carry_out(
        mut self,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let pinned = pin(self.prepare.cpu);
        let before = Surroundings::read(&self.prepare);
        let socket = self.socket.take();
        let mut report = match (self.prepare.point.transport, socket) {
            (Transport::Tcp, Some(socket)) => self.tcp(socket, peer_at, control, begin)?,
            (Transport::Udp, Some(socket)) => self.udp(socket, peer_at, control, begin)?,
            _ => self.pattern(&mut NullFlow, control, begin)?,
        };
        control.check()?;
        before.since(&self.prepare, &mut report);
        if let Err(reason) = pinned {
            report.side.cpu = None;
            report.not_pinned = Some(reason);
        }
        Ok(report)
    }

    fn opening(&self) -> Opening {
        let Prepare { run, token, .. } = self.prepare;
        Opening { kind: OpeningKind::Open, run, flow: 0, token }
    }

    fn tcp(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let Prepare { point, role, .. } = &self.prepare;
        let (stream, opening_rtt_ns) = match (role, peer_at) {
            (Role::Start, Some(peer_at)) => open_tcp(socket, peer_at, self.opening(), point)?,
            _ => (accept_tcp(&TcpListener::from(socket), self.opening(), point, control)?, 0),
        };
        // A stream's ends and an answerer look at their orders; an asker waits for its answer, which
        // a retransmission may delay by seconds.
        let is_asker = *role == Role::Start && point.pattern == Pattern::PingPong;
        let wait = if is_asker { PEER_WITHIN } else { Control::LOOK_EVERY };
        stream
            .set_read_timeout(Some(wait))
            .and_then(|()| stream.set_write_timeout(Some(wait)))
            .map_err(system("set time-outs"))?;
        let mut flow = TcpFlow::new(stream);
        let mut report = self.pattern(&mut flow, control, begin)?;
        report.opening_rtt_ns = opening_rtt_ns;
        report.side = side(&SockRef::from(flow.stream()), self.prepare.cpu);
        if *role == Role::Start {
            report.tcp = tcp_counters(flow.stream(), point, &report.counts)?;
        }
        Ok(report)
    }

    fn udp(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        /// A datagram on its way for longer counts as lost: round trips in a lab take 0.1 ms
        /// (`docs/measured.md`).
        const LOST_AFTER: Duration = Duration::from_millis(200);
        let Prepare { point, role, .. } = &self.prepare;
        let socket = UdpSocket::from(socket);
        let (socket, opening_rtt_ns) = match (role, peer_at) {
            (Role::Start, Some(peer_at)) => open_udp(socket, peer_at, self.opening())?,
            _ => (accept_udp(socket, self.opening(), control)?, 0),
        };
        let wait = if *role == Role::Start { LOST_AFTER } else { Control::LOOK_EVERY };
        socket
            .set_read_timeout(Some(wait))
            .and_then(|()| socket.set_write_timeout(Some(Control::LOOK_EVERY)))
            .map_err(system("set time-outs"))?;
        let mut flow = UdpFlow::new(socket, self.opening(), point.payload.0 as usize);
        let mut report = self.pattern(&mut flow, control, begin)?;
        report.opening_rtt_ns = opening_rtt_ns;
        report.side = side(&SockRef::from(flow.socket()), self.prepare.cpu);
        report.sequence = flow.sequence().filter(|_| *role == Role::Answer);
        report.socket_drops =
            sys::socket_drops(flow.socket().as_fd()).map_err(system("read SO_MEMINFO"))?;
        Ok(report)
    }

    fn pattern(
        &self,
        flow: &mut impl Flow,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let Prepare { point, role, duration_ns, .. } = &self.prepare;
        let mut payload = vec![0x5a; point.payload.0 as usize];
        let mut report = EndReport::default();
        begin_if_starting(*role, begin);
        match (point.pattern, role) {
            (Pattern::Stream, Role::Start) => {
                report.counts = stream::send(flow, &mut payload, control)
                    .map_err(peer("cannot send the stream"))?;
            }
            (Pattern::Stream, Role::Answer) => {
                // One byte more than a datagram has, so that a longer one is not mistaken for it.
                let bytes = match point.transport {
                    Transport::Udp => payload.len() + 1,
                    _ => STREAM_BUFFER_BYTES,
                };
                let ramp = Ramp::of(*duration_ns);
                report.counts = stream::receive(flow, &mut vec![0; bytes], ramp, control)
                    .map_err(peer("cannot receive the stream"))?;
            }
            (Pattern::PingPong, Role::Start) => {
                let asked = ping_pong::ask(flow, &mut payload, control)
                    .map_err(peer("the other end stopped answering"))?;
                report.counts = asked.counts;
                report.rtt_ns = Some(asked.rtt_ns);
                report.lost_round_trips = asked.lost;
            }
            (Pattern::PingPong, Role::Answer) => {
                report.counts = ping_pong::answer(flow, &mut payload, control)
                    .map_err(peer("cannot answer"))?;
            }
        }
        Ok(report)
    }
}

fn begin_if_starting(role: Role, begin: &dyn Fn()) {
    if role == Role::Start {
        begin();
    }
}

/// Counters of the namespace before a run.
struct Surroundings {
    device_drops: u64,
    reassembly_failures: u64,
}

impl Surroundings {
    fn read(prepare: &Prepare) -> Self {
        Self {
            device_drops: counters::device_drops(&prepare.device),
            reassembly_failures: counters::reassembly_failures(),
        }
    }

    fn since(&self, prepare: &Prepare, report: &mut EndReport) {
        let now = Self::read(prepare);
        report.device_drops = now.device_drops.saturating_sub(self.device_drops);
        report.reassembly_failures =
            now.reassembly_failures.saturating_sub(self.reassembly_failures);
    }
}

fn pin(cpu: Option<u32>) -> Result<(), String> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|error| error.to_string())
}

/// TCP's counters once everything written is acknowledged, and the connection's orderly end.
fn tcp_counters(
    stream: &TcpStream,
    point: &Point,
    counts: &Counts,
) -> Result<Option<TcpCounters>, Failure> {
    /// Time for the last bytes to be acknowledged; a 4 MiB send buffer at 10 Mbit/s needs 3.4 s.
    const ACKNOWLEDGED_WITHIN_NS: u64 = 5_000_000_000;
    let until = now_ns() + ACKNOWLEDGED_WITHIN_NS;
    let info = loop {
        let info = sys::tcp_info(stream.as_fd()).map_err(system("read TCP_INFO"))?;
        match info {
            Some(info) if (info.unacked > 0 || info.notsent_bytes > 0) && now_ns() < until => {
                thread::sleep(Duration::from_millis(1));
            }
            info => break info,
        }
    };
    match stream.shutdown(std::net::Shutdown::Write) {
        // The other end may have closed first.
        Err(error) if !is_timeout(&error) && error.kind() != std::io::ErrorKind::NotConnected => {
            return Err(system("end the connection")(error));
        }
        _ => {}
    }
    let congestion = SockRef::from(stream)
        .tcp_congestion()
        .map(|name| String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
        .unwrap_or_default();
    Ok(info.map(|info| {
        // The opening was a data segment, too.
        let opening = 1;
        let first_sent = u64::from(info.data_segs_out)
            .saturating_sub(u64::from(info.total_retrans) + opening)
            .max(1);
        let mss = u64::from(info.snd_mss).max(1);
        let alone = counts.calls * point.payload.0.div_ceil(mss);
        TcpCounters {
            congestion,
            mss,
            data_segments: u64::from(info.data_segs_out),
            retransmitted: u64::from(info.total_retrans),
            srtt_ns: u64::from(info.rtt_us) * 1000,
            writes_per_segment: counts.calls as f64 / first_sent as f64,
            merging: alone as f64 / first_sent as f64,
        }
    }))
}

/// Both patterns over nothing: what the instrument itself costs. Takes 0.1 s.
pub fn instrument() -> Instrument {
    const EACH: Duration = Duration::from_millis(50);
    let measure = |run: &dyn Fn(&Control) -> (u64, u64)| {
        let control = Control::default();
        let (calls, elapsed_ns) = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(EACH);
                control.stop.store(true, Relaxed);
            });
            run(&control)
        });
        elapsed_ns as f64 / calls.max(1) as f64
    };
    let stream_call_ns = measure(&|control| {
        let counts = stream::send(&mut NullFlow, black_box(&mut [0; 64]), control);
        counts.map_or((0, 0), |counts| (counts.calls, counts.elapsed_ns))
    });
    let ping_pong_ns = measure(&|control| {
        let asked = ping_pong::ask(&mut NullFlow, black_box(&mut [0; 64]), control);
        asked.map_or((0, 0), |asked| (asked.counts.calls, asked.counts.elapsed_ns))
    });
    Instrument { stream_call_ns, ping_pong_ns }
}
