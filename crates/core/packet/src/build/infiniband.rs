//! Packets of InfiniBand, RoCEv1 and RoCEv2.

use std::net::Ipv6Addr;

use fabricmark_header::checksum::{icrc, icrc_roce_v1, icrc_roce_v2, vcrc};
use fabricmark_header::ethernet::ether_type;
use fabricmark_header::infiniband::{
    Aeth, Bth, Deth, Grh, ImmDt, LNH_BTH, LNH_GRH, Lrh, NEXT_HEADER_BTH, Reth, opcode as op,
};
use fabricmark_header::ip::protocol;
use fabricmark_header::ipoib::IpoibHeader;
use fabricmark_header::transport::ROCE_V2_PORT;
use fabricmark_wire::{Family, Ib, Ipoib, IpoibMode, Link};

use super::internet::{ether_type_of, ip, udp};
use super::{Host, Operation, Packet, ethernet, tags};

/// Length of the invariant CRC in bytes (IBTA vol. 1, 7.8.1).
const ICRC: usize = 4;

/// Default partition with full membership (IBTA vol. 1, 10.9).
pub(super) const PKEY: u16 = 0xffff;
/// PSN of the first packet.
pub(super) const PSN: u32 = 1;
/// Hop limit of a GRH, enough to reach any subnet.
const HOPS: u8 = 64;
/// Q_Key that Linux's subnet manager (OpenSM) sets for IPoIB's multicast group.
const IPOIB_QKEY: u32 = 0x0000_0b1b;
/// Q_Key of other datagrams, as in rdma-core's examples.
const QKEY: u32 = 0x1111_1111;
const IMMEDIATE: u32 = 0x1234_5678;
/// Start address and R_Key of the remote memory of an RDMA operation.
const ADDRESS: u64 = 0x0001_0000;
const RKEY: u32 = 0x0000_1234;
/// First source port of RoCEv2's range; the source port distinguishes flows (Linux, `rdma_get_udp_sport`).
const SOURCE_PORT: u16 = 0xc000;

/// Encapsulation of a BTH.
#[derive(Clone, Copy)]
pub(super) enum Carrier {
    Native { grh: bool },
    RoceV1 { tags: u8 },
    RoceV2 { tags: u8, family: Family },
}

/// Opcodes of the first, a middle, the last and the only packet of a message.
type Codes = [u8; 4];

const SEND: Codes = [op::RC_SEND_FIRST, op::RC_SEND_MIDDLE, op::RC_SEND_LAST, op::RC_SEND_ONLY];
const SEND_IMMEDIATE: Codes =
    [op::RC_SEND_FIRST, op::RC_SEND_MIDDLE, op::RC_SEND_LAST_IMMEDIATE, op::RC_SEND_ONLY_IMMEDIATE];
const WRITE: Codes =
    [op::RC_WRITE_FIRST, op::RC_WRITE_MIDDLE, op::RC_WRITE_LAST, op::RC_WRITE_ONLY];
const WRITE_IMMEDIATE: Codes = [
    op::RC_WRITE_FIRST,
    op::RC_WRITE_MIDDLE,
    op::RC_WRITE_LAST_IMMEDIATE,
    op::RC_WRITE_ONLY_IMMEDIATE,
];
const READ_RESPONSE: Codes = [
    op::RC_READ_RESPONSE_FIRST,
    op::RC_READ_RESPONSE_MIDDLE,
    op::RC_READ_RESPONSE_LAST,
    op::RC_READ_RESPONSE_ONLY,
];

/// Content of a packet from the BTH on.
pub(super) struct Body<'a> {
    pub opcode: u8,
    pub queue_pair: u32,
    pub psn: u32,
    pub acknowledge: bool,
    pub extensions: Vec<u8>,
    pub payload: &'a [u8],
}

impl<'a> Body<'a> {
    /// A datagram between two queue pairs.
    pub fn datagram(qkey: u32, [source_qp, queue_pair]: [u32; 2], payload: &'a [u8]) -> Self {
        let extensions = Deth { qkey, reserved_32: 0, source_qp }.to_bytes().to_vec();
        let (opcode, psn, acknowledge) = (op::UD_SEND_ONLY, PSN, false);
        Self { opcode, queue_pair, psn, acknowledge, extensions, payload }
    }
}

