//! Figures with their provenance, and the limits beside them.

use fabricmark_plan as plan;
use fabricmark_wire::{Ceiling, Floor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a figure comes from. Figures of different provenance are never mixed without saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Real sockets over a real path.
    Measured,
    /// Real sockets over a path that imitates another one.
    Emulated,
    /// Computed.
    Modelled,
    /// Printed by somebody else.
    Published,
}

/// A value and where it comes from; the unit stands in the key that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The value in the base unit of its key.
    pub value: f64,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// What a run found; each figure is absent where its pattern does not yield it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Application bits per second that arrived after the ramp, which is the first twentieth of the
    /// run: in it a token bucket empties, a window opens and a sleeping receiver wakes up. The bytes
    /// of the arrival that starts the interval are not counted, since their time is not in it. Of
    /// bursts the bytes of those that were answered, from the first departure to the last answer and
    /// without a ramp, as osu_bw has it: the wait for each answer is in it.
    pub goodput_bps: Option<Figure>,
    /// Application bits per second that the sender handed to the kernel.
    pub sent_bps: Option<Figure>,
    /// Payloads that arrived each second, by their bytes: a read of a stream of bytes may be less than one or more; of
    /// bursts the payloads of those that were answered.
    pub payloads_per_s: Option<Figure>,
    /// Exchanges each second, or answered bursts.
    pub exchanges_per_s: Option<Figure>,
    /// Mean round trip; of an open loop from the intended departure, so that a late one counts; of a
    /// burst from its first byte to its answer.
    pub rtt_mean_ns: Option<Figure>,
    /// Median round trip.
    pub rtt_p50_ns: Option<Figure>,
    /// 99th percentile of the round trips.
    pub rtt_p99_ns: Option<Figure>,
    /// 99.9th percentile of the round trips.
    pub rtt_p999_ns: Option<Figure>,
    /// Mean time of a step of ping-ping: from the departure of a payload to the arrival of the other end's. Each
    /// value is the mean of two consecutive steps, since client and server do not start at the same time.
    #[serde(default)]
    pub step_mean_ns: Option<Figure>,
    /// Median step.
    #[serde(default)]
    pub step_p50_ns: Option<Figure>,
    /// 99th percentile of the steps.
    #[serde(default)]
    pub step_p99_ns: Option<Figure>,
    /// 99.9th percentile of the steps.
    #[serde(default)]
    pub step_p999_ns: Option<Figure>,
    /// Half the mean round trip; not a one-way delay.
    pub half_rtt_mean_ns: Option<Figure>,
    /// Service demand of a stream at the sending end as netperf defines it: microseconds in which
    /// any processor of the machine was busy, for each KiB sent
    /// ([`crate::service_demand_us_per_kib`]). Whatever else runs there is in it, and where both ends
    /// are on one machine, the work of both; what an end's process alone used is in its node.
    #[serde(default)]
    pub sender_demand_us_per_kib: Option<Figure>,
    /// The same at the receiving end, for each KiB received.
    #[serde(default)]
    pub receiver_demand_us_per_kib: Option<Figure>,
    /// Service demand of exchanges at the client: microseconds in which any processor of the
    /// machine was busy, for each request, or whole burst, with its response
    /// ([`crate::service_demand_us_per_transaction`]); on one machine again the work of both ends.
    #[serde(default)]
    pub asker_demand_us_per_transaction: Option<Figure>,
    /// The same at the server.
    #[serde(default)]
    pub answerer_demand_us_per_transaction: Option<Figure>,
    /// Peak resident memory of the larger end's process over the flows, where there are at least 100 of
    /// them: with fewer the program itself is most of it.
    #[serde(default)]
    pub memory_per_flow_bytes: Option<Figure>,
    /// Median of how much later than intended payloads or requests departed; absent in a closed loop.
    #[serde(default)]
    pub slip_p50_ns: Option<Figure>,
    /// 99th percentile of it.
    #[serde(default)]
    pub slip_p99_ns: Option<Figure>,
    /// The part of `goodput_bps` that flowed forward, of a stream both ways.
    #[serde(default)]
    pub forward_goodput_bps: Option<Figure>,
    /// The part that flowed in reverse.
    #[serde(default)]
    pub reverse_goodput_bps: Option<Figure>,
    /// Median round trip of the probe before the load began.
    #[serde(default)]
    pub idle_rtt_p50_ns: Option<Figure>,
    /// 99th percentile of it.
    #[serde(default)]
    pub idle_rtt_p99_ns: Option<Figure>,
    /// Median round trip of the probe beside the load.
    #[serde(default)]
    pub loaded_rtt_p50_ns: Option<Figure>,
    /// 99th percentile of it.
    #[serde(default)]
    pub loaded_rtt_p99_ns: Option<Figure>,
    /// Median of the round trips between the stamps of their packets ([`crate::KernelTimes`]): without
    /// the system calls and the wake-up of the client.
    #[serde(default)]
    pub kernel_rtt_p50_ns: Option<Figure>,
    /// 99th percentile of them.
    #[serde(default)]
    pub kernel_rtt_p99_ns: Option<Figure>,
    /// Median of what the client added to them: system calls and its wake-up.
    #[serde(default)]
    pub application_p50_ns: Option<Figure>,
    /// 99th percentile of it.
    #[serde(default)]
    pub application_p99_ns: Option<Figure>,
    /// `goodput_bps` times the metres that light goes in fibre in half of the emulated round trip, at most
    /// 30,000 km ([`fabricmark_wire::lfn::land_speed`]); absent over no emulated round trip.
    #[serde(default)]
    pub land_speed_bit_m_per_s: Option<Figure>,
    /// Segments that TCP retransmitted, of all flows of a stream, in both directions where it has two.
    #[serde(default)]
    pub retransmitted_segments: Option<Figure>,
}

