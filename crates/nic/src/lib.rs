//! What is the device? QP-context memory, object tables, work queues, doorbells, limits.
//!
//! So far: tables of objects by handle, memory regions and their keys, completion queues.
#![forbid(unsafe_code)]

pub mod cq;
pub mod key;
pub mod mr;
pub mod table;
