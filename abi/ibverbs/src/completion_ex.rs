//! The polling interface of one completion at a time: `ibv_create_cq_ex(3)`.

use crate::answer::{Errno, broken, failed, overran, pointer};
use crate::completion::{Asked, CompletionQueue, create, imm_data};
use crate::layout::*;
use crate::store::{live, no_object};
use core::ffi::{c_int, c_uint};
use core::ptr;
use glassnic_verbs::Cqe;
use glassnic_verbs::events::{Call, Field, Rule, WcStatus};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What can be read of a completion. There is no VLAN, flow tag or tag matching here.
const HAVE: u64 = IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// The operation `create_cq_ex`.
///
/// # Safety
/// `attr` is null or valid.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    let call = Call::CreateCqEx;
    // SAFETY: as promised by the caller.
    let Some(attr) = (unsafe { attr.as_ref() }) else {
        return pointer(Err(broken(call, Rule::NullPointer { what: Field::Attr })));
    };
    let asked = Asked {
        cqe: attr.cqe.into(),
        cq_context: attr.cq_context,
        channel: attr.channel,
        comp_vector: attr.comp_vector.into(),
        parent_domain: parent_domain(attr),
        ignore_overrun: flags(attr) & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
    };
    let made = check(call, attr).and_then(|()| create(call, context, &asked));
    // The struct that C sees is the beginning of the extended one.
    pointer(made).cast()
}

/// `flags`, where `comp_mask` says that they are there.
fn flags(attr: &ibv_cq_init_attr_ex) -> u32 {
    if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS == 0 { 0 } else { attr.flags }
}

/// `parent_domain`, where `comp_mask` says that it is there.
fn parent_domain(attr: &ibv_cq_init_attr_ex) -> *mut ibv_pd {
    if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD == 0 { ptr::null_mut() } else { attr.parent_domain }
}

fn check(call: Call, attr: &ibv_cq_init_attr_ex) -> Result<(), Errno> {
    let unknown = attr.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD);
    if unknown != 0 {
        return Err(broken(call, Rule::UnknownBits { what: Field::CompMask, bits: unknown.into() }));
    }
    let missing = attr.wc_flags & !HAVE;
    if missing != 0 {
        return Err(broken(call, Rule::NotSupported { what: Field::WcFlags, value: missing }));
    }
    // One thread at a time is a promise of the program that costs us nothing to ignore.
    let known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    let missing = flags(attr) & !known;
    if missing != 0 {
        return Err(broken(call, Rule::NotSupported { what: Field::Flags, value: missing.into() }));
    }
    if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0 && attr.parent_domain.is_null() {
        return Err(broken(call, Rule::NullPointer { what: Field::ParentDomain }));
    }
    Ok(())
}

/// The queue behind a pointer from C, and that pointer as the plain struct's.
///
/// # Safety
/// `cq` is null or was a CQ.
unsafe fn queue<'a>(cq: *mut ibv_cq_ex) -> Option<&'a CompletionQueue> {
    // SAFETY: as promised by the caller.
    unsafe { live::<CompletionQueue>(cq.cast()) }
}

/// Takes the next completion; `ENOENT` if there is none.
///
/// # Safety
/// `cq` is null or was a CQ, and no other thread polls it.
unsafe fn advance(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(object) = (unsafe { queue(cq) }) else {
        return no_object::<CompletionQueue>(Call::PollCq, cq.is_null()).0;
    };
    let mut fails = None;
    let taken = object.cq.poll(1, |cqe| {
        fails = (cqe.completion.status != WcStatus::Success).then_some(cqe.completion.qpn.value());
        // SAFETY: one thread at a time; C reads these two fields of a live object's struct.
        unsafe {
            *object.current.get() = *cqe;
            (*cq).wr_id = cqe.completion.wr_id;
            (*cq).status = cqe.completion.status.value();
        }
    });
    if let Some(qpn) = fails {
        failed(object.cq.context(), qpn);
    }
    match taken {
        0 if object.cq.is_overrun() => {
            overran(object.cq.context());
            libc::EIO
        }
        0 => libc::ENOENT,
        _ => 0,
    }
}

/// # Safety
/// `cq` is null or was a CQ; `attr` is null or readable.
pub(crate) unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: as promised by the caller.
    let mask = unsafe { attr.as_ref() }.map_or(0, |attr| attr.comp_mask);
    if mask != 0 {
        return broken(Call::PollCq, Rule::UnknownBits { what: Field::CompMask, bits: mask.into() }).0;
    }
    // SAFETY: as promised by the caller.
    unsafe { advance(cq) }
}

/// # Safety
/// As [`start_poll`].
pub(crate) unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { advance(cq) }
}

/// Ends polling. Each completion was taken as it was read, so nothing is left to do.
pub(crate) unsafe extern "C" fn end_poll(_cq: *mut ibv_cq_ex) {}

/// Functions that read something of the current completion; zero for a CQ that is none.
macro_rules! readers {
    ($($(#[$doc:meta])* fn $name:ident -> $ty:ty = |$cqe:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `cq` is null or was a CQ, and no other thread polls it.
        pub(crate) unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $ty {
            // SAFETY: as promised by the caller.
            let Some(object) = (unsafe { queue(cq) }) else { return 0 };
            // SAFETY: one thread at a time.
            let $cqe: &Cqe = unsafe { &*object.current.get() };
            $value
        }
    )*};
}

readers! {
    fn read_opcode -> ibv_wc_opcode = |cqe| cqe.completion.opcode.value();
    fn read_vendor_err -> u32 = |cqe| cqe.completion.vendor_err;
    fn read_byte_len -> u32 = |cqe| cqe.completion.byte_len;
    fn read_imm_data -> u32 = |cqe| imm_data(cqe);
    fn read_qp_num -> u32 = |cqe| cqe.completion.qpn.value();
    fn read_src_qp -> u32 = |cqe| cqe.completion.src_qp.value();
    fn read_wc_flags -> c_uint = |cqe| wc_flags(cqe);
    fn read_sl -> u8 = |cqe| cqe.completion.sl;
    /// Nanoseconds on the clock of `ibv_query_rt_values_ex`.
    fn read_completion_ts -> u64 = |cqe| cqe.timestamp_ns;
    /// Nanoseconds since 1970.
    fn read_completion_wallclock_ns -> u64 = |cqe| wallclock(cqe.timestamp_ns);
}

fn wc_flags(cqe: &Cqe) -> c_uint {
    if cqe.completion.status == WcStatus::Success { cqe.completion.flags.bits() } else { 0 }
}

fn wallclock(timestamp_ns: u64) -> u64 {
    let age = Duration::from_nanos(glassnic_verbs::now_ns().saturating_sub(timestamp_ns));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.saturating_sub(age).as_nanos().try_into().unwrap_or(u64::MAX)
}
