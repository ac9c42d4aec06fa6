//! How a connection of IPoIB begins and ends: ConnectRequest, ConnectReply, ReadyToUse,
//! DisconnectRequest, DisconnectReply (P1, III.C; RFC 4755).

use std::net::Ipv6Addr;

use fabricmark_header::cm::{
    self, ConnectReply, ConnectRequest, DisconnectReply, DisconnectRequest, Mad, ReadyToUse,
    attribute,
};
use fabricmark_header::infiniband::opcode;
use fabricmark_wire::{Ipoib, Lanes, Speed};

use super::infiniband::{Body, Carrier, PKEY, PSN, deth, packet};
use super::{Host, Packet};

/// Services of IPoIB's connected mode, to which the queue pair is added (Linux,
/// `IPOIB_CM_IETF_ID`).
const SERVICE: u64 = 0x1000_0000_0000_0000;
/// Time to answer in, 4.096 us times 2^20 (Linux, `ipoib_cm_send_req`).
const TIMEOUT: u8 = 20;
/// Repetitions of a packet that was not acknowledged: none, since IP does without (Linux,
/// `ipoib_cm_send_req`).
const RETRIES: u8 = 0;
/// Repetitions of a message (Linux, `ipoib_cm_send_req`).
const CM_RETRIES: u8 = 15;

/// The five messages that set up and end the connection of the first host to the second, in order.
pub fn handshake(ipoib: Ipoib) -> Vec<Packet> {
    let request = ConnectRequest {
        service: SERVICE | u64::from(Host::Second.queue_pair()),
        path_mtu: path_mtu(ipoib.ib_mtu),
        primary_packet_rate: packet_rate(ipoib.lanes, ipoib.speed),
        primary_local_gid: gid(Host::First, ipoib.grh),
        primary_remote_gid: gid(Host::Second, ipoib.grh),
        primary_subnet_local: !ipoib.grh,
        ..request()
    };
    let [first, second] = [Host::First, Host::Second].map(|host| (host, id(host)));
    let ready = ReadyToUse { local_id: first.1, remote_id: second.1 };
    let end = DisconnectRequest {
        local_id: first.1,
        remote_id: second.1,
        remote_qp: second.0.queue_pair(),
        reserved_88: 0,
    };
    let ended = DisconnectReply { local_id: second.1, remote_id: first.1 };
    let [mine, other] = [first.0, second.0].map(|host| private_data(host, ipoib.mtu));
    let asked = [&request.to_bytes()[..], &mine].concat();
    let answered = [&reply().to_bytes()[..], &other].concat();
    let messages: [(Host, u16, u64, &[u8]); 5] = [
        (Host::First, attribute::CONNECT_REQUEST, 1, &asked),
        (Host::Second, attribute::CONNECT_REPLY, 1, &answered),
        (Host::First, attribute::READY_TO_USE, 1, &ready.to_bytes()),
        (Host::First, attribute::DISCONNECT_REQUEST, 2, &end.to_bytes()),
        (Host::Second, attribute::DISCONNECT_REPLY, 2, &ended.to_bytes()),
    ];
    let packets = messages.into_iter().map(|(from, attribute, transaction, message)| {
        let mut payload = [&Mad::new(attribute, transaction).to_bytes()[..], message].concat();
        payload.resize(Mad::BYTES + cm::MESSAGE_BYTES, 0);
        let body = Body {
            opcode: opcode::UD_SEND_ONLY,
            queue_pair: cm::QUEUE_PAIR,
            psn: PSN,
            acknowledge: false,
            extensions: deth(cm::QUEUE_KEY, cm::QUEUE_PAIR).to_vec(),
            payload: &payload,
        };
        packet(Carrier::Native { grh: ipoib.grh }, from, &body)
    });
    packets.collect()
}

