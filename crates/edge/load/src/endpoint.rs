//! One end of a run: prepares sockets, opens flows, runs the pattern and counts.

mod connections;
pub mod foreign;
mod quic;

use std::cell::Cell;
use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

use fabricmark_plan::{
    INTERVAL_MIN, Operation, Path, Pattern, Point, Role, Timestamps, Transport, Wait, check_order,
};
use fabricmark_proto::{EndReport, Failure, Prepare, SequenceCounts};
use fabricmark_rdma::Adapter;
use fabricmark_units::Bytes;
use rustix::thread::{CpuSet, sched_setaffinity};
use socket2::Socket;

use crate::carry::carry;
use crate::control::{Control, Event};
use crate::descriptors::no_descriptors;
use crate::failure::system;
use crate::opening::{self, Connection, Listener, accept_all, open_all};
use crate::options::{self, QuickAck};
use crate::path::gso::GsoFlow;
use crate::path::mmsg::MmsgFlow;
use crate::path::pages::{Pages, payload_file};
use crate::path::uring::{self, bytes::UringBytes, datagrams::UringDatagrams};
use crate::sockets::{allow_files, bound, side, socket_drops, waiting};
use crate::threads::done;
use crate::transport::bytes::{ByteFlow, ByteStream, PathStream, TcpPath};
use crate::transport::null::NullFlow;
use crate::transport::rsocket::RsocketFlow;
use crate::transport::seqpacket::Seqpacket;
use crate::transport::stamped::{StampedUdp, ask_for};
use crate::transport::tls::TlsStream;
use crate::transport::udp::UdpFlow;
use crate::transport::verbs::{FetchFlow, MessageFlow, WriteFlow};
use crate::transport::{AnyFlow, Flow};
use crate::window::Windowed;
use crate::{smc, tcp};
use fabricmark_telemetry::clock;
use fabricmark_telemetry::kernel::Snapshot;
use fabricmark_telemetry::stamp::check_hardware;

/// One end of a run whose sockets are ready.
#[derive(Debug)]
pub struct Endpoint {
    prepare: Prepare,
    socket: Option<Socket>,
    port: u16,
}

