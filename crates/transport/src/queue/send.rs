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
    ring: Option<Box<Ring>>,
    depth: u32,
    // Narrow: every idle QP has them.
    max_inline: u16,
    max_sge: u8,
}

/// What a queue has once it is used.
#[derive(Debug)]
struct Ring {
    head: u32,
    tail: u32,
    staged: u32,
    /// Retired elements that no completion has given back yet (unsignalled ones).
    unreleased: u32,
    credit: Option<Credit>,
    slots: Vec<SendWqe>,
    sges: Vec<Sge>,
    inline: Vec<u8>,
}

impl Ring {
    const fn new() -> Self {
        Self {
            head: 0,
            tail: 0,
            staged: 0,
            unreleased: 0,
            credit: None,
            slots: Vec::new(),
            sges: Vec::new(),
            inline: Vec::new(),
        }
    }

    fn slot(&self, index: u32) -> usize {
        index as usize & self.slots.len().wrapping_sub(1)
    }

    fn used(&self) -> u32 {
        self.staged.wrapping_sub(self.credit.as_ref().map_or(0, Credit::released))
    }
}

/// What is there of a queue that was never used.
static UNUSED: Ring = Ring::new();

impl SendQueue {
    /// A queue of `depth` elements with at most `max_sge` scatter/gather elements, of which there are no more than
    /// [`MAX_SGE`], and `max_inline` bytes of inline data each, at most 65,535.
    #[must_use]
    pub fn new(depth: u32, max_sge: u32, max_inline: u32) -> Self {
        let max_inline = u16::try_from(max_inline).unwrap_or(u16::MAX);
        Self { ring: None, depth, max_inline, max_sge: max_sge.min(MAX_SGE as u32) as u8 }
    }

    fn ring(&self) -> &Ring {
        self.ring.as_deref().unwrap_or(&UNUSED)
    }

    /// Slots it was made for.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Slots in use: posted, and not yet covered by a polled completion.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.ring().used()
    }

    /// Elements that are retired and that no completion has given back yet: unsignalled ones, until a signalled one is.
    #[must_use]
    pub fn unreleased(&self) -> u32 {
        self.ring().unreleased
    }

    /// The shared counter of slots given back.
    #[must_use]
    pub fn credit(&mut self) -> Credit {
        let ring = self.ring.get_or_insert_with(|| Box::new(Ring::new()));
        ring.credit.get_or_insert_default().clone()
    }

    /// The index after the newest visible element.
    #[must_use]
    pub fn tail(&self) -> u32 {
        self.ring().tail
    }

    /// The oldest element that is not retired.
    #[must_use]
    pub fn head(&self) -> u32 {
        self.ring().head
    }

    /// True once something was posted.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.ring.is_some()
    }

    /// True if nothing posted waits to be retired.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let ring = self.ring();
        ring.head == ring.tail
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
        let (n, max) = (sges.len(), usize::from(self.max_sge));
        if n > max {
            return Err(PostError::TooManySges { offered: n as u32, max: max as u32 });
        }
        let (ring, slot) = self.free_slot()?;
        let at = slot * max;
        let mut length = 0u64;
        for (to, sge) in ring.sges[at..at + n].iter_mut().zip(sges) {
            *to = sge;
            length += u64::from(sge.length);
        }
        if length > MAX_MESSAGE {
            return Err(PostError::TooLong { offered: length });
        }
        let mut req = *req;
        req.flags.remove(SendFlags::INLINE);
        ring.slots[slot] = SendWqe { req, length: length as u32, num_sge: n as u8, ..SendWqe::default() };
        ring.staged = ring.staged.wrapping_add(1);
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
        let max = u32::from(self.max_inline);
        if length > u64::from(max) {
            return Err(PostError::InlineTooLarge { offered: length, max });
        }
        let (ring, slot) = self.free_slot()?;
        if ring.inline.is_empty() {
            ring.inline = vec![0; ring.slots.len() * max as usize];
        }
        let at = slot * max as usize;
        fill(&mut ring.inline[at..at + length as usize]);
        let mut req = *req;
        req.flags.insert(SendFlags::INLINE);
        ring.slots[slot] = SendWqe { req, length: length as u32, ..SendWqe::default() };
        ring.staged = ring.staged.wrapping_add(1);
        Ok(())
    }

    /// Makes all that was staged visible to the device. Returns how many elements that were.
    pub fn commit(&mut self) -> u32 {
        let Some(ring) = &mut self.ring else { return 0 };
        let n = ring.staged.wrapping_sub(ring.tail);
        ring.tail = ring.staged;
        n
    }

    /// Takes back all that was staged.
    pub fn abort(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.staged = ring.tail;
        }
    }

    /// Forgets everything, with a new credit counter: completions of the old life give nothing back.
    pub fn reset(&mut self) {
        if let Some(ring) = &mut self.ring {
            (ring.head, ring.tail, ring.staged, ring.unreleased) = (0, 0, 0, 0);
            ring.credit = None;
        }
    }

    /// The element at `index`, which lies between `head` and `tail`.
    #[must_use]
    pub fn wqe(&self, index: u32) -> &SendWqe {
        let ring = self.ring();
        &ring.slots[ring.slot(index)]
    }

    pub(crate) fn wqe_mut(&mut self, index: u32) -> Option<&mut SendWqe> {
        let ring = self.ring.as_deref_mut()?;
        let slot = ring.slot(index);
        ring.slots.get_mut(slot)
    }

    /// The oldest element is done with. Its slot is used until a completion gives it back.
    pub(crate) fn retire(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.head = ring.head.wrapping_add(1);
            ring.unreleased += 1;
        }
    }

    /// The slots that the next completion gives back.
    pub(crate) fn take_unreleased(&mut self) -> u32 {
        self.ring.as_mut().map_or(0, |ring| std::mem::take(&mut ring.unreleased))
    }

    pub(crate) fn sges(&self, index: u32) -> &[Sge] {
        let ring = self.ring();
        let slot = ring.slot(index);
        let at = slot * usize::from(self.max_sge);
        &ring.sges[at..at + ring.slots[slot].num_sge as usize]
    }

    pub(crate) fn inline_data(&self, index: u32) -> &[u8] {
        let ring = self.ring();
        let slot = ring.slot(index);
        let at = slot * usize::from(self.max_inline);
        &ring.inline[at..at + ring.slots[slot].length as usize]
    }

    /// Bytes of memory that its ring takes now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let ring = self.ring();
        size_of_val(&*ring.slots) + size_of_val(&*ring.sges) + size_of_val(&*ring.inline)
    }

    #[cold]
    fn take_memory(depth: u32, max_sge: u8, ring: &mut Ring) {
        let len = super::ring_len(depth);
        ring.slots = vec![SendWqe::default(); len];
        ring.sges = vec![Sge::default(); len * usize::from(max_sge)];
    }

    fn free_slot(&mut self) -> Result<(&mut Ring, usize), PostError> {
        if self.used() >= self.depth {
            return Err(PostError::Full { depth: self.depth });
        }
        let ring = self.ring.get_or_insert_with(|| Box::new(Ring::new()));
        if ring.slots.is_empty() {
            Self::take_memory(self.depth, self.max_sge, ring);
        }
        let slot = ring.slot(ring.staged);
        Ok((ring, slot))
    }
}
