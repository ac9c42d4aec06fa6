//! Limits on what one coordinator may request of an agent.

use fabricmark_plan::{
    Factor, Operation, PROBE_BYTES, Pace, Path, Pattern, Point, Rate, Role, Transport,
};
use fabricmark_record::{ApplicationTier, DatabaseTier, TierOrder};
use fabricmark_units::{BitRate, Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::control::message::Prepare;

/// Buffers of a flow besides its payloads: a stream receiver has 128 KiB.
const FLOW_BYTES: u64 = 128 << 10;

/// Stack of a load thread (`std::thread`), which limits the threads of all runs with their memory.
const STACK_BYTES: u64 = 2 << 20;

/// Most entries of each list of an order; an arbitrary choice, above the addresses and CPUs of any host.
const LISTED_MAX: usize = 1024;

/// Limit of a probe's responses, one per microsecond: the shortest RTT over loopback is 4.5 us (docs/bench.md, UDP
/// rr of 1 B, spinning).
const PROBE_RATE: BitRate = BitRate(PROBE_BYTES.0 * 8 * 1_000_000);

/// Longest time over which the bytes of a burst are averaged: of a longer period they might all leave in one run. An
/// arbitrary choice.
pub const BURST_OVER_MAX: Nanos = Nanos::from_secs(1);

/// Shortest time over which a payload that leaves at the start of a run is averaged: with its preparation a run takes 6 ms
/// (docs/agent.md).
const RUN_LEAST: Nanos = Nanos::from_millis(10);

/// First port that any user may bind (ip(7)): those below are for services.
const PORT_MIN: u16 = 1024;

/// Limits for one coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Most flows of a run. Default: 10,000.
    pub flows_max: u32,
    /// Highest rate at which a run may send, all flows together. With a limit, a run that states no rate is
    /// refused. Default: `None`, no limit.
    pub rate_max: Option<BitRate>,
    /// Longest run. Default: 24 hours.
    pub duration_max: Nanos,
    /// Most memory for payloads and socket buffers of a run. Default: 1 GiB.
    pub memory_max: Bytes,
    /// Most connections, each with a worker; a bidirectional stream with a probe needs three. Default: 8.
    pub connections_max: u32,
    /// First and last port for data. Default: `None`, any from 1024 on; the kernel chooses unless a run names one.
    #[serde(default)]
    pub ports: Option<(u16, u16)>,
    /// Whether workers may be clients, which connect to any address that the coordinator names. Default: no.
    #[serde(default)]
    pub allows_clients: bool,
    /// Whether workers may be relays: clients that the coordinator admits can then connect through this host to any
    /// address that it names. Default: no.
    #[serde(default)]
    pub allows_relays: bool,
    /// Whether runs may change settings of this host. Default: no.
    #[serde(default)]
    pub allows_settings: bool,
    /// Whether tiers of the bookstore may run here, which connect to the addresses that the coordinator names. Default: no.
    #[serde(default)]
    pub allows_shop: bool,
}

impl Default for Quota {
    /// For a machine that is dedicated to measurements.
    fn default() -> Self {
        Self {
            flows_max: 10_000,
            rate_max: None,
            duration_max: Nanos::from_secs(24 * 3600),
            memory_max: Bytes(1 << 30),
            connections_max: 8,
            ports: None,
            allows_clients: false,
            allows_relays: false,
            allows_settings: false,
            allows_shop: false,
        }
    }
}

impl Quota {
    /// Checks a run against the limits; the error is a sentence that says why not and what to do.
    pub fn check(&self, prepare: &Prepare) -> Result<(), String> {
        for (is_it, is_allowed, what) in [
            (prepare.role == Role::Client, self.allows_clients, "client"),
            (prepare.forward.is_some(), self.allows_relays, "relay"),
        ] {
            if is_it && !is_allowed {
                return Err(format!(
                    "the agent does not allow {what}s: start it with --allow-{what}"
                ));
            }
        }
        let listed = [prepare.from.len(), prepare.more_cpus.len(), prepare.host_settings.len()];
        if listed.iter().any(|&count| count > LISTED_MAX) {
            return Err(format!(
                "a run may list at most {LISTED_MAX} addresses, CPUs or settings: use fewer"
            ));
        }
        if !prepare.host_settings.is_empty() && !self.allows_settings {
            let why = "the agent does not allow host_settings: start it with --allow-settings";
            return Err(why.to_owned());
        }
        self.check_port(prepare)?;
        if prepare.forward.is_some() && self.rate_max.is_some() {
            let why = "the agent limits rates, which a relay does not keep: start it without --rate, or use \
                       another host for the relay";
            return Err(why.to_owned());
        }
        let Point { flows, .. } = prepare.point;
        if flows > self.flows_max {
            let most = self.flows_max;
            return Err(format!(
                "the agent allows {most} flows, but the run has {flows}: use fewer \
                                flows"
            ));
        }
        let (duration, most) = (prepare.start_ns + prepare.duration_ns, self.duration_max);
        if duration > most {
            return Err(match prepare.amount {
                None => format!(
                    "the agent allows runs of {most}, but this one takes {duration}: use a shorter \
                     duration"
                ),
                Some(_) => format!(
                    "the agent allows runs of {most}, but this one, which ends by its amount, may \
                     take up to {duration}: add --duration {most} or less"
                ),
            });
        }
        let (memory, most) = (memory_of(prepare), self.memory_max);
        if memory > most {
            return Err(format!(
                "the agent allows {most} of memory, but the run needs {memory}: use fewer flows, \
                 or smaller payloads or buffers"
            ));
        }
        self.check_rate(prepare)
    }

