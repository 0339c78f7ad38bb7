//! Context memory: the shared-memory segment of a NIC as the device and an inspector both know it.
//!
//! The segment is an array of 64-bit words, little-endian, which only atomics touch: another process may read it
//! at any time. Its parts, in order, at multiples of 64 bytes:
//!
//! | part | size |
//! |---|---|
//! | header | 4096 bytes; see [`Header`] |
//! | QP contexts | `qp_slots` × 256 bytes |
//! | flight recorder | `recorder_slots` × 72 bytes; see [`crate::recorder`] |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first word of a segment: `GLASSNIC` in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GLASSNIC");
/// Version of this layout. A reader refuses another.
pub const VERSION: u64 = 1;
/// Bytes of the header.
pub const HEADER_LEN: usize = 4096;
/// Bytes of a QP context.
pub const QPC_LEN: usize = 256;

/// Words of the header, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Header {
    /// [`MAGIC`]
    Magic = 0,
    /// [`VERSION`]
    Version = 1,
    /// Number of QP contexts.
    QpSlots = 2,
    /// Number of recorder slots.
    RecorderSlots = 3,
    /// Process that owns the NIC.
    Pid = 4,
    /// Its start time, as `/proc/PID/stat` has it, so that a reused pid is not taken for it.
    StartTime = 5,
    /// When the NIC was opened: monotonic clock, nanoseconds.
    OpenedNs = 6,
    /// Records ever written to the flight recorder.
    RecorderNext = 7,
    /// The device's name, 16 bytes, zero-padded (and the next word).
    Name = 8,
    /// 1 while the NIC is open.
    Open = 10,
    /// QP contexts that were ever used: those behind are free.
    QpHigh = 11,
}

/// Words of [`Header::Name`].
const NAME_WORDS: usize = 2;

/// Memory that holds a segment.
pub trait Words: Send + Sync {
    /// All of it.
    fn words(&self) -> &[AtomicU64];
}

impl Words for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// How many of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// QP contexts.
    pub qp_slots: usize,
    /// Recorder slots.
    pub recorder_slots: usize,
}

impl Layout {
    /// Bytes of the whole segment.
    #[must_use]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.qp_slots * QPC_LEN + self.recorder_slots * crate::recorder::SLOT_LEN
    }

    /// A layout without contexts and recorder.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.qp_slots == 0 && self.recorder_slots == 0
    }
}

/// A segment and its layout.
#[derive(Clone)]
pub struct ContextMemory {
    words: Arc<dyn Words>,
    layout: Layout,
}

impl std::fmt::Debug for ContextMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextMemory").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl ContextMemory {
    /// Lays out fresh, zeroed memory. `None` if it is too small for the layout.
    #[must_use]
    pub fn create(words: Arc<dyn Words>, layout: Layout) -> Option<Self> {
        if words.words().len() * 8 < layout.len() {
            return None;
        }
        Some(Self { words, layout }.laid_out())
    }

    /// Memory of this process alone, for simulations.
    #[must_use]
    pub fn private(layout: Layout) -> Self {
        let words: Box<[AtomicU64]> = (0..layout.len().div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        Self { words: Arc::new(words), layout }.laid_out()
    }

    /// Writes the header; the magic number last, so that a reader never sees half of it.
    fn laid_out(self) -> Self {
        self.set(Header::Version, VERSION);
        self.set(Header::QpSlots, self.layout.qp_slots as u64);
        self.set(Header::RecorderSlots, self.layout.recorder_slots as u64);
        self.set(Header::Open, 1);
        self.set(Header::Magic, MAGIC);
        self
    }

    /// Reads a segment that somebody else made. `None` if it is not one, or of another version, or cut short.
    #[must_use]
    pub fn open(words: Arc<dyn Words>) -> Option<Self> {
        let at = |h: Header| words.words().get(h as usize).map(|w| w.load(Ordering::Acquire));
        if at(Header::Magic)? != MAGIC || at(Header::Version)? != VERSION {
            return None;
        }
        let layout = Layout {
            qp_slots: usize::try_from(at(Header::QpSlots)?).ok().filter(|n| *n <= 1 << 24)?,
            recorder_slots: usize::try_from(at(Header::RecorderSlots)?).ok().filter(|n| *n <= 1 << 24)?,
        };
        (words.words().len() * 8 >= layout.len()).then_some(Self { words, layout })
    }

    /// Its layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// A word of the header.
    #[must_use]
    pub fn get(&self, at: Header) -> u64 {
        self.words.words().get(at as usize).map_or(0, |w| w.load(Ordering::Acquire))
    }

    /// Sets a word of the header.
    pub fn set(&self, at: Header, value: u64) {
        if let Some(w) = self.words.words().get(at as usize) {
            w.store(value, Ordering::Release);
        }
    }

    /// The device's name, as far as it is one.
    #[must_use]
    pub fn name(&self) -> String {
        let words = self.words.words().get(Header::Name as usize..).unwrap_or_default();
        let bytes: Vec<u8> =
            words.iter().take(NAME_WORDS).flat_map(|w| w.load(Ordering::Acquire).to_le_bytes()).collect();
        let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// Sets the device's name, of which the first 16 bytes count.
    pub fn set_name(&self, name: &str) {
        let mut bytes = [0; NAME_WORDS * 8];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        let words = self.words.words().get(Header::Name as usize..).unwrap_or_default();
        for (word, value) in words.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*value), Ordering::Release);
        }
    }

    /// A word of the header as the atomic that it is.
    pub(crate) fn counter(&self, at: Header) -> Option<&AtomicU64> {
        self.words.words().get(at as usize)
    }

    /// The words of the QP context in this slot.
    #[must_use]
    pub fn qpc(&self, slot: usize) -> Option<&[AtomicU64]> {
        if slot >= self.layout.qp_slots {
            return None;
        }
        let start = (HEADER_LEN + slot * QPC_LEN) / 8;
        self.words.words().get(start..start + QPC_LEN / 8)
    }

    /// The words of a recorder slot.
    pub(crate) fn recorder(&self, slot: usize) -> Option<&[AtomicU64]> {
        let start = (HEADER_LEN + self.layout.qp_slots * QPC_LEN + slot * crate::recorder::SLOT_LEN) / 8;
        self.words.words().get(start..start + crate::recorder::SLOT_LEN / 8)
    }
}
