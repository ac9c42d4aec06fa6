//! The end that measures.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fabricmark_proto::{APDU_BYTES, APDU_PADDED_BYTES, Apdu, ApduCounts, Peer};
use fabricmark_units::Nanos;
use rustix::event::{PollFd, PollFlags};

use super::{multicast, now_ns};
use crate::socket::{is_outage, is_passing, wait};

/// How often the loop checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// APDUs that are due and sent before arrivals are looked for again.
const BURST: usize = 64;

/// Most members of a multicast group that are measured: each has its own memory tables.
const MEMBERS_MAX: usize = 64;

/// What carries the APDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams; to a group address as a multicast.
    Udp,
    /// One connection.
    Tcp,
}

/// Gets an RTT: the host that answered, and nanoseconds.
pub type Each<'a> = dyn FnMut(SocketAddr, u64) + 'a;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The other end, or a multicast group.
    pub target: SocketAddr,
    /// What carries the APDUs.
    pub transport: Transport,
    /// Whether APDUs have 1024 instead of 25 bytes.
    pub is_padded: bool,
    /// Number of APDUs.
    pub packets: u32,
    /// Time between them.
    pub interval: Nanos,
    /// How long to wait for answers after the last one.
    pub timeout: Nanos,
    /// Device of multicasts; `None`: by the routing table.
    pub device: Option<String>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message explains its fields")]
pub enum MeasureError {
    #[error("nothing answers at {transport} port {} of {}: start `fabricmark agent --apdu` there", target.port(), target.ip())]
    Closed { transport: &'static str, target: SocketAddr },
    #[error("cannot exchange APDUs with {target}: {error}")]
    Socket { target: SocketAddr, error: io::Error },
}

/// Sends APDUs at the interval and collects the answers. Returns the messages of each host by what happened to them: of
/// one, or of the members of a group that have answered. `each` gets every RTT by equation 1, in nanoseconds, when it is
/// known.
///
/// # Errors
/// If the port is closed and nothing was answered before, or the kernel refuses to send.
pub fn measure(
    settings: &Settings,
    stop: &AtomicBool,
    each: &mut Each<'_>,
) -> Result<BTreeMap<SocketAddr, ApduCounts>, MeasureError> {
    let target = settings.target;
    let counts = match settings.transport {
        Transport::Udp if target.ip().is_multicast() => group(settings, stop, each),
        Transport::Udp => datagrams(settings, stop, each),
        Transport::Tcp => connection(settings, stop, each),
    };
    counts.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            let transport = if settings.transport == Transport::Udp { "UDP" } else { "TCP" };
            MeasureError::Closed { transport, target }
        }
        _ => MeasureError::Socket { target, error },
    })
}

/// When APDUs depart, and when to give up.
struct Schedule<'a> {
    settings: &'a Settings,
    began_ns: u64,
    sent: u32,
    /// When the last APDU departed. Over a connection it may wait for the answer to the first one.
    last_ns: u64,
    stop: &'a AtomicBool,
}

impl<'a> Schedule<'a> {
    fn begin(settings: &'a Settings, stop: &'a AtomicBool) -> Self {
        let now_ns = now_ns();
        Self { settings, began_ns: now_ns, sent: 0, last_ns: now_ns, stop }
    }

    /// APDUs that are due now, which count as sent: a number for each, at most `most`.
    fn due(&mut self, most: usize) -> Range<usize> {
        let mut count = 0;
        while count < most && self.sent < self.settings.packets && now_ns() >= self.next_ns() {
            self.last_ns = now_ns();
            self.sent += 1;
            count += 1;
        }
        0..count
    }

    /// When the next APDU departs, or the wait for the last answers ends.
    fn next_ns(&self) -> u64 {
        let Settings { packets, interval, timeout, .. } = self.settings;
        if self.sent < *packets {
            self.began_ns + interval.0.saturating_mul(u64::from(self.sent))
        } else {
            self.last_ns.saturating_add(timeout.0)
        }
    }

    /// Time to wait for an answer; `None` at the end.
    fn wait(&self) -> Option<Duration> {
        let is_over = self.sent >= self.settings.packets && now_ns() >= self.next_ns();
        if is_over || self.stop.load(Relaxed) {
            return None;
        }
        Some(Duration::from_nanos(self.next_ns().saturating_sub(now_ns())).min(LOOK))
    }
}

fn any(target: SocketAddr) -> SocketAddr {
    match target {
        SocketAddr::V4(_) => (IpAddr::from(Ipv4Addr::UNSPECIFIED), 0).into(),
        SocketAddr::V6(_) => (IpAddr::from(Ipv6Addr::UNSPECIFIED), 0).into(),
    }
}

