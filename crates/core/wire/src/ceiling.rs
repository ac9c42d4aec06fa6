//! Upper bounds on goodput: full duplex, steady state, application bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exact::inputs;
use crate::frame::{UDP_HEADER, on_wire, wire_bytes};
use crate::message::{Message, immediate_bytes, segment_room, verbs_packet};
use crate::{
    Exact, Family, Impossible, Input, Inputs, Ipoib, IpoibMode, Kind, Link, Operation, Stack,
};

/// The most application bits per second that a link carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// How firmly it stands; only a bound may be tested against.
    pub kind: Kind,
    /// Application payload in bit/s.
    pub goodput_bps: Exact,
    /// How it was computed, over the names in `inputs`.
    pub formula: String,
    /// What it was computed from; the unit is in each name.
    pub inputs: Inputs,
}

impl Ceiling {
    /// Ceiling of both directions together on a full-duplex link, with the load of this one in each. The kind is the
    /// same, because the acknowledgements in each direction are ignored.
    #[must_use]
    pub fn both_ways(self) -> Self {
        let formula = format!("{BOTH_WAYS}{}", self.formula);
        Self { goodput_bps: self.goodput_bps.doubled(), formula, ..self }
    }

    /// Whether this is a ceiling of [`Self::both_ways`].
    pub fn is_of_both_ways(&self) -> bool {
        self.formula.starts_with(BOTH_WAYS)
    }

    /// How often the payload crosses a half-duplex medium: twice, if it passes a relay there.
    pub fn crossings(&self) -> u64 {
        match self.inputs.get(CROSSINGS) {
            Some(&Input::Number(times)) => times,
            _ => 1,
        }
    }

    /// Ceiling of payload that crosses a half-duplex medium with this ceiling several times. The kind is the same,
    /// because acknowledgements are ignored.
    pub(crate) fn crossing(self, times: u64) -> Result<Self, Impossible> {
        if times <= 1 {
            return Ok(self);
        }
        let goodput_bps = self.goodput_bps.scaled(1, times.into()).ok_or(Impossible::TooLarge)?;
        let mut inputs = self.inputs;
        inputs.insert(CROSSINGS.to_owned(), times.into());
        let formula = format!("{} / crossings", self.formula);
        Ok(Self { goodput_bps, formula, inputs, ..self })
    }

    /// Ceiling of a TLS stream over a TCP stream with this ceiling, with writes of `payload` bytes. The kind is the
    /// same, because no record holds bytes of two writes, and splitting a record only adds overhead.
    pub fn in_tls_records(self, payload: u64) -> Result<Self, Impossible> {
        let record_bytes = TLS_RECORD_OVERHEAD * payload.div_ceil(TLS_RECORD_MAX);
        let (part, whole) = (u128::from(payload), u128::from(payload) + u128::from(record_bytes));
        let goodput_bps = self.goodput_bps.scaled(part, whole).ok_or(Impossible::TooLarge)?;
        let formula =
            format!("{} * plaintext_bytes / (plaintext_bytes + record_bytes)", self.formula);
        let mut inputs = self.inputs;
        // Not `payload_bytes`, which marks ceilings of single writes.
        inputs.insert("plaintext_bytes".to_owned(), payload.into());
        inputs.insert("record_bytes".to_owned(), record_bytes.into());
        Ok(Self { goodput_bps, formula, inputs, ..self })
    }
}

/// Start of the formula of [`Ceiling::both_ways`].
const BOTH_WAYS: &str = "2 * ";

/// Input of [`Ceiling::crossings`].
const CROSSINGS: &str = "crossings";

/// Maximum plaintext of a TLS 1.3 record (RFC 8446, section 5.1), and the overhead of a record: a header of 5 bytes,
/// a type of 1 and an authentication tag of 16 (sections 5.2 and 5.3).
const TLS_RECORD_MAX: u64 = 1 << 14;
const TLS_RECORD_OVERHEAD: u64 = 22;

/// Minimum overhead of QUIC in bytes per datagram: short header 1 and packet number 1 (RFC 9000, section 17.3.1),
/// type 1 and stream ID 1 of a STREAM frame (section 19.8), authentication tag 16 (RFC 9001, section 5.3).
const QUIC_OVERHEAD: u64 = 20;

/// Maximum number of packets that [`packets`] lists.
const PACKETS_MAX: u64 = 1 << 24;

/// Ceiling of messages of `payload` bytes that are not merged.
///
/// A bound for UDP and verbs; for UDP it assumes the greedy fragmentation of [`fragments`](crate::fragments). Always
/// conditional for TCP: a stack that merges small writes (Nagle, corking, send offload) exceeds it.
pub fn goodput(link: Link, stack: Stack, payload: u64) -> Result<Ceiling, Impossible> {
    goodput_within(link, stack, stack.mtu_over(link)?, payload)
}

