//! Lower bounds on latency: serialization, switches and propagation, without host time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ceiling::{Load, describe, rate_of};
use crate::exact::inputs;
use crate::frame::{RETH, gap, on_wire};
use crate::message::{Message, verbs_packet};
use crate::path::{is_switched, look_default};
use crate::timeline::{Entry, Stage, arrival};
use crate::{Exact, Impossible, Inputs, Kind, Link, Operation, Path, Stack, Switch, Switching};

/// The least time that a message, or a request and its answer, spend on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// How firmly it stands.
    pub kind: Kind,
    /// Time in nanoseconds, first bit out of the sender to last bit into the receiver.
    pub time_ns: Exact,
    /// How it was computed, over the names in `inputs`.
    pub formula: String,
    /// What it was computed from; the unit is in each name.
    pub inputs: Inputs,
    /// What was computed otherwise than asked, and why; a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Minimum one-way time of `payload` bytes over a path.
///
/// The packets of a message are assumed to leave back to back. For a READ this is the response alone; [`rtt_floor`]
/// adds the request, and says when a floor is a bound.
pub fn one_way_floor(path: &Path, stack: Stack, payload: u64) -> Result<Floor, Impossible> {
    let message = Message::cut(stack, path.mtu(stack)?, payload)?;
    floor(path, stack, &[("payload_bytes", payload, path, message)])
}

/// Minimum RTT of `request` bytes and a response of `response` bytes over a path. A READ's request has 0 bytes.
///
/// A bound for UDP and verbs, whose packets are assumed to be as full as the path allows, and for TCP without
/// options. Conditional for TCP with options, and for TCP through store-and-forward switches, where a stack that
/// sends more segments than necessary is faster. Also conditional if a switch is assumed to read more bytes than
/// necessary. TCP's acknowledgements do not delay a message that fits the window.
pub fn rtt_floor(
    path: &Path,
    stack: Stack,
    request: u64,
    response: u64,
) -> Result<Floor, Impossible> {
    let mtu = path.mtu(stack)?;
    let asking = match stack {
        Stack::Rc { operation: Operation::Read, .. } if request > 0 => {
            return Err(Impossible::ReadRequest(request));
        }
        Stack::Rc { operation: Operation::Read, .. } => Message::single(verbs_packet(RETH, 0)),
        _ => Message::cut(stack, mtu, request)?,
    };
    let answer = Message::cut(stack, mtu, response)?;
    let back = path.reversed();
    let ways =
        [("request_bytes", request, path, asking), ("response_bytes", response, &back, answer)];
    floor(path, stack, &ways)
}

/// A message over a path: the input name of its length, its length in bytes, the path, and its packets.
type Way<'a> = (&'static str, u64, &'a Path, Message);

