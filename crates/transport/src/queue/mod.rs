//! Work queues: what an application posts and the device consumes.
//!
//! Memory is taken once, when the queue is first used: a queue pair that never posts costs none, and posting after the
//! first does not allocate. A slot is used from the post
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

/// Elements of the ring of a queue of `depth`: a power of two, so that an index that wraps finds its element.
fn ring_len(depth: u32) -> usize {
    depth.max(1).next_power_of_two() as usize
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wqe::{SendRequest, Sge};

    #[test]
    fn a_queue_takes_memory_when_it_is_first_used() {
        let (mut sq, mut rq) = (SendQueue::new(1000, 4, 64), RecvQueue::new(1000, 4));
        assert_eq!((sq.bytes(), rq.bytes()), (0, 0));
        assert_eq!((sq.depth(), sq.used(), rq.depth(), rq.used()), (1000, 0, 1000, 0));
        assert!(rq.take().is_none());
        sq.reset();
        rq.reset();
        assert_eq!((sq.bytes(), rq.bytes()), (0, 0));

        let sge = [Sge::default(); 4];
        sq.stage(&SendRequest::default(), sge.iter().copied()).unwrap();
        rq.post(1, sge.iter().copied()).unwrap();
        let (first, receives) = (sq.bytes(), rq.bytes());
        assert!(first >= 1024 * 4 * size_of::<Sge>() && receives >= 1024 * 4 * size_of::<Sge>());
        sq.stage_inline(&SendRequest::default(), 5, |to| to.fill(9)).unwrap();
        assert_eq!(sq.bytes(), first + 1024 * 64, "inline data has memory of its own");
        sq.commit();
        assert_eq!(sq.inline_data(1), [9; 5]);
    }

    #[test]
    fn what_is_put_back_comes_next_and_a_resized_queue_keeps_what_it_has() {
        let mut rq = RecvQueue::new(3, 2);
        let credit = rq.credit();
        let sge = |addr| Sge { addr, length: 8, lkey: 1 };
        let post = |rq: &mut RecvQueue, id: u64| rq.post(id, [sge(id), sge(id + 100)].into_iter());
        let id = |rq: &mut RecvQueue| rq.take().map(|w| (w.wr_id, w.sges[0].addr, w.sges.len()));
        // Indices that wrapped around the ring of four.
        for n in 0..7 {
            post(&mut rq, n).unwrap();
            assert_eq!(id(&mut rq), Some((n, n, 2)));
            credit.release(1);
        }
        for n in 10..13 {
            post(&mut rq, n).unwrap();
        }
        let first = rq.take().unwrap();
        let second = rq.take().unwrap();
        assert_eq!(post(&mut rq, 13), Err(PostError::Full { depth: 3 }));
        rq.put_back(&second);
        rq.put_back(&first);
        assert_eq!((rq.posted(), rq.used()), (3, 3));
        assert_eq!(id(&mut rq), Some((10, 10, 2)));

        assert_eq!(rq.resize(2), Err(3), "the completion of the one that is taken was not polled");
        rq.resize(9).unwrap();
        for n in 13..19 {
            post(&mut rq, n).unwrap();
        }
        assert_eq!(post(&mut rq, 19), Err(PostError::Full { depth: 9 }));
        assert_eq!(id(&mut rq), Some((11, 11, 2)));
        credit.release(2);
        rq.resize(7).unwrap();
        for n in 12..19 {
            assert_eq!(id(&mut rq), Some((n, n, 2)));
        }
        assert_eq!((id(&mut rq), rq.depth()), (None, 7));
    }

    #[test]
    fn a_queue_without_slots_is_full_and_takes_none() {
        let (mut sq, mut rq) = (SendQueue::new(0, 1, 0), RecvQueue::new(0, 1));
        let none = || std::iter::empty::<Sge>();
        assert_eq!(sq.stage(&SendRequest::default(), none()), Err(PostError::Full { depth: 0 }));
        assert_eq!(rq.post(1, none()), Err(PostError::Full { depth: 0 }));
        assert_eq!((sq.bytes(), rq.bytes()), (0, 0));
    }
}
