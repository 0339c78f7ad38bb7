//! Memory windows: `ibv_alloc_mw(3)`, `ibv_bind_mw(3)`, `ibv_dealloc_mw(3)`, and what the posted form of a bind asks for.

use crate::answer::{broken, code, not_made, pointer, refused};
use crate::layout::*;
use crate::memory::{Domain, Region};
use crate::post::{refuse, send_flags};
use crate::queue_pair::QueuePair;
use crate::store::{Object, Store, given, live, no_object, taken};
use core::ffi::{c_int, c_uint};
use glassnic_verbs::attr::AccessFlags;
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule};
use glassnic_verbs::{BindWindow, Context, Mw, SendRequest, WindowType};

/// A memory window.
pub(crate) struct MemoryWindow(Mw);

impl Object for MemoryWindow {
    type Public = ibv_mw;
    type Seen = ibv_mw;
    const TAG: u64 = 0x676c_6173_735f_6d77;
    const KIND: ObjectKind = ObjectKind::Mw;
    const FIELD: Field = Field::Mw;

    fn store() -> &'static Store<Self> {
        static STORE: Store<MemoryWindow> = Store::new();
        &STORE
    }
}

/// The operation `alloc_mw`.
///
/// # Safety
/// `pd` is null or was a protection domain.
pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    let call = Call::AllocMw;
    pointer(given::<Domain>(call, pd).and_then(|domain| {
        let window_type = match kind {
            IBV_MW_TYPE_1 => WindowType::One,
            IBV_MW_TYPE_2 => WindowType::Two,
            _ => {
                let rule = Rule::UnknownValue { what: Field::MwType, value: kind.into() };
                return Err(refused(&domain.0.context().refuse(call, None, rule)));
            }
        };
        let made = domain.0.alloc_mw(window_type);
        let mw = made.map_err(|refusal| not_made(domain.0.context(), &refusal))?;
        // SAFETY: a live object's struct; `context` never changes.
        let context = unsafe { (*pd).context };
        let public = ibv_mw { context, pd, rkey: mw.rkey(), handle: mw.handle(), r#type: kind };
        Ok(MemoryWindow::store().insert(public, MemoryWindow(mw)))
    }))
}

/// The operation `dealloc_mw`.
///
/// # Safety
/// `mw` is null or was a memory window.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    let call = Call::DeallocMw;
    code(given::<MemoryWindow>(call, mw).and_then(|window| {
        window.0.destroy().map_err(|refusal| refused(&refusal))?;
        taken::<MemoryWindow>(call, mw).map(drop)
    }))
}

/// The operation `bind_mw`: posts the bind of a window of type 1, which has its new key at once.
///
/// # Safety
/// `qp` and `mw` are null or were such objects; `bind` is null or readable.
pub(crate) unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    let call = Call::BindMw;
    // SAFETY: as promised by the caller.
    let (object, bind) = unsafe { (live::<QueuePair>(qp), bind.as_ref()) };
    let Some(object) = object else { return code(Err(no_object::<QueuePair>(call, qp.is_null()))) };
    let Some(bind) = bind else {
        return code(Err(broken(call, Rule::NullPointer { what: Field::MwBindInfo })));
    };
    // SAFETY: as promised by the caller.
    let posted = unsafe { post_bind(object, mw, bind) };
    code(posted.map_err(|rule| refuse(object, call, rule)))
}

/// # Safety
/// As [`bind_mw`].
unsafe fn post_bind(object: &QueuePair, mw: *mut ibv_mw, bind: &ibv_mw_bind) -> Result<(), Rule> {
    // SAFETY: as promised by the caller.
    let window = unsafe { window(object, mw, WindowType::One)? };
    let info = &bind.bind_info;
    if info.mw_access_flags & IBV_ACCESS_ZERO_BASED != 0 {
        return Err(Rule::Conflict { what: Field::Access, with: Field::MwType });
    }
    // SAFETY: the struct of a live window. Its key is what the program last got, as in rdma-core's drivers.
    let rkey = next_rkey(unsafe { (*mw).rkey });
    // SAFETY: as promised by the caller.
    let asked = unsafe { bind_info(object, window, rkey, info)? };
    // SAFETY: as promised by the caller; a region that passed `bind_info`.
    if let Some(region) = unsafe { live::<Region>(info.mr) }
        && region.pd() != object_pd(mw)
    {
        let (kind, handle) = (ObjectKind::Mw, window.0.handle());
        return Err(Rule::OtherPd { kind, handle, pd: object_pd(mw), needs: region.pd() });
    }
    let request = SendRequest::bind(bind.wr_id, send_flags(bind.send_flags)?, &asked);
    crate::post::check_inline_flag(&request)?;
    let mut sender = object.qp.sender()?;
    sender.stage(&request, core::iter::empty())?;
    sender.commit();
    drop(sender);
    // SAFETY: the struct of a live window.
    unsafe { (*mw).rkey = rkey };
    object.qp.kick();
    Ok(())
}