fn datagrams(
    settings: &Settings,
    stop: &AtomicBool,
    each: &mut Each<'_>,
) -> io::Result<BTreeMap<SocketAddr, ApduCounts>> {
    let socket = UdpSocket::bind(any(settings.target))?;
    socket.connect(settings.target)?;
    socket.set_nonblocking(true)?;
    let mut peer = Peer::new();
    let mut buffer = [0; APDU_PADDED_BYTES + 1];
    let mut schedule = Schedule::begin(settings, stop);
    // A reflector that has answered may come back.
    let passes = |error: &io::Error, peer: &Peer| {
        let has_answered = peer.counts().received > 0;
        is_passing(error) || has_answered && is_outage(error)
    };
    while let Some(within) = schedule.wait() {
        for _ in schedule.due(BURST) {
            let apdu = peer.send(now_ns()).emit(settings.is_padded);
            match socket.send(&apdu) {
                Err(error) if !passes(&error, &peer) => return Err(error),
                _ => {}
            }
        }
        wait(&mut [PollFd::new(&socket, PollFlags::IN)], within)?;
        loop {
            let arrived_ns = now_ns();
            match socket.recv(&mut buffer) {
                Ok(length) => {
                    let apdu = Apdu::parse(&buffer[..length]).ok();
                    let rtt_ns = apdu.and_then(|apdu| peer.on_apdu(&apdu, arrived_ns));
                    rtt_ns.into_iter().for_each(|ns| each(settings.target, ns.round() as u64));
                }
                Err(error) if passes(&error, &peer) => break,
                Err(error) => return Err(error),
            }
        }
        if peer.counts().answered == u64::from(settings.packets) {
            break;
        }
    }
    Ok(BTreeMap::from([(settings.target, peer.counts())]))
}

fn group(
    settings: &Settings,
    stop: &AtomicBool,
    each: &mut Each<'_>,
) -> io::Result<BTreeMap<SocketAddr, ApduCounts>> {
    let socket = UdpSocket::bind(any(settings.target))?;
    socket.set_nonblocking(true)?;
    if let Some(device) = &settings.device {
        multicast::send_through(&socket, settings.target.ip(), device)?;
    }
    let (mut everyone, mut members) = (Peer::new(), BTreeMap::<SocketAddr, Peer>::new());
    let mut buffer = [0; APDU_PADDED_BYTES + 1];
    let mut schedule = Schedule::begin(settings, stop);
    while let Some(within) = schedule.wait() {
        for _ in schedule.due(BURST) {
            let departed_ns = now_ns();
            let apdu = everyone.send_multicast(departed_ns).emit(false);
            for member in members.values_mut() {
                member.send_multicast(departed_ns);
            }
            match socket.send_to(&apdu, settings.target) {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
        }
        wait(&mut [PollFd::new(&socket, PollFlags::IN)], within)?;
        loop {
            let arrived_ns = now_ns();
            let (length, from) = match socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if is_passing(&error) => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            let Ok(apdu) = Apdu::parse(&buffer[..length]) else { continue };
            if members.len() < MEMBERS_MAX || members.contains_key(&from) {
                let member = members.entry(from).or_insert_with(|| everyone.clone());
                let rtt_ns = member.on_apdu(&apdu, arrived_ns);
                rtt_ns.into_iter().for_each(|ns| each(from, ns.round() as u64));
            }
        }
    }
    Ok(members.into_iter().map(|(from, member)| (from, member.counts())).collect())
}

fn connection(
    settings: &Settings,
    stop: &AtomicBool,
    each: &mut Each<'_>,
) -> io::Result<BTreeMap<SocketAddr, ApduCounts>> {
    let mut stream = TcpStream::connect_timeout(&settings.target, settings.timeout.into())?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let bytes = if settings.is_padded { APDU_PADDED_BYTES } else { APDU_BYTES };
    let mut peer = Peer::new();
    let (mut buffer, mut filled, mut arrived_ns) = ([0; APDU_PADDED_BYTES], 0, 0);
    let mut unsent = Vec::new();
    let mut schedule = Schedule::begin(settings, stop);
    while let Some(within) = schedule.wait() {
        // The server learns the length of the APDUs from the first one, which must arrive alone.
        let is_first_open = peer.counts().received == 0;
        if is_first_open && now_ns() - schedule.began_ns > settings.timeout.0 {
            break;
        }
        // The other end reads no more.
        if !unsent.is_empty() && now_ns() - schedule.last_ns > settings.timeout.0 {
            break;
        }
        // One at a time, so that its answer leaves room in the buffers.
        let most = usize::from(unsent.is_empty() && (schedule.sent == 0 || !is_first_open));
        for _ in schedule.due(most) {
            unsent.extend(peer.send(now_ns()).emit(settings.is_padded));
        }
        send_some(&mut stream, &mut unsent)?;
        let (events, within) = match (unsent.is_empty(), is_first_open) {
            (false, _) => (PollFlags::IN | PollFlags::OUT, LOOK),
            (true, true) => (PollFlags::IN, LOOK),
            (true, false) => (PollFlags::IN, within),
        };
        wait(&mut [PollFd::new(&stream, events)], within)?;
        loop {
            let ready_ns = now_ns();
            match stream.read(&mut buffer[filled..bytes]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            }
            if arrived_ns == 0 {
                arrived_ns = ready_ns;
            }
            if filled == bytes {
                let apdu = Apdu::parse(&buffer[..bytes])
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let rtt_ns = peer.on_apdu(&apdu, arrived_ns);
                rtt_ns.into_iter().for_each(|ns| each(settings.target, ns.round() as u64));
                (filled, arrived_ns) = (0, 0);
            }
        }
        if peer.counts().answered == u64::from(settings.packets) {
            break;
        }
    }
    Ok(BTreeMap::from([(settings.target, peer.counts())]))
}

/// Sends the bytes for which there is room, and removes them.
fn send_some(stream: &mut TcpStream, unsent: &mut Vec<u8>) -> io::Result<()> {
    while !unsent.is_empty() {
        match stream.write(unsent) {
            Ok(count) => drop(unsent.drain(..count)),
            Err(error) if is_passing(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
