//! The GID table of a device: the addresses of its interface, at indices that do not shift.

use super::{Interface, gid_of, is_link_local};
use std::net::IpAddr;

/// Which sort of address a GID is made from; the order is that of a fresh table, as in Linux's RoCEv2 tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GidKind {
    /// `fe80::/10`: reaches the same link only, and needs a scope.
    LinkLocal,
    /// An IPv4 address, as `::ffff:a.b.c.d`.
    Ipv4Mapped,
    /// Any other IPv6 address.
    Global,
}

impl GidKind {
    fn of(addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(_) => Self::Ipv4Mapped,
            IpAddr::V6(addr) if is_link_local(addr) => Self::LinkLocal,
            IpAddr::V6(_) => Self::Global,
        }
    }
}

/// Why a GID is at its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GidPlace {
    /// It was there from the beginning, in the order of [`GidKind`].
    Ordered,
    /// It came later, and took the first index never used.
    Later,
    /// It came later, when all indices had been used, and took an empty one.
    Hole,
}

/// One GID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// Index in the table, as verbs programs name it.
    pub index: u16,
    /// The GID.
    pub gid: [u8; 16],
    /// Its sort.
    pub kind: GidKind,
    /// The address that it is made from.
    pub addr: IpAddr,
    /// Index of the interface that has it.
    pub ifindex: u32,
    /// Name of the interface.
    pub ifname: String,
    /// Why it is at this index.
    pub place: GidPlace,
}

/// The table. An index keeps its meaning as long as a program runs: what goes leaves a hole, what comes takes the first
/// index never used, and an address that comes back takes the index it had if that is still empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GidTable {
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    entry: GidEntry,
    present: bool,
}

/// Indices that a port can have.
const SLOTS_MAX: usize = 1024;

impl GidTable {
    /// The table of an interface: link-local first, then IPv4, then global IPv6, each in the kernel's order.
    pub fn from_interface(interface: &Interface) -> Self {
        let mut table = Self::default();
        table.update(interface);
        table
    }

    /// Follow the interface. Returns whether an entry came or went.
    pub fn update(&mut self, interface: &Interface) -> bool {
        let mut changed = false;
        for slot in &mut self.slots {
            let present = slot.entry.ifindex == interface.index && interface.addrs.contains(&slot.entry.addr);
            changed |= present != slot.present;
            slot.present = present;
        }
        let known = |table: &Self, addr| {
            table.slots.iter().any(|slot| slot.entry.addr == addr && slot.entry.ifindex == interface.index)
        };
        let fresh = self.slots.is_empty();
        let mut addrs = interface.addrs.clone();
        addrs.sort_by_key(|addr| GidKind::of(*addr));
        for addr in addrs {
            if !known(self, addr) {
                changed |= self.append(interface, addr, fresh);
            }
        }
        changed
    }

    fn append(&mut self, interface: &Interface, addr: IpAddr, fresh: bool) -> bool {
        let kind = GidKind::of(addr);
        let (index, place) = if self.slots.len() < SLOTS_MAX {
            (self.slots.len(), if fresh { GidPlace::Ordered } else { GidPlace::Later })
        } else {
            // All indices have been used: the oldest hole is the least surprising one.
            let Some(hole) = self.slots.iter().position(|slot| !slot.present) else { return false };
            (hole, GidPlace::Hole)
        };
        let ifname = interface.name.clone();
        let entry = GidEntry {
            index: index as u16,
            gid: gid_of(addr),
            kind,
            addr,
            ifindex: interface.index,
            ifname,
            place,
        };
        let slot = Slot { entry, present: true };
        match self.slots.get_mut(index) {
            Some(hole) => *hole = slot,
            None => self.slots.push(slot),
        }
        true
    }

    /// The entry at an index; `None` for a hole and beyond the end.
    pub fn get(&self, index: usize) -> Option<&GidEntry> {
        self.slots.get(index).filter(|slot| slot.present).map(|slot| &slot.entry)
    }

    /// The entries, by index.
    pub fn iter(&self) -> impl Iterator<Item = &GidEntry> {
        self.slots.iter().filter(|slot| slot.present).map(|slot| &slot.entry)
    }

    /// The entry of a GID.
    pub fn find(&self, gid: [u8; 16]) -> Option<&GidEntry> {
        self.iter().find(|entry| entry.gid == gid)
    }

    /// One more than the largest index ever used.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no index was ever used.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
