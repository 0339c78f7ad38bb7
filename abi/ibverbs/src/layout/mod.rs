//! The memory layouts of `infiniband/verbs.h` and of the parts of `driver.h` that other libraries look into.
//!
//! The layout is that of the newest rdma-core; structs only ever grew, so it serves programs built with older headers too. Names are
//! those of the header, one file a family. What a field means is said in the man page of the call that uses it, and here only where
//! the provider has to know more.

#![allow(non_camel_case_types, non_snake_case, reason = "the names are those of the C header")]
#![allow(dead_code, reason = "the headers are mirrored whole, and the descriptions serve the tests")]

pub(crate) mod address;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod describe;
pub(crate) mod device;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod queue_pair;
pub(crate) mod receive_queue;
pub(crate) mod work_request;

pub(crate) use self::{
    address::*, completion::*, context::*, device::*, memory::*, queue_pair::*, receive_queue::*,
    work_request::*,
};

use core::ffi::c_void;

/// A pointer to a struct that this library never looks into.
pub(crate) type Opaque = *mut c_void;

/// A function pointer slot that nothing calls with known arguments.
pub(crate) type Slot = Option<unsafe extern "C" fn() -> *mut c_void>;

/// Every struct, for the layout test.
pub(crate) const STRUCTS: &[&[describe::Struct]] = &[
    address::STRUCTS,
    completion::STRUCTS,
    context::STRUCTS,
    device::STRUCTS,
    kernel::STRUCTS,
    memory::STRUCTS,
    queue_pair::STRUCTS,
    receive_queue::STRUCTS,
    work_request::STRUCTS,
];

/// Every constant, for the layout test.
pub(crate) const CONSTANTS: &[&[(&str, i64)]] = &[
    address::CONSTANTS,
    completion::CONSTANTS,
    context::CONSTANTS,
    device::CONSTANTS,
    memory::CONSTANTS,
    queue_pair::CONSTANTS,
    receive_queue::CONSTANTS,
    work_request::CONSTANTS,
];
