//! CM messages that set up and tear down an IPoIB connection: ConnectRequest, ConnectReply, ReadyToUse,
//! DisconnectRequest, DisconnectReply (P1, III.C; RFC 4755).

use std::net::Ipv6Addr;

use fabricmark_header::cm::{
    self, ConnectReply, ConnectRequest, DisconnectReply, DisconnectRequest, Mad, ReadyToUse,
    attribute,
};
use fabricmark_wire::{Ipoib, Lanes, Speed};

use super::infiniband::{Body, Carrier, PKEY, PSN, packet};
use super::{Host, Packet};

/// Base service ID of IPoIB connected mode; the queue pair number is added (Linux, `IPOIB_CM_IETF_ID`).
const SERVICE: u64 = 0x1000_0000_0000_0000;
/// Response timeout, 4.096 us × 2^20 (Linux, `ipoib_cm_send_req`).
const TIMEOUT: u8 = 20;
/// Retransmissions of an unacknowledged packet: none, because IP tolerates loss (Linux, `ipoib_cm_send_req`).
const RETRIES: u8 = 0;
/// Maximum retries of a CM message (Linux, `ipoib_cm_send_req`).
const CM_RETRIES: u8 = 15;

/// Builds the five messages that set up and tear down the connection from the first host to the second, in order.
pub fn handshake(ipoib: Ipoib) -> Vec<Packet> {
    let [local_id, remote_id] = [Host::First, Host::Second].map(id);
    let ready = ReadyToUse { local_id, remote_id };
    let remote_qp = Host::Second.queue_pair();
    let end = DisconnectRequest { local_id, remote_id, remote_qp, reserved_88: 0 };
    let ended = DisconnectReply { local_id: remote_id, remote_id: local_id };
    let asked = [&request(ipoib).to_bytes()[..], &private_data(Host::First, ipoib.mtu)].concat();
    let answered = [&reply().to_bytes()[..], &private_data(Host::Second, ipoib.mtu)].concat();
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
        let body = Body::datagram(cm::QUEUE_KEY, [cm::QUEUE_PAIR; 2], &payload);
        packet(Carrier::Native { grh: ipoib.grh }, from, &body)
    });
    packets.collect()
}

fn request(ipoib: Ipoib) -> ConnectRequest {
    let (from, to) = (Host::First, Host::Second);
    ConnectRequest {
        local_id: id(from),
        service: SERVICE | u64::from(to.queue_pair()),
        local_ca_guid: guid(from),
        local_qp: from.queue_pair(),
        remote_response_timeout: TIMEOUT,
        starting_psn: PSN,
        local_response_timeout: TIMEOUT,
        retry_count: RETRIES,
        pkey: PKEY,
        path_mtu: path_mtu(ipoib.ib_mtu),
        rnr_retry_count: RETRIES,
        max_cm_retries: CM_RETRIES,
        // Linux receives all connected-mode connections through one shared receive queue.
        shared_receive_queue: true,
        primary_local_lid: from.lid(),
        primary_remote_lid: to.lid(),
        primary_local_gid: gid(from, ipoib.grh),
        primary_remote_gid: gid(to, ipoib.grh),
        primary_packet_rate: packet_rate(ipoib.lanes, ipoib.speed),
        primary_subnet_local: !ipoib.grh,
        primary_ack_timeout: TIMEOUT,
        ..ConnectRequest::default()
    }
}

fn reply() -> ConnectReply {
    let from = Host::Second;
    ConnectReply {
        local_id: id(from),
        remote_id: id(from.other()),
        local_qp: from.queue_pair(),
        starting_psn: PSN,
        target_ack_delay: TIMEOUT,
        rnr_retry_count: RETRIES,
        shared_receive_queue: true,
        local_ca_guid: guid(from),
        ..ConnectReply::default()
    }
}

/// Private data of request and reply: the host's queue pair for datagrams, and the longest message that it accepts
/// (RFC 4755; Linux, `struct ipoib_cm_data`).
fn private_data(host: Host, mtu: u16) -> Vec<u8> {
    let receive_bytes = u32::from(mtu) + 4;
    [host.queue_pair(), receive_bytes].map(u32::to_be_bytes).concat()
}

/// A host's communication ID.
fn id(host: Host) -> u32 {
    0x100 + u32::from(host.number())
}

/// Locally administered GUID.
fn guid(host: Host) -> u64 {
    0x0200_0000_0000_0000 | u64::from(host.number())
}

fn gid(host: Host, routed: bool) -> Ipv6Addr {
    let subnet_local = Ipv6Addr::from_bits((0xfe80 << 112) | u128::from(guid(host)));
    if routed { host.gid() } else { subnet_local }
}

/// Code of an MTU (Linux, `enum ib_mtu`).
fn path_mtu(ib_mtu: u16) -> u8 {
    // Code 1 is 256 bytes; each further code doubles the MTU.
    (ib_mtu.max(256).ilog2() - 7) as u8
}

/// Code of a rate (Linux, `enum ib_rate`), rounded down to the next rate that has one.
fn packet_rate(lanes: Lanes, speed: Speed) -> u8 {
    // Nominal rate per lane in units of 0.5 Gbit/s.
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
    // Rates of the codes 2, 3, ... 24, in the same units.
    const RATES: [u32; 23] = [
        5, 20, 60, 10, 40, 80, 120, 160, 240, 28, 112, 224, 336, 50, 200, 400, 600, 56, 100, 800,
        1200, 1600, 2400,
    ];
    let rate = lane * u32::from(lanes.get());
    let known = RATES.into_iter().zip(2..).filter(|(known, _)| *known <= rate);
    known.max().map_or(0, |(_, code)| code)
}
