//! Protection domains and memory regions: `ibv_alloc_pd(3)`, `ibv_reg_mr(3)`.

use crate::answer::{Errno, broken, code, not_made, pointer, refused};
use crate::context::opened;
use crate::domain::Parent;
use crate::layout::*;
use crate::store::{Object, Store, given, taken};
use core::ffi::{c_int, c_uint, c_void};
use glassnic_verbs::attr::AccessFlags;
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule};
use glassnic_verbs::{Mr, Pd};
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
struct Region(Mr);

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
    let access = access_flags(call, access)?;
    // The start of a region is what its owner and its peers count from.
    let iova = if access.contains(AccessFlags::ZERO_BASED) { 0 } else { iova };
    let mr = domain
        .0
        .reg_mr(addr.expose_provenance() as u64, length as u64, iova, access)
        .map_err(|refusal| not_made(domain.0.context(), &refusal))?;
    // SAFETY: a live object's struct; `context` never changes.
    let context = unsafe { (*pd).context };
    let public = ibv_mr { context, pd, addr, length, handle: mr.handle(), lkey: mr.lkey(), rkey: mr.rkey() };
    Ok(Region::store().insert(public, Region(mr)))
}

/// The rights of a region. Optional ones that are not known are left out, as `ibv_reg_mr(3)` says of
/// `IBV_ACCESS_OPTIONAL_RANGE`; what the device does not have is refused.
fn access_flags(call: Call, bits: c_uint) -> Result<AccessFlags, Errno> {
    const HAVE: AccessFlags = AccessFlags::LOCAL_WRITE
        .union(AccessFlags::REMOTE_WRITE)
        .union(AccessFlags::REMOTE_READ)
        .union(AccessFlags::REMOTE_ATOMIC)
        .union(AccessFlags::ZERO_BASED)
        .union(AccessFlags::HUGETLB)
        .union(AccessFlags::RELAXED_ORDERING);
    let known = AccessFlags::all().bits();
    let unknown = bits & !known & !AccessFlags::OPTIONAL_RANGE;
    if unknown != 0 {
        return Err(broken(call, Rule::UnknownBits { what: Field::Access, bits: unknown.into() }));
    }
    let wanted = AccessFlags::from_bits_truncate(bits);
    let missing = wanted.difference(HAVE);
    if !missing.is_empty() {
        return Err(broken(call, Rule::NotSupported { what: Field::Access, value: missing.bits().into() }));
    }
    Ok(wanted)
}

pub(crate) extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    let call = Call::DeregMr;
    code(given::<Region>(call, mr).and_then(|region| {
        region.0.destroy().map_err(|refusal| refused(&refusal))?;
        taken::<Region>(call, mr).map(drop)
    }))
}
