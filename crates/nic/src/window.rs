//! Memory windows: keys of their own for a part of a region (`ibv_alloc_mw(3)`, `ibv_bind_mw(3)`; IBA 10.6.7).
//!
//! A window of type 1 is free for every queue pair of its protection domain, and gets a new key with each bind. One of type 2
//! serves the queue pair alone that bound it, its owner chooses the low eight bits of its key, and it has to be invalidated
//! before it is bound again. 2A and 2B differ in what is compared: the queue pair, or its protection domain as well.

use glassnic_events::{Call, Check, ObjectKind, Refusal, Region, Rule};
use glassnic_transport::attr::AccessFlags;
use glassnic_transport::{BindWindow, KeyFault, RemoteAccess};
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::AllocMw;

use crate::context::ContextMemory;
use crate::device::Nic;
use crate::key::KeyKind;
use crate::mr::{self, Mr, MrTable};
use crate::object::{self, Image, Kind};
use crate::table::Table;

/// The type of a window. Numbers of `enum ibv_mw_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WindowType {
    /// For all queue pairs of a protection domain.
    One = 1,
    /// For the queue pair that binds it.
    Two = 2,
}

/// A window that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windowed {
    /// Its handle.
    pub handle: u32,
    /// Its first R_Key, which opens nothing before a bind.
    pub rkey: u32,
}

/// The part of a region that a window opens.
#[derive(Clone, Copy, Debug)]
struct Bound {
    region: u32,
    addr: u64,
    length: u64,
    access: AccessFlags,
    /// Of type 2: through which queue pair.
    qpn: u32,
}

/// A window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub pd: u32,
    kind: WindowType,
    rkey: u32,
    bound: Option<Bound>,
}

/// The windows of a device.
#[derive(Debug)]
pub(crate) struct Windows {
    table: Table<Window>,
    /// Type 2 is 2A: its queue pair alone is compared.
    two_a: bool,
}

impl Windows {
    pub(crate) fn new(limit: u32, two_a: bool) -> Self {
        Self { table: Table::new(limit), two_a }
    }
}

impl MrTable {
    fn alloc_window(&mut self, pd: u32, kind: WindowType) -> Option<Windowed> {
        let window = Window { pd, kind, rkey: 0, bound: None };
        let handle = self.windows.table.insert(window)?;
        let rkey = self.codec.encode(handle, KeyKind::Window);
        if let Some(window) = self.windows.table.get_mut(handle) {
            window.rkey = rkey;
        }
        Some(Windowed { handle, rkey })
    }

    fn free_window(&mut self, handle: u32) -> Option<Window> {
        self.unbind(handle);
        self.windows.table.remove(handle)
    }

    /// A window is bound to nothing any more.
    fn unbind(&mut self, handle: u32) {
        if let Some(bound) = self.windows.table.get_mut(handle).and_then(|window| window.bound.take()) {
            self.count_window(bound.region, false);
        }
    }

    /// The window that a key names by its upper 24 bits.
    fn window_of(&self, key: u32) -> Option<(u32, &Window)> {
        let found = self.codec.decode(key).filter(|found| found.kind == KeyKind::Window)?;
        self.windows.table.at(found.index).filter(|(handle, _)| found.is_near(*handle))
    }

    /// The window whose key this is, bound or not.
    fn window(&self, key: u32) -> Result<(u32, &Window), KeyFault> {
        let (handle, window) = self.window_of(key).ok_or(KeyFault::NoSuchKey)?;
        // Another key of the same window is one that it had before its last bind.
        if window.rkey == key { Ok((handle, window)) } else { Err(KeyFault::Invalidated) }
    }

    /// Checks a remote access through a window; the caller knows that the key is one of a window.
    pub(crate) fn through_window(
        &self,
        pd: u32,
        qpn: u32,
        rkey: u32,
        (addr, len): (u64, u64),
        access: RemoteAccess,
    ) -> Result<u64, KeyFault> {
        let (_, window) = self.window(rkey)?;
        let bound = window.bound.as_ref().ok_or(KeyFault::Unbound)?;
        self.check_owner(window, bound, pd, qpn)?;
        if !bound.access.contains(mr::right(access)) {
            return Err(KeyFault::NoRight);
        }
        let start = if bound.access.contains(AccessFlags::ZERO_BASED) { 0 } else { bound.addr };
        let offset = addr.checked_sub(start).ok_or(KeyFault::OutOfBounds)?;
        if offset.checked_add(len).is_none_or(|end| end > bound.length) {
            return Err(KeyFault::OutOfBounds);
        }
        let region = self.get(bound.region).ok_or(KeyFault::Invalidated)?;
        region.at(bound.addr.wrapping_add(offset), len)
    }

