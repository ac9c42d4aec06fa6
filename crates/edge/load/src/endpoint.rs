//! One end of a run: sockets made ready, flows opened, the pattern carried out, everything counted.

mod connections;
pub mod foreign;
mod quic;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use fabricmark_plan::{
    INTERVAL_MIN, Operation, Path, Pattern, Point, Role, Timestamps, Transport, check_order,
};
use fabricmark_proto::{EndReport, Failure, Prepare, SequenceCounts};
use fabricmark_rdma::Adapter;
use fabricmark_units::Bytes;
use rustix::thread::{CpuSet, sched_setaffinity};
use socket2::{SockRef, Socket};

use crate::carry::carry;
use crate::control::{Control, Event};
use crate::failure::system;
use crate::opening::{self, Connection, Listener, accept_all, open_all};
use crate::options::{self, QuickAck};
use crate::path::gso::GsoFlow;
use crate::path::mmsg::MmsgFlow;
use crate::path::pages::Pages;
use crate::path::uring::{self, bytes::UringBytes, datagrams::UringDatagrams};
use crate::sockets::{allow_files, bound, side, waiting};
use crate::transport::Flow;
use crate::transport::bytes::{ByteFlow, ByteStream};
use crate::transport::null::NullFlow;
use crate::transport::rsocket::RsocketFlow;
use crate::transport::seqpacket::Seqpacket;
use crate::transport::stamped::{StampedTcp, StampedUdp};
use crate::transport::tls::TlsStream;
use crate::transport::udp::UdpFlow;
use crate::transport::verbs::{FetchFlow, MessageFlow, WriteFlow};
use crate::window::Windowed;
use crate::{smc, sys, tcp};
use fabricmark_telemetry::clock;
use fabricmark_telemetry::kernel::Snapshot;
use fabricmark_telemetry::stamp::check_hardware;

/// A run's end whose sockets are ready.
#[derive(Debug)]
pub struct Endpoint {
    prepare: Prepare,
    socket: Option<Socket>,
    port: u16,
}

impl Endpoint {
    /// Makes sockets ready; a server is bound and listens when this returns.
    pub fn prepare(prepare: Prepare) -> Result<Self, Failure> {
        check(&prepare.point)?;
        if prepare.role == Role::Client && prepare.point.timestamps == Some(Timestamps::Hardware) {
            check_hardware(prepare.point.device.as_ref().unwrap_or(&prepare.device))
                .map_err(Failure::Missing)?;
        }
        if let Some(interval) = prepare.interval_ns.filter(|&interval| interval < INTERVAL_MIN) {
            let message = format!("an interval of {interval} is below {INTERVAL_MIN}");
            return Err(Failure::Protocol(message));
        }
        let (mut socket, mut port) = (None, 0);
        if prepare.point.transport != Transport::Null {
            allow_files(&prepare.point)?;
            let ready = match prepare.role {
                Role::Client => bound(&prepare, 0)?,
                Role::Server => waiting(&prepare)?,
            };
            if prepare.role == Role::Server {
                let at = ready.local_addr().map_err(system("read the bound address"))?;
                port = at.as_socket().map_or(0, |at| at.port());
            }
            socket = Some(ready);
        }
        Ok(Self { prepare, socket, port })
    }

    /// Port that the server is bound to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Carries the run out on the calling thread, which it binds to its processor. The starting
    /// end needs the address of the other.
    pub fn run(self, peer_at: Option<SocketAddr>, control: &Control) -> Result<EndReport, Failure> {
        let duration: Duration = self.prepare.duration_ns.into();
        thread::scope(|scope| {
            // The clock of the run is a thread of its own, so that the hot loop reads only a flag.
            scope.spawn(|| control.interrupter.keep_time(&control.stop));
            let _left = control.interrupter.leaving();
            let begin = || {
                control.tell(Event::Begun);
                control.interrupter.begin(duration);
            };
            self.carry_out(peer_at, control, &begin)
        })
    }