/// A time in ns, the formula, and its inputs.
type Computed = (Exact, &'static str, Inputs);

/// Sum over consecutive messages.
fn floor(path: &Path, stack: Stack, ways: &[Way<'_>]) -> Result<Floor, Impossible> {
    let (time_ns, formula, mut inputs) = match uniform(path) {
        Some((link, switch)) => closed(path, link, switch, stack, ways)?,
        None => recurrence(path, stack, ways)?,
    };
    for &(name, bytes, ..) in ways {
        inputs.insert(name.to_owned(), bytes.into());
    }
    let first = path.hops.first().ok_or(Impossible::EmptyPath)?;
    describe(&mut inputs, first.link, stack);
    let propagation_ns = ways.len() as u64 * path.propagation_ns.0;
    inputs.insert("propagation_ns".to_owned(), propagation_ns.into());
    let (kind, notes) = judged(path, stack);
    Ok(Floor { kind, time_ns, formula: formula.to_owned(), inputs, notes })
}

/// The common link and switch of a path that has only one kind of each and for which [`closed`] holds: no switch
/// reads more bytes than every packet has.
fn uniform(path: &Path) -> Option<(Link, Switch)> {
    let (first, others) = path.hops.split_first()?;
    let switch = others.first().map_or_else(Switch::default, |hop| hop.switch.unwrap_or_default());
    let is_same =
        others.iter().all(|hop| hop.link == first.link && hop.switch.unwrap_or_default() == switch);
    let default = look_default(first.link);
    let is_short = switch.look_bytes.is_none_or(|look| look <= default);
    (is_same && is_short).then_some((first.link, switch))
}

/// Closed form for equal links and switches (a proportionate flow shop): each switch adds the time of the largest
/// packet, or of the bytes that a cut-through switch reads.
fn closed(
    path: &Path,
    link: Link,
    switch: Switch,
    stack: Stack,
    ways: &[Way<'_>],
) -> Result<Computed, Impossible> {
    let switches = path.hops.len() as u64 - 1;
    let rate = rate_of(link)?;
    let gap = gap(link);
    let (mut packets, mut packet_bytes, mut gap_bytes, mut switch_bytes) = (0u64, 0u64, 0u64, 0u64);
    for (.., message) in ways {
        let load = Load::of(link, stack.family(), message)?;
        packets = packets.saturating_add(load.packets);
        // The last bit of a packet arrives before the gap after it.
        packet_bytes = packet_bytes.saturating_add(load.wire_bytes - load.packets * gap);
        gap_bytes = gap_bytes.saturating_add((load.packets - 1) * gap);
        switch_bytes += switches
            * match switch.mode {
                Switching::StoreAndForward => largest(link, stack, message),
                Switching::CutThrough => switch.look_bytes.unwrap_or(look_default(link)),
            };
    }
    let count = ways.len() as u128;
    let delay_ns = count * u128::from(switches) * u128::from(switch.delay_ns.0);
    let still_ns = delay_ns + count * u128::from(path.propagation_ns.0);
    let bytes = u128::from(packet_bytes) + u128::from(gap_bytes) + u128::from(switch_bytes);
    let time_ns = (8_000_000_000 * bytes)
        .checked_mul(rate.denominator())
        .and_then(|sent| sent.checked_add(still_ns.checked_mul(rate.numerator())?))
        .and_then(|sum| Exact::new(sum, rate.numerator()))
        .ok_or(Impossible::TooLarge)?;
    let formula =
        "8e9 * (packet_bytes + gap_bytes + switch_bytes) / rate_bps + delay_ns + propagation_ns";
    let inputs = inputs([
        ("link", link.to_string().into()),
        ("rate_bps", rate.into()),
        ("switches", switches.into()),
        ("packets", packets.into()),
        ("packet_bytes", packet_bytes.into()),
        ("gap_bytes", gap_bytes.into()),
        ("switch_bytes", switch_bytes.into()),
        ("delay_ns", u64::try_from(delay_ns).unwrap_or(u64::MAX).into()),
    ]);
    Ok((time_ns, formula, inputs))
}

/// Largest packet on the wire in bytes. It may be the last: only that fragment may end beyond an 8-byte boundary.
fn largest(link: Link, stack: Stack, message: &Message) -> u64 {
    let runs = message.runs.iter().filter(|run| run.count > 0);
    let frames = runs.flat_map(|run| on_wire(link, stack.family(), run.bytes));
    frames.filter(|frame| frame.count > 0).map(|frame| frame.bytes).max().unwrap_or(0)
}

/// Recurrence for different links or switches: follows each packet from link to link.
fn recurrence(path: &Path, stack: Stack, ways: &[Way<'_>]) -> Result<Computed, Impossible> {
    let (mut time, mut packets) = (Some(Exact::ZERO), 0u64);
    for (_, _, path, message) in ways {
        let (arrived, slowest) = arrival_ns(path, stack, message).ok_or(Impossible::TooLarge)?;
        packets = packets.saturating_add(slowest);
        time = time.and_then(|time| time.plus(arrived));
    }
    let formula = "start(i,h) = max(came(i,h) + delay(h), end(i-1,h) + gap(h)); \
                   end(i,h) = start(i,h) + bytes(i,h) / rate(h); \
                   came(i,h) = end(i,h-1), or through a cut-through switch \
                   start(i,h-1) + look(h) / rate(h-1); end of the last + propagation_ns";
    let inputs = inputs([("path", path.to_string().into()), ("packets", packets.into())]);
    Ok((time.ok_or(Impossible::TooLarge)?, formula, inputs))
}

/// Arrival time of a message in ns, and its number of packets on the last link. `None` on overflow of 128 bits, or
/// without a wire, which [`Path::mtu`] has already rejected.
fn arrival_ns(path: &Path, stack: Stack, message: &Message) -> Option<(Exact, u64)> {
    let links = path.links();
    // Time of a byte on each link, and a unit of time that divides them all.
    let byte_ns = |link: &Link| {
        let rate = link.rate_bps()?;
        Exact::new(8_000_000_000u128.checked_mul(rate.denominator())?, rate.numerator())
    };
    let byte_ns = links.iter().map(byte_ns).collect::<Option<Vec<_>>>()?;
    let units_per_ns = byte_ns.iter().try_fold(1, |units, byte| lcm(units, byte.denominator()))?;
    let mut stages: Vec<Stage> = Vec::with_capacity(links.len());
    let (mut most, mut packets) = (0u128, 0);
    for ((&link, byte), hop) in links.iter().zip(&byte_ns).zip(&path.hops) {
        let switch = hop.switch.unwrap_or_default();
        let byte_time = (units_per_ns / byte.denominator()).checked_mul(byte.numerator())?;
        let (entry, delay) = match stages.last() {
            Some(before) => {
                let delay = units_per_ns.checked_mul(u128::from(switch.delay_ns.0))?;
                (entry(before.link, link, switch), delay)
            }
            None => (Entry::Packet, 0),
        };
        let load = Load::of(link, stack.family(), message).ok()?;
        packets = load.packets;
        // No sum exceeds two times of each packet on each link.
        let twice = byte_time.checked_mul(2 * u128::from(load.wire_bytes))?;
        most = most.checked_add(twice)?.checked_add(delay)?;
        stages.push(Stage { link, byte_time, entry, delay });
    }
    let arrived = Exact::new(arrival(&stages, stack.family(), message), units_per_ns)?;
    let still = Exact::new(u128::from(path.propagation_ns.0), 1)?;
    Some((arrived.plus(still)?, packets))
}

/// What the switch between two links waits for before it sends.
fn entry(from: Link, to: Link, switch: Switch) -> Entry {
    if !is_switched(from, to) {
        return Entry::Whole;
    }
    match switch.mode {
        Switching::StoreAndForward => Entry::Packet,
        // A faster egress would run out of bytes to send.
        Switching::CutThrough if to.rate_bps() > from.rate_bps() => Entry::Packet,
        Switching::CutThrough => Entry::Bytes(switch.look_bytes.unwrap_or(look_default(from))),
    }
}

/// The kind of a floor, and notes on what was computed differently than requested.
fn judged(path: &Path, stack: Stack) -> (Kind, Vec<String>) {
    let mut notes = Vec::new();
    let (mut stores, mut assumes) = (false, false);
    for pair in path.hops.windows(2) {
        let (from, to) = (pair[0].link, pair[1].link);
        let switch = pair[1].switch.unwrap_or_default();
        let entry = entry(from, to, switch);
        stores |= !matches!(entry, Entry::Bytes(_));
        match (switch.mode, entry) {
            (Switching::CutThrough, Entry::Whole) => notes.push(format!(
                "{from} and {to} have different framing, so the cut-through switch between them is \
                 computed as a store-and-forward router"
            )),
            (Switching::CutThrough, Entry::Packet) => notes.push(format!(
                "{to} is faster than {from}, so the cut-through switch between them is computed as \
                 store-and-forward"
            )),
            (_, Entry::Bytes(look)) if look > look_default(from) => {
                assumes = true;
                notes.push(format!(
                    "the switch between {from} and {to} is assumed to wait for {look} bytes, \
                     although it can forward after {}",
                    look_default(from)
                ));
            }
            _ => {}
        }
    }
    if let Stack::Rc { operation: Operation::Read, .. } = stack {
        notes.push("the payload of an RDMA READ is in the response".to_owned());
    }
    let is_bound = match stack {
        Stack::Tcp { option_bytes, .. } => option_bytes == 0 && !stores,
        Stack::Udp { .. } | Stack::Rc { .. } | Stack::Ud { .. } => true,
    };
    (if is_bound && !assumes { Kind::Bound } else { Kind::Conditional }, notes)
}

fn lcm(a: u128, b: u128) -> Option<u128> {
    let fraction = Exact::new(a, b)?;
    fraction.numerator().checked_mul(b)
}
