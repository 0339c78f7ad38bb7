//! What is the device? QP-context memory, object tables, work queues, doorbells, limits.
//!
//! So far: tables of objects by handle, and the keys of memory regions.
#![forbid(unsafe_code)]

pub mod key;
pub mod table;