    /// Highest rate of a server's responses, beyond which the run fails: a client may send requests faster than the run
    /// states. `None`: no limit.
    pub fn response_rate_max(&self, point: &Point) -> Option<BitRate> {
        let rate = self.rate_max?;
        Some(if is_probe(point) { rate.max(PROBE_RATE) } else { rate })
    }

    /// Checks the port that a run names: the one where a server or relay listens, or the source port of a client.
    fn check_port(&self, prepare: &Prepare) -> Result<(), String> {
        let port = match prepare.role {
            Role::Client if prepare.forward.is_none() => prepare.point.source_port.unwrap_or(0),
            _ => prepare.port,
        };
        if port == 0 {
            return Ok(());
        }
        match self.ports {
            Some((first, last)) if (first..=last).contains(&port) => Ok(()),
            Some((first, last)) => Err(format!(
                "the agent allows ports {first} to {last}, but the run asks for port {port}: use \
                 one of them, or no --port"
            )),
            None if port < PORT_MIN => Err(format!(
                "the agent does not allow port {port}: use one from {PORT_MIN} on, or start it with \
                 --ports {port}"
            )),
            None => Ok(()),
        }
    }

    fn check_rate(&self, prepare: &Prepare) -> Result<(), String> {
        let Some(most) = self.rate_max.filter(|_| !is_probe(&prepare.point)) else {
            return Ok(());
        };
        if let Some(operation) = prepare.point.operation.filter(|operation| operation.is_fetch()) {
            return Err(format!(
                "the agent limits rates, but not those of operation={operation}, which the adapter answers alone: use \
                 operation={}, or start the agent without --rate",
                Operation::Send
            ));
        }
        let point = &prepare.point;
        if prepare.slice_ns.is_some() && prepare.is_active() && point.pace.states_rate() {
            let why = "the agent limits rates, but each slice sends its first payload or burst at once: compare whole \
                       runs (slices = false), or start the agent without --rate";
            return Err(why.to_owned());
        }
        // The first payload leaves at the start of the run, and the first response as soon as it is requested.
        let first = point.payload.max(point.response.unwrap_or(Bytes(0)));
        let over = prepare.duration_ns.max(RUN_LEAST);
        let takes = u128::from(first.0) * 8_000_000_000 / u128::from(most.0.max(1));
        match rate_of(prepare) {
            Some(rate) if rate <= most && takes > u128::from(over.0) => Err(format!(
                "the agent allows a rate of {most}, at which {} B take longer than the run or warm-up, here {}: use smaller \
                 payloads or responses, or a longer run",
                first.0, prepare.duration_ns
            )),
            Some(rate) if rate <= most => Ok(()),
            Some(rate) if matches!(prepare.point.pace, Pace::Burst { .. }) => Err(format!(
                "the agent allows a rate of {most}, but the run has {rate}: bursts count over their period, at most a \
                 second and the duration of the run or warm-up, here {}; use smaller bursts, or a longer run",
                prepare.duration_ns
            )),
            Some(rate) => Err(format!(
                "the agent allows a rate of {most}, but the run has {rate}: \
                                       use a lower rate"
            )),
            None => Err(format!(
                "the agent allows a rate of {most}, but the run has no rate: add --rate {most} or \
                 less"
            )),
        }
    }
}

