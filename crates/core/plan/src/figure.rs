//! Figures of a run. Each is declared once. Names in plans and thresholds, keys of JSON and CSV, tables, charts and
//! verdicts follow from the declaration. `judge` computes the values.

use fabricmark_stats::{Better, LATENCY_TIE, THROUGHPUT_TIE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::Pattern::{self, Burst, Crr, PingPing, PingPong, Rr, Stream};
use crate::factor::Point;
use crate::pace::Pace;

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
    /// Bytes.
    Bytes,
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
            Self::Bytes => "bytes",
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

const EVERY: &[Pattern] = Pattern::ALL;
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
    /// application bits per second that arrived after the ramp, the first twentieth of a run; of bursts those of answered bursts over the whole run
    Goodput = "goodput", rate("goodput_bps", "goodput", Unit::Bps, &[Stream, Burst]).limit(Limit::Ceiling);
    /// application bits per second that the sender handed to the kernel
    SendRate = "send-rate", rate("sent_bps", "sent to the kernel", Unit::Bps, &[Stream]);
    /// payloads that arrived per second by their bytes: a read of a stream of bytes may be less than one or more; of bursts those of answered bursts
    PayloadRate = "payload-rate", rate("payloads_per_s", "payload rate", Unit::PerSecond, &[Stream, Burst]);
    /// transactions per second: requests with their response, or answered bursts
    TransactionRate = "transaction-rate" was "exchange-rate",
        rate("transactions_per_s", "transactions", Unit::PerSecond, TRANSACTIONS).earlier("exchanges_per_s");
    /// half the mean RTT; not a one-way delay
    HalfRtt = "half-rtt", mean("half_rtt_mean_ns", "RTT/2", &[PingPong]).limit(Limit::Floor(0.5));
    /// mean RTT; of an open loop from the intended departure, so that a late one counts; of a burst from its first byte to its response
    Rtt = "rtt", mean("rtt_mean_ns", "mean RTT", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// median RTT of a run
    RttP50 = "rtt-p50", percentile("rtt_p50_ns", "RTT p50", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// 99th percentile of the RTTs of a run
    RttP99 = "rtt-p99", percentile("rtt_p99_ns", "RTT p99", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// 99.9th percentile of the RTTs of a run
    RttP999 = "rtt-p999", percentile("rtt_p999_ns", "RTT p99.9", ROUND_TRIPS).limit(Limit::Floor(1.0));
    /// mean time of a step of ping-ping: from the departure of a payload to the arrival of the other end's, each value the mean of two consecutive steps, since client and server do not start at the same time
    Step = "step", mean("step_mean_ns", "mean step", &[PingPing]).limit(Limit::Floor(1.0));
    /// median step of a run
    StepP50 = "step-p50", percentile("step_p50_ns", "step p50", &[PingPing]).limit(Limit::Floor(1.0));
    /// 99th percentile of the steps of a run
    StepP99 = "step-p99", percentile("step_p99_ns", "step p99", &[PingPing]).limit(Limit::Floor(1.0));
    /// 99.9th percentile of the steps of a run
    StepP999 = "step-p999", percentile("step_p999_ns", "step p99.9", &[PingPing]).limit(Limit::Floor(1.0));
    /// service demand of the sender as netperf defines it: microseconds in which any CPU of its machine was busy, per KiB sent; on one machine the work of both ends
    SenderDemand = "sender-demand",
        cost("sender_demand_us_per_kib", "sender service demand", Unit::UsPerKib, &[Stream]);
    /// the same of the receiver, per KiB received
    ReceiverDemand = "receiver-demand",
        cost("receiver_demand_us_per_kib", "receiver service demand", Unit::UsPerKib, &[Stream]);
    /// service demand of the client: microseconds in which any CPU of its machine was busy, per transaction; on one machine the work of both ends
    ClientDemand = "client-demand" was "asker-demand",
        cost("client_demand_us_per_transaction", "client service demand", Unit::UsPerTransaction, TRANSACTIONS)
            .earlier("asker_demand_us_per_transaction");
    /// the same of the server
    ServerDemand = "server-demand" was "answerer-demand",
        cost("server_demand_us_per_transaction", "server service demand", Unit::UsPerTransaction, TRANSACTIONS)
            .earlier("answerer_demand_us_per_transaction");
    /// peak resident memory of the larger end's process per flow, where there are at least 100 flows
    MemoryPerFlow = "memory-per-flow", cost("memory_per_flow_bytes", "memory per flow", Unit::Bytes, EVERY);
    /// median of how much later than intended payloads or requests of an open loop departed
    DepartureLagP50 = "departure-lag-p50" was "slip-p50",
        percentile("departure_lag_p50_ns", "departure lag p50", EVERY).earlier("slip_p50_ns");
    /// 99th percentile of it
    DepartureLagP99 = "departure-lag-p99" was "slip-p99",
        percentile("departure_lag_p99_ns", "departure lag p99", EVERY).earlier("slip_p99_ns");
    /// interarrival jitter of the datagrams of udp at the receiver (RFC 3550), of an open loop of at least 16 bytes each and 17 datagrams; of several flows their mean
    Jitter = "jitter", mean("jitter_ns", "jitter", &[Stream]);
    /// goodput of the forward direction alone, of a stream both ways
    ForwardGoodput = "forward-goodput", rate("forward_goodput_bps", "goodput forward", Unit::Bps, &[Stream]);
    /// goodput of the reverse direction alone
    ReverseGoodput = "reverse-goodput", rate("reverse_goodput_bps", "goodput in reverse", Unit::Bps, &[Stream]);
    /// median RTT of the probe before the load
    IdleRttP50 = "idle-rtt-p50", percentile("idle_rtt_p50_ns", "idle RTT p50", EVERY);
    /// 99th percentile of the RTTs of the probe before the load
    IdleRttP99 = "idle-rtt-p99", percentile("idle_rtt_p99_ns", "idle RTT p99", EVERY);
    /// median RTT of the probe beside the load
    LoadedRttP50 = "loaded-rtt-p50", percentile("loaded_rtt_p50_ns", "loaded RTT p50", EVERY);
    /// 99th percentile of the RTTs of the probe beside the load
    LoadedRttP99 = "loaded-rtt-p99", percentile("loaded_rtt_p99_ns", "loaded RTT p99", EVERY);
    /// median of the RTTs between the kernel's timestamps: without the system calls and the wake-up of the client
    KernelRttP50 = "kernel-rtt-p50",
        percentile("kernel_rtt_p50_ns", "RTT p50 between kernel timestamps", &[PingPong, Rr]);
    /// 99th percentile of them
    KernelRttP99 = "kernel-rtt-p99",
        percentile("kernel_rtt_p99_ns", "RTT p99 between kernel timestamps", &[PingPong, Rr]);
    /// median of what the client added to them: system calls and its wake-up
    ApplicationP50 = "application-p50",
        percentile("application_p50_ns", "application time p50", &[PingPong, Rr]);
    /// 99th percentile of it
    ApplicationP99 = "application-p99",
        percentile("application_p99_ns", "application time p99", &[PingPong, Rr]);
    /// goodput times the distance that light goes in fibre in half of the emulated RTT, at most 30,000 km, as land-speed records are scored
    LandSpeed = "land-speed",
        rate("land_speed_bit_m_per_s", "land speed (goodput x distance)", Unit::BitMetresPerSecond, &[Stream]);
    /// segments that TCP retransmitted, of all flows of a stream, in both directions where it has two
    Retransmits = "retransmits",
        cost("retransmitted_segments", "retransmitted segments", Unit::Segments, &[Stream]);
}

impl Figure {
    /// The figure with this name, current or earlier.
    pub fn named(name: &str) -> Option<Self> {
        let is_it =
            |figure: &Self| figure.name() == name || figure.spec().earlier_name == Some(name);
        Self::ALL.into_iter().find(is_it)
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

    /// How it depends on the payload or transaction rate of a closed loop: `true` if it rises with the rate,
    /// `false` if it falls (Little's law), `None` for other figures.
    pub fn of_rate(self) -> Option<bool> {
        match self {
            Self::Goodput | Self::PayloadRate | Self::TransactionRate => Some(true),
            Self::Rtt | Self::HalfRtt => Some(false),
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
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn more_is_better_of_rates_and_less_of_times_and_costs() {
        for figure in Figure::ALL {
            let spec = figure.spec();
            let is_rate =
                matches!(spec.unit, Unit::Bps | Unit::PerSecond | Unit::BitMetresPerSecond);
            assert_eq!(spec.is_higher_better, is_rate, "{}", figure.name());
        }
    }
}