    fn carry_out(
        mut self,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let pinned = pin(self.prepare.cpu);
        let before = Snapshot::now(&self.prepare.device);
        let Prepare { point, .. } = &self.prepare;
        let mut report = match (self.socket.take(), point.pattern) {
            (None, _) => carry(&mut [NullFlow::default()], &self.prepare, control, begin)?,
            (Some(socket), Pattern::Crr) => self.by_connections(socket, peer_at, control, begin)?,
            (Some(socket), _) => self.by_flows(socket, peer_at, control, begin)?,
        };
        control.check()?;
        let counted = Snapshot::now(&self.prepare.device).since(&before);
        report.device_drops = counted.device_drops;
        report.reassembly_failures = counted.reassembly_failures;
        report.kernel = Some(counted.counters);
        report.side.clock = Some(clock::facts());
        if let Err(reason) = pinned {
            report.side.cpu = None;
            report.not_pinned = Some(reason);
        }
        Ok(report)
    }

    /// A connection for each request.
    fn by_connections(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let transport = self.prepare.point.transport;
        match transport {
            Transport::Tcp | Transport::Mptcp => {
                self.crr::<TcpStream>(socket, peer_at, control, begin)
            }
            Transport::Unix => self.crr::<UnixStream>(socket, peer_at, control, begin),
            Transport::Tls => self.crr::<TlsStream>(socket, peer_at, control, begin),
            Transport::Quic => self.quic(socket, peer_at, control, begin),
            Transport::Udp
            | Transport::Seqpacket
            | Transport::Sctp
            | Transport::Smc
            | Transport::Rsocket
            | Transport::Rc
            | Transport::Uc
            | Transport::Ud
            | Transport::Null => {
                Err(Failure::Protocol(format!("crr is not supported with {transport}")))
            }
        }
    }

    /// Flows that are opened once.
    fn by_flows(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        match self.prepare.point.transport {
            Transport::Tcp => {
                let (streams, rtt_ns) = self.open::<TcpStream>(socket, peer_at, control)?;
                self.tcp(streams, rtt_ns, control, begin)
            }
            Transport::Mptcp | Transport::Sctp => {
                let (streams, rtt_ns) = self.open::<TcpStream>(socket, peer_at, control)?;
                self.bytes(streams, rtt_ns, control, begin, |tcp| Some(tcp))
            }
            Transport::Unix => {
                let (streams, rtt_ns) = self.open::<UnixStream>(socket, peer_at, control)?;
                self.bytes(streams, rtt_ns, control, begin, |_| None)
            }
            Transport::Seqpacket => {
                let (packets, rtt_ns) = self.open::<Seqpacket>(socket, peer_at, control)?;
                self.bytes(packets, rtt_ns, control, begin, |_| None)
            }
            Transport::Tls => {
                let (streams, rtt_ns) = self.open::<TlsStream>(socket, peer_at, control)?;
                self.bytes(streams, rtt_ns, control, begin, |tls| Some(tls.tcp()))
            }
            Transport::Smc => {
                let (streams, rtt_ns) = self.open::<TcpStream>(socket, peer_at, control)?;
                smc::check(&streams)?;
                self.bytes(streams, rtt_ns, control, begin, |_| None)
            }
            Transport::Rsocket => {
                let (streams, rtt_ns) = self.open::<TcpStream>(socket, peer_at, control)?;
                let open = |stream| RsocketFlow::open(stream, &self.prepare, control);
                let flows: Result<Vec<_>, Failure> = streams.into_iter().map(open).collect();
                self.flows(flows?, rtt_ns, control, begin, |_| None)
            }
            Transport::Udp => self.udp(socket, peer_at, control, begin),
            Transport::Quic => self.quic(socket, peer_at, control, begin),
            Transport::Rc | Transport::Uc | Transport::Ud => {
                self.verbs(socket, peer_at, control, begin)
            }
            Transport::Null => carry(&mut [NullFlow::default()], &self.prepare, control, begin),
        }
    }

