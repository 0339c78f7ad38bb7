//! A ring of records with one producer and one consumer.
//!
//! A record is published by its own header word, so that a small record costs one cache line to hand over,
//! not two (data and a tail index):
//!
//! * The producer writes the payload, zeroes the header word *after* the record, then stores the record's own
//!   header with *release*. The word at its position is therefore zero until a whole record is there: a
//!   producer that is killed in the middle of a write leaves nothing visible.
//! * The consumer loads the header at its position with *acquire*; non-zero means that payload and the zero
//!   behind it are visible. It copies the record out and stores its cursor with *release*, which gives the
//!   bytes back.
//! * The producer loads the consumer's cursor with *acquire*, and only when its cached copy says "full".
//! * A record does not wrap: where the space to the end is too short the header there says `WRAP`, published
//!   after the record at offset 0 is complete.

use crate::memory::{DATA_OFFSET, Memory, WORD};
use crate::sync::Ordering::{Acquire, Relaxed, Release};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

/// Smallest capacity of a ring, in bytes.
pub const CAPACITY_MIN: usize = 4 * WORD;
/// Largest capacity of a ring, in bytes; lengths and offsets then fit 31 bits.
pub const CAPACITY_MAX: usize = 1 << 30;

/// Set in the header of each record, beside the length in the low 32 bits.
const RECORD: u64 = 1 << 32;
/// Header at the end of the data: the next record is at offset 0.
const WRAP: u64 = 2 << 32;

/// Bytes of memory that a ring of `capacity` bytes of data needs.
pub const fn area_len(capacity: usize) -> usize {
    DATA_OFFSET + capacity
}

/// The page holds what no correct peer writes there. The ring is dead from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shared ring is corrupt: its other side wrote an impossible length or index")]
pub struct Corrupt;

/// Why a memory area cannot hold a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a ring needs an area aligned to 64 bytes with a power-of-two capacity in {CAPACITY_MIN}..={CAPACITY_MAX}"
)]
pub struct BadArea;

/// Why a record was not pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The consumer's cursor is impossible; see [`Corrupt`].
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// No room until the consumer pops.
    #[error("the ring is full")]
    Full,
    /// Longer than [`Producer::record_len_max`]; would never fit.
    #[error("a record of {len} bytes is longer than the ring's largest ({max})")]
    TooLong {
        /// Length of the record in bytes.
        len: usize,
        /// Largest length in bytes.
        max: usize,
    },
}

/// What both sides know of the geometry; nothing of it is read from the page.
struct Ring {
    memory: Memory,
    mask: u64,
}

impl Ring {
    fn new(memory: Memory) -> Self {
        let mask = memory.capacity() as u64 - 1;
        Self { memory, mask }
    }

    fn offset(&self, position: u64) -> usize {
        (position & self.mask) as usize
    }

    fn to_end(&self, position: u64) -> usize {
        self.memory.capacity() - self.offset(position)
    }

    /// A record of this size fits an empty ring wherever the cursor stands: padding is shorter than the record,
    /// so that twice the record is enough for both and for the zero behind them.
    fn record_len_max(&self) -> usize {
        self.memory.capacity() / 2 - WORD
    }
}

const fn record_size(len: usize) -> usize {
    WORD + len.next_multiple_of(WORD)
}

#[cfg(not(loom))]
/// # Safety
/// As [`Producer::attach`].
unsafe fn memory_at(area: core::ptr::NonNull<u8>, len: usize) -> Result<Memory, BadArea> {
    let capacity = len.checked_sub(DATA_OFFSET).ok_or(BadArea)?;
    let fits = capacity.is_power_of_two() && (CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity);
    if !fits || !area.as_ptr().addr().is_multiple_of(64) {
        return Err(BadArea);
    }
    // SAFETY: the caller's contract, and the checks above.
    Ok(unsafe { Memory::new(area, capacity) })
}

/// The writing side.
pub struct Producer {
    ring: Ring,
    tail: u64,
    cached_head: u64,
    corrupt: bool,
}

impl Producer {
    /// Become the producer of the ring in `area`, which nobody has used since it was all zero.
    ///
    /// # Errors
    /// [`BadArea`] where `len` is not [`area_len`] of a power of two, or the address is not aligned.
    ///
    /// # Safety
    /// `len` bytes at `area` stay mapped, readable and writable as long as the value lives, no Rust reference
    /// to them exists, and all other users of them (in this process) go through one [`Consumer`].
    #[cfg(not(loom))]
    pub unsafe fn attach(area: core::ptr::NonNull<u8>, len: usize) -> Result<Self, BadArea> {
        // SAFETY: the same contract.
        Ok(Self::over(unsafe { memory_at(area, len)? }))
    }

    fn over(memory: Memory) -> Self {
        Self { ring: Ring::new(memory), tail: 0, cached_head: 0, corrupt: false }
    }

    /// Length in bytes of the longest record.
    pub fn record_len_max(&self) -> usize {
        self.ring.record_len_max()
    }

