//! Protection domains and memory regions: `ibv_alloc_pd(3)`, `ibv_reg_mr(3)`.

use crate::answer::{Errno, broken, code, not_made, pointer, refused};
use crate::context::opened;
use crate::domain::Parent;
use crate::layout::*;
use crate::store::{Object, Store, given, taken};
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use glassnic_verbs::attr::AccessFlags;
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule};
use glassnic_verbs::{Context, Mr, MrChange, Pd, Sge};
use std::sync::Arc;

/// A protection domain, which parent domains may share, and what it has beside it if it is one of them.
pub(crate) struct Domain(pub(crate) Arc<Pd>, pub(crate) Option<Box<Parent>>);

impl Object for Domain {
    type Public = ibv_pd;
    type Seen = ibv_pd;
    const TAG: u64 = 0x676c_6173_735f_7064;
    const KIND: ObjectKind = ObjectKind::Pd;
    const FIELD: Field = Field::Pd;

    fn store() -> &'static Store<Self> {
        static STORE: Store<Domain> = Store::new();
        &STORE
    }
}

/// A memory region.
pub(crate) struct Region {
    pub(crate) mr: Mr,
    /// Handle of its protection domain.
    pd: AtomicU32,
    /// Its rights, as they were last given.
    access: AtomicU32,
}

impl Region {
    /// Gives a region that was made to C.
    pub(crate) fn give(
        mr: Mr,
        pd: *mut ibv_pd,
        domain: &Domain,
        addr: *mut c_void,
        length: usize,
    ) -> *mut ibv_mr {
        // SAFETY: a live object's struct; `context` never changes.
        let context = unsafe { (*pd).context };
        let (handle, lkey, rkey) = (mr.handle(), mr.lkey(), mr.rkey());
        let public = ibv_mr { context, pd, addr, length, handle, lkey, rkey };
        let (pd, access) = (AtomicU32::new(domain.0.handle()), AtomicU32::new(mr.access().bits()));
        Self::store().insert(public, Self { mr, pd, access })
    }

    /// Handle of its protection domain.
    pub(crate) fn pd(&self) -> u32 {
        self.pd.load(Ordering::Relaxed)
    }
}

impl Object for Region {
    type Public = ibv_mr;
    type Seen = ibv_mr;
    const TAG: u64 = 0x676c_6173_735f_6d72;
    const KIND: ObjectKind = ObjectKind::Mr;
    const FIELD: Field = Field::Mr;

    fn store() -> &'static Store<Self> {
        static STORE: Store<Region> = Store::new();
        &STORE
    }
}

pub(crate) extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(opened(Call::AllocPd, context).and_then(|opened| {
        let pd = opened.context.alloc_pd().map_err(|refusal| not_made(&opened.context, &refusal))?;
        let public = ibv_pd { context, handle: pd.handle() };
        Ok(Domain::store().insert(public, Domain(Arc::new(pd), None)))
    }))
}

pub(crate) extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    let call = Call::DeallocPd;
    code(given::<Domain>(call, pd).and_then(|domain| {
        match &domain.1 {
            Some(parent) => parent.check_unused(call, domain.0.handle())?,
            None => {
                check_unshared(call, &domain)?;
                domain.0.destroy().map_err(|refusal| refused(&refusal))?;
            }
        }
        taken::<Domain>(call, pd).map(drop)
    }))
}

/// # Errors
/// `EBUSY` while a parent domain stands on it.
fn check_unshared(call: Call, domain: &Domain) -> Result<(), Errno> {
    let count = (Arc::strong_count(&domain.0) - 1).try_into().unwrap_or(u32::MAX);
    if count == 0 {
        return Ok(());
    }
    let (kind, handle, by_kind) = (ObjectKind::Pd, domain.0.handle(), ObjectKind::ParentDomain);
    Err(broken(call, Rule::InUse { kind, handle, by_kind, count }))
}

/// # Safety
/// `pd` is null or was a protection domain.
pub(crate) unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    pointer(register(Call::RegMr, pd, addr, length, addr.addr() as u64, access.cast_unsigned()))
}

/// # Safety
/// As [`ibv_reg_mr`].
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    pointer(register(Call::RegMrIova, pd, addr, length, iova, access.cast_unsigned()))
}

