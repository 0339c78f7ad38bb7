//! The safe Rust front door.
//!
//! [`devices`] lists the devices of this host; a [`Context`] is an open one. Objects are named as in `ibv_*(3)`, and
//! so are the rules: `destroy` of an object that others use fails with EBUSY and changes nothing. An object that is
//! dropped is destroyed, if it can be.
//!
//! Posting and polling take no lock but that of the queue, and then make a step of the engine in the caller's thread.
#![forbid(unsafe_code)]

mod batch;
mod context;
mod cq;
mod memory;
mod qp;
mod srq;
pub mod typed;

pub use batch::{Modify, PendingModify, PendingQp};
pub use context::{Channel, ChannelError, Context, Device, devices, now_ns, problems, ways};
pub use cq::Cq;
pub use glassnic_events as events;
pub use glassnic_host::inspect;
pub use glassnic_host::profile;
pub use glassnic_host::sysfs;
pub use glassnic_host::{
    AsyncEvent, Choice, EventQueue, Force, GidEntry, GidKind, GidPlace, HEADER_RESERVE, HostDevice,
    Interface, Problem, Ways, Words,
};
pub use glassnic_nic::cq::{Cqe, Moderation};
pub use glassnic_nic::limits::Limits;
pub use glassnic_nic::mr_commands::MrChange;
pub use glassnic_nic::port::{GID_TABLE_LEN, Port};
pub use glassnic_nic::recorder::{Change, changes};
pub use glassnic_nic::window::WindowType;
pub use glassnic_nic::{Sender, SrqAttr, Subject, check_opcode};
pub use glassnic_nic::{driver, fields, object, qpc};
pub use glassnic_transport::{BindWindow, Completion, SendFlags, SendRequest, Sge, UdDest, WcFlags, timing};
pub use glassnic_transport::{attr, state};
pub use glassnic_wire::Qpn;
pub use memory::{Ah, Buffer, Dm, Mr, Mw, Pd};
pub use qp::{Qp, QpInit};
pub use srq::Srq;

use glassnic_events::{Call, ObjectKind, Refusal, Rule};

/// A refusal for an object whose device is gone, or is another process's.
pub(crate) fn gone(call: Call) -> Refusal {
    let closed = Rule::BadHandle { kind: ObjectKind::Context, handle: 0 };
    Refusal::new(call, in_child().unwrap_or(closed))
}

/// In a forked child: the rule that it breaks by using what its parent opened.
pub(crate) fn in_child() -> Option<Rule> {
    let runtime = glassnic_host::Runtime::instance();
    let rule = Rule::ForkedChild { opened_by: runtime.pid(), caller: std::process::id() };
    runtime.is_forked().then_some(rule)
}