impl Quota {
    /// Checks an order to a tier of the bookstore against the limits; the error is a sentence that says why not and what
    /// to do.
    pub fn check_tier(&self, order: &TierOrder) -> Result<(), String> {
        if !self.allows_shop {
            let why = "the agent does not allow tiers of the bookstore: start it with --allow-shop";
            return Err(why.to_owned());
        }
        if self.rate_max.is_some() {
            let why = "the agent limits rates, which a tier does not keep: start it without --rate";
            return Err(why.to_owned());
        }
        let within = |factor: Factor, value: u32| {
            let level = factor.level(&value.to_string());
            level.map(|_| ()).map_err(|problem| format!("{factor}={value}: {problem}"))
        };
        match order {
            TierOrder::Database(DatabaseTier { items, customers_for, .. }) => {
                within(Factor::Items, *items)?;
                within(Factor::CustomersFor, *customers_for)
            }
            TierOrder::Application(ApplicationTier { pool, password, .. }) => {
                ApplicationTier::check_password(password)?;
                within(Factor::Pool, *pool)
            }
            TierOrder::Find { .. } | TierOrder::Web { .. } => Ok(()),
            TierOrder::Usage | TierOrder::Audit => Ok(()),
            TierOrder::Check(_) | TierOrder::Browse(_) => {
                Err("browsers run at the coordinator, not at an agent".to_owned())
            }
        }
    }
}

/// Memory that an end needs for payloads and buffers; the kernel doubles socket buffer sizes (socket(7)).
pub(crate) fn memory_of(prepare: &Prepare) -> Bytes {
    let point = &prepare.point;
    let bytes = |size: Option<Bytes>| size.map_or(0, |Bytes(bytes)| bytes);
    let batch = if point.path == Path::Mmsg { point.mmsg_batch() } else { 1 };
    let payloads = point.payload.0.saturating_mul(batch.into());
    let messages = payloads.saturating_add(bytes(point.response));
    // Each end sizes both of its socket buffers for the window.
    let window = bytes(point.window_bytes()).saturating_mul(2);
    // The kernel enlarges the receive buffer for SO_RCVLOWAT.
    let receive = bytes(point.receive_buffer.max(point.receive_lowat));
    let buffers = receive.saturating_add(bytes(point.send_buffer));
    let buffers = buffers.saturating_add(window);
    // Both directions of a relay hold a buffer each.
    let relay = bytes(point.relay_buffer.filter(|_| prepare.forward.is_some())).saturating_mul(2);
    let messages = messages.saturating_add(relay);
    let flow = FLOW_BYTES.saturating_add(messages).saturating_add(buffers.saturating_mul(2));
    let flows = flow.saturating_mul(u64::from(point.flows));
    let stacks = STACK_BYTES.saturating_mul(point.load_threads().into());
    Bytes(flows.saturating_add(stacks).saturating_add(point.registered_bytes().0))
}

/// Whether a run is like the probe of a load: one small payload under way, which waits for its answer as ping(8) does.
fn is_probe(point: &Point) -> bool {
    point.pattern == Pattern::PingPong
        && point.flows == 1
        && point.payload <= PROBE_BYTES
        && point.response.is_none()
        && point.pace == Pace::Closed
        && point.outstanding.is_none_or(|outstanding| outstanding == 1)
        && point.direction.is_none()
}

/// Application bit rate of a run in the direction that has more, all flows together; `None` if it states none.
fn rate_of(prepare: &Prepare) -> Option<BitRate> {
    let point = &prepare.point;
    let payloads = u64::from(point.payloads_per_request());
    let bits = |rate: &Rate| match *rate {
        Rate::Bits(BitRate(bps)) => bps,
        Rate::PerSecond(count) => {
            count.saturating_mul(payloads).saturating_mul(point.payload.0).saturating_mul(8)
        }
    };
    // A rate is that of the requests; long responses have a higher one.
    let request_bytes = payloads.saturating_mul(point.payload.0).max(1);
    let response_bytes = point.response.map_or(0, |Bytes(bytes)| bytes).max(request_bytes);
    let of_both = |bps: u64| {
        let bps = u128::from(bps) * u128::from(response_bytes) / u128::from(request_bytes);
        Some(BitRate(u64::try_from(bps).unwrap_or(u64::MAX)))
    };
    match &point.pace {
        Pace::Fixed(rate) | Pace::Poisson(rate) | Pace::OnOff { rate, .. } => of_both(bits(rate)),
        Pace::Burst { bytes, period } => {
            let over = (*period).min(BURST_OVER_MAX).min(prepare.duration_ns);
            let bps = u128::from(bytes.0) * 8 * 1_000_000_000 / u128::from(over.0.max(1));
            of_both(u64::try_from(bps).unwrap_or(u64::MAX))
        }
        // The kernel paces both directions of a TCP connection after its first segments. UDP is paced only under fq.
        Pace::Closed | Pace::Follow { .. } | Pace::Trace(_) => {
            let is_paced = point.transport == Transport::Tcp && point.pattern != Pattern::Crr;
            let BitRate(bps) = point.pacing_rate.filter(|_| is_paced)?;
            Some(BitRate(bps.saturating_mul(u64::from(point.flows))))
        }
    }
}
