//! Objects that are no QP, as an inspector sees them: 64 bytes each in the segment, in a table of their kind by the
//! index of their handle.
//!
//! All kinds begin alike ([`Head`]); the rest is the kind's own. An entry is written before its handle, and its handle is
//! the first thing to go, so that a reader that finds the same handle before and after has a whole copy. Handles do not
//! come back soon. What changes while the object lives ([`Cq`], [`Channel`]) stands in words of its own.

use crate::context::{ContextMemory, OBJECT_LEN};
use crate::fields::{Fields, fields};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::table::index_of;

/// A kind of object with a table in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Kind {
    /// Protection domain.
    Pd = 0,
    /// Completion queue.
    Cq = 1,
    /// Memory region.
    Mr = 2,
    /// Address handle.
    Ah = 3,
    /// Shared receive queue.
    Srq = 4,
    /// Completion channel.
    Channel = 5,
    /// Memory window.
    Mw = 6,
}

impl Kind {
    /// Every kind, in the order of their tables.
    pub const ALL: [Self; 7] = [Self::Pd, Self::Cq, Self::Mr, Self::Ah, Self::Srq, Self::Channel, Self::Mw];
}

fields! {
    /// What all kinds begin with.
    Head in 64 {
        Handle "handle" @ 0x00: 4 "handle; 0 in a free entry";
        Thread "created_by" @ 0x04: 4 "thread that created it";
        CreatedNs "created_ns" @ 0x08: 8 "time of creation, monotonic ns";
        Site "site" @ 0x10: 4 "number of the place in the program that created it; 0 unknown";
        Pd "pd" @ 0x14: 4 "protection domain that it belongs to; 0 for none";
    }
}

fields! {
    /// A memory region.
    Mr in 64 {
        Lkey "lkey" @ 0x18: 4 "key for the program's own requests";
        Rkey "rkey" @ 0x1c: 4 "key for peers";
        Addr "addr" @ 0x20: 8 "first address";
        Length "length" @ 0x28: 8 "bytes";
        Iova "iova" @ 0x30: 8 "address that peers use";
        Access "access" @ 0x38: 4 "enum ibv_access_flags";
    }
}

fields! {
    /// A completion queue.
    Cq in 64 {
        Depth "depth" @ 0x18: 4 "completions that it holds";
        Channel "channel" @ 0x1c: 4 "completion channel; 0 for none";
        Waiting "waiting" @ 0x20: 4 "completions that wait to be polled";
        Armed "armed" @ 0x24: 1 "1 armed for solicited completions, 2 for the next one, 0 not armed";
        Overrun "overrun" @ 0x25: 1 "1 once a completion found no room";
        ArmedWith "armed_with" @ 0x28: 4 "completions that waited when it was armed";
        Raised "raised" @ 0x2c: 4 "completion events raised";
        Unacknowledged "unacknowledged" @ 0x30: 8 "completion events taken and not acknowledged";
        ModerateCount "moderate_count" @ 0x38: 2 "completions that an event stands for; 0 or 1 each has its own";
        ModeratePeriod "moderate_period" @ 0x3a: 2 "the longest that an event is held back, microseconds; 0 not at all";
        Lost "lost" @ 0x3c: 4 "completions that others took the place of, as it ignores overrun";
    }
}

fields! {
    /// An address handle.
    Ah in 64 {
        SgidIndex "sgid_index" @ 0x18: 1 "index of the source GID";
        HopLimit "hop_limit" @ 0x19: 1 "hop limit";
        TrafficClass "traffic_class" @ 0x1a: 1 "traffic class";
        PortNum "port_num" @ 0x1b: 1 "port";
        FlowLabel "flow_label" @ 0x1c: 4 "flow label";
        Dgid "dgid" @ 0x20: 16 "destination GID";
    }
}

fields! {
    /// A shared receive queue.
    Srq in 64 {
        Depth "depth" @ 0x18: 4 "receives that it holds";
        MaxSge "max_sge" @ 0x1c: 4 "elements of a receive";
        Posted "posted" @ 0x20: 4 "receives posted and not taken";
        Limit "limit" @ 0x24: 4 "limit at which it raises an event; 0 not armed";
        Number "number" @ 0x28: 4 "SRQ number on the wire (XRC)";
        EverPosted "ever_posted" @ 0x2c: 4 "receives ever posted (wraps)";
    }
}

