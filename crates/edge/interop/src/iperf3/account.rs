//! The streams of a test at one end, and their counters.

use std::sync::Arc;

use fabricmark_load::foreign;
use fabricmark_load::transport::Flow;
use fabricmark_proto::SequenceCounts;
use fabricmark_proto::iperf3::{Kind, Parameters, Results, stream_id};
use fabricmark_telemetry::clock::now_ns;
use fabricmark_units::Nanos;
use socket2::SockRef;

use super::cpu::Cpu;
use super::flow::{Snapshot, Stream, StreamFlow, StreamSocket, Tally};
use crate::socket::congestion;

/// One end's counters of a running test.
#[derive(Debug)]
pub(super) struct Account {
    pub parameters: Parameters,
    is_client: bool,
    /// In the order in which they were opened.
    streams: Vec<Arc<Stream>>,
    /// Start of the counted part: the start of the test, or the end of the omitted part.
    began_ns: u64,
    /// End of the omitted part; `None` once it has passed, or if there is none.
    omits_until_ns: Option<u64>,
    /// Counters and retransmitted segments of each stream at the end of the omitted part.
    omitted: Vec<(Snapshot, u64)>,
    /// In the omitted part: sequence counts of all streams, and datagrams dropped by their sockets.
    omitted_arrivals: (SequenceCounts, u64),
}

impl Account {
    /// Starts counting.
    pub fn new(parameters: Parameters, sockets: Vec<StreamSocket>, is_client: bool) -> Self {
        let count = sockets.len();
        let stream = |socket| Arc::new(Stream { socket, tally: Tally::default() });
        let began_ns = now_ns();
        let Nanos(omit_ns) = Nanos::from_secs(u64::from(parameters.omit_s));
        Self {
            omits_until_ns: (omit_ns > 0).then_some(began_ns + omit_ns),
            parameters,
            is_client,
            streams: sockets.into_iter().map(stream).collect(),
            began_ns,
            omitted: vec![(Snapshot::default(), 0); count],
            omitted_arrivals: Default::default(),
        }
    }

    /// Whether this end sends on stream number `place`.
    pub fn sends(&self, place: usize) -> bool {
        self.parameters.client_sends(place) == self.is_client
    }

    /// The streams on which this end sends, or receives.
    pub fn flows(&self, sends: bool) -> Vec<StreamFlow> {
        let streams = self.streams.iter().enumerate();
        let chosen = streams.filter(|&(place, _)| self.sends(place) == sends);
        let flow = |(_, stream): (usize, &Arc<Stream>)| StreamFlow {
            stream: Arc::clone(stream),
            is_wide: self.parameters.has_wide_counters,
            answers: !self.is_client,
        };
        chosen.map(flow).collect()
    }

    /// Bytes moved by all streams.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.tally.bytes()).sum()
    }

    /// Restarts the count if the omitted part is over.
    pub fn on_time(&mut self, now_ns: u64) {
        if self.omits_until_ns.take_if(|until| *until <= now_ns).is_some() {
            self.began_ns = now_ns;
            let state =
                |stream: &Arc<Stream>| (stream.tally.snapshot(), stream.retransmits().unwrap_or(0));
            self.omitted = self.streams.iter().map(state).collect();
            self.omitted_arrivals =
                (self.whole_sequence().unwrap_or_default(), self.whole_socket_drops());
        }
    }

    /// Bytes and calls (writes or datagrams) of one direction in the omitted part.
    pub fn omitted(&self, sends: bool) -> (u64, u64) {
        let chosen =
            self.omitted.iter().enumerate().filter(|(place, _)| self.sends(*place) == sends);
        let all = chosen.map(|(_, (snapshot, _))| (snapshot.bytes, snapshot.blocks));
        all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    /// Enables detection of duplicate and reordered datagrams.
    pub fn track(&self) {
        for flow in self.flows(false) {
            flow.stream.tally.track(flow.is_wide);
        }
    }

    /// Sequence counts of all streams without the omitted part; `None` unless [`Account::track`] was called.
    pub fn sequence(&self) -> Option<SequenceCounts> {
        let (omitted, _) = self.omitted_arrivals;
        self.whole_sequence().map(|all| SequenceCounts {
            unique: all.unique - omitted.unique,
            reordered: all.reordered - omitted.reordered,
            duplicates: all.duplicates - omitted.duplicates,
        })
    }

    fn whole_sequence(&self) -> Option<SequenceCounts> {
        let counts = self.streams.iter().filter_map(|stream| stream.tally.sequence());
        counts.reduce(|sum, each| SequenceCounts {
            unique: sum.unique + each.unique,
            reordered: sum.reordered + each.reordered,
            duplicates: sum.duplicates + each.duplicates,
        })
    }

    /// Mean jitter of the streams that this end receives, in nanoseconds; `None` until it is known for each of them.
    pub fn jitter_ns(&self) -> Option<f64> {
        let flows = self.flows(false);
        let jitters = flows.iter().map(|flow| flow.reception()?.jitter_ns);
        let sum_ns = jitters.sum::<Option<f64>>()?;
        (!flows.is_empty()).then(|| sum_ns / flows.len() as f64)
    }

    /// Datagrams dropped because a socket's receive buffer was full, without the omitted part.
    pub fn socket_drops(&self) -> u64 {
        self.whole_socket_drops().saturating_sub(self.omitted_arrivals.1)
    }

    fn whole_socket_drops(&self) -> u64 {
        let sockets = self.streams.iter().map(|stream| &stream.socket);
        let datagrams = sockets.filter(|socket| socket.tcp().is_none());
        datagrams.filter_map(|socket| foreign::socket_drops(socket).ok()).sum()
    }

    /// The results of a test that ended at `ended_ns`.
    pub fn results(&self, ended_ns: u64, cpu: Cpu) -> Results {
        let is_udp = self.parameters.kind == Kind::Udp;
        let streams = self.streams.iter().zip(&self.omitted).enumerate();
        let streams = streams.map(|(place, (stream, (omitted, sent_again)))| {
            let sends = self.sends(place);
            let tally = &stream.tally;
            let mut results = tally.snapshot().results(omitted, stream_id(place), is_udp, sends);
            // Data that arrived after the end was sent before it.
            let ended_ns = if sends { ended_ns } else { ended_ns.max(tally.last_ns()) };
            results.duration_s = Some(Nanos(ended_ns.saturating_sub(self.began_ns)).as_secs_f64());
            if sends {
                let counted = stream.retransmits();
                results.retransmits = counted.map(|count| count.saturating_sub(*sent_again));
            }
            results
        });
        let streams: Vec<_> = streams.collect();
        let sends = (0..streams.len()).any(|place| self.sends(place));
        let tcp = self.streams.first().and_then(|stream| stream.socket.tcp());
        Results {
            cpu_percent: cpu.percent(ended_ns.saturating_sub(self.began_ns)),
            has_retransmits: sends.then_some(!is_udp),
            congestion: tcp.and_then(|tcp| congestion(&SockRef::from(tcp)).ok()),
            streams,
        }
    }
}
