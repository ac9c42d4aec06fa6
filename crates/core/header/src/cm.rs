//! InfiniBand communication management (CM): the messages that set up and tear down a connection between two queue
//! pairs (P1, III.C). Each follows a management datagram (MAD) header in a UD packet between the QP1s of two ports.
//!
//! REQ, REP and RTU set up a connection, DREQ and DREP tear it down. The fixed part of a message is followed by
//! private data of its sender, up to [`MESSAGE_BYTES`] in all.

mod request;

pub use request::{ConnectRequest, ConnectRequestView};

use super::Format::{Decimal, Flag, Hex, Named};
use super::{Layout, header};

/// Number of the general services queue pair, which carries CM messages (IBTA vol. 1, chapter 13).
pub const QUEUE_PAIR: u32 = 1;
/// Q_Key of QP1 (Linux, `IB_QP1_QKEY`).
pub const QUEUE_KEY: u32 = 0x8001_0000;
/// Base version of management datagrams (IBTA vol. 1, 13.4.3).
pub const BASE_VERSION: u8 = 1;
/// Management class of CM (IBTA vol. 1, 13.4.4).
pub const CLASS: u8 = 0x07;
/// Class version of CM (IBTA vol. 1, 16.7).
pub const CLASS_VERSION: u8 = 2;
/// Method of every CM message, Send (IBTA vol. 1, 13.4.5).
pub const METHOD_SEND: u8 = 0x03;
/// Length in bytes of a message with its private data: a 256-byte MAD without its header (IBTA vol. 1, 13.4.2).
pub const MESSAGE_BYTES: usize = 256 - Mad::BYTES;

/// Attribute IDs, which identify the message (IBTA vol. 1, 16.7.3).
pub mod attribute {
    crate::named! {
        u16;
        /// [`ConnectRequest`](super::ConnectRequest), REQ.
        CONNECT_REQUEST = 0x0010, super::ConnectRequest::LAYOUT.title;
        /// [`ConnectReply`](super::ConnectReply), REP.
        CONNECT_REPLY = 0x0013, super::ConnectReply::LAYOUT.title;
        /// [`ReadyToUse`](super::ReadyToUse), RTU.
        READY_TO_USE = 0x0014, super::ReadyToUse::LAYOUT.title;
        /// [`DisconnectRequest`](super::DisconnectRequest), DREQ.
        DISCONNECT_REQUEST = 0x0015, super::DisconnectRequest::LAYOUT.title;
        /// [`DisconnectReply`](super::DisconnectReply), DREP.
        DISCONNECT_REPLY = 0x0016, super::DisconnectReply::LAYOUT.title;
    }
}

header! {
    /// Management datagram header.
    Mad, MadView: 24, "MAD", "Management Datagram Header", "IBTA vol. 1, 13.4.2";
    /// Base version, [`BASE_VERSION`].
    base_version: u8 = 0..8, "BaseVersion", Decimal, "13.4.3";
    /// Management class, [`CLASS`].
    class: u8 = 8..16, "MgmtClass", Named(&[(CLASS as u128, "communication management")]), "13.4.3";
    /// Class version, [`CLASS_VERSION`].
    class_version: u8 = 16..24, "ClassVersion", Decimal, "13.4.3";
    /// Response bit; always clear in CM messages, which all use method Send.
    response: bool = 24..25, "R", Flag, "13.4.3";
    /// Method, [`METHOD_SEND`].
    method: u8 = 25..32, "Method", Named(&[(METHOD_SEND as u128, "Send")]), "13.4.3";
    /// Status; 0 for success.
    status: u16 = 32..48, "Status", Hex, "13.4.3";
    /// Reserved for the class; 0 in CM messages.
    class_specific: u16 = 48..64, "ClassSpecific", Hex, "13.4.3";
    /// Identical in all messages of one transaction.
    transaction: u64 = 64..128, "TransactionID", Hex, "13.4.3";
    /// Message that follows, one of [`attribute`].
    attribute: u16 = 128..144, "AttributeID", Named(attribute::NAMES), "13.4.3";
    reserved_144: u16 = 144..160, "Reserved", Hex, "13.4.3";
    /// Attribute modifier; 0 in CM messages.
    attribute_modifier: u32 = 160..192, "AttributeModifier", Hex, "13.4.3";
}