/// # Safety
/// As [`ibv_reg_mr`].
pub(crate) unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer(register(Call::RegMrIova, pd, addr, length, iova, access))
}

fn register(
    call: Call,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Result<*mut ibv_mr, Errno> {
    let domain = given::<Domain>(call, pd)?;
    let access = access_flags(call, domain.0.context(), access)?;
    // The start of a region is what its owner and its peers count from.
    let iova = if access.contains(AccessFlags::ZERO_BASED) { 0 } else { iova };
    let mr = domain
        .0
        .reg_mr(addr.expose_provenance() as u64, length as u64, iova, access)
        .map_err(|refusal| not_made(domain.0.context(), &refusal))?;
    Ok(Region::give(mr, pd, &domain, addr, length))
}

/// The rights of a region. Optional ones that are not known are left out, as `ibv_reg_mr(3)` says of
/// `IBV_ACCESS_OPTIONAL_RANGE`; what the device does not have is refused.
pub(crate) fn access_flags(call: Call, context: &Context, bits: c_uint) -> Result<AccessFlags, Errno> {
    const HAVE: AccessFlags = AccessFlags::LOCAL_WRITE
        .union(AccessFlags::REMOTE_WRITE)
        .union(AccessFlags::REMOTE_READ)
        .union(AccessFlags::REMOTE_ATOMIC)
        .union(AccessFlags::MW_BIND)
        .union(AccessFlags::FLUSH_GLOBAL)
        .union(AccessFlags::ZERO_BASED)
        .union(AccessFlags::HUGETLB)
        .union(AccessFlags::RELAXED_ORDERING);
    let known = AccessFlags::all().bits();
    let unknown = bits & !known & !AccessFlags::OPTIONAL_RANGE;
    if unknown != 0 {
        return Err(broken(call, Rule::UnknownBits { what: Field::Access, bits: unknown.into() }));
    }
    let wanted = AccessFlags::from_bits_truncate(bits);
    let have = if context.limits().on_demand { HAVE | AccessFlags::ON_DEMAND } else { HAVE };
    let missing = wanted.difference(have);
    if !missing.is_empty() {
        return Err(broken(call, Rule::NotSupported { what: Field::Access, value: missing.bits().into() }));
    }
    Ok(wanted)
}

pub(crate) extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    let call = Call::DeregMr;
    code(given::<Region>(call, mr).and_then(|region| {
        region.mr.destroy().map_err(|refusal| refused(&refusal))?;
        taken::<Region>(call, mr).map(drop)
    }))
}

/// Changes a region; its keys stay. 0, or a number of `enum ibv_rereg_mr_err_code` with the reason in `errno`.
///
/// # Safety
/// `mr` and `pd` are null or were such objects.
pub(crate) unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let asked = Reregistration { flags, pd, addr, length, access: access.cast_unsigned() };
    // SAFETY: as promised by the caller.
    match unsafe { asked.carry_out(mr) } {
        Ok(()) => 0,
        Err((error, errno)) => {
            errno.set();
            error
        }
    }
}

/// What `ibv_rereg_mr` was asked for.
struct Reregistration {
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_uint,
}

impl Reregistration {
    fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// What the library of rdma-core refuses itself is an input error; the rest is the device's.
    ///
    /// # Safety
    /// As [`ibv_rereg_mr`].
    unsafe fn carry_out(&self, mr: *mut ibv_mr) -> Result<(), (c_int, Errno)> {
        let call = Call::ReregMr;
        let input = |errno| (IBV_REREG_MR_ERR_INPUT, errno);
        let command = |errno| (IBV_REREG_MR_ERR_CMD, errno);
        let region = given::<Region>(call, mr).map_err(input)?;
        let context = region.mr.context();
        self.check(context).map_err(input)?;
        let moves = self.has(IBV_REREG_MR_CHANGE_PD);
        let domain = if moves { Some(given::<Domain>(call, self.pd).map_err(input)?) } else { None };
        if let Some(domain) = &domain
            && !domain.0.context().is(context)
        {
            let rule = Rule::OtherContext { kind: ObjectKind::Pd, handle: domain.0.handle() };
            return Err(command(refused(&context.refuse(call, None, rule))));
        }
        let access = if self.has(IBV_REREG_MR_CHANGE_ACCESS) {
            Some(access_flags(call, context, self.access).map_err(command)?)
        } else {
            None
        };
        let place = (self.addr.expose_provenance() as u64, self.length as u64);
        let change = MrChange {
            translation: self.has(IBV_REREG_MR_CHANGE_TRANSLATION).then_some(place),
            pd: domain.as_ref().map(|domain| domain.0.handle()),
            access,
        };
        let before = AccessFlags::from_bits_truncate(region.access.load(Ordering::Relaxed));
        let after = access.unwrap_or(before);
        region.mr.rereg(&change, after).map_err(|refusal| command(refused(&refusal)))?;
        region.access.store(after.bits(), Ordering::Relaxed);
        // SAFETY: the struct of a live region.
        let public = unsafe { &mut *mr };
        if let Some(domain) = domain {
            region.pd.store(domain.0.handle(), Ordering::Relaxed);
            public.pd = self.pd;
        }
        if change.translation.is_some() {
            (public.addr, public.length) = (self.addr, self.length);
        }
        Ok(())
    }

