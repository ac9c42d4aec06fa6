//! A queue pair with its completion queue, from creation to connection.

use std::ffi::{c_int, c_uint};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use crate::abi::{AhAttr, Capacity, GlobalRoute, QpAttr, mask, state};
use crate::adapter::{Adapter, mtu_bytes};
use crate::identity::Identity;
use crate::manager::Id;
use crate::sys::{Completions, Destination, Domain, Pair, Place, Region, Route};
use crate::sysfs::LinkLayer;

/// Transport service of a queue pair (IBTA volume 1, section 9.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reliable connection (RC): lost packets are retransmitted.
    Reliable,
    /// Unreliable connection (UC): a message with a lost packet is dropped.
    Unreliable,
    /// Unreliable datagram (UD): single packets, to any destination.
    Datagram,
}

impl Kind {
    /// `enum ibv_qp_type`.
    fn code(self) -> c_uint {
        match self {
            Self::Reliable => 2,
            Self::Unreliable => 3,
            Self::Datagram => 4,
        }
    }
}

/// The highest bit of a Q_Key: only the kernel may send such keys (IBTA volume 1, section 10.2.5).
const PRIVILEGED: u32 = 1 << 31;

/// Retransmission timeout: 4.096 us times two to the power of this, 67 ms. After seven of these the other end counts
/// as dead.
const TIMEOUT: u8 = 14;

/// Retransmissions of a packet. Soft RoCE retransmits indefinitely with 7, the maximum
/// (drivers/infiniband/sw/rxe/rxe_comp.c, COMPST_ERROR_RETRY, Linux 6.1).
pub(crate) const RETRIES: u8 = 6;

/// RNR retries, indefinitely: the clock of the run ends the wait for a receiver that is not ready.
const RETRIES_NOT_READY: u8 = 7;

/// RNR NAK timer: 0.64 ms (IBTA volume 1, table 46).
const NOT_READY_TIMER: u8 = 12;

/// Most outstanding READ and atomic requests.
pub(crate) const READS_MAX: u8 = 16;

/// Bytes that precede a datagram in the receiver's memory: a global route header (GRH), or room for one (IBTA volume
/// 1, section 11.4.1.2).
pub const ROUTE_HEADER_BYTES: usize = 40;

/// Hop limit of packets.
const HOPS: u8 = 64;

/// Attributes that a connection needs to receive; those that a reliable one needs as well; and those that it needs to
/// send.
const CONNECTION: c_int = mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
const RELIABLE: c_int = mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
const RELIABLE_SENDER: c_int =
    mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;

/// One end of a connection, or of datagrams.
#[derive(Debug)]
pub struct Endpoint {
    /// The queue pair.
    pub pair: Pair,
    /// The completion queue of both its queues.
    pub completions: Arc<Completions>,
    domain: Arc<Domain>,
    kind: Kind,
    own: Identity,
    port: u8,
    gid_index: u8,
    is_routed: bool,
}

impl Endpoint {
    /// Creates a queue pair with room for `depth` requests in each direction, and for `inline_bytes` in each request
    /// if the adapter supports that. The token gives the first packet number, which tells packets of an earlier
    /// connection apart, and the Q_Key, so that foreign datagrams are dropped.
    pub fn new(
        adapter: &Adapter,
        kind: Kind,
        depth: u32,
        inline_bytes: u32,
        token: [u8; 16],
    ) -> io::Result<Self> {
        let domain = Arc::clone(&adapter.domain);
        let completions = Arc::new(Completions::new(Arc::clone(domain.context()), 2 * depth)?);
        let make = |inline_bytes| {
            let capacity = Capacity {
                max_send_wr: depth,
                max_recv_wr: depth,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: inline_bytes,
            };
            Pair::new(Arc::clone(&domain), Arc::clone(&completions), kind.code(), capacity)
        };
        // An adapter that supports less refuses the pair.
        let pair = make(inline_bytes).or_else(|_| make(0))?;
        let own = Identity {
            pair: pair.number(),
            first_packet: u32::from_be_bytes([0, token[0], token[1], token[2]]),
            key: u32::from_be_bytes([token[4], token[5], token[6], token[7]]) & !PRIVILEGED,
            gid: adapter.gid.bytes,
            lid: adapter.attributes.lid,
            mtu: adapter.attributes.active_mtu.clamp(1, 5) as u8,
            memory: Place { address: 0, key: 0 },
            memory_bytes: 0,
        };
        let endpoint = Self {
            pair,
            completions,
            domain,
            kind,
            own,
            port: adapter.port.number,
            gid_index: adapter.gid.index,
            is_routed: adapter.port.link_layer == LinkLayer::Ethernet,
        };
        endpoint.initialise()?;
        Ok(endpoint)
    }

