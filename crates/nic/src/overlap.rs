//! How two modifies of one QP meet. They are executed one after the other; that the program did not choose the order is worth
//! knowing.

use crate::device::Nic;
use crate::driver::{Block, Field as Driver};
use crate::sync::{AtomicU32, Ordering};

/// The thread whose modify of a QP is on its way; 0 for none.
#[derive(Debug, Default)]
pub struct Underway(AtomicU32);

impl Underway {
    /// The modify of this thread, whose number is not 0, is on its way until the answer is dropped. Of two that are so at
    /// once, one has met the other.
    pub fn begin(&self, thread: u32) -> Modifying<'_> {
        // One step: between a look and a mark of its own another could come in, and neither would know.
        Modifying { underway: self, thread, other: self.0.swap(thread, Ordering::AcqRel) }
    }
}

/// See [`Underway::begin`].
#[derive(Debug)]
pub struct Modifying<'a> {
    underway: &'a Underway,
    thread: u32,
    other: u32,
}

impl Modifying<'_> {
    /// The thread whose modify was on its way before.
    #[must_use]
    pub fn met(&self) -> Option<u32> {
        (self.other != 0).then_some(self.other)
    }
}

impl Nic {
    /// Keeps that a modify of this QP came while another thread's was on its way, if it did. They are executed one after the other, in an order
    /// that the program did not choose.
    pub fn note_overlap(&mut self, qpn: u32, begun: &Modifying<'_>) {
        let (Some(other), Some(slot)) = (begun.met(), self.qpns.slot(qpn)) else { return };
        let block = Block::new(self.ledger.memory.clone(), slot);
        let count = block.get(Driver::Overlaps) as u32;
        block.store_pair(Driver::Overlaps, count.wrapping_add(1), other);
        block.store_pair(Driver::OverlapBy, self.ledger.caller().thread, 0);
    }
}

impl Drop for Modifying<'_> {
    fn drop(&mut self) {
        // Where another has come since, it is that one's to end.
        let _ = self.underway.0.compare_exchange(self.thread, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
