//! The safe Rust front door.
//!
//! [`devices`] lists the devices of this host; a [`Context`] is an open one. Objects are named as in `ibv_*(3)`, and
//! so are the rules: `destroy` of an object that others use fails with EBUSY and changes nothing. An object that is
//! dropped is destroyed, if it can be.
//!
//! Posting and polling take no lock but that of the queue, and then make a step of the engine in the caller's thread.
#![forbid(unsafe_code)]

mod context;
mod cq;
mod memory;
mod qp;
pub mod typed;

pub use context::{Channel, Context, Device, devices, now_ns, problems, ways};
pub use cq::Cq;
pub use glassnic_events as events;
pub use glassnic_host::inspect;
pub use glassnic_host::{
    AsyncEvent, Choice, EventQueue, Force, GidEntry, GidKind, HEADER_RESERVE, HostDevice, Interface, Ways,
};
pub use glassnic_nic::cq::Cqe;
pub use glassnic_nic::limits::Limits;
pub use glassnic_nic::port::{GID_TABLE_LEN, Port};
pub use glassnic_nic::recorder::{Change, changes};
pub use glassnic_nic::{Sender, Subject, check_opcode};
pub use glassnic_nic::{driver, fields, object, qpc};
pub use glassnic_transport::attr;
pub use glassnic_transport::{Completion, SendFlags, SendRequest, Sge, UdDest, WcFlags, timing};
pub use glassnic_wire::Qpn;
pub use memory::{Ah, Mr, Pd};
pub use qp::{Qp, QpInit};

use glassnic_events::{Call, ObjectKind, Refusal, Rule};

/// A refusal for an object whose device is gone.
pub(crate) fn gone(call: Call) -> Refusal {
    Refusal::new(call, Rule::BadHandle { kind: ObjectKind::Context, handle: 0 })
}
