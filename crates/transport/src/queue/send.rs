//! The send queue.

use super::{Credit, PostError};
use crate::wqe::{MAX_MESSAGE, MAX_SGE, SendFlags, SendRequest, SendWqe, Sge};

/// A ring of send work queue elements with their scatter/gather lists and inline data.
///
/// Indices count up without end (they wrap at 2^32); `head` is the oldest element that is not retired, `tail`
/// the next free one. Elements between `tail` and `staged` are written but not yet visible to the device, so
/// that a batch can be taken back as a whole (`ibv_wr_abort(3)`).
#[derive(Debug)]
pub struct SendQueue {
    slots: Box<[SendWqe]>,
    sges: Box<[Sge]>,
    inline: Box<[u8]>,
    depth: u32,
    max_sge: u32,
    max_inline: u32,
    pub(crate) head: u32,
    tail: u32,
    staged: u32,
    credit: Credit,
    /// Retired elements that no completion has given back yet (unsignalled ones).
    pub(crate) unreleased: u32,
}

impl SendQueue {
    /// A queue of `depth` elements with at most `max_sge` scatter/gather elements and `max_inline` bytes of
    /// inline data each.
    #[must_use]
    pub fn new(depth: u32, max_sge: u32, max_inline: u32) -> Self {
        Self {
            slots: Box::default(),
            sges: Box::default(),
            inline: Box::default(),
            depth,
            max_sge: max_sge.min(MAX_SGE as u32),
            max_inline,
            head: 0,
            tail: 0,
            staged: 0,
            credit: Credit::default(),
            unreleased: 0,
        }
    }

    /// Slots it was made for.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Slots in use: posted, and not yet covered by a polled completion.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.staged.wrapping_sub(self.credit.released())
    }

    /// Elements that are retired and that no completion has given back yet: unsignalled ones, until a signalled one is.
    #[must_use]
    pub fn unreleased(&self) -> u32 {
        self.unreleased
    }

    /// The shared counter of slots given back.
    #[must_use]
    pub fn credit(&self) -> Credit {
        self.credit.clone()
    }

    /// The index after the newest visible element.
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The oldest element that is not retired.
    #[must_use]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// True if nothing posted waits to be retired.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.head == self.tail
    }

    /// Stages a request whose payload lies in `sges`.
    ///
    /// # Errors
    /// [`PostError`]; nothing is staged.
    pub fn stage(
        &mut self,
        req: &SendRequest,
        sges: impl ExactSizeIterator<Item = Sge>,
    ) -> Result<(), PostError> {
        let n = sges.len();
        if n > self.max_sge as usize {
            return Err(PostError::TooManySges { offered: n as u32, max: self.max_sge });
        }
        let slot = self.free_slot()?;
        let at = slot * self.max_sge as usize;
        let mut length = 0u64;
        for (to, sge) in self.sges[at..at + n].iter_mut().zip(sges) {
            *to = sge;
            length += u64::from(sge.length);
        }
        if length > MAX_MESSAGE {
            return Err(PostError::TooLong { offered: length });
        }
        let mut req = *req;
        req.flags.remove(SendFlags::INLINE);
        self.slots[slot] = SendWqe { req, length: length as u32, num_sge: n as u8, ..SendWqe::default() };
        self.staged = self.staged.wrapping_add(1);
        Ok(())
    }

    /// Stages a request whose payload of `length` bytes is copied now, by `fill`.
    ///
    /// # Errors
    /// [`PostError`]; nothing is staged.
    pub fn stage_inline(
        &mut self,
        req: &SendRequest,
        length: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), PostError> {
        if length > u64::from(self.max_inline) {
            return Err(PostError::InlineTooLarge { offered: length, max: self.max_inline });
        }
        let slot = self.free_slot()?;
        if self.inline.is_empty() {
            self.inline = vec![0; self.slots.len() * self.max_inline as usize].into();
        }
        let at = slot * self.max_inline as usize;
        fill(&mut self.inline[at..at + length as usize]);
        let mut req = *req;
        req.flags.insert(SendFlags::INLINE);
        self.slots[slot] = SendWqe { req, length: length as u32, ..SendWqe::default() };
        self.staged = self.staged.wrapping_add(1);
        Ok(())
    }

    /// Makes all that was staged visible to the device. Returns how many elements that were.
    pub fn commit(&mut self) -> u32 {
        let n = self.staged.wrapping_sub(self.tail);
        self.tail = self.staged;
        n
    }

    /// Takes back all that was staged.
    pub fn abort(&mut self) {
        self.staged = self.tail;
    }

    /// Forgets everything, with a new credit counter: completions of the old life give nothing back.
    pub fn reset(&mut self) {
        self.head = 0;
        self.tail = 0;
        self.staged = 0;
        self.unreleased = 0;
        self.credit = Credit::default();
    }

    /// The element at `index`, which lies between `head` and `tail`.
    #[must_use]
    pub fn wqe(&self, index: u32) -> &SendWqe {
        &self.slots[self.slot(index)]
    }

    pub(crate) fn wqe_mut(&mut self, index: u32) -> &mut SendWqe {
        let slot = self.slot(index);
        &mut self.slots[slot]
    }

    pub(crate) fn sges(&self, index: u32) -> &[Sge] {
        let slot = self.slot(index);
        let at = slot * self.max_sge as usize;
        &self.sges[at..at + self.slots[slot].num_sge as usize]
    }

    pub(crate) fn inline_data(&self, index: u32) -> &[u8] {
        let slot = self.slot(index);
        let at = slot * self.max_inline as usize;
        &self.inline[at..at + self.slots[slot].length as usize]
    }

    /// Bytes of memory that its ring takes now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.sges) + size_of_val(&*self.inline)
    }

    #[cold]
    fn take_memory(&mut self) {
        let ring = super::ring_len(self.depth);
        self.slots = vec![SendWqe::default(); ring].into();
        self.sges = vec![Sge::default(); ring * self.max_sge as usize].into();
    }

    fn slot(&self, index: u32) -> usize {
        index as usize & (self.slots.len() - 1)
    }

    fn free_slot(&mut self) -> Result<usize, PostError> {
        if self.used() >= self.depth {
            return Err(PostError::Full { depth: self.depth });
        }
        if self.slots.is_empty() {
            self.take_memory();
        }
        Ok(self.slot(self.staged))
    }
}
