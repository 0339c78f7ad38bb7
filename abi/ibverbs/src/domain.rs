//! Thread domains and parent domains: `ibv_alloc_td(3)`, `ibv_alloc_parent_domain(3)`.
//!
//! A thread domain is a promise that costs nothing here: queues have a lock each, and nobody else's. A parent domain is a protection
//! domain under another name, with the program's allocator beside it. Queues live in the NIC's own memory, where no device reads
//! them by DMA, so what the allocator gives for a queue is kept with the object, for as long as it lives, and is not written to.

use crate::answer::{Errno, broken, code, pointer};
use crate::context::{Opened, opened};
use crate::layout::*;
use crate::memory::Domain;
use crate::store::{Held, Object, Store, given, taken};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use glassnic_verbs::events::{Call, Field, ObjectKind, Rule};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread domain.
pub(crate) struct ThreadDomain {
    opened: Held<Opened>,
    users: AtomicU32,
}

impl Object for ThreadDomain {
    type Public = ibv_td;
    type Seen = ibv_td;
    const TAG: u64 = 0x676c_6173_735f_7464;
    const KIND: ObjectKind = ObjectKind::Td;
    const FIELD: Field = Field::Td;

    fn store() -> &'static Store<Self> {
        static STORE: Store<ThreadDomain> = Store::new();
        &STORE
    }
}

/// The operation `alloc_td`.
///
/// # Safety
/// `attr` is null or readable.
pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    let call = Call::AllocTd;
    pointer(opened(call, context).and_then(|opened| {
        // SAFETY: as promised by the caller.
        let Some(attr) = (unsafe { attr.as_ref() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::InitAttr }));
        };
        if attr.comp_mask != 0 {
            let bits = attr.comp_mask.into();
            return Err(broken(call, Rule::UnknownBits { what: Field::CompMask, bits }));
        }
        let domain = ThreadDomain { opened, users: AtomicU32::new(0) };
        Ok(ThreadDomain::store().insert(ibv_td { context }, domain))
    }))
}

/// The operation `dealloc_td`; `EBUSY` while a parent domain has it.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    let call = Call::DeallocTd;
    code(given::<ThreadDomain>(call, td).and_then(|domain| {
        let count = domain.users.load(Ordering::SeqCst);
        if count > 0 {
            let (kind, by_kind) = (ObjectKind::Td, ObjectKind::ParentDomain);
            return Err(broken(call, Rule::InUse { kind, handle: 0, by_kind, count }));
        }
        taken::<ThreadDomain>(call, td).map(drop)
    }))
}

type Allocate = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void;
type Release = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64);

/// `IBV_ALLOCATOR_USE_DEFAULT`: the callee shall allocate the buffer itself.
const USE_DEFAULT: usize = usize::MAX;
/// Buffers of queues begin on a page.
const ALIGNMENT: usize = 4096;

/// What a parent domain has beside the protection domain.
pub(crate) struct Parent {
    thread: Option<Held<ThreadDomain>>,
    allocator: Option<(Allocate, Release)>,
    pd_context: *mut c_void,
    /// Queues that were made with it.
    users: AtomicU32,
}

// SAFETY: the context pointer is the program's own and only given back to its functions.
unsafe impl Send for Parent {}
// SAFETY: as above; nothing changes it.
unsafe impl Sync for Parent {}

impl Drop for Parent {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.users.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Parent {
    /// # Errors
    /// `EBUSY` while a queue that was made with it is there.
    pub(crate) fn check_unused(&self, call: Call, handle: u32) -> Result<(), Errno> {
        match self.users.load(Ordering::SeqCst) {
            0 => Ok(()),
            count => {
                let (kind, by_kind) = (ObjectKind::ParentDomain, ObjectKind::Qp);
                Err(broken(call, Rule::InUse { kind, handle, by_kind, count }))
            }
        }
    }
}

/// The operation `alloc_parent_domain`.
///
/// # Safety
/// `attr` is null or valid.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    let call = Call::AllocParentDomain;
    pointer(opened(call, context).and_then(|opened| {
        // SAFETY: as promised by the caller.
        let Some(attr) = (unsafe { attr.as_ref() }) else {
            return Err(broken(call, Rule::NullPointer { what: Field::InitAttr }));
        };
        let known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
        let unknown = attr.comp_mask & !known;
        if unknown != 0 {
            return Err(broken(call, Rule::UnknownBits { what: Field::CompMask, bits: unknown.into() }));
        }
        let has = |bit| attr.comp_mask & bit != 0;
        let domain = given::<Domain>(call, attr.pd)?;
        if !domain.0.context().is(&opened.context) {
            let rule = Rule::OtherContext { kind: ObjectKind::Pd, handle: domain.0.handle() };
            return Err(broken(call, rule));
        }
        let thread = if attr.td.is_null() { None } else { Some(given::<ThreadDomain>(call, attr.td)?) };
        if thread.as_ref().is_some_and(|thread| !thread.opened.context.is(&opened.context)) {
            return Err(broken(call, Rule::OtherContext { kind: ObjectKind::Td, handle: 0 }));
        }
        let allocator = match (has(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS), attr.alloc, attr.free) {
            (false, ..) => None,
            (true, Some(alloc), Some(free)) => Some((alloc, free)),
            (true, ..) => return Err(broken(call, Rule::NullPointer { what: Field::Allocator })),
        };
        let pd_context = match has(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) {
            true => attr.pd_context,
            false => core::ptr::null_mut(),
        };
        if let Some(thread) = &thread {
            thread.users.fetch_add(1, Ordering::SeqCst);
        }
        let parent = Parent { thread, allocator, pd_context, users: AtomicU32::new(0) };
        let public = ibv_pd { context, handle: domain.0.handle() };
        Ok(Domain::store().insert(public, Domain(domain.0.clone(), Some(Box::new(parent)))))
    }))
}

