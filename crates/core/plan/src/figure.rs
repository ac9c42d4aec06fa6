//! Figures of a run. Each is declared once. Names in plans and thresholds, keys of JSON and CSV, tables, charts and
//! verdicts follow from the declaration. `judge` computes the values.

use fabricmark_stats::{Better, LATENCY_TIE, THROUGHPUT_TIE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::Direction;
use crate::choice::Pattern::{self, Burst, Crr, Mpi, PingPing, PingPong, Rr, Shop, Stream};
use crate::factor::Point;
use crate::pace::Pace;
use crate::transport::Network;

/// Declaration of a figure.
#[derive(Clone, Copy, Debug)]
pub struct FigureSpec {
    name: &'static str,
    /// Name in earlier versions, still accepted.
    earlier_name: Option<&'static str>,
    about: &'static str,
    /// Key in JSON and CSV, which ends with the unit.
    pub key: &'static str,
    /// Key in records of earlier versions, still accepted.
    pub earlier_key: Option<&'static str>,
    /// Name in tables, without the unit.
    pub label: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// Whether more is better.
    pub is_higher_better: bool,
    /// Whether several runs are summarised by their median (percentiles) or by their mean.
    pub is_median: bool,
    /// Patterns that yield it.
    pub patterns: &'static [Pattern],
    /// The limit that the wire sets.
    pub limit: Limit,
}

/// Unit of a figure's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    Bps,
    /// A count per second.
    PerSecond,
    /// Nanoseconds.
    Nanos,
    /// Microseconds of CPU time per KiB.
    UsPerKib,
    /// Microseconds of CPU time per transaction.
    UsPerTransaction,
    /// Bits per second times metres.
    BitMetresPerSecond,
    /// TCP segments.
    Segments,
    /// IP packets.
    Packets,
    /// Bytes.
    Bytes,
    /// A share from 0 to 1.
    Share,
    /// A number without a unit.
    Index,
}

impl Unit {
    /// Suffix of JSON and CSV keys.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Bps => "bps",
            Self::PerSecond => "per_s",
            Self::Nanos => "ns",
            Self::UsPerKib => "us_per_kib",
            Self::UsPerTransaction => "us_per_transaction",
            Self::BitMetresPerSecond => "bit_m_per_s",
            Self::Segments => "segments",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::Share => "share",
            Self::Index => "index",
        }
    }
}

/// The limit that the wire sets on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// No limit is computed.
    None,
    /// At most the goodput ceiling.
    Ceiling,
    /// At least this multiple of the RTT floor.
    Floor(f64),
}

const EVERY: &[Pattern] = &[Stream, Rr, Crr, PingPong, PingPing, Burst];
const ROUND_TRIPS: &[Pattern] = &[Rr, Crr, PingPong, Burst];
const TRANSACTIONS: &[Pattern] = &[Rr, Crr, PingPong, PingPing, Burst];

/// A rate: more is better.
const fn rate(
    key: &'static str,
    label: &'static str,
    unit: Unit,
    patterns: &'static [Pattern],
) -> FigureSpec {
    FigureSpec {
        name: "",
        earlier_name: None,
        about: "",
        key,
        earlier_key: None,
        label,
        unit,
        is_higher_better: true,
        is_median: false,
        patterns,
        limit: Limit::None,
    }
}

/// A cost: less is better.
const fn cost(
    key: &'static str,
    label: &'static str,
    unit: Unit,
    patterns: &'static [Pattern],
) -> FigureSpec {
    FigureSpec { is_higher_better: false, ..rate(key, label, unit, patterns) }
}

/// Mean of the times of a run.
const fn mean(key: &'static str, label: &'static str, patterns: &'static [Pattern]) -> FigureSpec {
    cost(key, label, Unit::Nanos, patterns)
}

/// Percentile of the times of a run.
const fn percentile(
    key: &'static str,
    label: &'static str,
    patterns: &'static [Pattern],
) -> FigureSpec {
    FigureSpec { is_median: true, ..mean(key, label, patterns) }
}

impl FigureSpec {
    const fn earlier(self, key: &'static str) -> Self {
        Self { earlier_key: Some(key), ..self }
    }

    const fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }
}