    /// Append one record, the concatenation of `parts`, and publish it.
    ///
    /// # Errors
    /// [`PushError::Full`] leaves the ring as it was; the others are final for this record or ring.
    pub fn try_push(&mut self, parts: &[&[u8]]) -> Result<(), PushError> {
        let len = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        if len > self.record_len_max() {
            return Err(PushError::TooLong { len, max: self.record_len_max() });
        }
        let record = record_size(len);
        let to_end = self.ring.to_end(self.tail);
        let pad = if record > to_end { to_end } else { 0 };
        // One word more than the record: the zero that ends what is published.
        self.require_room(pad + record + WORD)?;

        let start = self.tail + pad as u64;
        let mut at = self.ring.offset(start) + WORD;
        for part in parts {
            self.ring.memory.write(at, part);
            at += part.len();
        }
        let next = start + record as u64;
        // Relaxed: ordered before the publication by its release.
        self.header(next).store(0, Relaxed);
        let header = RECORD | len as u64;
        if pad == 0 {
            self.header(start).store(header, Release);
        } else {
            self.header(start).store(header, Relaxed);
            self.header(self.tail).store(WRAP, Release);
        }
        self.tail = next;
        Ok(())
    }

    fn header(&self, position: u64) -> &crate::sync::AtomicU64 {
        self.ring.memory.header(self.ring.offset(position))
    }

    fn require_room(&mut self, need: usize) -> Result<(), PushError> {
        if self.corrupt {
            return Err(Corrupt.into());
        }
        let capacity = self.ring.memory.capacity() as u64;
        let used = self.tail - self.cached_head;
        if need as u64 <= capacity - used {
            return Ok(());
        }
        // Acquire: the consumer has finished reading what lies before its cursor.
        let head = self.ring.memory.head().load(Acquire);
        // The cursor moves forward only, never beyond what was published, by whole words.
        let now_used = self.tail.wrapping_sub(head);
        if now_used > used || !head.is_multiple_of(WORD as u64) {
            self.corrupt = true;
            return Err(Corrupt.into());
        }
        self.cached_head = head;
        if need as u64 <= capacity - now_used { Ok(()) } else { Err(PushError::Full) }
    }
}

/// The reading side.
pub struct Consumer {
    ring: Ring,
    head: u64,
    corrupt: bool,
}

impl Consumer {
    /// Become the consumer of the ring in `area`, of which nothing has been consumed since it was all zero.
    ///
    /// # Errors
    /// As [`Producer::attach`].
    ///
    /// # Safety
    /// As [`Producer::attach`], with [`Producer`] and [`Consumer`] exchanged.
    #[cfg(not(loom))]
    pub unsafe fn attach(area: core::ptr::NonNull<u8>, len: usize) -> Result<Self, BadArea> {
        // SAFETY: the same contract.
        Ok(Self::over(unsafe { memory_at(area, len)? }))
    }

    fn over(memory: Memory) -> Self {
        Self { ring: Ring::new(memory), head: 0, corrupt: false }
    }

    /// Whether there is nothing to pop now. A corrupt ring is not empty, so that the next pop tells.
    pub fn is_empty(&self) -> bool {
        self.header(self.head).load(Acquire) == 0
    }

    /// Move the oldest record into `out`, replacing what is there; false where there is none.
    ///
    /// # Errors
    /// [`Corrupt`], now and ever after, where the producer wrote nonsense. `out` is then unspecified.
    pub fn pop_into(&mut self, out: &mut Vec<u8>) -> Result<bool, Corrupt> {
        if self.corrupt {
            return Err(Corrupt);
        }
        // Acquire: pairs with the producer's publication.
        let word = self.header(self.head).load(Acquire);
        if word == 0 {
            return Ok(false);
        }
        let Some((start, len)) = self.locate(word) else {
            self.corrupt = true;
            return Err(Corrupt);
        };
        self.ring.memory.read(self.ring.offset(start) + WORD, len, out);
        self.head = start + record_size(len) as u64;
        // Release: our reads are done before the producer may overwrite.
        self.ring.memory.head().store(self.head, Release);
        Ok(true)
    }

    fn header(&self, position: u64) -> &crate::sync::AtomicU64 {
        self.ring.memory.header(self.ring.offset(position))
    }

    /// Position and length of the record that the header `word` at our cursor announces, if they are possible.
    fn locate(&self, mut word: u64) -> Option<(u64, usize)> {
        let mut start = self.head;
        // At offset 0 every record fits, so that a correct producer never writes WRAP there.
        if word == WRAP && self.ring.offset(start) != 0 {
            start += self.ring.to_end(start) as u64;
            word = self.header(start).load(Acquire);
        }
        let len = (word & u64::from(u32::MAX)) as usize;
        let possible = word & !u64::from(u32::MAX) == RECORD
            && len <= self.ring.record_len_max()
            && record_size(len) <= self.ring.to_end(start);
        possible.then_some((start, len))
    }
}

#[cfg(all(test, loom))]
fn model_pair(capacity: usize) -> (Producer, Consumer) {
    let memory = Memory::new(capacity);
    (Producer::over(memory.clone()), Consumer::over(memory))
}
