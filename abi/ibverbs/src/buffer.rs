//! Memory that the library allocates for a program to register: `ibv_alloc_buf(3)` of newer libraries.

use crate::answer::{Errno, broken, not_made, pointer, refused};
use crate::layout::*;
use crate::memory::{Domain, Region, access_flags};
use crate::store::given;
use core::ffi::{c_int, c_void};
use core::ptr;
use glassnic_verbs::Buffer;
use glassnic_verbs::events::{Call, Field, Rule};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The buffers that live, by handle. A handle is the address of the buffer, which C is told to take for nothing.
static BUFFERS: Mutex<BTreeMap<usize, (Arc<Buffer>, u32)>> = Mutex::new(BTreeMap::new());

fn buffers() -> MutexGuard<'static, BTreeMap<usize, (Arc<Buffer>, u32)>> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates `size` bytes, which begin at a page; their address, and a handle.
///
/// # Safety
/// `pd` is null or was a protection domain; `handle` is null or writable.
pub(crate) unsafe extern "C" fn ibv_alloc_buf(
    pd: *mut ibv_pd,
    size: usize,
    handle: *mut *mut c_void,
) -> *mut c_void {
    let call = Call::AllocBuf;
    pointer(given::<Domain>(call, pd).and_then(|domain| {
        if handle.is_null() {
            return Err(broken(call, Rule::NullPointer { what: Field::Buf }));
        }
        let made = Buffer::alloc(domain.0.context(), size as u64);
        let buffer = made.map_err(|refusal| not_made(domain.0.context(), &refusal))?;
        let addr = buffer.addr() as usize;
        buffers().insert(addr, (Arc::new(buffer), domain.0.handle()));
        let start = ptr::with_exposed_provenance_mut(addr);
        // SAFETY: as promised by the caller, and not null.
        unsafe { handle.write(start) };
        Ok(start)
    }))
}

/// Frees a buffer; regions on it keep its memory.
pub(crate) extern "C" fn ibv_free_buf(handle: *mut c_void) {
    buffers().remove(&handle.addr());
}

/// Registers a part of a buffer, in the protection domain that it was allocated for.
///
/// # Safety
/// `pd` is null or was a protection domain.
pub(crate) unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    handle: *mut c_void,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let call = Call::RegBufMr;
    pointer(given::<Domain>(call, pd).and_then(|domain| {
        let context = domain.0.context();
        let (buffer, of_pd) = found(call, handle)?;
        if of_pd != domain.0.handle() {
            let rule = Rule::Conflict { what: Field::Pd, with: Field::Buf };
            return Err(refused(&context.refuse(call, None, rule)));
        }
        let access = access_flags(call, context, access.cast_unsigned())?;
        let made = domain.0.reg_buf_mr(&buffer, addr.expose_provenance() as u64, length as u64, access);
        let mr = made.map_err(|refusal| not_made(context, &refusal))?;
        Ok(Region::give(mr, pd, &domain, addr, length))
    }))
}

fn found(call: Call, handle: *mut c_void) -> Result<(Arc<Buffer>, u32), Errno> {
    let found = buffers().get(&handle.addr()).cloned();
    found.ok_or_else(|| {
        let (what, offered) = (Field::Buf, handle.addr() as u64);
        broken(
            call,
            if handle.is_null() {
                Rule::NullPointer { what }
            } else {
                Rule::UnknownValue { what, value: offered }
            },
        )
    })
}