fn carrier(link: Link, family: Family) -> Carrier {
    match link {
        Link::RoceV1 { .. } => Carrier::RoceV1 { tags: tags(link) },
        Link::RoceV2 { .. } => Carrier::RoceV2 { tags: tags(link), family },
        Link::Ib(Ib { grh, .. }) | Link::Ipoib(Ipoib { grh, .. }) => Carrier::Native { grh },
        _ => Carrier::Native { grh: false },
    }
}

/// Builds one message of a reliable connection; for a READ, the request and the responses.
pub(super) fn message(
    link: Link,
    family: Family,
    operation: Operation,
    immediate: bool,
    data: &[u8],
) -> Vec<Packet> {
    let carrier = carrier(link, family);
    let path_mtu = usize::from(link.path_mtu().unwrap_or(u16::MAX));
    let reth = Reth { virtual_address: ADDRESS, rkey: RKEY, dma_bytes: data.len() as u32 };
    let reth = reth.to_bytes().to_vec();
    let codes = match (operation, immediate) {
        (Operation::Send, false) => SEND,
        (Operation::Send, true) => SEND_IMMEDIATE,
        (Operation::Write, false) => WRITE,
        (Operation::Write, true) => WRITE_IMMEDIATE,
        (Operation::Read, _) => READ_RESPONSE,
    };
    let cut = Cut { psn: PSN, path_mtu, codes, reth: &reth };
    if operation != Operation::Read {
        return sequence(carrier, Host::First, &cut, data);
    }
    let request = Body {
        opcode: op::RC_READ_REQUEST,
        queue_pair: Host::Second.queue_pair(),
        psn: PSN,
        acknowledge: true,
        extensions: reth.clone(),
        payload: &[],
    };
    let mut packets = vec![packet(carrier, Host::First, &request)];
    packets.extend(sequence(carrier, Host::Second, &cut, data));
    packets
}

/// How to segment a message into packets.
struct Cut<'a> {
    /// PSN of the first packet.
    psn: u32,
    /// Maximum payload of a packet in bytes.
    path_mtu: usize,
    codes: Codes,
    /// RETH of the first packet.
    reth: &'a [u8],
}

/// Builds the packets of a message, each with the headers that its opcode requires.
fn sequence(carrier: Carrier, from: Host, cut: &Cut, data: &[u8]) -> Vec<Packet> {
    let chunks: Vec<&[u8]> =
        if data.is_empty() { vec![&[]] } else { data.chunks(cut.path_mtu).collect() };
    let count = chunks.len();
    let [first, middle, last, only] = cut.codes;
    let packets = chunks.into_iter().enumerate().map(|(index, payload)| {
        let is_last = index + 1 == count;
        let opcode = match index {
            0 if is_last => only,
            0 => first,
            _ if is_last => last,
            _ => middle,
        };
        let body = Body {
            opcode,
            queue_pair: from.other().queue_pair(),
            psn: cut.psn + index as u32,
            // READ responses, which the second host sends, request no acknowledgement.
            acknowledge: is_last && from == Host::First,
            extensions: extensions(opcode, cut.reth),
            payload,
        };
        packet(carrier, from, &body)
    });
    packets.collect()
}