/// What a buffer is for, as the program's allocator is told: the driver (none that Linux knows) in the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Resource {
    /// The queues of a QP.
    Qp = 1,
    /// A completion queue.
    Cq = 2,
    /// A shared receive queue.
    Srq = 3,
}

/// A queue's place in a parent domain: what the program's allocator gave for it goes back when this is dropped.
pub(crate) struct Placed {
    domain: Held<Domain>,
    pd: *mut ibv_pd,
    resource: Resource,
    buffer: *mut c_void,
}

// SAFETY: the pointers are the program's own and only given back to its functions.
unsafe impl Send for Placed {}

impl Drop for Placed {
    fn drop(&mut self) {
        let Some(parent) = &self.domain.1 else { return };
        if let Some((_, free)) = parent.allocator
            && !self.buffer.is_null()
        {
            // SAFETY: the program's own function, with what it gave.
            unsafe { free(self.pd, parent.pd_context, self.buffer, self.resource as u64) };
        }
        parent.users.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes the place of a queue of `bytes` in a parent domain; `None` in a plain protection domain.
///
/// # Errors
/// `ENOMEM` if the program's allocator has none.
pub(crate) fn place(
    call: Call,
    domain: &Held<Domain>,
    pd: *mut ibv_pd,
    resource: Resource,
    bytes: usize,
) -> Result<Option<Placed>, Errno> {
    let Some(parent) = &domain.1 else { return Ok(None) };
    parent.users.fetch_add(1, Ordering::SeqCst);
    let mut placed = Placed { domain: domain.clone(), pd, resource, buffer: core::ptr::null_mut() };
    if let Some((alloc, _)) = parent.allocator {
        let bytes = bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        // SAFETY: the program's own function, as ibv_alloc_parent_domain(3) says that it is called.
        let buffer = unsafe { alloc(pd, parent.pd_context, bytes, ALIGNMENT, resource as u64) };
        if buffer.is_null() {
            let kind = match resource {
                Resource::Qp => ObjectKind::Qp,
                Resource::Cq => ObjectKind::Cq,
                Resource::Srq => ObjectKind::Srq,
            };
            return Err(broken(call, Rule::NoMemory { kind, bytes: bytes as u64 }));
        }
        if buffer.addr() != USE_DEFAULT {
            placed.buffer = buffer;
        }
    }
    Ok(Some(placed))
}

/// The places of objects that live, by their addresses. Few objects have one, and the others do not look.
static PLACES: Mutex<Option<HashMap<usize, Placed>>> = Mutex::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn places() -> MutexGuard<'static, Option<HashMap<usize, Placed>>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the place of an object, instead of the one that it had.
pub(crate) fn keep<T>(object: *mut T, placed: Option<Placed>) {
    let Some(placed) = placed else { return };
    let before = places().get_or_insert_default().insert(object.addr(), placed);
    if before.is_none() {
        COUNT.fetch_add(1, Ordering::SeqCst);
    }
    // The program's function runs without our lock.
    drop(before);
}

/// An object is gone: what its place had goes back to the program.
pub(crate) fn release<T>(object: *mut T) {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return;
    }
    let gone = places().as_mut().and_then(|places| places.remove(&object.addr()));
    if gone.is_some() {
        COUNT.fetch_sub(1, Ordering::SeqCst);
    }
    drop(gone);
}

/// The parent domain of an object and its pointer, where it has one.
pub(crate) fn place_of<T>(object: *mut T) -> Option<(Held<Domain>, *mut ibv_pd)> {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    places().as_ref()?.get(&object.addr()).map(|placed| (placed.domain.clone(), placed.pd))
}
