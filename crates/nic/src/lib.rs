//! What is the device?
//!
//! A network adapter of one port: tables of objects by handle, memory regions and their keys, completion queues,
//! QP contexts in context memory, doorbells, the flight recorder, the commands, and the engine that makes QPs run.
//! It is pure: time is an argument, and links and memory are the [`World`].
//!
//! * Commands (`create_qp`, `modify_qp`, …) are checked, executed and kept in the recorder; a refusal is a value.
//! * Posting and polling go through [`QpShared`] and [`cq::CompQueue`], which their owner and the engine share;
//!   neither takes the engine.
//! * [`Nic::handle_packet`] takes packets, [`Nic::progress`] does what is due, [`Nic::deadline`] says by when.
#![forbid(unsafe_code)]

mod channel;
pub mod context;
pub mod cq;
mod cq_commands;
mod device;
pub mod doorbell;
pub mod driver;
mod engine;
mod env;
mod failure;
pub mod fields;
mod happen;
pub mod key;
mod lag;
mod ledger;
mod leftover;
pub mod limits;
#[cfg(all(test, loom))]
mod loom_tests;
pub mod mr;
pub mod mr_commands;
pub mod object;
pub mod overlap;
pub mod port;
mod qp_commands;
pub mod qpc;
pub mod qpn;
pub mod recorder;
mod shared;
mod slots;
mod srq;
mod sync;
pub mod table;
pub mod waiting;
pub mod window;
mod world;
mod write_back;

pub use device::{Nic, Registered};
pub use happen::{REQUEST_REFUSED, request};
pub use ledger::Caller;
pub use qp_commands::{CreateError, QpInit};
pub use shared::{QpShared, Sender, check_opcode};
pub use srq::{Srq, SrqAttr};
pub use world::{Notifier, Subject, World};
