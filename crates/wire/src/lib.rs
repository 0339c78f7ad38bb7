//! What do the bytes mean?
//!
//! RoCEv2 packets (BTH and extension headers, the opcode table, the ICRC), 24-bit PSN arithmetic, the Ethernet, IP and
//! UDP headers around them, and the 72-byte command record that the device executes and the flight recorder keeps.
//! Values in, bytes out, and back: no state, no clock, no allocation on the packet path. Nothing in here panics on
//! bytes from outside.
//!
//! * [`parse_packet`] takes what UDP port 4791 delivered; [`Headers::emit`] writes headers; [`icrc`] closes them.
//! * [`opcode`] is the one table that says which headers an opcode has and what it does.
//! * [`cm`] is what connection management says in MADs between QPs 1.
//! * [`command`] is the record; [`frame`] takes frames apart and builds them; [`dissect`] says what a captured one is
//!   and what is odd about it.

#![forbid(unsafe_code)]

pub mod cm;
pub mod command;
pub mod dissect;
mod error;
pub mod frame;
mod headers;
pub mod icrc;
pub mod ip;
pub mod opcode;
mod packet;
mod print;
pub mod psn;
mod syndrome;

pub use error::WireError;
pub use headers::{
    Aeth, AtomicAckEth, AtomicEth, BTH_LEN, Bth, Deth, Feth, Headers, ICRC_LEN, MAX_HEADERS_LEN, Reth, XrcEth,
};
pub use opcode::{HeaderSet, Kind, Opcode, OpcodeInfo, Position, Service};
pub use packet::{Packet, pad_for, parse_packet};
pub use psn::{Psn, Qpn};
pub use syndrome::{Decoded, NakCode, Syndrome, rnr_timer_us};
