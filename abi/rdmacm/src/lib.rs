//! `librdmacm.so.1` of GlassNIC: the C interface of `rdma/rdma_cma.h` and `rdma/rsocket.h`.
//!
//! The connection manager is not implemented yet. Many programs link to this library and use it only when asked to (`perftest`
//! without `-R`, for one), so it loads, exports every name, and every call fails with `EOPNOTSUPP`.
#![cfg_attr(test, allow(dead_code, reason = "the exports, which use everything, are left out of unit tests"))]

mod names;
mod unsupported;

/// The exported names; absent from unit tests, which would otherwise define versioned symbols in an executable.
#[cfg(not(test))]
#[allow(non_snake_case, clippy::unused_unit, reason = "made of the names in symbols.txt")]
mod exports {
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