    fn check(&self, context: &Context) -> Result<(), Errno> {
        let unknown = self.flags & !IBV_REREG_MR_FLAGS_SUPPORTED;
        let rule = if unknown != 0 {
            Rule::OutOfRange {
                what: Field::Flags,
                offered: self.flags.cast_unsigned().into(),
                min: 1,
                max: IBV_REREG_MR_FLAGS_SUPPORTED.cast_unsigned().into(),
            }
        } else if self.flags == 0 {
            Rule::ZeroLength { what: Field::Flags }
        } else if self.has(IBV_REREG_MR_CHANGE_TRANSLATION) && self.addr.is_null() {
            Rule::NullPointer { what: Field::Addr }
        } else if self.has(IBV_REREG_MR_CHANGE_TRANSLATION) && self.length == 0 {
            Rule::ZeroLength { what: Field::Length }
        } else if self.access != 0 && !self.has(IBV_REREG_MR_CHANGE_ACCESS) {
            Rule::Conflict { what: Field::Access, with: Field::Flags }
        } else {
            return Ok(());
        };
        Err(refused(&context.refuse(Call::ReregMr, None, rule)))
    }
}

/// The operation `alloc_null_mr`.
///
/// # Safety
/// `pd` is null or was a protection domain.
pub(crate) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    let call = Call::AllocNullMr;
    pointer(given::<Domain>(call, pd).and_then(|domain| {
        let mr = domain.0.alloc_null_mr().map_err(|refusal| not_made(domain.0.context(), &refusal))?;
        Ok(Region::give(mr, pd, &domain, core::ptr::null_mut(), usize::MAX))
    }))
}

/// `IBV_ADVISE_MR_FLAG_FLUSH`: the call returns when the advice is followed. It always is here.
const ADVISE_FLUSH: u32 = 1;

/// The operation `advise_mr`.
///
/// # Safety
/// `pd` is null or was a protection domain; `list` is null or has `count` elements.
pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: ibv_advise_mr_advice,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    let call = Call::AdviseMr;
    code(given::<Domain>(call, pd).and_then(|domain| {
        let refuse = |rule| refused(&domain.0.context().refuse(call, None, rule));
        let (write, fault) = match advice {
            IBV_ADVISE_MR_ADVICE_PREFETCH => (false, true),
            IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => (true, true),
            IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => (false, false),
            _ => return Err(refuse(Rule::NotSupported { what: Field::Advice, value: advice.into() })),
        };
        if flags & !ADVISE_FLUSH != 0 {
            let (offered, max) = (flags.into(), ADVISE_FLUSH.into());
            return Err(refuse(Rule::OutOfRange { what: Field::Flags, offered, min: 0, max }));
        }
        if list.is_null() && count > 0 {
            return Err(refuse(Rule::NullPointer { what: Field::SgList }));
        }
        let list: &[ibv_sge] =
            // SAFETY: as promised by the caller, and not null where there is an element.
            if count == 0 { &[] } else { unsafe { core::slice::from_raw_parts(list, count as usize) } };
        let element = |sge: &ibv_sge| Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey };
        let elements: Vec<_> = list.iter().map(element).collect();
        // Without the flag the device takes the advice in its own time, and what it finds then it tells nobody.
        let told = flags & ADVISE_FLUSH != 0;
        domain.0.advise_mr(&elements, write, fault, told).map_err(|refusal| refused(&refusal))
    }))
}
