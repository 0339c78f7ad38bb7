//! The tables of operations that C calls without asking first.
//!
//! The inline functions of `verbs.h` do not check these slots for null, so every one of them is filled, and what GlassNIC does not
//! implement is refused. Slots of `verbs_context` are checked (but `close_xrcd`), so there null says the same.

use crate::layout::describe::CStruct;
use crate::layout::*;
use crate::{
    completion, completion_ex, device_memory, domain, memory, post, post_ex, query, queue_pair,
    shared_receive, unsupported, window,
};
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

/// Functions that refuse: each says its name, takes its arguments and gives one answer.
macro_rules! refused {
    ($(fn $name:ident($($ty:ty),*) $(-> $ret:ty = $value:expr)?;)*) => {$(
        unsafe extern "C" fn $name($(_: $ty),*) $(-> $ret)? {
            unsupported::code(stringify!($name));
            $($value)?
        }
    )*
        /// Where they are.
        #[cfg(test)]
        pub(crate) fn refused() -> Vec<usize> {
            vec![$($name as *const () as usize),*]
        }
    };
}

refused! {
    fn obsolete() -> *mut c_void = ptr::null_mut();
    fn close_xrcd(*mut ibv_xrcd) -> c_int = libc::EOPNOTSUPP;

    fn read_u32(*mut ibv_cq_ex) -> u32 = 0;
    fn read_u8(*mut ibv_cq_ex) -> u8 = 0;
    fn read_u16(*mut ibv_cq_ex) -> u16 = 0;
    fn read_tm_info(*mut ibv_cq_ex, *mut ibv_wc_tm_info);

    fn wr_u32(*mut ibv_qp_ex, u32);
    fn wr_send_tso(*mut ibv_qp_ex, *mut c_void, u16, u16);
}

/// The operations of a context.
const CONTEXT_OPS: ibv_context_ops = ibv_context_ops {
    _compat_query_device: Some(obsolete),
    _compat_query_port: Some(obsolete),
    _compat_alloc_pd: Some(obsolete),
    _compat_dealloc_pd: Some(obsolete),
    _compat_reg_mr: Some(obsolete),
    _compat_rereg_mr: Some(obsolete),
    _compat_dereg_mr: Some(obsolete),
    alloc_mw: Some(window::alloc_mw),
    bind_mw: Some(window::bind_mw),
    dealloc_mw: Some(window::dealloc_mw),
    _compat_create_cq: Some(obsolete),
    poll_cq: Some(completion::poll_cq),
    req_notify_cq: Some(completion::req_notify_cq),
    _compat_cq_event: Some(obsolete),
    _compat_resize_cq: Some(obsolete),
    _compat_destroy_cq: Some(obsolete),
    _compat_create_srq: Some(obsolete),
    _compat_modify_srq: Some(obsolete),
    _compat_query_srq: Some(obsolete),
    _compat_destroy_srq: Some(obsolete),
    post_srq_recv: Some(post::post_srq_recv),
    _compat_create_qp: Some(obsolete),
    _compat_query_qp: Some(obsolete),
    _compat_modify_qp: Some(obsolete),
    _compat_destroy_qp: Some(obsolete),
    post_send: Some(post::post_send),
    post_recv: Some(post::post_recv),
    _compat_create_ah: Some(obsolete),
    _compat_destroy_ah: Some(obsolete),
    _compat_attach_mcast: Some(obsolete),
    _compat_detach_mcast: Some(obsolete),
    _compat_async_event: Some(obsolete),
};

/// A context without a device and descriptors.
pub(crate) const CONTEXT: verbs_context = verbs_context {
    query_port: Some(query::query_port),
    advise_mr: Some(memory::advise_mr),
    alloc_null_mr: Some(memory::alloc_null_mr),
    reg_dm_mr: Some(device_memory::reg_dm_mr),
    alloc_dm: Some(device_memory::alloc_dm),
    free_dm: Some(device_memory::free_dm),
    query_rt_values: Some(query::query_rt_values),
    create_cq_ex: Some(completion_ex::create_cq_ex),
    modify_cq: Some(completion::modify_cq),
    alloc_td: Some(domain::alloc_td),
    dealloc_td: Some(domain::dealloc_td),
    alloc_parent_domain: Some(domain::alloc_parent_domain),
    query_device_ex: Some(query::query_device_ex),
    create_qp_ex: Some(queue_pair::create_qp_ex),
    create_srq_ex: Some(shared_receive::create_srq_ex),
    close_xrcd: Some(close_xrcd),
    sz: size_of::<verbs_context>(),
    context: ibv_context {
        ops: CONTEXT_OPS,
        cmd_fd: -1,
        async_fd: -1,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        abi_compat: ABI_IS_EXTENDED,
        ..ibv_context::ZERO
    },
    ..verbs_context::ZERO
};

