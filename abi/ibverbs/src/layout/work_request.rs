//! Work requests: `ibv_post_send(3)`, `ibv_post_recv(3)`.

use super::describe::{c_enums, c_structs};
use super::{ibv_ah, ibv_mw, ibv_mw_bind_info};
use core::ffi::{c_int, c_uint, c_void};

c_enums! {
    /// What a send work request asks for.
    enum ibv_wr_opcode: c_uint {
        IBV_WR_RDMA_WRITE = 0, IBV_WR_RDMA_WRITE_WITH_IMM = 1, IBV_WR_SEND = 2, IBV_WR_SEND_WITH_IMM = 3, IBV_WR_RDMA_READ = 4,
        IBV_WR_ATOMIC_CMP_AND_SWP = 5, IBV_WR_ATOMIC_FETCH_AND_ADD = 6, IBV_WR_LOCAL_INV = 7, IBV_WR_BIND_MW = 8,
        IBV_WR_SEND_WITH_INV = 9, IBV_WR_TSO = 10, IBV_WR_DRIVER1 = 11, IBV_WR_FLUSH = 14, IBV_WR_ATOMIC_WRITE = 15,
    }
    /// Flags of a send work request.
    enum ibv_send_flags: c_uint {
        IBV_SEND_FENCE = 1, IBV_SEND_SIGNALED = 1 << 1, IBV_SEND_SOLICITED = 1 << 2, IBV_SEND_INLINE = 1 << 3,
        IBV_SEND_IP_CSUM = 1 << 4,
    }
}

c_structs! {
    /// A piece of registered memory.
    struct ibv_sge { addr: u64, length: u32, lkey: u32 }
    /// A send work request. `imm_data` (network byte order) is a union with `invalidate_rkey` (host byte order) in C, and
    /// `remote_srqn` is `qp_type.xrc.remote_srqn` there.
    struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: ibv_wr_opcode,
        send_flags: c_uint,
        imm_data: u32,
        wr: send_wr_target,
        qp_type: u32,
        extra: send_wr_extra,
    }
    /// A receive work request.
    struct ibv_recv_wr { wr_id: u64, next: *mut ibv_recv_wr, sg_list: *mut ibv_sge, num_sge: c_int }
}

/// Where a send work request goes; `wr` in C.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union send_wr_target {
    /// READ and WRITE.
    pub(crate) rdma: send_wr_rdma,
    /// FETCH_AND_ADD and COMPARE_AND_SWAP.
    pub(crate) atomic: send_wr_atomic,
    /// Datagrams.
    pub(crate) ud: send_wr_ud,
}

/// READ and WRITE: the peer's memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct send_wr_rdma {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
}

/// Atomics: the peer's memory and the operands.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct send_wr_atomic {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
}

/// Datagrams: the peer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct send_wr_ud {
    pub(crate) ah: *mut ibv_ah,
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
}

/// The last, unnamed union of a send work request.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union send_wr_extra {
    /// BIND_MW.
    pub(crate) bind_mw: send_wr_bind_mw,
    /// TCP segmentation.
    pub(crate) tso: send_wr_tso,
}

/// BIND_MW: the window and what it is bound to.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct send_wr_bind_mw {
    pub(crate) mw: *mut ibv_mw,
    pub(crate) rkey: u32,
    pub(crate) bind_info: ibv_mw_bind_info,
}

/// TCP segmentation: the header to repeat.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct send_wr_tso {
    pub(crate) hdr: *mut c_void,
    pub(crate) hdr_sz: u16,
    pub(crate) mss: u16,
}
