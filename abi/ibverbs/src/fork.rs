//! `ibv_fork_init(3)`: hardware needs it because pinned pages and copy-on-write do not agree. GlassNIC pins nothing.

use crate::layout::{IBV_FORK_UNNEEDED, ibv_fork_status};
use core::ffi::{c_int, c_void};

pub(crate) extern "C" fn ibv_fork_init() -> c_int {
    0
}

pub(crate) extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    IBV_FORK_UNNEEDED
}

pub(crate) extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

pub(crate) extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}