    /// Type 1 goes by the protection domain, 2A by the queue pair, 2B by both (IBA 10.6.7.2).
    fn check_owner(&self, window: &Window, bound: &Bound, pd: u32, qpn: u32) -> Result<(), KeyFault> {
        let by_qp = window.kind == WindowType::Two;
        if by_qp && bound.qpn != qpn {
            return Err(KeyFault::OtherQp);
        }
        if window.pd != pd && !(by_qp && self.windows.two_a) {
            return Err(KeyFault::OtherPd);
        }
        Ok(())
    }

    /// What stands behind a window's key.
    pub(crate) fn seen_through(&self, key: u32) -> Option<Region> {
        let (_, window) = self.window_of(key)?;
        let bound = window.bound?;
        let start = if bound.access.contains(AccessFlags::ZERO_BASED) { 0 } else { bound.addr };
        let (len, access) = (bound.length, bound.access.bits());
        Some(Region { start, len, access, pd: window.pd, other_key: false })
    }

    /// Binds a window at the request of a queue pair: its handle, for whoever shows it.
    ///
    /// # Errors
    /// The first check that failed; then nothing has changed.
    pub(crate) fn bind(&mut self, pd: u32, qpn: u32, bind: &BindWindow) -> Result<(), Check> {
        let window = *self.windows.table.get(bind.window).ok_or(Check::MwBind)?;
        if window.pd != pd {
            return Err(Check::MwBindPd);
        }
        if (window.rkey ^ bind.rkey) & !0xff != 0 {
            return Err(Check::MwBind);
        }
        let unbinds = bind.length == 0;
        if window.kind == WindowType::Two {
            // A window of type 2 is set free by an invalidation alone (IBA o10-37.2.30, o10-37.2.40).
            if window.bound.is_some() || unbinds {
                return Err(Check::MwBound);
            }
        } else if bind.access.contains(AccessFlags::ZERO_BASED) {
            return Err(Check::MwBind);
        }
        if !unbinds {
            let region = self.get(bind.region).ok_or(Check::MwBind)?;
            check_region(region, pd, bind)?;
        }
        self.unbind(bind.window);
        let Some(window) = self.windows.table.get_mut(bind.window) else { return Err(Check::MwBind) };
        window.rkey = bind.rkey;
        if !unbinds {
            let BindWindow { region, addr, length, access, .. } = *bind;
            window.bound = Some(Bound { region, addr, length, access, qpn });
            self.count_window(bind.region, true);
        }
        Ok(())
    }

    /// Invalidates the key of a bound window of type 2, for the queue pair that bound it; the window's handle.
    ///
    /// # Errors
    /// The first check that failed. A region's keys, and those of windows of type 1, are not invalidated by requests.
    pub(crate) fn invalidate(&mut self, pd: u32, qpn: u32, key: u32) -> Result<u32, KeyFault> {
        if self.codec.decode(key).is_some_and(|found| found.kind != KeyKind::Window) {
            self.find_any(key)?;
            return Err(KeyFault::NotInvalidatable);
        }
        let (handle, window) = self.window(key)?;
        if window.kind == WindowType::One {
            return Err(KeyFault::NotInvalidatable);
        }
        let bound = window.bound.as_ref().ok_or(KeyFault::Unbound)?;
        self.check_owner(window, bound, pd, qpn)?;
        self.unbind(handle);
        Ok(handle)
    }

    /// The queue pair is gone: what was bound through it serves nobody.
    fn unbind_all_of(&mut self, qpn: u32) -> Vec<u32> {
        let of_qp = |window: &Window| {
            window.kind == WindowType::Two && window.bound.is_some_and(|bound| bound.qpn == qpn)
        };
        let handles: Vec<u32> =
            self.windows.table.iter().filter(|(_, window)| of_qp(window)).map(|(handle, _)| handle).collect();
        handles.iter().for_each(|handle| self.unbind(*handle));
        handles
    }

    /// Shows a window to inspectors.
    pub(crate) fn show_window(&self, memory: &ContextMemory, handle: u32) {
        let index = crate::table::index_of(handle);
        let (Some(window), Some(mut image)) =
            (self.windows.table.get(handle), Image::load(memory, Kind::Mw, index))
        else {
            return;
        };
        object::clear(memory, Kind::Mw, handle);
        fill(window, &mut image);
        image.store(memory, Kind::Mw, handle);
    }
}