/// The handle of a window's protection domain.
fn object_pd(mw: *mut ibv_mw) -> u32 {
    // SAFETY: the struct of a live window, whose domain outlives it: to free it is refused.
    unsafe { (*(*mw).pd).handle }
}

/// The next key of a window, as `ibv_inc_rkey` of `verbs.h` makes it.
fn next_rkey(rkey: u32) -> u32 {
    rkey & !0xff | rkey.wrapping_add(1) & 0xff
}

/// A window of this type.
///
/// # Safety
/// `mw` is null or was a memory window.
unsafe fn window<'a>(
    object: &QueuePair,
    mw: *mut ibv_mw,
    needs: WindowType,
) -> Result<&'a MemoryWindow, Rule> {
    if mw.is_null() {
        return Err(Rule::NullPointer { what: Field::Mw });
    }
    // SAFETY: as promised by the caller.
    let Some(window) = (unsafe { live::<MemoryWindow>(mw) }) else {
        return Err(Rule::BadHandle { kind: ObjectKind::Mw, handle: 0 });
    };
    same_device(object, window.0.context(), ObjectKind::Mw, window.0.handle())?;
    let given = window.0.kind();
    if given == needs {
        Ok(window)
    } else {
        Err(Rule::MwTypeMismatch { given: given as u8, needs: needs as u8 })
    }
}

fn same_device(object: &QueuePair, context: &Context, kind: ObjectKind, handle: u32) -> Result<(), Rule> {
    if context.is(object.qp.context()) { Ok(()) } else { Err(Rule::OtherContext { kind, handle }) }
}

/// # Safety
/// The region of `info` is null or was one.
unsafe fn bind_info(
    object: &QueuePair,
    window: &MemoryWindow,
    rkey: u32,
    info: &ibv_mw_bind_info,
) -> Result<BindWindow, Rule> {
    let region = if info.mr.is_null() {
        if info.addr != 0 || info.length != 0 {
            return Err(Rule::NullPointer { what: Field::Mr });
        }
        0
    } else {
        // SAFETY: as promised by the caller.
        let Some(region) = (unsafe { live::<Region>(info.mr) }) else {
            return Err(Rule::BadHandle { kind: ObjectKind::Mr, handle: 0 });
        };
        same_device(object, region.mr.context(), ObjectKind::Mr, region.mr.handle())?;
        region.mr.handle()
    };
    let access = access(info.mw_access_flags)?;
    Ok(BindWindow { window: window.0.handle(), rkey, region, addr: info.addr, length: info.length, access })
}

/// The rights of a window: those of peers, and whether its addresses begin with 0. Local ones say nothing.
fn access(bits: c_uint) -> Result<AccessFlags, Rule> {
    let known = AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_ATOMIC
        | AccessFlags::ZERO_BASED;
    let unknown = bits & !known.bits();
    if unknown != 0 {
        return Err(Rule::UnknownBits { what: Field::Access, bits: unknown.into() });
    }
    Ok(AccessFlags::from_bits_truncate(bits))
}

/// What a posted bind asks for (`IBV_WR_BIND_MW`, `ibv_wr_bind_mw`): of a window of type 2.
///
/// # Safety
/// `mw` and the region of `info` are null or were such objects; `info` is null or readable.
pub(crate) unsafe fn posted(
    object: &QueuePair,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) -> Result<BindWindow, Rule> {
    // SAFETY: as promised by the caller.
    unsafe {
        let window = window(object, mw, WindowType::Two)?;
        let info = info.as_ref().ok_or(Rule::NullPointer { what: Field::MwBindInfo })?;
        bind_info(object, window, rkey, info)
    }
}
