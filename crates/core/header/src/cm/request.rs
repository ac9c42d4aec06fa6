//! The message that requests a connection (REQ).

use std::net::Ipv6Addr;

use crate::Format::{self, Decimal, Flag, Hex, Named};
use crate::{Names, header};

header! {
    /// REQ: requests a connection and describes the sender's end of it.
    ///
    /// Times are coded: 4.096 us × 2^value.
    ConnectRequest, ConnectRequestView: 140, "REQ", "ConnectRequest", "IBTA vol. 1, 12.6.5";
    /// Communication ID of the sender.
    local_id: u32 = 0..32, "Local Communication ID", Hex, "12.6.5";
    reserved_32: u8 = 32..40, "Reserved", Hex, "12.6.5";
    /// The sender's vendor ID.
    vendor: u32 = 40..64, "Vendor ID", Hex, "12.6.5";
    /// ID of the requested service.
    service: u64 = 64..128, "ServiceID", Hex, "12.6.5";
    /// GUID of the sender's channel adapter.
    local_ca_guid: u64 = 128..192, "Local CA GUID", Hex, "12.6.5";
    reserved_192: u32 = 192..224, "Reserved", Hex, "12.6.5";
    /// The sender's Q_Key, for reliable datagrams; else 0.
    local_qkey: u32 = 224..256, "Local Q_Key", Hex, "12.6.5";
    /// The sender's queue pair number.
    local_qp: u32 = 256..280, "Local QPN", Hex, "12.6.5";
    /// Maximum number of outstanding RDMA READ and ATOMIC requests that the sender accepts.
    responder_resources: u8 = 280..288, "Responder Resources", Decimal, "12.6.5";
    /// The sender's end-to-end context, for reliable datagrams; else 0.
    local_eec: u32 = 288..312, "Local EECN", Hex, "12.6.5";
    /// Maximum number of outstanding RDMA READ and ATOMIC requests that the sender issues.
    initiator_depth: u8 = 312..320, "Initiator Depth", Decimal, "12.6.5";
    /// The receiver's end-to-end context, for reliable datagrams; else 0.
    remote_eec: u32 = 320..344, "Remote EECN", Hex, "12.6.5";
    /// Time within which the receiver must respond.
    remote_response_timeout: u8 = 344..349, "Remote CM Response Timeout", Decimal, "12.6.5";
    /// Transport service: 0 RC, 1 UC, 2 RD.
    transport_service: u8 = 349..351,
    "Transport Service Type", Named(TRANSPORT_SERVICE), "12.6.5";
    /// The sender implements end-to-end flow control (credits).
    end_to_end_flow_control: bool = 351..352, "End-to-End Flow Control", Flag, "12.6.5";
    /// PSN of the first packet to the sender.
    starting_psn: u32 = 352..376, "Starting PSN", Decimal, "12.6.5";
    /// Time within which the sender will respond.
    local_response_timeout: u8 = 376..381, "Local CM Response Timeout", Decimal, "12.6.5";
    /// Number of times that the receiver retransmits an unacknowledged packet.
    retry_count: u8 = 381..384, "Retry Count", Decimal, "12.6.5";
    pkey: u16 = 384..400, "Partition Key", Hex, "12.6.5";
    /// Maximum payload of a packet, coded: 1 to 5 for 256 to 4096 bytes.
    path_mtu: u8 = 400..404, "Path Packet Payload MTU", Named(PATH_MTU), "12.6.5";
    /// A reliable datagram channel already exists.
    rdc_exists: bool = 404..405, "RDC Exists", Flag, "12.6.5";
    /// Retries after an RNR NAK from the sender; 7 for infinite.
    rnr_retry_count: u8 = 405..408, "RNR Retry Count", Decimal, "12.6.5";
    /// Maximum number of times that a CM message is resent.
    max_cm_retries: u8 = 408..412, "Max CM Retries", Decimal, "12.6.5";
    /// The sender uses a shared receive queue.
    shared_receive_queue: bool = 412..413, "SRQ", Flag, "12.6.5";
    /// Further transport services: 1 for XRC.
    extended_transport: u8 = 413..416, "Extended Transport Type", Decimal, "12.6.5";
    /// LID of the sender's port.
    primary_local_lid: u16 = 416..432, "Primary Local Port LID", Hex, "12.6.5";
    /// LID of the receiver's port.
    primary_remote_lid: u16 = 432..448, "Primary Remote Port LID", Hex, "12.6.5";
    /// GID of the sender's port.
    primary_local_gid: Ipv6Addr = 448..576, "Primary Local Port GID", Format::Ipv6, "12.6.5";
    /// GID of the receiver's port.
    primary_remote_gid: Ipv6Addr = 576..704, "Primary Remote Port GID", Format::Ipv6, "12.6.5";
    primary_flow_label: u32 = 704..724, "Primary Flow Label", Hex, "12.6.5";
    reserved_724: u8 = 724..730, "Reserved", Hex, "12.6.5";
    /// Maximum rate of the path, coded: 2 2.5 Gbit/s, 3 10, 4 30, 5 5, 6 20, 7 40, 8 60, 9 80, 10 120.
    primary_packet_rate: u8 = 730..736, "Primary Packet Rate", Decimal, "12.6.5";
    primary_traffic_class: u8 = 736..744, "Primary Traffic Class", Hex, "12.6.5";
    primary_hop_limit: u8 = 744..752, "Primary Hop Limit", Decimal, "12.6.5";
    /// Service level.
    primary_service_level: u8 = 752..756, "Primary SL", Decimal, "12.6.5";
    /// Both ports are in one subnet.
    primary_subnet_local: bool = 756..757, "Primary Subnet Local", Flag, "12.6.5";
    reserved_757: u8 = 757..760, "Reserved", Hex, "12.6.5";
    /// Acknowledgement timeout of the sender.
    primary_ack_timeout: u8 = 760..765, "Primary Local ACK Timeout", Decimal, "12.6.5";
    reserved_765: u8 = 765..768, "Reserved", Hex, "12.6.5";
    /// LID of the sender's port on the alternate path; 0 if there is none, as are then all fields that follow.
    alternate_local_lid: u16 = 768..784, "Alternate Local Port LID", Hex, "12.6.5";
    /// LID of the receiver's port.
    alternate_remote_lid: u16 = 784..800, "Alternate Remote Port LID", Hex, "12.6.5";
    /// GID of the sender's port.
    alternate_local_gid: Ipv6Addr = 800..928,
    "Alternate Local Port GID", Format::Ipv6, "12.6.5";
    /// GID of the receiver's port.
    alternate_remote_gid: Ipv6Addr = 928..1056,
    "Alternate Remote Port GID", Format::Ipv6, "12.6.5";
    alternate_flow_label: u32 = 1056..1076, "Alternate Flow Label", Hex, "12.6.5";
    reserved_1076: u8 = 1076..1082, "Reserved", Hex, "12.6.5";
    /// Maximum rate of the path, coded as in `primary_packet_rate`.
    alternate_packet_rate: u8 = 1082..1088, "Alternate Packet Rate", Decimal, "12.6.5";
    alternate_traffic_class: u8 = 1088..1096, "Alternate Traffic Class", Hex, "12.6.5";
    alternate_hop_limit: u8 = 1096..1104, "Alternate Hop Limit", Decimal, "12.6.5";
    /// Service level.
    alternate_service_level: u8 = 1104..1108, "Alternate SL", Decimal, "12.6.5";
    /// Both ports are in one subnet.
    alternate_subnet_local: bool = 1108..1109, "Alternate Subnet Local", Flag, "12.6.5";
    reserved_1109: u8 = 1109..1112, "Reserved", Hex, "12.6.5";
    /// Acknowledgement timeout of the sender.
    alternate_ack_timeout: u8 = 1112..1117, "Alternate Local ACK Timeout", Decimal, "12.6.5";
    /// The sender supports the Suggest Alternate Path (SAP) message.
    sap_supported: bool = 1117..1118, "SAP Supported", Flag, "12.6.5";
    reserved_1118: u8 = 1118..1120, "Reserved", Hex, "12.6.5";
}

