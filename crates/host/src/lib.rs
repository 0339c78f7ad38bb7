//! Who owns threads, fds and memory?
//!
//! One [`Runtime`] a process: its devices, its links, the engine with its NICs, and the background thread. An open
//! device is an [`OpenNic`].

mod background;
mod chinese;
mod command_queue;
mod devices;
mod engine;
mod event_queue;
pub mod inspect;
mod links;
mod open;
mod peers;
mod problem;
pub mod profile;
mod record;
mod runtime;
mod segment;
pub mod sys;
pub mod sysfs;
mod tap;

pub use command_queue::Pending;
pub use devices::HostDevice;
pub use event_queue::EventQueue;
pub use glassnic_link::iface::{Choice, GidEntry, GidKind, GidPlace, HEADER_RESERVE, Interface};
pub use links::Force;
pub use open::{Access, AsyncEvent, CompletionQueue, Created, OpenNic};
pub use problem::{Problem, Words};
pub use runtime::{Runtime, Ways};
