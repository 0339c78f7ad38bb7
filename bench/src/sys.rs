//! What only unsafe code can do: rings in a mapped file, writing into another process, two options of UDP sockets.
//!
//! # Safety
//!
//! The mapping is reached through ring ends only. The other process's memory is an array of atomics, which it made
//! for this and told us of.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use glassnic_link::cma::{self, Span};
use glassnic_ring::spsc::{Consumer, Producer, area_len};
use memmap2::{MmapOptions, MmapRaw};

/// Both directions of rings between two processes.
pub(crate) struct Rings {
    /// Towards the other.
    pub out: Producer,
    /// From the other.
    pub into: Consumer,
    /// Declared last: dropped last.
    _mapping: MmapRaw,
}

impl Rings {
    /// Bytes of a file for two rings of `capacity` bytes each.
    pub(crate) fn file_len(capacity: usize) -> usize {
        2 * stride(capacity)
    }

    /// Attaches to a file of [`Rings::file_len`] zeros. `first` says which of the two rings is ours to write.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub(crate) fn attach(file: &File, capacity: usize, first: bool) -> Result<Self> {
        let mapping = MmapOptions::new().len(Self::file_len(capacity)).map_raw(file)?;
        let at = |second: bool| {
            let offset = if second { stride(capacity) } else { 0 };
            NonNull::new(mapping.as_mut_ptr().wrapping_add(offset)).context("a mapping at zero")
        };
        // SAFETY: the range is mapped as long as the mapping lives, which is dropped after the ends. Each process
        // makes one end of each ring: the first writes ring 0, the second ring 1.
        let out = unsafe { Producer::attach(at(!first)?, area_len(capacity)) }?;
        // SAFETY: as above.
        let into = unsafe { Consumer::attach(at(first)?, area_len(capacity)) }?;
        Ok(Self { out, into, _mapping: mapping })
    }
}

fn stride(capacity: usize) -> usize {
    area_len(capacity).next_multiple_of(4096)
}

/// Copies `from` to address `to` of process `pid`, which made it as an array of atomics of that length.
///
/// # Errors
/// process_vm_writev(2), or not all was copied.
pub(crate) fn push(pid: u32, to: u64, from: &[AtomicU64]) -> io::Result<()> {
    let len = size_of_val(from);
    let local = [Span { addr: from.as_ptr().expose_provenance() as u64, len: len as u32 }];
    // SAFETY: the local span is readable; the remote one is the other process's array of atomics.
    let copied = unsafe { cma::push(pid, &[Span { addr: to, len: len as u32 }], &local)? };
    if copied == len { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// What udp(7) can merge and cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offload {
    /// What is sent is cut into datagrams of that many bytes.
    Segment(u16),
    /// What is received may be several datagrams.
    Merge,
}

/// Sets an option of udp(7).
///
/// # Errors
/// setsockopt(2): a kernel before 5.0.
pub(crate) fn set_offload(socket: &UdpSocket, offload: Offload) -> io::Result<()> {
    let (option, value) = match offload {
        Offload::Segment(size) => (libc::UDP_SEGMENT, i32::from(size)),
        Offload::Merge => (libc::UDP_GRO, 1),
    };
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel reads the four bytes of `value`.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, option, (&raw const value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
