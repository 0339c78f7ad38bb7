//! Memory regions: which key opens which memory, and for what. Windows on them: [`crate::window`].

use glassnic_events::Region;
use glassnic_transport::attr::AccessFlags;
use glassnic_transport::{KeyFault, RemoteAccess};

use crate::key::{KeyCodec, KeyKind};
use crate::limits::Limits;
use crate::table::Table;
use crate::window::Windows;

/// In a host address: the memory pages on demand, so it may not be there.
pub const GUARD: u64 = 1 << 62;
/// In a host address: there is no memory; it reads as zeros and keeps nothing.
pub const NOTHING: u64 = 1 << 63;
/// Host addresses of programs are below this.
const HOST_END: u64 = 1 << 57;

/// What a region is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Memory of the program.
    #[default]
    Program,
    /// Nothing at all (`ibv_alloc_null_mr(3)`).
    Nothing,
    /// Device memory, by handle (`ibv_reg_dm_mr(3)`).
    Device(u32),
}

/// A registered memory region.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mr {
    /// Protection domain.
    pub pd: u32,
    /// Address that work requests and peers use.
    pub iova: u64,
    /// Length in bytes.
    pub length: u64,
    /// Host address of its first byte.
    pub host: u64,
    /// Rights.
    pub access: AccessFlags,
    /// The rkey was invalidated.
    pub invalidated: bool,
    /// What it is made of.
    pub backing: Backing,
}

impl Mr {
    /// The host address of a range, if it lies inside.
    pub(crate) fn at(&self, addr: u64, len: u64) -> Result<u64, KeyFault> {
        if self.backing == Backing::Nothing {
            return Ok(NOTHING);
        }
        let offset = addr.checked_sub(self.iova).ok_or(KeyFault::OutOfBounds)?;
        let end = offset.checked_add(len).ok_or(KeyFault::OutOfBounds)?;
        if end > self.length {
            return Err(KeyFault::OutOfBounds);
        }
        let host = self.host.wrapping_add(offset);
        if !self.access.contains(AccessFlags::ON_DEMAND) {
            return Ok(host);
        }
        let is_address = host.checked_add(len).is_some_and(|end| end <= HOST_END);
        if is_address { Ok(host | GUARD) } else { Err(KeyFault::Unmapped) }
    }

    /// All of the address space, paged on demand (`IBV_ACCESS_ON_DEMAND` with address 0 and length `SIZE_MAX`).
    #[must_use]
    pub fn is_implicit(&self) -> bool {
        self.access.contains(AccessFlags::ON_DEMAND) && self.host == 0 && self.length == u64::MAX
    }
}

/// A region, and how many windows are bound to it.
#[derive(Debug)]
struct Entry {
    mr: Mr,
    windows: u32,
}

/// The right that a remote access needs.
pub(crate) fn right(access: RemoteAccess) -> AccessFlags {
    match access {
        RemoteAccess::Write | RemoteAccess::Word => AccessFlags::REMOTE_WRITE,
        RemoteAccess::Read => AccessFlags::REMOTE_READ,
        RemoteAccess::Atomic => AccessFlags::REMOTE_ATOMIC,
    }
}

/// The regions of a device, and the windows on them.
#[derive(Debug)]
pub struct MrTable {
    regions: Table<Entry>,
    pub(crate) codec: KeyCodec,
    pub(crate) windows: Windows,
}

impl MrTable {
    /// A table for as many regions and windows as the limits say, with keys made from `seed`.
    #[must_use]
    pub fn new(limits: &Limits, seed: u64) -> Self {
        let windows = Windows::new(limits.max_mw, limits.mw_type_2a);
        Self { regions: Table::new(limits.max_mr), codec: KeyCodec::new(seed), windows }
    }

    /// Registers a region: its handle, lkey and rkey. `None` if the table is full.
    pub fn register(&mut self, mr: Mr) -> Option<(u32, u32, u32)> {
        let handle = self.regions.insert(Entry { mr, windows: 0 })?;
        let keys = (self.codec.encode(handle, KeyKind::Local), self.codec.encode(handle, KeyKind::Remote));
        Some((handle, keys.0, keys.1))
    }

    /// Deregisters.
    pub fn deregister(&mut self, handle: u32) -> Option<Mr> {
        self.regions.remove(handle).map(|entry| entry.mr)
    }

    /// Windows that are bound to a region.
    #[must_use]
    pub fn windows_of(&self, handle: u32) -> u32 {
        self.regions.get(handle).map_or(0, |entry| entry.windows)
    }