    /// Opens or accepts every flow of a transport with connections.
    fn open<C: Connection>(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
    ) -> Result<(Vec<C>, u64), Failure> {
        match (self.prepare.role, peer_at) {
            (Role::Client, Some(peer_at)) => open_all(socket, peer_at, &self.prepare, control),
            _ => {
                let listener = Listener::<C>::new(socket, &self.prepare)?;
                Ok((accept_all(&listener, control)?, 0))
            }
        }
    }

    fn tcp(
        &self,
        streams: Vec<TcpStream>,
        opening_rtt_ns: u64,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let Prepare { point, .. } = &self.prepare;
        let (is_active, bytes) = (self.prepare.is_active(), point.payload.0 as usize);
        if let Some(is_set) = point.quickack {
            let quick = |stream| QuickAck::new(stream, is_set).map_err(system("set TCP_QUICKACK"));
            let streams: Result<Vec<_>, Failure> = streams.into_iter().map(quick).collect();
            return self.bytes(streams?, opening_rtt_ns, control, begin, |s| Some(s.stream()));
        }
        let is_receiver = point.pattern == Pattern::Stream && !is_active;
        if let Some(window) =
            point.window_bytes().filter(|_| is_receiver && point.path == Path::Copy)
        {
            let streams = streams.into_iter().map(|stream| Windowed::new(stream, window)).collect();
            return self.bytes(streams, opening_rtt_ns, control, begin, |s| Some(s.stream()));
        }
        if let Some(source) = point.timestamps.filter(|_| is_active) {
            let stamped =
                |stream| StampedTcp::new(stream, source).map_err(system("set SO_TIMESTAMPING"));
            let streams: Result<Vec<_>, Failure> = streams.into_iter().map(stamped).collect();
            return self.bytes(streams?, opening_rtt_ns, control, begin, |s| Some(s.stream()));
        }
        let way: fn(TcpStream, usize) -> io::Result<Pages> = match (point.path, is_active) {
            (Path::ZeroCopy, true) => |stream, _| Pages::zerocopy(stream),
            (Path::SendFile, true) => Pages::sendfile,
            (Path::Splice, _) => Pages::splice,
            (Path::Trunc, false) => |stream, _| Ok(Pages::trunc(stream)),
            _ => return self.bytes(streams, opening_rtt_ns, control, begin, |tcp| Some(tcp)),
        };
        let pages: io::Result<Vec<Pages>> =
            streams.into_iter().map(|stream| way(stream, bytes)).collect();
        let pages = pages.map_err(system(format!("lay the path {}", point.path)))?;
        self.bytes(pages, opening_rtt_ns, control, begin, |pages| Some(pages.stream()))
    }

    /// Carries the pattern out over connections; `tcp` gives the TCP socket below one.
    fn bytes<S: ByteStream>(
        &self,
        streams: Vec<S>,
        opening_rtt_ns: u64,
        control: &Control,
        begin: &dyn Fn(),
        tcp: fn(&S) -> Option<&TcpStream>,
    ) -> Result<EndReport, Failure> {
        let Prepare { point, .. } = &self.prepare;
        if !point.path.is_uring() {
            let flows = streams.into_iter().map(ByteFlow::new).collect();
            return self.flows(flows, opening_rtt_ns, control, begin, |f| tcp(f.stream()));
        }
        let lay = |stream| UringBytes::new(stream, point, send_bytes(&self.prepare));
        let flows: Result<Vec<_>, Failure> = streams.into_iter().map(lay).collect();
        self.flows(flows?, opening_rtt_ns, control, begin, |f| tcp(f.stream()))
    }

