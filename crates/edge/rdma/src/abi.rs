//! Structures of libibverbs, from `infiniband/verbs.h` of rdma-core.
//!
//! They are its stable ABI (IBVERBS_1.1): C programs compile these layouts, too. Structures that the library
//! allocates are declared up to the last field read here.

use std::ffi::{c_int, c_uint, c_void};

/// Operations on queue pairs and completion queues that programs call without a function of the library: `struct
/// ibv_context_ops`.
#[repr(C)]
pub struct ContextOps {
    _others: [Option<unsafe extern "C" fn()>; 11],
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut WorkCompletion) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    _more: [Option<unsafe extern "C" fn()>; 12],
    pub post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendRequest, *mut *mut SendRequest) -> c_int>,
    pub post_recv: Option<
        unsafe extern "C" fn(*mut Qp, *mut ReceiveRequest, *mut *mut ReceiveRequest) -> c_int,
    >,
    _rest: [Option<unsafe extern "C" fn()>; 5],
}

/// `struct ibv_context`.
#[repr(C)]
pub struct Context {
    _device: *mut c_void,
    pub ops: ContextOps,
}

/// `struct ibv_pd`; no field is read.
#[repr(C)]
pub struct Pd {
    _context: *mut Context,
}

/// `struct ibv_mr`.
#[repr(C)]
pub struct Mr {
    _context: *mut Context,
    _pd: *mut Pd,
    _addr: *mut c_void,
    _length: usize,
    _handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub struct CompChannel {
    _context: *mut Context,
    pub fd: c_int,
}

/// `struct ibv_cq`.
#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
}

/// `struct ibv_ah`; no field is read.
#[repr(C)]
pub struct Ah {
    _context: *mut Context,
}