/// A CQ with every function of the extended polling interface.
pub(crate) const CQ: ibv_cq_ex = ibv_cq_ex {
    mutex: libc::PTHREAD_MUTEX_INITIALIZER,
    cond: libc::PTHREAD_COND_INITIALIZER,
    start_poll: Some(completion_ex::start_poll),
    next_poll: Some(completion_ex::next_poll),
    end_poll: Some(completion_ex::end_poll),
    read_opcode: Some(completion_ex::read_opcode),
    read_vendor_err: Some(completion_ex::read_vendor_err),
    read_byte_len: Some(completion_ex::read_byte_len),
    read_imm_data: Some(completion_ex::read_imm_data),
    read_qp_num: Some(completion_ex::read_qp_num),
    read_src_qp: Some(completion_ex::read_src_qp),
    read_wc_flags: Some(completion_ex::read_wc_flags),
    read_slid: Some(read_u32),
    read_sl: Some(completion_ex::read_sl),
    read_dlid_path_bits: Some(read_u8),
    read_completion_ts: Some(completion_ex::read_completion_ts),
    read_cvlan: Some(read_u16),
    read_flow_tag: Some(read_u32),
    read_tm_info: Some(read_tm_info),
    read_completion_wallclock_ns: Some(completion_ex::read_completion_wallclock_ns),
    ..ibv_cq_ex::ZERO
};

/// An SRQ.
pub(crate) const SRQ: ibv_srq =
    ibv_srq { mutex: libc::PTHREAD_MUTEX_INITIALIZER, cond: libc::PTHREAD_COND_INITIALIZER, ..ibv_srq::ZERO };

/// A QP with every function of the extended posting interface.
pub(crate) const QP: verbs_qp = verbs_qp {
    qp_ex: ibv_qp_ex {
        qp_base: ibv_qp {
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            ..ibv_qp::ZERO
        },
        wr_atomic_cmp_swp: Some(post_ex::wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(post_ex::wr_atomic_fetch_add),
        wr_bind_mw: Some(post_ex::wr_bind_mw),
        wr_local_inv: Some(post_ex::wr_local_inv),
        wr_rdma_read: Some(post_ex::wr_rdma_read),
        wr_rdma_write: Some(post_ex::wr_rdma_write),
        wr_rdma_write_imm: Some(post_ex::wr_rdma_write_imm),
        wr_send: Some(post_ex::wr_send),
        wr_send_imm: Some(post_ex::wr_send_imm),
        wr_send_inv: Some(post_ex::wr_send_inv),
        wr_send_tso: Some(wr_send_tso),
        wr_set_ud_addr: Some(post_ex::wr_set_ud_addr),
        wr_set_xrc_srqn: Some(wr_u32),
        wr_set_inline_data: Some(post_ex::wr_set_inline_data),
        wr_set_inline_data_list: Some(post_ex::wr_set_inline_data_list),
        wr_set_sge: Some(post_ex::wr_set_sge),
        wr_set_sge_list: Some(post_ex::wr_set_sge_list),
        wr_start: Some(post_ex::wr_start),
        wr_complete: Some(post_ex::wr_complete),
        wr_abort: Some(post_ex::wr_abort),
        wr_atomic_write: Some(post_ex::wr_atomic_write),
        wr_flush: Some(post_ex::wr_flush),
        ..ibv_qp_ex::ZERO
    },
    ..verbs_qp::ZERO
};

/// A slot's type, for the compiler to agree that `read_opcode` and friends return 32 bits.
const _: () = assert!(size_of::<ibv_wc_opcode>() == size_of::<c_uint>());

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    /// The words of a table from `first` to before `last`, bytes.
    fn empty_slots<T: CStruct>(table: &T, first: usize, last: usize) -> Vec<usize> {
        // SAFETY: the range lies within the table and holds pointer-sized slots only.
        let word = |offset: usize| unsafe { (&raw const *table).cast::<usize>().byte_add(offset).read() };
        (first..last).step_by(size_of::<usize>()).filter(|offset| word(*offset) == 0).collect()
    }

    #[test]
    fn no_slot_that_c_calls_blindly_is_null() {
        let ops = CONTEXT.context.ops;
        assert_eq!(empty_slots(&ops, 0, size_of::<ibv_context_ops>()), [0usize; 0]);
        assert_eq!(empty_slots(&CQ, offset_of!(ibv_cq_ex, start_poll), size_of::<ibv_cq_ex>()), [0usize; 0]);
        assert_eq!(
            empty_slots(&QP.qp_ex, offset_of!(ibv_qp_ex, wr_atomic_cmp_swp), size_of::<ibv_qp_ex>()),
            [0usize; 0]
        );
        assert!(CONTEXT.close_xrcd.is_some());
    }

    #[test]
    fn a_context_says_that_it_is_extended() {
        assert_eq!(CONTEXT.context.abi_compat.addr(), usize::MAX);
        assert_eq!(CONTEXT.sz, 696);
        assert_eq!(offset_of!(verbs_context, context) - offset_of!(verbs_context, sz), size_of::<usize>());
    }
}