/// Declares every figure: description, variant, name in plans, name in earlier versions (`was`), and [`FigureSpec`].
macro_rules! figures {
    ($(#[doc = $about:literal] $variant:ident = $name:literal $(was $was:literal)?, $spec:expr;)*) => {
        /// A figure of a run.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        pub enum Figure {
            $(#[doc = $about] #[serde(rename = $name $(, alias = $was)?)] $variant,)*
        }

        impl Figure {
            /// All figures, in the order of declaration.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Declarations, in the order of [`Self::ALL`].
            const SPECS: &[FigureSpec] = &[$(
                FigureSpec { name: $name, earlier_name: crate::choice::earlier!($($was)?), about: $about, ..$spec },
            )*];

            /// Its declaration.
            pub const fn spec(self) -> &'static FigureSpec {
                &Self::SPECS[self as usize]
            }

            /// Name in plans.
            pub const fn name(self) -> &'static str {
                self.spec().name
            }

            /// One-line description.
            pub const fn about(self) -> &'static str {
                self.spec().about.trim_ascii()
            }
        }
    };
}

figures! {
    /// application bits received per second after the ramp, the first 5 % of a run; in burst, bits of answered bursts over the whole run; over MPI, bits that each rank receives in the operation time
    Goodput = "goodput", rate("goodput_bps", "goodput", Unit::Bps, &[Stream, Burst, Mpi]).limit(Limit::Ceiling);
    /// application bits per second that the sender handed to the kernel
    SendRate = "send-rate", rate("sent_bps", "send rate", Unit::Bps, &[Stream]);
    /// payloads received per second; of a byte stream the bytes divided by the payload size, since a read may return less or more than one payload; in burst, payloads of answered bursts
    PayloadRate = "payload-rate", rate("payloads_per_s", "payload rate", Unit::PerSecond, &[Stream, Burst]);
    /// transactions per second: answered requests or answered bursts
    TransactionRate = "transaction-rate" was "exchange-rate",
        rate("transactions_per_s", "transactions", Unit::PerSecond, TRANSACTIONS).earlier("exchanges_per_s");
    /// half the mean RTT; not a one-way delay
    HalfRtt = "half-rtt", mean("half_rtt_mean_ns", "RTT/2", &[PingPong]).limit(Limit::Floor(0.5));
    /// mean RTT; in an open loop from the scheduled departure (no coordinated omission); in burst from the first byte to the response
    Rtt = "rtt", mean("rtt_mean_ns", "mean RTT", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// median RTT of a run
    RttP50 = "rtt-p50", percentile("rtt_p50_ns", "RTT p50", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// 99th percentile of the RTTs of a run
    RttP99 = "rtt-p99", percentile("rtt_p99_ns", "RTT p99", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// 99.9th percentile of the RTTs of a run
    RttP999 = "rtt-p999", percentile("rtt_p999_ns", "RTT p99.9", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// mean time of a step of ping-ping: from sending a payload to the arrival of the other end's payload; each value is the mean of two consecutive steps, because client and server do not start at the same time
    Step = "step", mean("step_mean_ns", "mean step", &[PingPing]).limit(Limit::Floor(1.0));
    /// median step of a run
    StepP50 = "step-p50", percentile("step_p50_ns", "step p50", &[PingPing]).limit(Limit::Floor(1.0));
    /// 99th percentile of the steps of a run
    StepP99 = "step-p99", percentile("step_p99_ns", "step p99", &[PingPing]).limit(Limit::Floor(1.0));
    /// 99.9th percentile of the steps of a run
    StepP999 = "step-p999", percentile("step_p999_ns", "step p99.9", &[PingPing]).limit(Limit::Floor(1.0));
    /// service demand of the sender as netperf defines it: CPU time of all CPUs of its machine in microseconds per KiB sent; includes both ends if they share a machine
    SenderDemand = "sender-demand",
        cost("sender_demand_us_per_kib", "sender service demand", Unit::UsPerKib, &[Stream]);
    /// service demand of the receiver, per KiB received
    ReceiverDemand = "receiver-demand",
        cost("receiver_demand_us_per_kib", "receiver service demand", Unit::UsPerKib, &[Stream]);
    /// service demand of the client: CPU time of all CPUs of its machine in microseconds per transaction; includes both ends if they share a machine
    ClientDemand = "client-demand" was "asker-demand",
        cost("client_demand_us_per_transaction", "client service demand", Unit::UsPerTransaction, TRANSACTIONS)
            .earlier("asker_demand_us_per_transaction");
    /// service demand of the server, per transaction
    ServerDemand = "server-demand" was "answerer-demand",
        cost("server_demand_us_per_transaction", "server service demand", Unit::UsPerTransaction, TRANSACTIONS)
            .earlier("answerer_demand_us_per_transaction");
    /// peak resident memory of the larger of the two processes, divided by the number of flows; only with at least 100 flows
    MemoryPerFlow = "memory-per-flow", cost("memory_per_flow_bytes", "memory per flow", Unit::Bytes, EVERY);
    /// median departure lag: how much later than scheduled payloads or requests of an open loop were sent
    DepartureLagP50 = "departure-lag-p50" was "slip-p50",
        percentile("departure_lag_p50_ns", "departure lag p50", EVERY).earlier("slip_p50_ns");
    /// 99th percentile of the departure lag
    DepartureLagP99 = "departure-lag-p99" was "slip-p99",
        percentile("departure_lag_p99_ns", "departure lag p99", EVERY).earlier("slip_p99_ns");
    /// 99th percentile of the departure lag, without payloads that were due while the CPU of a spinning sender ran something else for more than 1 us; only with a `pace_wait` that spins
    DepartureLagWithoutPausesP99 = "departure-lag-without-pauses-p99",
        percentile("departure_lag_without_pauses_p99_ns", "departure lag p99 without pauses", &[Stream, Crr]);
    /// switching time of P5: from the start of the relay's first receive to the end of its last send, mean over the connections of a run
    SwitchingTime = "switching-time", mean("switching_mean_ns", "switching time", &[Stream, Crr]);
    /// switching speed of P5: 8 x the bytes of a connection / its switching time
    SwitchingSpeed = "switching-speed", rate("switching_bps", "switching speed", Unit::Bps, &[Stream, Crr]);
    /// sending time of P5: from the start of the sender's first send to the end of its last one; only through a relay, in runs that end after `bytes` (in others the duration)
    SendingTime = "sending-time", mean("sending_ns", "sending time", &[Stream]);
    /// receiving time of P5: from the first arrival at the receiver to the last one; only through a relay, in runs that end after `bytes` (in others the counted time)
    ReceivingTime = "receiving-time", mean("receiving_ns", "receiving time", &[Stream]);
    /// access delay of P5: from before the send call until the packet with the last byte enters the queueing discipline (socket, TCP or UDP, IP), at the client; mean; only with `timestamps` by software; of a request larger than the congestion window it includes the waits for acknowledgements
    AccessDelay = "access-delay", mean("access_delay_ns", "access delay", &[PingPong, Rr, Crr]);
    /// packetisation delay of P5: from there until the packet is passed to the device (queueing discipline, driver); mean; only with `timestamps` by software
    PacketisationDelay = "packetisation-delay",
        mean("packetisation_delay_ns", "packetisation delay", &[PingPong, Rr, Crr]);
    /// transmission delay of P5, computed: the least time that the links need for the bytes of a connection, which cross a hub twice; only through a relay
    TransmissionDelay = "transmission-delay",
        mean("transmission_delay_ns", "transmission delay", &[Stream, Crr]);
    /// propagation delay of P5, computed: half of the RTT of the links; only through a relay
    PropagationDelay = "propagation-delay",
        mean("propagation_delay_ns", "propagation delay", &[Stream, Crr]);
    /// switching delay of P5: from the last byte's receive by the relay to the end of its send; mean over the connections of a run
    SwitchingDelay = "switching-delay",
        mean("switching_delay_ns", "switching delay", &[Stream, Crr]);
    /// queueing delay of P5, by subtraction: the time from the departure of the last packet to the arrival of the response at the client, less the transmission, switching and reassembly delays and the RTT of the links. It includes waits in sockets, in links and for the relay's connection, and the transmission and switching of the response; only through a relay, with `timestamps` and requests that fit into the initial congestion window
    QueueingDelay = "queueing-delay", mean("queueing_delay_ns", "queueing delay", &[Crr]);
    /// reassembly delay of P5: from the arrival of the last packet of a request until the server has received all of it; mean; only with `timestamps`
    ReassemblyDelay = "reassembly-delay",
        mean("reassembly_delay_ns", "reassembly delay", &[Crr]);
    /// receiving time of the relay: from the start of its first receive to the end of its last one
    RelayReceivingTime = "relay-receiving-time",
        mean("relay_receiving_mean_ns", "receiving time of the relay", &[Stream, Crr]);
    /// CPU time of the relay's process in microseconds per KiB that it moves, in both directions
    RelayDemand = "relay-demand",
        cost("relay_demand_us_per_kib", "relay service demand", Unit::UsPerKib, &[Stream, Crr]);
    /// interarrival jitter of udp at the receiver (RFC 3550), mean over flows; only in an open loop, with payloads of at least 16 bytes and at least 17 datagrams
    Jitter = "jitter", mean("jitter_ns", "jitter", &[Stream]);
    /// share of the datagrams sent that did not arrive, duplicates not counted; with `direction = "both"` the mean of both directions
    Loss = "loss", cost("loss_share", "loss", Unit::Share, &[Stream]);
    /// Jain's index of the payloads, transactions or bursts of several flows (DEC-TR-301, 1984): 1 if all have the same, 1/n if one of n has everything
    Fairness = "fairness", rate("fairness_index", "fairness (Jain's index)", Unit::Index, EVERY);
    /// goodput from client to server, if `direction` is `both`
    ForwardGoodput = "forward-goodput", rate("forward_goodput_bps", "forward goodput", Unit::Bps, &[Stream]);
    /// goodput from server to client, if `direction` is `both`
    ReverseGoodput = "reverse-goodput", rate("reverse_goodput_bps", "reverse goodput", Unit::Bps, &[Stream]);
    /// median RTT of the probe before the load
    IdleRttP50 = "idle-rtt-p50", percentile("idle_rtt_p50_ns", "idle RTT p50", EVERY);
    /// 99th percentile of the RTTs of the probe before the load
    IdleRttP99 = "idle-rtt-p99", percentile("idle_rtt_p99_ns", "idle RTT p99", EVERY);
    /// median RTT of the probe during the load
    LoadedRttP50 = "loaded-rtt-p50", percentile("loaded_rtt_p50_ns", "loaded RTT p50", EVERY);
    /// 99th percentile of the RTTs of the probe during the load
    LoadedRttP99 = "loaded-rtt-p99", percentile("loaded_rtt_p99_ns", "loaded RTT p99", EVERY);
    /// median RTT between the client's packet timestamps: without the client's system calls and wake-up
    KernelRttP50 = "kernel-rtt-p50",
        percentile("kernel_rtt_p50_ns", "RTT p50 between kernel timestamps", &[PingPong, Rr]);
    /// 99th percentile of the RTTs between the client's packet timestamps
    KernelRttP99 = "kernel-rtt-p99",
        percentile("kernel_rtt_p99_ns", "RTT p99 between kernel timestamps", &[PingPong, Rr]);
    /// median time that the client application adds to the RTT: system calls and wake-up
    ApplicationP50 = "application-p50",
        percentile("application_p50_ns", "application time p50", &[PingPong, Rr]);
    /// 99th percentile of the time that the client application adds to the RTT
    ApplicationP99 = "application-p99",
        percentile("application_p99_ns", "application time p99", &[PingPong, Rr]);
    /// goodput times distance, as land-speed records are scored; the distance is that of light in fibre in half of the emulated RTT, at most 30,000 km
    LandSpeed = "land-speed",
        rate("land_speed_bit_m_per_s", "land speed (goodput x distance)", Unit::BitMetresPerSecond, &[Stream]);
    /// TCP segments retransmitted by all flows of a stream, in both directions if `direction` is `both`
    Retransmits = "retransmits",
        cost("retransmitted_segments", "retransmitted segments", Unit::Segments, &[Stream]);
    /// packets that the emulated links dropped in both directions during a run: full queue, AQM (CoDel, RED), configured loss or outage; without drops before a host bus; not in slices
    LinkDrops = "link-drops",
        cost("link_dropped_packets", "packets dropped by the link", Unit::Packets, EVERY);
    /// mean time of an MPI operation; of PingPong half the round trip; of Uniband and Biband the time per payload; of a collective operation from the first rank's start to the last rank's end
    OperationTime = "operation-time", mean("operation_mean_ns", "operation time", &[Mpi]);
    /// median time of an MPI operation
    OperationTimeP50 = "operation-time-p50",
        percentile("operation_p50_ns", "operation time p50", &[Mpi]);
    /// 99th percentile of the times of an MPI operation
    OperationTimeP99 = "operation-time-p99",
        percentile("operation_p99_ns", "operation time p99", &[Mpi]);
    /// mean time from the first to the last rank's start of a collective operation, by their synchronised clocks
    ArrivalImbalance = "arrival-imbalance",
        mean("arrival_imbalance_mean_ns", "arrival imbalance", &[Mpi]);
    /// share of a non-blocking collective operation that takes place during a computation, as IMB-NBC defines it: (operation alone + computation - both together) / the longer of the two
    Overlap = "overlap", rate("overlap_share", "overlap", Unit::Share, &[Mpi]);
    /// web interactions of the bookstore that were completed per second in the measurement window
    InteractionRate = "interaction-rate",
        rate("interactions_per_s", "interactions", Unit::PerSecond, &[Shop]);
    /// mean response time of a web interaction: from the first byte of the request to the last byte of the last image
    ResponseTime = "response-time", mean("response_mean_ns", "response time", &[Shop]);
    /// median response time of a web interaction
    ResponseTimeP50 = "response-time-p50",
        percentile("response_p50_ns", "response time p50", &[Shop]);
    /// 90th percentile of the response times of a web interaction, which TPC-W limits
    ResponseTimeP90 = "response-time-p90",
        percentile("response_p90_ns", "response time p90", &[Shop]);
    /// share of the web interactions within TPC-W's limit of their response time
    WithinLimit = "within-limit", rate("within_limit_share", "within the limit", Unit::Share, &[Shop]);
    /// mean time of a page in the application server, without its database
    AppTime = "app-time", mean("app_mean_ns", "time in the application", &[Shop]);
    /// mean time of a page's statements, from the application server's request to the database until its answer
    DatabaseTime = "database-time", mean("database_mean_ns", "time for the database", &[Shop]);
    /// service demand of the web server: CPU time in microseconds per web interaction
    WebDemand = "web-demand",
        cost("web_demand_us_per_transaction", "web server service demand", Unit::UsPerTransaction, &[Shop]);
    /// service demand of the application server per web interaction
    AppDemand = "app-demand",
        cost("app_demand_us_per_transaction", "application service demand", Unit::UsPerTransaction, &[Shop]);
    /// service demand of the database per web interaction
    DatabaseDemand = "database-demand",
        cost("database_demand_us_per_transaction", "database service demand", Unit::UsPerTransaction, &[Shop]);
}

impl Figure {
    /// The figure with this name, current or earlier.
    pub fn named(name: &str) -> Option<Self> {
        let is_it =
            |figure: &Self| figure.name() == name || figure.spec().earlier_name == Some(name);
        Self::ALL.into_iter().find(is_it)
    }

    /// Whether runs of a point may yield it.
    pub fn applies(self, point: &Point) -> bool {
        let yields = match self {
            // Nothing arrives over `null`.
            Self::Loss => {
                point.transport.is_lossy() && point.transport.traits().network != Network::Nothing
            }
            Self::Jitter => point.transport.is_lossy() && point.pace != Pace::Closed,
            Self::Fairness => point.flows > 1,
            // A link that the kernel carries has no such counter.
            Self::LinkDrops => point.link_options().is_some(),
            Self::ForwardGoodput | Self::ReverseGoodput => point.direction == Some(Direction::Both),
            Self::IdleRttP50 | Self::IdleRttP99 | Self::LoadedRttP50 | Self::LoadedRttP99 => {
                point.probe.is_some()
            }
            _ => true,
        };
        yields && self.spec().patterns.contains(&point.pattern)
    }

    /// The figure with this key in JSON, current or earlier.
    pub fn keyed(key: &str) -> Option<Self> {
        let is_it = |spec: &FigureSpec| spec.key == key || spec.earlier_key == Some(key);
        Self::ALL.into_iter().find(|figure| is_it(figure.spec()))
    }

    /// Which direction is better, and the relative difference up to which two values count as equal.
    pub fn judged_by(self) -> (Better, f64) {
        match self.spec().is_higher_better {
            true => (Better::Higher, THROUGHPUT_TIE),
            false => (Better::Lower, LATENCY_TIE),
        }
    }

    /// The figure of a point in a closed loop at this rate: goodput in bit/s of a stream or of bursts, otherwise transactions
    /// per second. `None` for a figure that does not follow from it.
    pub fn at_rate(self, point: &Point, rate: f64) -> Option<f64> {
        let payload_bits = 8.0 * point.payload.0 as f64;
        let payloads = f64::from(point.payloads_per_request());
        let is_goodput = matches!(point.pattern, Stream | Burst);
        let transactions_per_s = if is_goodput { rate / (payload_bits * payloads) } else { rate };
        // Little's law: all that is in flight is answered once in an RTT.
        let rtt_ns = 1e9 * f64::from(point.in_flight()) / transactions_per_s;
        match self {
            Self::Goodput => Some(rate),
            Self::PayloadRate => Some(transactions_per_s * payloads),
            Self::TransactionRate => Some(transactions_per_s),
            Self::Rtt | Self::Step => Some(rtt_ns),
            Self::HalfRtt => Some(rtt_ns / 2.0),
            _ => None,
        }
    }

    /// The figure that a point is judged by unless the user names one. The rate of an open loop is fixed, so its
    /// transactions are judged by their RTT.
    pub fn deciding(point: &Point) -> Self {
        match point.pattern {
            Stream | Burst => Self::Goodput,
            PingPong => Self::Rtt,
            PingPing => Self::Step,
            Rr | Crr if point.pace != Pace::Closed => Self::Rtt,
            Rr | Crr => Self::TransactionRate,
            Mpi => Self::OperationTime,
            Shop => Self::ResponseTime,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{overlay, resolve};

    use super::*;

    #[test]
    fn names_and_keys_are_words_that_stand_for_one_figure() {
        for figure in Figure::ALL {
            let key = figure.spec().key;
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(key.chars().all(is_word), "{key}");
            assert!(key.ends_with(figure.spec().unit.key()), "{key}");
            assert_eq!(
                (Figure::named(figure.name()), Figure::keyed(key)),
                (Some(figure), Some(figure))
            );
        }
        assert_eq!(Figure::named("slip-p99"), Some(Figure::DepartureLagP99));
        assert_eq!(Figure::keyed("exchanges_per_s"), Some(Figure::TransactionRate));
    }

    #[test]
    fn a_rate_gives_the_figures_of_a_point_by_its_payload_and_all_that_is_in_flight() {
        let at = |levels: &str, figure: Figure, rate| {
            let base = "transport=tcp,family=4,link=loopback,payload=1000,congestion=cubic";
            let levels = format!("{base},{levels}");
            figure.at_rate(&resolve(&overlay(&levels).unwrap()).unwrap(), rate)
        };
        let stream = "pattern=stream";
        assert_eq!(at(stream, Figure::Goodput, 8e6), Some(8e6));
        assert_eq!(at(stream, Figure::PayloadRate, 8e6), Some(1000.0));
        assert_eq!(at("pattern=ping-pong", Figure::RttP99, 5e4), None);
        // 50,000 transactions/s of one and of eight flows.
        assert_eq!(at("pattern=ping-pong", Figure::Rtt, 5e4), Some(20e3));
        assert_eq!(at("pattern=ping-pong,flows=8", Figure::Rtt, 5e4), Some(160e3));
        assert_eq!(at("pattern=ping-pong,flows=8", Figure::HalfRtt, 5e4), Some(80e3));
        let rr = "pattern=rr,flows=2,outstanding=4";
        assert_eq!(at(rr, Figure::TransactionRate, 5e4), Some(5e4));
        assert_eq!(at(rr, Figure::Rtt, 5e4), Some(160e3));
        // 100 bursts/s of ten payloads.
        let burst = "pattern=burst,outstanding=10,flows=2";
        assert_eq!(at(burst, Figure::PayloadRate, 8e6), Some(1000.0));
        assert_eq!(at(burst, Figure::TransactionRate, 8e6), Some(100.0));
        assert_eq!(at(burst, Figure::Rtt, 8e6), Some(20e6));
    }

    #[test]
    fn more_is_better_of_rates_and_less_of_times_and_costs() {
        for figure in Figure::ALL {
            let spec = figure.spec();
            let is_rate = matches!(
                spec.unit,
                Unit::Bps | Unit::PerSecond | Unit::BitMetresPerSecond | Unit::Share | Unit::Index
            );
            let is_good = is_rate && figure != Figure::Loss;
            assert_eq!(spec.is_higher_better, is_good, "{}", figure.name());
        }
    }
}
