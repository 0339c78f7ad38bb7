//! The mapped tables. Methods that change them are called under the directory's lock; a value that no correct
//! process writes reads as "nobody".

use super::{Mapping, Owner};
use crate::process::Identity;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

/// Number of process slots.
pub const PROCESS_COUNT: u16 = 256;
/// Number of blocks of QP numbers.
pub const BLOCK_COUNT: u16 = 4096;
/// QP numbers of a block.
pub const QPNS_PER_BLOCK: u32 = 1 << BLOCK_SHIFT;

const BLOCK_SHIFT: u32 = 12;
const MAGIC: u64 = u64::from_le_bytes(*b"GLASSND1");
const MAGIC_AT: usize = 0;
const BOOT_AT: usize = 8;
const EPOCH_AT: usize = 16;
const SLOTS_AT: usize = 4096;
const SLOT_LEN: usize = 64;
const BLOCKS_AT: usize = SLOTS_AT + PROCESS_COUNT as usize * SLOT_LEN;
const FILE_LEN: usize = BLOCKS_AT + BLOCK_COUNT as usize * 8;

/// In a state word, below the generation.
const LIVE: u64 = 1;

pub(super) struct Table(Mapping);

impl Table {
    /// Map the file and lay it out if it is new, or of an earlier boot. Under the lock.
    pub(super) fn open(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() < FILE_LEN as u64 {
            rustix::fs::ftruncate(file, FILE_LEN as u64)?;
        }
        // Pages up front, where the file system can: a full /dev/shm is then an error here, not a SIGBUS later.
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, FILE_LEN as u64) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno.into()),
        }
        let table = Self(Mapping::new(file, FILE_LEN)?);
        let (boot, theirs) = (boot_id(), table.0.u64(BOOT_AT).load(Relaxed));
        let another_boot = boot != theirs && boot != 0 && theirs != 0;
        if table.0.u64(MAGIC_AT).load(Acquire) != MAGIC || another_boot {
            table.0.zero(0, FILE_LEN);
            table.0.u64(BOOT_AT).store(boot, Relaxed);
            table.0.u64(MAGIC_AT).store(MAGIC, Release);
        }
        Ok(table)
    }

    fn slot(&self, slot: u16) -> Slot<'_> {
        Slot { table: self, base: SLOTS_AT + usize::from(slot) * SLOT_LEN }
    }

    fn block(&self, block: u16) -> &AtomicU64 {
        self.0.u64(BLOCKS_AT + usize::from(block) * 8)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.0.u64(EPOCH_AT).load(Acquire)
    }

    fn changed(&self) {
        self.0.u64(EPOCH_AT).fetch_add(1, Release);
    }

    /// The process in a slot: lock-free, by reading the state word before and after.
    pub(super) fn process(&self, slot: u16) -> Option<Owner> {
        if slot >= PROCESS_COUNT {
            return None;
        }
        let entry = self.slot(slot);
        let state = entry.state().load(Acquire);
        if state & u64::from(u32::MAX) != LIVE {
            return None;
        }
        let owner = Owner {
            slot,
            generation: (state >> 32) as u32,
            process: Identity {
                pid: entry.pid().load(Relaxed),
                start_time: entry.start_time().load(Relaxed),
                start_stack: entry.start_stack().load(Relaxed),
            },
            pid_namespace: entry.pid_namespace().load(Relaxed),
            user_namespace: entry.user_namespace().load(Relaxed),
        };
        fence(Acquire);
        (entry.state().load(Relaxed) == state).then_some(owner)
    }

    /// Take a free slot for `me`, whose slot and generation are filled in.
    pub(super) fn enter(&self, me: &mut Owner) -> Option<()> {
        let free = |slot: &u16| self.slot(*slot).state().load(Relaxed) & u64::from(u32::MAX) != LIVE;
        me.slot = (0..PROCESS_COUNT).find(free)?;
        let entry = self.slot(me.slot);
        let before = (entry.state().load(Relaxed) >> 32) as u32;
        // Zero is left out, so that zeroed memory names nobody.
        me.generation = before.checked_add(1).unwrap_or(1);
        entry.pid().store(me.process.pid, Relaxed);
        entry.bind_order().store(0, Relaxed);
        entry.start_time().store(me.process.start_time, Relaxed);
        entry.start_stack().store(me.process.start_stack, Relaxed);
        entry.pid_namespace().store(me.pid_namespace, Relaxed);
        entry.user_namespace().store(me.user_namespace, Relaxed);
        entry.state().store(u64::from(me.generation) << 32 | LIVE, Release);
        self.changed();
        Some(())
    }

    /// Free a slot, then its blocks: those of a freed slot are nobody's already.
    pub(super) fn leave(&self, owner: Owner) {
        if self.process(owner.slot).map(|now| now.generation) != Some(owner.generation) {
            return;
        }
        self.slot(owner.slot).state().store(u64::from(owner.generation) << 32, Release);
        self.release_orphaned_blocks();
        self.changed();
    }

    pub(super) fn owner_of(&self, qpn: u32) -> Option<Owner> {
        let block = u16::try_from(qpn >> BLOCK_SHIFT).ok().filter(|block| *block < BLOCK_COUNT)?;
        self.block_owner(block)
    }

    fn block_owner(&self, block: u16) -> Option<Owner> {
        let word = self.block(block).load(Acquire);
        let slot = u16::try_from((word & u64::from(u32::MAX)).checked_sub(1)?).ok()?;
        self.process(slot).filter(|owner| u64::from(owner.generation) == word >> 32)
    }

    pub(super) fn claim_block(&self, me: Owner, seed: u64) -> Option<u16> {
        // Block 0 holds QP0 and QP1.
        let choices = u64::from(BLOCK_COUNT) - 1;
        let start = scramble(seed) % choices;
        let candidates = (0..choices).map(|step| 1 + ((start + step) % choices) as u16);
        let block = candidates.into_iter().find(|block| self.block_owner(*block).is_none())?;
        self.block(block).store(u64::from(me.generation) << 32 | (u64::from(me.slot) + 1), Release);
        self.changed();
        Some(block)
    }

    pub(super) fn release_block(&self, me: Owner, block: u16) {
        if block < BLOCK_COUNT && self.block_owner(block) == Some(me) {
            self.block(block).store(0, Release);
            self.changed();
        }
    }

    pub(super) fn release_orphaned_blocks(&self) {
        for block in 0..BLOCK_COUNT {
            if self.block(block).load(Relaxed) != 0 && self.block_owner(block).is_none() {
                self.block(block).store(0, Release);
            }
        }
    }

    /// Place of a process in the SO_REUSEPORT group, counted from 0.
    fn bind_order(&self, slot: u16) -> Option<u32> {
        self.process(slot).and_then(|_| self.slot(slot).bind_order().load(Relaxed).checked_sub(1))
    }

    /// The kernel appends new members.
    pub(super) fn enter_bind_order(&self, me: Owner) {
        let members =
            (0..PROCESS_COUNT).filter(|slot| *slot != me.slot && self.bind_order(*slot).is_some()).count();
        self.slot(me.slot).bind_order().store(members as u32 + 1, Relaxed);
        self.changed();
    }

    /// The kernel moves the last member into the hole that a leaving one makes.
    pub(super) fn leave_bind_order(&self, owner: Owner) {
        if self.process(owner.slot) != Some(owner) {
            return;
        }
        let Some(hole) = self.bind_order(owner.slot) else { return };
        self.slot(owner.slot).bind_order().store(0, Relaxed);
        let others = (0..PROCESS_COUNT).filter_map(|slot| self.bind_order(slot).map(|order| (order, slot)));
        if let Some((last, slot)) = others.max().filter(|(order, _)| *order > hole) {
            debug_assert!(last > hole);
            self.slot(slot).bind_order().store(hole + 1, Relaxed);
        }
        self.changed();
    }

    pub(super) fn steering(&self) -> Vec<(u16, u32)> {
        let place = |block| Some((block, self.bind_order(self.block_owner(block)?.slot)?));
        (1..BLOCK_COUNT).filter_map(place).collect()
    }
}

/// The words of a process slot.
struct Slot<'a> {
    table: &'a Table,
    base: usize,
}

impl<'a> Slot<'a> {
    fn state(&self) -> &'a AtomicU64 {
        self.table.0.u64(self.base)
    }
    fn pid(&self) -> &'a AtomicU32 {
        self.table.0.u32(self.base + 8)
    }
    fn bind_order(&self) -> &'a AtomicU32 {
        self.table.0.u32(self.base + 12)
    }
    fn start_time(&self) -> &'a AtomicU64 {
        self.table.0.u64(self.base + 16)
    }
    fn pid_namespace(&self) -> &'a AtomicU64 {
        self.table.0.u64(self.base + 24)
    }
    fn start_stack(&self) -> &'a AtomicU64 {
        self.table.0.u64(self.base + 32)
    }
    fn user_namespace(&self) -> &'a AtomicU64 {
        self.table.0.u64(self.base + 40)
    }
}

/// Spread a seed over 64 bits (the finaliser of SplitMix64).
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The kernel's boot id in a word, 0 where it cannot be read: pids and start times mean something within one boot only.
fn boot_id() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}
