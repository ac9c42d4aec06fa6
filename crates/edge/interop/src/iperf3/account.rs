//! The streams of a test at one end, and what they have moved.

use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

use fabricmark_load::foreign;
use fabricmark_proto::SequenceCounts;
use fabricmark_proto::iperf3::{Kind, Parameters, Results, stream_id};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_telemetry::tcp_info;
use fabricmark_units::Nanos;
use socket2::SockRef;

use super::cpu::Cpu;
use super::flow::{TcpFlow, UdpFlow};
use super::tally::{Snapshot, Tally};

/// The sockets of all streams, in the order of their opening.
#[derive(Clone, Debug)]
pub(super) enum Sockets {
    Tcp(Vec<Arc<TcpStream>>),
    Udp(Vec<Arc<UdpSocket>>),
}

/// One end's account of a test that runs.
#[derive(Debug)]
pub(super) struct Account {
    pub parameters: Parameters,
    is_client: bool,
    sockets: Sockets,
    tallies: Vec<Arc<Tally>>,
    /// When it began to count.
    began_ns: u64,
    /// When the omitted part ends, until it has ended.
    omits_until_ns: Option<u64>,
    /// How the streams stood then, and what each had sent again.
    omitted: Vec<(Snapshot, u64)>,
}

impl Account {
    /// The account of a test that begins now.
    pub fn new(parameters: Parameters, sockets: Sockets, is_client: bool) -> Self {
        let count = parameters.streams();
        let began_ns = now_ns();
        let Nanos(omit_ns) = Nanos::from_secs(u64::from(parameters.omit_s));
        Self {
            omits_until_ns: (omit_ns > 0).then_some(began_ns + omit_ns),
            parameters,
            is_client,
            sockets,
            tallies: (0..count).map(|_| Arc::default()).collect(),
            began_ns,
            omitted: vec![(Snapshot::default(), 0); count],
        }
    }

    /// Whether this end sends by the stream of that place.
    pub fn sends(&self, place: usize) -> bool {
        self.parameters.client_sends(place) == self.is_client
    }

    /// The streams by which this end sends, or receives, as TCP flows; none where they are datagrams.
    pub fn tcp(&self, sends: bool) -> Vec<TcpFlow> {
        let Sockets::Tcp(sockets) = &self.sockets else { return Vec::new() };
        let flow = |(socket, tally): (&Arc<TcpStream>, &Arc<Tally>)| TcpFlow {
            socket: Arc::clone(socket),
            tally: Arc::clone(tally),
        };
        self.chosen(sends, sockets.iter().zip(&self.tallies).map(flow))
    }

    /// As [`Self::tcp`], of datagrams.
    pub fn udp(&self, sends: bool) -> Vec<UdpFlow> {
        let Sockets::Udp(sockets) = &self.sockets else { return Vec::new() };
        let flow = |(socket, tally): (&Arc<UdpSocket>, &Arc<Tally>)| UdpFlow {
            socket: Arc::clone(socket),
            tally: Arc::clone(tally),
            is_wide: self.parameters.has_wide_counters,
            answers: !self.is_client,
        };
        self.chosen(sends, sockets.iter().zip(&self.tallies).map(flow))
    }

    fn chosen<F>(&self, sends: bool, flows: impl Iterator<Item = F>) -> Vec<F> {
        let chosen = flows.enumerate().filter(|&(place, _)| self.sends(place) == sends);
        chosen.map(|(_, flow)| flow).collect()
    }

    /// Bytes that the streams have moved.
    pub fn bytes(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.bytes()).sum()
    }

    /// Begins to count when the omitted part is over.
    pub fn on_time(&mut self, now_ns: u64) {
        if self.omits_until_ns.take_if(|until| *until <= now_ns).is_some() {
            self.began_ns = now_ns;
            let places = 0..self.tallies.len();
            self.omitted = places
                .map(|place| (self.tallies[place].snapshot(), self.retransmits(place).unwrap_or(0)))
                .collect();
        }
    }

    /// Bytes, and writes or datagrams, of the omitted part.
    pub fn omitted(&self) -> (u64, u64) {
        let all = self.omitted.iter().map(|(snapshot, _)| (snapshot.bytes, snapshot.blocks));
        all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    /// Has arriving datagrams judged one by one.
    pub fn track(&self) {
        let receiving = self.tallies.iter().enumerate().filter(|&(place, _)| !self.sends(place));
        receiving.for_each(|(_, tally)| tally.track(self.parameters.has_wide_counters));
    }

    /// What that says, of all streams together; nothing where it was not asked for.
    pub fn sequence(&self) -> Option<SequenceCounts> {
        let counts = self.tallies.iter().filter_map(|tally| tally.sequence());
        counts.reduce(|sum, each| SequenceCounts {
            unique: sum.unique + each.unique,
            reordered: sum.reordered + each.reordered,
            duplicates: sum.duplicates + each.duplicates,
        })
    }

    /// Datagrams that the sockets dropped for lack of buffer.
    pub fn socket_drops(&self) -> u64 {
        let Sockets::Udp(sockets) = &self.sockets else { return 0 };
        sockets.iter().filter_map(|socket| foreign::socket_drops(&**socket).ok()).sum()
    }

    /// Segments that a stream has sent again.
    fn retransmits(&self, place: usize) -> Option<u64> {
        let Sockets::Tcp(sockets) = &self.sockets else { return None };
        tcp_info::sample(sockets.get(place)?.as_fd()).ok()?.retransmitted_segments
    }

    /// The results of a test that has ended at that time.
    pub fn results(&self, ended_ns: u64, cpu: Cpu) -> Results {
        let is_udp = self.parameters.kind == Kind::Udp;
        let streams = self.tallies.iter().zip(&self.omitted).enumerate();
        let streams = streams.map(|(place, (tally, (omitted, sent_again)))| {
            let sends = self.sends(place);
            let mut results = tally.snapshot().results(omitted, stream_id(place), is_udp, sends);
            // What arrived after the end had been sent before it.
            let ended_ns = if sends { ended_ns } else { ended_ns.max(tally.last_ns()) };
            results.duration_s = Some(Nanos(ended_ns.saturating_sub(self.began_ns)).as_secs_f64());
            if sends {
                let counted = self.retransmits(place);
                results.retransmits = counted.map(|count| count.saturating_sub(*sent_again));
            }
            results
        });
        let streams: Vec<_> = streams.collect();
        let sends = (0..streams.len()).any(|place| self.sends(place));
        Results {
            cpu_percent: cpu.percent(ended_ns.saturating_sub(self.began_ns)),
            has_retransmits: sends.then_some(!is_udp),
            congestion: self.congestion(),
            streams,
        }
    }

    fn congestion(&self) -> Option<String> {
        let Sockets::Tcp(sockets) = &self.sockets else { return None };
        let name = SockRef::from(&**sockets.first()?).tcp_congestion().ok()?;
        Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    }
}
