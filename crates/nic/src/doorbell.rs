//! Doorbells: how a thread that posted tells the engine which QP to look at.

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// One bit for each QP slot, a summary bit for each word of them, and a flag for all.
#[derive(Debug)]
pub struct Doorbells {
    any: AtomicBool,
    summary: Box<[AtomicU64]>,
    bits: Box<[AtomicU64]>,
}

impl Doorbells {
    /// Doorbells for `slots` QPs.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let words = slots.div_ceil(64).max(1);
        let zeros = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect();
        Self { any: AtomicBool::new(false), summary: zeros(words.div_ceil(64)), bits: zeros(words) }
    }

    /// Rings for `slot`. What was posted before is seen by whoever takes the bit.
    pub fn ring(&self, slot: u32) {
        let word = slot as usize / 64;
        let (Some(bits), Some(summary)) = (self.bits.get(word), self.summary.get(word / 64)) else { return };
        bits.fetch_or(1 << (slot % 64), Ordering::AcqRel);
        summary.fetch_or(1 << (word % 64), Ordering::AcqRel);
        // A swap, because loom takes a store for one that the swap of `take` may overtake; x86 makes the same of both.
        self.any.swap(true, Ordering::SeqCst);
    }

    /// True if one rings.
    #[must_use]
    pub fn is_ringing(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// Takes all that ring.
    pub fn take(&self, mut ringing: impl FnMut(u32)) {
        if !self.any.swap(false, Ordering::SeqCst) {
            return;
        }
        for (s, summary) in self.summary.iter().enumerate() {
            let mut words = summary.swap(0, Ordering::AcqRel);
            while words != 0 {
                let word = s * 64 + words.trailing_zeros() as usize;
                words &= words - 1;
                let mut bits = self.bits.get(word).map_or(0, |b| b.swap(0, Ordering::AcqRel));
                while bits != 0 {
                    ringing(word as u32 * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ring_is_taken_once() {
        let bells = Doorbells::new(10_000);
        for slot in [0, 63, 64, 4095, 4096, 9999, 9999] {
            bells.ring(slot);
        }
        bells.ring(1 << 20);
        assert!(bells.is_ringing());
        let mut got = Vec::new();
        bells.take(|s| got.push(s));
        assert_eq!(got, [0, 63, 64, 4095, 4096, 9999]);
        assert!(!bells.is_ringing());
        bells.take(|_| panic!("nothing rings"));
    }
}
