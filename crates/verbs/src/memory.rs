//! Protection domains and what belongs to them: memory regions and windows, address handles.

use std::sync::atomic::{AtomicBool, Ordering};

use glassnic_events::{Call, Refusal, Rule};
use glassnic_host::sys;
use glassnic_nic::Registered;
use glassnic_nic::window::{WindowType, Windowed};
use glassnic_transport::attr::{AccessFlags, AddressVector};

use crate::context::Context;
use crate::gone;
use crate::qp::{Qp, QpInit};

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
            glassnic_nic::mr::Mr { pd: self.handle, iova, length, host: addr, access, invalidated: false };
        let made = self.context.nic.creating(|nic, _, now| nic.reg_mr(mr, now));
        let registered = made.unwrap_or_else(|| Err(gone(Call::RegMr)))?;
        Ok(Mr { context: self.context.clone(), registered, destroyed: AtomicBool::new(false) })
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
destroyed_when_dropped!(Pd, Mr, Mw, Ah);
