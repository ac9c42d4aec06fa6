//! What one coordinator may ask of an agent.

use fabricmark_plan::{Pace, Point, Rate, Role};
use fabricmark_units::{BitRate, Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::control::message::Prepare;

/// Buffers of a flow beside its payloads: a receiver of a stream has 128 KiB.
const FLOW_BYTES: u64 = 128 << 10;

/// Limits of what one coordinator may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Flows of one run.
    pub flows_max: u32,
    /// Rate at which a run may be sent, all flows together; absent without limit. Only runs that
    /// state their pace can be held to it.
    pub rate_max: Option<BitRate>,
    /// Length of one run.
    pub duration_max: Nanos,
    /// Memory for the payloads and socket buffers of one run.
    pub memory_max: Bytes,
    /// Connections, each with a worker: a stream both ways with a probe has three.
    pub connections_max: u32,
    /// Whether workers may be clients, which connect to wherever the coordinator says.
    #[serde(default)]
    pub allows_clients: bool,
}

impl Default for Quota {
    /// The most flows of a run, a day, 1 GiB: what a machine bears that was set up for it.
    fn default() -> Self {
        Self {
            flows_max: 10_000,
            rate_max: None,
            duration_max: Nanos::from_secs(24 * 3600),
            memory_max: Bytes(1 << 30),
            connections_max: 8,
            allows_clients: false,
        }
    }
}

impl Quota {
    /// Whether a run is within the limits; else why not and what to do, as a sentence.
    pub fn check(&self, prepare: &Prepare) -> Result<(), String> {
        if prepare.role == Role::Client && !self.allows_clients {
            let why = "the agent opens no flows: start it with --allow-client";
            return Err(why.to_owned());
        }
        let Point { flows, .. } = prepare.point;
        if flows > self.flows_max {
            let most = self.flows_max;
            return Err(format!("the agent allows {most} flows, the run has {flows}: use fewer"));
        }
        let (duration, most) = (prepare.duration_ns, self.duration_max);
        if duration > most {
            return Err(format!("the agent allows runs of {most}, this one takes {duration}"));
        }
        let (memory, most) = (memory_of(prepare), self.memory_max);
        if memory > most {
            return Err(format!(
                "the agent allows {most} of memory, the run takes {memory}: use fewer flows, or \
                 smaller payloads or buffers"
            ));
        }
        let Some(most) = self.rate_max else { return Ok(()) };
        match rate_of(&prepare.point) {
            Some(rate) if rate <= most => Ok(()),
            Some(rate) => Err(format!("the agent allows {most}, the run asks for {rate}")),
            None => Err(format!(
                "the agent allows {most} and the run states no rate: add --rate {most} or less"
            )),
        }
    }
}

/// Bytes that an end takes for payloads and buffers; the kernel doubles those of sockets (socket(7)).
fn memory_of(prepare: &Prepare) -> Bytes {
    let point = &prepare.point;
    let bytes = |size: Option<Bytes>| size.map_or(0, |Bytes(bytes)| bytes);
    let messages = point.payload.0.saturating_add(bytes(point.response));
    // Each end makes room for a window in both of its buffers.
    let window = bytes(point.window_bytes()).saturating_mul(2);
    let buffers = bytes(point.receive_buffer).saturating_add(bytes(point.send_buffer));
    let buffers = buffers.saturating_add(window);
    let flow = FLOW_BYTES.saturating_add(messages).saturating_add(buffers.saturating_mul(2));
    let flows = flow.saturating_mul(u64::from(point.flows));
    Bytes(flows.saturating_add(point.registered_bytes().0))
}

/// Application bits per second that a run states, where it does.
fn rate_of(point: &Point) -> Option<BitRate> {
    let bits = |rate: &Rate| match *rate {
        Rate::Bits(BitRate(bps)) => bps,
        Rate::PerSecond(count) => {
            let payloads = u64::from(point.payloads_per_request());
            count.saturating_mul(payloads).saturating_mul(point.payload.0).saturating_mul(8)
        }
    };
    match &point.pace {
        Pace::Fixed(rate) | Pace::Poisson(rate) => Some(BitRate(bits(rate))),
        Pace::Burst { bytes, period } => {
            let bps = u128::from(bytes.0) * 8 * 1_000_000_000 / u128::from(period.0.max(1));
            Some(BitRate(u64::try_from(bps).unwrap_or(u64::MAX)))
        }
        Pace::Closed | Pace::Trace(_) => {
            let BitRate(bps) = point.pacing_rate?;
            Some(BitRate(bps.saturating_mul(u64::from(point.flows))))
        }
    }
}