header! {
    /// REP: accepts a connection.
    ConnectReply, ConnectReplyView: 36, "REP", "ConnectReply", "IBTA vol. 1, 12.6.8";
    /// Communication ID of the sender of this message.
    local_id: u32 = 0..32, "Local Communication ID", Hex, "12.6.8";
    /// Communication ID of the receiver of this message.
    remote_id: u32 = 32..64, "Remote Communication ID", Hex, "12.6.8";
    /// The sender's Q_Key, for reliable datagrams; else 0.
    local_qkey: u32 = 64..96, "Local Q_Key", Hex, "12.6.8";
    /// The sender's queue pair number.
    local_qp: u32 = 96..120, "Local QPN", Hex, "12.6.8";
    /// The sender's vendor ID, bits 23 to 16.
    vendor_high: u8 = 120..128, "Vendor ID (high)", Hex, "12.6.8";
    /// The sender's end-to-end context, for reliable datagrams; else 0.
    local_eec: u32 = 128..152, "Local EE Context Number", Hex, "12.6.8";
    /// The sender's vendor ID, bits 15 to 8.
    vendor_middle: u8 = 152..160, "Vendor ID (middle)", Hex, "12.6.8";
    /// PSN of the first packet to the sender.
    starting_psn: u32 = 160..184, "Starting PSN", Decimal, "12.6.8";
    /// The sender's vendor ID, bits 7 to 0.
    vendor_low: u8 = 184..192, "Vendor ID (low)", Hex, "12.6.8";
    /// Maximum number of outstanding RDMA READ and ATOMIC requests that the sender accepts.
    responder_resources: u8 = 192..200, "Responder Resources", Decimal, "12.6.8";
    /// Maximum number of outstanding RDMA READ and ATOMIC requests that the sender issues.
    initiator_depth: u8 = 200..208, "Initiator Depth", Decimal, "12.6.8";
    /// Maximum time until the sender acknowledges, coded: 4.096 us × 2^value.
    target_ack_delay: u8 = 208..213, "Target ACK Delay", Decimal, "12.6.8";
    /// Whether the alternate path is accepted: 0 yes, 1 not supported, 2 rejected.
    failover_accepted: u8 = 213..215, "Failover Accepted", Decimal, "12.6.8";
    /// The sender implements end-to-end flow control (credits).
    end_to_end_flow_control: bool = 215..216, "End-to-End Flow Control", Flag, "12.6.8";
    /// Retries after an RNR NAK from the sender; 7 for infinite.
    rnr_retry_count: u8 = 216..219, "RNR Retry Count", Decimal, "12.6.8";
    /// The sender uses a shared receive queue.
    shared_receive_queue: bool = 219..220, "SRQ", Flag, "12.6.8";
    reserved_220: u8 = 220..224, "Reserved", Hex, "12.6.8";
    /// GUID of the sender's channel adapter.
    local_ca_guid: u64 = 224..288, "Local CA GUID", Hex, "12.6.8";
}

header! {
    /// RTU: confirms the REP; data may flow.
    ReadyToUse, ReadyToUseView: 8, "RTU", "ReadyToUse", "IBTA vol. 1, 12.6.9";
    /// Communication ID of the sender of this message.
    local_id: u32 = 0..32, "Local Communication ID", Hex, "12.6.9";
    /// Communication ID of the receiver of this message.
    remote_id: u32 = 32..64, "Remote Communication ID", Hex, "12.6.9";
}

header! {
    /// DREQ: requests the end of a connection.
    DisconnectRequest, DisconnectRequestView: 12,
    "DREQ", "DisconnectRequest", "IBTA vol. 1, 12.6.10";
    /// Communication ID of the sender of this message.
    local_id: u32 = 0..32, "Local Communication ID", Hex, "12.6.10";
    /// Communication ID of the receiver of this message.
    remote_id: u32 = 32..64, "Remote Communication ID", Hex, "12.6.10";
    /// The receiver's queue pair number, or its end-to-end context for reliable datagrams.
    remote_qp: u32 = 64..88, "Remote QPN/EECN", Hex, "12.6.10";
    reserved_88: u8 = 88..96, "Reserved", Hex, "12.6.10";
}

