//! How are packets kept?
//!
//! Capture files and dumps in and out: [`pcap`](read) and pcapng read, [pcapng written](Writer), [hexadecimal dumps](hex)
//! read, [descriptors as the frames that they stand for](frames), and the Wireshark dissector of command records [made from its tables](lua). Bytes to values and back: whoever
//! calls opens the files.
//!
//! The file formats are read and written by hand: it is a few hundred lines on slices that any bytes may come to, and
//! the crates for it bring their own buffers, errors and block types for features of which a capture of packets uses none.

#![forbid(unsafe_code)]

pub mod frames;
pub mod hex;
pub mod lua;
pub mod names;
mod read;
mod write;

pub use read::{CaptureError, Packet, Parser, Reader, Step, is_capture};
pub use write::{INTERFACE_OF_PACKETS, INTERFACE_OF_RECORDS, Interface, Writer};
