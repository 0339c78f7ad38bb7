//! Work queues: what an application posts and the device consumes.
//!
//! Memory is taken once, when the queue is created; posting does not allocate. A slot is used from the post
//! until the completion that covers it is *polled*, as on hardware: a program that never polls, or never asks
//! for a signalled completion, fills its queue here as it would there.

mod recv;
mod send;

pub use recv::RecvQueue;
pub use send::SendQueue;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots that polled completions gave back, counted since the queue was made. Shared between a work queue and
/// the completion queue that reports on it.
#[derive(Clone, Debug, Default)]
pub struct Credit(Arc<AtomicU32>);

impl Credit {
    /// Gives back `n` slots.
    pub fn release(&self, n: u32) {
        self.0.fetch_add(n, Ordering::Release);
    }

    /// All that was given back so far (wraps).
    #[must_use]
    pub fn released(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

/// Why a queue did not take a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// Every slot is in use.
    Full {
        /// Slots.
        depth: u32,
    },
    /// More scatter/gather elements than the queue was made for.
    TooManySges {
        /// Asked.
        offered: u32,
        /// Allowed.
        max: u32,
    },
    /// More inline data than the queue was made for.
    InlineTooLarge {
        /// Asked, in bytes.
        offered: u64,
        /// Allowed.
        max: u32,
    },
    /// The message is longer than the transport carries.
    TooLong {
        /// Asked, in bytes.
        offered: u64,
    },
}
