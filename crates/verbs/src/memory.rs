//! Protection domains and what belongs to them: memory regions and windows, address handles.

use std::sync::atomic::{AtomicBool, Ordering};

use glassnic_events::{Call, Field, ObjectKind, Refusal, Rule};
use glassnic_host::sys;
use glassnic_host::sys::pages::Pages;
use glassnic_nic::Registered;
use glassnic_nic::mr_commands::{DM_STEP, MrChange};
use glassnic_nic::window::{WindowType, Windowed};
use glassnic_transport::Sge;
use glassnic_transport::attr::{AccessFlags, AddressVector};
use std::sync::Arc;

use crate::context::Context;
use crate::qp::{Qp, QpInit};
use crate::{gone, in_child};

/// A protection domain.
#[derive(Debug)]
pub struct Pd {
    pub(crate) context: Context,
    pub(crate) handle: u32,
    destroyed: AtomicBool,
}

impl Pd {
    pub(crate) fn alloc(context: &Context) -> Result<Self, Refusal> {
        let made = context.nic.creating(|nic, _, now| nic.alloc_pd(now));
        let handle = made.unwrap_or_else(|| Err(gone(Call::AllocPd)))?;
        Ok(Self { context: context.clone(), handle, destroyed: AtomicBool::new(false) })
    }

    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Registers `length` bytes at `addr`, which peers know as `iova` (`ibv_reg_mr(3)`, `ibv_reg_mr_iova(3)`).
    ///
    /// The caller promises that the memory stays mapped until the region is deregistered.
    ///
    /// # Errors
    /// Memory that is not mapped (or not writable, where rights say that it will be written), rights that need
    /// LOCAL_WRITE, `max_mr`.
    pub fn reg_mr(&self, addr: u64, length: u64, iova: u64, access: AccessFlags) -> Result<Mr, Refusal> {
        let writes = access.intersects(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_CHANGES);
        if addr.checked_add(length).is_some()
            && !access.contains(AccessFlags::ON_DEMAND)
            && let Err(rule) = check_mapped(addr, length, writes)
        {
            return Err(self.context.refuse(Call::RegMr, None, rule));
        }
        let mr =
            glassnic_nic::mr::Mr { pd: self.handle, iova, length, host: addr, access, ..Default::default() };
        let made = self.context.nic.creating(|nic, _, now| nic.reg_mr(mr, now));
        let registered = made.unwrap_or_else(|| Err(gone(Call::RegMr)))?;
        Ok(self.owned(registered, access, None))
    }

    fn owned(&self, registered: Registered, access: AccessFlags, dm: Option<Arc<Pages>>) -> Mr {
        let context = self.context.clone();
        Mr { context, registered, access, library_memory: dm, destroyed: AtomicBool::new(false) }
    }

    /// A region that reads as zeros and keeps nothing (`ibv_alloc_null_mr(3)`).
    ///
    /// # Errors
    /// `max_mr`.
    pub fn alloc_null_mr(&self) -> Result<Mr, Refusal> {
        let made = self.context.nic.creating(|nic, _, now| nic.alloc_null_mr(self.handle, now));
        let registered = made.unwrap_or_else(|| Err(gone(Call::AllocNullMr)))?;
        Ok(self.owned(registered, AccessFlags::LOCAL_WRITE, None))
    }

    /// Registers `length` bytes at `addr`, which lie in a buffer; it stays as long (`ibv_reg_buf_mr(3)`).
    ///
    /// # Errors
    /// A range that leaves the buffer; as [`Pd::reg_mr`].
    pub fn reg_buf_mr(
        &self,
        buffer: &Buffer,
        addr: u64,
        length: u64,
        access: AccessFlags,
    ) -> Result<Mr, Refusal> {
        let offset = addr.checked_sub(buffer.addr());
        if offset.and_then(|offset| buffer.pages.at(offset, length)).is_none() {
            return Err(self.context.refuse(Call::RegBufMr, None, Rule::MrRange { addr, len: length }));
        }
        let mut mr = self.reg_mr(addr, length, addr, access)?;
        mr.library_memory = Some(buffer.pages.clone());
        Ok(mr)
    }

