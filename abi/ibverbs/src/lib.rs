//! `libibverbs.so.1` of GlassNIC: the C interface of `infiniband/verbs.h`, for programs built by somebody else.
//!
//! `symbols.txt` lists every exported name with its version and the function behind it; `layout` holds the structs. A function of
//! this interface checks its pointers, calls the safe Rust API and turns the answer into the value that its man page promises.
//!
//! # Safety
//! Everything here takes raw pointers from C. Control calls look an object up in its [`store::Store`] before they touch it, so a
//! null, foreign or destroyed pointer is refused with `EINVAL`. Calls on the data path check the object's tag only. Pointers to
//! plain memory (attributes, work requests, buffers) must be valid as the man page of the call demands; null is refused.

#![cfg_attr(test, allow(dead_code, reason = "the exports, which use everything, are left out of unit tests"))]

mod address;
mod answer;
mod attributes;
mod buffer;
mod completion;
mod completion_ex;
mod context;
#[cfg(test)]
mod coverage;
mod device;
mod device_memory;
mod domain;
mod events;
mod fork;
mod glassnic;
mod kernel_copies;
mod layout;
mod memory;
mod names;
mod operations;
mod post;
mod post_ex;
mod provider;
mod query;
mod queue_pair;
mod rates;
mod shared_receive;
mod store;
mod sysfs;
mod ucx;
mod unsupported;
mod window;

/// The exported names; absent from unit tests, which would otherwise define versioned symbols in an executable.
#[cfg(not(test))]
#[allow(non_snake_case, clippy::unused_unit, reason = "made of the names in symbols.txt")]
mod exports {
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