    fn flows<F: Flow>(
        &self,
        mut flows: Vec<F>,
        opening_rtt_ns: u64,
        control: &Control,
        begin: &dyn Fn(),
        tcp: impl Fn(&F) -> Option<&TcpStream>,
    ) -> Result<EndReport, Failure> {
        if self.prepare.point.pattern == Pattern::Stream && !self.prepare.is_active() {
            let point = &self.prepare.point;
            let sockets = tcp::sockets(&flows, point, &tcp);
            sockets.into_iter().try_for_each(|socket| tcp::forget_opening(socket, point))?;
        }
        let mut report = carry(&mut flows, &self.prepare, control, begin)?;
        // Nobody is to wait for the acknowledgements of a run that is given up.
        control.check()?;
        report.opening_rtt_ns = opening_rtt_ns;
        if let Some(first) = flows.first().and_then(F::fd) {
            report.side = side(&SockRef::from(&first), self.prepare.cpu);
        }
        if self.prepare.is_active() {
            let sockets = tcp::sockets(&flows, &self.prepare.point, tcp);
            if !sockets.is_empty() {
                let payloads = self.prepare.point.payloads_per_request();
                let writes = report.counts.calls * u64::from(payloads);
                report.tcp = tcp::counters(sockets.into_iter(), writes, &self.prepare)?;
            }
        }
        Ok(report)
    }

    /// Each connection leads to a queue pair, and stays beside it.
    fn verbs(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let (streams, rtt_ns) = self.open::<TcpStream>(socket, peer_at, control)?;
        let prepare = &self.prepare;
        let adapter = Adapter::open(prepare.address, &prepare.device)
            .map_err(|error| Failure::Missing(error.to_string()))?;
        let (longest, _) = prepare.point.verbs_slots();
        if longest > adapter.message_max() {
            let most = Bytes(adapter.message_max());
            let message = format!(
                "a message of {longest} bytes is longer than {most}, the most of {}",
                adapter.port.adapter
            );
            return Err(Failure::System(message));
        }
        let streams = streams.into_iter();
        let mut report = match prepare.point.operation.unwrap_or(Operation::Send) {
            Operation::Send | Operation::WriteImmediate => {
                let open = |stream| MessageFlow::open(&adapter, stream, prepare, control);
                let flows: Result<Vec<_>, Failure> = streams.map(open).collect();
                let mut flows = flows?;
                let mut report = carry(&mut flows, prepare, control, begin)?;
                report.opening_rtt_ns = rtt_ns;
                for flow in flows.iter().filter(|_| !prepare.is_active()) {
                    add_sequence(&mut report, flow.sequence());
                }
                report
            }
            Operation::Write => {
                let open = |stream| WriteFlow::open(&adapter, stream, prepare, control);
                let flows: Result<Vec<_>, Failure> = streams.map(open).collect();
                self.flows(flows?, rtt_ns, control, begin, |_| None)?
            }
            fetch => {
                let open = |stream| FetchFlow::open(&adapter, stream, prepare, fetch, control);
                let flows: Result<Vec<_>, Failure> = streams.map(open).collect();
                self.flows(flows?, rtt_ns, control, begin, |_| None)?
            }
        };
        report.side.cpu = prepare.cpu;
        Ok(report)
    }

    fn udp(
        &self,
        socket: Socket,
        peer_at: Option<SocketAddr>,
        control: &Control,
        begin: &dyn Fn(),
    ) -> Result<EndReport, Failure> {
        let Prepare { point, role, .. } = &self.prepare;
        let (sockets, opening_rtt_ns) = match (role, peer_at) {
            (Role::Client, Some(peer_at)) => {
                opening::open_all_udp(socket, peer_at, &self.prepare, control)?
            }
            _ => (opening::accept_all_udp(socket, &self.prepare, control)?, 0),
        };
        let flows =
            sockets.into_iter().map(|(socket, opened)| UdpFlow::new(socket, opened, *role, point));
        let bytes = point.payload.0 as usize;
        let laid = system(format!("lay the path {}", point.path));
        let mut report = match point.path {
            Path::Mmsg => {
                let flows = flows.map(|udp| MmsgFlow::new(udp, bytes)).collect();
                self.datagrams(flows, control, begin, MmsgFlow::udp)?
            }
            Path::Gso => {
                let lay =
                    if self.prepare.is_active() { GsoFlow::sending } else { GsoFlow::receiving };
                let flows: io::Result<Vec<_>> = flows.map(|udp| lay(udp, point)).collect();
                self.datagrams(flows.map_err(laid)?, control, begin, GsoFlow::udp)?
            }
            Path::Uring | Path::UringZeroCopy => {
                let lay = |udp| UringDatagrams::new(udp, point, send_bytes(&self.prepare));
                let flows: Result<Vec<_>, Failure> = flows.map(lay).collect();
                self.datagrams(flows?, control, begin, UringDatagrams::udp)?
            }
            _ => match point.timestamps.filter(|_| self.prepare.is_active()) {
                Some(source) => {
                    let flows: io::Result<Vec<_>> =
                        flows.map(|udp| StampedUdp::new(udp, source)).collect();
                    let flows = flows.map_err(system("set SO_TIMESTAMPING"))?;
                    self.datagrams(flows, control, begin, StampedUdp::udp)?
                }
                None => self.datagrams(flows.collect(), control, begin, |udp| udp)?,
            },
        };
        report.opening_rtt_ns = opening_rtt_ns;
        Ok(report)
    }

