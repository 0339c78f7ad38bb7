//! The driver's block of a QP: 128 bytes in the segment beside the device's context, for what software knows of it.
//!
//! The two tell different stories on purpose, as the driver's and the device's do on hardware: the driver says what was
//! asked for, by whom and when; the context says what the device does. Every word stands for itself and is written by
//! one side at a time: the command interface, the poster, or whoever polls.

use crate::context::{ContextMemory, DRIVER_LEN};
use crate::fields::{Fields, fields};
use crate::sync::{AtomicU64, Ordering};

fields! {
    /// A field of the driver's block, by name.
    Field in 128 {
        Qpn "qpn" @ 0x00: 4 "QP number; 0 in a free block";
        State "state" @ 0x04: 4 "enum ibv_qp_state, as the last call left it";
        CreatedNs "created_ns" @ 0x08: 8 "time of creation, monotonic ns";
        CreatedBy "created_by" @ 0x10: 4 "thread that created it";
        Site "site" @ 0x14: 4 "number of the place in the program that created it; 0 unknown";
        ModifiedNs "modified_ns" @ 0x18: 8 "when it was last modified, monotonic ns; 0 never";
        ModifiedBy "modified_by" @ 0x20: 4 "thread that last modified it";
        Modifies "modifies" @ 0x24: 4 "times it was modified";
        SqPosted "sq_posted" @ 0x28: 8 "send requests ever posted (32 bits, wraps)";
        SqReleased "sq_released" @ 0x30: 8 "send queue slots that polled completions gave back (32 bits, wraps)";
        RqPosted "rq_posted" @ 0x38: 8 "receives ever posted (32 bits, wraps)";
        RqReleased "rq_released" @ 0x40: 8 "receive queue slots that polled completions gave back (32 bits, wraps)";
        Refused "refused" @ 0x48: 4 "calls on it that were refused";
        RefusedCall "refused_call" @ 0x4c: 2 "the last of them";
        RefusedErrno "refused_errno" @ 0x4e: 2 "and its errno";
        RefusedNs "refused_ns" @ 0x50: 8 "and when, monotonic ns";
        Overlaps "overlaps" @ 0x58: 4 "modifies that found another thread's on its way";
        OverlapWith "overlap_with" @ 0x5c: 4 "the other thread, the last time";
        QueriedNs "queried_ns" @ 0x60: 8 "when it was last queried, monotonic ns; 0 never";
        EarlyQueries "early_queries" @ 0x68: 4 "queries that came before the device had written its context back";
        SqPsn "sq_psn" @ 0x70: 4 "first PSN to send, as the last modify to RTS gave it";
        RqPsn "rq_psn" @ 0x74: 4 "first PSN to expect, as the last modify to RTR gave it";
        OverlapBy "overlap_by" @ 0x78: 4 "the thread that came while the other's was on its way, the last time";
    }
}

/// A block in the segment, as its writers hold it.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    memory: ContextMemory,
    slot: u32,
}

impl Block {
    pub(crate) fn new(memory: ContextMemory, slot: u32) -> Self {
        Self { memory, slot }
    }

    /// Rings the doorbell of the slot that it belongs to.
    pub(crate) fn ring(&self) {
        self.memory.bells().ring(self.slot);
    }

    fn words(&self) -> &[AtomicU64] {
        self.memory.driver(self.slot as usize).unwrap_or_default()
    }

    /// Sets the whole word of an eight-byte field.
    pub(crate) fn store(&self, field: Field, value: u64) {
        debug_assert!(field.info().width == 8);
        self.store_word(field, value);
    }

    /// Sets a field and its neighbour in the same word.
    pub(crate) fn store_pair(&self, low: Field, value: u32, neighbour: u32) {
        debug_assert!(low.info().offset.is_multiple_of(8) && low.info().width == 4);
        self.store_word(low, u64::from(value) | u64::from(neighbour) << 32);
    }

    /// A number.
    pub(crate) fn get(&self, field: Field) -> u64 {
        let info = field.info();
        let word = self.words().get(info.offset / 8).map_or(0, |word| word.load(Ordering::Relaxed));
        let bits = 8 * info.width as u32;
        word >> (8 * (info.offset % 8)) & u64::MAX >> (64 - bits)
    }

    /// Frees the block.
    pub(crate) fn clear(&self) {
        for word in self.words() {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn store_word(&self, field: Field, value: u64) {
        if let Some(word) = self.words().get(field.info().offset / 8) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// A copy of a block. Its words are of almost the same time: each is whole, together they may be between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image([u8; DRIVER_LEN]);

impl Image {
    /// Copies the block of a slot; all zero where there is none.
    #[must_use]
    pub fn load(memory: &ContextMemory, slot: usize) -> Self {
        let mut image = [0; DRIVER_LEN];
        let words: &[AtomicU64] = memory.driver(slot).unwrap_or_default();
        for (bytes, word) in image.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        Self(image)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; DRIVER_LEN] {
        &self.0
    }

    /// A number.
    #[must_use]
    pub fn get(&self, field: Field) -> u64 {
        field.info().value(&self.0)
    }
}
