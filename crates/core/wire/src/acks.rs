//! Cost of acknowledgements in a direction that also carries payload.
//!
//! One flow on a full-duplex link has no such cost. Two opposing flows have, and so has one flow on a half-duplex
//! medium; the cost is the same in both cases.

use crate::ceiling::{best_packet, share};
use crate::frame::{AETH, RETH, wire_bytes};
use crate::message::{Message, segment_room, verbs_packet};
use crate::{Ceiling, Impossible, Kind, Link, Operation, Stack, goodput, stream_goodput};

/// How often the receiver sends an acknowledgement packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acks {
    /// Never: acknowledgements are piggybacked on payload, or too rare to matter.
    Free,
    /// For every second segment (RFC 9293, delayed acknowledgements), or every second message.
    EveryOther,
    /// For each segment or message.
    Each,
}

impl Acks {
    /// Acknowledgements per two segments or messages.
    fn of_two(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::EveryOther => 1,
            Self::Each => 2,
        }
    }
}

/// Bytes on the wire of an acknowledgement, gap included: a TCP segment without payload, or an ACK packet of a
/// reliable connection. For a READ, whose response is not acknowledged, the request.
pub fn ack_wire_bytes(link: Link, stack: Stack) -> Result<u64, Impossible> {
    let mtu = stack.mtu_over(link)?;
    let packet = match stack {
        Stack::Udp { .. } | Stack::Ud { .. } => return Err(Impossible::NoAcks),
        Stack::Tcp { family, option_bytes } => mtu - segment_room(family, mtu, option_bytes)?,
        Stack::Rc { operation: Operation::Read, .. } => verbs_packet(RETH, 0),
        Stack::Rc { .. } => verbs_packet(AETH, 0),
    };
    Ok(wire_bytes(link, stack.family(), packet))
}

/// Ceiling of a TCP stream in a direction that also carries the acknowledgements of an equal stream: each of two
/// opposing streams, or one stream on a half-duplex medium.
///
/// The kind is that of [`stream_goodput`] for [`Acks::Free`], else conditional.
pub fn shared_stream_goodput(link: Link, stack: Stack, acks: Acks) -> Result<Ceiling, Impossible> {
    if !matches!(stack, Stack::Tcp { .. }) {
        return Err(Impossible::NoAcks);
    }
    let best = best_packet(link, stack, stack.mtu_over(link)?)?;
    let stream = stream_goodput(link, stack)?;
    shared(link, stack, acks, stream, "mss_bytes", best.payload, best.wire_bytes)
}

/// Ceiling of messages of `payload` bytes on a reliable connection, in a direction that also carries the
/// acknowledgements of equal messages.
///
/// A bound for [`Acks::Free`], because the receiver may coalesce acknowledgements; else conditional.
pub fn shared_goodput(
    link: Link,
    stack: Stack,
    payload: u64,
    acks: Acks,
) -> Result<Ceiling, Impossible> {
    if !matches!(stack, Stack::Rc { .. }) {
        return Err(Impossible::NoAcks);
    }
    let alone = goodput(link, stack, payload)?;
    let message = Message::cut(stack, stack.mtu_over(link)?, payload)?;
    let load = crate::ceiling::Load::of(link, stack.family(), &message)?;
    shared(link, stack, acks, alone, "payload_bytes", payload, load.wire_bytes)
}

/// `alone`, reduced by the acknowledgements of two units (segments or messages).
fn shared(
    link: Link,
    stack: Stack,
    acks: Acks,
    alone: Ceiling,
    part: &str,
    part_bytes: u64,
    whole_bytes: u64,
) -> Result<Ceiling, Impossible> {
    let ack_bytes = ack_wire_bytes(link, stack)?;
    let two_bytes = acks.of_two() * ack_bytes + 2 * whole_bytes;
    let mut inputs = alone.inputs;
    inputs.insert("ack_wire_bytes".to_owned(), ack_bytes.into());
    inputs.insert("acks_of_two".to_owned(), acks.of_two().into());
    let kind = if acks == Acks::Free { alone.kind } else { Kind::Conditional };
    let formula =
        format!("rate_bps * 2 * {part} / (2 * wire_bytes + acks_of_two * ack_wire_bytes)");
    share(link, 2 * part_bytes, two_bytes, kind, formula, inputs)
}