header! {
    /// DREP: confirms the end of a connection.
    DisconnectReply, DisconnectReplyView: 8, "DREP", "DisconnectReply", "IBTA vol. 1, 12.6.11";
    /// Communication ID of the sender of this message.
    local_id: u32 = 0..32, "Local Communication ID", Hex, "12.6.11";
    /// Communication ID of the receiver of this message.
    remote_id: u32 = 32..64, "Remote Communication ID", Hex, "12.6.11";
}

impl Mad {
    /// MAD header of the CM message with this [`attribute`].
    pub fn new(attribute: u16, transaction: u64) -> Self {
        Self {
            base_version: BASE_VERSION,
            class: CLASS,
            class_version: CLASS_VERSION,
            method: METHOD_SEND,
            transaction,
            attribute,
            ..Self::default()
        }
    }
}

/// Layout of the message that follows the MAD header; `None` if the attribute is unknown.
pub fn message(attribute: u16) -> Option<&'static Layout> {
    Some(match attribute {
        attribute::CONNECT_REQUEST => ConnectRequest::LAYOUT,
        attribute::CONNECT_REPLY => ConnectReply::LAYOUT,
        attribute::READY_TO_USE => ReadyToUse::LAYOUT,
        attribute::DISCONNECT_REQUEST => DisconnectRequest::LAYOUT,
        attribute::DISCONNECT_REPLY => DisconnectReply::LAYOUT,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(a_mad_header_survives_the_wire, Mad, MadView);
    round_trip!(a_reply_survives_the_wire, ConnectReply, ConnectReplyView);
    round_trip!(a_ready_to_use_survives_the_wire, ReadyToUse, ReadyToUseView);
    round_trip!(a_disconnect_request_survives_the_wire, DisconnectRequest, DisconnectRequestView);
    round_trip!(a_disconnect_reply_survives_the_wire, DisconnectReply, DisconnectReplyView);

    #[test]
    fn the_header_tells_the_message() {
        let header = Mad::new(attribute::CONNECT_REPLY, 0x1234);
        let bytes = [
            1, 7, 2, 3, 0, 0, 0, 0, // version 1, class 7 in version 2, Send
            0, 0, 0, 0, 0, 0, 0x12, 0x34, // transaction
            0, 0x13, 0, 0, 0, 0, 0, 0, // attribute
        ];
        assert_eq!(header.to_bytes(), bytes);
        assert_eq!(message(0x0013).unwrap().name, "REP");
        assert!(message(0x0011).is_none());
    }

    #[test]
    fn each_message_leaves_room_for_private_data() {
        for (attribute, private_bytes) in [
            (attribute::CONNECT_REQUEST, 92),
            (attribute::CONNECT_REPLY, 196),
            (attribute::READY_TO_USE, 224),
            (attribute::DISCONNECT_REQUEST, 220),
            (attribute::DISCONNECT_REPLY, 224),
        ] {
            let layout = message(attribute).unwrap();
            assert_eq!(MESSAGE_BYTES - layout.bytes, private_bytes, "{}", layout.name);
        }
    }

    #[test]
    fn a_reply_is_read_as_tshark_reads_it() {
        let mut bytes = [0; ConnectReply::BYTES];
        bytes[..8].copy_from_slice(&[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        bytes[12..15].copy_from_slice(&[0x00, 0x04, 0x07]);
        bytes[20..23].copy_from_slice(&[0x00, 0x00, 0x07]);
        bytes[24..28].copy_from_slice(&[4, 5, 0x7c, 0xf0]);
        let (reply, _) = ConnectReplyView::of(&bytes).unwrap();
        assert_eq!((reply.local_id(), reply.remote_id()), (0x1122_3344, 0x5566_7788));
        assert_eq!((reply.local_qp(), reply.starting_psn()), (0x407, 7));
        assert_eq!((reply.responder_resources(), reply.initiator_depth()), (4, 5));
        assert_eq!((reply.target_ack_delay(), reply.failover_accepted()), (15, 2));
        assert!(!reply.end_to_end_flow_control());
        assert_eq!((reply.rnr_retry_count(), reply.shared_receive_queue()), (7, true));
    }
}