impl Endpoint {
    /// Prepares the sockets. A server is bound and listens when this returns.
    pub fn prepare(prepare: Prepare) -> Result<Self, Failure> {
        check(&prepare.point)?;
        if prepare.role == Role::Client && prepare.point.timestamps == Some(Timestamps::Hardware) {
            check_hardware(prepare.point.device.as_ref().unwrap_or(&prepare.device))
                .map_err(Failure::Missing)?;
        }
        if prepare.slice_ns.is_some() && prepare.point.load_threads() > 1 {
            // An order about slices goes to one thread.
            return Err(Failure::Protocol("several threads do not support slices".to_owned()));
        }
        if prepare.slice_ns.is_some() && prepare.point.receive_lowat.is_some() {
            // A receiver that waits with epoll would not see the last bytes of a slice.
            return Err(Failure::Protocol("receive_lowat does not support slices".to_owned()));
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

    /// Port that the server is bound to; 0 at a client, and for transports without ports.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Network device of its address.
    pub fn device(&self) -> &str {
        &self.prepare.device
    }

    /// Runs this end on the calling thread, which it pins to its CPU. A client needs the address of the server.
    pub fn run(self, peer_at: Option<SocketAddr>, control: &Control) -> Result<EndReport, Failure> {
        let Self { prepare, socket, .. } = self;
        carry_out(&prepare, peer_at, control, |run| match (socket, prepare.point.pattern) {
            (None, _) => run.flows(&mut [NullFlow::default()]),
            (Some(socket), Pattern::Crr) => run.by_connections(socket),
            (Some(socket), _) => run.by_flows(socket),
        })
    }
}

/// One end of a run that is under way.
struct Run<'a> {
    prepare: &'a Prepare,
    peer_at: Option<SocketAddr>,
    control: &'a Control,
    /// Starts the clock of the run.
    begin: &'a dyn Fn(),
    /// Time that the opening of the first flow took, in nanoseconds; set at the client.
    opening_rtt_ns: Cell<u64>,
}

/// Runs `carry` and adds clock, CPU and kernel counters to its report. A separate thread keeps the time of the run,
/// so that the hot loop reads only a flag.
fn carry_out(
    prepare: &Prepare,
    peer_at: Option<SocketAddr>,
    control: &Control,
    carry: impl FnOnce(&Run<'_>) -> Result<EndReport, Failure>,
) -> Result<EndReport, Failure> {
    thread::scope(|scope| {
        scope.spawn(|| {
            no_descriptors();
            control.interrupter.keep_time(&control.stop, prepare.waits_for_start);
        });
        let _left = control.interrupter.leaving();
        let begin = || {
            if prepare.waits_for_start {
                control.wait_for_start(prepare.duration_ns);
            }
            control.tell(Event::Begun);
            // Each slice starts the clock itself.
            if !prepare.waits_for_start && prepare.slice_ns.is_none() {
                control.interrupter.begin(prepare.duration_ns.into());
            }
        };
        let run = Run { prepare, peer_at, control, begin: &begin, opening_rtt_ns: Cell::new(0) };
        let pinned = pin(prepare.cpu);
        let before = Snapshot::now(&prepare.device);
        let mut report = carry(&run)?;
        control.check()?;
        let counted = Snapshot::now(&prepare.device).since(&before);
        report.opening_rtt_ns = run.opening_rtt_ns.get();
        report.device_drops = counted.device_drops;
        report.reassembly_failures = counted.reassembly_failures;
        report.kernel = Some(counted.counters);
        report.side.clock = Some(clock::facts());
        if let Err(reason) = pinned.and(report.not_pinned.clone().map_or(Ok(()), Err)) {
            report.side.cpu = None;
            report.not_pinned = Some(reason);
        }
        Ok(report)
    })
}

impl Run<'_> {
    /// One connection per request.
    fn by_connections(&self, socket: Socket) -> Result<EndReport, Failure> {
        let transport = self.prepare.point.transport;
        match transport {
            Transport::Tcp | Transport::Mptcp => match self.prepare.point.timestamps {
                Some(source) => self.stamped_crr(socket, source),
                None => self.crr::<TcpStream>(socket),
            },
            Transport::Unix => self.crr::<UnixStream>(socket),
            Transport::Tls => self.crr::<TlsStream>(socket),
            Transport::Quic => self.crr_over_quic(socket),
            Transport::Udp
            | Transport::Seqpacket
            | Transport::Sctp
            | Transport::Smc
            | Transport::Rsocket
            | Transport::Rc
            | Transport::Uc
            | Transport::Ud
            | Transport::Mpi
            | Transport::Http
            | Transport::Null => {
                Err(Failure::Protocol(format!("crr is not supported with {transport}")))
            }
        }
    }

    /// Flows that are opened once.
    fn by_flows(&self, socket: Socket) -> Result<EndReport, Failure> {
        match self.prepare.point.transport {
            Transport::Tcp => self.tcp(self.open(socket)?),
            Transport::Mptcp | Transport::Sctp => self.bytes(self.open::<TcpStream>(socket)?),
            Transport::Unix => self.bytes(self.open::<UnixStream>(socket)?),
            Transport::Seqpacket => self.bytes(self.open::<Seqpacket>(socket)?),
            Transport::Tls => self.bytes(self.open::<TlsStream>(socket)?),
            Transport::Smc => {
                let streams = self.open(socket)?;
                smc::check(&streams)?;
                self.bytes(streams)
            }
            Transport::Rsocket => {
                let streams = self.open(socket)?;
                self.flows_of(streams, |s| RsocketFlow::open(s, self.prepare, self.control))
            }
            Transport::Udp => self.udp(socket),
            Transport::Quic => self.quic(socket),
            Transport::Rc | Transport::Uc | Transport::Ud => self.verbs(self.open(socket)?),
            // Those of other programs: `fabricmark-mpi` and `fabricmark-shop`.
            Transport::Mpi | Transport::Http => Err(Failure::Protocol(format!(
                "{} is not supported by workers",
                self.prepare.point.transport
            ))),
            Transport::Null => self.flows(&mut [NullFlow::default()]),
        }
    }

    /// Opens (client) or accepts (server) all flows of a transport with connections.
    fn open<C: Connection>(&self, socket: Socket) -> Result<Vec<C>, Failure> {
        match (self.prepare.role, self.peer_at) {
            (Role::Client, Some(peer_at)) => {
                let (streams, rtt_ns) = open_all(socket, peer_at, self.prepare, self.control)?;
                self.opening_rtt_ns.set(rtt_ns);
                Ok(streams)
            }
            _ => accept_all(&Listener::new::<C>(socket, self.prepare)?, self.control),
        }
    }

    fn tcp(&self, streams: Vec<TcpStream>) -> Result<EndReport, Failure> {
        let point = &self.prepare.point;
        let (is_active, bytes) = (self.prepare.is_active(), point.payload.0 as usize);
        if let Some(is_set) = point.quickack {
            let quick = |stream: &_| QuickAck::of(stream, is_set);
            return self.by_path(streams, "set TCP_QUICKACK", quick);
        }
        let is_receiver = point.pattern == Pattern::Stream && !is_active;
        if let Some(window) =
            point.window_bytes().filter(|_| is_receiver && point.path == Path::Copy)
        {
            return self.by_path(streams, "set a window", |_| Ok(Windowed::new(window)));
        }
        if let Some(source) = point.timestamps.filter(|_| is_active) {
            let stamped = |stream: &_| ask_for(stream, source);
            return self.by_path(streams, "set SO_TIMESTAMPING", stamped);
        }
        let doing = format!("set up path={}", point.path);
        match (point.path, is_active) {
            (Path::ZeroCopy, true) => {
                let waits = point.wait != Wait::Epoll;
                self.by_path(streams, doing, |stream| Pages::zerocopy(stream, waits))
            }
            (Path::SendFile, true) | (Path::Splice, _) => {
                let file = payload_file(bytes).map_err(system(&doing))?;
                self.by_path(streams, doing, |_| match point.path {
                    Path::Splice => Pages::splice(&file, bytes),
                    _ => Pages::sendfile(&file),
                })
            }
            (Path::Trunc, false) => self.by_path(streams, doing, |_| Ok(Pages::Trunc)),
            _ if point.path.is_uring() => self.bytes(streams),
            _ => {
                let mut flows: Vec<_> = streams.into_iter().map(ByteFlow::new).collect();
                self.flows(&mut flows)
            }
        }
    }

    /// Runs the pattern over TCP connections with a path of their own.
    fn by_path<P: TcpPath + Send>(
        &self,
        streams: Vec<TcpStream>,
        doing: impl Display,
        lay: impl Fn(&TcpStream) -> io::Result<P>,
    ) -> Result<EndReport, Failure> {
        let lay = |stream| Ok(PathStream { path: lay(&stream)?, stream });
        let streams: io::Result<_> = streams.into_iter().map(lay).collect();
        self.bytes(streams.map_err(system(doing))?)
    }

    fn bytes<S: ByteStream + Send>(&self, streams: Vec<S>) -> Result<EndReport, Failure> {
        let point = &self.prepare.point;
        if !point.path.is_uring() {
            return self.flows_of(streams, |stream| Ok(ByteFlow::new(stream)));
        }
        self.flows_of(streams, |s| UringBytes::new(s, point, send_bytes(self.prepare)))
    }

    /// Runs the pattern over the flows that `open` makes of connections.
    fn flows_of<S, F: Flow + Send>(
        &self,
        streams: Vec<S>,
        open: impl FnMut(S) -> Result<F, Failure>,
    ) -> Result<EndReport, Failure> {
        let mut flows = streams.into_iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
        self.flows(&mut AnyFlow::of(&mut flows))
    }

    fn flows<F: Flow + Send>(&self, flows: &mut [F]) -> Result<EndReport, Failure> {
        let point = &self.prepare.point;
        if point.pattern == Pattern::Stream && !self.prepare.is_active() {
            let sockets = tcp::sockets(flows, point);
            for socket in sockets {
                options::set_receive_lowat(socket, point)?;
                tcp::forget_opening(socket, point)?;
            }
        }
        let mut report = self.carry(flows)?;
        // An aborted run does not wait for acknowledgements.
        self.control.check()?;
        if self.prepare.is_active() {
            let sockets = tcp::sockets(flows, point);
            if !sockets.is_empty() {
                let payloads = u64::from(point.payloads_per_request());
                let writes = done(&report.counts, point) * payloads;
                report.tcp = tcp::counters(sockets.into_iter(), writes, self.prepare)?;
            }
        }
        Ok(report)
    }

    /// Runs the pattern over open flows; the first one supplies the socket options of the report.
    fn carry<F: Flow + Send>(&self, flows: &mut [F]) -> Result<EndReport, Failure> {
        let mut report = carry(flows, self.prepare, self.control, self.begin)?;
        if let Some(first) = flows.first().and_then(F::fd) {
            report.side = side(&first, self.prepare.cpu);
        }
        Ok(report)
    }

    /// As [`Self::carry`], by virtual calls.
    fn carry_any<F: Flow + Send>(&self, flows: &mut [F]) -> Result<EndReport, Failure> {
        self.carry(&mut AnyFlow::of(flows))
    }

    /// Opens a queue pair for each TCP connection, which stays open beside it.
    fn verbs(&self, streams: Vec<TcpStream>) -> Result<EndReport, Failure> {
        let (prepare, control) = (self.prepare, self.control);
        let adapter = Adapter::open(prepare.address, &prepare.device)
            .map_err(|error| Failure::Missing(error.to_string()))?;
        let (longest, _) = prepare.point.verbs_slots();
        if longest > adapter.message_max() {
            let most = Bytes(adapter.message_max());
            let message = format!(
                "a message of {longest} bytes exceeds the maximum of {most} of {}",
                adapter.port.adapter
            );
            return Err(Failure::System(message));
        }
        let mut report = match prepare.point.operation.unwrap_or(Operation::Send) {
            Operation::Send | Operation::WriteImmediate => {
                let open = |stream| MessageFlow::open(&adapter, stream, prepare, control);
                let flows: Result<Vec<_>, Failure> = streams.into_iter().map(open).collect();
                let mut flows = flows?;
                let mut report = self.carry_any(&mut flows)?;
                for flow in flows.iter().filter(|_| !prepare.is_active()) {
                    add_sequence(&mut report, flow.sequence());
                }
                report
            }
            Operation::Write => {
                self.flows_of(streams, |s| WriteFlow::open(&adapter, s, prepare, control))?
            }
            fetch => {
                self.flows_of(streams, |s| FetchFlow::open(&adapter, s, prepare, fetch, control))?
            }
        };
        report.side.cpu = prepare.cpu;
        Ok(report)
    }

    fn udp(&self, socket: Socket) -> Result<EndReport, Failure> {
        let Prepare { point, role, .. } = self.prepare;
        let sockets = match (role, self.peer_at) {
            (Role::Client, Some(peer_at)) => {
                let (sockets, rtt_ns) =
                    opening::open_all_udp(socket, peer_at, self.prepare, self.control)?;
                self.opening_rtt_ns.set(rtt_ns);
                sockets
            }
            _ => opening::accept_all_udp(socket, self.prepare, self.control)?,
        };
        let flows =
            sockets.into_iter().map(|(socket, opened)| UdpFlow::new(socket, opened, *role, point));
        match (point.path, point.timestamps.filter(|_| self.prepare.is_active())) {
            (Path::Mmsg, _) => {
                let flows = flows.map(|udp| MmsgFlow::new(udp, point)).collect();
                self.datagrams(flows, MmsgFlow::udp, Self::carry_any)
            }
            (Path::Gso, _) => {
                let lay =
                    if self.prepare.is_active() { GsoFlow::sending } else { GsoFlow::receiving };
                let flows: io::Result<_> = flows.map(|udp| lay(udp, point)).collect();
                let flows = flows.map_err(system(format!("set up path={}", point.path)))?;
                self.datagrams(flows, GsoFlow::udp, Self::carry_any)
            }
            (Path::Uring | Path::UringZeroCopy, _) => {
                let lay = |udp| UringDatagrams::new(udp, point, send_bytes(self.prepare));
                let flows: Result<_, Failure> = flows.map(lay).collect();
                self.datagrams(flows?, UringDatagrams::udp, Self::carry_any)
            }
            (_, Some(source)) => {
                let flows: io::Result<_> = flows.map(|udp| StampedUdp::new(udp, source)).collect();
                let flows = flows.map_err(system("set SO_TIMESTAMPING"))?;
                self.datagrams(flows, StampedUdp::udp, Self::carry_any)
            }
            (_, None) => self.datagrams(flows.collect(), |udp| udp, Self::carry),
        }
    }

    fn datagrams<F: Flow + Send>(
        &self,
        mut flows: Vec<F>,
        udp: fn(&F) -> &UdpFlow,
        carry: fn(&Self, &mut [F]) -> Result<EndReport, Failure>,
    ) -> Result<EndReport, Failure> {
        let check_mtu = |flows: &[F]| match flows.first() {
            Some(first) => {
                let bytes = send_bytes(self.prepare);
                options::check_mtu(udp(first).socket(), &self.prepare.point, bytes)
            }
            None => Ok(()),
        };
        check_mtu(&flows)?;
        let carried = carry(self, &mut flows);
        // The path MTU may have shrunk during the run.
        let mut report = carried.or_else(|failure| check_mtu(&flows).and(Err(failure)))?;
        let is_receiver = !self.prepare.is_active();
        let jitters = flows.iter().filter_map(|flow| udp(flow).jitter_ns().filter(|_| is_receiver));
        let (sum_ns, count) = jitters.fold((0.0, 0_u32), |(sum, count), ns| (sum + ns, count + 1));
        report.jitter_ns = (count > 0).then(|| sum_ns / f64::from(count));
        for flow in flows.iter().map(udp).filter(|_| is_receiver) {
            add_sequence(&mut report, flow.sequence());
        }
        add_socket_drops(&mut report, &flows)?;
        Ok(report)
    }
}

fn add_sequence(report: &mut EndReport, counts: Option<SequenceCounts>) {
    if let Some(counts) = counts {
        let sum = report.sequence.get_or_insert_with(SequenceCounts::default);
        sum.unique += counts.unique;
        sum.reordered += counts.reordered;
        sum.duplicates += counts.duplicates;
    }
}

fn add_socket_drops(report: &mut EndReport, flows: &[impl Flow]) -> Result<(), Failure> {
    for socket in flows.iter().filter_map(Flow::fd) {
        report.socket_drops += socket_drops(&socket).map_err(system("read SO_MEMINFO"))?;
    }
    Ok(())
}

/// Checks an order before buffers are allocated for it: it may come from the network.
fn check(point: &Point) -> Result<(), Failure> {
    check_order(point).map_err(|refused| Failure::Protocol(refused.to_string()))?;
    if point.path.is_uring() {
        uring::check(point.path)?;
    }
    Ok(())
}

/// Length of the payloads that this end sends; 1 at the receiver of a stream, which sends none.
fn send_bytes(prepare: &Prepare) -> usize {
    let point = &prepare.point;
    let Bytes(bytes) = match (point.pattern, prepare.is_active()) {
        (_, true) => point.payload,
        (Pattern::Stream, false) => Bytes(1),
        (_, false) => point.response.unwrap_or(point.payload),
    };
    bytes as usize
}

/// Pins the calling thread to a CPU, if one is given.
pub(crate) fn pin(cpu: Option<u32>) -> Result<(), String> {
    let Some(cpu) = cpu.map(|cpu| cpu as usize) else { return Ok(()) };
    let mut set = CpuSet::new();
    // A CPU number that is too large leaves the set empty, which sched_setaffinity(2) rejects like a CPU that does
    // not exist.
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| error.to_string())
}