const TRANSPORT_SERVICE: Names = &[(0, "RC"), (1, "UC"), (2, "RD")];

const PATH_MTU: Names = &[(1, "256"), (2, "512"), (3, "1024"), (4, "2048"), (5, "4096")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(a_request_survives_the_wire, ConnectRequest, ConnectRequestView);

    /// A REQ between two ports of one subnet, without an alternate path.
    const REQUEST: [u8; 96] = [
        0x00, 0x00, 0x00, 0x2a, 0x00, 0x00, 0x02, 0xc9, // local ID, vendor
        0x10, 0x00, 0x00, 0x00, 0x00, 0x04, 0x04, 0x85, // service
        0x00, 0x02, 0xc9, 0x03, 0x00, 0x01, 0x23, 0x45, // channel adapter
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // reserved, Q_Key
        0x00, 0x04, 0x06, 0x04, 0x00, 0x00, 0x00, 0x05, // QPN, resources, depth
        0x00, 0x00, 0x00, 0xa0, 0x12, 0x34, 0x56, 0x9f, // timeouts, RC, PSN, retries
        0xff, 0xff, 0x47, 0xf8, 0x00, 0x01, 0x00, 0x02, // P_Key, MTU, retries, SRQ, LIDs
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03, 0x00, 0x01, 0x23,
        0x46, // sender
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03, 0x00, 0x05, 0x43,
        0x22, // receiver
        0x12, 0x34, 0x50, 0x07, 0x08, 0x40, 0x38,
        0x90, // flow label, rate, class, hops, SL, time-out
    ];

    #[test]
    fn a_request_is_read_field_by_field() {
        // tshark 4.0 decodes the same values, except flow label and rate, which it masks one byte too early. Those
        // two are decoded as Linux does (include/rdma/ibta_vol1_c12.h).
        let mut bytes = [0; ConnectRequest::BYTES];
        bytes[..96].copy_from_slice(&REQUEST);
        let request = ConnectRequestView(&bytes).value();
        assert_eq!((request.local_id, request.vendor), (42, 0x2c9));
        assert_eq!(request.service, 0x1000_0000_0004_0485);
        assert_eq!((request.local_qp, request.responder_resources), (0x406, 4));
        assert_eq!(request.initiator_depth, 5);
        assert_eq!((request.remote_response_timeout, request.transport_service), (20, 0));
        assert!(!request.end_to_end_flow_control);
        assert_eq!((request.starting_psn, request.local_response_timeout), (0x12_3456, 19));
        assert_eq!((request.retry_count, request.rnr_retry_count), (7, 7));
        assert_eq!((request.path_mtu, request.max_cm_retries), (4, 15));
        assert!(request.shared_receive_queue && !request.rdc_exists);
        assert_eq!((request.primary_local_lid, request.primary_remote_lid), (1, 2));
        assert_eq!(request.primary_remote_gid.to_string(), "fe80::2:c903:5:4322");
        assert_eq!((request.primary_flow_label, request.primary_packet_rate), (0x1_2345, 7));
        assert_eq!((request.primary_traffic_class, request.primary_hop_limit), (8, 64));
        assert_eq!((request.primary_service_level, request.primary_subnet_local), (3, true));
        assert_eq!(request.primary_ack_timeout, 18);
        assert_eq!(request.alternate_local_lid, 0);
    }
}