/// Extended transport headers of an opcode, in wire order.
fn extensions(code: u8, reth: &[u8]) -> Vec<u8> {
    let layouts = op::extensions(code).unwrap_or_default();
    let bytes = layouts.iter().map(|layout| match layout.name {
        name if name == Reth::LAYOUT.name => reth.to_vec(),
        name if name == Aeth::LAYOUT.name => {
            // ACK with unlimited credits (IBTA vol. 1, 9.7.7).
            Aeth { kind: 0, code: 31, msn: 1, ..Aeth::default() }.to_bytes().to_vec()
        }
        _ => ImmDt { immediate: IMMEDIATE }.to_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

/// Builds one datagram.
pub(super) fn datagram(link: Link, family: Family, immediate: bool, data: &[u8]) -> Vec<Packet> {
    let ends = [Host::First, Host::Second].map(Host::queue_pair);
    let mut body = Body::datagram(QKEY, ends, data);
    if immediate {
        body.opcode = op::UD_SEND_ONLY_IMMEDIATE;
        body.extensions.extend(ImmDt { immediate: IMMEDIATE }.to_bytes());
    }
    vec![packet(carrier(link, family), Host::First, &body)]
}

/// Encapsulates IP packets in IPoIB: each in a datagram, or in a message of a connection.
pub(super) fn ipoib(ipoib: Ipoib, kind: u16, ip_packets: &[Vec<u8>]) -> Vec<Packet> {
    let carrier = Carrier::Native { grh: ipoib.grh };
    let header = IpoibHeader { ether_type: kind, reserved_16: 0 }.to_bytes();
    let from = Host::First;
    let mut packets: Vec<Packet> = Vec::new();
    for ip_packet in ip_packets {
        let data = [&header[..], ip_packet].concat();
        let psn = PSN + packets.len() as u32;
        match ipoib.mode {
            IpoibMode::Datagram => {
                let ends = [from, from.other()].map(Host::queue_pair);
                let body = Body { psn, ..Body::datagram(IPOIB_QKEY, ends, &data) };
                packets.push(packet(carrier, from, &body));
            }
            IpoibMode::Connected => {
                let path_mtu = ipoib.ib_mtu.into();
                let cut = Cut { psn, path_mtu, codes: SEND, reth: &[] };
                packets.extend(sequence(carrier, from, &cut, &data));
            }
        }
    }
    packets
}

/// Builds a packet from the first header of its link through the last CRC.
pub(super) fn packet(carrier: Carrier, from: Host, body: &Body) -> Packet {
    let pad = body.payload.len().next_multiple_of(4) - body.payload.len();
    let bth = Bth {
        opcode: body.opcode,
        // Initial migration state of queue pairs (IBTA vol. 1, 17.2.8).
        migrated: true,
        pad: pad as u8,
        pkey: PKEY,
        destination_qp: body.queue_pair,
        acknowledge: body.acknowledge,
        psn: body.psn & 0xff_ffff,
        ..Bth::default()
    };
    let bytes = [&bth.to_bytes()[..], &body.extensions, body.payload, &[0; 3][..pad]].concat();
    let bytes = match carrier {
        Carrier::Native { grh } => native(from, grh, &bytes),
        Carrier::RoceV1 { tags } => roce_v1(from, tags, &bytes),
        Carrier::RoceV2 { tags, family } => roce_v2(from, tags, family, &bytes),
    };
    Packet { from, bytes }
}

fn grh(source: Ipv6Addr, destination: Ipv6Addr, bytes: usize) -> Grh {
    Grh {
        version: 6,
        payload_bytes: (bytes + ICRC) as u16,
        next_header: NEXT_HEADER_BTH,
        hop_limit: HOPS,
        source,
        destination,
        ..Grh::default()
    }
}

fn native(from: Host, with_grh: bool, body: &[u8]) -> Vec<u8> {
    let grh = grh(from.gid(), from.other().gid(), body.len()).to_bytes();
    let global = if with_grh { &grh[..] } else { &[] };
    let lrh = Lrh {
        next_header: if with_grh { LNH_GRH } else { LNH_BTH },
        dlid: from.other().lid(),
        packet_words: ((Lrh::BYTES + global.len() + body.len() + ICRC) / 4) as u16,
        slid: from.lid(),
        ..Lrh::default()
    };
    let mut packet = [&lrh.to_bytes()[..], global, body].concat();
    packet.extend(icrc(&packet).unwrap_or_default());
    packet.extend(vcrc(&packet));
    packet
}

fn roce_v1(from: Host, tags: u8, body: &[u8]) -> Vec<u8> {
    let grh = grh(from.link_local(), from.other().link_local(), body.len()).to_bytes();
    let mut packet = [&grh[..], body].concat();
    packet.extend(icrc_roce_v1(&packet).unwrap_or_default());
    ethernet(from, tags, ether_type::ROCE_V1, &[&packet])
}

fn roce_v2(from: Host, tags: u8, family: Family, body: &[u8]) -> Vec<u8> {
    let datagram = |icrc: [u8; ICRC]| {
        let data = [body, &icrc].concat();
        let udp = udp(from, family, SOURCE_PORT, ROCE_V2_PORT, &data);
        ip(from, family, protocol::UDP, &[&udp.to_bytes()[..], &data].concat())
    };
    // The ICRC masks the only field that depends on it: the UDP checksum.
    let draft = datagram([0; ICRC]);
    let sum = icrc_roce_v2(&draft[..draft.len() - ICRC]).unwrap_or_default();
    ethernet(from, tags, ether_type_of(family), &[&datagram(sum)])
}
