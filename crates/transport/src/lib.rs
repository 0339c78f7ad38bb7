//! What does a queue pair (QP) do next?
//!
//! The transport layer of an InfiniBand host channel adapter, as RoCEv2 carries it: RC, UC and UD
//! requester, responder and completer, and the QP state table. It is *sans-IO*: no socket, no clock, no
//! thread. Time is an argument (`now`, nanoseconds on any monotonic scale), and the world around a QP (keys,
//! memory, completion queues, the wire) is the [`Device`] trait.
//!
//! A [`Qp`] has four kinds of method, as every sans-IO machine here:
//!
//! * getters ([`Qp::state`], [`Qp::deadline`], …), which change nothing;
//! * inputs, `handle_*`, which take what the network or the clock brought;
//! * commands ([`Qp::modify`]), which the owner of the QP gives;
//! * outputs: [`Qp::transmit`] hands descriptors to [`Device::transmit`] until nothing is left to do or the
//!   link has no room.
//!
//! After any input or command, call [`Qp::transmit`] until it says [`Progress::Idle`], and call
//! [`Qp::handle_timeout`] once `now` reaches [`Qp::deadline`].
//!
//! One descriptor may stand for several consecutive packets of one message (`npsn`) where the link can carry
//! that; PSN arithmetic stays that of the path MTU, so the two ends need not agree on how a message was cut.
#![forbid(unsafe_code)]

pub mod attr;
pub mod device;
mod held;
mod lazy;
pub mod qp;
pub mod queue;
mod requester;
mod responder;
pub mod state;
pub mod timing;
mod ud;
pub mod wqe;

pub use device::{AtomicOp, Device, Incoming, KeyFault, Payload, Recv, RemoteAccess, Span, Tx, TxPayload};
pub use glassnic_events::{WcOpcode, WrOpcode};
pub use qp::{Progress, Qp, QpConfig};
pub use queue::{Credit, PostError, RecvQueue, SendQueue};
pub use wqe::{
    BindWindow, Completion, FromSrq, ReceiveWqe, SendFlags, SendRequest, SendWqe, Sge, UdDest, WcFlags,
};