    /// Registers `length` bytes of device memory from `offset` on (`ibv_reg_dm_mr(3)`).
    ///
    /// # Errors
    /// A range that leaves the memory, rights without ZERO_BASED, `max_mr`.
    pub fn reg_dm_mr(&self, dm: &Dm, offset: u64, length: u64, access: AccessFlags) -> Result<Mr, Refusal> {
        let range = (dm.pages.addr().wrapping_add(offset), offset, length);
        let (pd, handle) = (self.handle, dm.handle);
        let made = self.context.nic.creating(|nic, _, now| nic.reg_dm_mr(pd, handle, range, access, now));
        let registered = made.unwrap_or_else(|| Err(gone(Call::RegDmMr)))?;
        Ok(self.owned(registered, access, Some(dm.pages.clone())))
    }

    /// Pages in what elements of regions that page on demand stand for (`ibv_advise_mr(3)`): to be read, or to be written.
    /// With `fault` false, pages that are not there stay away;
    /// with `told` false, nobody hears of memory that is not there.
    ///
    /// # Errors
    /// Keys and ranges that are none; memory that is not there.
    pub fn advise_mr(&self, elements: &[Sge], write: bool, fault: bool, told: bool) -> Result<(), Refusal> {
        let found = self.context.nic.command(|nic, _, now| nic.advise_mr(self.handle, elements, write, now));
        for (addr, len) in found.unwrap_or_else(|| Err(gone(Call::AdviseMr)))? {
            if fault
                && let Err(rule) = check_mapped(addr, len, write)
                && told
            {
                return Err(self.context.refuse(Call::AdviseMr, None, rule));
            }
        }
        Ok(())
    }

    /// Allocates a memory window (`ibv_alloc_mw(3)`).
    ///
    /// # Errors
    /// No windows on this device, `max_mw`.
    pub fn alloc_mw(&self, kind: WindowType) -> Result<Mw, Refusal> {
        let made = self.context.nic.creating(|nic, _, now| nic.alloc_mw(self.handle, kind, now));
        let windowed = made.unwrap_or_else(|| Err(gone(Call::AllocMw)))?;
        Ok(Mw { context: self.context.clone(), kind, windowed, destroyed: AtomicBool::new(false) })
    }

    /// Creates a QP (`ibv_create_qp(3)`).
    ///
    /// # Errors
    /// See `ibv_create_qp(3)`.
    pub fn create_qp(&self, init: &QpInit<'_>) -> Result<Qp, Refusal> {
        Qp::create(self, init)
    }

    /// Creates an address handle (`ibv_create_ah(3)`).
    ///
    /// # Errors
    /// No GRH, an empty GID index, `max_ah`.
    pub fn create_ah(&self, av: &AddressVector) -> Result<Ah, Refusal> {
        let made = self.context.nic.creating(|nic, _, now| nic.create_ah(self.handle, av, now));
        let handle = made.unwrap_or_else(|| Err(gone(Call::CreateAh)))?;
        Ok(Ah { context: self.context.clone(), handle, av: *av, destroyed: AtomicBool::new(false) })
    }

    /// Frees it (`ibv_dealloc_pd(3)`).
    ///
    /// # Errors
    /// EBUSY while something belongs to it.
    pub fn destroy(&self) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.dealloc_pd(self.handle, now));
        done.unwrap_or_else(|| Err(gone(Call::DeallocPd)))?;
        self.destroyed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Is the memory there, and can it be written if it must? Populating tells, and takes the faults now.
fn check_mapped(addr: u64, len: u64, writes: bool) -> Result<(), Rule> {
    if sys::populate(addr, len, writes).is_ok() {
        return Ok(());
    }
    if writes && sys::populate(addr, len, false).is_ok() {
        return Err(Rule::MemoryNotWritable { addr, len });
    }
    Err(Rule::MemoryNotMapped { addr, len })
}

/// A memory region.
#[derive(Debug)]
pub struct Mr {
    context: Context,
    registered: Registered,
    access: AccessFlags,
    /// What it lies in, where that is memory of the library: it stays as long.
    library_memory: Option<Arc<Pages>>,
    destroyed: AtomicBool,
}

