//! Records between processes of one user and host, through shared-memory rings.
//!
//! Each process has one [`Inbox`]: a sparse file with 64 rings, each of which one sender claims. A [`Peer`] is the
//! sending end. Records are opaque here.
//!
//! ```text
//! 0      magic u64 | 64: the owner's sleeper | 128: closed u32 | 192: bit set of rings in use u64
//! 4096   64 claims of 64 bytes: sender (generation << 32 | slot + 1) u64, stage u32
//! 8192   64 rings
//! ```
//!
//! The life of a ring: a sender claims it (compare-and-swap of the sender word), allocates its pages, sets the stage to
//! OPEN and its bit. Either side may end it: the sender sets CLOSING, and the owner takes what is left and frees it; the
//! owner sets BROKEN, and the sender finds it gone. Only the owner frees, by punching the pages out, which also
//! zeroes them. A sender that dies leaves its claim, which the owner frees when it looks for the dead.

mod inbox;
mod peer;
#[cfg(test)]
mod tests;

pub use inbox::Inbox;
pub use peer::{ConnectError, Peer, SendError};

use crate::directory::Owner;
use crate::sys::mapping::Mapping;
use glassnic_ring::Sleeper;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Rings of an inbox: so many senders at a time.
pub const RING_COUNT: usize = 64;
/// Data bytes of a ring.
pub const RING_CAPACITY: usize = 256 * 1024;
/// Longest record in bytes.
pub const RECORD_LEN_MAX: usize = 16 * 1024;

const MAGIC: u64 = u64::from_le_bytes(*b"GLASSIN1");
const MAGIC_AT: usize = 0;
const SLEEPER_AT: usize = 64;
const CLOSED_AT: usize = 128;
const USED_AT: usize = 192;
const CLAIMS_AT: usize = 4096;
const CLAIM_LEN: usize = 64;
const RINGS_AT: usize = 8192;
const RING_LEN: usize = glassnic_ring::spsc::area_len(RING_CAPACITY);
/// Rings begin on pages of their own, so that they can be punched out one by one.
const RING_STRIDE: usize = RING_LEN.next_multiple_of(4096);
const FILE_LEN: usize = RINGS_AT + RING_COUNT * RING_STRIDE;

/// Stages of a ring. FREE and CLAIMED differ by the sender word.
const STAGE_FREE: u32 = 0;
const STAGE_OPEN: u32 = 1;
const STAGE_CLOSING: u32 = 2;
const STAGE_BROKEN: u32 = 3;

/// The mapped inbox file, as both sides see it.
struct Layout(Mapping);

impl Layout {
    fn sleeper(&self) -> &Sleeper {
        self.0.sleeper(SLEEPER_AT)
    }
    fn closed(&self) -> &AtomicU32 {
        self.0.u32(CLOSED_AT)
    }
    /// A bit for each ring that may hold records.
    fn used(&self) -> &AtomicU64 {
        self.0.u64(USED_AT)
    }
    fn sender(&self, ring: usize) -> &AtomicU64 {
        self.0.u64(CLAIMS_AT + ring * CLAIM_LEN)
    }
    fn stage(&self, ring: usize) -> &AtomicU32 {
        self.0.u32(CLAIMS_AT + ring * CLAIM_LEN + 8)
    }
}

const fn ring_at(ring: usize) -> usize {
    RINGS_AT + ring * RING_STRIDE
}

/// A process as a word that is never zero.
fn sender_word(owner: Owner) -> u64 {
    u64::from(owner.generation) << 32 | (u64::from(owner.slot) + 1)
}

/// Slot and generation; `None` for words that no sender writes.
fn sender_of(word: u64) -> Option<(u16, u32)> {
    let slot = (word & u64::from(u32::MAX)).checked_sub(1)?;
    Some((u16::try_from(slot).ok()?, (word >> 32) as u32))
}
