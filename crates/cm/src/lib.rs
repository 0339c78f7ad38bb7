//! How do two sides meet?
//!
//! The connection manager of InfiniBand (IBA §12) without sockets, threads or a clock: [`Manager`] takes messages and the time
//! in, and gives messages and events out. It makes connections (REQ, REP, RTU), turns them down (REJ), ends them (DREQ, DREP)
//! and keeps them in mind until nothing of them can be on its way any more (TIMEWAIT); and it asks for the QP behind a
//! datagram service (SIDR). What it sends it sends again, with growing delays, until there is an answer or it gives up.
#![forbid(unsafe_code)]

mod active;
mod call;
mod conn;
mod event;
mod manager;
mod passive;
mod sidr;
pub mod timing;

pub use call::{Accept, Connect, Listen, Transmit, Why, WrongState};
pub use conn::{ConnId, Path, State, Terms};
pub use event::{Event, What};
pub use manager::Manager;
pub use sidr::{Answer, Query};
