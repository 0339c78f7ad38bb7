//! The receiving end: all rings of a process, its sleeper, its bell.

use super::*;
use crate::directory::{INBOX, Node, WAKE, file_name};
use crate::sys::mapping::Mapped;
use glassnic_ring::spsc::Consumer;
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Where a process receives records. One thread at a time polls it.
pub struct Inbox {
    node: Arc<Node>,
    file: File,
    pub(super) layout: Layout,
    /// A FIFO, open for reading and writing: it never reports an end, and writing to it never raises SIGPIPE.
    bell: OwnedFd,
    rings: Vec<Option<Ring>>,
    /// A bit for each ring that broke: it is not read again before another sender has it.
    retired: u64,
    /// Where the next poll begins, so that one busy sender cannot starve the others.
    next: usize,
    record: Vec<u8>,
}

struct Ring {
    sender: Owner,
    consumer: Mapped<Consumer>,
}

impl Inbox {
    /// Make the inbox of this process; there can be one per [`Node`].
    ///
    /// # Errors
    /// System calls; ENOSPC where the folder's file system is full, EEXIST where there is an inbox already.
    pub fn create(node: &Arc<Node>) -> io::Result<Self> {
        let me = node.me();
        // The bell first: who finds the inbox finds it too.
        let bell_name = file_name(WAKE, me.slot, me.generation);
        rustix::fs::mknodat(node.folder(), &bell_name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        Self::build(node, &bell_name).inspect_err(|_| remove_files(node))
    }

    fn build(node: &Arc<Node>, bell_name: &str) -> io::Result<Self> {
        let me = node.me();
        let bell = open_bell(node, bell_name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = file_name(INBOX, me.slot, me.generation);
        let file = File::from(rustix::fs::openat(node.folder(), &name, flags, Mode::RUSR | Mode::WUSR)?);
        rustix::fs::ftruncate(&file, FILE_LEN as u64)?;
        allocate(&file, 0, RINGS_AT)?;
        let layout = Layout(Mapping::new(&file, FILE_LEN)?);
        layout.0.u64(MAGIC_AT).store(MAGIC, Release);
        let rings = (0..RING_COUNT).map(|_| None).collect();
        Ok(Self { node: node.clone(), file, layout, bell, rings, retired: 0, next: 0, record: Vec::new() })
    }

    /// Hand up to `budget` records to `deliver`, with their senders, fairly over the rings. Returns how many there were.
    /// A sender's records come in the order in which it sent them.
    pub fn poll(&mut self, budget: usize, mut deliver: impl FnMut(Owner, &[u8])) -> usize {
        let used = self.layout.used().load(Acquire);
        if used == 0 {
            return 0;
        }
        let mut left = budget;
        // Rotated so that bit 0 is the ring whose turn it is.
        let mut turn = used.rotate_right(self.next as u32);
        while turn != 0 && left > 0 {
            let ring = (self.next + turn.trailing_zeros() as usize) % RING_COUNT;
            turn &= turn - 1;
            // A share for each ring that is still to come, at least one record.
            let share = (left / (turn.count_ones() as usize + 1)).max(1);
            left -= self.poll_ring(ring, share, &mut deliver);
        }
        self.next = (self.next + 1) % RING_COUNT;
        budget - left
    }

    fn poll_ring(&mut self, ring: usize, budget: usize, deliver: &mut impl FnMut(Owner, &[u8])) -> usize {
        if self.rings[ring].is_none() {
            self.adopt(ring);
        }
        let Some(open) = &mut self.rings[ring] else { return 0 };
        // Before the ring: what a closing sender pushed is then visible.
        let stage = self.layout.stage(ring).load(Acquire);
        for count in 0..budget {
            match open.consumer.pop_into(&mut self.record) {
                Ok(true) => deliver(open.sender, &self.record),
                Ok(false) => {
                    if stage == STAGE_CLOSING {
                        self.free(ring);
                    }
                    return count;
                }
                // The sender must see that nobody reads; its claim stays until it closes or dies.
                Err(_) => {
                    self.retire(ring);
                    return count;
                }
            }
        }
        budget
    }

    /// Take up a ring that a sender opened.
    fn adopt(&mut self, ring: usize) {
        let stage = self.layout.stage(ring).load(Acquire);
        let sender = sender_of(self.layout.sender(ring).load(Acquire))
            .and_then(|(slot, generation)| self.node.process(slot, generation));
        if self.retired & (1 << ring) != 0 {
            if stage == STAGE_CLOSING {
                self.free(ring);
            } else {
                self.layout.used().fetch_and(!(1 << ring), Release);
            }
            return;
        }
        match (stage, sender) {
            (STAGE_OPEN | STAGE_CLOSING, Some(sender)) => {
                self.rings[ring] = self
                    .layout
                    .0
                    .consumer(ring_at(ring), RING_LEN)
                    .ok()
                    .map(|consumer| Ring { sender, consumer });
            }
            // Left by a sender that is gone, or retired: reclaimed with the dead.
            _ => {
                self.layout.used().fetch_and(!(1 << ring), Release);
            }
        }
    }

    /// Stop reading a ring, and tell its sender.
    fn retire(&mut self, ring: usize) {
        self.rings[ring] = None;
        self.retired |= 1 << ring;
        self.layout.stage(ring).store(STAGE_BROKEN, Release);
        self.layout.used().fetch_and(!(1 << ring), Release);
    }

    /// Make a ring ready for another sender. Its old one is known to write no more.
    fn free(&mut self, ring: usize) {
        self.rings[ring] = None;
        self.retired &= !(1 << ring);
        self.layout.used().fetch_and(!(1 << ring), Release);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, hole, ring_at(ring) as u64, RING_STRIDE as u64).is_err() {
            self.layout.0.zero(ring_at(ring), RING_LEN);
        }
        self.layout.stage(ring).store(STAGE_FREE, Relaxed);
        // Last: from here on a sender may claim it.
        self.layout.sender(ring).store(0, Release);
    }

    /// Free the rings of senders that died or closed, once their records are polled. Reads `/proc` once per sender:
    /// for idle times. Returns how many were freed.
    pub fn reclaim_dead(&mut self) -> usize {
        let mut freed = 0;
        for ring in 0..RING_COUNT {
            let word = self.layout.sender(ring).load(Acquire);
            if word == 0 {
                continue;
            }
            let stage = self.layout.stage(ring).load(Acquire);
            if self.rings[ring].is_none() && stage == STAGE_OPEN {
                self.adopt(ring);
            }
            let unread = self.rings[ring].as_ref().is_some_and(|open| !open.consumer.is_empty());
            let sender = match &self.rings[ring] {
                // As adopted: the word may have been scribbled over since.
                Some(open) => Some(open.sender),
                None => sender_of(word).and_then(|(slot, generation)| self.node.process(slot, generation)),
            };
            let over = stage == STAGE_CLOSING || sender.is_none_or(|sender| !self.node.is_alive(sender));
            if over && !unread {
                self.free(ring);
                freed += 1;
            }
        }
        freed
    }

    /// Whether a poll would find something.
    pub fn is_empty(&self) -> bool {
        let mut used = self.layout.used().load(Acquire);
        while used != 0 {
            let ring = used.trailing_zeros() as usize;
            used &= used - 1;
            // A ring that is not adopted yet may hold anything.
            if self.rings[ring].as_ref().is_none_or(|open| !open.consumer.is_empty()) {
                return false;
            }
        }
        true
    }

    /// The flag to announce before sleeping: announce, check [`Inbox::is_empty`], wait on [`Inbox::wake_fd`].
    pub fn sleeper(&self) -> &Sleeper {
        self.layout.sleeper()
    }

    /// Readable when a sender has rung. Whoever was woken calls [`Inbox::clear_wake`].
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Take the rings of the bell out, so that [`Inbox::wake_fd`] is no longer readable.
    pub fn clear_wake(&self) {
        let mut rings = [0_u8; 64];
        while rustix::io::read(&self.bell, &mut rings).is_ok_and(|count| count == rings.len()) {}
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // A forked child shares the mapping, and must leave the parent's inbox alone.
        if std::process::id() != self.node.me().process.pid {
            return;
        }
        self.layout.closed().store(1, Release);
        remove_files(&self.node);
    }
}

fn remove_files(node: &Node) {
    let me = node.me();
    for kind in [INBOX, WAKE] {
        let name = file_name(kind, me.slot, me.generation);
        let _ = rustix::fs::unlinkat(node.folder(), name, rustix::fs::AtFlags::empty());
    }
}

pub(super) fn open_bell(node: &Node, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(node.folder(), name, flags, Mode::empty())
}

/// Give a range its pages now: a full file system is then an error here, not a SIGBUS at some later store.
pub(super) fn allocate(file: &File, offset: usize, len: usize) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset as u64, len as u64) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
