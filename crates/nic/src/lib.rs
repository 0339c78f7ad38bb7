//! What is the device? QP-context memory, object tables, work queues, doorbells, limits.
//!
//! So far: tables of objects by handle, memory regions and their keys, completion queues, context memory and
//! the flight recorder.
#![forbid(unsafe_code)]

pub mod context;
pub mod cq;
pub mod doorbell;
pub mod key;
pub mod mr;
pub mod qpc;
pub mod qpn;
pub mod recorder;
pub mod table;
