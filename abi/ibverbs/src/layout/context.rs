//! The opened device: the tables of operations that the inline functions of `verbs.h` call through.

use super::describe::{c_enums, c_structs};
use super::{
    Opaque, Slot, ibv_alloc_dm_attr, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device, ibv_device_attr_ex,
    ibv_dm, ibv_modify_cq_attr, ibv_mr, ibv_mw, ibv_mw_bind, ibv_mw_type, ibv_parent_domain_init_attr,
    ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_qp_rate_limit_attr,
    ibv_query_device_ex_input, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_srq, ibv_srq_init_attr_ex, ibv_td,
    ibv_td_init_attr, ibv_values_ex, ibv_wc, ibv_wq, ibv_wq_attr, ibv_wq_init_attr, ibv_xrcd,
    ibv_xrcd_init_attr,
};
use core::ffi::{c_int, c_uint, c_void};

/// `abi_compat` of a context whose [`verbs_context`] lies in front of it (`__VERBS_ABI_IS_EXTENDED`).
pub(crate) const ABI_IS_EXTENDED: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);

c_enums! {
    /// What `ibv_advise_mr` asks for.
    enum ibv_advise_mr_advice: c_uint {
        IBV_ADVISE_MR_ADVICE_PREFETCH = 0, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE = 1, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT = 2,
    }
}

c_structs! {
    /// The operations of a context. C calls all but `alloc_mw` without a check.
    struct ibv_context_ops {
        _compat_query_device: Slot,
        _compat_query_port: Slot,
        _compat_alloc_pd: Slot,
        _compat_dealloc_pd: Slot,
        _compat_reg_mr: Slot,
        _compat_rereg_mr: Slot,
        _compat_dereg_mr: Slot,
        alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, ibv_mw_type) -> *mut ibv_mw>,
        bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
        dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
        _compat_create_cq: Slot,
        poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
        req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
        _compat_cq_event: Slot,
        _compat_resize_cq: Slot,
        _compat_destroy_cq: Slot,
        _compat_create_srq: Slot,
        _compat_modify_srq: Slot,
        _compat_query_srq: Slot,
        _compat_destroy_srq: Slot,
        post_srq_recv: Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        _compat_create_qp: Slot,
        _compat_query_qp: Slot,
        _compat_modify_qp: Slot,
        _compat_destroy_qp: Slot,
        post_send: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
        post_recv: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        _compat_create_ah: Slot,
        _compat_destroy_ah: Slot,
        _compat_attach_mcast: Slot,
        _compat_detach_mcast: Slot,
        _compat_async_event: Slot,
    }
    /// An opened device.
    struct ibv_context {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: libc::pthread_mutex_t,
        /// [`ABI_IS_EXTENDED`], or every extended verb is off.
        abi_compat: *mut c_void,
    }
    /// What lies in front of a context. It grows upwards: `sz` tells the inlines how far up it reaches, and a slot that is null
    /// means `EOPNOTSUPP` to all of them but `close_xrcd`.
    struct verbs_context {
        /// Slots newer than `query_port`, for calls that GlassNIC does not implement.
        _newest: [Slot; 6],
        query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
        advise_mr: Option<unsafe extern "C" fn(*mut ibv_pd, ibv_advise_mr_advice, u32, *mut ibv_sge, u32) -> c_int>,
        alloc_null_mr: Option<unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr>,
        read_counters: Slot,
        attach_counters_point_flow: Slot,
        create_counters: Slot,
        destroy_counters: Slot,
        reg_dm_mr: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr>,
        alloc_dm: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm>,
        free_dm: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>,
        modify_flow_action_esp: Slot,
        destroy_flow_action: Slot,
        create_flow_action_esp: Slot,
        modify_qp_rate_limit: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> c_int>,
        alloc_parent_domain: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd>,
        dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
        alloc_td: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
        modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>,
        post_srq_ops: Slot,
        destroy_rwq_ind_table: Slot,
        create_rwq_ind_table: Slot,
        destroy_wq: Option<unsafe extern "C" fn(*mut ibv_wq) -> c_int>,
        modify_wq: Option<unsafe extern "C" fn(*mut ibv_wq, *mut ibv_wq_attr) -> c_int>,
        create_wq: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_wq_init_attr) -> *mut ibv_wq>,
        query_rt_values: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
        create_cq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
        r#priv: Opaque,
        query_device_ex: Option<
            unsafe extern "C" fn(*mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, usize) -> c_int,
        >,
        ibv_destroy_flow: Slot,
        ABI_placeholder2: Slot,
        ibv_create_flow: Slot,
        ABI_placeholder1: Slot,
        open_qp: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp>,
        create_qp_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
        get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
        create_srq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
        open_xrcd: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd>,
        close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>,
        _ABI_placeholder3: u64,
        sz: usize,
        context: ibv_context,
    }
}