    /// Puts another region in the place of one, which keeps its keys.
    pub(crate) fn replace(&mut self, handle: u32, mr: Mr) {
        if let Some(entry) = self.regions.get_mut(handle) {
            entry.mr = mr;
        }
    }

    /// The region of a local key.
    pub(crate) fn of_lkey(&self, lkey: u32) -> Option<&Mr> {
        self.find(lkey, KeyKind::Local).ok()
    }

    /// The keys of a region: lkey and rkey.
    pub(crate) fn keys_of(&self, handle: u32) -> (u32, u32) {
        (self.codec.encode(handle, KeyKind::Local), self.codec.encode(handle, KeyKind::Remote))
    }

    pub(crate) fn get(&self, handle: u32) -> Option<&Mr> {
        self.regions.get(handle).map(|entry| &entry.mr)
    }

    /// One window more, or one less, is bound to a region.
    pub(crate) fn count_window(&mut self, handle: u32, more: bool) {
        if let Some(entry) = self.regions.get_mut(handle) {
            entry.windows = if more { entry.windows + 1 } else { entry.windows.saturating_sub(1) };
        }
    }

    /// Regions of a protection domain.
    #[must_use]
    pub fn count_in(&self, pd: u32) -> u32 {
        self.regions.iter().filter(|(_, entry)| entry.mr.pd == pd).count() as u32
    }

    /// The region of a key of this kind. A key of the other kind opens nothing, as on hardware that tells them
    /// apart.
    fn find(&self, key: u32, kind: KeyKind) -> Result<&Mr, KeyFault> {
        let found = self.codec.decode(key).filter(|found| found.kind == kind).ok_or(KeyFault::NoSuchKey)?;
        let (handle, entry) = self.regions.at(found.index).ok_or(KeyFault::NoSuchKey)?;
        if found.is_of(handle) { Ok(&entry.mr) } else { Err(KeyFault::NoSuchKey) }
    }

    /// The region of a key of either kind.
    pub(crate) fn find_any(&self, key: u32) -> Result<&Mr, KeyFault> {
        self.find(key, KeyKind::Remote).or_else(|_| self.find(key, KeyKind::Local))
    }

    /// What stands behind a key that was turned down: where it was right, or is the other key of a region.
    pub(crate) fn region(&self, key: u32, remote: bool) -> Option<Region> {
        let found = self.codec.decode(key)?;
        if found.kind == KeyKind::Window {
            return self.seen_through(key);
        }
        let needs = if remote { KeyKind::Remote } else { KeyKind::Local };
        let mr = self.find_any(key).ok()?;
        let (start, len, access) = (mr.iova, mr.length, mr.access.bits());
        Some(Region { start, len, access, pd: mr.pd, other_key: found.kind != needs })
    }