    fn datagrams<F: Flow>(
        &self,
        mut flows: Vec<F>,
        control: &Control,
        begin: &dyn Fn(),
        udp: fn(&F) -> &UdpFlow,
    ) -> Result<EndReport, Failure> {
        let check_mtu = |flows: &[F]| match flows.first() {
            Some(first) => {
                let socket = udp(first).socket().as_fd();
                options::check_mtu(socket, &self.prepare.point, send_bytes(&self.prepare))
            }
            None => Ok(()),
        };
        check_mtu(&flows)?;
        let carried = carry(&mut flows, &self.prepare, control, begin);
        // A smaller MTU may have become known on the way.
        let mut report = carried.or_else(|failure| check_mtu(&flows).and(Err(failure)))?;
        if let Some(first) = flows.first() {
            report.side = side(&SockRef::from(udp(first).socket()), self.prepare.cpu);
        }
        let is_receiver = !self.prepare.is_active();
        let jitters = flows.iter().filter_map(|flow| udp(flow).jitter_ns().filter(|_| is_receiver));
        let (sum_ns, count) = jitters.fold((0.0, 0_u32), |(sum, count), ns| (sum + ns, count + 1));
        report.jitter_ns = (count > 0).then(|| sum_ns / f64::from(count));
        for flow in flows.iter().map(udp) {
            if !self.prepare.is_active() {
                add_sequence(&mut report, flow.sequence());
            }
            report.socket_drops +=
                sys::socket_drops(flow.socket().as_fd()).map_err(system("read SO_MEMINFO"))?;
        }
        Ok(report)
    }
}

/// Adds what the numbers of a flow said.
fn add_sequence(report: &mut EndReport, counts: Option<SequenceCounts>) {
    if let Some(counts) = counts {
        let sum = report.sequence.get_or_insert_with(SequenceCounts::default);
        sum.unique += counts.unique;
        sum.reordered += counts.reordered;
        sum.duplicates += counts.duplicates;
    }
}

/// Buffers are allocated for whoever sends the order.
fn check(point: &Point) -> Result<(), Failure> {
    check_order(point).map_err(|refused| Failure::Protocol(refused.to_string()))?;
    if point.path.is_uring() {
        uring::check(point.path)?;
    }
    Ok(())
}

/// Bytes of each payload that this end sends; the receiver of a stream sends none.
fn send_bytes(prepare: &Prepare) -> usize {
    let point = &prepare.point;
    let Bytes(bytes) = match (point.pattern, prepare.is_active()) {
        (_, true) => point.payload,
        (Pattern::Stream, false) => Bytes(1),
        (_, false) => point.response.unwrap_or(point.payload),
    };
    bytes as usize
}

fn pin(cpu: Option<u32>) -> Result<(), String> {
    let Some(cpu) = cpu.map(|cpu| cpu as usize) else { return Ok(()) };
    let mut set = CpuSet::new();
    // An empty set is refused as one of a processor that is not there (sched_setaffinity(2)).
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| error.to_string())
}