impl Mr {
    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.registered.handle
    }

    /// L_Key, for scatter/gather elements.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.registered.lkey
    }

    /// R_Key, for peers.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.registered.rkey
    }

    /// The rights that it was registered with.
    #[must_use]
    pub fn access(&self) -> AccessFlags {
        self.access
    }

    /// Changes where it lies, its protection domain and its rights, or some of these; its keys stay (`ibv_rereg_mr(3)`). A refusal
    /// changes nothing. `access` are the rights that it has then.
    ///
    /// # Errors
    /// As [`Pd::reg_mr`]; EBUSY while a window is bound to it; null regions and device memory are what they are.
    pub fn rereg(&self, change: &MrChange, access: AccessFlags) -> Result<(), Refusal> {
        let writes = access.intersects(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_CHANGES);
        if let Some((addr, length)) = change.translation
            && addr.checked_add(length).is_some()
            && !access.contains(AccessFlags::ON_DEMAND)
            && let Err(rule) = check_mapped(addr, length, writes)
        {
            return Err(self.context.refuse(Call::ReregMr, None, rule));
        }
        let handle = self.registered.handle;
        let done = self.context.nic.command(|nic, _, now| nic.rereg_mr(handle, change, now));
        done.unwrap_or_else(|| Err(gone(Call::ReregMr)))
    }

    /// Deregisters it (`ibv_dereg_mr(3)`).
    ///
    /// # Errors
    /// EBUSY while a window is bound to it; it was destroyed before.
    pub fn destroy(&self) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.dereg_mr(self.registered.handle, now));
        done.unwrap_or_else(|| Err(gone(Call::DeregMr)))?;
        self.destroyed.store(true, Ordering::Release);
        Ok(())
    }
}

/// A memory window. It is bound by a request on a queue pair: [`glassnic_transport::SendRequest::bind`].
#[derive(Debug)]
pub struct Mw {
    context: Context,
    kind: WindowType,
    windowed: Windowed,
    destroyed: AtomicBool,
}

impl Mw {
    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.windowed.handle
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> WindowType {
        self.kind
    }

    /// The R_Key that it began with; a bind may change the low eight bits.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        self.windowed.rkey
    }

    /// Frees it, bound or not (`ibv_dealloc_mw(3)`).
    ///
    /// # Errors
    /// It was destroyed before.
    pub fn destroy(&self) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.dealloc_mw(self.windowed.handle, now));
        done.unwrap_or_else(|| Err(gone(Call::DeallocMw)))?;
        self.destroyed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Device memory (`ibv_alloc_dm(3)`): a piece that programs reach by copying and by regions alone.
#[derive(Debug)]
pub struct Dm {
    context: Context,
    handle: u32,
    length: u64,
    pages: Arc<Pages>,
    destroyed: AtomicBool,
}

impl Dm {
    pub(crate) fn alloc(context: &Context, length: u64) -> Result<Self, Refusal> {
        if in_child().is_some() {
            return Self::of_child(context, length);
        }
        let made = context.nic.creating(|nic, _, now| nic.alloc_dm(length, now));
        let handle = made.unwrap_or_else(|| Err(gone(Call::AllocDm)))?;
        let Ok(pages) = Pages::map(length as usize) else {
            let _ = context.nic.command(|nic, _, now| nic.free_dm(handle, now));
            let rule = Rule::NoMemory { kind: ObjectKind::Dm, bytes: length };
            return Err(context.refuse(Call::AllocDm, None, rule));
        };
        let (context, pages) = (context.clone(), Arc::new(pages));
        Ok(Self { context, handle, length, pages, destroyed: AtomicBool::new(false) })
    }

