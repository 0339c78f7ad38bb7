//! Device memory: `ibv_alloc_dm(3)`. Programs copy to it and from it, or register it; they have no address of it.

use crate::answer::{Errno, broken, code, not_made, pointer, refused};
use crate::context::opened;
use crate::layout::*;
use crate::memory::{Domain, Region, access_flags};
use crate::store::{Object, Store, given, taken};
use core::ffi::{c_int, c_uint, c_void};
use core::{ptr, slice};
use glassnic_verbs::Dm;
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule};

/// Greatest alignment that can be asked for: memory begins at a page.
const LOG_ALIGN_MAX: u32 = 12;

/// Device memory.
struct DeviceMemory(Dm);

impl Object for DeviceMemory {
    type Public = ibv_dm;
    type Seen = ibv_dm;
    const TAG: u64 = 0x676c_6173_735f_646d;
    const KIND: ObjectKind = ObjectKind::Dm;
    const FIELD: Field = Field::Dm;

    fn store() -> &'static Store<Self> {
        static STORE: Store<DeviceMemory> = Store::new();
        &STORE
    }
}

/// The operation `alloc_dm`.
///
/// # Safety
/// `attr` is null or readable.
pub(crate) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    let call = Call::AllocDm;
    pointer(opened(call, context).and_then(|opened| {
        // SAFETY: as promised by the caller.
        let Some(attr) = (unsafe { attr.as_ref() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::Attr }));
        };
        if attr.comp_mask != 0 {
            let rule = Rule::UnknownBits { what: Field::CompMask, bits: attr.comp_mask.into() };
            return Err(broken(call, rule));
        }
        if attr.log_align_req > LOG_ALIGN_MAX {
            let (offered, max) = (attr.log_align_req.into(), LOG_ALIGN_MAX.into());
            return Err(broken(call, Rule::OutOfRange { what: Field::LogAlign, offered, min: 0, max }));
        }
        let made = opened.context.alloc_dm(attr.length as u64);
        let dm = made.map_err(|refusal| not_made(&opened.context, &refusal))?;
        let public = ibv_dm {
            context,
            memcpy_to_dm: Some(memcpy_to_dm),
            memcpy_from_dm: Some(memcpy_from_dm),
            comp_mask: 0,
            handle: dm.handle(),
        };
        Ok(DeviceMemory::store().insert(public, DeviceMemory(dm)))
    }))
}

/// The operation `free_dm`.
///
/// # Safety
/// `dm` is null or was device memory.
pub(crate) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    let call = Call::FreeDm;
    code(given::<DeviceMemory>(call, dm).and_then(|memory| {
        memory.0.destroy().map_err(|refusal| refused(&refusal))?;
        taken::<DeviceMemory>(call, dm).map(drop)
    }))
}

/// # Safety
/// `dm` is null or was device memory; `from` is null or has `length` bytes.
unsafe extern "C" fn memcpy_to_dm(dm: *mut ibv_dm, offset: u64, from: *const c_void, length: usize) -> c_int {
    code(copied(dm, from.is_null(), |memory| {
        // SAFETY: as promised by the caller, and not null.
        memory.copy_in(offset, unsafe { slice::from_raw_parts(from.cast(), length) })
    }))
}

/// # Safety
/// `dm` is null or was device memory; `to` is null or has `length` writable bytes.
unsafe extern "C" fn memcpy_from_dm(to: *mut c_void, dm: *mut ibv_dm, offset: u64, length: usize) -> c_int {
    code(copied(dm, to.is_null(), |memory| {
        // SAFETY: as promised by the caller, and not null.
        memory.copy_out(offset, unsafe { slice::from_raw_parts_mut(to.cast(), length) })
    }))
}

fn copied(
    dm: *mut ibv_dm,
    is_null: bool,
    copy: impl FnOnce(&Dm) -> Result<(), glassnic_verbs::events::Refusal>,
) -> Result<(), Errno> {
    let call = Call::MemcpyDm;
    let memory = given::<DeviceMemory>(call, dm)?;
    if is_null {
        return Err(broken(call, Rule::NullPointer { what: Field::Addr }));
    }
    copy(&memory.0).map_err(|refusal| refused(&refusal))
}

/// The operation `reg_dm_mr`.
///
/// # Safety
/// `pd` and `dm` are null or were such objects.
pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    let call = Call::RegDmMr;
    pointer(given::<Domain>(call, pd).and_then(|domain| {
        let memory = given::<DeviceMemory>(call, dm)?;
        let context = domain.0.context();
        if !memory.0.context().is(context) {
            let rule = Rule::OtherContext { kind: ObjectKind::Dm, handle: memory.0.handle() };
            return Err(refused(&context.refuse(call, None, rule)));
        }
        let access = access_flags(call, context, access)?;
        let made = domain.0.reg_dm_mr(&memory.0, offset, length as u64, access);
        let mr = made.map_err(|refusal| not_made(context, &refusal))?;
        Ok(Region::give(mr, pd, &domain, ptr::null_mut(), length))
    }))
}