/// [`goodput`] with packets of `mtu` bytes, which another link of the path may determine.
pub(crate) fn goodput_within(
    link: Link,
    stack: Stack,
    mtu: u64,
    payload: u64,
) -> Result<Ceiling, Impossible> {
    let load = Load::of(link, stack.family(), &Message::cut(stack, mtu, payload)?)?;
    let mut inputs = inputs([
        ("payload_bytes", payload.into()),
        ("packets", load.packets.into()),
        ("wire_bytes", load.wire_bytes.into()),
    ]);
    describe(&mut inputs, link, stack);
    let kind = if let Stack::Tcp { .. } = stack { Kind::Conditional } else { Kind::Bound };
    let formula = "rate_bps * payload_bytes / wire_bytes".to_owned();
    share(link, payload, load.wire_bytes, kind, formula, inputs)
}

/// Ceiling of a stream: TCP segments of the best size for the link, or verbs messages that are long or fill a packet.
///
/// A bound for TCP without options, for any size of write. With options (12 bytes for timestamps) it holds only if
/// every segment carries them. A bound for verbs, for any size of message.
pub fn stream_goodput(link: Link, stack: Stack) -> Result<Ceiling, Impossible> {
    stream_goodput_within(link, stack, stack.mtu_over(link)?)
}

/// [`stream_goodput`] with packets of `mtu` bytes, which another link of the path may determine.
pub(crate) fn stream_goodput_within(
    link: Link,
    stack: Stack,
    mtu: u64,
) -> Result<Ceiling, Impossible> {
    let best = best_packet(link, stack, mtu)?;
    let mut inputs = inputs([("wire_bytes", best.wire_bytes.into())]);
    describe(&mut inputs, link, stack);
    let name = if stack.is_verbs() { "packet_payload_bytes" } else { "mss_bytes" };
    inputs.insert(name.to_owned(), best.payload.into());
    let is_bound = stack.is_verbs() || matches!(stack, Stack::Tcp { option_bytes: 0, .. });
    let kind = if is_bound { Kind::Bound } else { Kind::Conditional };
    let formula = format!("rate_bps * {name} / wire_bytes");
    share(link, best.payload, best.wire_bytes, kind, formula, inputs)
}

/// Ceiling of a QUIC stream in datagrams of the size that suits the link best. A bound for any implementation: no
/// datagram exceeds the MTU (RFC 9000, section 14), and no packet has less overhead than `QUIC_OVERHEAD`.
pub fn quic_goodput(link: Link, family: Family) -> Result<Ceiling, Impossible> {
    let mtu = Stack::Udp { family }.mtu_over(link)?;
    let headers = family.header_bytes() + UDP_HEADER;
    let best = best_ip_packet(link, family, mtu, headers + QUIC_OVERHEAD)?;
    let inputs = inputs([
        ("family", u64::from(u8::from(family)).into()),
        ("datagram_bytes", (best.payload + QUIC_OVERHEAD).into()),
        ("overhead_bytes", QUIC_OVERHEAD.into()),
        ("wire_bytes", best.wire_bytes.into()),
    ]);
    let formula = "rate_bps * (datagram_bytes - overhead_bytes) / wire_bytes".to_owned();
    share(link, best.payload, best.wire_bytes, Kind::Bound, formula, inputs)
}

/// Maximum rate in packets/s of IP packets of `ip_packet` bytes, header included. A bound.
pub fn packet_rate(link: Link, ip_packet: u64) -> Result<Exact, Impossible> {
    let mtu = Stack::Udp { family: Family::V4 }.mtu_over(link)?;
    if ip_packet > mtu {
        return Err(Impossible::Packet { bytes: ip_packet, link });
    }
    let bits = 8 * u128::from(wire_bytes(link, Family::V4, ip_packet));
    rate_of(link)?.scaled(1, bits).ok_or(Impossible::TooLarge)
}

/// Bytes on the wire of each packet of one message, in order. On Ethernet from preamble through FCS, without the gap;
/// on InfiniBand from LRH through variant CRC. For a READ, those of the response.
pub fn packets(link: Link, stack: Stack, payload: u64) -> Result<Vec<u64>, Impossible> {
    let message = Message::cut(stack, stack.mtu_over(link)?, payload)?;
    let count = Load::of(link, stack.family(), &message)?.packets;
    if count > PACKETS_MAX {
        return Err(Impossible::TooManyPackets(count));
    }
    let mut sizes = Vec::with_capacity(count as usize);
    for run in message.runs.iter().filter(|run| run.count > 0) {
        let frames = on_wire(link, stack.family(), run.bytes);
        let packet = frames.iter().flat_map(|frame| (0..frame.count).map(|_| frame.bytes));
        sizes.extend((0..run.count).flat_map(|_| packet.clone()));
    }
    Ok(sizes)
}

/// Link capacity that a message uses.
pub(crate) struct Load {
    /// Packets on the wire: Ethernet frames, or InfiniBand packets.
    pub packets: u64,
    /// Bytes of these packets, gaps included.
    pub wire_bytes: u64,
}

