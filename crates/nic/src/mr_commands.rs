//! Commands on regions beyond registering: `ibv_rereg_mr(3)`, `ibv_advise_mr(3)`, null regions and device memory.

use glassnic_events::{Call, Field, Limit, ObjectKind, Refusal, Rule};
use glassnic_transport::Sge;
use glassnic_transport::attr::AccessFlags;
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::RegMr;

use crate::device::{Nic, Registered};
use crate::mr::{Backing, Mr};
use crate::object::{self, Image, Kind};

/// What `ibv_rereg_mr` changes; the rest stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrChange {
    /// Where the region lies: host address and length in bytes. Its owner and peers know it by the host address.
    pub translation: Option<(u64, u64)>,
    /// Its protection domain.
    pub pd: Option<u32>,
    /// Its rights.
    pub access: Option<AccessFlags>,
}

/// Device memory, of which the host has the bytes.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    length: u64,
    regions: u32,
}

/// Device memory is allocated, copied and registered by multiples of this, as on mlx5. Bytes.
pub const DM_STEP: u64 = 4;

impl Nic {
    /// What a region would be after a change. That new memory is mapped is for the host to check.
    ///
    /// # Errors
    /// No such region; EBUSY while windows are bound to it; what `reg_mr` refuses of the whole.
    pub fn rereg_mr(&mut self, handle: u32, change: &MrChange, now: u64) -> Result<(), Refusal> {
        let changed = self.changed_mr(handle, change);
        let (old, new) = changed.map_err(|rule| self.refuse(now, Call::ReregMr, None, rule))?;
        self.mrs.replace(handle, new);
        if old.pd != new.pd {
            if let Some(pd) = self.pds.get_mut(old.pd) {
                pd.mrs = pd.mrs.saturating_sub(1);
            }
            if let Some(pd) = self.pds.get_mut(new.pd) {
                pd.mrs += 1;
            }
        }
        let (lkey, rkey) = self.mrs.keys_of(handle);
        self.ledger.keep(now, CommandOpcode::ReregMr, 0, new.pd, &record(&new, lkey, rkey));
        let memory = &self.ledger.memory;
        if let Some(mut image) = Image::load(memory, Kind::Mr, crate::table::index_of(handle)) {
            object::clear(memory, Kind::Mr, handle);
            fill(&mut image, &new, lkey, rkey);
            image.set(object::Head::Pd, new.pd.into());
            image.store(memory, Kind::Mr, handle);
        }
        Ok(())
    }

    fn changed_mr(&self, handle: u32, change: &MrChange) -> Result<(Mr, Mr), Rule> {
        let kind = ObjectKind::Mr;
        let old = *self.mrs.get(handle).ok_or(Rule::BadHandle { kind, handle })?;
        let count = self.mrs.windows_of(handle);
        if count > 0 {
            return Err(Rule::InUse { kind, handle, by_kind: ObjectKind::Mw, count });
        }
        if old.backing != Backing::Program {
            return Err(Rule::Conflict { what: Field::Flags, with: Field::Mr });
        }
        let mut new = old;
        if let Some((addr, length)) = change.translation {
            (new.host, new.iova, new.length) = (addr, addr, length);
        }
        new.pd = change.pd.unwrap_or(new.pd);
        new.access = change.access.unwrap_or(new.access);
        if new.access.contains(AccessFlags::ZERO_BASED) {
            new.iova = 0;
        } else if old.access.contains(AccessFlags::ZERO_BASED) {
            new.iova = new.host;
        }
        self.check_mr(&new)?;
        Ok((old, new))
    }

    /// A region that reads as zeros and keeps nothing, for local use at any address (`ibv_alloc_null_mr(3)`).
    ///
    /// # Errors
    /// Bad PD, `max_mr`.
    pub fn alloc_null_mr(&mut self, pd: u32, now: u64) -> Result<Registered, Refusal> {
        let access = AccessFlags::LOCAL_WRITE;
        let mr = Mr { pd, access, backing: Backing::Nothing, ..Mr::default() };
        self.enter_mr(Call::AllocNullMr, mr, now)
    }

    /// Takes `length` bytes of device memory (`ibv_alloc_dm(3)`).
    ///
    /// # Errors
    /// A device that has stopped, no bytes at all, more than there are in all or are left.
    pub fn alloc_dm(&mut self, length: u64, now: u64) -> Result<u32, Refusal> {
        self.check_alloc_dm(length).map_err(|rule| self.refuse(now, Call::AllocDm, None, rule))?;
        let Some(handle) = self.dms.insert(DeviceMemory { length, regions: 0 }) else {
            let (limit, held) = (self.dms.limit().into(), self.dms.len().into());
            let rule = Rule::LimitReached { kind: ObjectKind::Dm, limit, held };
            return Err(self.refuse(now, Call::AllocDm, None, rule));
        };
        self.ledger.note(now, CommandOpcode::AllocDm, handle);
        Ok(handle)
    }

    fn check_alloc_dm(&self, length: u64) -> Result<(), Rule> {
        self.runs()?;
        let (what, limit) = (Field::Length, self.limits.max_dm_size);
        if limit == 0 {
            return Err(Rule::NotSupported { what, value: length });
        }
        if length == 0 {
            return Err(Rule::ZeroLength { what });
        }
        if length > limit {
            return Err(Rule::ExceedsLimit { what, offered: length, limit, limit_name: Limit::MaxDmSize });
        }
        let used: u64 = self.dms.iter().map(|(_, dm)| dm.length.next_multiple_of(DM_STEP)).sum();
        if length.next_multiple_of(DM_STEP) > limit - used.min(limit) {
            return Err(Rule::NoMemory { kind: ObjectKind::Dm, bytes: length });
        }
        Ok(())
    }

