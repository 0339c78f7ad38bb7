//! QP numbers: taken from blocks that the host gives us, never reused soon.

use std::collections::{BTreeMap, VecDeque};

use crate::key::splitmix;

/// QP numbers in a block.
pub const BLOCK_LEN: u32 = 4096;

/// How long a number rests after its QP is destroyed, in nanoseconds: longer than packets of the old connection
/// can be on the way or repeated by a peer that has not heard of the end.
pub const QUARANTINE_NS: u64 = 10_000_000_000;

/// The numbers of a NIC, and the slot of context memory that each stands for.
#[derive(Debug)]
pub struct QpnTable {
    blocks: BTreeMap<u16, Box<[u32]>>,
    /// Numbers never used, as (block, first, left): taken one after another from a random start.
    fresh: VecDeque<(u16, u32, u32)>,
    resting: VecDeque<(u64, u32)>,
    seed: u64,
}

/// No slot: the number is free.
const NONE: u32 = u32::MAX;

impl QpnTable {
    /// Without numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { blocks: BTreeMap::new(), fresh: VecDeque::new(), resting: VecDeque::new(), seed }
    }

    /// Adds a block.
    pub fn add_block(&mut self, block: u16) {
        self.blocks.insert(block, vec![NONE; BLOCK_LEN as usize].into());
        let start = splitmix(&mut self.seed) as u32 % BLOCK_LEN;
        self.fresh.push_back((block, start, BLOCK_LEN));
    }

    /// The blocks.
    pub fn blocks(&self) -> impl Iterator<Item = u16> {
        self.blocks.keys().copied()
    }

    /// Takes a number for `slot`; `None` if another block is needed.
    pub fn take(&mut self, slot: u32, now: u64) -> Option<u32> {
        let rested = self.resting.front().is_some_and(|(until, _)| *until <= now);
        let qpn = if let Some((block, next, left)) = self.fresh.front_mut() {
            let qpn = u32::from(*block) * BLOCK_LEN + *next;
            (*next, *left) = ((*next + 1) % BLOCK_LEN, *left - 1);
            if *left == 0 {
                self.fresh.pop_front();
            }
            qpn
        } else if rested {
            self.resting.pop_front()?.1
        } else {
            return None;
        };
        *self.entry(qpn)? = slot;
        Some(qpn)
    }

    /// Gives a number back; it rests from `now` on.
    pub fn release(&mut self, qpn: u32, now: u64) {
        if let Some(entry) = self.entry(qpn)
            && *entry != NONE
        {
            *entry = NONE;
            self.resting.push_back((now.saturating_add(QUARANTINE_NS), qpn));
        }
    }

    /// The slot of a number.
    #[must_use]
    pub fn slot(&self, qpn: u32) -> Option<u32> {
        let entries = self.blocks.get(&u16::try_from(qpn / BLOCK_LEN).ok()?)?;
        entries.get((qpn % BLOCK_LEN) as usize).copied().filter(|s| *s != NONE)
    }

    fn entry(&mut self, qpn: u32) -> Option<&mut u32> {
        self.blocks.get_mut(&u16::try_from(qpn / BLOCK_LEN).ok()?)?.get_mut((qpn % BLOCK_LEN) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_rests_before_it_comes_back() {
        let mut table = QpnTable::new(3);
        assert_eq!(table.take(0, 0), None);
        table.add_block(5);
        let first = table.take(7, 0).unwrap();
        assert_eq!((first / BLOCK_LEN, table.slot(first)), (5, Some(7)));
        table.release(first, 0);
        assert_eq!(table.slot(first), None);
        let mut seen = std::collections::BTreeSet::from([first]);
        for n in 1..BLOCK_LEN {
            assert!(seen.insert(table.take(n, 1).unwrap()));
        }
        assert_eq!(table.take(9, QUARANTINE_NS - 1), None);
        assert_eq!(table.take(9, QUARANTINE_NS), Some(first));
    }

    #[test]
    fn a_number_that_is_not_ours_has_no_slot() {
        let mut table = QpnTable::new(3);
        table.add_block(1);
        for qpn in [0, 4095, 8192, 0xff_ffff, u32::MAX] {
            assert_eq!(table.slot(qpn), None);
            table.release(qpn, 0);
        }
    }
}