/// What the wire allows for this point; empty on a link that has no wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Upper bounds of the goodput, the hard one first.
    pub ceilings: Vec<Ceiling>,
    /// Lower bound of the round trip; absent where a token bucket stands for the wire, since it
    /// passes a message that fits into it at once.
    pub rtt_floor: Option<Floor>,
}

impl Figures {
    /// Mean RTT, or mean step of ping-ping.
    pub fn time_mean_ns(&self) -> Option<Figure> {
        self.rtt_mean_ns.or(self.step_mean_ns)
    }

    /// The figure by the name that plans use; half of a round trip stays a figure of its own.
    pub fn get(&self, figure: plan::Figure) -> Option<Figure> {
        match figure {
            plan::Figure::Goodput => self.goodput_bps,
            plan::Figure::PayloadRate => self.payloads_per_s,
            plan::Figure::ExchangeRate => self.exchanges_per_s,
            plan::Figure::HalfRtt => self.half_rtt_mean_ns,
            plan::Figure::Rtt => self.rtt_mean_ns,
            plan::Figure::RttP50 => self.rtt_p50_ns,
            plan::Figure::RttP99 => self.rtt_p99_ns,
            plan::Figure::RttP999 => self.rtt_p999_ns,
            plan::Figure::Step => self.step_mean_ns,
            plan::Figure::StepP50 => self.step_p50_ns,
            plan::Figure::StepP99 => self.step_p99_ns,
            plan::Figure::StepP999 => self.step_p999_ns,
            plan::Figure::SenderDemand => self.sender_demand_us_per_kib,
            plan::Figure::ReceiverDemand => self.receiver_demand_us_per_kib,
            plan::Figure::AskerDemand => self.asker_demand_us_per_transaction,
            plan::Figure::AnswererDemand => self.answerer_demand_us_per_transaction,
            plan::Figure::SlipP50 => self.slip_p50_ns,
            plan::Figure::SlipP99 => self.slip_p99_ns,
            plan::Figure::ForwardGoodput => self.forward_goodput_bps,
            plan::Figure::ReverseGoodput => self.reverse_goodput_bps,
            plan::Figure::IdleRttP50 => self.idle_rtt_p50_ns,
            plan::Figure::IdleRttP99 => self.idle_rtt_p99_ns,
            plan::Figure::LoadedRttP50 => self.loaded_rtt_p50_ns,
            plan::Figure::LoadedRttP99 => self.loaded_rtt_p99_ns,
            plan::Figure::KernelRttP50 => self.kernel_rtt_p50_ns,
            plan::Figure::KernelRttP99 => self.kernel_rtt_p99_ns,
            plan::Figure::ApplicationP50 => self.application_p50_ns,
            plan::Figure::ApplicationP99 => self.application_p99_ns,
            plan::Figure::LandSpeed => self.land_speed_bit_m_per_s,
            plan::Figure::Retransmits => self.retransmitted_segments,
        }
    }
}
