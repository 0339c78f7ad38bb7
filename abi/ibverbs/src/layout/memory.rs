//! Protection domains, memory regions and windows, device memory: `ibv_alloc_pd(3)`, `ibv_reg_mr(3)`, `ibv_alloc_mw(3)`.

use super::describe::{c_enums, c_structs};
use super::ibv_context;
use core::ffi::{c_int, c_uint, c_void};

c_enums! {
    /// Access rights of a region, a window or a QP.
    enum ibv_access_flags: c_uint {
        IBV_ACCESS_LOCAL_WRITE = 1, IBV_ACCESS_REMOTE_WRITE = 1 << 1, IBV_ACCESS_REMOTE_READ = 1 << 2,
        IBV_ACCESS_REMOTE_ATOMIC = 1 << 3, IBV_ACCESS_MW_BIND = 1 << 4, IBV_ACCESS_ZERO_BASED = 1 << 5,
        IBV_ACCESS_ON_DEMAND = 1 << 6, IBV_ACCESS_HUGETLB = 1 << 7, IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
        IBV_ACCESS_OPTIONAL_RANGE = 0x3ff0_0000,
    }
    /// What `ibv_rereg_mr` changes.
    enum ibv_rereg_mr_flags: c_int {
        IBV_REREG_MR_CHANGE_TRANSLATION = 1, IBV_REREG_MR_CHANGE_PD = 1 << 1, IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
        IBV_REREG_MR_FLAGS_SUPPORTED = 7,
    }
    /// What `ibv_rereg_mr` returns when it fails.
    enum ibv_rereg_mr_err_code: c_int {
        IBV_REREG_MR_ERR_INPUT = -1, IBV_REREG_MR_ERR_DONT_FORK_NEW = -2, IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
        IBV_REREG_MR_ERR_CMD = -4, IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5,
    }
    /// The type of a memory window.
    enum ibv_mw_type: c_uint { IBV_MW_TYPE_1 = 1, IBV_MW_TYPE_2 = 2 }
    /// Which fields of `ibv_parent_domain_init_attr` are given.
    enum ibv_parent_domain_init_attr_mask: c_uint {
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1, IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
    }
}

c_structs! {
    /// A protection domain.
    struct ibv_pd { context: *mut ibv_context, handle: u32 }
    /// Input of `ibv_alloc_td`.
    struct ibv_td_init_attr { comp_mask: u32 }
    /// A thread domain.
    struct ibv_td { context: *mut ibv_context }
    /// Input of `ibv_alloc_parent_domain`.
    struct ibv_parent_domain_init_attr {
        pd: *mut ibv_pd,
        td: *mut ibv_td,
        comp_mask: u32,
        alloc: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void>,
        free: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64)>,
        pd_context: *mut c_void,
    }
    /// A memory region.
    struct ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }
    /// A memory window.
    struct ibv_mw { context: *mut ibv_context, pd: *mut ibv_pd, rkey: u32, handle: u32, r#type: ibv_mw_type }
    /// What a window is bound to.
    struct ibv_mw_bind_info { mr: *mut ibv_mr, addr: u64, length: u64, mw_access_flags: c_uint }
    /// Input of `ibv_bind_mw`.
    struct ibv_mw_bind { wr_id: u64, send_flags: c_uint, bind_info: ibv_mw_bind_info }
    /// Input of `ibv_alloc_dm`.
    struct ibv_alloc_dm_attr { length: usize, log_align_req: u32, comp_mask: u32 }
    /// Device memory.
    struct ibv_dm {
        context: *mut ibv_context,
        memcpy_to_dm: Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int>,
        memcpy_from_dm: Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int>,
        comp_mask: u32,
        handle: u32,
    }
}
