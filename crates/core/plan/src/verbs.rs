//! RDMA by verbs: which operations the patterns support, and how much memory they register.

use fabricmark_units::Bytes;

use crate::choice::{Cm, Operation, Pattern, Wait};
use crate::factor::{Factor, Point};
use crate::pace::Pace;
use crate::problem::{Contradiction, refuse};
use crate::transport::Transport;

/// Default number of requests in flight per direction: that of perftest's queues.
const DEPTH: u32 = 128;

/// Bytes of messages in flight that limit the default number of requests.
const SLOTS_BYTES: u64 = 64 << 20;

/// Largest memory that an end registers: it cannot be swapped out.
const REGISTERED_MAX: Bytes = Bytes(4 << 30);

/// Receive slots for datagrams, so that a receiver that stalls for a moment loses none, and the largest memory for
/// them.
const DATAGRAMS: u32 = 4096;
const DATAGRAMS_BYTES: u64 = 16 << 20;

/// Global routing header, which may precede a datagram (IBTA volume 1, section 11.4.1.2).
const ROUTE_HEADER_BYTES: u64 = 40;

/// Operand of an RDMA atomic.
const WORD: Bytes = Bytes(8);

impl Point {
    /// Smallest number of work requests in flight per direction: one can be prepared while another is in flight.
    pub(crate) const TX_DEPTH_MIN: u32 = 2;

    /// Largest number of work requests in flight per direction: 16 MiB of single packets. An adapter that supports
    /// fewer (`max_qp_wr` of ibv_devinfo -v) refuses the queue pair.
    pub(crate) const TX_DEPTH_MAX: u32 = 4096;

    /// Largest inline payload in bytes; adapters have room for some hundreds of bytes.
    pub(crate) const INLINE_MAX: u32 = 1024;

    /// Whether payloads travel in RDMA work requests of their sender, and are not fetched from its memory.
    pub(crate) fn sends_payloads(&self) -> bool {
        self.transport.is_verbs() && !self.operation.is_some_and(Operation::is_fetch)
    }

    /// Length of the longest RDMA message in bytes, and number of messages in flight per direction.
    pub fn verbs_slots(&self) -> (u64, u32) {
        let longest = self.response.map_or(self.payload, |response| response.max(self.payload)).0;
        let depth = self.tx_depth.unwrap_or_else(|| {
            let fits = u32::try_from(SLOTS_BYTES / longest.max(1)).unwrap_or(DEPTH);
            fits.min(DEPTH)
        });
        (longest, depth.max(Self::TX_DEPTH_MIN))
    }

    /// Number of RDMA messages that may have arrived and not been processed yet.
    pub fn verbs_arrivals(&self) -> u32 {
        let (longest, depth) = self.verbs_slots();
        if !self.transport.is_lossy() {
            return depth;
        }
        let fits = DATAGRAMS_BYTES / longest.saturating_add(ROUTE_HEADER_BYTES);
        depth.max(u32::try_from(fits).unwrap_or(DATAGRAMS).min(DATAGRAMS))
    }

    /// Memory that each end registers for RDMA, for all flows: slots for arriving messages, and for departing ones
    /// a single slot, or as many as are in flight if a slot must not change meanwhile.
    pub fn registered_bytes(&self) -> Bytes {
        let (longest, depth) = self.verbs_slots();
        let slots = |count: u32, bytes: u64| bytes.saturating_mul(count.into());
        let flow = match self.operation {
            None => 0,
            Some(Operation::Send | Operation::WriteImmediate) => {
                let arrivals = slots(self.verbs_arrivals(), longest + ROUTE_HEADER_BYTES);
                // Verified contents differ from message to message.
                let leaving = if self.verify == Some(true) { depth } else { 1 };
                arrivals.saturating_add(slots(leaving, longest))
            }
            Some(_) => slots(depth, longest).saturating_mul(2),
        };
        Bytes(flow.saturating_mul(self.flows.into()))
    }
}

