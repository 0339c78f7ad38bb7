//! The receive queue, of one QP or shared.

use super::{Credit, PostError};
use crate::wqe::{MAX_SGE, ReceiveWqe, Sge};

/// A ring of posted receives.
#[derive(Debug)]
pub struct RecvQueue {
    ring: Option<Box<Ring>>,
    depth: u32,
    max_sge: u8,
}

/// What a queue has once it is used.
#[derive(Debug)]
struct Ring {
    head: u32,
    tail: u32,
    credit: Option<Credit>,
    wr_ids: Vec<(u64, u8)>,
    sges: Vec<Sge>,
}

impl Ring {
    const fn new() -> Self {
        Self { head: 0, tail: 0, credit: None, wr_ids: Vec::new(), sges: Vec::new() }
    }

    fn slot(&self, index: u32) -> usize {
        index as usize & self.wr_ids.len().wrapping_sub(1)
    }

    fn used(&self) -> u32 {
        self.tail.wrapping_sub(self.credit.as_ref().map_or(0, Credit::released))
    }
}

/// What is there of a queue that was never used.
static UNUSED: Ring = Ring::new();

impl RecvQueue {
    /// A queue of `depth` receives with at most `max_sge` elements each.
    #[must_use]
    pub fn new(depth: u32, max_sge: u32) -> Self {
        Self { ring: None, depth, max_sge: max_sge.min(MAX_SGE as u32) as u8 }
    }

    fn ring(&self) -> &Ring {
        self.ring.as_deref().unwrap_or(&UNUSED)
    }

    /// Slots it was made for.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Receives posted and not yet taken by a message.
    #[must_use]
    pub fn posted(&self) -> u32 {
        let ring = self.ring();
        ring.tail.wrapping_sub(ring.head)
    }

    /// Receives ever posted (wraps).
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.ring().tail
    }

    /// Slots in use: posted, and their completion not yet polled.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.ring().used()
    }

    /// The shared counter of slots given back.
    #[must_use]
    pub fn credit(&mut self) -> Credit {
        let ring = self.ring.get_or_insert_with(|| Box::new(Ring::new()));
        ring.credit.get_or_insert_default().clone()
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`PostError::Full`] or [`PostError::TooManySges`].
    pub fn post(&mut self, wr_id: u64, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), PostError> {
        let (n, max) = (sges.len(), usize::from(self.max_sge));
        if n > max {
            return Err(PostError::TooManySges { offered: n as u32, max: max as u32 });
        }
        if self.used() >= self.depth {
            return Err(PostError::Full { depth: self.depth });
        }
        let ring = self.ring.get_or_insert_with(|| Box::new(Ring::new()));
        if ring.wr_ids.is_empty() {
            Self::take_memory(self.depth, max, ring);
        }
        let slot = ring.slot(ring.tail);
        let at = slot * max;
        for (to, sge) in ring.sges[at..at + n].iter_mut().zip(sges) {
            *to = sge;
        }
        ring.wr_ids[slot] = (wr_id, n as u8);
        ring.tail = ring.tail.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest receive.
    pub fn take(&mut self) -> Option<ReceiveWqe> {
        let max = usize::from(self.max_sge);
        let ring = self.ring.as_deref_mut()?;
        if ring.head == ring.tail {
            return None;
        }
        let slot = ring.slot(ring.head);
        let (wr_id, n) = ring.wr_ids[slot];
        let at = slot * max;
        let mut wqe = ReceiveWqe { wr_id, ..ReceiveWqe::default() };
        wqe.sges.extend(ring.sges[at..at + n as usize].iter().copied());
        ring.head = ring.head.wrapping_add(1);
        Some(wqe)
    }

    /// Puts a receive that was taken back in front of the others. Its slot was not given back meanwhile, so there is room.
    pub fn put_back(&mut self, receive: &ReceiveWqe) {
        let max = usize::from(self.max_sge);
        let Some(ring) = self.ring.as_deref_mut() else { return };
        ring.head = ring.head.wrapping_sub(1);
        let slot = ring.slot(ring.head);
        let n = receive.sges.len().min(max);
        if let (Some(ids), Some(sges)) = (ring.wr_ids.get_mut(slot), ring.sges.get_mut(slot * max..)) {
            *ids = (receive.wr_id, n as u8);
            for (to, sge) in sges.iter_mut().zip(receive.sges.iter().take(n)) {
                *to = *sge;
            }
        }
    }

    /// Changes how many receives it holds. What is posted stays.
    ///
    /// # Errors
    /// The slots that are in use, if they are more.
    pub fn resize(&mut self, depth: u32) -> Result<(), u32> {
        let used = self.used();
        if used > depth {
            return Err(used);
        }
        let max = usize::from(self.max_sge);
        self.depth = depth;
        let Some(old) = self.ring.as_deref_mut() else { return Ok(()) };
        if old.wr_ids.is_empty() {
            return Ok(());
        }
        let mut new = Ring::new();
        Self::take_memory(depth, max, &mut new);
        let mut at = old.head;
        while at != old.tail {
            let (from, to) = (old.slot(at), new.slot(at));
            new.wr_ids[to] = old.wr_ids[from];
            new.sges[to * max..(to + 1) * max].copy_from_slice(&old.sges[from * max..(from + 1) * max]);
            at = at.wrapping_add(1);
        }
        (old.wr_ids, old.sges) = (new.wr_ids, new.sges);
        Ok(())
    }

    /// Forgets everything, with a new credit counter.
    pub fn reset(&mut self) {
        if let Some(ring) = &mut self.ring {
            (ring.head, ring.tail, ring.credit) = (0, 0, None);
        }
    }

    /// Bytes of memory that its ring takes now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let ring = self.ring();
        size_of_val(&*ring.wr_ids) + size_of_val(&*ring.sges)
    }

    #[cold]
    fn take_memory(depth: u32, max_sge: usize, ring: &mut Ring) {
        let len = super::ring_len(depth);
        ring.wr_ids = vec![(0, 0); len];
        ring.sges = vec![Sge::default(); len * max_sge];
    }
}