/// A request without what depends on the link.
fn request() -> ConnectRequest {
    let from = Host::First;
    let nowhere = Ipv6Addr::UNSPECIFIED;
    ConnectRequest {
        local_id: id(from),
        reserved_32: 0,
        vendor: 0,
        service: SERVICE,
        local_ca_guid: guid(from),
        reserved_192: 0,
        local_qkey: 0,
        local_qp: from.queue_pair(),
        responder_resources: 0,
        local_eec: 0,
        initiator_depth: 0,
        remote_eec: 0,
        remote_response_timeout: TIMEOUT,
        transport_service: 0,
        end_to_end_flow_control: false,
        starting_psn: PSN,
        local_response_timeout: TIMEOUT,
        retry_count: RETRIES,
        pkey: PKEY,
        path_mtu: 0,
        rdc_exists: false,
        rnr_retry_count: RETRIES,
        max_cm_retries: CM_RETRIES,
        // As Linux receives connected mode: one queue for all connections.
        shared_receive_queue: true,
        extended_transport: 0,
        primary_local_lid: from.lid(),
        primary_remote_lid: from.other().lid(),
        primary_local_gid: nowhere,
        primary_remote_gid: nowhere,
        primary_flow_label: 0,
        reserved_724: 0,
        primary_packet_rate: 0,
        primary_traffic_class: 0,
        primary_hop_limit: 0,
        primary_service_level: 0,
        primary_subnet_local: true,
        reserved_757: 0,
        primary_ack_timeout: TIMEOUT,
        reserved_765: 0,
        alternate_local_lid: 0,
        alternate_remote_lid: 0,
        alternate_local_gid: nowhere,
        alternate_remote_gid: nowhere,
        alternate_flow_label: 0,
        reserved_1076: 0,
        alternate_packet_rate: 0,
        alternate_traffic_class: 0,
        alternate_hop_limit: 0,
        alternate_service_level: 0,
        alternate_subnet_local: false,
        reserved_1109: 0,
        alternate_ack_timeout: 0,
        sap_supported: false,
        reserved_1118: 0,
    }
}

fn reply() -> ConnectReply {
    let from = Host::Second;
    ConnectReply {
        local_id: id(from),
        remote_id: id(from.other()),
        local_qkey: 0,
        local_qp: from.queue_pair(),
        vendor_high: 0,
        local_eec: 0,
        vendor_middle: 0,
        starting_psn: PSN,
        vendor_low: 0,
        responder_resources: 0,
        initiator_depth: 0,
        target_ack_delay: TIMEOUT,
        failover_accepted: 0,
        end_to_end_flow_control: false,
        rnr_retry_count: RETRIES,
        shared_receive_queue: true,
        reserved_220: 0,
        local_ca_guid: guid(from),
    }
}

/// What a host tells of itself beside request and reply: its queue pair for datagrams, and the longest
/// message that it takes (RFC 4755; Linux, `struct ipoib_cm_data`).
fn private_data(host: Host, mtu: u16) -> Vec<u8> {
    let receive_bytes = u32::from(mtu) + 4;
    [host.queue_pair(), receive_bytes].map(u32::to_be_bytes).concat()
}

/// A host's number of the connection.
fn id(host: Host) -> u32 {
    0x100 + u32::from(host.number())
}

/// Locally administered.
fn guid(host: Host) -> u64 {
    0x0200_0000_0000_0000 | u64::from(host.number())
}

fn gid(host: Host, routed: bool) -> Ipv6Addr {
    let subnet_local = Ipv6Addr::from_bits((0xfe80 << 112) | u128::from(guid(host)));
    if routed { host.gid() } else { subnet_local }
}

/// The code of an MTU (Linux, `enum ib_mtu`).
fn path_mtu(ib_mtu: u16) -> u8 {
    // 256 bytes are 1, and each next code is the double.
    (ib_mtu.max(256).ilog2() - 7) as u8
}

/// The code of a rate (Linux, `enum ib_rate`), or that of the next lower one.
fn packet_rate(lanes: Lanes, speed: Speed) -> u8 {
    // Nominal rates of a lane in units of 0.5 Gbit/s.
    let lane = match speed {
        Speed::Sdr => 5,
        Speed::Ddr => 10,
        Speed::Qdr | Speed::Fdr10 => 20,
        Speed::Fdr => 28,
        Speed::Edr => 50,
        Speed::Hdr => 100,
        Speed::Ndr => 200,
        Speed::Xdr => 400,
    };
    const CODES: [(u32, u8); 23] = [
        (5, 2),
        (10, 5),
        (20, 3),
        (28, 11),
        (40, 6),
        (50, 15),
        (56, 19),
        (60, 4),
        (80, 7),
        (100, 20),
        (112, 12),
        (120, 8),
        (160, 9),
        (200, 16),
        (224, 13),
        (240, 10),
        (336, 14),
        (400, 17),
        (600, 18),
        (800, 21),
        (1200, 22),
        (1600, 23),
        (2400, 24),
    ];
    let rate = lane * u32::from(lanes.get());
    CODES.iter().rev().find(|(known, _)| *known <= rate).map_or(0, |&(_, code)| code)
}