    /// Checks a local access.
    ///
    /// # Errors
    /// The first check that fails: key, PD, right, bounds.
    pub fn local(&self, pd: u32, lkey: u32, addr: u64, len: u64, write: bool) -> Result<u64, KeyFault> {
        let mr = self.find(lkey, KeyKind::Local)?;
        if mr.pd != pd {
            return Err(KeyFault::OtherPd);
        }
        if write && !mr.access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(KeyFault::NoRight);
        }
        mr.at(addr, len)
    }

    /// Checks a remote access.
    ///
    /// # Errors
    /// The first check that fails: key, PD, right, bounds, alignment.
    pub fn remote(
        &self,
        pd: u32,
        qpn: u32,
        rkey: u32,
        addr: u64,
        len: u64,
        access: RemoteAccess,
    ) -> Result<u64, KeyFault> {
        let host = match self.find(rkey, KeyKind::Remote) {
            Ok(mr) => self.through_region(mr, pd, (addr, len), access)?,
            Err(_) if self.is_window_key(rkey) => self.through_window(pd, qpn, rkey, (addr, len), access)?,
            Err(fault) => return Err(fault),
        };
        if matches!(access, RemoteAccess::Atomic | RemoteAccess::Word) && !host.is_multiple_of(8) {
            return Err(KeyFault::Misaligned);
        }
        Ok(host)
    }

    /// Checks a FLUSH of a range, or of all of a region. A window grants none.
    ///
    /// # Errors
    /// The first check that fails: key, PD, right, bounds.
    pub fn flushable(
        &self,
        pd: u32,
        rkey: u32,
        range: Option<(u64, u64)>,
        rights: AccessFlags,
    ) -> Result<(), KeyFault> {
        let mr = self.find(rkey, KeyKind::Remote)?;
        if mr.pd != pd {
            return Err(KeyFault::OtherPd);
        }
        if !mr.access.contains(rights) {
            return Err(KeyFault::NoRight);
        }
        match range {
            Some((_, 0)) | None => Ok(()),
            Some((addr, len)) => mr.at(addr, len).map(drop),
        }
    }

    fn is_window_key(&self, key: u32) -> bool {
        self.codec.decode(key).is_some_and(|found| found.kind == KeyKind::Window)
    }

    fn through_region(
        &self,
        mr: &Mr,
        pd: u32,
        (addr, len): (u64, u64),
        access: RemoteAccess,
    ) -> Result<u64, KeyFault> {
        if mr.invalidated {
            return Err(KeyFault::Invalidated);
        }
        if mr.pd != pd {
            return Err(KeyFault::OtherPd);
        }
        if !mr.access.contains(right(access)) {
            return Err(KeyFault::NoRight);
        }
        mr.at(addr, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: AccessFlags = AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_WRITE);

    fn table() -> (MrTable, u32, u32, u32) {
        let mut t = MrTable::new(&Limits { max_mr: 10, ..Limits::default() }, 5);
        let mr = Mr { pd: 3, iova: 0x1000, length: 0x100, host: 0x7000_0000, access: ALL, ..Mr::default() };
        let (h, l, r) = t.register(mr).unwrap();
        (t, h, l, r)
    }

    #[test]
    fn each_check_has_its_fault() {
        let (t, _, l, r) = table();
        assert_eq!(t.local(3, l, 0x1010, 0xf0, true), Ok(0x7000_0010));
        assert_eq!(t.local(3, l, 0x1010, 0xf1, true), Err(KeyFault::OutOfBounds));
        assert_eq!(t.local(3, l, 0xfff, 1, true), Err(KeyFault::OutOfBounds));
        assert_eq!(t.local(3, l, u64::MAX, u64::MAX, true), Err(KeyFault::OutOfBounds));
        assert_eq!(t.local(4, l, 0x1000, 1, true), Err(KeyFault::OtherPd));
        assert_eq!(t.local(3, r, 0x1000, 1, true), Err(KeyFault::NoSuchKey));
        assert_eq!(t.remote(3, 0x11, l, 0x1000, 1, RemoteAccess::Write), Err(KeyFault::NoSuchKey));
        assert_eq!(t.remote(3, 0x11, r, 0x1000, 0x100, RemoteAccess::Write), Ok(0x7000_0000));
        assert_eq!(t.remote(3, 0x11, r, 0x1000, 1, RemoteAccess::Read), Err(KeyFault::NoRight));
        let behind =
            [t.region(r, true), t.region(l, true)].map(|found| found.map(|r| (r.start, r.other_key)));
        assert_eq!(behind, [Some((0x1000, false)), Some((0x1000, true))]);
    }

    #[test]
    fn a_deregistered_key_opens_nothing() {
        let (mut t, h, l, r) = table();
        assert_eq!((t.count_in(3), t.count_in(4)), (1, 0));
        assert!(t.deregister(h).is_some());
        assert_eq!(t.local(3, l, 0x1000, 1, false), Err(KeyFault::NoSuchKey));
        assert_eq!(t.remote(3, 0x11, r, 0x1000, 1, RemoteAccess::Write), Err(KeyFault::NoSuchKey));
        assert!(t.deregister(h).is_none());
    }

    #[test]
    fn a_hundred_thousand_registrations_leave_keys_that_work() {
        let (mut t, _, _, _) = table();
        let mr = Mr { pd: 3, iova: 0x1000, length: 0x100, host: 0x7000_0000, access: ALL, ..Mr::default() };
        let mut before = None;
        for n in 0..100_000 {
            let (h, l, r) = t.register(mr).unwrap_or_else(|| panic!("no room after {n}"));
            assert_eq!(t.local(3, l, 0x1000, 1, true), Ok(0x7000_0000), "{n}");
            assert_eq!(t.remote(3, 0x11, r, 0x1000, 1, RemoteAccess::Write), Ok(0x7000_0000), "{n}");
            if let Some(gone) = before.replace(r) {
                let again = t.remote(3, 0x11, gone, 0x1000, 1, RemoteAccess::Write);
                assert_eq!(again, Err(KeyFault::NoSuchKey), "{n}");
            }
            t.deregister(h);
        }
    }
}
