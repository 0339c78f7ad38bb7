//! How the values of a rule lie in the words of a record.
//!
//! Records are read from memory that other processes write, so reading answers `None` to whatever is not a value.

use crate::name::{Field, Limit, ObjectKind, Queue};
use crate::qp::{AttrMask, QpState, QpType, StateSet, Transition, TransitionSet};
use crate::rule::{Gid, IndexSet};
use crate::work::WrOpcode;

/// A value that packs into one or two words.
pub(crate) trait Packed: Sized {
    /// How many.
    const WORDS: usize = 1;
    /// Writes itself to the front of `out`, which has room for [`Packed::WORDS`].
    fn put(self, out: &mut [u64]);
    /// Reads itself from the front of `words`; `None` if they hold no such value.
    fn take(words: &[u64]) -> Option<Self>;
}

macro_rules! packed_numbers {
    ($($number:ty),*) => { $(
        impl Packed for $number {
            fn put(self, out: &mut [u64]) {
                if let Some(word) = out.first_mut() { *word = self.into(); }
            }
            fn take(words: &[u64]) -> Option<Self> {
                Self::try_from(*words.first()?).ok()
            }
        }
    )* };
}
packed_numbers!(u8, u16, u32, u64);

macro_rules! packed_enums {
    ($($kind:ty),*) => { $(
        impl Packed for $kind {
            fn put(self, out: &mut [u64]) { self.value().put(out); }
            fn take(words: &[u64]) -> Option<Self> { Self::try_from(u32::take(words)?).ok() }
        }
    )* };
}
packed_enums!(Field, Limit, ObjectKind, Queue, QpState, QpType, WrOpcode);

impl Packed for AttrMask {
    fn put(self, out: &mut [u64]) {
        self.bits().put(out);
    }
    fn take(words: &[u64]) -> Option<Self> {
        u32::take(words).map(Self::from_bits_retain)
    }
}

impl Packed for StateSet {
    fn put(self, out: &mut [u64]) {
        self.bits().put(out);
    }
    fn take(words: &[u64]) -> Option<Self> {
        u8::take(words).map(Self::from_bits)
    }
}

impl Packed for TransitionSet {
    fn put(self, out: &mut [u64]) {
        self.bits().put(out);
    }
    fn take(words: &[u64]) -> Option<Self> {
        u64::take(words).map(Self::from_bits)
    }
}

impl Packed for IndexSet {
    fn put(self, out: &mut [u64]) {
        self.0.put(out);
    }
    fn take(words: &[u64]) -> Option<Self> {
        u64::take(words).map(Self)
    }
}

impl Packed for Transition {
    fn put(self, out: &mut [u64]) {
        (self.qp_type.value() | self.from.value() << 8 | self.to.value() << 16).put(out);
    }
    fn take(words: &[u64]) -> Option<Self> {
        let packed = u32::take(words)?;
        Some(Self {
            qp_type: QpType::try_from(packed & 0xff).ok()?,
            from: QpState::try_from(packed >> 8 & 0xff).ok()?,
            to: QpState::try_from(packed >> 16).ok()?,
        })
    }
}

impl Packed for Gid {
    const WORDS: usize = 2;
    fn put(self, out: &mut [u64]) {
        for (word, bytes) in out.iter_mut().zip(self.0.as_chunks().0) {
            *word = u64::from_be_bytes(*bytes);
        }
    }
    fn take(words: &[u64]) -> Option<Self> {
        let [high, low, ..] = *words else { return None };
        Some(Self((u128::from(high) << 64 | u128::from(low)).to_be_bytes()))
    }
}