    /// What the other end needs to connect, and to access `region`, if there is one, with the access rights of that.
    pub fn identity(&self, region: Option<&Region>) -> Identity {
        match region {
            Some(region) => Identity {
                memory: Place { address: region.address(), key: region.remote_key() },
                memory_bytes: region.len() as u64,
                ..self.own
            },
            None => self.own,
        }
    }

    /// Enters INIT: receive requests may be posted from now on.
    fn initialise(&self) -> io::Result<()> {
        let attributes = QpAttr {
            qp_state: state::INIT,
            port_num: self.port,
            qkey: self.own.key,
            // Remote write; for a reliable connection also READ and atomics.
            qp_access_flags: if self.kind == Kind::Reliable { 0b1110 } else { 0b0010 },
            ..QpAttr::default()
        };
        let last = if self.kind == Kind::Datagram { mask::QKEY } else { mask::ACCESS_FLAGS };
        self.pair.modify(attributes, mask::STATE | mask::PKEY_INDEX | mask::PORT | last)
    }

    /// Connects the pair to the end at `address`; for datagrams, returns their destination.
    ///
    /// # Errors
    ///
    /// Also if the adapters are on Ethernet and the peer's GID is another address: its traffic would go to a host that
    /// has not asked for it.
    pub fn connect(&self, peer: &Identity, address: IpAddr) -> io::Result<Option<Destination>> {
        if self.is_routed && peer.ip() != address.to_canonical() {
            let message =
                format!("the other end's GID is {}, but its address is {address}", peer.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let ah_attr = AhAttr {
            grh: GlobalRoute {
                dgid: [0, 8]
                    .map(|at| u64::from_ne_bytes(std::array::from_fn(|byte| peer.gid[at + byte]))),
                sgid_index: self.gid_index,
                hop_limit: HOPS,
                ..GlobalRoute::default()
            },
            dlid: peer.lid,
            is_global: u8::from(self.is_routed || peer.lid == 0),
            port_num: self.port,
            ..AhAttr::default()
        };
        let ready = QpAttr {
            qp_state: state::RTR,
            path_mtu: u32::from(self.mtu_with(peer)),
            dest_qp_num: peer.pair,
            rq_psn: peer.first_packet,
            ah_attr,
            max_dest_rd_atomic: READS_MAX,
            min_rnr_timer: NOT_READY_TIMER,
            ..QpAttr::default()
        };
        self.pair.modify(ready, mask::STATE | self.kind_mask(CONNECTION, RELIABLE))?;
        let sending = QpAttr {
            qp_state: state::RTS,
            sq_psn: self.own.first_packet,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES_NOT_READY,
            max_rd_atomic: READS_MAX,
            ..QpAttr::default()
        };
        let mask = mask::STATE | mask::SQ_PSN | self.kind_mask(0, RELIABLE_SENDER);
        self.pair.modify(sending, mask)?;
        match self.kind {
            Kind::Datagram => {
                let route = Route::new(Arc::clone(&self.domain), ah_attr)?;
                Ok(Some(Destination { route, pair: peer.pair, key: peer.key }))
            }
            _ => Ok(None),
        }
    }

    /// Connects the pair with the attributes that the communication manager negotiated. Timers and retries are those
    /// of [`Self::connect`], so that both have the same timing.
    pub(crate) fn connect_by(&self, id: &Id) -> io::Result<()> {
        let ready = QpAttr {
            max_dest_rd_atomic: READS_MAX,
            min_rnr_timer: NOT_READY_TIMER,
            ..id.attributes(state::RTR)?
        };
        self.pair.modify(ready, mask::STATE | CONNECTION | RELIABLE)?;
        let sending = QpAttr {
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES_NOT_READY,
            max_rd_atomic: READS_MAX,
            ..id.attributes(state::RTS)?
        };
        self.pair.modify(sending, mask::STATE | mask::SQ_PSN | RELIABLE_SENDER)
    }

    /// Largest packet payload between both ends, in bytes.
    pub fn path_mtu_bytes(&self, peer: &Identity) -> usize {
        mtu_bytes(u32::from(self.mtu_with(peer)))
    }

    fn mtu_with(&self, peer: &Identity) -> u8 {
        self.own.mtu.min(peer.mtu)
    }

    /// Fields of both connected kinds, and those of the reliable one.
    fn kind_mask(&self, connected: i32, reliable: i32) -> i32 {
        match self.kind {
            Kind::Reliable => connected | reliable,
            Kind::Unreliable => connected,
            Kind::Datagram => 0,
        }
    }
}
