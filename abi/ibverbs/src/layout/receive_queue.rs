//! Receive queues that are objects of their own: `ibv_create_srq(3)`, `ibv_create_srq_ex(3)`, `ibv_create_wq(3)`, `ibv_open_xrcd(3)`.

use super::describe::{c_enums, c_structs};
use super::{ibv_context, ibv_cq, ibv_pd, ibv_recv_wr};
use core::ffi::{c_int, c_uint, c_void};

c_enums! {
    /// What `ibv_modify_srq` changes.
    enum ibv_srq_attr_mask: c_int { IBV_SRQ_MAX_WR = 1, IBV_SRQ_LIMIT = 1 << 1 }
    /// The kind of an SRQ.
    enum ibv_srq_type: c_uint { IBV_SRQT_BASIC = 0, IBV_SRQT_XRC = 1, IBV_SRQT_TM = 2 }
    /// Which fields of `ibv_srq_init_attr_ex` are given.
    enum ibv_srq_init_attr_mask: c_uint {
        IBV_SRQ_INIT_ATTR_TYPE = 1, IBV_SRQ_INIT_ATTR_PD = 1 << 1, IBV_SRQ_INIT_ATTR_XRCD = 1 << 2, IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
        IBV_SRQ_INIT_ATTR_TM = 1 << 4, IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
    }
    /// Which fields of `ibv_xrcd_init_attr` are given.
    enum ibv_xrcd_init_attr_mask: c_uint { IBV_XRCD_INIT_ATTR_FD = 1, IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1 }
    /// The kind of a WQ.
    enum ibv_wq_type: c_uint { IBV_WQT_RQ = 0 }
    /// WQ state.
    enum ibv_wq_state: c_uint { IBV_WQS_RESET = 0, IBV_WQS_RDY = 1, IBV_WQS_ERR = 2, IBV_WQS_UNKNOWN = 3 }
}

c_structs! {
    /// The sizes of an SRQ.
    struct ibv_srq_attr { max_wr: u32, max_sge: u32, srq_limit: u32 }
    /// Input of `ibv_create_srq`.
    struct ibv_srq_init_attr { srq_context: *mut c_void, attr: ibv_srq_attr }
    /// Tag matching sizes.
    struct ibv_tm_cap { max_num_tags: u32, max_ops: u32 }
    /// Input of `ibv_create_srq_ex`; begins as `ibv_srq_init_attr`.
    struct ibv_srq_init_attr_ex {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
        comp_mask: u32,
        srq_type: ibv_srq_type,
        pd: *mut ibv_pd,
        xrcd: *mut ibv_xrcd,
        cq: *mut ibv_cq,
        tm_cap: ibv_tm_cap,
    }
    /// A shared receive queue.
    struct ibv_srq {
        context: *mut ibv_context,
        srq_context: *mut c_void,
        pd: *mut ibv_pd,
        handle: u32,
        mutex: libc::pthread_mutex_t,
        cond: libc::pthread_cond_t,
        events_completed: u32,
    }
    /// Input of `ibv_open_xrcd`.
    struct ibv_xrcd_init_attr { comp_mask: u32, fd: c_int, oflags: c_int }
    /// An XRC domain.
    struct ibv_xrcd { context: *mut ibv_context }
    /// Input of `ibv_create_wq`.
    struct ibv_wq_init_attr {
        wq_context: *mut c_void,
        wq_type: ibv_wq_type,
        max_wr: u32,
        max_sge: u32,
        pd: *mut ibv_pd,
        cq: *mut ibv_cq,
        comp_mask: u32,
        create_flags: u32,
    }
    /// Input of `ibv_modify_wq`.
    struct ibv_wq_attr {
        attr_mask: u32,
        wq_state: ibv_wq_state,
        curr_wq_state: ibv_wq_state,
        flags: u32,
        flags_mask: u32,
    }
    /// A work queue.
    struct ibv_wq {
        context: *mut ibv_context,
        wq_context: *mut c_void,
        pd: *mut ibv_pd,
        cq: *mut ibv_cq,
        wq_num: u32,
        handle: u32,
        state: ibv_wq_state,
        wq_type: ibv_wq_type,
        post_recv: Option<unsafe extern "C" fn(*mut ibv_wq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        mutex: libc::pthread_mutex_t,
        cond: libc::pthread_cond_t,
        events_completed: u32,
        comp_mask: u32,
    }
}