/// `struct ibv_qp`.
#[repr(C)]
pub struct Qp {
    pub context: *mut Context,
    _qp_context: *mut c_void,
    _pd: *mut Pd,
    _send_cq: *mut Cq,
    _recv_cq: *mut Cq,
    _srq: *mut c_void,
    _handle: u32,
    pub qp_num: u32,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Capacity {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub cap: Capacity,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

/// `struct ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GlobalRoute {
    // 64-bit words, as the union contains some, which align it.
    pub dgid: [u64; 2],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QpAttr {
    pub qp_state: c_uint,
    pub cur_qp_state: c_uint,
    pub path_mtu: c_uint,
    pub path_mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: Capacity,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

/// Which fields of [`QpAttr`] are set: `enum ibv_qp_attr_mask`.
pub mod mask {
    use std::ffi::c_int;

    pub const STATE: c_int = 1 << 0;
    pub const ACCESS_FLAGS: c_int = 1 << 3;
    pub const PKEY_INDEX: c_int = 1 << 4;
    pub const PORT: c_int = 1 << 5;
    pub const QKEY: c_int = 1 << 6;
    pub const AV: c_int = 1 << 7;
    pub const PATH_MTU: c_int = 1 << 8;
    pub const TIMEOUT: c_int = 1 << 9;
    pub const RETRY_CNT: c_int = 1 << 10;
    pub const RNR_RETRY: c_int = 1 << 11;
    pub const RQ_PSN: c_int = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub const MIN_RNR_TIMER: c_int = 1 << 15;
    pub const SQ_PSN: c_int = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub const DEST_QPN: c_int = 1 << 20;
}

/// `enum ibv_qp_state`.
pub mod state {
    use std::ffi::c_uint;

    pub const INIT: c_uint = 1;
    pub const RTR: c_uint = 2;
    pub const RTS: c_uint = 3;
}

/// `enum ibv_access_flags`: local write and remote write; also remote read and remote atomic.
pub const ACCESS_WRITE: c_int = 0b0011;
pub const ACCESS_FETCH: c_int = 0b1111;

/// `enum ibv_send_flags`.
pub mod flag {
    use std::ffi::c_uint;

    pub const SIGNALED: c_uint = 1 << 1;
    pub const INLINE: c_uint = 1 << 3;
}

/// `enum ibv_wr_opcode`.
pub mod opcode {
    use std::ffi::c_uint;

    pub const WRITE: c_uint = 0;
    pub const WRITE_IMMEDIATE: c_uint = 1;
    pub const SEND: c_uint = 2;
    pub const SEND_IMMEDIATE: c_uint = 3;
    pub const READ: c_uint = 4;
    pub const COMPARE_SWAP: c_uint = 5;
    pub const FETCH_ADD: c_uint = 6;
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// `struct ibv_send_wr`.
#[repr(C)]
pub struct SendRequest {
    pub wr_id: u64,
    pub next: *mut SendRequest,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    /// In network byte order.
    pub immediate: u32,
    pub wr: Remote,
    _qp_type: u64,
    // Memory windows and segmentation: a pointer, a key, and a description of 32 bytes.
    _window: [u64; 6],
}

impl SendRequest {
    pub fn new(id: u64, opcode: c_uint, send_flags: c_uint, list: &mut Sge, wr: Remote) -> Self {
        Self {
            wr_id: id,
            next: std::ptr::null_mut(),
            sg_list: list,
            num_sge: 1,
            opcode,
            send_flags,
            immediate: 0,
            wr,
            _qp_type: 0,
            _window: [0; 6],
        }
    }
}

/// Remote side of a request.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Remote {
    pub none: [u64; 4],
    pub rdma: RemoteMemory,
    pub atomic: RemoteWord,
    pub ud: RemotePair,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct RemoteMemory {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct RemoteWord {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct RemotePair {
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub struct ReceiveRequest {
    pub wr_id: u64,
    pub next: *mut ReceiveRequest,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkCompletion {
    pub wr_id: u64,
    pub status: c_uint,
    _opcode_and_vendor_error: [u32; 2],
    pub byte_len: u32,
    /// In network byte order.
    pub immediate: u32,
    _rest: [u32; 5],
}

/// `struct ibv_port_attr`; every version fills the first part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PortAttr {
    _state_and_max_mtu: [c_uint; 2],
    pub active_mtu: c_uint,
    _gids_and_capabilities: [u32; 2],
    pub max_msg_sz: u32,
    _violations: [u32; 2],
    _pkeys: u16,
    pub lid: u16,
    // Later versions are longer.
    _rest: [u32; 20],
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Results of `offsetof` and `sizeof` for verbs.h of rdma-core 44 on a machine with 64-bit pointers.
    #[test]
    fn layouts_are_those_of_c() {
        assert_eq!(offset_of!(Context, ops), 8);
        assert_eq!(offset_of!(ContextOps, poll_cq), 11 * 8);
        assert_eq!(offset_of!(ContextOps, post_send), 25 * 8);
        assert_eq!(size_of::<ContextOps>(), 32 * 8);
        assert_eq!(offset_of!(Mr, lkey), 36);
        assert_eq!(offset_of!(Qp, qp_num), 52);
        assert_eq!(size_of::<QpInitAttr>(), 64);
        assert_eq!((size_of::<GlobalRoute>(), size_of::<AhAttr>()), (24, 32));
        assert_eq!(offset_of!(QpAttr, ah_attr), 56);
        assert_eq!(offset_of!(QpAttr, pkey_index), 120);
        assert_eq!((offset_of!(QpAttr, rate_limit), size_of::<QpAttr>()), (136, 144));
        assert_eq!((offset_of!(SendRequest, wr), size_of::<SendRequest>()), (40, 128));
        assert_eq!((size_of::<ReceiveRequest>(), size_of::<WorkCompletion>()), (32, 48));
        assert_eq!((offset_of!(PortAttr, max_msg_sz), offset_of!(PortAttr, lid)), (20, 34));
    }
}