impl Load {
    pub fn of(link: Link, family: Family, message: &Message) -> Result<Self, Impossible> {
        let (mut packets, mut bytes) = (0u64, 0u64);
        for run in message.runs.iter().filter(|run| run.count > 0) {
            let each = on_wire(link, family, run.bytes);
            let per_packet = each[0].count + each[1].count;
            let add = |sum: u64, each: u64| sum.checked_add(run.count.checked_mul(each)?);
            packets = add(packets, per_packet).ok_or(Impossible::TooLarge)?;
            bytes = add(bytes, wire_bytes(link, family, run.bytes)).ok_or(Impossible::TooLarge)?;
        }
        Ok(Self { packets, wire_bytes: bytes })
    }
}

/// A packet of a stream.
pub(crate) struct Packet {
    /// Application bytes.
    pub payload: u64,
    /// Bytes on the wire, gap included.
    pub wire_bytes: u64,
}

/// The packet with the best ratio of application bytes to bytes on the wire.
pub(crate) fn best_packet(link: Link, stack: Stack, mtu: u64) -> Result<Packet, Impossible> {
    match stack {
        Stack::Udp { .. } => Err(Impossible::NoStream),
        Stack::Tcp { family, option_bytes } => {
            let headers = mtu - segment_room(family, mtu, option_bytes)?;
            best_ip_packet(link, family, mtu, headers)
        }
        // The middle packets of a message have no extended transport headers.
        Stack::Rc { family, .. } => {
            Ok(Packet { payload: mtu, wire_bytes: wire_bytes(link, family, verbs_packet(0, mtu)) })
        }
        Stack::Ud { family, .. } => {
            let Message { runs: [only, ..] } = Message::cut(stack, mtu, mtu)?;
            Ok(Packet { payload: mtu, wire_bytes: wire_bytes(link, family, only.bytes) })
        }
    }
}

/// The IP packet with `headers` bytes of headers that has the best ratio of payload to bytes on the wire.
///
/// This is the largest packet, unless InfiniBand would pad it or segment it with a short last packet. Then a packet
/// that ends on a 32-bit word or fills its last InfiniBand packet may be better. Between these sizes a larger payload
/// is always better, so only three candidates remain.
fn best_ip_packet(
    link: Link,
    family: Family,
    mtu: u64,
    headers: u64,
) -> Result<Packet, Impossible> {
    let mut sizes = [mtu; 3];
    if let Link::Ipoib(Ipoib { mode, ib_mtu, .. }) = link {
        // The 4-byte IPoIB header does not affect word alignment.
        sizes[1] = mtu / 4 * 4;
        if mode == IpoibMode::Connected {
            let ib_mtu = u64::from(ib_mtu);
            sizes[2] = ((mtu + 4) / ib_mtu * ib_mtu).saturating_sub(4);
        }
    }
    let packet =
        |size| Packet { payload: size - headers, wire_bytes: wire_bytes(link, family, size) };
    let packets = sizes.into_iter().filter(|&size| size > headers).map(packet);
    let is_better = |a: &Packet, b: &Packet| a.payload * b.wire_bytes > b.payload * a.wire_bytes;
    let best = packets.reduce(|best, new| if is_better(&new, &best) { new } else { best });
    best.ok_or(Impossible::NoRoom(mtu))
}

/// Adds a description of the stack to the inputs of a figure.
pub(crate) fn describe(inputs: &mut Inputs, link: Link, stack: Stack) {
    let mut put = |name: &str, value: Input| inputs.insert(name.to_owned(), value);
    if !stack.is_verbs() || matches!(link, Link::RoceV2 { .. }) {
        put("family", u64::from(u8::from(stack.family())).into());
    }
    let (operation, immediate) = match stack {
        Stack::Udp { .. } => return,
        Stack::Tcp { option_bytes, .. } => {
            put("option_bytes", u64::from(option_bytes).into());
            return;
        }
        Stack::Rc { operation, immediate, .. } => (operation, immediate),
        Stack::Ud { immediate, .. } => (Operation::Send, immediate),
    };
    put("operation", operation.word().to_owned().into());
    put("immediate_bytes", immediate_bytes(immediate).into());
}

pub(crate) fn rate_of(link: Link) -> Result<Exact, Impossible> {
    link.rate_bps().ok_or(Impossible::NoWire(link))
}

/// Ceiling that is the fraction `part_bytes / whole_bytes` of the link's rate; adds link and rate to the inputs.
pub(crate) fn share(
    link: Link,
    part_bytes: u64,
    whole_bytes: u64,
    kind: Kind,
    formula: String,
    mut inputs: Inputs,
) -> Result<Ceiling, Impossible> {
    let rate = rate_of(link)?;
    inputs.insert("link".to_owned(), link.to_string().into());
    inputs.insert("rate_bps".to_owned(), rate.into());
    let goodput_bps = rate.scaled(u128::from(part_bytes), u128::from(whole_bytes));
    Ok(Ceiling { kind, goodput_bps: goodput_bps.ok_or(Impossible::TooLarge)?, formula, inputs })
}