    /// What a forked child takes is its own: to be copied to and from, and never registered, since its parent's device is out of
    /// its reach. Its handle is 0, which the device never gives.
    fn of_child(context: &Context, length: u64) -> Result<Self, Refusal> {
        let refuse = |rule| Err(Refusal::new(Call::AllocDm, rule));
        let (what, limit) = (Field::Length, context.limits().max_dm_size);
        if length == 0 || length > limit {
            return refuse(Rule::OutOfRange { what, offered: length, min: 1, max: limit });
        }
        let Ok(pages) = Pages::map(length as usize) else {
            return refuse(Rule::NoMemory { kind: ObjectKind::Dm, bytes: length });
        };
        let (context, pages) = (context.clone(), Arc::new(pages));
        Ok(Self { context, handle: 0, length, pages, destroyed: AtomicBool::new(false) })
    }

    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Copies to it, `offset` bytes from its start (`ibv_memcpy_to_dm`).
    ///
    /// # Errors
    /// Offset or length that are no multiple of 4, a range that leaves the memory.
    pub fn copy_in(&self, offset: u64, from: &[u8]) -> Result<(), Refusal> {
        sys::copy_in(self.place(offset, from.len() as u64)?, from);
        Ok(())
    }

    /// Copies from it.
    ///
    /// # Errors
    /// As [`Dm::copy_in`].
    pub fn copy_out(&self, offset: u64, to: &mut [u8]) -> Result<(), Refusal> {
        sys::copy_out(self.place(offset, to.len() as u64)?, to);
        Ok(())
    }

    fn place(&self, offset: u64, len: u64) -> Result<u64, Refusal> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.length);
        let refuse = |rule| self.context.refuse(Call::MemcpyDm, None, rule);
        let crooked = [(Field::DmOffset, offset), (Field::Length, len)];
        if let Some((what, value)) = crooked.into_iter().find(|(_, value)| !value.is_multiple_of(DM_STEP)) {
            return Err(refuse(Rule::NotMultiple { what, offered: value, of: DM_STEP }));
        }
        let place = self.pages.at(offset, len).filter(|_| inside);
        place.ok_or_else(|| refuse(Rule::MemoryNotMapped { addr: offset, len }))
    }

    /// Gives it back (`ibv_free_dm(3)`).
    ///
    /// # Errors
    /// EBUSY while a region is on it; it was destroyed before.
    pub fn destroy(&self) -> Result<(), Refusal> {
        if self.handle != 0 {
            let done = self.context.nic.command(|nic, _, now| nic.free_dm(self.handle, now));
            done.unwrap_or_else(|| Err(gone(Call::FreeDm)))?;
        }
        self.destroyed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Memory for regions, allocated by the library (`ibv_alloc_buf(3)`).
#[derive(Debug)]
pub struct Buffer {
    pages: Arc<Pages>,
}

impl Buffer {
    /// A buffer of `length` bytes, zeroed, which begins at a page.
    ///
    /// # Errors
    /// No bytes, or no memory.
    pub fn alloc(context: &Context, length: u64) -> Result<Self, Refusal> {
        if length == 0 {
            return Err(context.refuse(Call::AllocBuf, None, Rule::ZeroLength { what: Field::Length }));
        }
        match Pages::map(length as usize) {
            Ok(pages) => Ok(Self { pages: Arc::new(pages) }),
            Err(_) => {
                let rule = Rule::NoMemory { kind: ObjectKind::Mr, bytes: length };
                Err(context.refuse(Call::AllocBuf, None, rule))
            }
        }
    }

    /// Address of its first byte.
    #[must_use]
    pub fn addr(&self) -> u64 {
        self.pages.addr()
    }
}

/// An address handle.
#[derive(Debug)]
pub struct Ah {
    context: Context,
    handle: u32,
    av: AddressVector,
    destroyed: AtomicBool,
}

impl Ah {
    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The address.
    #[must_use]
    pub fn vector(&self) -> &AddressVector {
        &self.av
    }

    /// Destroys it (`ibv_destroy_ah(3)`).
    ///
    /// # Errors
    /// It was destroyed before.
    pub fn destroy(&self) -> Result<(), Refusal> {
        let done = self.context.nic.command(|nic, _, now| nic.destroy_ah(self.handle, now));
        done.unwrap_or_else(|| Err(gone(Call::DestroyAh)))?;
        self.destroyed.store(true, Ordering::Release);
        Ok(())
    }
}

macro_rules! destroyed_when_dropped {
    ($($object:ty),*) => {$(
        impl Drop for $object {
            fn drop(&mut self) {
                if !self.destroyed.load(Ordering::Acquire) {
                    let _ = self.destroy();
                }
            }
        }
    )*};
}
destroyed_when_dropped!(Pd, Mr, Mw, Dm, Ah);