fields! {
    /// A completion channel.
    Channel in 64 {
        Fd "fd" @ 0x18: 4 "file descriptor";
        Waiting "waiting" @ 0x1c: 4 "events that nobody has taken yet";
        AsleepSinceNs "asleep_since_ns" @ 0x20: 8 "since when a thread sleeps for an event, monotonic ns; 0 none does";
        Sleeper "sleeper" @ 0x28: 4 "that thread";
    }
}

fields! {
    /// A memory window.
    Mw in 64 {
        Rkey "rkey" @ 0x18: 4 "key for peers";
        Region "region" @ 0x1c: 4 "handle of the region that it is bound to; 0 not bound";
        Addr "addr" @ 0x20: 8 "first address, as the region's owner knows it";
        Length "length" @ 0x28: 8 "bytes";
        Access "access" @ 0x30: 4 "enum ibv_access_flags";
        Qpn "qpn" @ 0x34: 4 "queue pair that bound it, of type 2; else 0";
        Type "type" @ 0x38: 1 "enum ibv_mw_type";
    }
}

/// A copy of an entry, or one to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image([u8; OBJECT_LEN]);

impl Default for Image {
    fn default() -> Self {
        Self([0; OBJECT_LEN])
    }
}

impl Image {
    /// A number of the head, or of the kind that it is.
    #[must_use]
    pub fn get(&self, field: impl Fields) -> u64 {
        field.info().value(&self.0)
    }

    /// A GID.
    #[must_use]
    pub fn gid(&self, field: impl Fields) -> [u8; 16] {
        let mut gid = [0; 16];
        for (to, from) in gid.iter_mut().zip(field.info().bytes(&self.0)) {
            *to = *from;
        }
        gid
    }

    pub(crate) fn set(&mut self, field: impl Fields, value: u64) -> &mut Self {
        field.info().set(&mut self.0, value);
        self
    }

    pub(crate) fn set_gid(&mut self, field: impl Fields, gid: [u8; 16]) -> &mut Self {
        let at = field.info().offset;
        self.0[at..at + 16].copy_from_slice(&gid);
        self
    }

    /// Reads an entry; `None` if it is free, or was given to another object meanwhile.
    #[must_use]
    pub fn load(memory: &ContextMemory, kind: Kind, index: usize) -> Option<Self> {
        let words = memory.object(kind, index)?;
        let first = words.first()?;
        let before = first.load(Ordering::Acquire);
        let mut image = Self::default();
        for (bytes, word) in image.0.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        fence(Ordering::Acquire);
        (before as u32 != 0 && first.load(Ordering::Relaxed) == before).then_some(image)
    }

    /// Writes the entry of a handle.
    pub(crate) fn store(&self, memory: &ContextMemory, kind: Kind, handle: u32) {
        let index = index_of(handle);
        let Some((first, rest)) = memory.object(kind, index).and_then(<[AtomicU64]>::split_first) else {
            return;
        };
        let [head, values @ ..] = self.0.as_chunks::<8>().0 else { return };
        for (word, value) in rest.iter().zip(values) {
            word.store(u64::from_le_bytes(*value), Ordering::Relaxed);
        }
        first.store(u64::from_le_bytes(*head) & !0xffff_ffff | u64::from(handle), Ordering::Release);
        memory.raise_high(kind, index as u64 + 1);
    }
}

/// Frees the entry of a handle.
pub(crate) fn clear(memory: &ContextMemory, kind: Kind, handle: u32) {
    if let Some(first) = memory.object(kind, index_of(handle)).and_then(<[AtomicU64]>::first) {
        first.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
    }
}

/// Words of an entry that change while the object lives.
#[derive(Clone, Debug)]
pub struct Live {
    memory: ContextMemory,
    kind: Kind,
    index: usize,
}

impl Live {
    pub(crate) fn new(memory: ContextMemory, kind: Kind, handle: u32) -> Self {
        Self { memory, kind, index: index_of(handle) }
    }

    /// Sets the whole word that `field` begins.
    pub fn store(&self, field: impl Fields, word: u64) {
        debug_assert!(field.info().offset.is_multiple_of(8));
        if let Some(to) =
            self.memory.object(self.kind, self.index).and_then(|w| w.get(field.info().offset / 8))
        {
            to.store(word, Ordering::Relaxed);
        }
    }
}