fn fill(window: &Window, image: &mut Image) {
    use object::Mw;
    image.set(Mw::Rkey, window.rkey.into()).set(Mw::Type, window.kind as u64);
    let bound =
        window.bound.unwrap_or(Bound { region: 0, addr: 0, length: 0, access: AccessFlags::empty(), qpn: 0 });
    image.set(Mw::Region, bound.region.into()).set(Mw::Addr, bound.addr).set(Mw::Length, bound.length);
    let qpn = if window.kind == WindowType::Two { bound.qpn } else { 0 };
    image.set(Mw::Access, bound.access.bits().into()).set(Mw::Qpn, qpn.into());
}

/// What a bind asks of its region (IBA 10.6.7.2.1).
fn check_region(region: &Mr, pd: u32, bind: &BindWindow) -> Result<(), Check> {
    if region.pd != pd {
        return Err(Check::MwBindPd);
    }
    if !region.access.contains(AccessFlags::MW_BIND) {
        return Err(Check::MwBindRight);
    }
    if bind.access.intersects(AccessFlags::REMOTE_CHANGES)
        && !region.access.contains(AccessFlags::LOCAL_WRITE)
    {
        return Err(Check::MwBindLocalWrite);
    }
    region.at(bind.addr, bind.length).map(drop).map_err(|_| Check::MwBindBounds)
}

impl Nic {
    /// Allocates a memory window (`ibv_alloc_mw(3)`).
    ///
    /// # Errors
    /// A device that has stopped, bad PD, no windows on this device, `max_mw`.
    pub fn alloc_mw(&mut self, pd: u32, kind: WindowType, now: u64) -> Result<Windowed, Refusal> {
        let limit = self.limits.max_mw;
        self.check_alloc_mw(pd, kind).map_err(|rule| self.refuse(now, Call::AllocMw, None, rule))?;
        let Some(made) = self.mrs.alloc_window(pd, kind) else {
            let rule = Rule::LimitReached { kind: ObjectKind::Mw, limit: limit.into(), held: limit.into() };
            return Err(self.refuse(now, Call::AllocMw, None, rule));
        };
        if let Some(pd) = self.pds.get_mut(pd) {
            pd.mws += 1;
        }
        let body = AllocMw { mw_type: kind as u8, rkey: made.rkey.into(), ..AllocMw::default() };
        self.ledger.keep(now, CommandOpcode::AllocMw, 0, pd, &body);
        self.ledger.enter(now, Kind::Mw, made.handle, pd, |image| {
            image.set(object::Mw::Rkey, made.rkey.into()).set(object::Mw::Type, kind as u64);
        });
        Ok(made)
    }

    fn check_alloc_mw(&self, pd: u32, kind: WindowType) -> Result<(), Rule> {
        self.runs()?;
        if self.limits.max_mw == 0 {
            return Err(Rule::NotSupported { what: glassnic_events::Field::MwType, value: kind as u64 });
        }
        if self.pds.get(pd).is_none() {
            return Err(Rule::BadHandle { kind: ObjectKind::Pd, handle: pd });
        }
        Ok(())
    }

    /// Frees a memory window, bound or not (`ibv_dealloc_mw(3)`).
    ///
    /// # Errors
    /// Bad handle.
    pub fn dealloc_mw(&mut self, handle: u32, now: u64) -> Result<(), Refusal> {
        let Some(window) = self.mrs.free_window(handle) else {
            let rule = Rule::BadHandle { kind: ObjectKind::Mw, handle };
            return Err(self.refuse(now, Call::DeallocMw, None, rule));
        };
        self.ledger.leave(Kind::Mw, handle);
        if let Some(pd) = self.pds.get_mut(window.pd) {
            pd.mws = pd.mws.saturating_sub(1);
        }
        self.ledger.note(now, CommandOpcode::DeallocMw, handle);
        Ok(())
    }

    /// A queue pair is gone, and with it the way through the windows that it bound.
    pub(crate) fn close_windows_of(&mut self, qpn: u32) {
        if self.mrs.has_windows() {
            for handle in self.mrs.unbind_all_of(qpn) {
                self.mrs.show_window(&self.ledger.memory, handle);
            }
        }
    }
}

impl MrTable {
    fn has_windows(&self) -> bool {
        !self.windows.table.is_empty()
    }
}
