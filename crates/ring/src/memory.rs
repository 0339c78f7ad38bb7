//! The memory of one ring: a consumer cursor on its own cache lines, then a power of two of data bytes.
//!
//! ```text
//! offset   0 | head: u64        consumer's position, written by the consumer only
//! offset 128 | data[capacity]   records; each begins with an 8-byte header word at an 8-byte boundary
//! ```
//!
//! There are two of these types with the same methods: the real one over a raw pointer, and the one for loom,
//! in which every word of data is a cell whose unsynchronised use loom reports.

/// Bytes in front of the data. Two lines, as adjacent lines are prefetched in pairs.
pub(crate) const DATA_OFFSET: usize = 128;
/// Size and alignment of a record header.
pub(crate) const WORD: usize = 8;

#[cfg(not(loom))]
pub(crate) use real::Memory;

#[cfg(loom)]
pub(crate) use model::Memory;

#[cfg(not(loom))]
mod real {
    use super::{DATA_OFFSET, WORD};
    use crate::sync::AtomicU64;
    use core::ptr::NonNull;

    /// A ring's memory at an address that somebody else keeps mapped.
    pub(crate) struct Memory {
        base: NonNull<u8>,
        capacity: usize,
    }

    // SAFETY: `Memory` is an address; all that is behind it is reached through atomics or through copies that
    // the ring protocol orders (one producer, one consumer, `&mut self` on each side).
    unsafe impl Send for Memory {}

    impl Memory {
        /// # Safety
        /// `base` is aligned to 64 bytes and `DATA_OFFSET + capacity` bytes behind it stay mapped, readable and
        /// writable as long as the value lives. `capacity` is a power of two of at least `2 * WORD`.
        pub(crate) unsafe fn new(base: NonNull<u8>, capacity: usize) -> Self {
            Self { base, capacity }
        }

        pub(crate) fn capacity(&self) -> usize {
            self.capacity
        }

        /// The consumer's cursor.
        pub(crate) fn head(&self) -> &AtomicU64 {
            // SAFETY: the contract of `new`: mapped and aligned. The word is only ever used as an atomic.
            unsafe { self.base.cast::<AtomicU64>().as_ref() }
        }

        /// The header word at a byte offset.
        pub(crate) fn header(&self, offset: usize) -> &AtomicU64 {
            assert!(offset < self.capacity && offset.is_multiple_of(WORD));
            // SAFETY: in range and aligned by the assertion and the contract of `new`.
            unsafe { self.base.add(DATA_OFFSET + offset).cast::<AtomicU64>().as_ref() }
        }

        /// Copy into the ring. The bytes must be the producer's, unpublished.
        pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
            assert!(offset <= self.capacity && bytes.len() <= self.capacity - offset);
            // SAFETY: in range by the assertion; the source is a private slice, so they cannot overlap. Only
            // a consumer that breaks the protocol could touch these bytes meanwhile, by reading garbage.
            unsafe {
                let to = self.base.add(DATA_OFFSET + offset);
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len());
            }
        }

        /// Replace the content of `out` by `len` bytes of a published record.
        pub(crate) fn read(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
            assert!(offset <= self.capacity && len <= self.capacity - offset);
            out.clear();
            out.reserve(len);
            // SAFETY: the source is in range by the assertion, the target has `len` bytes reserved, and u8 has
            // no invalid values. A producer that breaks the protocol can only make the copy garbage.
            unsafe {
                let from = self.base.add(DATA_OFFSET + offset);
                core::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), len);
                out.set_len(len);
            }
        }
    }
}

#[cfg(loom)]
mod model {
    use super::WORD;
    use crate::sync::AtomicU64;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Word {
        header: AtomicU64,
        bytes: UnsafeCell<[u8; WORD]>,
    }

    struct Shared {
        head: AtomicU64,
        words: Vec<Word>,
    }

    /// The modelled memory; clones are two mappings of the same pages.
    #[derive(Clone)]
    pub(crate) struct Memory(Arc<Shared>);

    // SAFETY: loom's cells panic on every access that the protocol does not order; that is the test.
    unsafe impl Send for Memory {}

    impl Memory {
        pub(crate) fn new(capacity: usize) -> Self {
            let word = || Word { header: AtomicU64::new(0), bytes: UnsafeCell::new([0; WORD]) };
            let words = (0..capacity / WORD).map(|_| word()).collect();
            Self(Arc::new(Shared { head: AtomicU64::new(0), words }))
        }

        pub(crate) fn capacity(&self) -> usize {
            self.0.words.len() * WORD
        }

        pub(crate) fn head(&self) -> &AtomicU64 {
            &self.0.head
        }

        pub(crate) fn header(&self, offset: usize) -> &AtomicU64 {
            &self.0.words[offset / WORD].header
        }

        pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
            for (at, byte) in (offset..).zip(bytes) {
                // SAFETY: loom checks the exclusivity.
                self.0.words[at / WORD].bytes.with_mut(|word| unsafe { (*word)[at % WORD] = *byte });
            }
        }

        pub(crate) fn read(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
            out.clear();
            for at in offset..offset + len {
                // SAFETY: loom checks that no writer is active.
                out.push(self.0.words[at / WORD].bytes.with(|word| unsafe { (*word)[at % WORD] }));
            }
        }
    }
}