    /// Gives device memory back (`ibv_free_dm(3)`).
    ///
    /// # Errors
    /// Bad handle; EBUSY while a region is on it.
    pub fn free_dm(&mut self, handle: u32, now: u64) -> Result<(), Refusal> {
        let kind = ObjectKind::Dm;
        let rule = match self.dms.get(handle).map(|dm| dm.regions) {
            None => Some(Rule::BadHandle { kind, handle }),
            Some(0) => None,
            Some(count) => Some(Rule::InUse { kind, handle, by_kind: ObjectKind::Mr, count }),
        };
        if let Some(rule) = rule {
            return Err(self.refuse(now, Call::FreeDm, None, rule));
        }
        self.dms.remove(handle);
        self.ledger.note(now, CommandOpcode::FreeDm, handle);
        Ok(())
    }

    /// Registers `length` bytes of device memory from `offset` on, which begin at `host`; addresses count from 0
    /// (`ibv_reg_dm_mr(3)`).
    ///
    /// # Errors
    /// Bad handles, a range that leaves the memory or is crooked, rights without ZERO_BASED, `max_mr`.
    pub fn reg_dm_mr(
        &mut self,
        pd: u32,
        dm: u32,
        (host, offset, length): (u64, u64, u64),
        access: AccessFlags,
        now: u64,
    ) -> Result<Registered, Refusal> {
        let checked = self.check_dm(dm, offset, length, access);
        checked.map_err(|rule| self.refuse(now, Call::RegDmMr, None, rule))?;
        let backing = Backing::Device(dm);
        let mr = Mr { pd, iova: 0, length, host, access, backing, ..Mr::default() };
        let registered = self.enter_mr(Call::RegDmMr, mr, now)?;
        if let Some(dm) = self.dms.get_mut(dm) {
            dm.regions += 1;
        }
        Ok(registered)
    }

    fn check_dm(&self, handle: u32, offset: u64, length: u64, access: AccessFlags) -> Result<(), Rule> {
        let dm = self.dms.get(handle).ok_or(Rule::BadHandle { kind: ObjectKind::Dm, handle })?;
        if !access.contains(AccessFlags::ZERO_BASED) {
            return Err(Rule::MissingField { what: Field::Access });
        }
        if offset.checked_add(length).is_none_or(|end| end > dm.length) {
            let what = Field::Length;
            let max = dm.length.saturating_sub(offset);
            return Err(Rule::OutOfRange { what, offered: length, min: 0, max });
        }
        Ok(())
    }

    /// A region on device memory is gone.
    pub(crate) fn leave_dm(&mut self, mr: &Mr) {
        if let Backing::Device(dm) = mr.backing
            && let Some(dm) = self.dms.get_mut(dm)
        {
            dm.regions = dm.regions.saturating_sub(1);
        }
    }

    /// The host memory that elements of regions which page on demand stand for: address and length each
    /// (`ibv_advise_mr(3)`).
    ///
    /// # Errors
    /// No element, a key that is none, a region of another PD, one that cannot be written, or does not page on demand, a range
    /// outside.
    pub fn advise_mr(
        &mut self,
        pd: u32,
        elements: &[Sge],
        write: bool,
        now: u64,
    ) -> Result<Vec<(u64, u64)>, Refusal> {
        let found: Result<Vec<_>, Rule> = elements.iter().map(|sge| self.advised(pd, sge, write)).collect();
        let found = match found {
            Ok(none) if none.is_empty() => Err(Rule::ZeroLength { what: Field::NumSge }),
            other => other,
        };
        found.map_err(|rule| self.refuse(now, Call::AdviseMr, None, rule))
    }

    fn advised(&self, pd: u32, sge: &Sge, write: bool) -> Result<(u64, u64), Rule> {
        let mr = self.mrs.of_lkey(sge.lkey).ok_or(Rule::KeyUnknown { lkey: sge.lkey })?;
        if mr.pd != pd {
            return Err(Rule::NotPermitted { what: Field::Pd });
        }
        if !mr.access.contains(AccessFlags::ON_DEMAND) {
            return Err(Rule::NotOnDemand { lkey: sge.lkey });
        }
        if write && !mr.access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(Rule::NotPermitted { what: Field::Access });
        }
        let len = u64::from(sge.length);
        let host = mr.at(sge.addr, len).map_err(|_| Rule::MemoryNotMapped { addr: sge.addr, len })?;
        Ok((host & !crate::mr::GUARD, len))
    }
}

/// The record of a registration.
pub(crate) fn record(mr: &Mr, lkey: u32, rkey: u32) -> RegMr {
    RegMr {
        access: mr.access.bits().into(),
        addr: mr.host.into(),
        length: mr.length.into(),
        iova: mr.iova.into(),
        lkey: lkey.into(),
        rkey: rkey.into(),
        ..RegMr::default()
    }
}

/// A region as inspectors see it.
pub(crate) fn fill(image: &mut Image, mr: &Mr, lkey: u32, rkey: u32) {
    image.set(object::Mr::Lkey, lkey.into()).set(object::Mr::Rkey, rkey.into());
    image.set(object::Mr::Addr, mr.host).set(object::Mr::Length, mr.length);
    image.set(object::Mr::Iova, mr.iova).set(object::Mr::Access, mr.access.bits().into());
}
