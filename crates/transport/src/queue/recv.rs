//! The receive queue, of one QP or shared.

use super::{Credit, PostError};
use crate::wqe::{MAX_SGE, ReceiveWqe, Sge};

/// A ring of posted receives.
#[derive(Debug)]
pub struct RecvQueue {
    wr_ids: Box<[(u64, u8)]>,
    sges: Box<[Sge]>,
    depth: u32,
    max_sge: u32,
    head: u32,
    tail: u32,
    credit: Credit,
}

impl RecvQueue {
    /// A queue of `depth` receives with at most `max_sge` elements each.
    #[must_use]
    pub fn new(depth: u32, max_sge: u32) -> Self {
        Self {
            wr_ids: Box::default(),
            sges: Box::default(),
            depth,
            max_sge: max_sge.min(MAX_SGE as u32),
            head: 0,
            tail: 0,
            credit: Credit::default(),
        }
    }

    /// Slots it was made for.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Receives posted and not yet taken by a message.
    #[must_use]
    pub fn posted(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Receives ever posted (wraps).
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Slots in use: posted, and their completion not yet polled.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.tail.wrapping_sub(self.credit.released())
    }

    /// The shared counter of slots given back.
    #[must_use]
    pub fn credit(&self) -> Credit {
        self.credit.clone()
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`PostError::Full`] or [`PostError::TooManySges`].
    pub fn post(&mut self, wr_id: u64, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), PostError> {
        let n = sges.len();
        if n > self.max_sge as usize {
            return Err(PostError::TooManySges { offered: n as u32, max: self.max_sge });
        }
        if self.used() >= self.depth {
            return Err(PostError::Full { depth: self.depth });
        }
        if self.wr_ids.is_empty() {
            self.take_memory();
        }
        let slot = self.slot(self.tail);
        let at = slot * self.max_sge as usize;
        for (to, sge) in self.sges[at..at + n].iter_mut().zip(sges) {
            *to = sge;
        }
        self.wr_ids[slot] = (wr_id, n as u8);
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest receive.
    pub fn take(&mut self) -> Option<ReceiveWqe> {
        if self.head == self.tail {
            return None;
        }
        let slot = self.slot(self.head);
        let (wr_id, n) = self.wr_ids[slot];
        let at = slot * self.max_sge as usize;
        let mut wqe = ReceiveWqe { wr_id, ..ReceiveWqe::default() };
        wqe.sges.extend(self.sges[at..at + n as usize].iter().copied());
        self.head = self.head.wrapping_add(1);
        Some(wqe)
    }

    /// Forgets everything, with a new credit counter.
    pub fn reset(&mut self) {
        self.head = 0;
        self.tail = 0;
        self.credit = Credit::default();
    }

    /// Bytes of memory that its ring takes now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.wr_ids) + size_of_val(&*self.sges)
    }

    #[cold]
    fn take_memory(&mut self) {
        let ring = super::ring_len(self.depth);
        self.wr_ids = vec![(0, 0); ring].into();
        self.sges = vec![Sge::default(); ring * self.max_sge as usize].into();
    }

    fn slot(&self, index: u32) -> usize {
        index as usize & (self.wr_ids.len() - 1)
    }
}