/// Rejects work requests that are not supported, and more registered memory than an end may have.
pub(crate) fn check(point: &Point) -> Result<(), Contradiction> {
    let Point { pattern, transport, wait, payload, .. } = *point;
    let carried = transport.traits().operations;
    let Some(operation) = point.operation else {
        // Without one the memory of the run cannot be computed.
        return match carried.is_empty() {
            true => Ok(()),
            false => {
                let message = format!("{transport} needs an operation");
                refuse(Factor::Operation, message, "use operation=send")
            }
        };
    };
    if !carried.contains(&operation) {
        let words: Vec<&str> = carried.iter().map(|operation| operation.word()).collect();
        let message = format!("operation={operation} is not supported with {transport}");
        return refuse(Factor::Operation, message, format!("use operation={}", words.join(" or ")));
    }
    if operation.is_fetch() {
        let is_stream = pattern == Pattern::Stream && !operation.is_atomic();
        if pattern != Pattern::Rr && !is_stream {
            let message = format!("operation={operation} is not supported with {pattern}");
            let help =
                if operation.is_atomic() { "use pattern=rr" } else { "use pattern=rr or stream" };
            return refuse(Factor::Operation, message, help);
        }
        if is_stream && point.pace != Pace::Closed {
            let message = format!(
                "pace={} is not supported with operation={operation}: the receiver reads",
                point.pace
            );
            return refuse(Factor::Pace, message, "use pace=closed, or operation=write");
        }
        if point.response.is_some_and(|response| response != payload) {
            let message = format!(
                "response is not supported with operation={operation}, which \
                                   fetches the payload"
            );
            return refuse(Factor::Response, message, "leave out response");
        }
    }
    if let Some(bytes) = point.inline.filter(|&bytes| bytes > Point::INLINE_MAX) {
        let message = format!("inline={bytes} exceeds the maximum of {} bytes", Point::INLINE_MAX);
        return refuse(Factor::Inline, message, "use a smaller value");
    }
    if operation.is_atomic() && payload != WORD {
        let message = format!("operation={operation} needs payload=8, not {}", payload.0);
        return refuse(Factor::Payload, message, "use payload=8");
    }
    if operation == Operation::Write {
        if pattern == Pattern::Burst {
            let message = "operation=write signals no completion, which a burst needs for its \
                           answer";
            return refuse(Factor::Operation, message, "use operation=send or write-imm");
        }
        if pattern != Pattern::Stream && wait != Wait::Spin {
            let message = format!(
                "operation=write signals no completion at the receiver, so wait={wait} cannot work"
            );
            return refuse(Factor::Wait, message, "use wait=spin, or operation=write-imm");
        }
    }
    if point.cm == Some(Cm::Rdma) && transport != Transport::Rc {
        let message = format!("cm=rdma is not supported with {transport}");
        return refuse(Factor::Cm, message, "leave out cm, or use transport=rc");
    }
    let (_, depth) = point.verbs_slots();
    if let Some(every) = point.cq_mod.filter(|&every| every > depth) {
        let message = format!("cq_mod={every} leaves all {depth} work requests unsignalled");
        return refuse(Factor::CqMod, message, "use a smaller cq_mod or a larger tx_depth");
    }
    let bytes = point.registered_bytes();
    if bytes > REGISTERED_MAX || depth > Point::TX_DEPTH_MAX {
        let message = format!("{depth} work requests per flow register {bytes} of memory");
        let help =
            format!("reduce tx_depth, payload or flows to at most {REGISTERED_MAX} in total");
        return refuse(Factor::TxDepth, message, help);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{overlay, resolve};

    fn point(levels: &str) -> Result<Point, Contradiction> {
        let levels = format!("family=4,link=veth,{levels}");
        let levels =
            if levels.contains("transport=") { levels } else { format!("transport=rc,{levels}") };
        resolve(&overlay(&levels).unwrap())
    }

    #[test]
    fn what_is_under_way_is_128_requests_or_what_fits_into_64_mib() {
        for (levels, slots) in [
            ("pattern=stream,payload=64", (64, 128)),
            ("pattern=stream,payload=1MiB", (1 << 20, 64)),
            ("pattern=stream,payload=64MiB", (64 << 20, 2)),
            ("pattern=stream,payload=1GiB", (1 << 30, 2)),
            ("pattern=rr,payload=64,response=2MiB", (2 << 20, 32)),
            ("pattern=stream,payload=1MiB,tx_depth=300", (1 << 20, 300)),
        ] {
            assert_eq!(point(levels).unwrap().verbs_slots(), slots, "{levels}");
        }
    }

    #[test]
    fn an_operation_is_carried_by_the_patterns_that_it_can_be() {
        let send = point("pattern=burst,payload=64").unwrap();
        assert_eq!(send.operation, Some(Operation::Send));
        for carried in [
            "pattern=burst,payload=64,operation=write-imm",
            "pattern=stream,payload=64,operation=write",
            "pattern=ping-pong,payload=64,operation=write,wait=spin",
            "pattern=rr,payload=64,operation=read,outstanding=16",
            "pattern=stream,payload=64,operation=read",
            "pattern=rr,payload=8,operation=fetch-add",
            "pattern=stream,payload=1MiB,operation=write-imm,transport=uc",
            "pattern=rr,payload=4096,transport=ud",
            "pattern=ping-ping,payload=1MiB,operation=write-imm,cm=rdma,verify=true",
            "pattern=stream,payload=1GiB,operation=write",
        ] {
            assert!(point(carried).is_ok(), "{carried}");
        }
        for (refused, factor) in [
            ("pattern=ping-pong,payload=64,operation=read", Factor::Operation),
            ("pattern=stream,payload=8,operation=fetch-add", Factor::Operation),
            ("pattern=stream,payload=64,operation=read,pace=fixed:1M", Factor::Pace),
            ("pattern=rr,payload=64,operation=read,response=1", Factor::Response),
            ("pattern=rr,payload=64,operation=compare-swap", Factor::Payload),
            ("pattern=burst,payload=64,operation=write", Factor::Operation),
            ("pattern=rr,payload=64,operation=write,wait=block", Factor::Wait),
            ("pattern=stream,payload=64,wait=busy-poll", Factor::Wait),
            ("pattern=stream,payload=64,tx_depth=8,cq_mod=9", Factor::CqMod),
            ("pattern=stream,payload=64MiB,tx_depth=65", Factor::TxDepth),
            ("pattern=rr,payload=64,operation=read,transport=uc", Factor::Operation),
            ("pattern=stream,payload=64,operation=write-imm,transport=ud", Factor::Operation),
            ("pattern=stream,payload=4097,transport=ud", Factor::Payload),
            ("pattern=stream,payload=64,transport=uc,cm=rdma", Factor::Cm),
            ("pattern=ping-ping,payload=64,transport=ud", Factor::Pattern),
            ("pattern=ping-ping,payload=64,flows=2,wait=epoll", Factor::Wait),
            ("pattern=ping-ping,payload=1MiB,transport=tcp,congestion=cubic", Factor::Wait),
            ("pattern=stream,payload=65MiB,transport=tcp,congestion=cubic", Factor::Payload),
        ] {
            assert_eq!(point(refused).unwrap_err().factor, factor, "{refused}");
        }
    }

    #[test]
    fn memory_is_that_of_what_arrives_and_of_what_may_not_be_touched() {
        for (levels, bytes) in [
            ("pattern=stream,payload=64", 128 * (64 + 40) + 64),
            ("pattern=stream,payload=64,operation=write", 2 * 128 * 64),
            ("pattern=rr,payload=1MiB,operation=read", 2 * (64 << 20)),
            ("pattern=stream,payload=960,transport=ud", 4096 * 1000 + 960),
            ("pattern=stream,payload=64,operation=write,flows=3", 3 * 2 * 128 * 64),
            ("pattern=stream,payload=64,verify=true", 128 * (64 + 40) + 128 * 64),
        ] {
            assert_eq!(point(levels).unwrap().registered_bytes(), Bytes(bytes), "{levels}");
        }
        let tcp = "pattern=stream,payload=64,transport=tcp,congestion=cubic";
        assert_eq!(point(tcp).unwrap().registered_bytes(), Bytes(0));
    }

    #[test]
    fn what_is_said_of_requests_is_left_out_of_other_transports() {
        let levels = "pattern=stream,transport=tcp,congestion=cubic,family=4,link=veth,payload=64,operation=write,\
                      depth=9,inline=0";
        let point = resolve(&overlay(levels).unwrap()).unwrap();
        assert_eq!((point.operation, point.tx_depth, point.inline), (None, None, None));
    }

    #[test]
    fn reads_and_atomics_are_never_inline_and_each_is_signalled() {
        for (operation, level) in [("send", Some(4)), ("read", None), ("fetch-add", None)] {
            let levels = format!("pattern=rr,payload=8,operation={operation},inline=4,cq_mod=4");
            let point = point(&levels).unwrap();
            assert_eq!((point.inline, point.cq_mod), (level, level), "{operation}");
        }
    }
}
